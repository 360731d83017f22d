"""Seeded random instances, small enough for the exhaustive search and rich enough to reach every rule.

`tiny_instance(seed)` draws everything; `tiny_instance(seed, **PROFILES["evict"])` fixes what the profile names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from pydantic import ValidationError

from kvcore.cost import Cost, CostFunction, TokensAbove
from kvcore.instance import Call, Instance, Machine, Request, Segment, Slo

ATTEMPTS = 1000

PROFILES: dict[str, dict[str, Any]] = {
    "any": {},
    "no-calls": {"calls": 0, "requests": 3},
    "calls-fixed": {"calls": 1, "handling": ("preserve", "discard", "swap"), "evict": False},
    "calls-free": {"calls": 1, "handling": ("free",)},
    "two-calls": {"calls": 2, "requests": 2, "decode": 1, "prompt": 1},
    "evict": {"calls": (0, 0, 1), "evict": True, "partial": False},
    "partial": {"calls": (0, 1), "requests": 2, "evict": True, "partial": True},
    "slow-costs": {"cost": ("linear", "two-functions"), "requests": 2},
}
"""What each named profile fixes; the rest is drawn."""

CHOICES: dict[str, tuple[Any, ...]] = {
    "requests": (2, 2, 3),
    "prompt": (1, 2, 3),
    "decode": (1, 2, 3),
    "calls": (0, 1, 1, 2),  # of each request; at most 4 of an instance
    "duration": (0, 1, 2, 3),
    "returns": (0, 1, 2),
    "handling": ("preserve", "discard", "swap", "free"),
    "arrival": (0, 0, 1, 2, 3),
    "weight": (1, 1, 2, 3),
    "slo": (False, True),
    "block": (1, 1, 2),
    "host_memory": ("none", "some", "no limit"),
    "batch_tokens": (None, 1, 2, 3, 4),
    "prefill_tokens": (None, None, 1, 2, 3),
    "batch_requests": (None, None, 1, 2),
    "hybrid": (False, True, True),
    "chunked": (False, True, True),
    "evict": (False, True),
    "partial": (False, False, True),
    "pause": (False, True),
    "cost": ("unit", "linear", "two-functions"),
}
"""From what each quantity is drawn, wherever it is not fixed; repeated values are likelier."""


def tiny_instance(seed: int, **fixed: Any) -> Instance:
    """Return the instance of that seed. A fixed quantity is one value of CHOICES, or a tuple to draw from instead.

    Memory is drawn between the largest peak of a request and the sum of all. Draws that no schedule can carry out
    (such as a prompt that is not chunked and above the budget) are drawn again.
    """
    unknown = fixed.keys() - CHOICES.keys()
    if unknown:
        raise ValueError(f"nothing is called {min(unknown)!r}; there are {', '.join(CHOICES)}")
    draw = _Draw(seed, CHOICES | {name: v if isinstance(v, tuple) else (v,) for name, v in fixed.items()})
    for _ in range(ATTEMPTS):
        try:
            return draw.instance(f"tiny-{seed}")
        except ValidationError:
            continue
    raise ValueError(f"seed {seed}: {ATTEMPTS} draws with {fixed} gave no instance that can be carried out")


def fixed_handlings(instance: Instance) -> Iterator[tuple[tuple[str, ...], Instance]]:
    """Yield every vector of handlings, call by call, with the instance that has it; not those that cannot be met."""
    calls = sum(len(request.calls) for request in instance.requests)
    for vector in product(("preserve", "discard", "swap"), repeat=calls):
        try:
            yield vector, _with_handlings(instance, vector)
        except ValidationError:  # the host cannot hold it, or the refill is above the budget and not chunked
            continue


def _with_handlings(instance: Instance, vector: tuple[str, ...]) -> Instance:
    handlings = iter(vector)
    return instance.replace(
        requests=tuple(
            request.replace(
                segments=tuple(
                    segment.replace(call=segment.call and segment.call.replace(handling=next(handlings)))
                    for segment in request.segments
                )
            )
            for request in instance.requests
        )
    )


class _Draw:
    """A random instance, from one stream of numbers."""

    def __init__(self, seed: int, choices: dict[str, tuple[Any, ...]]) -> None:
        self.random = random.Random(seed)
        self.choices = choices

    def __call__(self, name: str) -> Any:
        return self.random.choice(self.choices[name])

    def instance(self, name: str) -> Instance:
        requests = tuple(self.request(f"R{i}") for i in range(1, self("requests") + 1))
        return Instance(name=name, machine=self.machine(requests), cost=self.cost(), requests=requests)

    def request(self, id: str) -> Request:
        calls = [
            Call(duration=self("duration"), returns=self("returns"), handling=self("handling"))
            for _ in range(self("calls"))
        ]
        segments = tuple(Segment(decode=self("decode"), call=call) for call in [*calls, None])
        return Request(
            id=id,
            arrival=self("arrival"),
            prompt=self("prompt"),
            weight=self("weight"),
            slo=self.slo() if self("slo") else None,
            segments=segments,
        )

    def slo(self) -> Slo:
        """One or two of the four SLOs, about as long as an undisturbed request takes."""
        values = {
            "ttft": self.random.randint(1, 5),
            "latency": self.random.randint(2, 10),
            "tpot": Fraction(self.random.randint(2, 6), 2),
            "normalized_latency": Fraction(self.random.randint(3, 12), 2),
        }
        return Slo(**{name: values[name] for name in self.random.sample(sorted(values), self.random.randint(1, 2))})

    def machine(self, requests: tuple[Request, ...]) -> Machine:
        block = self("block")
        peaks = [-(-request.peak // block) * block for request in requests]
        batch_tokens, prefill_tokens = self("batch_tokens"), self("prefill_tokens")
        if batch_tokens is not None and prefill_tokens is not None:
            prefill_tokens = min(batch_tokens, prefill_tokens)
        some = self.random.randint(1, max(peaks))
        return Machine(
            memory=self.random.randint(max(peaks), sum(peaks)),
            block=block,
            host_memory={"none": 0, "some": some, "no limit": None}[self("host_memory")],
            batch_tokens=batch_tokens,
            prefill_tokens=prefill_tokens,
            batch_requests=self("batch_requests"),
            **{switch: self(switch) for switch in ("hybrid", "chunked", "evict", "partial", "pause")},
        )

    def cost(self) -> Cost:
        """The unit cost; one function of the work; or that and one of the transfers, overlapped with it."""
        kind = self("cost")
        if kind == "unit":
            return Cost.unit()
        upto = self.random.randint
        work = {
            "divisor": upto(1, 3),
            "busy": upto(0, 2),
            "any_decode": upto(0, 1),
            "any_prefill": upto(0, 1),
            "tokens": upto(0, 1),
            "tokens_above": TokensAbove(knee=upto(1, 3), coefficient=upto(0, 2)),
            "generated": upto(0, 1),
            "decode_requests": upto(0, 1),
            "prefill_requests": upto(0, 1),
            "decode_kv": upto(0, 1),
            "prefill_kv": upto(0, 1),
            "prefill_pairs": upto(0, 1),
        }
        swaps = {
            "swap_out_tokens": upto(0, 2),
            "swap_in_tokens": upto(0, 2),
            "swap_outs": upto(0, 1),
            "swap_ins": upto(0, 1),
        }
        if kind == "linear":
            return Cost((CostFunction(**work, **swaps),))
        return Cost((CostFunction(**work), CostFunction(divisor=upto(1, 2), **swaps)))
