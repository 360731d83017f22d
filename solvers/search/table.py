"""Local states and their options as numbered rows of arrays, made as they are met."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvcore.cost import Features
from kvcore.instance import Instance
from solvers.search.chains import Chains, LeastNeed
from solvers.search.options import Options
from solvers.search.rules import Rules
from solvers.search.state import (
    CALLING,
    DONE,
    FINISHED,
    NEVER,
    READY,
    WAITING,
    LocalOption,
    LocalState,
    RequestKind,
    passed,
)

Array = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]

STATE_COLUMNS = (
    "status", "remaining", "kind", "fresh", "plain", "alike", "rate", "to_go", "least", "batches", "tokens", "area",
    "first", "count", "first_short", "count_short", "least_device", "least_host",
)  # fmt: skip
"""Of each local state: where it stands, its chain, and where its options are."""

TAKEN_OVER = ("blocks", "host", "makes_batch", "drops_for_refill", "undo_device", "undo_host", "needs_ready")
GAINS = ("gain_device", "gain_work", "gain_prefill")
OPTION_COLUMNS = ("owner", "base", "after", "next", "least_device", "least_host", "prefill_work", "transfers",
                  "completes", *TAKEN_OVER, *GAINS, *Features._fields)  # fmt: skip
"""Of each option: where it leads (`after` the batch; `next`, one tick later), what it takes, what it adds."""


class GrowingColumns:
    """Named integer columns of one length, which grow by doubling."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.length = 0
        self.data: dict[str, Array] = {name: np.zeros(64, np.int64) for name in names}

    def append(self, **row: int) -> None:
        """Append a row; what is not given is 0."""
        if self.length == len(next(iter(self.data.values()))):
            for name, column in self.data.items():
                self.data[name] = np.concatenate([column, np.zeros_like(column)])
        for name, value in row.items():
            self.data[name][self.length] = value
        self.length += 1

    def __getitem__(self, name: str) -> Array:
        return self.data[name]


