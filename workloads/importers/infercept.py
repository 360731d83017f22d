"""The InferCept mixture of augmented requests, as lengths and durations: 397 requests with 1,841 calls.

Prompts, decode lengths, call durations and what calls return were published with InferCept (ICML 2024). `docs/data.md`
says what each column is, where the data comes from and under which licence.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from kvcore.coarsen import coarsen
from kvcore.cost import Cost
from kvcore.csv_table import MachineFor, Row, Table, build_instance, check_take, check_tick, grouped, read_rows
from kvcore.errors import BadInput
from kvcore.instance import Call, Instance, Machine, Request, Segment
from workloads.arrivals import arrivals

COLUMNS = (
    "request_key",
    "augmentation",
    "segment",
    "initial_prompt_tokens",
    "decode_tokens",
    "api_time_s",
    "api_return_tokens",
)
TICK = Fraction(1, 40)
"""Seconds per decode step: about what InferCept measured for a 6B model on an A100 (27.8 ms at 384 tokens)."""


def read_infercept(
    path: str | Path,
    *,
    take: int | None = None,
    seed: int = 0,
    augmentation: str | None = None,
    rate: Fraction | None = None,
    minutes: Fraction | None = None,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
    machine: Machine | MachineFor | None = None,
) -> Instance:
    """Return the requests of the file as a fine instance: tokens, and ticks of `tick` seconds.

    Every call is `free`. A trailing call is dropped; a return of -2 counts as 0; call times are rounded up to whole
    ticks, because a scheduler sees a return at its next step. With `take`, that many requests are drawn without
    replacement by `random.Random(seed).sample`, in that order; `augmentation` first keeps those of one kind. All
    arrive at tick 0, or, with `rate` (per second), as a Poisson process in the order drawn. With `minutes` as well,
    the process goes on for that long, and each request that arrives is drawn with replacement. `machine` is by
    default `contended_machine` of the requests.

    Raises:
        BadInput: the file is not such a table (with line and column), or an argument is out of range.
    """
    rows = _of_kind(read_rows(path, COLUMNS), augmentation)
    requests = [
        _request(segments, check_tick(tick))
        for segments in grouped(rows, lambda row: row.label("request_key"), "segment", "request")
    ]
    known = _with_unique_ids(requests)
    draw = random.Random(seed)
    if minutes is None:
        count = check_take(take, len(known), f"{augmentation or 'all'} requests in the file")
        chosen = known if take is None and rate is None else draw.sample(known, count)
        when = list(zip(chosen, arrivals(draw, tick, rate=rate), strict=False))
    else:
        when = _drawn_anew(known, take, list(arrivals(draw, tick, rate=rate, minutes=minutes)), draw)
    chosen = [request.replace(arrival=arrival) for request, arrival in when]
    name = f"infercept:{_draw_name(path, take, seed, rate, minutes)}"
    machine = machine or contended_machine
    return build_instance(path, chosen, machine, name=name, tick_seconds=tick, cost=cost)


def _draw_name(path: str | Path, take: int | None, seed: int, rate: Fraction | None, minutes: Fraction | None) -> str:
    if minutes is not None:
        return f"rate={rate},minutes={minutes},seed={seed}"
    return Path(path).name if take is None else f"take={take},seed={seed}"


def contended_machine(requests: Sequence[Request]) -> Machine:
    """Return a machine on which the requests contend: memory for one and a half of the largest contexts.

    The host holds half of one, and a batch takes 64 tokens; prefills are chunked, and KV may be evicted.
    """
    largest = max(request.peak for request in requests)
    return Machine(memory=-(-3 * largest // 2), host_memory=-(-largest // 2), batch_tokens=64, evict=True)


def infercept_slice(
    path: str | Path, k: int, seed: int, direction: str = "restrict", *, evict: bool = False
) -> Instance:
    """Return `k` drawn requests in blocks of 64 tokens and slots of 1.6 s, with free calls, on a contended machine.

    Its memories are those of `contended_machine` for the requests as `restrict` rounds them, in both directions.
    """
    roomy = Machine(memory=None, host_memory=None, batch_tokens=64, evict=evict)
    fine = read_infercept(path, take=k, seed=seed, machine=roomy)
    blocks = contended_machine(coarsen(fine, block_tokens=64, slot_ticks=64, direction="restrict").requests)
    machine = roomy.replace(memory=64 * (blocks.memory or 0), host_memory=64 * (blocks.host_memory or 0))
    coarse = coarsen(fine.replace(machine=machine), block_tokens=64, slot_ticks=64, direction=direction)
    return coarse.replace(name=f"infercept-slice:k={k},seed={seed}" + ",evict=1" * evict)


# --- one request -----------------------------------------------------------------------------------------------------


def _of_kind(rows: Table, augmentation: str | None) -> list[Row]:
    """Return the rows of one augmentation (None: all)."""
    kinds = {row.label("augmentation") for row in rows}
    if augmentation is not None and augmentation not in kinds:
        raise BadInput(f"no request has the augmentation {augmentation!r}; there are {', '.join(sorted(kinds))}")
    return [row for row in rows if augmentation in (None, row.text("augmentation"))]


def _request(rows: Sequence[Row], tick: Fraction) -> Request:
    """Return one request from its rows; a call that ends it is dropped."""
    for k, row in enumerate(rows):
        if k and row.text("initial_prompt_tokens"):
            row.refuse("initial_prompt_tokens", "empty but for segment 0")
    segments = [
        Segment(decode=row.whole("decode_tokens", 1), call=_call(row, tick, last=k == len(rows) - 1))
        for k, row in enumerate(rows)
    ]
    return Request(
        id=f"{rows[0].text('augmentation')}-{rows[0].text('request_key')}",
        prompt=rows[0].whole("initial_prompt_tokens", 1),
        segments=tuple(segments),
    )


def _call(row: Row, tick: Fraction, last: bool) -> Call | None:
    """Return the call that ends a segment; the last segment has none, or one that is dropped."""
    if last and not (row.text("api_time_s") or row.text("api_return_tokens")):
        return None
    duration = row.ticks("api_time_s", row.seconds("api_time_s"), tick)
    returns = max(0, row.whole("api_return_tokens", -2))  # -2 in the data: nothing came back
    return None if last else Call(duration=duration, returns=returns, handling="free")


def _with_unique_ids(requests: Sequence[Request]) -> list[Request]:
    """Shorten the keys in the ids to eight characters where that leaves them different."""
    short = [request.id[: request.id.index("-") + 9] for request in requests]
    if len(set(short)) < len(short):
        return list(requests)
    return [request.replace(id=id) for request, id in zip(requests, short, strict=True)]


def _drawn_anew(
    requests: Sequence[Request], take: int | None, times: Sequence[int], draw: random.Random
) -> list[tuple[Request, int]]:
    """Draw a request with replacement for each arrival, as InferCept's benchmark does; a number makes its id unique."""
    if take is not None:
        raise BadInput("--take draws requests without replacement, --minutes with; give one of them")
    if not times:
        raise BadInput("no request arrives within --minutes; give more minutes, or a higher --rate")
    drawn = enumerate(draw.choices(requests, k=len(times)), 1)
    return [(request.replace(id=f"{request.id}#{k}"), time) for (k, request), time in zip(drawn, times, strict=True)]
