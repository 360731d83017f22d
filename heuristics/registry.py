"""The policies by name, and the best of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from heuristics.engine.policy import Policy
from heuristics.engine.ranked import Ranked
from heuristics.engine.run import PolicyError, Unsuited, trace_policy
from heuristics.engine.user_policy import as_policy, load_policy
from heuristics.policies.augserve import ABLATIONS as AUGSERVE
from heuristics.policies.augserve import AugServe
from heuristics.policies.deadline import Deadline
from heuristics.policies.figure_1 import Fcfs, MarsOrder, RandomOrder, Sjf, SjfApi
from heuristics.policies.first_tokens import FirstTokens
from heuristics.policies.index import Index
from heuristics.policies.infercept import (
    STEPS,
    ByType,
    ImprovedDiscard,
    Infercept,
    InferceptElapsed,
    InferceptProfiled,
    Preserve,
    Swap,
)
from heuristics.policies.infercept_as_released import InferceptAsReleased
from heuristics.policies.infermax import (
    EVICTION_FREE,
    TABLE_1,
    Infermax,
    InfermaxHistogram,
    Sarathi,
    SarathiServe,
    Vllm,
    VllmVidur,
)
from heuristics.policies.knee import Knee
from heuristics.policies.mars import ABLATIONS as MARS
from heuristics.policies.mars import Mars
from heuristics.policies.mars_as_released import MarsAsReleased
from heuristics.policies.mc_sf import McSf, MemoryArea
from heuristics.policies.on_time import OnTime
from heuristics.policies.prefix_eviction import Belady, TailLru
from heuristics.policies.rank import RANKINGS, RankAsReleased, Ranking, Srpt
from heuristics.policies.refill import Refill
from heuristics.policies.serial import Serial
from heuristics.policies.sglang import VARIANTS as SGLANG
from heuristics.policies.sglang import SGLang
from heuristics.policies.sglang_prefix import VARIANTS as SGLANG_PREFIX
from heuristics.policies.sglang_prefix import SGLangPrefix
from heuristics.policies.slai import Slai
from heuristics.policies.sorted_f import SortedF
from heuristics.policies.staggered import Staggered
from heuristics.policies.trtllm import VARIANTS as TRTLLM
from heuristics.policies.trtllm_v2 import TensorRtLlmV2
from heuristics.policies.vllm_v1 import VARIANTS as VLLM_V1
from heuristics.policies.vllm_v1 import VllmV1
from heuristics.policies.vllm_v1_prefix import VARIANTS as VLLM_V1_PREFIX
from heuristics.policies.vllm_v1_prefix import VllmV1Prefix
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
    "engines of today": (VllmV1(), *VLLM_V1, SGLang(), *SGLANG, *TRTLLM, TensorRtLlmV2()),
    "INFERMAX": (
        Vllm(), VllmVidur(), Sarathi(), SarathiServe(), *TABLE_1, *EVICTION_FREE, *map(Ranking, RANKINGS),
        *(RankAsReleased(Ranking(row)) for row in RANKINGS), Infermax(), InfermaxHistogram(),
    ),
    "InferCept": (
        ImprovedDiscard(), Preserve(), Swap(),
        *STEPS, ByType(),
        Infercept(), InferceptProfiled(), InferceptElapsed(), InferceptAsReleased(),
    ),
    "MARS and LAMPS": (Mars(), *MARS, MarsAsReleased()),
    "AugServe": (AugServe(), *AUGSERVE),
    "references": (
        Srpt(), Index(), Knee(), Deadline(), OnTime(), FirstTokens(), McSf(), Staggered(), SortedF(), Slai(),
        Refill(), MemoryArea(), RandomOrder(),
    ),
}  # fmt: skip

POLICIES: dict[str, Policy] = {policy.name: policy for family in FAMILIES.values() for policy in family}

SHARING: dict[str, Policy] = {
    policy.name: policy
    for policy in (VllmV1Prefix(), *VLLM_V1_PREFIX, Belady(), TailLru(), SGLangPrefix(), *SGLANG_PREFIX)
}
"""Policies that share contents by themselves."""

SET = {name: policy for name, policy in (POLICIES | SHARING).items() if policy.settings} | {"wait": Wait()}
"""Policies whose names may give numbers, by the word before the colon."""

BY_COST = sorted(POLICIES.values(), key=lambda p: (p.name != "serial", isinstance(p, Ranked), p.knows != "online"))
"""Every policy, roughly the fastest first: those with an admission test take up to three times as long."""

AnyPolicy = str | Policy | type[Policy] | Callable[..., Any]  # what `get_policy` takes


def get_policy(name: AnyPolicy) -> Policy:
    """Return the policy of that name, or one of a user's file (`FILE.py`, `FILE.py:CLASS`). BadInput if there is none.

    A Policy is returned as it is, a class is made; a function of a view and a plan decides (`Policy.decide`), one of a
    job is the key of an order (`Plan.fill`).

    Some take optional numbers, by name or in order: `index:r0=SECONDS,group=G`, `staggered:B,G`, `vllm-v1:watermark=W`;
    `kvbound policies NAME` lists them. `wait:N,COUNT` needs both.
    """
    if not isinstance(name, str):
        return as_policy(name)
    kind, colon, _ = name.partition(":")
    if colon and kind in SET:
        return SET[kind].set(name)
    if name.endswith(".py") or ".py:" in name:
        return load_policy(name)
    if name not in POLICIES | SHARING:
        near = did_you_mean(name, POLICIES | SHARING)
        raise BadInput(f"no policy is called {name!r}{near}; `kvbound policies` lists all, FILE.py is one of your own")
    return (POLICIES | SHARING)[name]


def best_schedule(instance: Instance, objective: str) -> tuple[str, Schedule, Trace]:
    """Run the `STARTERS`; return name, schedule and trace of the smallest value, the first of equal ones.

    Every batch is written out, for models that start from it. BadInput: no such objective.
    """
    check_objective(objective)
    found = list[tuple[str, Trace]]()
    for policy in STARTERS:
        with suppress(PolicyError, Unsuited):  # `serial` always succeeds
            found.append((policy.name, trace_policy(instance, policy.sharing() if instance.contents else policy)))
    name, best = min(found, key=lambda pair: objective_value(pair[1], objective))
    trace = verify_schedule(instance, best.expanded())
    return name, trace.schedule, trace
