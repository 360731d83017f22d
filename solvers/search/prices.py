"""Prices on memory and budgets, slot by slot: a Lagrangian bound for every state, looked up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solvers.search.state import NEVER, WAITING
from solvers.search.table import Array, Table

UNIT = 64


class Prices:
    def __init__(self, table: Table, root: npt.NDArray[np.int32], horizon: int, limits: dict[str, int]) -> None:
        self.table = table
        self.horizon = horizon
        self.root = root[0]
        self.close()
        n = len(table.states)
        option, state = table.option, table.state
        start, count = state["start"][:n], state["count"][:n]
        short, count_short = state["start_short"][:n], state["count_short"][:n]
        self.m = option.length
        # order: options as stored: chosen then short, contiguous per local, plus an idle option
        owner = np.zeros(self.m, np.int64)
        owner[:] = -1
        for l in range(n):
            owner[start[l] : start[l] + count[l] + count_short[l]] = l
        assert (owner >= 0).all()
        which = np.argsort(np.concatenate([owner, np.arange(n)]), kind="stable")
        self.which = which
        self.next = np.concatenate([option["next"][: self.m], state["next"][:n]])[which]
        held = [(-(-s.device // table.instance.machine.block), s.host) for s in table.states]
        use = {
            "device": np.concatenate([option["blocks"][: self.m], [h[0] for h in held]]),
            "host": np.concatenate([option["host"][: self.m], [h[1] for h in held]]),
            "work": np.concatenate([option["work"][: self.m], np.zeros(n, np.int64)]),
            "prefill": np.concatenate([option["prefill_work"][: self.m], np.zeros(n, np.int64)]),
            "requests": np.concatenate([option["works"][: self.m], np.zeros(n, np.int64)]),
        }
        self.names = [r for r in limits]
        self.use = np.array([use[r][which] for r in self.names]).reshape(len(self.names), -1)
        self.caps = np.array([limits[r] for r in self.names])
        full_owner = np.concatenate([owner, np.arange(n)])[which]
        self.first = np.searchsorted(full_owner, np.arange(n))
        self.last = np.searchsorted(full_owner, np.arange(n), side="right")
        waits = state["status"][:n] == WAITING
        tick = np.where(waits, 0, state["rate"][:n]) * UNIT
        self.cost = tick[full_owner]
        self.end = state["togo"][:n] * UNIT

    def close(self) -> None:
        done = 0
        while done < len(self.table.states):
            upto = len(self.table.states)
            self.table.prepare(np.arange(done, upto))
            done = upto

    def values(self, prices: Array) -> Array:
        v = np.empty((self.horizon + 1, len(self.end)), np.int64)
        v[-1] = self.end
        for t in range(self.horizon - 1, -1, -1):
            q = self.cost + v[t + 1][self.next]
            for r in np.nonzero(prices[t])[0]:
                q += prices[t, r] * self.use[r]
            v[t] = np.minimum.reduceat(q, self.first)
        return v

    def paths(self, v: Array, prices: Array) -> Array:
        load = np.zeros((self.horizon, len(self.names)), np.int64)
        here = [int(x) for x in self.root]
        for t in range(self.horizon):
            vn = v[t + 1]
            for i, l in enumerate(here):
                if l == 0:
                    continue
                a, b = self.first[l], self.last[l]
                if b - a == 1:
                    o = a
                else:
                    q = vn[self.next[a:b]] + prices[t] @ self.use[:, a:b]
                    o = a + int(q.argmin())
                load[t] += self.use[:, o]
                here[i] = int(self.next[o])
        return load

    def bound(self, v: Array, prices: Array) -> int:
        return int(v[0][self.root].sum() - (prices @ self.caps).sum())

    def improve(self, target: int, rounds: int) -> tuple[int, Array, Array]:
        prices = np.zeros((self.horizon, len(self.names)))
        best = -1
        alpha = 1.0
        stuck = 0
        for k in range(rounds):
            whole = np.rint(prices).astype(np.int64)
            v = self.values(whole)
            b = self.bound(v, whole)
            if b > best:
                best, best_v, best_prices, stuck = b, v, whole, 0
            else:
                stuck += 1
                if stuck == 5:
                    alpha /= 2
                    stuck = 0
                    prices = best_prices.astype(float)
            if b >= target:
                break
            s = (self.paths(v, whole) - self.caps).astype(float)
            s[(s < 0) & (prices <= 0)] = 0
            norm = (s * s).sum()
            if norm == 0:
                break
            prices = np.maximum(0, prices + alpha * (target - b) / norm * s)
        return best, best_v, best_prices
