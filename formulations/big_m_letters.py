"""The sets, constants and variables of the Big-M program.

`j` is a batch from 1, `i` a request (its position), `q` one of its tokens from 1, `k` a call or segment (its position).
`S, m, c, g` and `M` are INFERMAX's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.chains import chains, may_drop, may_swap
from formulations.refills import is_paced
from formulations.timing import time_scale
from kvcore.cost import Features
from kvcore.instance import Instance, alike
from kvcore.limits import BUDGETS, Limit, use_of
from kvcore.metrics import Value

Rows = Iterator[Any]
"""Linear inequalities and equations of Pyomo; one without variables is True or False."""


class Letter(dict[Any, Any]):
    """The variable, expression or number at each index; 0 elsewhere, as before the first batch."""

    def __missing__(self, index: Any) -> int:
        return 0


class Letters:
    """What all constraints share; `clock` has the batches."""

    name = "batch-bigm"
    contents: Any  # of `big_m_contents`

    def __init__(self, instance: Instance, objective: str, upper_bound: Value | None, as_is: bool) -> None:
        self.instance, self.machine, self.objective_name = instance, instance.machine, objective
        self.upper_bound, self.as_is = upper_bound, as_is
        self.paced = is_paced(instance, objective) or (as_is and objective != "busy-time")
        self.chains = chains(instance)
        self.requests = range(len(instance.requests))
        self.scale = time_scale(instance)
        self.is_one_tick = instance.cost.always_one_tick
        self.handlings = [[call.handling for call in request.calls] for request in instance.requests]
        self.droppable = [i for i, request in enumerate(instance.requests) if may_drop(self.machine, request)]
        self.swappable = [i for i, request in enumerate(instance.requests) if may_swap(instance, request)]
        self.choosing = [i for i in self.requests if self.machine.evict or "free" in self.handlings[i]]
        """Requests whose moves are chosen; calls order those of others."""
        self.model = pyo.ConcreteModel(name=self.name)

    def add_letters(self, clock: Clock) -> None:
        """Add the constants and variables of requests and batches."""
        self.clock, self.batches = clock, range(1, clock.batches + 1)
        self.every = list(product(self.requests, self.batches))
        self._add_constants()
        self._add_progress()
        self._add_moves()
        self._add_handling()

    # --- constants -----------------------------------------------------------------------------------------------

    def _add_constants(self) -> None:
        M = max(chain.request.peak for chain in self.chains) + 1
        self.most_c = dict.fromkeys(self.every, M)
        """Most tokens that i processes in j."""
        self.most_m = dict.fromkeys(self.every, M)
        """Most KV that i holds at the start of j."""
        self.most_S = dict.fromkeys(self.every, M)
        """Most tokens that are known of i in j."""
        self.room = dict.fromkeys(self.batches, 1)
        """Share of the memory that may be held in j."""

    @cached_property
    def alike(self) -> list[list[int]]:
        """Groups of requests that differ in their id only."""
        return [] if self.as_is else alike(chain.request for chain in self.chains)

    def peak(self, i: int, *_: int) -> int:
        """Return the largest KV of request i."""
        return self.chains[i].request.peak

    def largest_work(self, i: int, j: int) -> int:
        """Return the most tokens that request i can process in batch j: in the first, the prompt."""
        limit, most = self.machine.prefill_limit, self.peak(i) if j > 1 else self.chains[i].request.prompt
        return most if limit is None else min(limit, most)

    @property
    def phases_matter(self) -> bool:
        """Whether prefills and decodes must be told apart."""
        names = [name for name in Features._fields if "decode" in name or "prefill" in name]
        return (
            any(self.binds(limit) and limit.column not in ("tokens", "requests") for limit in BUDGETS)
            or not self.machine.hybrid
            or any(getattr(f, name) for f in self.instance.cost.functions for name in names)
        )

    def may_extend(self, i: int) -> bool:
        """Whether request i may prefill on top of resident KV."""
        returns = any(call.returns for call in self.chains[i].request.calls)
        return self.machine.chunked or self.machine.partial or returns or self.chains[i].reusable > 0

    # --- variables -----------------------------------------------------------------------------------------------

    def letter(
        self,
        name: str,
        where: Iterable[Any],
        most: float | Callable[..., float] = 1,
        domain: Any = pyo.NonNegativeReals,
    ) -> Letter:
        """Add, or replace, a variable from 0 to `most` for each index."""

        def bounds(_: Any, *index: int) -> tuple[int, float]:
            return 0, most(*index) if callable(most) else most

        variables = pyo.Var(list(where), domain=domain, bounds=bounds)
        self.model.del_component(name)
        self.model.add_component(name, variables)
        return Letter(variables)

    def binary(self, name: str, where: Iterable[Any]) -> Letter:
        """Add a 0/1 variable for each index."""
        return self.letter(name, where, domain=pyo.Binary)

    def _add_progress(self) -> None:
        machine, chains, every = self.machine, self.chains, self.every
        tokens = pyo.NonNegativeIntegers if machine.chunked or machine.partial else pyo.NonNegativeReals
        marks = [(i, q) for i in self.requests for q in sorted({1, *chains[i].ends})]
        self.used = self.binary("used", self.batches)
        self.g = self.binary("g", every)
        self.generated = self.letter("generated", every, lambda i, j: chains[i].outputs)
        self.y = self.binary("y", [(i, q, j) for (i, q), j in product(marks, self.batches)])
        self.w = self.binary("w", every) if machine.chunked else self.g
        self.c = self.letter("c", every, self.largest_work, tokens)
        self.m = self.letter("m", every, self.peak)
        self.fresh = self.binary("fresh", every)
        self.extends = self.binary("extends", [ij for ij in every if self.phases_matter and self.may_extend(ij[0])])
        self.phase = self.binary("phase", () if machine.hybrid else self.batches)
        in_blocks = machine.memory is not None and machine.block > 1
        blocks = [machine.blocks(chain.request.peak) for chain in chains]
        held = every if in_blocks else ()
        self.blocks_held = self.letter("blocks_held", held, lambda i, j: blocks[i], pyo.NonNegativeIntegers)
        self.active = Letter(self.used)
        """1 in a batch with work; may be 0 where a batch only transfers."""

    def _add_moves(self) -> None:
        partial = self.machine.partial
        amounts = pyo.NonNegativeIntegers if partial else pyo.NonNegativeReals
        drops = list(product(self.droppable, self.batches))
        swaps = list(product(self.swappable, self.batches))
        both = [ij for ij in drops if ij[0] in self.swappable]
        chosen = list(product(self.choosing, self.batches))
        self.hold = self.letter("hold", self.every)
        self.drop = self.binary("drop", chosen)
        self.drop_all = self.binary("drop_all", chosen if partial else ())
        self.drop_device = self.binary("drop_device", both if partial else ())
        self.dropped = self.letter("dropped", drops, self.peak, amounts)
        self.dropped_host = self.letter("dropped_host", both, self.peak, amounts)
        self.swap_out = self.binary("swap_out", [ij for ij in chosen if ij[0] in self.swappable])
        self.swap_in = self.binary("swap_in", swaps)
        self.swapped_out = self.letter("swapped_out", swaps, self.peak, amounts)
        self.swapped_in = self.letter("swapped_in", swaps, self.peak, amounts)
        shared = [ij for ij in self.every if self.chains[ij[0]].reusable]
        self.reused = self.letter("reused", shared, self.peak)
        self.h = self.letter("h", swaps, self.peak)
        self.host = self.binary("host", swaps)

    def _add_handling(self) -> None:
        free = [(i, k) for i in self.requests for k, handling in enumerate(self.handlings[i]) if handling == "free"]
        self.begun = self.binary("begun", [(i, k, j) for (i, k), j in product(free, self.batches)])

    # --- progress and work ---------------------------------------------------------------------------------------

    def done(self, i: int, j: int) -> Any:
        """1 if request i is done by the end of batch j."""
        return self.y[i, self.chains[i].outputs, j]

    def ended(self, i: int, k: int, j: int) -> Any:
        """E: 1 if segment k has ended, and its call begun, by the end of batch j."""
        return self.y[i, self.chains[i].ends[k], j]

    def ends(self, i: int, k: int, j: int) -> Any:
        """1 if segment k ends with batch j."""
        return self.ended(i, k, j) - self.ended(i, k, j - 1)

    def in_call(self, i: int, k: int, j: int) -> Any:
        """1 if call k has begun before batch j and (in the model) not returned by its start."""
        return self.ended(i, k, j - 1) - self.clock.returned(i, k, j)

    def known(self, i: int, j: int) -> Any:
        """S: tokens known at the start of batch j, without calls still out."""
        calls = enumerate(self.chains[i].request.calls)
        returns = sum(call.returns * self.clock.returned(i, k, j) for k, call in calls if call.returns)
        return self.chains[i].request.prompt + self.generated[i, j - 1] + returns

    def prefills(self, i: int, j: int) -> Any:
        """1 if request i prefills in batch j (where phases matter)."""
        return self.fresh[i, j] + self.extends[i, j]

    def decodes(self, i: int, j: int) -> Any:
        """d: 1 if request i decodes in batch j (where phases matter)."""
        return self.w[i, j] - self.fresh[i, j] - self.extends[i, j]

    def binds(self, limit: Limit) -> bool:
        """Whether the machine has this limit, with effect: P = C has none."""
        most = limit.of(self.machine)
        return most is not None and (limit.key != "prefill_tokens" or most != self.machine.batch_tokens)

    def takes(self, limit: Limit, i: int, j: int) -> Any:
        """Return what request i uses of a limit in batch j."""
        use = use_of(self.c[i, j], self.decodes(i, j), self.prefills(i, j))
        return getattr(use._replace(requests=self.w[i, j]), limit.column)

    def duration(self, j: int) -> Any:
        """D[j], in the model's unit of time; 0 for an unused batch."""
        return self.used[j] if self.is_one_tick else self.model.D[j]

    # --- moves ---------------------------------------------------------------------------------------------------

    def ordered(self, i: int, j: int, handling: str) -> Any:
        """1 if batch j is the one after the start of a call with this handling, which orders a move."""
        return sum(self.ends(i, k, j - 1) for k, given in enumerate(self.handlings[i]) if given == handling)

    def licence(self, i: int, j: int, handling: str) -> Any:
        """1 if R9 allows or orders a drop ("discard") or a swap-out ("swap") in batch j."""
        free = [k for k, given in enumerate(self.handlings[i]) if given == "free"]
        windows = sum(self.ended(i, k, j - 1) - self.begun[i, k, j - 1] for k in free)
        return windows + self.ordered(i, j, handling)

    def drops(self, i: int, j: int) -> Any:
        """e: 1 if request i drops KV in batch j."""
        return self.drop[i, j] if i in self.choosing else self.ordered(i, j, "discard")

    def drops_all(self, i: int, j: int) -> Any:
        """1 if request i drops all KV in batch j."""
        return self.drop_all[i, j] if (i, j) in self.drop_all else self.drops(i, j)

    def swaps_out(self, i: int, j: int) -> Any:
        """1 if request i swaps KV out in batch j."""
        return self.swap_out[i, j] if i in self.choosing else self.ordered(i, j, "swap")

    def remaining(self, i: int, j: int) -> Any:
        """Device tokens of request i after the drop and the swap-out of batch j."""
        return self.m[i, j - 1] - self.dropped[i, j] - self.swapped_out[i, j]

    def resident(self, i: int, j: int) -> Any:
        """m': device tokens after the moves of batch j."""
        return self.remaining(i, j) + self.swapped_in[i, j] + self.reused[i, j]

    def processed(self, i: int, j: int) -> Any:
        """Device tokens after the work of batch j: m' + c."""
        return self.resident(i, j) + self.c[i, j]

    def holds(self, i: int, j: int) -> Any:
        """1 if request i has KV anywhere after the moves of batch j, before its work."""
        return self.hold[i, j - 1] - self.drops_all(i, j)


class Clock(ABC):
    """The number of batches, and when calls have returned. Times count from `origin`, the first arrival."""

    may_idle = False
    """Whether an idle batch may precede a busy one."""

    def __init__(self, program: Letters, batches: int) -> None:
        self.program, self.batches, self.origin = program, batches, program.instance.first_arrival

    def add_letters(self) -> None:  # noqa: B027 - a clock may need none
        """Add the variables of the clock."""

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the clock."""
        return []

    @abstractmethod
    def returned(self, i: int, k: int, j: int) -> Any:
        """R: 1 if call k of request i has returned by the start of batch j; 0 is always allowed, and then it waits."""

    def must_continue(self, i: int, j: int) -> Any:
        """1 if request i worked in the batch before j and its segment did not end there."""
        ended = sum(self.program.ends(i, k, j - 1) for k in range(len(self.program.chains[i].ends)))
        return self.program.w[i, j - 1] - ended
