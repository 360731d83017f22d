"""How long a batch takes: the largest of 1 and the rounded-up values of linear functions of its features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from itertools import count, repeat
from math import ceil
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, FailFast, Field, PrivateAttr, RootModel

from kvcore.errors import BadInput
from kvcore.shown import Shown, brief

LIMIT = 10**15
"""The largest coefficient, and the most ticks of a batch."""

Coefficient = Annotated[int, Field(ge=0, le=LIMIT)]


class Features(NamedTuple):
    """Arguments of a cost, counted after the moves of the batch (`docs/semantics.md`).

    `busy`, `any_decode`, `any_prefill` are 0 or 1; `*_kv` are the sums of resident tokens m over the requests of a
    phase; `prefill_pairs` is the sum of c*c + 2*c*m over prefills.
    """

    busy: int = 0
    any_decode: int = 0
    any_prefill: int = 0
    tokens: int = 0
    generated: int = 0
    decode_requests: int = 0
    prefill_requests: int = 0
    decode_kv: int = 0
    prefill_kv: int = 0
    prefill_pairs: int = 0
    swap_out_tokens: int = 0
    swap_in_tokens: int = 0
    swap_outs: int = 0
    swap_ins: int = 0


class TokensAbove(Shown):
    """`coefficient` for each token of the batch above `knee`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    knee: Coefficient
    coefficient: Coefficient


class CostFunction(Shown):
    """One linear function of the features, over `divisor`, rounded up."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    divisor: Annotated[int, Field(ge=1, le=10**15)] = 1
    busy: Coefficient = 0
    any_decode: Coefficient = 0
    any_prefill: Coefficient = 0
    tokens: Coefficient = 0
    tokens_above: TokensAbove | None = None
    generated: Coefficient = 0
    decode_requests: Coefficient = 0
    prefill_requests: Coefficient = 0
    decode_kv: Coefficient = 0
    prefill_kv: Coefficient = 0
    prefill_pairs: Coefficient = 0
    swap_out_tokens: Coefficient = 0
    swap_in_tokens: Coefficient = 0
    swap_outs: Coefficient = 0
    swap_ins: Coefficient = 0

    @cached_property
    def terms(self) -> tuple[tuple[int, int], ...]:
        """The non-zero coefficients, as pairs (position in `Features`, coefficient)."""
        return tuple((k, getattr(self, name)) for k, name in enumerate(Features._fields) if getattr(self, name))

    def value(self, features: Features) -> int:
        """Return f, undivided."""
        total = 0
        for k, coefficient in self.terms:
            total += coefficient * features[k]
        if self.tokens_above is not None:
            total += self.tokens_above.coefficient * max(0, features.tokens - self.tokens_above.knee)
        return total

    def rising(self, value: int, slope: int) -> Iterator[int]:
        """Yield the ticks of a value of f, and without end those of `slope` more and more."""
        return (-(minus // self.divisor) for minus in count(-value, -slope))


class Cost(RootModel[Annotated[tuple[CostFunction, ...], Field(min_length=1, max_length=1000), FailFast()]]):
    """The cost model of an instance: D = max(1, ceil(f/q) over its functions)."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    def __repr__(self) -> str:
        return f"Cost({brief(list(self.root))[1:-1]})"

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def unit(cls) -> Cost:
        """Every batch lasts one tick."""
        return cls((CostFunction(busy=1),))

    @property
    def functions(self) -> tuple[CostFunction, ...]:
        """The functions f, each with its divisor."""
        return self.root

    def check_linear(self) -> None:
        """Raise BadInput if it is a user's function."""

    def ticks(self, features: Features) -> int:
        """Return the largest of the functions in whole ticks; unlike `duration` it may be 0."""
        return max(-(-function.value(features) // function.divisor) for function in self.root)

    def duration(self, features: Features) -> int:
        """Ticks of a batch with these features, at least 1."""
        longest = 1
        for function in self.root:
            ticks = -(-function.value(features) // function.divisor)
            if ticks > longest:
                longest = ticks
        return longest

    def durations(self, features: Features) -> Iterator[int]:
        """Return the ticks of this batch and, without end, those of the batches in which the same decodes go on.

        From each batch to the next, each of the decodes reads one more token of KV.
        """
        slopes = [function.decode_kv * features.decode_requests for function in self.root]
        if not any(slopes):
            return repeat(self.duration(features))
        lines = [f.rising(f.value(features), slope) for f, slope in zip(self.root, slopes, strict=True)]
        return map(max, repeat(1), *lines)

    @cached_property
    def always_one_tick(self) -> bool:
        """Whether every batch lasts one tick."""
        return all(
            not (function.tokens_above and function.tokens_above.coefficient)
            and sum(c for _, c in function.terms) <= function.divisor
            and {Features._fields[k] for k, _ in function.terms} <= {"busy", "any_decode", "any_prefill"}
            for function in self.root
        )


class OwnCost(Cost):
    """A cost that is any function of the `Features` of a batch, in ticks: schedules are executed with it, no more.

    Results are rounded up to whole ticks, at least 1; a float is its binary fraction. The function must be
    deterministic, as the referee asks again. Proofs need coefficients and refuse it.
    """

    _function: Callable[[Features], int | Fraction | float] = PrivateAttr()

    def __init__(self, function: Callable[[Features], int | Fraction | float]) -> None:
        super().__init__(Cost.unit().root)
        self._function = function

    def __repr__(self) -> str:
        return f"OwnCost({self.name})"

    @property
    def name(self) -> str:
        """The function and its line, by which the hash of an instance knows it: two of one line are alike."""
        code = getattr(self._function, "__code__", None)
        name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        return f"{self._function.__module__}.{name}" + ("" if code is None else f", line {code.co_firstlineno}")

    def check_linear(self) -> None:
        """Raise BadInput: linearity is unknown."""
        raise BadInput(
            f"the cost is a function of your own ({self.name}): only policies and the referee take it; optima, bounds, "
            "certificates and files need one of linear functions (kvbound.Cost)"
        )

    @property
    def functions(self) -> tuple[CostFunction, ...]:
        """Raise BadInput: there are none."""
        self.check_linear()
        raise AssertionError  # for mypy

    @cached_property
    def always_one_tick(self) -> bool:
        """False: it is unknown."""
        return False

    def ticks(self, features: Features) -> int:
        """Return the function's value, rounded up. BadInput unless from 0 to `LIMIT`."""
        value: Any = self._function(features)
        if isinstance(value, int | Fraction | float) and 0 <= value <= LIMIT:
            return ceil(value)
        raise BadInput(f"the cost {self.name} gives {value!r} for {features}: give ticks from 0 to {LIMIT}")

    def duration(self, features: Features) -> int:
        """As `Cost.duration`."""
        return max(1, self.ticks(features))

    def durations(self, features: Features) -> Iterator[int]:
        """As `Cost.durations`."""
        for i in count():
            yield self.duration(features._replace(decode_kv=features.decode_kv + i * features.decode_requests))
