"""Which features an instance and an objective have, and who takes them: unlisted ones are declined.

A field of an instance not named in the tables is the feature `UNNAMED`, which nobody takes. Who adds a field names its
feature here, and in the `takes` of each proof, way and policy shown to be right with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from kvcore.cost import Cost
from kvcore.instance import Instance
from kvcore.metrics import check_objective, tail_of


class Feature(StrEnum):
    """What an instance or an objective may have; the value is its word in messages."""

    MEMORY = "memory"
    BLOCKS = "block"
    HOST = "host_memory"
    BATCH_TOKENS = "batch_tokens"
    PREFILL_TOKENS = "prefill_tokens"
    BATCH_REQUESTS = "batch_requests"
    ONE_PHASE = "no hybrid"
    CHUNKS = "chunked"
    EVICT = "evict"
    PARTIAL = "partial"
    PAUSE = "pause"
    NO_PAUSE = "no pause"
    DROP_AND_WORK = "drop_and_work"
    ARRIVALS = "arrivals"
    WEIGHTS = "weights"
    SLO = "SLOs"
    TPOT = "TPOT SLOs"
    CALLS = "calls"
    RETURNS = "calls that return tokens"
    FREE = "free calls"
    PRESERVE = "preserve calls"
    DISCARD = "discard calls"
    SWAP = "swap calls"
    LONG_BATCHES = "batches of several ticks"
    ATTENTION = "the cost of attention"
    HINGE = "tokens_above"
    TRANSFERS = "the cost of transfers"
    FUNCTIONS = "several cost functions"
    OWN_COST = "a cost of your own"
    SHARED = "shared prefixes"
    LAYOUT = "a layout of KV"
    FLOW = "total-flow-time"
    WEIGHTED = "weighted-flow-time"
    TTFT = "total-ttft"
    NORMALIZED = "normalized-latency"
    MAKESPAN = "makespan"
    BUSY = "busy-time"
    LONGEST = "max-flow-time"
    LATE = "late-requests"
    PERCENTILE = "percentiles"
    UNNAMED = "a field that no feature names"


MACHINES = frozenset(
    {
        Feature.MEMORY, Feature.BLOCKS, Feature.HOST, Feature.BATCH_TOKENS, Feature.PREFILL_TOKENS,
        Feature.BATCH_REQUESTS, Feature.ONE_PHASE, Feature.CHUNKS, Feature.EVICT, Feature.PARTIAL, Feature.PAUSE,
        Feature.NO_PAUSE,
    }
)  # fmt: skip
REQUESTS = frozenset({Feature.ARRIVALS, Feature.WEIGHTS, Feature.SLO, Feature.TPOT})
CALLS = frozenset({Feature.CALLS, Feature.RETURNS, Feature.FREE, Feature.PRESERVE, Feature.DISCARD, Feature.SWAP})
COSTS = frozenset({Feature.LONG_BATCHES, Feature.ATTENTION, Feature.HINGE, Feature.TRANSFERS, Feature.FUNCTIONS})
RULES = MACHINES | REQUESTS | CALLS | COSTS
"""The first features of `docs/semantics.md`. These sets are closed."""
FLOWS = frozenset({Feature.FLOW, Feature.WEIGHTED, Feature.NORMALIZED})
SUMS = FLOWS | {Feature.TTFT}
OBJECTIVES = SUMS | {Feature.MAKESPAN, Feature.BUSY, Feature.LONGEST, Feature.LATE}
"""All but percentiles."""

Row = Callable[[Any], Feature | None]


def _but(neutral: Any, feature: Feature) -> Row:
    return lambda value: None if value == neutral else feature


def _by(values: Mapping[Any, Feature]) -> Row:
    return lambda value: values.get(value, Feature.UNNAMED)


def _plain(*names: str) -> dict[str, None]:
    return dict.fromkeys(names)


MACHINE: dict[str, Row | None] = {
    "memory": _but(None, Feature.MEMORY),
    "block": _but(1, Feature.BLOCKS),
    "host_memory": _but(0, Feature.HOST),
    "batch_tokens": _but(None, Feature.BATCH_TOKENS),
    "prefill_tokens": _but(None, Feature.PREFILL_TOKENS),
    "batch_requests": _but(None, Feature.BATCH_REQUESTS),
    "hybrid": _but(True, Feature.ONE_PHASE),
    "chunked": _but(False, Feature.CHUNKS),
    "evict": _but(False, Feature.EVICT),
    "partial": _but(False, Feature.PARTIAL),
    "pause": _by({True: Feature.PAUSE, False: Feature.NO_PAUSE}),
    "drop_and_work": _but(False, Feature.DROP_AND_WORK),
    "same_batch": _but(True, Feature.SHARED),
    "layout": _but(None, Feature.LAYOUT),
}
LAYOUT: dict[str, Row | None] = {**_plain("state", "groups")}
GROUP: dict[str, Row | None] = {**_plain("weight", "window")}
REQUEST: dict[str, Row | None] = {
    "weight": _but(1, Feature.WEIGHTS),
    **_plain("id", "arrival", "prompt", "slo", "max_new", "slo_class", "path", "segments"),
}
SLO: dict[str, Row | None] = {
    **dict.fromkeys(("ttft", "latency", "normalized_latency"), _but(None, Feature.SLO)),
    "tpot": _but(None, Feature.TPOT),
}
SEGMENT: dict[str, Row | None] = {**_plain("decode", "call")}
CALL: dict[str, Row | None] = {
    "duration": _but(None, Feature.CALLS),
    "returns": _but(0, Feature.RETURNS),
    "handling": _by(
        {"free": Feature.FREE, "preserve": Feature.PRESERVE, "discard": Feature.DISCARD, "swap": Feature.SWAP}
    ),
}
FUNCTION: dict[str, Row | None] = {
    **_plain("divisor", "busy", "any_decode", "any_prefill", "tokens", "generated"),
    **_plain("decode_requests", "prefill_requests"),
    "tokens_above": _but(None, Feature.HINGE),
    **dict.fromkeys(("decode_kv", "prefill_kv", "prefill_pairs"), _but(0, Feature.ATTENTION)),
    **dict.fromkeys(("swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins"), _but(0, Feature.TRANSFERS)),
}
INSTANCE: dict[str, Row | None] = {
    **_plain("format", "version", "name", "tick_seconds", "machine", "cost", "requests", "coarsening"),
    "contents": _but((), Feature.SHARED),
}
NAMED = (INSTANCE, MACHINE, REQUEST, SLO, SEGMENT, CALL, FUNCTION, LAYOUT, GROUP)


def features(instance: Instance, objective: str) -> frozenset[Feature]:
    """Return all features of an instance and an objective. Raises BadInput."""
    return features_of(instance) | {_of_objective(objective)}


def features_of(instance: Instance) -> frozenset[Feature]:
    """Return all features of an instance."""
    requests = instance.requests
    segments = [segment for request in requests for segment in request.segments]
    found = _read(INSTANCE, [instance]) | _read(MACHINE, [instance.machine]) | _of_cost(instance.cost)
    found |= _read(REQUEST, requests) | _read(SEGMENT, segments)
    found |= _read(SLO, [request.slo for request in requests if request.slo is not None])
    found |= _read(CALL, [segment.call for segment in segments if segment.call is not None])
    if (layout := instance.machine.layout) is not None:
        found |= _read(LAYOUT, [layout]) | _read(GROUP, layout.groups)
    if len({request.arrival for request in requests}) > 1:
        found.add(Feature.ARRIVALS)
    return frozenset(found)


def _of_cost(cost: Cost) -> set[Feature]:
    if type(cost) is not Cost:
        return {Feature.OWN_COST}
    found = _read(FUNCTION, cost.functions)
    if cost.always_one_tick:
        return found & {Feature.UNNAMED}
    return found | {Feature.LONG_BATCHES} | ({Feature.FUNCTIONS} if len(cost.functions) > 1 else set())


def _of_objective(objective: str) -> Feature:
    if tail_of(check_objective(objective)) is not None:
        return Feature.PERCENTILE
    return next((feature for feature in OBJECTIVES if feature == objective), Feature.UNNAMED)


def _read(table: Mapping[str, Row | None], nouns: Iterable[BaseModel]) -> set[Feature]:
    nouns = list(nouns)
    found: set[Feature | None] = {
        Feature.UNNAMED for kind in {type(noun) for noun in nouns} if kind.model_fields.keys() - table.keys()
    }
    for name, row in table.items():
        if row is not None:
            found |= {row(value) for value in {getattr(noun, name) for noun in nouns}}
    return {feature for feature in found if feature is not None}


@dataclass(frozen=True)
class Takes:
    """The features that a proof, way or policy takes, and those that it takes only apart."""

    features: frozenset[Feature]
    apart: frozenset[tuple[Feature, Feature]] = frozenset()

    def missing(self, found: Iterable[Feature]) -> str | None:
        """Return the features not taken, in words (None: all are)."""
        found = sorted(found, key=list(Feature).index)
        if lacking := [feature for feature in found if feature not in self.features]:
            return " and ".join(filter(None, (", ".join(lacking[:-1]), lacking[-1])))
        return next((f"{one} and {other}" for one, other in sorted(self.apart) if {one, other} <= {*found}), None)

    def why_not(self, name: str, instance: Instance, objective: str) -> str | None:
        """Return a sentence on the features of an instance and an objective that are not taken (None: all are)."""
        missing = self.missing(features(instance, objective))
        return missing and f"{name} is not proved with {missing}"


NOTHING = Takes(frozenset())
