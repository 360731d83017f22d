"""The policies by name, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from heuristics.augserve import AugServe, AugServeAsPrinted, AugServeBatching
from heuristics.engine import PolicyError, Unsuited, trace_policy
from heuristics.fcfs import Fcfs
from heuristics.improved_discard import ImprovedDiscard
from heuristics.infercept import Infercept, InferceptElapsed, InferceptProfiled
from heuristics.infercept_as_released import InferceptAsReleased
from heuristics.infercept_steps import BudgetedSwap, ByDuration, ByType, ChunkedDiscard
from heuristics.infermax import Infermax, InfermaxHistogram
from heuristics.mars import Lamps, Mars, MarsFcfs
from heuristics.mars_as_released import MarsAsReleased
from heuristics.mars_order import MarsOrder
from heuristics.mc_sf import McSf, MemoryArea
from heuristics.own import own_policy
from heuristics.policy import Policy
from heuristics.preserve import Preserve
from heuristics.random_order import RandomOrder
from heuristics.rank import RankI, RankO, RankOrg, Srpt
from heuristics.sarathi import Sarathi
from heuristics.serial import Serial
from heuristics.sjf import Sjf
from heuristics.sjf_api import SjfApi
from heuristics.swap import Swap
from heuristics.table_1 import table_1
from heuristics.vllm import Vllm
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace

STARTERS = (Fcfs(), Sjf(), SjfApi(), MarsOrder(), Serial())
"""Policies that never evict and run on every machine; the best of them is where a solve starts."""

FAMILIES: dict[str, tuple[Policy, ...]] = {
    "the rule of Figure 1": STARTERS,
    "INFERMAX": (
        Vllm(), Sarathi(), *table_1(), RankOrg(), RankI(), RankO(), Infermax(), InfermaxHistogram(),
    ),
    "InferCept": (
        ImprovedDiscard(), Preserve(), Swap(),
        ChunkedDiscard(), BudgetedSwap(), ByType(),
        Infercept(), InferceptProfiled(), InferceptElapsed(), InferceptAsReleased(),
        ByDuration("infercept-hs", discard_from=None), ByDuration("infercept-hd", swap_from=None), ByDuration(),
    ),
    "MARS and LAMPS": (Mars(), MarsFcfs(), Lamps(), MarsAsReleased()),
    "AugServe": (AugServe(), AugServeAsPrinted(), AugServeBatching()),
    "references": (Srpt(), McSf(), MemoryArea(), RandomOrder()),
}  # fmt: skip
"""Every policy, by what it is from."""

POLICIES: dict[str, Policy] = {policy.name: policy for family in FAMILIES.values() for policy in family}
"""Every policy, by the name that commands use."""


def get_policy(name: str) -> Policy:
    """Return the policy of that name, `random:SEED`, or one of a user's file (`FILE.py`, `FILE.py:CLASS`).

    BadInput if there is none.
    """
    if name.startswith("random:") and name.removeprefix("random:").isdecimal():
        return RandomOrder(int(name.removeprefix("random:")))
    if name.endswith(".py") or ".py:" in name:
        return own_policy(name)
    if name not in POLICIES:
        raise BadInput(f"no policy is called {name!r}; there are {', '.join(POLICIES)}")
    return POLICIES[name]


def best_schedule(
    instance: Instance, objective: str, policies: Iterable[str | Policy] | None = None
) -> tuple[str, Schedule, Trace]:
    """Run policies and return the name, schedule and trace of the one with the smallest value; the first of equal ones.

    The schedule has every batch written out, as the models that start from it want it.
    `policies` are names or policies (None: the `STARTERS`, of which `serial` always succeeds). One that is unsuited, or
    ends with a PolicyError, is passed over; if all do, the last error is raised. BadInput for an unknown name or
    objective, or if `policies` is empty.
    """
    *_, (name, best) = better_traces(instance, objective, policies)
    trace = verify_schedule(instance, best.expanded())
    return name, trace.schedule, trace


def better_traces(
    instance: Instance,
    objective: str,
    policies: Iterable[str | Policy] | None = None,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[tuple[str, Trace]]:
    """Run policies as `best_schedule` does, the last first, and yield each that is at least as good as all before.

    The last of the `STARTERS` is `serial`, the fastest. Once there is a trace, `go_on` may end the others.
    """
    check_objective(objective)
    chosen = [get_policy(p) if isinstance(p, str) else p for p in (STARTERS if policies is None else policies)]
    if not chosen:
        raise BadInput("no policy was given; name at least one")
    best: Value | None = None
    failure: BadInput | None = None
    for policy in reversed(chosen):
        if best is not None and not go_on():
            return
        try:
            trace = trace_policy(instance, policy, go_on=lambda: True if best is None else go_on())  # noqa: B023
        except (PolicyError, Unsuited) as error:
            failure = failure or error
            continue
        value = objective_value(trace, objective)
        if best is None or value <= best:
            best = value
            yield policy.name, trace
    if best is None:
        assert failure is not None  # for mypy: of at least one policy, all have failed
        raise failure
