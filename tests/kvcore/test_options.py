"""The options of requests allow a batch exactly if the referee does, on random walks through random instances.

Both were written from `docs/semantics.md` apart from each other; here they meet move by move, not only in optima.
"""

import random

import pytest

from kvcore import Batch, InvalidSchedule, Schedule, verify_schedule
from kvcore.certificates import SlotPrices
from kvcore.certificates.options import Load, RequestOptions
from kvcore.limits import LIMITS, Use, use_of
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.few import few

KINDS = ("drop", "swap_out", "swap_in", "work")


class Walk:
    """A random walk through the states of all requests, with the batches made on the way."""

    def __init__(self, seed, profile):
        self.instance = tiny_instance(seed, **PROFILES[profile])
        self.random = random.Random(seed)
        self.rules = [RequestOptions(self.instance.machine, request) for request in self.instance.requests]
        self.states = [rules.start() for rules in self.rules]
        self.now, self.batches = 0, []

    def options(self):
        """What each request may do: {(drop, swap_out, swap_in, work): option}."""
        return [{option[:4]: option for option in rules.options(state)}
                for rules, state in zip(self.rules, self.states, strict=True)]  # fmt: skip

    def is_over(self):
        return all(rules.is_done(state) for rules, state in zip(self.rules, self.states, strict=True))

    def allowed(self, options, numbers):
        """The option of each request, if together they make a batch; else None."""
        chosen = [mine.get(given) for mine, given in zip(options, numbers, strict=True)]
        if None in chosen:
            return None
        load = Load(*map(sum, zip(*(option.load for option in chosen), strict=True)))
        return chosen if load.acts and self.rules[0].fits(load) else None

    def anything(self, i):
        """Anything up to a little more than there is, for a request."""
        state, known = self.states[i], 0 if self.rules[i].is_done(self.states[i]) else 1
        known = self.rules[i].known(state) + 1 if known else 1
        return tuple(self.random.randint(0, most) for most in (*[state.device + state.host] * 3, known))

    def drawn(self, options):
        """A batch in numbers: options of the requests, for some of them anything."""
        change = self.random.choice([0, 0.5])
        return [self.anything(i) if self.random.random() < change else self.random.choice(list(mine))
                for i, mine in enumerate(options)]  # fmt: skip

    def batch(self, numbers):
        ids = [request.id for request in self.instance.requests]
        tokens = {kind: {id: given[k] for id, given in zip(ids, numbers, strict=True) if given[k]}
                  for k, kind in enumerate(KINDS)}  # fmt: skip
        return Batch(start=self.now, **tokens)

    def rule_broken(self, *more):
        """The rule that the referee names for the batches so far and `more`; 11 (completion): they are right."""
        schedule = Schedule(instance_sha256=self.instance.sha256, batches=(*self.batches, *more))
        try:
            verify_schedule(self.instance, schedule)
        except InvalidSchedule as invalid:
            return invalid.rule
        return 11

    def go_on(self, batch, chosen):
        """Make a batch, and wait for some of what is to come."""
        end = self.now + 1
        while self.rule_broken(batch, Batch(start=end)) == 1:  # an empty batch breaks R1 before the end, then R10
            end += 1
        self.batches.append(batch)
        pause = self.random.choice([0, 0, 1, 2])
        self.states = [option.end.after(end - self.now).after(pause) for option in chosen]
        self.now = end + pause


def compare(seed, profile, samples):
    """Compare on a walk; return how many random batches the referee accepted and refused."""
    walk, accepted, refused = Walk(seed, profile), 0, 0
    while not walk.is_over() and len(walk.batches) < 12:
        options, last = walk.options(), None
        for _ in range(samples):
            numbers = walk.drawn(options)
            chosen, batch = walk.allowed(options, numbers), walk.batch(numbers)
            assert (walk.rule_broken(batch) == 11) == (chosen is not None), (seed, profile, batch)
            accepted, refused = accepted + (chosen is not None), refused + (chosen is None)
            last = last if chosen is None else (batch, chosen)
        if last is not None:
            walk.go_on(*last)
        elif any(state.wait for state in walk.states):
            walk.states = [state.after(1) for state in walk.states]
            walk.now += 1
        else:
            break
    return accepted, refused


@pytest.mark.parametrize("profile", PROFILES)
def test_the_referee_and_the_options_allow_the_same_batches(profile):
    counts = [compare(seed, profile, samples=25) for seed in few(range(300), 60)]
    assert sum(accepted for accepted, _ in counts) > 50
    assert sum(refused for _, refused in counts) > 50


def test_an_option_takes_of_each_limit_what_a_batch_of_it_does():
    seen = set()
    for seed in few(range(60)):
        instance, draw = tiny_instance(seed), random.Random(seed)
        for request in instance.requests:
            rules = RequestOptions(instance.machine, request)
            state = rules.start()
            for _ in range(10):
                state = state.after(10**6)
                *_, load, end = draw.choice([*rules.options(state)])
                batch = use_of(load.tokens, load.decode_requests, load.prefill_requests, load.blocks, load.host)
                assert load.shared == tuple(getattr(batch, limit.column) for limit in LIMITS)
                seen |= {column for column, taken in zip(Use._fields, batch, strict=True) if taken}
                state = end
    assert seen == set(Use._fields)


def test_prices_of_slots_have_a_row_for_each_limit():
    assert tuple(SlotPrices.model_fields) == ("since", *(limit.name for limit in LIMITS))
