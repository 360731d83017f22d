"""The exhaustive search allows a batch exactly if the referee does, on random walks through random instances.

Of batches that lead every request to the same state, the search keeps a shortest one; of those that differ only in who
of like requests in one state does what, it looks at one.

Both were written from `docs/semantics.md` apart from each other; here they meet move by move, not only in optima.
"""

import random

import pytest

from kvcore import Batch, InvalidSchedule, Schedule, verify_schedule
from kvcore.certificates.batches import after_moves, as_batch
from kvcore.certificates.search import ExhaustiveSearch
from kvcore.instance import alike
from tests.support.tiny_instances import PROFILES, tiny_instance

KINDS = ("drop", "swap_out", "swap_in", "work")


class Walk:
    """A random walk through the nodes of a search, with the batches made on the way."""

    def __init__(self, seed, profile):
        self.instance = tiny_instance(seed, **PROFILES[profile])
        self.random = random.Random(seed)
        self.search = ExhaustiveSearch(self.instance, "makespan")
        self.node = tuple(self.search.at_start(request) for request in self.instance.requests)
        self.ids = [request.id for request in self.instance.requests]
        self.now, self.batches = 0, []

    def is_over(self):
        return self.search.tokens_left(self.node) == 0

    def legal(self):
        """What the search allows now: pairs of a choice and its ticks."""
        return self.search.batches.starting_at(self.node)

    def go_on(self):
        """Wait or make a batch; return whether there was anything to do."""
        successors = list(self.search.successors(0, self.node))
        if successors:
            _, self.node, edge = self.random.choice(successors)
            if any(edge.choice):
                self.batches.append(as_batch(self.now, self.ids, edge.choice))
            self.now += edge.ticks
            self.ids = [self.ids[i] for i in edge.order]
        return bool(successors)

    # --- batches as the numbers (drop, swap_out, swap_in, work) of each request ---

    def numbers(self, choice):
        return [tuple(getattr(option, kind) for kind in KINDS) for option in choice]

    def disturbed(self, numbers):
        """The same, with anything up to a little more than there is for some requests."""
        return [
            self.anything(i) if not self.search.batches.is_done(i, state) and self.random.random() < 0.5 else given
            for i, (state, given) in enumerate(zip(self.node, numbers, strict=True))
        ]

    def anything(self, i):
        state = self.node[i]
        held = state.device + state.host
        return tuple(
            self.random.randint(0, most) for most in (held, held, held, self.search.batches.known(i, state) + 1)
        )

    def batch(self, numbers):
        tokens = {
            kind: {id: given[k] for id, given in zip(self.ids, numbers, strict=True) if given[k]}
            for k, kind in enumerate(KINDS)
        }
        return Batch(start=self.now, **tokens)

    def outcome(self, numbers):
        """Where a batch leaves each request: m before its work, h, and its work; in order where like requests stand."""
        found = [(*after_moves(state, moves), work) for state, (*moves, work) in zip(self.node, numbers, strict=True)]
        for group in alike(self.instance.requests):
            for state in {self.node[i] for i in group}:
                twins = [i for i in group if self.node[i] == state]
                for i, one in zip(twins, sorted(found[i] for i in twins), strict=True):
                    found[i] = one
        return found

    # --- the referee ---

    def rule_broken(self, *more):
        """The rule that the referee names for the batches so far and `more`; 11 (completion): they are right."""
        schedule = Schedule(instance_sha256=self.instance.sha256, batches=(*self.batches, *more))
        try:
            verify_schedule(self.instance, schedule)
        except InvalidSchedule as invalid:
            return invalid.rule
        return 11

    def ends_after(self, batch, tick):
        """An empty batch breaks R1 before the end of `batch`, and only R10 or another of the due moves from then on."""
        return self.rule_broken(batch, Batch(start=tick)) == 1


def compare(seed, profile, samples):
    """Compare on a walk; return how many random batches the referee accepted and refused."""
    walk, accepted, refused = Walk(seed, profile), 0, 0
    while not walk.is_over() and len(walk.batches) < 12:
        legal = walk.legal()
        outcomes = [walk.outcome(walk.numbers(choice)) for choice, _ in legal]
        for choice, ticks in walk.random.sample(legal, min(len(legal), samples)):
            batch = walk.batch(walk.numbers(choice))
            assert walk.rule_broken(batch) == 11
            assert walk.ends_after(batch, walk.now + ticks - 1)
            assert not walk.ends_after(batch, walk.now + ticks)
            numbers = walk.disturbed(walk.numbers(choice))
            if walk.rule_broken(walk.batch(numbers)) == 11:
                same = [
                    ticks for (_, ticks), seen in zip(legal, outcomes, strict=True) if seen == walk.outcome(numbers)
                ]
                assert same
                assert walk.ends_after(walk.batch(numbers), walk.now + min(same) - 1)
                accepted += 1
            else:
                refused += 1
        if not walk.go_on():
            break
    return accepted, refused


@pytest.mark.parametrize("profile", PROFILES)
def test_the_referee_and_the_search_allow_the_same_batches(profile):
    counts = [compare(seed, profile, samples=8) for seed in range(10)]
    assert sum(accepted for accepted, _ in counts) > 50
    assert sum(refused for _, refused in counts) > 50


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_the_referee_and_the_search_allow_the_same_batches_on_many(profile):
    for seed in range(10, 300):
        compare(seed, profile, samples=30)
