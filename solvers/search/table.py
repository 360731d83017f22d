"""Local states and their options as numbered rows of arrays, made as they are met."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvbound.cost import Features
from kvbound.instance import Instance
from solvers.search.chains import Chain, Chains
from solvers.search.options import Options, passed
from solvers.search.rules import Rules
from solvers.search.state import CALLING, DONE, FINISHED, NEVER, READY, WAITING, Kind, LocalState, Option

Array = npt.NDArray[np.int64]

STATE_COLUMNS = ("status", "remaining", "kind", "rate", "least", "togo", "batches", "area", "tokens", "deadline",
                 "next", "timeless", "start", "count", "start_short", "count_short", "low_device", "low_host")  # fmt: skip
OPTION_COLUMNS = ("after", "next", "passes", "blocks", "host", "least_device", "least_host", "work", "prefill_work", "works", "prefills", "decodes",
                  "transfers", "undo_device", "undo_host", "needs_ready", "first", "completes",
                  "gain_device", "gain_work", "gain_prefill") + Features._fields  # fmt: skip


class Columns:
    """Named integer columns of one length, which grow by doubling."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.length = 0
        self.data: dict[str, Array] = {name: np.zeros(64, np.int64) for name in names}

    def append(self, **row: int) -> int:
        """Append a row (what is not given is 0) and return its number."""
        if self.length == len(self.data[self.names[0]]):
            for name, column in self.data.items():
                self.data[name] = np.concatenate([column, np.zeros_like(column)])
        for name, value in row.items():
            self.data[name][self.length] = value
        self.length += 1
        return self.length - 1

    def __getitem__(self, name: str) -> Array:
        return self.data[name]


class Table:
    """All local states met so far, by number (0 is done), and the options of those that were expanded."""

    def __init__(self, instance: Instance, objective: str, rules: Rules, kinds: list[Kind]) -> None:
        self.instance = instance
        self.rules = rules
        self.kinds = kinds
        self.objective = objective
        self.legal = Options(instance.machine, rules, kinds)
        self.chains = Chains(instance, kinds)
        self.states: list[LocalState] = []
        self.numbers: dict[LocalState, int] = {}
        self.options: list[Option] = []
        self.state = Columns(STATE_COLUMNS)
        self.option = Columns(OPTION_COLUMNS)
        self.passing: dict[tuple[int, int], int] = {}
        self.number(FINISHED)

    def number(self, state: LocalState) -> int:
        """Return the number of a local state, a new one if it has none."""
        found = self.numbers.get(state)
        return self._add(state) if found is None else found

    def _add(self, state: LocalState) -> int:
        number = self.numbers[state] = len(self.states)
        self.states.append(state)
        chain = self.chains.of(state)
        self.state.append(
            status=state.status,
            remaining=state.remaining,
            kind=state.kind,
            rate=self._rate(state),
            least=chain.ticks,
            togo=self._togo(state, chain),
            batches=chain.batches,
            area=chain.area,
            tokens=chain.tokens,
            deadline=state.deadline,
            next=-1,
            timeless=-1,
            start=-1,
        )
        timeless = number
        if state.status == CALLING and self.rules.calls:
            timeless = self.number(state._replace(remaining=1))
        self.state["timeless"][number] = timeless
        return number

    def _rate(self, state: LocalState) -> int:
        """What the next tick costs."""
        if state.status == DONE:
            return 0
        kind = self.kinds[state.kind]
        begun = state.segment > 0 or state.left < kind.segments[0].decode
        return 0 if self.objective == "total-ttft" and begun else kind.rate

    def _togo(self, state: LocalState, chain: Chain) -> int:
        """Return the least that the request still costs, for objectives that are sums over requests."""
        ticks = chain.first if self.objective == "total-ttft" else chain.ticks
        until_arrival = state.remaining if state.status == WAITING else 0
        return self._rate(state) * max(0, ticks - until_arrival)

    def pass_time(self, number: int, ticks: int) -> int:
        """Return the local state after `ticks` ticks without it."""
        if self.states[number].remaining == 0:
            return number
        key = (number, ticks)
        if key not in self.passing:
            self.passing[key] = self.number(passed(self.states[number], ticks))
        return self.passing[key]

    def prepare(self, numbers: Array) -> None:
        """Make the options of these local states."""
        for number in np.unique(numbers[self.state["start"][numbers] < 0]).tolist():
            self._prepare(number)

    def _prepare(self, number: int) -> None:
        state = self.states[number]
        chosen, short = self.legal.of(state)
        column = self.state
        start = self.option.length
        for place, option in enumerate(chosen + short):
            instead = [option, *short] if place == 0 else [option]
            self._add_option(state, option, min(o.blocks for o in instead), min(o.host for o in instead))
        column["next"][number] = self.pass_time(number, 1)
        column["count"][number] = len(chosen)
        column["start_short"][number] = start + len(chosen)
        column["count_short"][number] = len(short)
        column["low_device"][number] = min((o.blocks for o in chosen + short), default=0)
        column["low_host"][number] = min((o.host for o in chosen + short), default=0)
        column["start"][number] = start

    def _add_option(self, state: LocalState, option: Option, least_device: int, least_host: int) -> None:
        after = self.number(option.after)
        passes = option.work == 0
        features = option.features()
        gain = self._gain(state, option)
        self.options.append(option)
        kind = self.kinds[state.kind]
        self.option.append(
            after=after,
            next=self.pass_time(after, 1) if passes else after,
            passes=passes,
            blocks=option.blocks,
            host=option.host,
            least_device=least_device,
            least_host=least_host,
            work=option.work,
            prefill_work=option.work if option.prefill else 0,
            works=features.busy,
            prefills=features.any_prefill,
            decodes=features.any_decode,
            transfers=int(option.moves.swap_out + option.moves.swap_in > 0),
            undo_device=option.undo_device,
            undo_host=option.undo_host,
            needs_ready=int(option.needs_ready),
            first=int(option.generates and state.segment == 0 and state.left == kind.segments[0].decode),
            completes=int(option.generates and option.after.status == DONE),
            gain_device=gain[0],
            gain_work=gain[1],
            gain_prefill=gain[2],
            **features._asdict(),
        )

    def _gain(self, state: LocalState, option: Option) -> tuple[int, int, int]:
        """What working instead of resting would take more: blocks, tokens, prefill tokens; NEVER where no rule asks."""
        if state.status != READY or option.work or option.undo_device < NEVER or option.undo_host < NEVER:
            return (NEVER, NEVER, NEVER)
        if not self._better_at_once(state):
            return (NEVER, NEVER, NEVER)
        held = option.after.device + option.after.host
        if self.rules.forget:
            held = 0
        known = self.legal.known(state)
        work = known - held
        prefill = 0 if held > 0 and work == 1 else work
        return self.instance.machine.blocks(known) - option.blocks, work, prefill

    def _better_at_once(self, state: LocalState) -> bool:
        """Whether a token generated earlier can do no harm (rules `finish` and `maximal`)."""
        rules = self.rules
        if state.left > 1:
            return rules.maximal
        call = self.kinds[state.kind].segments[state.segment].call
        gives_back = call is None or call.handling == "discard" or (call.handling == "free" and rules.forget)
        return gives_back and (rules.finish or rules.maximal)
