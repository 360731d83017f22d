"""The sets and variables of the Big-M model and what they mean: the parts of the model add constraints on them.

`j` is a batch from 1, `i` a request, `q` one of its tokens, `k` a call or segment, the last three from the position in
the instance; `S, m, c, g` are the letters of the paper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.chains import chains
from formulations.horizon import latest_completions, latest_first_tokens
from formulations.refills import is_paced
from formulations.timing import time_scale
from kvcore.instance import Instance, alike
from kvcore.metrics import Value

Rows = Iterator[Any]
Windows = tuple[list[list[int]], list[list[int]]]


class BatchVariables:
    """What the parts of the model share. `clock` is set first: it says which batches there are, and their windows."""

    name: str
    clock: BatchClock

    def __init__(self, instance: Instance, objective: str, upper_bound: Value | None, plain: bool, as_is: bool) -> None:
        self.instance, self.machine, self.objective_name = instance, instance.machine, objective
        self.upper_bound, self.plain, self.as_is = upper_bound, plain, as_is
        self.paced = is_paced(instance, objective) or (as_is and objective != "busy-time")
        self.chains = chains(instance)
        self.requests = range(len(instance.requests))
        self.scale = time_scale(instance)
        self.is_one_tick = instance.cost.always_one_tick
        self.model = pyo.ConcreteModel(name=self.name)

    @property
    def times(self) -> TickClock:
        """The clock, where the objective is one of time."""
        assert isinstance(self.clock, TickClock)
        return self.clock

    @cached_property
    def batches(self) -> range:
        """The batches of the model."""
        return range(1, self.clock.batches + 1)

    # --- variables -----------------------------------------------------------------------------------------------

    def _windows(self) -> Windows:
        """Return for each request and token the first batch that can, and the last that must have generated it."""
        if self.plain:
            ends = [[self.clock.batches + 1] * (chain.outputs + 1) for chain in self.chains]
            return [[1] * (chain.outputs + 1) for chain in self.chains], ends
        return self.clock.windows()

    def add_variables(self) -> None:
        """Add the variables of requests and batches, in the windows of the clock."""
        self.first, self.last = self._windows()
        model, every = self.model, list(product(self.requests, self.batches))
        model.used = pyo.Var(self.batches, domain=pyo.Binary)
        model.y = pyo.Var(
            [
                (i, q, j)
                for i in self.requests
                for q in self.marks(i)
                for j in self.batches
                if self.first[i][q] <= j < self.last[i][q]
            ],
            domain=pyo.Binary,
        )
        if self.plain:
            model.g = pyo.Var(every, domain=pyo.Binary)
            model.generated = pyo.Var(every, bounds=lambda _, i, j: (0, self.chains[i].outputs))
        if self.machine.chunked:
            model.w = pyo.Var(every, domain=pyo.Binary)
        integral = self.machine.chunked or self.machine.partial
        tokens = pyo.NonNegativeIntegers if integral else pyo.NonNegativeReals
        model.c = pyo.Var(every, domain=tokens, bounds=lambda _, i, j: (0, self.most_tokens(i, j)))
        model.m = pyo.Var(every, domain=pyo.NonNegativeReals, bounds=lambda _, i, j: (0, self.most_resident(i, j)))
        model.fresh = pyo.Var(every, domain=pyo.Binary)
        extends = [(i, j) for i, j in every if self.phases_matter and self.may_extend(i)]
        model.extends = pyo.Var(extends, domain=pyo.Binary)
        if not self.machine.hybrid:
            model.phase = pyo.Var(self.batches, domain=pyo.Binary)
        if self.machine.memory is not None and self.machine.block > 1:
            most = [self.machine.blocks(chain.request.peak) for chain in self.chains]
            model.blocks_held = pyo.Var(every, domain=pyo.NonNegativeIntegers, bounds=lambda _, i, j: (0, most[i]))

    def marks(self, i: int) -> Sequence[int]:
        """Return the tokens of which the model knows by which batch they are generated: all, or if plain, the ends."""
        chain = self.chains[i]
        return sorted({1, *chain.ends}) if self.plain else range(1, chain.outputs + 1)

    @property
    def phases_matter(self) -> bool:
        """Whether anything depends on which work is a prefill and which a decode."""
        machine = self.machine
        budget = machine.prefill_tokens is not None and machine.prefill_tokens != machine.batch_tokens
        return budget or not machine.hybrid or self.instance_cost_has("decode", "prefill")

    def instance_cost_has(self, *parts: str) -> bool:
        """Whether the cost has a feature with one of these parts in its name."""
        return any(
            getattr(function, name)
            for function in self.instance.cost.functions
            for name in type(function).model_fields
            if name != "divisor" and any(part in name for part in parts)
        )

    def may_extend(self, i: int) -> bool:
        """Whether request i can be in a prefill on top of resident KV."""
        request = self.chains[i].request
        return self.machine.chunked or self.machine.partial or any(call.returns for call in request.calls)

    # --- what variables mean -------------------------------------------------------------------------------------

    def reached(self, i: int, q: int, j: int) -> Any:
        """y: 1 if request i has generated token q by the end of batch j."""
        if q == 0:
            return 1
        if j < self.first[i][q]:
            return 0
        return 1 if j >= self.last[i][q] else self.model.y[i, q, j]

    def makes(self, i: int, q: int, j: int) -> Any:
        """1 if request i generates token q in batch j."""
        return self.reached(i, q, j) - self.reached(i, q, j - 1)

    def generated(self, i: int, j: int) -> Any:
        """Tokens that request i has generated by the end of batch j."""
        if self.plain:
            return self.model.generated[i, j] if j else 0
        return sum(self.reached(i, q, j) for q in self.marks(i))

    def generates(self, i: int, j: int) -> Any:
        """g: 1 if request i generates a token in batch j."""
        return self.model.g[i, j] if self.plain else self.generated(i, j) - self.generated(i, j - 1)

    def works(self, i: int, j: int) -> Any:
        """1 if request i works in batch j; without chunks, work always generates a token."""
        return self.model.w[i, j] if self.machine.chunked else self.generates(i, j)

    def done(self, i: int, j: int) -> Any:
        """1 if request i is done at the end of batch j."""
        return self.reached(i, self.chains[i].outputs, j)

    def ended(self, i: int, k: int, j: int) -> Any:
        """E: 1 if segment k has ended, and its call begun, by the end of batch j."""
        return self.reached(i, self.chains[i].ends[k], j)

    def in_call(self, i: int, k: int, j: int) -> Any:
        """1 if call k has begun before batch j and (as far as the model uses it) not returned by its start."""
        return self.ended(i, k, j - 1) - self.clock.returned(i, k, j)

    def known(self, i: int, j: int) -> Any:
        """S: tokens known at the start of batch j (calls that have not returned left out)."""
        calls = enumerate(self.chains[i].request.calls)
        returns = sum(call.returns * self.clock.returned(i, k, j) for k, call in calls if call.returns)
        return self.chains[i].request.prompt + self.generated(i, j - 1) + returns

    def resident(self, i: int, j: int) -> Any:
        """m: KV on the device at the end of batch j."""
        return self.model.m[i, j] if j else 0

    def extends(self, i: int, j: int) -> Any:
        """1 if request i works in batch j on resident KV, in the prefill phase."""
        return self.model.extends[i, j] if (i, j) in self.model.extends else 0  # noqa: SIM401 - no dict

    def decodes(self, i: int, j: int) -> Any:
        """1 if request i is in the decode phase in batch j (where phases matter)."""
        return self.works(i, j) - self.model.fresh[i, j] - self.extends(i, j)

    def most_generated(self, i: int, j: int) -> int:
        """Return the most tokens that request i can have generated by the end of batch j."""
        return max(q for q in range(self.chains[i].outputs + 1) if q == 0 or self.first[i][q] <= j)

    def most_known(self, i: int, j: int) -> int:
        """Return the most tokens that request i can have to process by batch j: the context of its next token."""
        chain = self.chains[i]
        return chain.context[min(self.most_generated(i, j - 1) + 1, chain.outputs)]

    def most_resident(self, i: int, j: int) -> int:
        """Return the most KV that request i can hold at the end of batch j: the tightest constant for m."""
        limit = self.machine.prefill_limit
        return 0 if j < 1 else min(self.most_known(i, j), self.most_known(i, j) if limit is None else j * limit)

    def most_tokens(self, i: int, j: int) -> int:
        """Return the most tokens that request i can process in batch j: the tightest constant for c."""
        limit = self.machine.prefill_limit
        return self.most_known(i, j) if limit is None else min(limit, self.most_known(i, j))

    def duration(self, j: int) -> Any:
        """D[j], in the model's unit of time; 0 for an unused batch."""
        return self.model.used[j] if self.is_one_tick else self.model.D[j]

    @property
    def loose_tokens(self) -> int:
        """The one loose constant for tokens of the plain variant."""
        return max(chain.request.peak for chain in self.chains) + 1

    @cached_property
    def alike(self) -> list[list[int]]:
        """Groups of requests that differ in their id only, and may be exchanged."""
        return [] if self.as_is else alike(chain.request for chain in self.chains)


