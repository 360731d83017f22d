"""busy-time: how long each layer lasts, where a layer is a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyomo.environ as pyo

from formulations.arc_flow.flows import Flows, Rows
from formulations.arc_flow.transitions import Action
from formulations.chains import longest_batch

INDICATORS: dict[str, Callable[[Action], bool]] = {
    "busy": lambda action: action.work > 0,
    "any_decode": lambda action: action.work > 0 and action.decode,
    "any_prefill": lambda action: action.work > 0 and not action.decode,
}
"""Features that are 1 if any request does something in the batch."""


def features(action: Action) -> dict[str, int]:
    """Return what an action adds to the features of its batch that are sums, the quadratic ones included."""
    works, c, m = action.work > 0, action.work, action.resident
    decode, prefill = works and action.decode, works and not action.decode
    return {
        "tokens": c,
        "generated": int(action.generated),
        "decode_requests": int(decode),
        "prefill_requests": int(prefill),
        "decode_kv": m if decode else 0,
        "prefill_kv": m if prefill else 0,
        "prefill_pairs": c * c + 2 * c * m if prefill else 0,
        "swap_out_tokens": action.swap_out,
        "swap_in_tokens": action.swap_in,
        "swap_outs": int(action.swap_out > 0),
        "swap_ins": int(action.swap_in > 0),
    }


class LayerCost:
    """`used[t]`: some request is not done before layer t; `D[t]`: its duration, in the model's unit of time.

    D is an integer unless the unit is many ticks; then f/q is a lower bound, by less than one tick a batch.
    """

    def __init__(self, program: Flows) -> None:
        self.program, self.model, self.instance = program, program.model, program.instance
        self.functions = self.instance.cost.functions
        self.is_one_tick = self.instance.cost.always_one_tick
        self.layers = [] if program.setting.timed else sorted(program.in_layer)
        durations = [] if self.is_one_tick else self.layers
        model = self.model
        model.used = pyo.Var(self.layers, domain=pyo.Binary)
        domain = pyo.NonNegativeIntegers if program.scale == 1 else pyo.NonNegativeReals
        model.D = pyo.Var(durations, domain=domain, bounds=(0, longest_batch(self.instance) / program.scale))
        for name in INDICATORS:
            wanted = any(getattr(function, name) for function in self.functions)
            model.add_component(name, pyo.Var(durations if wanted else [], domain=pyo.Binary))
        hinges = [(f, t) for f, function in enumerate(self.functions) if function.tokens_above for t in durations]
        tokens = sum(request.peak for request in self.instance.requests)
        model.tokens_above = pyo.Var(hinges, bounds=(0, tokens))

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of durations."""
        return [
            self.in_use,
            self.memory_in_use,
            self.layer_order,
            self.indicators,
            self.memory_of_indicators,
            self.hinge,
            self.duration_is_the_cost,
        ]

    def total(self) -> Any:
        """Return the busy time."""
        return sum((self.model.used if self.is_one_tick else self.model.D).values())

    def by_class(self, t: int, which: Callable[[Action], bool]) -> Iterator[tuple[int, Any]]:
        """Return for each class its count and the flow that does something in layer t."""
        return self.program.by_class((c, a) for c, a, action in self.program.in_layer[t] if which(action))

    def in_use(self) -> Rows:
        """Requests of class c that are not done before layer t <= n_c used[t]."""
        for t in self.layers:
            for count, flow in self.by_class(t, lambda _: True):
                yield flow <= count * self.model.used[t]

    def memory_in_use(self) -> Rows:
        """Blocks held in layer t <= B used[t] (tightens)."""
        for t in self.layers:
            yield from self.blocks_within(t, lambda _: True, self.model.used[t])

    def memory_of_indicators(self) -> Rows:
        """Blocks of the requests that do what an indicator says <= B indicator[t] (tightens)."""
        for name, which in INDICATORS.items():
            for t in self.model.component(name):
                yield from self.blocks_within(t, which, self.model.component(name)[t])

    def blocks_within(self, t: int, which: Callable[[Action], bool], indicator: Any) -> Rows:
        """Blocks of the requests that do something <= B times its indicator; KV whose place is free is left out."""
        machine = self.program.machine
        terms: list[tuple[float, int]] = [
            (machine.blocks(action.device), a)
            for _, a, action in self.program.in_layer[t]
            if which(action) and action.device and action.place < 0
        ]
        if machine.block_limit is not None and terms:
            yield self.program.sum(terms) <= machine.block_limit * indicator

    def layer_order(self) -> Rows:
        """used[t+1] <= used[t]: unused layers come last."""
        for t in self.layers[1:]:
            yield self.model.used[t] <= self.model.used[t - 1]

    def indicators(self) -> Rows:
        """busy, any_decode, any_prefill: flows of class c that do so <= n_c indicator[t]."""
        for name, which in INDICATORS.items():
            for t in self.model.component(name):
                for count, flow in self.by_class(t, which):
                    yield flow <= count * self.model.component(name)[t]

    def hinge(self) -> Rows:
        """tokens_above[t] >= tokens[t] - knee used[t]."""
        for f, t in self.model.tokens_above:
            knee = self.functions[f].tokens_above
            assert knee is not None
            tokens: list[tuple[float, int]] = [
                (action.work, a) for _, a, action in self.program.in_layer[t] if action.work
            ]
            yield self.model.tokens_above[f, t] >= self.program.sum(tokens) - knee.knee * self.model.used[t]

    def duration_is_the_cost(self) -> Rows:
        """D[t] >= used[t] (one tick), and D[t] >= f/q for each function."""
        for t in self.model.D:
            yield self.program.scale * self.model.D[t] >= self.model.used[t]
            for f, function in enumerate(self.functions):
                unit = function.divisor * self.program.scale
                terms: list[tuple[float, int]] = [
                    (coefficient / unit, a)
                    for _, a, action in self.program.in_layer[t]
                    if (coefficient := self.coefficient(f, action))
                ]
                fixed = sum(getattr(function, name) / unit * self.model.component(name)[t] for name in self.shared(f))
                above = (
                    function.tokens_above.coefficient / unit * self.model.tokens_above[f, t]
                    if (function.tokens_above)
                    else 0
                )
                yield self.model.D[t] >= self.program.sum(terms) + fixed + above

    def coefficient(self, f: int, action: Action) -> int:
        """Return what an action adds to f."""
        return sum(getattr(self.functions[f], name) * amount for name, amount in features(action).items() if amount)

    def shared(self, f: int) -> list[str]:
        """Return the indicators that f counts."""
        return [name for name in INDICATORS if getattr(self.functions[f], name)]
