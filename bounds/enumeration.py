"""The enumeration of states with contents as a way to solve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from bounds.task import Proposal, Task
from kvcore.certificates.budget import Budget, InvalidCertificate, Most
from kvcore.certificates.enumeration import Enumeration, EnumerationSearch, State
from kvcore.errors import BadInput
from kvcore.referee import verify_schedule
from kvcore.schedule import Batch, Schedule


def propose_enumeration(task: Task) -> Iterator[Proposal | Schedule]:
    """Return proofs of ever more states, and an optimum. Raises BadInput without contents or a layout."""
    if not (task.instance.contents or task.instance.machine.layout):
        raise BadInput("enumeration is for shared contents or a layout of KV; without them events sees more")
    return _proofs(task, EnumerationSearch(task.instance, task.objective, _TimedBudget(task)))


class _TimedBudget(Budget):
    every = 10_000  # between looks at the clock

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task, self.looks = task, 0

    def spend(self, what: str, work: int, memory: int = 0) -> None:
        super().spend(what, work, memory)
        self.looks += 1
        if not memory and self.looks % self.every == 0 and self.task.stops():  # not while states are added
            raise TimeoutError


def _proofs(task: Task, search: EnumerationSearch) -> Iterator[Proposal | Schedule]:
    states = 1000
    with suppress(InvalidCertificate):  # it would take too long to check
        while states <= Most.enumerated and not task.is_over():
            try:
                seen = search.run(states)
            except TimeoutError:
                seen = search.run(0)
                if not seen.states:
                    raise BadInput("enumeration: there is no time for the batches of one state") from None
            yield Proposal(Enumeration(states=max(1, seen.states)), seen.bound)
            if seen.optimum is not None:
                schedule = schedule_of(search, seen.optimum)
                verify_schedule(task.instance, schedule)
                yield schedule
            if seen.optimum is not None or (task.upper is not None and seen.bound >= task.upper):
                return
            states *= 4


def schedule_of(search: EnumerationSearch, state: State) -> Schedule:
    """Return the schedule that leads to a state."""
    batches: list[Batch] = []
    ids = [request.id for request in search.requests]
    while state.before is not None:
        if step := state.step:
            made = {
                kind: {id: k for id, pick in zip(ids, step.picks, strict=True) if (k := getattr(pick.option, kind))}
                for kind in ("work", "drop", "swap_out", "swap_in")
            }
            made["reuse"] = {
                id: pick.option.reuse for id, pick in zip(ids, step.picks, strict=True) if pick.option.reuse
            }
            gone = zip(search.nodes, step.resident, step.kept, strict=True)
            made["forget"] = {node: there - kept for node, there, kept in gone if there > kept}
            batches.append(Batch.model_validate({"start": step.start, **made}))
        state = state.before
    return Schedule(instance_sha256=search.instance.sha256, batches=tuple(reversed(batches)))
