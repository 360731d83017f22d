"""The ladder of lower bounds: methods from the cheapest to the strongest, and the best that they prove together."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import inf

from bounds.task import LadderOptions, Proposal, Task
from kvcore.certificates import Alone, Certificate, InvalidCertificate, certify
from kvcore.errors import BadInput, unknown
from kvcore.files import valid
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, tail_of
from kvcore.schedule import Schedule

Found = Callable[[str, Certificate | Schedule], None]
"""What is told the name of a method and what it came upon."""


@dataclass(frozen=True)
class Method:
    """A way to a proof. `propose` returns ever better ones, or says why it does not apply (BadInput).

    Schedules that a search comes upon may be among them, once the referee has judged them.

    On KeyboardInterrupt the best so far may come before it raises that.
    """

    name: str
    drops: str
    """What the relaxation leaves out, in words."""
    propose: Callable[[Task], Iterator[Proposal | Schedule]]
    at_once: bool = False
    """Whether it mostly takes so little time that a solve begins with it, before there is any worker."""
    slows: bool = False
    """Whether its bound rises as long as there is time, ever more slowly: it gets more of it (`LadderOptions`)."""
    tails: bool = False
    """Whether it bounds percentiles."""


@dataclass(frozen=True)
class Rung:
    """What one method proved: a certificate, or why there is none."""

    method: str
    seconds: float
    certificate: Certificate | None = field(default=None, repr=False)
    bound: Value | None = None
    why_not: str = ""


def _later(module: str, name: str) -> Callable[[Task], Iterator[Proposal | Schedule]]:
    """Return a proposer of a module of this package, loaded when it is called: compilers and solvers take a while."""

    def propose(task: Task) -> Iterator[Proposal | Schedule]:
        proposals: Iterator[Proposal | Schedule] = getattr(import_module(f"bounds.{module}"), name)(task)
        return proposals

    return propose


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("alone", "all that requests share", lambda task: iter([Proposal(Alone())]), True,
               tails=True),
        Method("shares", "that a batch holds whole requests: each has a share of the time of its batches",
               _later("shares", "propose_shares"), True),
        Method("late-windows", "the order of work in spans of time: no more of it is on time than fits",
               _later("late_windows", "propose_late_windows")),
        Method("late-tail", "what late requests drop: more than a percentile leaves out take so long",
               _later("tails", "propose_tails"), tails=True),
        Method("fresh", "what is processed again, but for KV that does not fit: any order of batches",
               _later("fresh", "propose_fresh"), True),
        Method("events", "nothing, but schedules are looked at only as far as the time allows",
               _later("events", "propose_events")),
        Method("prices", "that paths of requests are whole, and breaks within segments",
               _later("slot_prices", "propose_prices")),
        Method("slots", "nothing: all batches of one tick are searched, as far as prices do not exclude them",
               _later("slot_solver", "propose_slots"), slows=True),
        Method("configurations", "that each request runs once, and how small ones pack",
               _later("configurations", "propose_configurations"), slows=True),
        Method("speed", "that a batch holds whole requests; a fast batch pays more for its work",
               _later("speed", "propose_speed"), slows=True),
    )
}  # fmt: skip
"""Every method: those that end by themselves, the cheapest first, then those that can use all time that is left."""

GONE = {"exhaustive": "events", "windows": "prices", "unlimited-memory": "shares"}
"""Methods that once were, and what their names stand for now."""


def climb(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = 60.0,
    upper: Value | None = None,
    without: Collection[str] = (),
    late: float = 0.0,
    news: Callable[[], Value | None] = lambda: None,
    found: Found = lambda method, what: None,
) -> Iterator[Rung]:
    """Yield what each method proves, one after another (`method`: only that one), until `upper` is proved optimal.

    `time_limit` is in seconds of the processor, divided among the methods that apply: what one leaves, those after it
    get. A method whose first proof may end more than `late` seconds late is declined; `alone` never is. One ends early
    if at what it gained a second its time would not bring it beyond what the others proved. Those in `without` are left
    out. `found` is called with the name of the method and each certificate, or schedule that a search comes upon, as it
    comes; `news` says the value of a schedule that others found meanwhile. On KeyboardInterrupt comes what the running
    method had, and then the exception.

    Raises BadInput for a name that is none, and where the one method that was asked for does not apply.
    """
    check_objective(objective)
    instance.cost.check_linear()
    method = GONE.get(method, method)
    if method not in ("auto", *METHODS):
        raise unknown("bound", method, ["auto", *METHODS])
    if instance.cost.always_one_tick:  # no batch is faster than another: its time is the others'
        without = {*without, "speed"}
    chosen = [each for each in METHODS.values() if each.name not in without] if method == "auto" else [METHODS[method]]
    end = time.process_time() + time_limit
    turns = [_Turn(each, Task(instance, objective, end, upper, end + late, news), found) for each in chosen]
    known: list[Value] = []
    for k, turn in enumerate(turns):
        share = turn.share / max(1, sum(later.share for later in turns[k:]))
        interrupted = turn.take(share * (end - time.process_time()), max(known, default=0))
        rung = turn.rung
        if rung.bound is not None:
            known.append(rung.bound)
        elif method != "auto" and not interrupted:
            raise BadInput(f"{method}: {rung.why_not}")
        yield rung
        if interrupted:
            raise KeyboardInterrupt
        if rung.bound is not None and upper is not None and rung.bound >= upper:
            return


class _Turn:
    """What a method does when it is its turn: `proposals` (None: it does not apply), and the `rung` that it reaches."""

    def __init__(self, method: Method, task: Task, found: Found) -> None:
        self.method, self.task, self.found = method, task, found
        self.proposals: Iterator[Proposal | Schedule] | None = None
        self.rung = Rung(method.name, 0.0, why_not="it was interrupted before its first proof")
        try:
            if tail_of(task.objective) is not None and not method.tails:
                raise BadInput(f"{method.name} proves nothing about {task.objective}")
            self.proposals = method.propose(task)
        except (BadInput, InvalidCertificate) as reason:
            self.rung = replace(self.rung, why_not=str(reason))

    @property
    def share(self) -> int:
        """Its share of the time: 0 if it does not apply."""
        return 0 if self.proposals is None else LadderOptions.given().patience if self.method.slows else 1

    def take(self, seconds: float, known: Value) -> bool:
        """Prove what can be proved in so much time, as others have proved `known`; say whether it was interrupted."""
        began = time.process_time()
        self.task.deadline = began + seconds
        unchecked: Proposal | None = None
        interrupted = False
        try:
            with valid("a certificate cannot hold its numbers"):
                for proposal in self.proposals or ():
                    if isinstance(proposal, Schedule):
                        self.found(self.method.name, proposal)
                        continue
                    before, unchecked = self.rung, proposal
                    self._check(proposal, began)
                    unchecked = None
                    if self.method.slows and self._most(before) < known:
                        break
        except (BadInput, InvalidCertificate) as reason:
            self.rung = replace(self.rung, seconds=time.process_time() - began, why_not=str(reason))
        except KeyboardInterrupt:
            interrupted = True
            with suppress(InvalidCertificate):
                if unchecked is not None:
                    self._check(unchecked, began)
        if self.proposals is not None:
            self.rung = replace(self.rung, seconds=time.process_time() - began)
        return interrupted

    def _check(self, proposal: Proposal, began: float) -> None:
        certificate = certify(self.task.instance, self.task.objective, *proposal)
        if self.rung.bound is None or certificate.value >= self.rung.bound:
            seconds = time.process_time() - began
            self.rung = Rung(self.method.name, seconds, certificate, certificate.value)
            self.found(self.method.name, certificate)

    def _most(self, before: Rung) -> float:
        """Return what it would prove by its deadline if the bound rose as fast as since the rung before."""
        if before.bound is None or self.rung.bound is None:
            return inf
        gained, took = float(self.rung.bound - before.bound), self.rung.seconds - before.seconds
        return float(self.rung.bound) + gained / max(took, 1e-9) * max(0.0, self.task.deadline - time.process_time())
