"""The ladder of lower bounds: methods from the cheapest to the strongest, and the best that they prove together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module

from bounds.task import Proposal, Task
from kvcore.certificates import Alone, Certificate, InvalidCertificate, certify
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective


@dataclass(frozen=True)
class Method:
    """A way to a proof. `propose` yields ever better ones, or raises BadInput where it does not apply, with the reason.

    On KeyboardInterrupt it may yield the best so far before it raises that.
    """

    name: str
    drops: str
    """What the relaxation leaves out, in words."""
    propose: Callable[[Task], Iterator[Proposal]]


@dataclass(frozen=True)
class Rung:
    """What one method proved: a certificate, or why there is none."""

    method: str
    seconds: float
    certificate: Certificate | None = field(default=None, repr=False)
    bound: Value | None = None
    why_not: str = ""


def _later(module: str, name: str) -> Callable[[Task], Iterator[Proposal]]:
    """Return a proposer of a module of this package, loaded when it is called: compilers and solvers take a while."""

    def propose(task: Task) -> Iterator[Proposal]:
        yield from getattr(import_module(f"bounds.{module}"), name)(task)

    return propose


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("alone", "all that requests share", lambda task: iter([Proposal(Alone())])),
        Method("unlimited-memory", "memory; that a token's batches come one after another where time is shared",
               _later("shares", "propose_unlimited_memory")),
        Method("shares", "that a batch holds whole requests: each has a share of the time of its batches",
               _later("shares", "propose_shares")),
        Method("exhaustive", "nothing, but schedules are looked at only as far as the time allows",
               _later("exhaustive", "propose_exhaustive")),
        Method("windows", "the same as prices, but that ends of large requests are apart",
               _later("slots", "propose_windows")),
        Method("configurations", "that each request runs once, and how small ones pack",
               _later("configurations", "propose_configurations")),
        Method("prices", "that paths of requests are whole, and breaks within segments",
               _later("slots", "propose_prices")),
        Method("speed", "that a batch holds whole requests; a fast batch pays more for its work",
               _later("speed", "propose_speed")),
    )
}  # fmt: skip
"""Every method: cheap ones, those that refuse most instances, and last two that can use all time that is left.

Of these one refuses all batches but those of one tick, for which `climb` leaves the other out.
"""

TIME_LIMIT = 60.0
"""Seconds, unless told otherwise."""


def climb(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = TIME_LIMIT,
    upper: Value | None = None,
) -> Iterator[Rung]:
    """Yield what each method proves, one after another (`method`: only that one), until `upper` is proved optimal.

    `time_limit` is in seconds, divided among the methods: what one leaves, those after it get. A method whose first
    proof does not fit into what is left is declined; `alone` never is. On KeyboardInterrupt comes what the running
    method had, and then the exception.

    Raises BadInput for a name that is none, and where the one method that was asked for does not apply.
    """
    check_objective(objective)
    instance.cost.check_linear()
    if method not in ("auto", *METHODS):
        raise BadInput(f"no bound is called {method!r}; there are auto, {', '.join(METHODS)}")
    chosen = list(METHODS.values()) if method == "auto" else [METHODS[method]]
    if method == "auto" and instance.cost.always_one_tick:  # no batch is faster than another: its time is the others'
        chosen.remove(METHODS["speed"])
    end = time.monotonic() + time_limit
    for k, each in enumerate(chosen):
        share = (end - time.monotonic()) / (len(chosen) - k)
        rung, interrupted = _try(each, Task(instance, objective, time.monotonic() + share, upper, end))
        if rung.certificate is None and method != "auto" and not interrupted:
            raise BadInput(f"{method}: {rung.why_not}")
        yield rung
        if interrupted:
            raise KeyboardInterrupt
        if rung.bound is not None and upper is not None and rung.bound >= upper:
            return


def bound(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = TIME_LIMIT,
    upper: Value | None = None,
) -> Rung:
    """Return the best that the methods prove together."""
    rungs = climb(instance, objective, method=method, time_limit=time_limit, upper=upper)
    return max((rung for rung in rungs if rung.bound is not None), key=lambda rung: rung.bound or 0)


def _try(method: Method, task: Task) -> tuple[Rung, bool]:
    """Return what a method proves, and whether it was interrupted."""
    began = time.monotonic()
    best: Proposal | None = None
    interrupted, why_not = False, "it was interrupted before its first proof"
    try:
        for proposal in method.propose(task):
            best = proposal
    except (BadInput, InvalidCertificate) as reason:
        why_not = str(reason)
    except KeyboardInterrupt:
        interrupted = True
    rung = Rung(method.name, time.monotonic() - began, why_not=why_not)
    while best is not None and rung.certificate is None:
        try:
            certificate = certify(task.instance, task.objective, *best)
            rung = Rung(method.name, time.monotonic() - began, certificate, certificate.value)
        except InvalidCertificate as reason:
            return replace(rung, why_not=str(reason)), interrupted
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
    return rung, interrupted
