"""The policies by name, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from heuristics.engine.policy import Policy
from heuristics.engine.ranked import Ranked
from heuristics.engine.run import PolicyError, Unsuited, trace_policy
from heuristics.engine.user_policy import as_policy, load_policy
from heuristics.policies.augserve import ABLATIONS as AUGSERVE
from heuristics.policies.augserve import AugServe
from heuristics.policies.deadline import Deadline
from heuristics.policies.figure_1 import Fcfs, MarsOrder, Sjf, SjfApi
from heuristics.policies.first_tokens import FirstTokens
from heuristics.policies.index import Index
from heuristics.policies.infercept import Infercept, InferceptElapsed, InferceptProfiled
from heuristics.policies.infercept_as_released import InferceptAsReleased
from heuristics.policies.infercept_steps import STEPS, ByDuration, ByType, ImprovedDiscard, Preserve, Swap
from heuristics.policies.infermax import Infermax, InfermaxHistogram, eviction_free, table_1
from heuristics.policies.knee import Knee
from heuristics.policies.listed import RandomOrder
from heuristics.policies.mars import ABLATIONS as MARS
from heuristics.policies.mars import Mars
from heuristics.policies.mars_as_released import MarsAsReleased
from heuristics.policies.mc_sf import McSf, MemoryArea
from heuristics.policies.on_time import OnTime
from heuristics.policies.rank import RANKINGS, RankAsReleased, Ranking, Srpt
from heuristics.policies.sarathi import Sarathi, SarathiServe
from heuristics.policies.serial import Serial
from heuristics.policies.sglang import SGLang
from heuristics.policies.slai import Slai
from heuristics.policies.sorted_f import SortedF
from heuristics.policies.staggered import Staggered
from heuristics.policies.trtllm import TensorRtLlm
from heuristics.policies.vllm import Vllm, VllmVidur
from heuristics.policies.vllm_v1 import VllmV1
from heuristics.policies.wait import Wait
from kvcore.errors import BadInput, did_you_mean
from kvcore.instance import Instance
from kvcore.metrics import check_objective, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace

STARTERS = (Fcfs(), Sjf(), SjfApi(), MarsOrder(), Serial())  # policies that never evict and run on every machine

FAMILIES: dict[str, tuple[Policy, ...]] = {
    "the rule of Figure 1": STARTERS,
    "engines of today": (
        VllmV1("vllm-v1"), VllmV1("vllm-v1-cached", cached=True), VllmV1("vllm-v1-first-chunk", gate=False),
        VllmV1("vllm-v1-priority", priority=True), VllmV1("vllm-v1-priority-0.32", priority=True, ends_step=True),
        VllmV1("vllm-v1-async", ahead=True),
        SGLang("sglang"), SGLang("sglang-cached", cached=True), SGLang("sglang-overlap", ahead=True),
        *(
            TensorRtLlm(f"trtllm-{name}{suffix}", utilize=utilize, cached=bool(suffix))
            for name, utilize in (("no-evict", False), ("max-utilization", True)) for suffix in ("", "-cached")
        ),
    ),
    "INFERMAX": (
        Vllm(), VllmVidur(), Sarathi(), SarathiServe(), *table_1(), *eviction_free(), *map(Ranking, RANKINGS),
        *(RankAsReleased(Ranking(row)) for row in RANKINGS), Infermax(), InfermaxHistogram(),
    ),
    "InferCept": (
        ImprovedDiscard(), Preserve(), Swap(),
        *STEPS, ByType(),
        Infercept(), InferceptProfiled(), InferceptElapsed(), InferceptAsReleased(),
        ByDuration("infercept-hs", discard_from=None), ByDuration("infercept-hd", swap_from=None), ByDuration(),
    ),
    "MARS and LAMPS": (Mars(), *MARS, MarsAsReleased()),
    "AugServe": (AugServe(), *AUGSERVE),
    "references": (
        Srpt(), Index(), Knee(), Deadline(), OnTime(), FirstTokens(), McSf(), Staggered(), SortedF(), Slai(),
        MemoryArea(), RandomOrder(),
    ),
}  # fmt: skip

POLICIES: dict[str, Policy] = {policy.name: policy for family in FAMILIES.values() for policy in family}

NAMED: dict[str, type[Index | Staggered | Wait]] = {
    "index": Index, "knee": Knee, "deadline": Deadline, "on-time": OnTime, "staggered": Staggered, "wait": Wait,
}  # fmt: skip
"""Policies with parameters, by the word before the colon."""

BY_COST = sorted(POLICIES.values(), key=lambda p: (p.name != "serial", isinstance(p, Ranked), p.knows != "online"))
"""Every policy, roughly the fastest first: those that test what they admit take up to three times as long."""

AnyPolicy = str | Policy | type[Policy] | Callable[..., Any]  # what `get_policy` takes


def get_policy(name: AnyPolicy) -> Policy:
    """Return the policy of that name, or one of a user's file (`FILE.py`, `FILE.py:CLASS`). BadInput if there is none.

    A Policy is returned as it is, one is made of a class of them, and of a function: one of a view and a plan decides
    (`Policy.decide`); one of a job is the key of an order, whose first jobs that fit are taken (`Plan.fill`).

    Some take parameters: `random:SEED`, `index:r0=SECONDS,group=G` and `deadline:flow=F,token=T` (either may be left
    out), `knee:means=R0`, `on-time:share=S,pace=P,ttft=SECONDS,latency=SECONDS`, `staggered:B,G`, `wait:N,COUNT`, and
    `vllm-v1..` and `sglang..` the engines' own: `vllm-v1:watermark=W`.
    """
    if not isinstance(name, str):
        return as_policy(name)
    if name.startswith("random:") and name.removeprefix("random:").isdecimal():
        return RandomOrder(int(name.removeprefix("random:")))
    kind, colon, _ = name.partition(":")
    if colon and kind in NAMED:
        return NAMED[kind].named(name)
    if colon and kind in POLICIES and POLICIES[kind].settings:
        return POLICIES[kind].set(name)
    if name.endswith(".py") or ".py:" in name:
        return load_policy(name)
    if name not in POLICIES:
        near = did_you_mean(name, POLICIES)
        raise BadInput(f"no policy is called {name!r}{near}; `kvbound policies` lists all, FILE.py is one of your own")
    return POLICIES[name]


def best_schedule(
    instance: Instance, objective: str, policies: Iterable[str | Policy] | None = None
) -> tuple[str, Schedule, Trace]:
    """Run policies and return the name, schedule and trace of the one with the smallest value; the first of equal ones.

    The schedule has every batch written out, as the models that start from it need it.
    `policies` are names or policies (None: the `STARTERS`, of which `serial` always succeeds). One that is unsuited, or
    ends with a PolicyError, is passed over; if all do, the last error is raised. BadInput for an unknown name or
    objective, or if `policies` is empty.
    """
    check_objective(objective)
    chosen = [get_policy(p) if isinstance(p, str) else p for p in (STARTERS if policies is None else policies)]
    if not chosen:
        raise BadInput("no policy was given; name at least one")
    found, failures = list[tuple[str, Trace]](), list[BadInput]()
    for policy in chosen:
        try:
            found.append((policy.name, trace_policy(instance, policy)))
        except (PolicyError, Unsuited) as error:
            failures.append(error)
    if not found:
        raise failures[-1]
    name, best = min(found, key=lambda pair: objective_value(pair[1], objective))
    trace = verify_schedule(instance, best.expanded())
    return name, trace.schedule, trace
