"""Sessions of coding agents: contexts that grow from call to call, with pauses for tools.

Source: recordings of callanjfox/kv-cache-tester; columns in `docs/data.md`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from kvcore.cost import Cost
from kvcore.csv_table import Row
from kvcore.instance import Instance, Machine
from workloads.importers.reader import TICK, read_requests
from workloads.importers.selection import Column, Selection, TraceLayout

MACHINE = Machine(memory=None, host_memory=0, batch_tokens=512, evict=True)  # its memory has to be named


def _label(row: Row) -> str:
    trace, agent = row.label("trace_id"), row.label("agent")
    return f"main-{trace}" if agent == "main" else f"sub-{trace}/{agent.removeprefix('main/')}"


LAYOUT = TraceLayout(
    {
        "arrival": Column("t_s", Fraction(1)),
        "prompt": Column("input_tokens"),
        "decode": Column("output_tokens"),
        "latency": Column("api_time_s"),
        "call": Column("think_time_s"),
    },
    label=_label, others=("trace_id", "agent"), order="seq", call_before=True,
)  # fmt: skip
SHARING = replace(LAYOUT, common="common_prefix_prev_tokens")


def read_agent_traces(
    path: str | Path,
    *,
    machine: Machine,
    take: int | None = None,
    seed: int = 0,
    drop_too_long: bool = False,
    contents: bool = False,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
) -> Instance:
    """Return the sessions of the file as requests with free calls, in ticks of `tick` seconds, by arrival.

    The rows of a session (`trace_id`, `agent`) are the segments of a request (`docs/data.md`). With `drop_too_long`,
    requests that do not fit the memory are left out; the instance's name counts them. With `take`, that many are drawn
    without replacement by `random.Random(seed).sample`. With `contents`, they share what `common_prefix_prev_tokens`
    says, and end where an input is changed.

    BadInput: the file is not such a table (with line and column), a request does not fit, or an argument is out of
    range.
    """
    drawn = Selection(sample=take, seed=seed)
    fitting = machine if drop_too_long else None
    layout = SHARING if contents else LAYOUT
    trace = read_requests(path, layout, kind="agent-traces", selection=drawn, tick=tick, machine=fitting)
    return trace.instance(machine, tick, cost)
