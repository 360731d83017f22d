"""The ladder of lower bounds: methods from the cheapest to the strongest, and the best that they prove together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

from kvbound.certificates import Alone, Certificate, InvalidCertificate, Proof, certify
from kvbound.errors import BadInput
from kvbound.instance import Instance
from kvbound.metrics import Value, check_objective


@dataclass(frozen=True)
class Task:
    """What a method is given: the instance, the objective, and when to stop (by `time.monotonic`).

    `upper` is the value of a schedule, if one is known: it only says where a proof may stop.
    """

    instance: Instance
    objective: str
    deadline: float
    upper: Value | None = None


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


def _propose(module: str, task: Task) -> Proof:
    """Call the proposer of a module of this package, which is loaded only now: compilers and solvers take a while."""
    proof: Proof = import_module(f"bounds.{module}").propose(task.instance, task.objective, task.deadline)
    return proof


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("alone", "all that requests share", lambda task: Alone()),
        Method("configurations", "that each request runs once, and how small ones pack",
               lambda task: _propose("configurations", task)),
    )
}  # fmt: skip
"""Every method, the cheapest first."""

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

    Raises BadInput for a name that is none, and where the one method that was asked for does not apply.
    """
    check_objective(objective)
    if method not in ("auto", *METHODS):
        raise BadInput(f"no bound is called {method!r}; there are auto, {', '.join(METHODS)}")
    task = Task(instance, objective, time.monotonic() + time_limit, upper)
    for chosen in METHODS.values() if method == "auto" else (METHODS[method],):
        rung = _try(chosen, task)
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
