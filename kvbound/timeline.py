"""The activity of each request, as exact intervals of a trace."""

from itertools import groupby
from typing import Literal, NamedTuple

from kvcore.account import Period, account
from kvcore.trace import Trace

Kind = Literal[
    "prefill", "decode", "recompute", "transfer", "paused", "swapped-out", "waiting", "call-preserved",
    "call-discarded", "call-swapped", "call-mixed",
]  # fmt: skip
"""Activities. At work: `prefill`, `decode`, or `recompute` (the batch has tokens processed before). Ready without work:
`transfer` (KV is swapped in this batch), `paused` (device KV held), `swapped-out` (host KV only), `waiting` (no KV).
In a call, where the KV held at its start is: all on the device (`call-preserved`), all on the host (`call-swapped`),
gone (`call-discarded`), or anything else (`call-mixed`)."""


class Interval(NamedTuple):
    """The request does the same thing from tick `start` to the later tick `end`."""

    start: int
    end: int
    kind: Kind


def timeline(trace: Trace) -> dict[str, list[Interval]]:
    """Return the intervals of every request, in the order of the instance.

    Those of one request tile [arrival, completion]; neighbours differ in kind. KV is counted after the moves of a
    batch; a call that returns within a batch ends its interval there.
    """
    return {
        id: [Interval(periods[0].start, periods[-1].end, kind) for kind, periods in row]
        for id, row in activities(trace).items()
    }


def activities(trace: Trace) -> dict[str, list[tuple[Kind, list[Period]]]]:
    """Return the same with the periods of each interval."""
    return {
        request.request.id: [(kind, list(same)) for kind, same in groupby(periods, _kind)]
        for request, periods in account(trace)
    }


def _kind(period: Period) -> Kind:
    device, host, call = period.device, period.host, period.call
    if period.work is not None:
        return period.work.phase if period.kind == "work" else "recompute"
    if call is None:
        return "transfer" if period.kind == "transfer" else "paused" if device else "swapped-out" if host else "waiting"
    if device == call.held:
        return "call-preserved"
    if device + host == 0:
        return "call-discarded"
    return "call-swapped" if host == call.held else "call-mixed"
