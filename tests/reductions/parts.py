"""What the programs share: batches that may be changed, and what a request was allowed in a batch."""

from typing import Any

from kvcore import Instance, Schedule, verify_schedule
from kvcore.trace import RequestTrace, Step, Trace

MOVES = ("drop", "swap_out", "swap_in")
Mutable = dict[str, Any]


def mutable(instance: Instance, schedule: Schedule) -> tuple[Trace, list[Mutable]]:
    """Return the trace, and its batches as dictionaries that may be changed."""
    trace = verify_schedule(instance, schedule)
    return trace, [{"forget": {}, "reuse": {}} | batch.model_dump() for batch in trace.expanded().batches]


def schedule_of(instance: Instance, batches: list[Mutable]) -> Schedule:
    """Return the schedule of changed batches."""
    for batch in batches:
        batch.update({kind: {id: tokens for id, tokens in batch[kind].items() if tokens} for kind in ("work", *MOVES)})
    return Schedule.model_validate({"instance_sha256": instance.sha256, "batches": tuple(batches)})


def is_licensed(request: RequestTrace, batch: int) -> bool:
    """Whether R9 allows or orders a drop of the request in a batch: in a free call's window, or ordered."""
    for call in request.calls:
        handling = request.request.calls[call.segment].handling
        closed = min((step.batch for step in request.steps if step.batch > call.batch), default=batch)
        if call.batch < batch <= closed and (handling == "free" or (handling == "discard" and batch == call.batch + 1)):
            return True
    return False


def kv(request: RequestTrace, batch: int, moved: bool) -> tuple[int, int]:
    """Return the tokens on the device and on the host before a batch, or after its moves."""
    levels = [x for x in request.levels() if (x.event.batch, isinstance(x.event, Step)) < (batch, moved)]
    return (levels[-1].device, levels[-1].host) if levels else (0, 0)


def late(number: int) -> int:
    """Return a start for a batch of that number at which nothing is left to wait for."""
    return (number + 1) * 10**9


def without_swaps(batches: list[Mutable]) -> None:
    """Leave out all swaps: with no host memory each goes out and comes back in the same batch."""
    for batch in batches:
        batch["swap_out"], batch["swap_in"] = {}, {}


def passed_on(batches: list[Mutable], trace: Trace) -> list[Mutable]:
    """Leave out batches without work and swaps. Their drops are made in the next batch, or the KV is kept.

    It is kept if the request works there and R9 does not allow the drop: it processes only what it lacks then. If
    nothing is lacking, it drops what is too much and rests; a batch in which so nobody works goes, too.
    """
    kept: list[Mutable] = []
    waiting: dict[str, tuple[int, bool]] = {}
    requests = {request.request.id: request for request in trace.requests}
    for j, batch in enumerate(batches):
        drops = {id: (tokens, is_licensed(requests[id], j)) for id, tokens in batch["drop"].items() if tokens}
        for id, (tokens, by_r9) in waiting.items():
            work, more = batch["work"].get(id, 0), drops.get(id, (0, True))
            if not work or by_r9:
                drops[id] = (tokens + more[0], by_r9 and more[1])
            elif work > tokens:
                batch["work"][id] = work - tokens
            else:
                del batch["work"][id]
                drops[id] = (tokens - work, False)
        batch["drop"] = {id: tokens for id, (tokens, _) in drops.items()}
        acts = batch["work"] or batch["swap_out"] or batch["swap_in"]
        waiting = {} if acts else {id: drop for id, drop in drops.items() if drop[0]}
        kept += [batch] if acts else []
    return kept
