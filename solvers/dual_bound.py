"""The ladder of bounds: the ways that leave certificates."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

import bounds.task
import kvcore
from bounds.task import Proposal
from kvcore.certificates import Certificate, InvalidCertificate, certify
from kvcore.errors import BadInput, unknown
from kvcore.files import valid
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective
from kvcore.result import Result, Rung, SolverInfo, Stop
from kvcore.schedule import Schedule
from solvers.incumbent import Bounds, Incumbent
from solvers.messages import NEWS, Bound, Done, Found, Progress, Send, SolveJob
from solvers.option_names import takes_options
from solvers.ways import BOUND, CERTIFYING, Way, way_of


def ladder(instance: Instance, without: Collection[str] = ()) -> list[Way]:
    """Return the ways that leave certificates, without `speed` where no batch is faster than another."""
    without = {*without, *(("speed",) * instance.cost.always_one_tick)}
    return [way for way in CERTIFYING if way.formulation not in without]


def rungs(
    instance: Instance,
    objective: str,
    ways: Sequence[Way],
    *,
    time_limit: float = 60.0,
    upper: Value | None = None,
    late: float = 0.0,
    finds: bool = False,
    news: Callable[[], Value | None] = lambda: None,
    found: Callable[[str, Certificate | Schedule], None] = lambda way, what: None,
) -> Iterator[Rung]:
    """Yield what each way proves, one after another, until `upper` is proved optimal.

    `time_limit` is in processor seconds, divided among the ways that apply; later ways get what earlier ones leave. A
    way whose first proof may end more than `late` seconds late is declined, except `alone`. A way ends early if its
    gain a second would not bring it beyond the others in its time. `found` is called with the way's name and each
    certificate or schedule; `finds`: searches go for schedules; `news` returns the value of one found elsewhere. On
    KeyboardInterrupt the running way's result comes before the exception.
    """
    check_objective(objective)
    instance.cost.check_linear()
    end = time.process_time() + time_limit
    turns = [_Turn(way, bounds.task.Task(instance, objective, end, upper, end + late, news, finds), found)
             for way in ways]  # fmt: skip
    known: list[Value] = []
    for k, turn in enumerate(turns):
        share = turn.share / max(1, sum(later.share for later in turns[k:]))
        interrupted = turn.take(share * (end - time.process_time()), max(known, default=0))
        if turn.rung.bound is not None:
            known.append(turn.rung.bound)
        yield turn.rung
        if interrupted:
            raise KeyboardInterrupt
        if turn.rung.bound is not None and upper is not None and turn.rung.bound >= upper:
            return


class _Turn:
    """A way in its turn: `proposals` (None: it does not apply), and the `rung` reached."""

    def __init__(self, way: Way, task: bounds.task.Task, found: Callable[[str, Certificate | Schedule], None]) -> None:
        self.way, self.task, self.found = way, task, found
        self.proposals: Iterator[Proposal | Schedule] | None = None
        self.rung = Rung(way.formulation, 0.0, drops=way.drops)
        try:
            self.proposals = way.proposals(task)
        except (BadInput, InvalidCertificate) as reason:
            self.rung = replace(self.rung, why_not=str(reason))

    @property
    def share(self) -> int:
        # parts of the time for a method that can use all of it, where others get one
        return 0 if self.proposals is None else 5 if self.way.slows else 1

    def take(self, seconds: float, known: Value) -> bool:
        """Prove more than `known` in the time; say whether it was interrupted."""
        began = time.process_time()
        self.task.deadline = began + seconds
        unchecked: Proposal | None = None
        interrupted = False
        try:
            with valid("a certificate cannot hold its numbers"):
                for proposal in self.proposals or ():
                    if isinstance(proposal, Schedule):
                        self.found(self.way.formulation, proposal)
                        continue
                    before, unchecked = self.rung, proposal
                    self._check(proposal, began)
                    unchecked = None
                    if self.way.slows and self._most(before) < known:
                        break
        except (BadInput, InvalidCertificate) as reason:
            self.rung = replace(self.rung, why_not=str(reason))
        except KeyboardInterrupt:
            interrupted = True
            with suppress(InvalidCertificate):
                if unchecked is not None:
                    self._check(unchecked, began)
            if self.rung.certificate is None:
                self.rung = replace(self.rung, why_not="it was interrupted before its first proof")
        if self.proposals is not None:
            self.rung = replace(self.rung, seconds=time.process_time() - began)
        return interrupted

    def _check(self, proposal: Proposal, began: float) -> None:
        certificate = certify(self.task.instance, self.task.objective, *proposal)
        if self.rung.bound is None or certificate.value >= self.rung.bound:
            seconds, drops = time.process_time() - began, self.way.drops
            self.rung = Rung(self.rung.method, seconds, certificate.value, drops, certificate.why, "", certificate)
            self.found(self.way.formulation, certificate)

    def _most(self, before: Rung) -> float:
        """Return the bound at its deadline if it rises as fast as since the rung before."""
        if before.bound is None or self.rung.bound is None:
            return inf
        gained, took = float(self.rung.bound - before.bound), self.rung.seconds - before.seconds
        return float(self.rung.bound) + gained / max(took, 1e-9) * max(0.0, self.task.deadline - time.process_time())


def run(job: SolveJob, send: Send) -> Done:
    """Carry out a job in a worker process: the whole ladder, or one way, which finds schedules, too."""
    best, proved, end = Incumbent(job.instance, job.objective), Bounds(), time.process_time() + job.time_limit
    everything = way_of(job) is BOUND

    def found(way: str, what: Certificate | Schedule) -> None:
        if isinstance(what, Certificate):
            proved.certify(what, way)
            send(Bound(what.value, "certificate", what, way))
        elif (value := best.offer(what, way)) is not None:
            send(Found(what, value))

    for rung in rungs(
        job.instance, job.objective, ladder(job.instance, job.beside) if everything else [way_of(job)],
        time_limit=job.time_limit, upper=job.upper_bound, finds=not everything, news=lambda: NEWS.value, found=found,
    ):  # fmt: skip
        if everything:
            send(replace(rung, certificate=None))  # it came before
        elif rung.bound is None and rung.why_not:
            raise BadInput(rung.why_not)
    known = min((value for value in (best.value, job.upper_bound, NEWS.value) if value is not None), default=inf)
    over: Stop = Stop.TIME_LIMIT if everything or time.process_time() > end else Stop.MEMORY_LIMIT
    return Done(Stop.PROVED if proved.value is not None and proved.value >= known else over)


@takes_options
def best_bound(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = 60.0,
    upper: Value | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Return the best bound of the ladder as a result; Ctrl-C ends it with what was proved so far.

    `upper` is the value of a schedule, for some methods; `time_limit` is in seconds, for all methods together
    (`method`: only that one). `options` are as in `solve`.

    Raises BadInput for an unknown name, and where the named method does not apply.
    """
    named = {way.formulation: [way] for way in CERTIFYING}
    if method not in ("auto", *named):
        raise unknown("bound", method, ["auto", *named])
    made, proved, stopped = list[Rung](), Bounds(), Stop.ENDED
    try:
        ways = named.get(method) or ladder(instance)
        for rung in rungs(instance, objective, ways, time_limit=time_limit, upper=upper):
            made.append(rung)
            if rung.certificate is not None:
                proved.certify(rung.certificate, rung.method)
            if progress is not None:
                progress(upper, proved.value, sum(each.seconds for each in made))
    except KeyboardInterrupt:
        stopped = Stop.INTERRUPTED
    if proved.certificate is None and method != "auto" and stopped == Stop.ENDED:
        why_not = made[-1].why_not
        raise BadInput(why_not if why_not.startswith(f"{method} ") else f"{method}: {why_not}")
    return Result(
        instance, objective, bound=proved.value, bound_kind=proved.kind, certificate=proved.certificate,
        proved_by=proved.by, horizon=None if proved.value is None else proved.horizon, formulation=proved.by or method,
        solver=SolverInfo("bounds", kvcore.__version__), seconds=sum(rung.seconds for rung in made), stopped=stopped,
        ladder=made, options=options or {},
    )  # fmt: skip
