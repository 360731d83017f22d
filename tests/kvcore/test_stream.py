"""Decodes that go on together: they pause, leave and come back, and everything is as if each were executed alone."""

import random
from collections import Counter

from kvcore import Cost, CostFunction, InvalidSchedule, Machine, verify_schedule
from kvcore.account import memory_waste
from tests.fuzz.referee import agree
from tests.support import build
from tests.support.build import batch, request, schedule
from tests.support.drawer import draw_instance
from tests.support.few import few
from tests.support.random_schedules import fold, mutate, random_schedule
from tests.support.second_referee import execute


def instance(*segments, **machine):
    """Requests A, B, .. with prompts of two tokens and these segments."""
    requests = [request(id, 2, *each) for id, each in zip("ABC", segments, strict=False)]
    return build.instance(*requests, **{"memory": 100, "host_memory": 100, "evict": True} | machine)


def test_one_that_leaves_and_comes_back_between_two_steps():
    """A joins the stream with one token to go, leaves it for the host, calls, and joins it again with two to go."""
    both = instance(((2, 0, 0, "preserve"), 3), (1,))
    made = schedule(
        both, batch(0, A=2), batch(1, out={"A": 2}, B=2), batch(2, back={"A": 2}, A=1), batch(3, A=1),
        batch(4, A=1).replace(repeat=2),
    )  # fmt: skip
    assert agree(both, made) == 0
    assert [request.completion for request in verify_schedule(both, made).requests] == [6, 2]


def test_a_pause_of_all_is_in_the_trace():
    """A decodes in batches 1, 2, 4, 5: batch 3 is B's."""
    both = instance((5,), (1,), hybrid=False)
    made = schedule(
        both, batch(0, A=2), batch(1, A=1).replace(repeat=2), batch(3, B=2), batch(4, A=1).replace(repeat=2)
    )
    assert agree(both, made) == 0
    trace = verify_schedule(both, made)
    assert [step.batch for step in trace.requests[0].steps] == [0, 1, 2, 4, 5]
    assert [(span.batch, span.length, span.last) for span in trace.requests[0].spans] == [(0, 1, 0), (1, 4, 5)]
    assert memory_waste(trace).queued == 4  # in batch 3, A holds its prompt and two of its tokens


def test_a_repeat_ends_where_a_segment_does():
    """The batch after the last token of A is one too many."""
    one = instance((4,))
    good, bad = (schedule(one, batch(0, A=2), batch(1, A=1).replace(repeat=times)) for times in (3, 4))
    assert agree(one, good) == 0
    assert execute(one, bad).batch == 4
    assert agree(one, bad) == 2


def test_a_repeat_that_lacks_memory_names_the_batch():
    """Two requests of two tokens grow by one each: four batches after the prompts they hold twelve of eleven."""
    two = instance((9,), (9,)).replace(machine=Machine(memory=11))
    made = schedule(two, batch(0, A=2, B=2), batch(1, A=1, B=1).replace(repeat=8))
    assert execute(two, made).batch == 4
    assert agree(two, made) == 6


def test_those_that_never_decoded_together_may_be_too_many():
    """A, B and C decode in batch 3 for the first time together, one more than a batch takes; two of them may."""
    three = instance((3,), (3,), (3,), batch_requests=2)
    alone = [batch(0, A=2), batch(1, B=2), batch(2, C=2)]
    bad = schedule(three, *alone, batch(3, A=1, B=1, C=1).replace(repeat=2))
    assert agree(three, bad) == 5
    assert executed(three, bad, plain=False) == executed(three, bad, plain=True)
    two = [batch(3, A=1, B=1).replace(repeat=2), batch(5, C=1).replace(repeat=2)]
    assert agree(three, schedule(three, *alone, *two)) == 0


def test_decodes_that_begin_too_early_break_a_rule():
    """The stream begins its batch at tick 1, while batch 0 lasts to tick 2."""
    one = instance((3,)).replace(cost=Cost((CostFunction(tokens=1),)))
    assert agree(one, schedule(one, batch(0, A=2), batch(1, A=1).replace(repeat=2))) == 1


def executed(of, made, plain):
    """All that the referee says, decode by decode: what is broken, or the batches, the requests and the waste."""
    try:
        trace = verify_schedule(of, made, plain=plain)
    except InvalidSchedule as broken:
        return str(broken)
    requests = [(one.steps, one.moves, one.calls, one.first_token, one.completion) for one in trace.requests]
    return trace.batches, requests, memory_waste(trace)


def test_the_plain_rules_say_the_same():
    """`Execution` executes each request in each batch; `StreamExecution` is what `verify_schedule` uses."""
    seen = Counter()
    for seed in [40, *few(range(160))]:
        draw = random.Random(seed)
        instance = draw_instance(draw)
        made = random_schedule(draw, instance)
        several = [mutate(draw, instance, made) for _ in range(20)]
        for one in [made, fold(made), *several, *map(fold, several[:4])]:
            plain = executed(instance, one, plain=True)
            assert plain == executed(instance, one, plain=False), seed
            seen[plain.split(" is broken")[0].split()[-1] if isinstance(plain, str) else "valid"] += 1
        traces = [verify_schedule(instance, made, plain=plain) for plain in (True, False)]
        one, longest = (max(span.length for row in trace.requests for span in row.spans) for trace in traces)
        assert one == 1
        seen["stream"] += longest > 1
    assert {*(f"R{rule}" for rule in range(1, 12)), "stream", "valid"} <= seen.keys(), seen