class StateTable:
    """All local states met so far, by number (0 is done), and the options of those that were expanded."""

    def __init__(self, instance: Instance, objective: str, rules: Rules, kinds: list[RequestKind]) -> None:
        self.instance = instance
        self.rules = rules
        self.kinds = kinds
        self.objective = objective
        self.legal = Options(instance.machine, rules, kinds)
        self.chains = Chains(instance, kinds)
        self.states: list[LocalState] = []
        self.options: list[LocalOption] = []
        self.loads = tuple(f"load {k}" for k in range(len(instance.cost.functions)))
        self.state = GrowingColumns((*STATE_COLUMNS, *self.loads))
        self.option = GrowingColumns(OPTION_COLUMNS)
        self._numbers: dict[LocalState, int] = {}
        self._passed: dict[tuple[int, int, bool], int] = {}
        self.number(FINISHED)

    def number(self, state: LocalState) -> int:
        """Return the number of a local state, a new one if it has none."""
        found = self._numbers.get(state)
        return self._add(state) if found is None else found

    def pass_time(self, number: int, ticks: int, waited: bool = False) -> int:
        """Return the number of the local state after `ticks` ticks (see `passed`)."""
        if self.states[number].remaining == 0:
            return number
        key = (number, ticks, waited)
        if key not in self._passed:
            self._passed[key] = self.number(passed(self.states[number], ticks, waited))
        return self._passed[key]

    def prepare(self, numbers: npt.NDArray[np.integer]) -> None:
        """Make the options of these local states, where they are not there yet."""
        for number in np.unique(numbers[self.state["count"][numbers] == 0]).tolist():
            self._prepare(number)

    # --- local states --------------------------------------------------------------------------------------------

    def _add(self, state: LocalState) -> int:
        number = self._numbers[state] = len(self.states)
        self.states.append(state)
        chain = self.chains.of(state)
        cost = self._cost(state)
        self.state.append(
            status=state.status,
            remaining=state.remaining,
            kind=state.kind,
            fresh=state.fresh,
            rate=cost,
            to_go=cost * self._ticks_that_cost(state, chain),
            least=chain.completion,
            batches=chain.batches,
            tokens=chain.tokens,
            area=chain.area,
            **dict(zip(self.loads, chain.loads, strict=True)),
        )
        plain = state._replace(fresh=False)
        self.state["plain"][number] = self.number(plain)
        self.state["alike"][number] = self.number(self._alike(plain))
        return number

    def _alike(self, state: LocalState) -> LocalState:
        """Return what stands for all states that are as good, but for the ticks until a call returns."""
        if self.rules.calls and state.status == CALLING:
            state = state._replace(remaining=1)
        if self.rules.forget and self.legal.may_evict(state):
            state = state._replace(device=0, host=0, window=False, bound=False)
        return state

    def _cost(self, state: LocalState) -> int:
        """What a tick costs after the arrival, for objectives that are sums over requests and ticks."""
        if state.status == DONE:
            return 0
        kind = self.kinds[state.kind]
        return 0 if self.objective == "total-ttft" and kind.begun(state) else kind.rate

    def _ticks_that_cost(self, state: LocalState, chain: LeastNeed) -> int:
        ticks = chain.first if self.objective == "total-ttft" else chain.completion
        return ticks - state.remaining if state.status == WAITING else ticks

    # --- options -------------------------------------------------------------------------------------------------

    def _prepare(self, number: int) -> None:
        chosen, short = self.legal.of(self.states[number])
        everything = chosen + short
        first = self.option.length
        for place, option in enumerate(everything):
            instead = [option, *short] if place == 0 else [option]
            self._add_option(number, option, first if place >= len(chosen) else first + place, instead)
        column = self.state
        column["first"][number] = first
        column["count"][number] = len(chosen)
        column["first_short"][number] = first + len(chosen)
        column["count_short"][number] = len(short)
        column["least_device"][number] = min(option.blocks for option in everything)
        column["least_host"][number] = min(option.host for option in everything)

    def _add_option(self, owner: int, option: LocalOption, base: int, instead: list[LocalOption]) -> None:
        """Add an option; it may replace option `base`, or one of `instead` may replace it, where memory is short."""
        after = self.number(option.after)
        self.options.append(option)
        self.option.append(
            owner=owner,
            base=base,
            after=after,
            next=after if option.work else self.pass_time(after, 1),
            least_device=min(o.blocks for o in instead),
            least_host=min(o.host for o in instead),
            prefill_work=option.work if option.prefill else 0,
            transfers=option.moves.swap_out + option.moves.swap_in > 0,
            completes=option.generates and option.after.status == DONE,
            **{name: getattr(option, name) for name in TAKEN_OVER},
            **dict(zip(GAINS, self._gain(self.states[owner], option), strict=True)),
            **option.features()._asdict(),
        )

    def _gain(self, state: LocalState, option: LocalOption) -> tuple[int, int, int]:
        """What working instead of resting would take: blocks, tokens, prefill tokens (rules `finish`, `maximal`)."""
        never = (NEVER, NEVER, NEVER)
        if state.status != READY or option.work or min(option.undo_device, option.undo_host) < NEVER:
            return never
        if not self._better_at_once(state):
            return never
        held = 0 if self.rules.forget else option.after.device + option.after.host
        known = self.kinds[state.kind].known(state)
        work = known - held
        decode = held > 0 and work == 1
        return self.instance.machine.blocks(known) - option.blocks, work, 0 if decode else work

    def _better_at_once(self, state: LocalState) -> bool:
        """Whether generating the next token now is never worse."""
        rules = self.rules
        if state.to_generate > 1:
            return rules.maximal
        call = self.kinds[state.kind].segments[state.segment].call
        gives_back = call is None or call.handling == "discard" or (call.handling == "free" and rules.forget)
        return gives_back and (rules.finish or rules.maximal)
