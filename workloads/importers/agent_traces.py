"""Sessions of coding agents: long contexts that grow from call to call, with the pauses of the tools between.

Derived from the public recordings of callanjfox/kv-cache-tester; `docs/data.md` says what each column is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from pydantic import ValidationError

from kvcore.cost import Cost
from kvcore.csv_table import Row, build_instance, check_take, check_tick, grouped, read_rows
from kvcore.errors import BadInput
from kvcore.files import first_error
from kvcore.instance import Call, Instance, Machine, Request, Segment

COLUMNS = ("trace_id", "agent", "seq", "t_s", "input_tokens", "output_tokens", "api_time_s", "think_time_s")
TICK = Fraction(1, 40)
MACHINE = Machine(memory=None, host_memory=0, batch_tokens=512, evict=True)
"""What the command starts from; its memory has to be named."""


def read_agent_traces(
    path: str | Path,
    *,
    machine: Machine,
    take: int | None = None,
    seed: int = 0,
    drop_too_long: bool = False,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
) -> Instance:
    """Return the sessions of the file as requests with free calls, in ticks of `tick` seconds.

    The rows of a session (`trace_id`, `agent`) are the segments of a request; `docs/data.md` says where a session
    begins a new one. With `drop_too_long`, requests whose last token does not fit the memory are left out; the name of
    the instance says how many. With `take`, that many of the others are drawn without replacement by
    `random.Random(seed).sample`; they keep the order of the file.

    Raises:
        BadInput: the file is not such a table (with line and column), a request does not fit, or an argument is out of
            range.
    """
    check_tick(tick)
    sessions = grouped(read_rows(path, COLUMNS), _session, "seq", "session")
    requests = [_request(rows, tick) for session in sessions for rows in _runs(session)]
    fitting = [request for request in requests if _fits(machine, request)] if drop_too_long else requests
    if not fitting:
        raise BadInput(f"{path}: no request is left: none with output fits a memory of {machine.memory} tokens")
    count = check_take(take, len(fitting), "requests that are left")
    chosen = sorted(random.Random(seed).sample(range(len(fitting)), count))
    left_out = len(requests) - len(fitting)
    name = Path(path).name if take is None else f"take={take},seed={seed}"
    name = f"agent-traces:{name}" + (f", {left_out} too long left out" if drop_too_long else "")
    return build_instance(path, [fitting[k] for k in chosen], machine, name=name, tick_seconds=tick, cost=cost)


def _session(row: Row) -> tuple[str, str]:
    return row.label("trace_id"), row.label("agent")


def _fits(machine: Machine, request: Request) -> bool:
    """Whether the last token of the request fits the memory."""
    return machine.block_limit is None or machine.blocks(request.peak) <= machine.block_limit


def _runs(session: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each request of a session: it is cut where the input shrank, and at rows without output."""
    run: list[Row] = []
    for row in session:
        output = _output(row)
        if run and (not output or row.whole("input_tokens", 1) < run[-1].whole("input_tokens", 1)):
            yield run
            run = []
        if output:
            run.append(row)
    if run:
        yield run


def _request(rows: Sequence[Row], tick: Fraction) -> Request:
    """Return one request; what is in an input and not in the context held by then was returned by the call before."""
    held = rows[0].whole("input_tokens", 1)
    segments = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        held += _output(row)
        call = None if following is None else _call(row, following, held, tick)
        held += call.returns if call else 0
        segments.append(Segment(decode=_output(row), call=call))
    try:
        return Request(
            id=_id(rows[0]),
            arrival=rows[0].ticks("t_s", rows[0].seconds("t_s"), tick),
            prompt=rows[0].whole("input_tokens", 1),
            segments=tuple(segments),
        )
    except ValidationError as error:
        raise BadInput(f"{rows[0].source}, line {rows[0].line}: {first_error(error)}") from None


def _call(row: Row, following: Row, held: int, tick: Fraction) -> Call:
    """Return the call between two rows, at a context of `held` tokens, the last one generated included."""
    returns = max(0, following.whole("input_tokens", 1) - held)
    duration = following.ticks("think_time_s", _pause(row, following), tick)
    return Call(duration=duration, returns=returns, handling="free")


def _pause(row: Row, following: Row) -> Fraction:
    """Return the seconds of a pause; where they are not recorded, those between the rows less the model's time."""
    between = following.seconds("t_s") - row.seconds("t_s")
    if between < 0:
        following.refuse("t_s", f"no earlier than that of line {row.line}, the row of the session before it")
    if following.text("think_time_s"):
        return following.seconds("think_time_s")
    return max(Fraction(0), between - (row.seconds("api_time_s") if row.text("api_time_s") else 0))


def _output(row: Row) -> int:
    return row.whole("output_tokens", 0) if row.text("output_tokens") else 0


def _id(row: Row) -> str:
    """Return `main-TRACE/SEQ`, or `sub-TRACE/SUB/SEQ` for an agent that `main` started."""
    agent = row.text("agent")
    kind, place = ("main", "") if agent == "main" else ("sub", "/" + agent.removeprefix("main/"))
    return f"{kind}-{row.text('trace_id')}{place}/{row.whole('seq', 0)}"
