"""All that one request may do until it is done, and the least that it takes: a graph for each kind of request.

Its nodes are local states without time: whether a request waits, not how long. Of options of one state with the same
end, one is left out if another adds no more to a batch in any count (and without it there would still be a batch).
Take the other and start the batch so much later that it ends when it did: nothing else changes.

The least that is left is a recursion over the graph, so an option lowers it by at most its ticks or shares:

* **Ticks**: a batch lasts what the option takes alone, if it acts and the request was ready; then comes the call.
* **Shares**: a batch lasts at least f/q for any function f of the cost, and 1. The part of f that does not add up
  (`busy` and so on) is shared: by blocks, at most L in a batch, a request in work has blocks/L of it; or by tokens,
  prefill tokens, requests. So f/q is at least the sum of the shares of requests.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates import frontier as at
from kvcore.certificates.budget import Budget, InvalidCertificate, Looked
from kvcore.certificates.options import PLAIN, Load, LocalState, Option, RequestOptions
from kvcore.instance import Machine, Request

Array = np.ndarray[Any, np.dtype[Any]]

SHARE_BITS = 50
"""Of an option's shares, rounded down."""


TOO_LARGE = "its numbers are too large to be added up in 64 bits"
TOKENS, DECODES, PREFILLS, *SWAPPED = map(
    Load._fields.index, ("tokens", "decode_requests", "prefill_requests", "swap_out_tokens", "swap_in_tokens")
)
"""Columns of a load."""


