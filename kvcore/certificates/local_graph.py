"""The timeless graph of `events`, and the least that it takes.

Of options of one state with the same end, one is left out if another adds no more to a batch in any count (and without
it there would still be a batch). Take the other and start the batch so much later that it ends when it did: nothing
else changes.

An option lowers the least that is left by at most its ticks or shares:

* **Ticks**: a batch lasts what the option takes alone, if it acts and the request was ready; then comes the call.
* **Shares**: a batch lasts at least f/q for any function f of the cost, and 1. The part of f that does not add up
  (`busy` and so on) is shared: by blocks, at most L in a batch, a request in work has blocks/L of it; or by tokens,
  prefill tokens, requests. So f/q is at least the sum of the shares of requests.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from kvcore.certificates import frontier as at
from kvcore.certificates.budget import Budget, InvalidCertificate
from kvcore.certificates.options import PLAIN, Load, LocalState, Option, RequestOptions
from kvcore.certificates.request_graph import Array, RequestGraph
from kvcore.instance import Machine, Request

TOO_LARGE = "its numbers are too large to be added up in 64 bits"
TOKENS, DECODES, PREFILLS, *SWAPPED = map(
    Load._fields.index, ("tokens", "decode_requests", "prefill_requests", "swap_out_tokens", "swap_in_tokens")
)
"""Columns of a load."""


class LocalGraph(RequestGraph):
    """The graphs of all requests, one for each group; a group's requests are consecutive."""

    def __init__(
        self, machine: Machine, requests: Sequence[Request], groups: Sequence[int], whole: bool, free_drops: bool,
        budget: Budget,
    ) -> None:  # fmt: skip
        """`whole`: prefills are split only as in `splits.py`. `free_drops`: with KV all is allowed that is without."""
        self.whole, self.free_drops = whole, free_drops
        super().__init__(machine, dict(zip(groups, requests, strict=True)).values(), budget, by_tick=False)
        if max(max(option.load) for option in self.options) >= 2**53:
            raise InvalidCertificate(TOO_LARGE)
        self.load = np.array([option.load for option in self.options])
        self.counts = np.unique(groups, return_counts=True)[1]
        self.most = self.counts @ np.maximum.reduceat(self.load, self.first[self.start])
        """The most that all requests add to a batch, by count."""
        self.away = np.array([max(-1, -1 - option.end.wait) for option in self.options])
        """Ticks of a call that starts at an option's end, else -1."""
        self.moves = np.array([option[:4] for option in self.options])
        """Tokens dropped, swapped out, swapped in, and processed."""
        self.arriving = np.array([state.wait > 0 for state in self.states]) & ~self.begun
        held = np.array([state.device + state.host for state in self.states])
        self.empty = (held == 0) & free_drops
        """With free drops: whether there is no KV."""
        self.kept = self._kept(held)

    def _kept(self, held: Array) -> Array:
        """With free drops, for an option that only drops all: the one that only keeps it; else -1."""
        idle, owner = np.full(len(self.states), -1), self.owner
        nothing = np.flatnonzero(~self.moves.any(axis=1))
        idle[owner[nothing]] = nothing
        drops = (self.moves[:, 0] == held[owner]) & (held[owner] > 0) & ~self.moves[:, 1:].any(axis=1)
        return np.where(drops & self.free_drops, idle[owner], -1)

    def allowed(self, rules: RequestOptions, state: LocalState) -> Iterator[Option]:
        """Yield options that no other replaces."""
        found, held = self._split(rules, state), state.device + state.host
        if self.free_drops and held:
            dropped = self._split(rules, state._replace(device=0, host=0, mark=PLAIN))
            found = chain(found, (option._replace(drop=held) for option in dropped))
        return _undominated(found)

    def _split(self, rules: RequestOptions, state: LocalState) -> Iterator[Option]:
        for option in super().allowed(rules, state):
            if self.whole and option.work and not option.load.generated:
                before = option.end.device - option.work
                if option.work != rules.known(state) - before - 1 and (before or option.work > 1):
                    continue
            yield option

    @property
    def use(self) -> Array:
        """What options take of `LIMITS` [options, limits]."""
        return np.stack(Load(*self.load.T).shared, axis=1)

    def ticks(self, linear: Array, fixed: Array, over: Array, far: int) -> Array:
        """Return the least ticks until a state is `over`, besides the wait."""
        load, state = self.load, self.owner
        busy = np.stack([load[:, k] > 0 for k in (TOKENS, DECODES, PREFILLS)], axis=1).astype(np.int64)
        value = load @ linear.T + busy @ fixed[:, [at.BUSY, at.ANY_DECODE, at.ANY_PREFILL]].T
        value += fixed[:, at.ABOVE] * np.maximum(0, load[:, TOKENS, None] - fixed[:, at.KNEE])
        own = np.maximum(1, (-(-value // fixed[:, at.DIVISOR])).max(axis=1))
        own[self.wait[state] != state] = 0
        own[load[:, [TOKENS, *SWAPPED]].sum(axis=1) == 0] = 0
        away = np.where(over[self.to], 0, np.maximum(0, self.away))
        return self.least(np.minimum(own, far) + np.minimum(away, far), over, far)

    def next_token(self, linear: Array, ticks: Array, over: Array, far: int) -> tuple[Array, Array]:
        """Return the least that the next token adds to each function [states, functions], and `ticks` from it on.

        Only work counts, after the wait.
        """
        ends, load = self.left[self.to] < self.left[self.owner], self.load.copy()
        load[:, [k for k, name in enumerate(Load._fields) if name.startswith("swap")]] = 0
        work = [self.least(each, over, far, ends) for each in (load @ linear.T).T]
        away = np.where(over[self.to], 0, np.maximum(0, self.away))
        return np.stack(work, axis=1), self.least(np.where(ends, away + ticks[self.to], 0), over, far, ends)

    def shares(self, linear: Array, fixed: Array, limits: Array, over: Array, far: int) -> tuple[Array, Array]:
        """Return vectors of shares until `over` [states, vectors], and how much of each a tick has."""
        load, use = self.load, self.use
        most = np.maximum(1, np.minimum(limits, self.counts @ np.maximum.reduceat(use, self.first[self.start])))
        use = use * (load[:, TOKENS, None] > 0)
        used = np.flatnonzero(use.any(axis=0)).tolist()
        found: list[tuple[Array, int]] = []
        one = np.zeros(at.DIVISOR + 1, dtype=np.int64)
        one[[at.BUSY, at.DIVISOR]] = 1
        for line, parts in [*zip(linear, fixed, strict=True), (np.zeros_like(linear[0]), one)]:
            alone = load @ line
            shared = (parts[at.BUSY] * (load[:, TOKENS] > 0) + parts[at.ANY_DECODE] * load[:, DECODES]
                      + parts[at.ANY_PREFILL] * load[:, PREFILLS])  # fmt: skip
            for r in used if shared.any() else used[-1:]:
                amount = int(most[r]) * alone.astype(object) + shared * use[:, r].astype(object)
                shift = max(0, int(amount.max()).bit_length() - 50)  # shares have 50 bits
                unit = -(-int(most[r]) * int(parts[at.DIVISOR]) >> shift)
                steps = (amount >> shift).astype(np.int64)
                if unit < 2**60:  # else a tick has more of it than anyone takes
                    found.append((self.least(steps, over, min(far * unit, 2**56)), unit))
        kept: list[tuple[Array, int]] = []
        for share, unit in sorted(found, key=lambda each: -(each[0] / each[1]).sum()):
            if share.any() and not any((share / unit <= other / its).all() for other, its in kept):
                kept.append((share, unit))
        shares = np.zeros((len(self.wait), len(kept)), dtype=np.int64)
        for k, (share, _) in enumerate(kept):
            shares[:, k] = share
        return shares, np.array([unit for _, unit in kept], dtype=np.int64)


def _undominated(options: Iterator[Option]) -> Iterator[Option]:
    by_end: dict[LocalState, list[Option]] = {}
    for option in options:
        by_end.setdefault(option.end, []).append(option)
    for same in by_end.values():
        kept: list[Option] = []
        for option in sorted(same, key=lambda option: (sum(option.load), not option.load.acts)):
            if not any(
                all(map(int.__le__, other.load, option.load)) and (other.load.acts or not option.load.acts)
                for other in kept
            ):
                kept.append(option)
        yield from kept
