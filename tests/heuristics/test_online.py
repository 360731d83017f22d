"""Nobody knows more than it says: what is hidden at a tick does not change what is decided up to it."""

import random

import pytest

from heuristics import POLICIES, STARTERS, Unified, Unsuited, get_policy, trace_policy
from kvcore import Call, Segment
from tests.heuristics.test_compression import serving
from tests.support.drawer import crowded_instance
from tests.support.few import ALL, few

CLAIRVOYANT = [name for name, policy in POLICIES.items() if policy.knows == "clairvoyant"]
OTHERS = [name for name in POLICIES if name not in CLAIRVOYANT]


def instances(seeds, any_machine):
    """Scarce memory, calls and arrivals, on machines that evict, on machines that do not, and on any."""
    for seed in seeds:
        instance = serving(seed)
        yield instance
        yield instance.replace(machine=instance.machine.replace(evict=False))
        if any_machine:
            yield crowded_instance(seed)


def decided(trace, tick):
    """Return the batches that were decided with no more than what had shown at the tick."""
    return [batch for batch in trace.expanded().batches if batch.start <= tick]


def drawn_tail(draw, least):
    """Draw what is left of a request, whose present segment has generated `least - 1` tokens."""
    decodes = [least + draw.randint(0, 6), *(draw.randint(1, 6) for _ in range(draw.choice([0, 0, 1, 2])))]
    calls = [Call(duration=draw.randint(0, 40), returns=draw.randint(0, 3)) for _ in decodes[1:]]
    return tuple(Segment(decode=d, call=call) for d, call in zip(decodes, [*calls, None], strict=True))


def other_future(executed, trace, tick, draw):
    """Return a request that shows the same up to the tick: the tokens generated, and the calls that have returned."""
    request = executed.request
    generated = sum(step.generated for step in executed.steps if trace.batches[step.batch].end <= tick)
    past = []
    for k, segment in enumerate(request.segments):
        if generated < segment.decode:
            return request.replace(segments=(*past, *drawn_tail(draw, generated + 1)))
        generated -= segment.decode
        if segment.call is not None and executed.calls[k].end > tick:
            lasted = tick - executed.calls[k].start
            call = segment.call.replace(duration=lasted + draw.randint(1, 40), returns=draw.randint(0, 3))
            return request.replace(segments=(*past, segment.replace(call=call), *drawn_tail(draw, 1)))
        past.append(segment)
    return request  # done


def other_request(executed, trace, tick, draw, online):
    """Return a request that differs in what is hidden at the tick; the same where the drawn one would not fit."""
    request, memory = executed.request, trace.instance.machine.memory
    if request.arrival > tick:
        later = tick + draw.randint(1, 60)
        other = request.replace(arrival=later, prompt=draw.randint(1, 12), segments=drawn_tail(draw, 1))
    elif online:
        other = other_future(executed, trace, tick, draw)
    else:
        return request
    block = trace.instance.machine.block
    return other if memory is None or -(-other.peak // block) * block <= memory else request


def leak(policy, instance, draw):
    """Return whether another future changed what had been decided, and whether it changed anything at all."""
    try:
        trace = trace_policy(instance, policy)
    except Unsuited:
        return None
    last = max(request.arrival for request in instance.requests)
    tick = draw.randrange(last) if last and draw.random() < 0.7 else draw.choice(trace.batches).start
    others = (other_request(r, trace, tick, draw, policy.knows == "online") for r in trace.requests)
    changed = trace_policy(instance.replace(requests=tuple(others)), policy)
    return decided(trace, tick) != decided(changed, tick), changed.expanded().batches != trace.expanded().batches


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_hidden_changes_nothing_that_was_decided(name):
    draw = random.Random(name)
    ran = different = 0
    for instance in instances(few(range(50), 13), get_policy(name) in STARTERS):
        for _ in range(2):
            seen = leak(get_policy(name), instance, draw)
            if seen is not None:
                assert not seen[0], instance.machine
                ran += 1
                different += seen[1]
    assert ran >= (25 if ALL else 8)
    assert different >= (10 if ALL else 2), "the changes hardly ever matter"


class Peeking(Unified):
    """Says that it is online, and looks at the lengths."""

    name, rule, source = "peeking", "shortest request first, by what is hidden", "this test"

    def key(self, job):
        return job._state.request.peak


class Foresighted(Peeking):
    """Says that it knows predictions, and looks at who is to come."""

    name, knows = "foresighted", "predictions"

    def key(self, job):
        later = sum(state.request.prompt for state in job._execution.states.values() if state.request.arrival)
        return job.prompt * (-1) ** later


@pytest.mark.parametrize("policy", [Peeking(), Foresighted()], ids=lambda policy: policy.name)
def test_who_knows_more_than_it_says_is_found_out(policy):
    draw = random.Random(1)
    seen = [
        leak(policy, instance.replace(machine=instance.machine.replace(batch_requests=1)), draw)
        for instance in map(serving, range(80))
    ]
    assert sum(found is not None and found[0] for found in seen) >= 3


def test_the_clairvoyant_policies_are_known():
    """What is exempt here is written down: docs/policies.md says of each why."""
    assert CLAIRVOYANT == []
