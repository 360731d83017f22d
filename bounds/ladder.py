"""The ladder of lower bounds: methods from the cheapest to the strongest, and the best that they prove together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from bounds.task import Task
from kvcore.certificates import Alone, Certificate, InvalidCertificate, Proof, certify
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective


@dataclass(frozen=True)
class Method:
    """A way to a proof. `propose` returns its numbers, or raises BadInput where it does not apply, with the reason."""

    name: str
    drops: str
    """What the relaxation leaves out, in words."""
    propose: Callable[[Task], Proof]


@dataclass(frozen=True)
class Rung:
    """What one method proved: a certificate, or why there is none."""

    method: str
    seconds: float
    certificate: Certificate | None = None
    bound: Value | None = None
    why_not: str = ""


def _later(module: str, name: str) -> Callable[[Task], Proof]:
    """Return a proposer of a module of this package, loaded when it is called: compilers and solvers take a while."""

    def propose(task: Task) -> Proof:
        proof: Proof = getattr(import_module(f"bounds.{module}"), name)(task)
        return proof

    return propose


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("alone", "all that requests share", lambda task: Alone()),
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
    )
}  # fmt: skip
"""Every method: cheap ones, those that refuse most instances, and last the one that can use all time that is left."""

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

    `time_limit` is in seconds, divided among the methods: what one leaves, those after it get.

    Raises BadInput for a name that is none, and where the one method that was asked for does not apply.
    """
    check_objective(objective)
    if method not in ("auto", *METHODS):
        raise BadInput(f"no bound is called {method!r}; there are auto, {', '.join(METHODS)}")
    chosen = list(METHODS.values()) if method == "auto" else [METHODS[method]]
    end = time.monotonic() + time_limit
    for k, each in enumerate(chosen):
        share = (end - time.monotonic()) / (len(chosen) - k)
        rung = _try(each, Task(instance, objective, time.monotonic() + share, upper))
        if rung.certificate is None and method != "auto":
            raise BadInput(f"{method}: {rung.why_not}")
        yield rung
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


def _try(method: Method, task: Task) -> Rung:
    began = time.monotonic()
    try:
        certificate = certify(task.instance, task.objective, method.propose(task))
    except (BadInput, InvalidCertificate) as reason:
        return Rung(method.name, time.monotonic() - began, why_not=str(reason))
    return Rung(method.name, time.monotonic() - began, certificate, certificate.value)
