"""Successors of many states at once: every legal batch, less those that the rules leave out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvbound.cost import Cost, Features
from solvers.search.state import CALLING, NEVER, WAITING
from solvers.search.table import Array, Table

Mask = npt.NDArray[np.bool_]


@dataclass
class States:
    """States as rows: the number of a local state for each request, the tick, and the cost so far."""

    rows: npt.NDArray[np.int32]
    time: Array
    cost: Array
    parent: Array

    def __len__(self) -> int:
        return len(self.time)

    def take(self, which: Array | Mask) -> States:
        """Return some of the states."""
        return States(self.rows[which], self.time[which], self.cost[which], self.parent[which])

    @staticmethod
    def join(parts: list[States]) -> States:
        """Return the states of all parts."""
        return States(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("rows", "time", "cost", "parent")))


@dataclass
class Choices:
    """Batches under construction: the row that each starts from, the options chosen, and what they take."""

    parent: Array
    options: npt.NDArray[np.int32]
    device: Array
    host: Array

    def take(self, which: Array | Mask) -> Choices:
        return Choices(self.parent[which], self.options[which], self.device[which], self.host[which])


class Successors:
    """All batches from given states."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.machine = table.instance.machine
        self.rules = table.rules
        m = self.machine
        self.device_limit = NEVER // 4 if m.block_limit is None else m.block_limit
        self.host_limit = NEVER // 4 if m.host_memory is None else m.host_memory
        self.work_limit = NEVER // 4 if m.batch_tokens is None else m.batch_tokens
        self.prefill_limit = NEVER // 4 if m.prefill_limit is None else m.prefill_limit
        self.requests_limit = NEVER // 4 if m.batch_requests is None else m.batch_requests

    def batches(self, rows: npt.NDArray[np.int32], fresh: Mask | None) -> Choices:
        """Return every batch that may start from the rows; one that has waited involves a `fresh` request."""
        self.table.prepare(rows)
        choices = self._choose(rows)
        choices = self._where_short(rows, choices)
        return self._worthwhile(rows, choices, fresh)

    def _choose(self, rows: npt.NDArray[np.int32]) -> Choices:
        """Choose the first kind of options of each request in turn, within the limits."""
        state, option = self.table.state, self.table.option
        start, count = state["start"], state["count"]
        low_device = _suffix_sums(state["low_device"][rows])
        low_host = _suffix_sums(state["low_host"][rows])
        k, n = rows.shape
        parent = np.arange(k)
        device = np.zeros(k, np.int64)
        host, least_device, least_host, work, prefill_work, works, prefills = (device.copy() for _ in range(7))
        steps: list[tuple[Array, Array]] = []
        hybrid = self.machine.hybrid
        for i in range(n):
            local = rows[parent, i]
            counts = count[local]
            origin = np.repeat(np.arange(len(parent)), counts)
            ends = np.cumsum(counts)
            chosen = np.arange(len(origin)) + np.repeat(start[local] - (ends - counts), counts)
            parent = parent[origin]
            device = device[origin] + option["blocks"][chosen]
            host = host[origin] + option["host"][chosen]
            least_device = least_device[origin] + option["least_device"][chosen]
            least_host = least_host[origin] + option["least_host"][chosen]
            work = work[origin] + option["work"][chosen]
            prefill_work = prefill_work[origin] + option["prefill_work"][chosen]
            works = works[origin] + option["works"][chosen]
            fits = least_device + low_device[parent, i + 1] <= self.device_limit
            fits &= least_host + low_host[parent, i + 1] <= self.host_limit
            fits &= work <= self.work_limit
            fits &= prefill_work <= self.prefill_limit
            fits &= works <= self.requests_limit
            if not hybrid:
                prefills = prefills[origin] + option["prefills"][chosen]
                fits &= (prefills == 0) | (prefills == works)
                prefills = prefills[fits]
            if not fits.all():
                parent, device, host, work = parent[fits], device[fits], host[fits], work[fits]
                prefill_work, works, origin, chosen = prefill_work[fits], works[fits], origin[fits], chosen[fits]
                least_device, least_host = least_device[fits], least_host[fits]
            steps.append((origin, chosen))
        return Choices(parent, _trace_back(steps, len(parent), n), device, host)

    def _where_short(self, rows: npt.NDArray[np.int32], choices: Choices) -> Choices:
        """Where a memory is short, let requests that rest make moves instead."""
        short = (choices.device > self.device_limit) | (choices.host > self.host_limit)
        if not short.any():
            return choices
        enough, c = choices.take(~short), choices.take(short)
        state, option = self.table.state, self.table.option
        n = rows.shape[1]
        rests = c.options == state["start"][rows[c.parent]]
        counts_short = np.where(rests, state["count_short"][rows[c.parent]], 0)
        low_device = _suffix_sums(
            np.where(counts_short > 0, state["low_device"][rows[c.parent]] - option["blocks"][c.options], 0)
        )
        low_host = _suffix_sums(
            np.where(counts_short > 0, state["low_host"][rows[c.parent]] - option["host"][c.options], 0)
        )
        whence = np.arange(len(c.parent))
        device, host = c.device, c.host
        undo_device = np.full(len(whence), NEVER)
        undo_host = undo_device.copy()
        steps: list[tuple[Array, Array]] = []
        for i in range(n):
            counts = counts_short[whence, i] + 1
            origin = np.repeat(np.arange(len(whence)), counts)
            ends = np.cumsum(counts)
            place = np.arange(len(origin)) - np.repeat(ends - counts, counts)
            whence = whence[origin]
            before = c.options[whence, i]
            chosen = np.where(
                place == 0, before, state["start_short"][rows[c.parent[whence], i]] + place - 1
            )
            device = device[origin] + option["blocks"][chosen] - option["blocks"][before]
            host = host[origin] + option["host"][chosen] - option["host"][before]
            undo_device = np.minimum(undo_device[origin], option["undo_device"][chosen])
            undo_host = np.minimum(undo_host[origin], option["undo_host"][chosen])
            fits = device + low_device[whence, i + 1] <= self.device_limit
            fits &= host + low_host[whence, i + 1] <= self.host_limit
            if not fits.all():
                whence, device, host, undo_device, undo_host, origin, chosen = (
                    a[fits] for a in (whence, device, host, undo_device, undo_host, origin, chosen)
                )
            steps.append((origin, chosen))
        options = _trace_back(steps, len(whence), n)
        needed = (undo_device > self.device_limit - device) & (undo_host > self.host_limit - host)
        made = Choices(c.parent[whence], options, device, host).take(needed)
        return Choices(
            np.concatenate([enough.parent, made.parent]),
            np.concatenate([enough.options, made.options]),
            np.concatenate([enough.device, made.device]),
            np.concatenate([enough.host, made.host]),
        )

    def _worthwhile(self, rows: npt.NDArray[np.int32], choices: Choices, fresh: Mask | None) -> Choices:
        """Leave out what is no batch, what could have started earlier, and what the rules say is put off in vain."""
        option, rules = self.table.option, self.rules
        options = choices.options
        works = option["works"][options].sum(axis=1)
        keep = works > 0
        if rules.transfer_only:
            keep |= option["transfers"][options].any(axis=1)
        if fresh is not None:
            keep &= ((option["needs_ready"][options] > 0) & fresh[choices.parent]).any(axis=1)
        if rules.finish or rules.maximal:
            room = (self.device_limit - choices.device)[:, None]
            gain = option["gain_device"][options] <= room
            if gain.any():
                work = option["work"][options].sum(axis=1)
                prefill_work = option["prefill_work"][options].sum(axis=1)
                gain &= option["gain_work"][options] <= (self.work_limit - work)[:, None]
                gain &= option["gain_prefill"][options] <= (self.prefill_limit - prefill_work)[:, None]
                gain &= (works < self.requests_limit)[:, None]
                keep &= ~gain.any(axis=1)
        return choices.take(keep)

    def durations(self, choices: Choices) -> Array:
        """Return the ticks of each batch."""
        if self.rules.slots:
            return np.ones(len(choices.parent), np.int64)
        return durations(self.table.instance.cost, self.table, choices.options)


