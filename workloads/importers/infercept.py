"""The InferCept mixture of augmented requests, as lengths and durations: 397 requests with 1,841 calls.

Published with InferCept (ICML 2024); columns, source and licence in `docs/data.md`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from kvcore.cost import Cost
from kvcore.csv_table import MachineFor, Row, check_take
from kvcore.errors import BadInput
from kvcore.instance import Instance, Machine, Request
from workloads.arrivals import arrivals
from workloads.coarsen import coarsen
from workloads.importers.reader import Imported, check_meaning, read_requests
from workloads.importers.selection import Column, Selection, TraceLayout

TICK = Fraction(1, 40)  # seconds a decode step: about what InferCept measured for 6B on an A100 (27.8 ms at 384 tokens)


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

    Every call is `free`. A trailing call is dropped; a return of -2 counts as 0; call times are rounded up.
    `augmentation` keeps one kind. With `take`, that many are drawn without replacement by `random.Random(seed).sample`,
    in that order. All arrive at tick 0, or, with `rate` (per second), as a Poisson process; with `minutes` as well, for
    that long, drawn with replacement. The default `machine` is `contended_machine`.

    BadInput: the file is not such a table (with line and column), or an argument is out of range.
    """
    drawn = Selection(sample=take, seed=seed)
    trace = infercept_requests(path, drawn, augmentation=augmentation, rate=rate, minutes=minutes, tick=tick)
    return trace.instance(machine or contended_machine, tick, cost)


def infercept_requests(
    path: str | Path,
    selection: Selection,
    *,
    tick: Fraction,
    augmentation: str | None = None,
    rate: Fraction | None = None,
    minutes: Fraction | None = None,
    machine: Machine | None = None,
) -> Imported:
    """Return requests as `read_infercept` draws them; `skip` and `take` of the selection come before."""
    kinds: dict[str, str] = {}

    def key(row: Row) -> str:
        if row.whole("segment", 0) and row.text("initial_prompt_tokens"):
            row.refuse("initial_prompt_tokens", "empty but for segment 0")
        kinds.setdefault(row.label("request_key"), row.label("augmentation"))
        return row.label("request_key")

    layout = TraceLayout(
        {
            "prompt": Column("initial_prompt_tokens"),
            "decode": Column("decode_tokens"),
            "call": Column("api_time_s"),
            "returns": Column("api_return_tokens"),
        },
        label=key, others=("request_key", "augmentation"), order="segment", least_returns=-2,
    )  # fmt: skip
    check_meaning(selection, timed=False, rate=rate)
    known = list(read_requests(path, layout, kind="infercept", tick=tick, machine=machine).requests)
    if augmentation is not None and augmentation not in kinds.values():
        there = ", ".join(sorted(set(kinds.values())))
        raise BadInput(f"no request has the augmentation {augmentation!r}; there are {there}")
    known = _with_kinds([request for request in known if augmentation in (None, kinds[request.id])], kinds)
    known = [known[k] for k in replace(selection, sample=None).pick([Fraction(0)] * len(known))]
    draw, take = random.Random(selection.seed), selection.sample
    speed = None if rate is None else rate * selection.load
    if minutes is None:
        count = check_take(take, len(known), f"{augmentation or 'all'} requests in the file")
        chosen = known if take is None and rate is None else draw.sample(known, count)
        when = list(zip(chosen, arrivals(draw, tick, rate=speed), strict=False))
    else:
        when = _drawn_anew(known, take, list(arrivals(draw, tick, rate=speed, minutes=minutes)), draw)
    slo = selection.slo(tick)
    chosen = [request.replace(arrival=arrival, slo=slo) for request, arrival in when]
    return Imported(str(path), f"infercept:{_draw_name(path, selection, rate, minutes)}", chosen)


def _draw_name(path: str | Path, selection: Selection, rate: Fraction | None, minutes: Fraction | None) -> str:
    take, seed, others = selection.sample, selection.seed, replace(selection, sample=None, seed=0).words
    if minutes is not None:
        return f"rate={rate},minutes={minutes},seed={seed}{others}"
    return (Path(path).name if take is None else f"take={take},seed={seed}") + others


def contended_machine(requests: Sequence[Request]) -> Machine:
    """Return a machine on which the requests contend: memory for one and a half of the largest contexts.

    The host holds half of one, and a batch takes 64 tokens; prefills are chunked, and KV may be evicted.
    """
    largest = max(request.peak for request in requests)
    return Machine(memory=-(-3 * largest // 2), host_memory=-(-largest // 2), batch_tokens=64, evict=True)


def infercept_slice(path: str | Path, k: int, seed: int, *, evict: bool = False) -> Instance:
    """Return `k` drawn requests in blocks of 64 tokens and slots of 1.6 s, with free calls.

    The machine is `contended_machine` of the rounded requests.
    """
    roomy = Machine(memory=None, host_memory=None, batch_tokens=64, evict=evict)
    fine = read_infercept(path, take=k, seed=seed, machine=roomy)
    blocks = contended_machine(coarsen(fine, block_tokens=64, slot_ticks=64).requests)
    machine = roomy.replace(memory=64 * (blocks.memory or 0), host_memory=64 * (blocks.host_memory or 0))
    coarse = coarsen(fine.replace(machine=machine), block_tokens=64, slot_ticks=64)
    return coarse.replace(name=f"infercept-slice:k={k},seed={seed}" + ",evict=1" * evict)


def _with_kinds(requests: Sequence[Request], kinds: Mapping[str, str]) -> list[Request]:
    whole, short = ([f"{kinds[r.id]}-{r.id[:most]}" for r in requests] for most in (None, 8))
    ids = short if len(set(short)) == len(short) else whole
    return [request.replace(id=id) for request, id in zip(requests, ids, strict=True)]


def _drawn_anew(
    requests: Sequence[Request], take: int | None, times: Sequence[int], draw: random.Random
) -> list[tuple[Request, int]]:
    if take is not None:
        raise BadInput("--take draws requests without replacement, --minutes with; give one of them")
    if not times:
        raise BadInput("no request arrives within --minutes; give more minutes, or a higher --rate")
    drawn = enumerate(draw.choices(requests, k=len(times)), 1)
    return [(request.replace(id=f"{request.id}#{k}"), time) for (k, request), time in zip(drawn, times, strict=True)]
