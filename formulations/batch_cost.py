"""How long a batch lasts in the Big-M model: D >= f/q for each cost function, with every feature linear."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.batch_moves import BatchMoves
from formulations.batch_variables import BatchVariables, Rows
from formulations.chains import apart, least_batch, longest_batch
from kvcore.cost import Features


class BatchCost:
    """Durations and the features that they depend on. Features are bounded from below only: costs never fall in them.

    D is an integer where f/q may be none and the model's unit of time is the tick; elsewhere f/q is a lower bound of
    the duration, by less than one tick a batch.
    """

    def __init__(self, program: BatchVariables, moves: BatchMoves) -> None:
        self.program, self.moves, self.model, self.instance = program, moves, program.model, program.instance
        self.functions = self.instance.cost.functions
        self.all = [] if self.program.is_one_tick else list(product(program.requests, program.batches))
        self._variables()

    def _variables(self) -> None:
        model, program = self.model, self.program
        batches = [] if self.program.is_one_tick else list(program.batches)
        most = longest_batch(self.instance) / program.scale
        domain = pyo.NonNegativeIntegers if self.rounds_up and program.scale == 1 else pyo.NonNegativeReals
        model.D = pyo.Var(batches, domain=domain, bounds=(0, most))
        for name in ("busy", "any_decode", "any_prefill"):
            model.add_component(name, pyo.Var(batches if self.has(name) else [], bounds=(0, 1)))
        hinges = [(f, j) for f, function in enumerate(self.functions) if function.tokens_above for j in batches]
        tokens = sum(chain.request.peak for chain in program.chains)
        model.tokens_above = pyo.Var(hinges, bounds=(0, tokens))
        for name, power in (("decode_kv", 1), ("prefill_kv", 1), ("prefill_pairs", 2)):
            where = self.all if self.has(name) else []
            largest = {(i, j): (0, program.chains[i].request.peak ** power) for i, j in where}
            model.add_component(name, pyo.Var(where, bounds=largest))
        digits = [
            (i, j, b)
            for i, j in (self.all if self.has("prefill_pairs") else ())
            if program.plain or program.may_extend(i)
            for b in range(program.most_tokens(i, j).bit_length())
        ]
        model.digit = pyo.Var(digits, domain=pyo.Binary)
        model.digit_pairs = pyo.Var(digits, bounds=lambda _, i, j, b: (0, 2 * program.most_known(i, j)))

    @property
    def rounds_up(self) -> bool:
        """Whether f/q can be anything but a whole number."""
        return any(
            coefficient % function.divisor
            for function in self.functions
            for coefficient in (
                *(coefficient for _, coefficient in function.terms),
                function.tokens_above.coefficient if function.tokens_above else 0,
            )
        )

    def has(self, feature: str) -> bool:
        """Whether the cost depends on a feature."""
        return any(getattr(function, feature) for function in self.functions)

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints on durations, one method each."""
        if self.program.is_one_tick:
            return []
        return [
            self.least_duration, self.duration_of_cost, self.indicators, self.prefills_fit, self.prefill_batches,
            self.some_phase, self.tokens_above_knee, self.kv_read_by_decodes, self.kv_read_by_prefills,
            self.pairs_of_fresh_prefills, self.pairs_by_token, self.digits_of_tokens, self.pairs_of_digits,
        ]  # fmt: skip

    def least_duration(self) -> Rows:
        """D[j] >= d used[j], with d the least duration of any batch (plain: one tick)."""
        least = 1 if self.program.plain else least_batch(self.instance)
        for j in self.program.batches:
            yield self.model.D[j] >= least / self.program.scale * self.model.used[j]

    def duration_of_cost(self) -> Rows:
        """D[j] >= f/q for each cost function f with divisor q."""
        for j, (f, function) in product(self.program.batches, enumerate(self.functions)):
            features, unit = self.features(j), function.divisor * self.program.scale
            cost = sum(coefficient / unit * features[k] for k, coefficient in function.terms)
            if function.tokens_above is not None:
                cost += function.tokens_above.coefficient / unit * self.model.tokens_above[f, j]
            yield self.model.D[j] >= cost

    def features(self, j: int) -> Features:
        """Return the features of batch j as expressions (those that the cost does not depend on are 0)."""
        model, program, moves = self.model, self.program, self.moves

        def total(feature: str, term: Callable[[int], Any]) -> Any:
            return sum(term(i) for i in program.requests) if self.has(feature) else 0

        def variable(feature: str) -> Any:
            return getattr(model, feature)[j] if self.has(feature) else 0

        return Features(
            busy=variable("busy"),
            any_decode=variable("any_decode"),
            any_prefill=variable("any_prefill"),
            tokens=total("tokens", lambda i: model.c[i, j]),
            generated=total("generated", lambda i: program.generates(i, j)),
            decode_requests=total("decode_requests", lambda i: program.decodes(i, j)),
            prefill_requests=total("prefill_requests", lambda i: self.prefills(i, j)),
            decode_kv=total("decode_kv", lambda i: model.decode_kv[i, j]),
            prefill_kv=total("prefill_kv", lambda i: model.prefill_kv[i, j]),
            prefill_pairs=total("prefill_pairs", lambda i: model.prefill_pairs[i, j]),
            swap_out_tokens=total("swap_out_tokens", lambda i: moves.swapped_out(i, j)),
            swap_in_tokens=total("swap_in_tokens", lambda i: moves.swapped_in(i, j)),
            swap_outs=total("swap_outs", lambda i: moves.swaps_out(i, j)),
            swap_ins=total("swap_ins", lambda i: moves.swaps_in(i, j)),
        )

    def prefills(self, i: int, j: int) -> Any:
        """1 if request i is in the prefill phase in batch j."""
        return self.model.fresh[i, j] + self.program.extends(i, j)

    def indicators(self) -> Rows:
        """busy[j] >= w, any_decode[j] >= d, any_prefill[j] >= fresh + extends."""
        for i, j in self.all:
            if self.has("busy"):
                yield self.model.busy[j] >= self.program.works(i, j)
            if self.has("any_decode"):
                yield self.model.any_decode[j] >= self.program.decodes(i, j)
            if self.has("any_prefill"):
                yield self.model.any_prefill[j] >= self.prefills(i, j)

    def prefills_fit(self) -> Rows:
        """Sum of c over prefills <= most any_prefill[j], the most that fits into memory and budget (tightens)."""
        machine = self.program.machine
        limits = [limit for limit in (machine.memory, machine.prefill_limit) if limit is not None]
        if self.has("any_prefill") and limits and not self.program.plain:
            for j in self.program.batches:
                tokens = sum(self.model.c[i, j] - self.program.decodes(i, j) for i in self.program.requests)
                yield tokens <= min(limits) * self.model.any_prefill[j]

    def prefill_batches(self) -> Rows:
        """Sum over j of any_prefill[j] >= the requests of which no two can have their last prefill in one batch."""
        if self.has("any_prefill") and not self.program.plain:
            batches = sum(self.model.any_prefill[j] for j in self.program.batches)
            yield batches >= len(apart(self.instance, self.program.chains))

    def some_phase(self) -> Rows:
        """used[j] <= busy[j] + transfers and <= any_decode[j] + any_prefill[j] + transfers (tightens)."""
        moves, model = self.moves, self.model
        for j in () if self.program.plain else self.program.batches:
            transfers = sum(moves.swaps_out(i, j) + moves.swaps_in(i, j) for i in self.program.requests)
            if self.has("busy"):
                yield model.used[j] <= model.busy[j] + transfers
            if self.has("any_prefill") and self.has("any_decode"):
                yield model.used[j] <= model.any_decode[j] + model.any_prefill[j] + transfers

    def tokens_above_knee(self) -> Rows:
        """tokens_above[j] >= sum of c - knee used[j]."""
        for f, j in self.model.tokens_above:
            tokens, function = sum(self.model.c[i, j] for i in self.program.requests), self.functions[f]
            knee = function.tokens_above.knee if function.tokens_above else 0
            yield self.model.tokens_above[f, j] >= tokens - knee * self.model.used[j]

    def kv_read_by_decodes(self) -> Rows:
        """decode_kv >= sum of (A_q - 1) (y[q,j] - y[q,j-1]) - M (g - d); plain: >= m' - M (1 - d)."""
        program = self.program
        for i, j in self.model.decode_kv:
            most, decodes = self.moves.most(i, j), program.decodes(i, j)
            if program.plain:
                yield self.model.decode_kv[i, j] >= self.moves.resident(i, j) - most * (1 - decodes)
            else:
                context, most = program.chains[i].context, program.most_known(i, j) - 1
                read = sum((context[q] - 1) * program.makes(i, q, j) for q in program.marks(i))
                yield self.model.decode_kv[i, j] >= read - most * (program.generates(i, j) - decodes)

    def kv_read_by_prefills(self) -> Rows:
        """prefill_kv >= m' - M (1 - extends); a fresh prefill reads none."""
        program = self.program
        for i, j in self.model.prefill_kv:
            most = self.moves.most(i, j)
            yield self.model.prefill_kv[i, j] >= self.moves.resident(i, j) - most * (1 - program.extends(i, j))

    def pairs_of_fresh_prefills(self) -> Rows:
        """prefill_pairs >= sum of A_q**2 (y[q,j] - y[q,j-1]) - A_max**2 (1 - fresh); without chunks, (g - fresh)."""
        program = self.program
        for i, j in () if program.plain else self.model.prefill_pairs:
            context, most = program.chains[i].context, program.most_known(i, j) ** 2
            pairs = sum(context[q] ** 2 * program.makes(i, q, j) for q in program.marks(i))
            other = (1 if program.machine.chunked else program.generates(i, j)) - self.model.fresh[i, j]
            yield self.model.prefill_pairs[i, j] >= pairs - most * other

    def pairs_by_token(self) -> Rows:
        """Sum of prefill_pairs up to batch j >= sum over q of the pairs that token q needs, times y[i,q,j]."""
        program = self.program
        priced = self.has("prefill_pairs") and not program.plain
        for i, j in product(program.requests, program.clock.milestones() if priced else ()):
            pairs = program.chains[i].least_pairs
            needed = sum(pairs[q] * program.reached(i, q, j) for q in program.marks(i) if pairs[q])
            yield sum(self.model.prefill_pairs[i, b] for b in range(1, j + 1)) >= needed

    def digits_of_tokens(self) -> Rows:
        """c[i,j] = sum of 2**b digit[i,j,b]."""
        for i, j in {(i, j): None for i, j, _ in self.model.digit}:
            digits = range(self.program.most_tokens(i, j).bit_length())
            yield self.model.c[i, j] == sum(2**b * self.model.digit[i, j, b] for b in digits)

    def pairs_of_digits(self) -> Rows:
        """prefill_pairs >= sum of 2**b digit_pairs[b], digit_pairs[b] >= c + 2 m' - M (1 - digit[b]) - M d.

        c*c + 2*c*m' is c times c + 2m', and c is the sum of its binary digits: exact.
        """
        program = self.program
        for i, j, b in self.model.digit:
            factor = self.model.c[i, j] + 2 * self.moves.resident(i, j)
            most = 2 * program.most_known(i, j)
            away = 1 - self.model.digit[i, j, b] + program.decodes(i, j)
            yield self.model.digit_pairs[i, j, b] >= factor - most * away
        for i, j in {(i, j): None for i, j, _ in self.model.digit}:
            digits = range(program.most_tokens(i, j).bit_length())
            pairs = sum(2**b * self.model.digit_pairs[i, j, b] for b in digits)
            yield self.model.prefill_pairs[i, j] >= pairs
