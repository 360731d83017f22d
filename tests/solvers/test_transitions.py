"""What a request may do in a slot: the referee executes every path, and no prefill is split where none needs to be."""

from itertools import islice

import pytest

from formulations.timing import start_early
from kvcore import BadInput, Call, Instance, Machine, Request, Segment
from kvcore.schedule import Batch
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.setting import make_setting
from solvers.lagrange.transitions import NodeState, Transitions
from tests.support.few import few
from tests.support.tiny_instances import PROFILES, tiny_instance

HERE = {"partial": False, "pause": True, "hybrid": True, "cost": "unit"}
SLOTS = 14


def paths(transitions, state, slots=SLOTS):
    """Yield the actions of each path that is done within that many slots."""
    for action, head, span in transitions.options(state):
        if head is None:
            yield [action]
        elif transitions.rest(head) <= slots - span:
            yield from ([action, *rest] for rest in paths(transitions, head, slots - span))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_path_is_the_life_of_a_request(profile):
    executed = 0
    for seed in few(range(12), 2):
        instance = tiny_instance(seed, **PROFILES[profile] | HERE)
        alone = instance.replace(requests=instance.requests[:1])
        try:
            PathNetwork(alone, "total-flow-time")
        except BadInput:
            continue
        transitions = Transitions(alone.machine, alone.requests[0], make_setting(alone))
        for actions in islice(paths(transitions, NodeState()), 40):
            assert is_executable(alone, actions), (seed, actions)
            executed += 1
    assert executed >= 40


def is_executable(instance, actions):
    """Whether the referee accepts the actions of one request, drops that are alone joining the next batch."""
    id, batches, dropped = instance.requests[0].id, [], {}
    for action in actions:
        if action.drop:
            dropped = {id: action.drop}
        if action.work or action.swap_out or action.swap_in:
            moves = {kind: {id: n} for kind in ("swap_out", "swap_in", "work") if (n := getattr(action, kind))}
            batches.append(Batch(start=0, drop=dropped, **moves))
            dropped = {}
        elif action.evicts:
            return True  # needs the batch of another request
    return start_early(instance, batches).requests[0].completion > 0


def test_identical_requests_are_one_class_and_chunks_only_where_a_batch_can_be_full():
    request = Request(id="A", prompt=6, segments=(Segment(decode=2, call=Call(duration=3)), Segment(decode=2)))
    requests = tuple(request.replace(id=id) for id in "ABC")

    def parts(batch_tokens):
        machine = Machine(memory=12, host_memory=0, batch_tokens=batch_tokens)
        network = PathNetwork(Instance(machine=machine, requests=requests), "total-flow-time", exact=True)
        assert [c.count for c in network.classes] == [3]
        actions = [option.action for option in network.classes[0].options]
        return {action.device for action in actions if action.work and not action.generated}

    assert parts(12) == set()
    assert parts(9) == {1, 2, 3}
