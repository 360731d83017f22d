"""The policies by name, and the best of them."""

from __future__ import annotations

from collections.abc import Iterable

from heuristics.engine import PolicyError, Unsuited, trace_policy
from heuristics.fcfs import Fcfs
from heuristics.infermax import Infermax, InfermaxHistogram
from heuristics.mars_order import MarsOrder
from heuristics.mc_sf import McSf, MemoryArea
from heuristics.own import own_policy
from heuristics.policy import Policy
from heuristics.random_order import RandomOrder
from heuristics.rank import RankI, RankO, RankOrg, Srpt
from heuristics.sarathi import Sarathi
from heuristics.serial import Serial
from heuristics.sjf import Sjf
from heuristics.sjf_api import SjfApi
from heuristics.table_1 import table_1
from heuristics.vllm import Vllm
from kvbound.errors import BadInput
from kvbound.instance import Instance
from kvbound.metrics import check_objective, objective_value
from kvbound.schedule import Schedule
from kvbound.trace import Trace

STARTERS = (Fcfs(), Sjf(), SjfApi(), MarsOrder(), Serial())
"""Policies that never evict and run on every machine; the best of them is where a solve starts."""

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (*STARTERS, Vllm(), Sarathi())}
"""Every policy, by the name that commands use."""

# INFERMAX, and the references
POLICIES |= {policy.name: policy for policy in table_1()}
POLICIES |= {policy.name: policy for policy in (RankOrg(), RankI(), RankO(), Infermax(), InfermaxHistogram())}
POLICIES |= {policy.name: policy for policy in (Srpt(), McSf(), MemoryArea(), RandomOrder())}


def get_policy(name: str) -> Policy:
    """Return the policy of that name, `random:SEED`, or of a user's file (`FILE.py`, `FILE.py:CLASS`), or BadInput."""
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

    `policies` are names or policies (None: the `STARTERS`, of which `serial` always succeeds). One that is unsuited, or
    ends with a PolicyError, is passed over; if all do, the last error is raised. BadInput for an unknown name or
    objective, or if `policies` is empty.
    """
    check_objective(objective)
    chosen = [get_policy(p) if isinstance(p, str) else p for p in (STARTERS if policies is None else policies)]
    if not chosen:
        raise BadInput("no policy was given; name at least one")
    best: tuple[str, Trace] | None = None
    failure: BadInput | None = None
    for policy in chosen:
        try:
            trace = trace_policy(instance, policy)
        except (PolicyError, Unsuited) as error:
            failure = error
            continue
        if best is None or objective_value(trace, objective) < objective_value(best[1], objective):
            best = (policy.name, trace)
    if best is None:
        assert failure is not None  # for mypy: of at least one policy, all have failed
        raise failure
    return best[0], best[1].schedule, best[1]