def durations(cost: Cost, table: Table, options: npt.NDArray[np.int32]) -> Array:
    """Return the ticks of batches given by the options of their requests (rows)."""
    features = {}
    for name in Features._fields:
        column = table.option[name][options]
        features[name] = column.any(axis=1).astype(np.int64) if name in _FLAGS else column.sum(axis=1)
    longest = np.ones(len(options), np.int64)
    for function in cost.functions:
        total = np.zeros(len(options), np.int64)
        for k, coefficient in function.terms:
            total += coefficient * features[Features._fields[k]]
        if function.tokens_above is not None:
            above = np.maximum(0, features["tokens"] - function.tokens_above.knee)
            total += function.tokens_above.coefficient * above
        longest = np.maximum(longest, -(-total // function.divisor))
    return longest


_FLAGS = ("busy", "any_decode", "any_prefill")


def _suffix_sums(values: Array) -> Array:
    """Return, for each row, the sums of the columns from i on, for i = 0 .. n."""
    sums = np.zeros((values.shape[0], values.shape[1] + 1), np.int64)
    sums[:, :-1] = np.cumsum(values[:, ::-1], axis=1)[:, ::-1]
    return sums


def _trace_back(steps: list[tuple[Array, Array]], count: int, n: int) -> npt.NDArray[np.int32]:
    """Return the choice of every column for each of the `count` choices that are left."""
    options = np.empty((count, n), np.int32)
    where = np.arange(count)
    for i in range(n - 1, -1, -1):
        origin, chosen = steps[i]
        options[:, i] = chosen[where]
        where = origin[where]
    return options
