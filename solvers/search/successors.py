"""Successors of many states at once: every legal batch, less those that the rules or the cutoff leave out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcore.cost import Features
from solvers.search.by_row import ByRow, repeated
from solvers.search.state import NEVER
from solvers.search.table import Array, GrowingColumns, Rows, StateTable

Mask = npt.NDArray[np.bool_]
UNLIMITED = NEVER // 4

MOST = 4_000_000
"""Batches under construction at once, beyond which the worst are cut (and the pass is not exhaustive)."""


@dataclass
class States(ByRow):
    """States as rows: the number of a local state for each request, the tick, the cost so far, f, and the parent."""

    rows: Rows
    time: Array
    cost: Array
    f: Array
    parent: Array


@dataclass
class Choices(ByRow):
    """Batches: the row of the state that each starts from, the option of each request, the memory that it takes."""

    parent: Array
    options: Rows
    device: Array
    host: Array


class Successors:
    """All batches from given states."""

    def __init__(self, table: StateTable) -> None:
        machine = table.instance.machine
        self.table = table
        self.rules = table.rules
        self.hybrid = machine.hybrid
        limits = (
            machine.block_limit,
            machine.host_memory,
            machine.batch_tokens,
            machine.prefill_limit,
            machine.batch_requests,
        )
        self.device_limit, self.host_limit, self.work_limit, self.prefill_limit, self.requests_limit = (
            UNLIMITED if limit is None else limit for limit in limits
        )
        self.most = 0
        """How many batches were under construction at once in the latest call of `batches`."""
        self.cut = NEVER
        """The least f of what that call cut, less the cutoff."""

    def batches(self, rows: Rows, rise: Array | None, room: Array) -> Choices:
        """Return the batches that may start from the rows.

        `rise` has a lower bound, for each option, on what it adds to f; `room` is what f may rise from each row. The
        options of the rows have been made (`Table.prepare`).
        """
        choices = self._where_short(rows, self._choose(rows, rise, room))
        return self._worthwhile(rows, choices)

    def durations(self, choices: Choices) -> Array:
        """Return the ticks of each batch."""
        longest = np.ones(len(choices.parent), np.int64)
        if self.rules.slots:
            return longest
        features = {name: self._feature(name, choices.options) for name in Features._fields}
        for function in self.table.instance.cost.functions:
            total = sum(coefficient * features[Features._fields[k]] for k, coefficient in function.terms)
            if function.tokens_above is not None:
                above = np.maximum(0, features["tokens"] - function.tokens_above.knee)
                total += function.tokens_above.coefficient * above
            longest = np.maximum(longest, -(-np.asarray(total) // function.divisor))
        return longest

    def _feature(self, name: str, options: Rows) -> Array:
        values = self.table.option[name][options]
        flag = name in ("busy", "any_decode", "any_prefill")
        return np.asarray(values.max(axis=1) if flag else values.sum(axis=1))

    # --- one request after another -------------------------------------------------------------------------------

    def _choose(self, rows: Rows, rise: Array | None, room: Array) -> Choices:
        """Choose an option of the first kind for each request in turn, within the limits."""
        state, option = self.table.state, self.table.option
        low = [_suffix_sums(state[name][rows]) for name in ("least_device", "least_host")]
        tallies = _Tallies(self, rise, len(rows))
        self.most, self.cut = 0, NEVER
        for i in range(rows.shape[1]):
            local = rows[tallies.parent, i]
            first, count = state["first"][local], state["count"][local]
            if i:  # of requests in one state, none takes an option before the one that is next to it
                skipped = np.where(local == rows[tallies.parent, i - 1], tallies.steps[-1][1] - first, 0)
                first, count = first + skipped, count - skipped
            tallies.extend(count, first, option)
            tallies.keep(tallies.fit(low[0][:, i + 1], low[1][:, i + 1], room))
            self.most = max(self.most, len(tallies.parent))
            if len(tallies.parent) > MOST:
                self.cut = min(self.cut, tallies.cut(room, MOST // 2))
        return tallies.choices()

    def _where_short(self, rows: Rows, choices: Choices) -> Choices:
        """Where a memory is short, let requests that rest make moves instead, and no move in vain."""
        short = (choices.device > self.device_limit) | (choices.host > self.host_limit)
        if not short.any():
            return choices
        state, option = self.table.state, self.table.option
        given = choices.take(short)
        local = rows[given.parent]
        rests = given.options == state["first"][local]
        count = np.where(rests, state["count_short"][local], 0)
        low = [
            _suffix_sums(np.where(count > 0, state["least_" + name][local] - option[column][given.options], 0))
            for name, column in (("device", "blocks"), ("host", "host"))
        ]
        whence, device, host = np.arange(len(given.parent)), given.device, given.host
        undo_device = np.full(len(whence), NEVER)
        undo_host = undo_device
        steps: list[tuple[Array, Array]] = []
        for i in range(rows.shape[1]):
            origin, place = repeated(count[whence, i] + 1)
            whence = whence[origin]
            before = given.options[whence, i]
            instead = state["first_short"][local[whence, i]] + place - 1
            chosen = np.where(place == 0, before, instead)
            device = device[origin] + option["blocks"][chosen] - option["blocks"][before]
            host = host[origin] + option["host"][chosen] - option["host"][before]
            undo_device = np.minimum(undo_device[origin], option["undo_device"][chosen])
            undo_host = np.minimum(undo_host[origin], option["undo_host"][chosen])
            fits = device + low[0][whence, i + 1] <= self.device_limit
            fits &= host + low[1][whence, i + 1] <= self.host_limit
            whence, device, host, undo_device, undo_host, origin, chosen = (
                array[fits] for array in (whence, device, host, undo_device, undo_host, origin, chosen)
            )
            steps.append((origin, chosen))
        needed = (undo_device > self.device_limit - device) & (undo_host > self.host_limit - host)
        made = Choices(given.parent[whence], _trace_back(steps, len(whence)), device, host).take(needed)
        enough = choices.take(~short)
        return Choices.join([enough, made])

    # --- whole batches -------------------------------------------------------------------------------------------

    def _worthwhile(self, rows: Rows, choices: Choices) -> Choices:
        """Leave out what is no batch, what could have started earlier, and what the rules say is put off in vain."""
        option, options = self.table.option, choices.options
        keep = option["busy"][options].any(axis=1)
        if self.rules.transfer_only:
            keep |= option["transfers"][options].any(axis=1)
        if self.rules.makes_batches:
            made, drops = (option[name][options].any(axis=1) for name in ("makes_batch", "drops_for_refill"))
            keep &= made == drops
        fresh = self.table.state["fresh"][rows] > 0
        if fresh.any():
            fresh = fresh[choices.parent]
            keep &= ~fresh.any(axis=1) | (fresh & (option["needs_ready"][options] > 0)).any(axis=1)
        if self.rules.finish or self.rules.maximal:
            keep &= ~self.could_gain(choices)
        return choices.take(np.asarray(keep))

    def could_gain(self, choices: Choices) -> Mask:
        """Whether a request rests that could work too, and had better (rules `finish` and `maximal`)."""
        option, options = self.table.option, choices.options
        gains = option["gain_device"][options] <= (self.device_limit - choices.device)[:, None]
        for column, gain, limit in (
            ("tokens", "gain_work", self.work_limit),
            ("prefill_work", "gain_prefill", self.prefill_limit),
        ):
            if limit < UNLIMITED and gains.any():
                gains &= option[gain][options] <= (limit - option[column][options].sum(axis=1))[:, None]
        gains &= (option["busy"][options].sum(axis=1) < self.requests_limit)[:, None]
        return np.asarray(gains.any(axis=1))


class _Tallies:
    """Batches under construction: what the options chosen so far take, and where each came from."""

    def __init__(self, successors: Successors, rise: Array | None, count: int) -> None:
        self.limits = successors
        self.rise = rise
        self.parent = np.arange(count)
        self.sums = {name: np.zeros(count, np.int64) for name in self._columns()}
        self.origin = self.chosen = self.parent
        self.steps: list[tuple[Array, Array]] = []

    def _columns(self) -> list[str]:
        """Return the option columns that a limit of the machine asks for."""
        limits = self.limits
        asked = {
            "blocks": True,
            "host": True,
            "least_device": limits.device_limit < UNLIMITED,
            "least_host": limits.host_limit < UNLIMITED,
            "tokens": limits.work_limit < UNLIMITED,
            "prefill_work": limits.prefill_limit < UNLIMITED,
            "busy": limits.requests_limit < UNLIMITED or not limits.hybrid or limits.rules.makes_batches,
            "any_prefill": not limits.hybrid,
            "makes_batch": limits.rules.makes_batches,
            "drops_for_refill": limits.rules.makes_batches,
            "transfers": limits.rules.makes_batches,
            "rise": self.rise is not None,
        }
        return [name for name, is_asked in asked.items() if is_asked]

    def extend(self, count: Array, first: Array, option: GrowingColumns) -> None:
        """Choose each of `count` options from `first` on, for the next request."""
        self.origin, place = repeated(count)
        self.chosen = first[self.origin] + place
        self.parent = self.parent[self.origin]
        for name, values in self.sums.items():
            column = self.rise if name == "rise" and self.rise is not None else option[name]
            self.sums[name] = values[self.origin] + column[self.chosen]

    def fit(self, low_device: Array, low_host: Array, room: Array) -> Mask:
        """Whether each may still become a batch, given the least memory that the other requests take."""
        sums, limits, parent = self.sums, self.limits, self.parent
        fits = np.ones(len(parent), np.bool_)
        if "least_device" in sums:
            fits &= sums["least_device"] + low_device[parent] <= limits.device_limit
        if "least_host" in sums:
            fits &= sums["least_host"] + low_host[parent] <= limits.host_limit
        for name, limit in (
            ("tokens", limits.work_limit),
            ("prefill_work", limits.prefill_limit),
            ("busy", limits.requests_limit),
        ):
            if name in sums:
                fits &= sums[name] <= limit
        if "any_prefill" in sums:
            fits &= (sums["any_prefill"] == 0) | (sums["any_prefill"] == sums["busy"])
        if "makes_batch" in sums:
            made = sums["makes_batch"] + sums["drops_for_refill"] > 0
            fits &= ~made | (
                (sums["busy"] == 0) & (sums["transfers"] == sums["makes_batch"]) & (sums["makes_batch"] < 2)
            )
        if "rise" in sums:
            fits &= sums["rise"] <= room[parent]
        return fits

    def keep(self, which: Mask) -> None:
        """Keep some of them."""
        if not which.all():
            self.parent, self.origin, self.chosen = self.parent[which], self.origin[which], self.chosen[which]
            self.sums = {name: values[which] for name, values in self.sums.items()}
        self.steps.append((self.origin, self.chosen))

    def cut(self, room: Array, most: int) -> int:
        """Keep the `most` promising ones, and return how far f of the others falls short of the cutoff, negated."""
        excess = self.sums.get("rise", np.zeros(len(self.parent), np.int64)) - room[self.parent]
        order = np.argsort(excess, kind="stable")
        kept = np.zeros(len(order), np.bool_)
        kept[order[:most]] = True
        origin, chosen = self.steps.pop()
        self.parent = self.parent[kept]
        self.sums = {name: values[kept] for name, values in self.sums.items()}
        self.steps.append((origin[kept], chosen[kept]))
        return int(excess[order[most]])

    def choices(self) -> Choices:
        """Return the batches."""
        options = _trace_back(self.steps, len(self.parent))
        return Choices(self.parent, options, self.sums["blocks"], self.sums["host"])


def _suffix_sums(values: Array) -> Array:
    """Return, for each row, the sums of the columns from i on, for i = 0 .. n."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1), np.int64)
    sums[:, :-1] = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return sums


def _trace_back(steps: list[tuple[Array, Array]], count: int) -> Rows:
    """Return what each of the `count` last ones chose at every step, following where each came from."""
    chosen_all = np.empty((count, len(steps)), np.int32)
    where = np.arange(count)
    for i in range(len(steps) - 1, -1, -1):
        origin, chosen = steps[i]
        chosen_all[:, i] = chosen[where]
        where = origin[where]
    return chosen_all
