"""Durations in the Big-M program: D >= f/q for each cost function, with linear features."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.big_m_letters import Letters, Rows
from formulations.chains import longest_batch
from kvcore.cost import Features

BATCH_FEATURES = ("busy", "any_decode", "any_prefill")


class BatchCost:
    """Durations and their features, bounded from below only.

    D is an integer where f/q may be a fraction and the model's unit of time is the tick; elsewhere f/q is below the
    duration, by less than one tick a batch.
    """

    shortest = 1
    """Least ticks of a batch."""

    def __init__(self, program: Letters) -> None:
        self.program, self.instance = program, program.instance
        self.functions = self.instance.cost.functions
        self._add_durations()
        self._add_features()

    def _add_durations(self) -> None:
        program = self.program
        batches = () if program.is_one_tick else program.batches
        domain = pyo.NonNegativeIntegers if self.rounds_up and program.scale == 1 else pyo.NonNegativeReals
        self.D = program.letter("D", batches, longest_batch(self.instance) / program.scale, domain)

    def _add_features(self) -> None:
        program = self.program

        def where(feature: str, index: Iterable[Any]) -> Iterable[Any]:
            return index if self.has(feature) else ()

        self.busy, self.any_decode, self.any_prefill = (
            program.letter(name, where(name, program.batches)) for name in BATCH_FEATURES
        )
        hinges = [(f, j) for f, function in enumerate(self.functions) if function.tokens_above for j in self.D]
        self.tokens_above = program.letter("tokens_above", hinges, sum(map(program.peak, program.requests)))
        self.decode_kv, self.prefill_kv = (
            program.letter(name, where(name, program.every), program.peak) for name in ("decode_kv", "prefill_kv")
        )
        self.prefill_pairs = program.letter(
            "prefill_pairs", where("prefill_pairs", program.every), lambda i, j: program.peak(i) ** 2
        )
        self.add_digits({(i, j): program.largest_work(i, j) for i, j in self.prefill_pairs})

    def add_digits(self, most: dict[tuple[int, int], int]) -> None:
        """Add the binary digits of each c, at most `most`, and their pairs."""
        self.digits = {ij: range(tokens.bit_length()) for ij, tokens in most.items()}
        self.digit = self.program.binary("digit", [(i, j, b) for (i, j), digits in self.digits.items() for b in digits])
        self.digit_pairs = self.program.letter("digit_pairs", self.digit, lambda i, j, b: 2 * self.program.peak(i))

    @property
    def rounds_up(self) -> bool:
        """Whether f/q can be a fraction."""
        hinges = [(f.tokens_above.coefficient, f.divisor) for f in self.functions if f.tokens_above]
        terms = [(coefficient, f.divisor) for f in self.functions for _, coefficient in f.terms]
        return any(coefficient % divisor for coefficient, divisor in terms + hinges)

    def has(self, feature: str) -> bool:
        """Whether durations depend on a feature."""
        return not self.program.is_one_tick and any(getattr(function, feature) for function in self.functions)

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints on durations."""
        return [
            self.least_duration, self.duration_of_cost, self.indicators, self.tokens_above_knee,
            self.kv_read_by_decodes, self.kv_read_by_prefills, self.digits_of_tokens, self.pairs_of_digits,
        ]  # fmt: skip

    def least_duration(self) -> Rows:
        """D[j] >= d used[j], with d the least duration of any batch: one tick."""
        for j, duration in self.D.items():
            yield duration >= self.shortest / self.program.scale * self.program.used[j]

    def duration_of_cost(self) -> Rows:
        """D[j] >= f/q for each cost function f with divisor q."""
        for (j, duration), (f, function) in product(self.D.items(), enumerate(self.functions)):
            unit = function.divisor * self.program.scale
            cost = sum(coefficient / unit * self.feature(k, j) for k, coefficient in function.terms)
            if function.tokens_above is not None:
                cost += function.tokens_above.coefficient / unit * self.tokens_above[f, j]
            yield duration >= cost

    def feature(self, k: int, j: int) -> Any:
        """Return a feature of batch j by its place in `Features`."""
        program, name = self.program, Features._fields[k]
        if name in BATCH_FEATURES:
            return program.model.component(name)[j]
        counted = {"decode_requests": program.decodes, "prefill_requests": program.prefills}
        counted["swap_outs"] = program.swaps_out
        letters = {
            "tokens": program.c, "generated": program.g, "decode_kv": self.decode_kv, "prefill_kv": self.prefill_kv,
            "prefill_pairs": self.prefill_pairs, "swap_out_tokens": program.swapped_out,
            "swap_in_tokens": program.swapped_in, "swap_ins": program.swap_in,
        }  # fmt: skip
        return sum(counted[name](i, j) if name in counted else letters[name][i, j] for i in program.requests)

    def indicators(self) -> Rows:
        """busy[j] >= w, any_decode[j] >= d, any_prefill[j] >= fresh + extends."""
        for i, j in self.program.every:
            if self.has("busy"):
                yield self.busy[j] >= self.program.w[i, j]
            if self.has("any_decode"):
                yield self.any_decode[j] >= self.program.decodes(i, j)
            if self.has("any_prefill"):
                yield self.any_prefill[j] >= self.program.prefills(i, j)

    def tokens_above_knee(self) -> Rows:
        """tokens_above[j] >= sum of c - knee used[j]."""
        for (f, j), above in self.tokens_above.items():
            hinge = self.functions[f].tokens_above
            knee = hinge.knee if hinge else 0
            yield above >= sum(self.program.c[i, j] for i in self.program.requests) - knee * self.program.used[j]

    def kv_read_by_decodes(self) -> Rows:
        """decode_kv >= m' - M (1 - d)."""
        for (i, j), read in self.decode_kv.items():
            yield read >= self.program.resident(i, j) - self.program.most_m[i, j] * (1 - self.program.decodes(i, j))

    def kv_read_by_prefills(self) -> Rows:
        """prefill_kv >= m' - M (1 - extends); a fresh prefill reads none."""
        for (i, j), read in self.prefill_kv.items():
            yield read >= self.program.resident(i, j) - self.program.most_m[i, j] * (1 - self.program.extends[i, j])

    def digits_of_tokens(self) -> Rows:
        """c[i,j] = sum of 2**b digit[i,j,b]."""
        for (i, j), digits in self.digits.items():
            yield self.program.c[i, j] == sum(2**b * self.digit[i, j, b] for b in digits)

    def pairs_of_digits(self) -> Rows:
        """prefill_pairs >= sum of 2**b digit_pairs[b], digit_pairs[b] >= c + 2 m' - M (1 - digit[b]) - M d.

        c*c + 2*c*m' is c times c + 2m', and c is the sum of its binary digits: exact.
        """
        program = self.program
        for (i, j, b), digit in self.digit.items():
            factor = program.c[i, j] + 2 * program.resident(i, j)
            yield self.digit_pairs[i, j, b] >= factor - 2 * program.most_S[i, j] * (1 - digit + program.decodes(i, j))
        for (i, j), digits in self.digits.items():
            yield self.prefill_pairs[i, j] >= sum(2**b * self.digit_pairs[i, j, b] for b in digits)
