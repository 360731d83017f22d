"""Orders of batches: requests as chains of tokens, and the search for the best order (kind `potentials`)."""

from __future__ import annotations

import heapq
from fractions import Fraction
from itertools import accumulate
from math import inf
from typing import Any

from library.checker.files import MOST_TRIED, Amount, Box, Broken, NotChecked, spend
from library.checker.instance import blocks
from library.checker.objectives import MOST_OF, rates_of
from library.checker.work import fresh_tokens


def best_first(search: Any, instance: Box, claim: Fraction) -> Amount:
    """The bound of the first label in which all are completed, the best label first; the claim, where none is below.

    What the file says of the search is not looked at. Of labels with the same tokens, those that another one covers
    are left out.
    """
    before = sum(rate * one.arrival for rate, one in zip(search.rates, instance.requests, strict=True))
    goal, first = (claim * search.unit + before) * search.divisor, search.first()
    waiting, known, tried = [(search.least(first), first)], {first.tokens: [first]}, 0
    while waiting and waiting[0][0] < goal:
        bound, label = heapq.heappop(waiting)
        if not search.left(label):
            return (Fraction(bound, search.divisor) - before) / search.unit
        for following in search.followers(label) if label in known[label.tokens] else ():
            tried += 1
            if tried > MOST_TRIED:
                raise NotChecked(f"more than {MOST_TRIED} batches are not tried")
            labels = known.setdefault(following.tokens, []) if following else []
            spend(100 * len(labels) + 500, "its labels")
            if not following or any(search.covers(one, following) for one in labels):
                continue
            least = max(bound, search.least(following))
            if least < goal:
                labels[:] = [one for one in labels if not search.covers(following, one)] + [following]
                heapq.heappush(waiting, (least, following))
    return claim


class Orders:
    """What is the same in all labels: of each request the tokens, as far as they count; times are ticks times divisor.

    `fresh` tokens are processed for each for the first time, `contexts` in all; `wait` is the call after it, `rest`
    the least that follows its end. A batch takes `busy`, b for a token processed, `token` for one generated.
    """

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        if not proof.function < len(instance.cost):
            raise Broken(f"the cost has no function {proof.function}")
        if len(instance.requests) > 8:
            raise NotChecked("orders of batches of more than 8 requests are not tried")
        line, machine, self.given = instance.cost[proof.function], instance.machine, instance.requests
        self.machine, self.room = machine, inf if machine.memory is None else machine.memory // machine.block
        self.host = inf if machine.host_memory is None else machine.host_memory
        self.rates, self.unit = rates_of(instance, objective)
        chains = [fresh_tokens(one, MOST_OF.get(objective)) for one in self.given]
        self.fresh, self.divisor = [[new for new, _ in chain] for chain in chains], line.divisor
        self.contexts = [list(accumulate(news)) for news in self.fresh]
        self.wait = [[call * line.divisor for _, call in chain] for chain in chains]
        self.busy, self.b = line.busy + min(line.any_decode, line.any_prefill), line.tokens
        self.token = min(line.decode_requests, line.prefill_requests) + line.generated
        each = zip(self.wait, self.fresh, strict=True)
        tails = (map(self.later_token, calls[-2::-1], news[:0:-1]) for calls, news in each)
        self.rest = [[0, *accumulate(tail)][::-1] for tail in tails]
        ends = [accumulate(each.decode for each in one.segments) for one in self.given]
        calls = [[each.call and each.call.handling for each in one.segments] for one in self.given]
        self.discards = [
            {end for end, how in zip(*each, strict=True) if how == "discard"} for each in zip(ends, calls, strict=True)
        ]

    def later_token(self, call: int, new: int) -> int:
        """What a token takes after a call, in as many batches as the budget asks for."""
        batches = blocks(new, self.machine.batch_tokens or new) if self.machine.chunked else 1
        return call + self.busy * batches + self.b * new + self.token

    def left(self, label: Any) -> list[int]:
        """Those that are not completed."""
        return [i for i, news in enumerate(self.fresh) if label.tokens[i] < len(news)]