class LocalGraph(NamedTuple):
    """Local states of all kinds as numbers. Options of state s: `first[s]` to `first[s + 1]` - 1.

    One more option, the last, is none.
    """

    first: Array
    load: Array
    to: Array
    """Where an option leads; `away`: ticks of a call that starts at its end, else -1."""
    away: Array
    kept: Array
    """With free drops, for an option that only drops all: the one that only keeps it; else -1."""
    moves: Array
    """Tokens dropped, swapped out, swapped in, and processed."""
    ready: Array
    """The state after the wait."""
    empty: Array
    """With free drops: whether there is no KV."""
    arriving: Array
    begun: Array
    """Whether the first token is there."""
    left: Array
    """Tokens still to generate."""
    start: Array
    """State of each request at tick 0."""
    most: Array
    """The most that all requests add to a batch, by count."""

    @property
    def use(self) -> Array:
        """What options take of `LIMITS` [options, limits]."""
        return np.stack(Load(*self.load.T).shared, axis=1)

    def least(self, steps: Array, over: Array, far: int, ends: Array | None = None) -> Array:
        """Return the least sum of `steps` to a state `over`, or through an option that `ends`, cut off at `far`.

        0 where over; else the least over the options, each with what follows, and over what is left after the wait.
        """
        value, lower = np.full(len(self.ready), far), np.where(over, 0, far)
        stuck, steps = self.first[:-1] == self.first[1:], np.minimum(steps, far)
        while not np.array_equal(lower, value):
            value = lower
            following = value[self.to] if ends is None else np.where(ends, 0, value[self.to])
            through = np.minimum.reduceat(steps + following, self.first[:-1])
            through[stuck] = far
            lower = np.where(over, 0, np.minimum(np.minimum(through, value[self.ready]), far))
        return value

    def ticks(self, linear: Array, fixed: Array, over: Array, far: int) -> Array:
        """Return the least ticks until a state is `over`, besides the wait."""
        load, state = self.load, np.repeat(np.arange(len(self.ready)), np.diff(self.first))
        busy = np.stack([load[:, k] > 0 for k in (TOKENS, DECODES, PREFILLS)], axis=1).astype(np.int64)
        value = load @ linear.T + busy @ fixed[:, [at.BUSY, at.ANY_DECODE, at.ANY_PREFILL]].T
        value += fixed[:, at.ABOVE] * np.maximum(0, load[:, TOKENS, None] - fixed[:, at.KNEE])
        own = np.maximum(1, (-(-value // fixed[:, at.DIVISOR])).max(axis=1))
        own[:-1][self.ready[state] != state] = 0
        own[load[:, [TOKENS, *SWAPPED]].sum(axis=1) == 0] = 0
        away = np.where(over[self.to], 0, np.maximum(0, self.away))
        return self.least(np.minimum(own, far) + np.minimum(away, far), over, far)

    def next_token(self, linear: Array, ticks: Array, over: Array, far: int) -> tuple[Array, Array]:
        """Return the least that the next token adds to each function [states, functions], and `ticks` from it on.

        Only work counts, after the wait.
        """
        state = np.repeat(np.arange(len(self.ready)), np.diff(self.first))
        ends = np.append(self.left[self.to[:-1]] < self.left[state], False)
        load = self.load.copy()
        load[:, [k for k, name in enumerate(Load._fields) if name.startswith("swap")]] = 0
        work = [self.least(each, over, far, ends) for each in (load @ linear.T).T]
        away = np.where(over[self.to], 0, np.maximum(0, self.away))
        return np.stack(work, axis=1), self.least(np.where(ends, away + ticks[self.to], 0), over, far, ends)

    def shares(self, linear: Array, fixed: Array, limits: Array, over: Array, far: int) -> tuple[Array, Array]:
        """Return vectors of shares until `over` [states, vectors], and how much of each a tick has."""
        load, use = self.load, self.use
        kinds, counts = np.unique(self.start, return_counts=True)
        most = np.maximum(1, np.minimum(limits, counts @ np.maximum.reduceat(use, self.first[kinds])))
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
                shift = max(0, int(amount.max()).bit_length() - SHARE_BITS)
                unit = -(-int(most[r]) * int(parts[at.DIVISOR]) >> shift)
                steps = (amount >> shift).astype(np.int64)
                if unit < 2**60:  # else a tick has more of it than anyone takes
                    found.append((self.least(steps, over, min(far * unit, 2**56)), unit))
        kept: list[tuple[Array, int]] = []
        for share, unit in sorted(found, key=lambda each: -(each[0] / each[1]).sum()):
            if share.any() and not any((share / unit <= other / its).all() for other, its in kept):
                kept.append((share, unit))
        shares = np.zeros((len(self.ready), len(kept)), dtype=np.int64)
        for k, (share, _) in enumerate(kept):
            shares[:, k] = share
        return shares, np.array([unit for _, unit in kept], dtype=np.int64)


def local_graph(
    machine: Machine, requests: Sequence[Request], groups: Sequence[int], whole: bool, free_drops: bool, budget: Budget
) -> LocalGraph:
    """Return the graphs of all requests, one for each group, side by side; a group's requests are consecutive.

    `whole`: prefills are split only as `splits.py` says. `free_drops`: with KV all is allowed that is without.
    Raises InvalidCertificate where there are too many options.
    """
    states: list[tuple[Any, ...]] = []
    options: list[tuple[Any, ...]] = []
    first, start, most, looked = [0], [], np.zeros(len(Load._fields), dtype=np.int64), Looked(budget)
    largest = most
    for j, request in enumerate(requests):
        if j == 0 or groups[j] != groups[j - 1]:
            base, begin = len(states), len(options)
            _add_kind(RequestOptions(machine, request), whole, free_drops, looked, states, options, first)
            if max(max(option[4]) for option in options[begin:]) >= 2**53:
                raise InvalidCertificate(TOO_LARGE)
            largest = np.array([option[4] for option in options[begin:]], dtype=np.int64).max(axis=0)
        start.append(base)
        most = most + largest
    options.append((0, -1, -1, (0,) * 4, Load()))
    to, away, kept, moves, load = (np.array(column, dtype=np.int64) for column in zip(*options, strict=True))
    ready, empty, arriving, begun, left = (np.array(column, dtype=np.int64) for column in zip(*states, strict=True))
    return LocalGraph(
        first=np.array(first), load=load, to=to, away=away, kept=kept, moves=moves, ready=ready, empty=empty > 0,
        arriving=arriving > 0, begun=begun > 0, left=left, start=np.array(start), most=most,
    )  # fmt: skip


def _add_kind(
    rules: RequestOptions, whole: bool, free_drops: bool, looked: Looked, states: list[Any], options: list[Any],
    first: list[int],
) -> None:  # fmt: skip
    found, base = [_timeless(rules.start())], len(states)
    ids = {found[0]: base}

    def number(state: LocalState) -> int:
        if state not in ids:
            ids[state] = base + len(found)
            found.append(state)
        return ids[state]

    for state in found:  # it grows
        ready = number(state._replace(wait=0))
        held = state.device + state.host
        allowed = _options(rules, state, whole, looked)
        if free_drops and held:
            dropped = _options(rules, state._replace(device=0, host=0, mark=PLAIN), whole, looked)
            allowed = chain(allowed, (option._replace(drop=held) for option in dropped))
        needed = list(_undominated(allowed))
        idle = next((len(options) + k for k, option in enumerate(needed) if option[:4] == (0, 0, 0, 0)), -1)
        for option in needed:
            away = -1 - option.end.wait if option.end.wait < 0 else -1
            kept = idle if free_drops and held and option[:4] == (held, 0, 0, 0) else -1
            options.append((number(_timeless(option.end.after(0))), away, kept, option[:4], option.load))
        first.append(len(options))
        begun = rules.has_first_token(state)
        left = sum(segment.decode for segment in rules.request.segments[state.segment :]) - state.generated
        states.append((ready, free_drops and not held, state.wait and not begun, begun, left))


def _timeless(state: LocalState) -> LocalState:
    return state._replace(wait=1) if state.wait else state


def _options(rules: RequestOptions, state: LocalState, whole: bool, looked: Looked) -> Iterator[Option]:
    looked.take(rules.tries(state))
    for option in rules.options(state):
        looked.take(1)
        if whole and option.work and not option.load.generated:
            before = option.end.device - option.work
            if option.work != rules.known(state) - before - 1 and (before or option.work > 1):
                continue
        yield option


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