class BatchClock(ABC):
    """What the three clocks share. `origin` is the first arrival, from which times count."""

    may_idle = False
    """Whether a batch may be idle that is followed by one that is not."""
    least = 0
    """Ticks of a batch at the least, if it has a time (else 0)."""

    def __init__(self, program: BatchVariables, batches: int) -> None:
        self.program, self.model, self.batches = program, program.model, batches
        self.origin = program.instance.first_arrival

    def variables(self) -> None:  # noqa: B027 - a clock may need none
        """Add the variables of the clock to the model."""

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the clock."""
        return []

    def windows(self) -> Windows:
        """Return for each request and token q the first batch that can, and the last that must have generated it."""
        firsts, lasts = [], []
        for i, chain in enumerate(self.program.chains):
            steps = [0, *(chain.steps[q] + self.wait(i, q) for q in range(1, chain.outputs + 1))]
            first, last = [self.wait(i, 0)], [self.last_batch(i)]
            for q in range(1, chain.outputs + 1):
                first.append(first[-1] + steps[q])
                last.append(last[-1] - steps[-q])
            last.reverse()
            if self.program.objective_name == "total-ttft":
                last[1] = min(last[1], self.last_batch(i, first_token=True))
            firsts.append(first)
            lasts.append(last)
        return firsts, lasts

    def wait(self, i: int, q: int) -> int:
        """Return the idle batches before token q (0: before any work), at the least."""
        return 0

    def last_batch(self, i: int, first_token: bool = False) -> int:
        """Return the last batch that can complete request i (or generate its first token) within the upper bound."""
        program = self.program
        if program.upper_bound is None or not self.least:
            return self.batches
        if first_token:
            latest: list[int] | None = latest_first_tokens(program.instance, program.upper_bound)
        else:
            latest = latest_completions(program.instance, program.objective_name, program.upper_bound)
        return self.batches if latest is None else min(self.batches, (latest[i] - self.origin) // self.least)

    @abstractmethod
    def returned(self, i: int, k: int, j: int) -> Any:
        """R: 1 if call k of request i has returned by the start of batch j; 0 is always allowed, and then it waits."""

    def milestones(self) -> range:
        """Return the batches up to which totals are worth bounding: all, as times depend on them."""
        return self.program.batches

    def must_continue(self, i: int, j: int) -> Any:
        """1 if request i worked in the batch before j and its segment did not end there."""
        ends = self.program.chains[i].ends
        ended = sum(self.program.ended(i, k, j - 1) - self.program.ended(i, k, j - 2) for k in range(len(ends)))
        return self.program.works(i, j - 1) - ended


class TickClock(BatchClock):
    """A clock by which tokens and batches have a time."""

    @abstractmethod
    def time_of(self, i: int, q: int) -> Any:
        """Return when the batch ends that generates token q, from the origin, in the model's unit of time."""

    @abstractmethod
    def end(self) -> Any:
        """Return when the last request is done, from the origin, in the model's unit of time."""

    @abstractmethod
    def end_tick(self, j: int) -> int:
        """Return the tick at which batch j ends in the values of the variables."""
