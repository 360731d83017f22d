"""The ladder of bounds: the ways that leave certificates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

import bounds.task
import kvcore
from bounds.clock import Timer, is_late, limited, now, used
from bounds.task import LadderOptions, NoTime, Proposal, spend_check
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
    """Yield what each way proves, again when that changed, until `upper` is proved optimal.

    Turns are as docs/commands.md says (`bound`). A way whose first proof may end more than `late` seconds late is
    declined, except `alone`. In its second turn a way ends early if its gain a second would not bring it beyond the
    others. `found` is called with the way's name and each certificate or schedule; `finds`: searches go for schedules;
    `news` returns the value of one found elsewhere.
    """
    check_objective(objective)
    instance.cost.check_linear()
    began = now()
    end = began + time_limit
    turns = [_Turn(way, bounds.task.Task(instance, objective, end, upper, end + late, news, finds), found)
             for way in ways]  # fmt: skip
    several = sum(turn.proposals is not None for turn in turns) > 1
    known: Value = 0  # beyond it a way must come in its second turn
    for until in (began + LadderOptions.first * time_limit, end) if several else (end,):
        for k, turn in enumerate(turns):
            share = turn.share / max(1, sum(later.share for later in turns[k:]))
            interrupted = turn.take(share * (until - now()), known)
            yield turn.rung
            if interrupted:
                raise KeyboardInterrupt
            if turn.rung.bound is not None and upper is not None and turn.rung.bound >= upper:
                return
        known = max((turn.rung.bound for turn in turns if turn.rung.bound is not None), default=0)
        turns = sorted(
            (turn for turn in turns if now() < end and turn.goes_on()), key=lambda turn: turn.rung.bound or 0
        )


class _Turn:
    """A way in its turns: `proposals` (None: it does not apply, or has ended), and the `rung` reached."""

    def __init__(self, way: Way, task: bounds.task.Task, found: Callable[[str, Certificate | Schedule], None]) -> None:
        self.way, self.task, self.found = way, task, found
        self.proposals: Iterator[Proposal | Schedule] | None = None
        self.rung, self.cut = Rung(way.formulation, 0.0, drops=way.drops), False
        self._begin()

    def _begin(self) -> None:
        try:
            self.proposals = self.way.proposals(self.task)
        except (BadInput, InvalidCertificate) as reason:
            self._declined(reason)

    def _declined(self, reason: Exception) -> None:
        more = reason.more if isinstance(reason, NoTime) and self.rung.bound is None else 0.0
        self.proposals, self.cut, self.rung = None, False, replace(self.rung, why_not=str(reason), more=more)

    def goes_on(self) -> bool:
        """Whether more time may prove more: it plans its time, and begins anew, or was cut short."""
        if (self.cut and self.proposals is None) or (self.way.plans and self.rung.bound is not None):
            self._begin()
        return self.proposals is not None

    @property
    def share(self) -> int:
        # parts of the time for a method that can use all of it, where others get one
        return 0 if self.proposals is None else 5 if self.way.slows else 1

    def take(self, seconds: float, known: Value) -> bool:
        """Prove more than `known` in the time; say whether it was interrupted."""
        if self.proposals is None:
            return False
        began, start, spent = now(), used(), self.rung.seconds
        self.task.deadline = began + seconds
        unchecked: Proposal | None = None
        interrupted = self.cut = False
        try:
            with valid("a certificate cannot hold its numbers"):
                for proposal in self.proposals:
                    if isinstance(proposal, Schedule):
                        self.found(self.way.formulation, proposal)
                        continue
                    before, unchecked = self.rung, proposal
                    self._check(proposal, start - spent)
                    unchecked = None
                    if self.way.slows and self._most(before) < known:
                        return False
                    if self.task.is_over() and not self.way.plans:  # one that plans ends by itself
                        return False
                self.cut, self.proposals = self.task.is_over(), None
        except (BadInput, InvalidCertificate) as reason:
            self._declined(reason)
        except KeyboardInterrupt:
            interrupted = True
            with suppress(InvalidCertificate):
                if unchecked is not None:
                    self._check(unchecked, start - spent)
            if self.rung.certificate is None:
                self.rung = replace(self.rung, why_not="it was interrupted before its first proof")
        finally:
            self.rung = replace(self.rung, seconds=spent + used() - start)
        return interrupted

    def _check(self, proposal: Proposal, began: float) -> None:
        spend_check(self.task.instance)
        certificate = certify(self.task.instance, self.task.objective, *proposal)
        if self.rung.bound is None or certificate.value >= self.rung.bound:
            seconds, drops = used() - began, self.way.drops
            self.rung = Rung(self.rung.method, seconds, certificate.value, drops, certificate.why, "", certificate)
            self.found(self.way.formulation, certificate)

    def _most(self, before: Rung) -> float:
        """Return the bound at its deadline if it rises as fast as since the rung before."""
        if before.bound is None or self.rung.bound is None or self.rung is before:
            return inf
        gained, took = float(self.rung.bound - before.bound), self.rung.seconds - before.seconds
        return float(self.rung.bound) + gained / max(took, 1e-9) * max(0.0, self.task.deadline - now())


def run(job: SolveJob, send: Send) -> Done:
    """Carry out a job in a worker process: the whole ladder, or one way, which finds schedules, too."""
    best, proved, end = Incumbent(job.instance, job.objective), Bounds(), now() + job.time_limit
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
    over: Stop = Stop.TIME_LIMIT if everything or now() > end else Stop.MEMORY_LIMIT
    return Done(Stop.PROVED if proved.value is not None and proved.value >= known else over)


@takes_options
def best_bound(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = 60.0,
    work: int | None = None,
    upper: Value | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Return the best bound of the ladder as a result; Ctrl-C ends it.

    `upper` is the value of a schedule; `time_limit`, for all methods together, `work` and `options` are as in `solve`.

    Raises BadInput for an unknown name, and where the named method does not apply.
    """
    named = {way.formulation: [way] for way in CERTIFYING}
    if method not in ("auto", *named):
        raise unknown("bound", method, ["auto", *named])
    made, proved, stopped, timer = dict[str, Rung](), Bounds(), Stop.ENDED, Timer()
    try:
        ways = named.get(method) or ladder(instance)
        with limited(time_limit, work) as limit:
            for rung in rungs(instance, objective, ways, time_limit=limit, upper=upper):
                made[rung.method] = rung
                if rung.certificate is not None:
                    proved.certify(rung.certificate, rung.method)
                if progress is not None:
                    progress(upper, proved.value, timer.clock)
            stopped = Stop.CLOCK_LIMIT if is_late() and timer.seconds < limit else stopped
    except KeyboardInterrupt:
        stopped = Stop.INTERRUPTED
    if proved.certificate is None and method != "auto" and stopped != Stop.INTERRUPTED:
        why_not = made[method].why_not
        raise BadInput(why_not if why_not.startswith(f"{method} ") else f"{method}: {why_not}")
    return Result(
        instance, objective, bound=proved.value, bound_kind=proved.kind, certificate=proved.certificate,
        proved_by=proved.by, horizon=None if proved.value is None else proved.horizon, formulation=proved.by or method,
        solver=SolverInfo("bounds", kvcore.__version__), seconds=timer.seconds, clock_seconds=timer.clock,
        stopped=stopped, ladder=list(made.values()), options=options or {},
    )  # fmt: skip
