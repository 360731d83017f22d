"""Closed loops: each user is one request, whose next prompt comes after the last answer."""

from fractions import Fraction

import pytest

from kvcore import BadInput, Machine
from kvcore.files import read_instance
from kvcore.instance import Call, Instance, Request, Segment, Slo
from solvers import solve
from tests.support.commands import kvbound
from tests.support.exhaustive import exhaustive_optimum
from workloads.closed_loop import closed_loop


def plain(k, prompt, decode, **more):
    return Request(id=f"R{k}", arrival=9 * k, prompt=prompt, segments=(Segment(decode=decode),), **more)


def test_requests_are_dealt_in_turn_and_join_with_calls():
    calls = Segment(decode=1, call=Call(duration=5, returns=2)), Segment(decode=2)
    requests = [
        plain(0, 3, 4, max_new=9), plain(1, 1, 1), plain(2, 2, 1, max_new=8).replace(segments=calls), plain(3, 1, 1),
    ]  # fmt: skip
    first, second = closed_loop(requests, 2, 7)
    asked = Segment(decode=4, call=Call(duration=7, returns=2))
    assert first == Request(id="u1", prompt=3, segments=(asked, *calls), max_new=9)
    again = Segment(decode=1, call=Call(duration=7, returns=1))
    assert second == Request(id="u2", prompt=1, segments=(again, Segment(decode=1)))


@pytest.mark.parametrize("memory", [6, 9])
def test_its_optimum_is_that_of_all_schedules(memory):
    """Each next prompt waits for the last token and the pause, in every schedule: it is a call."""
    users = tuple(closed_loop([plain(k, 1 + k % 2, 1) for k in range(4)], 2, 2))
    instance = Instance(machine=Machine(memory=memory, batch_tokens=2, evict=True), requests=users)
    found = solve(instance, "total-flow-time")
    assert found.status == "optimal"
    assert found.value == exhaustive_optimum(instance, "total-flow-time", max_states=10**6)[0]
    for request in found.trace.requests:
        assert [call.end - call.start for call in request.calls] == [2]


def test_commands_make_them(tmp_path):
    out, trace = tmp_path / "loop.json", tmp_path / "t.csv"
    trace.write_text("arrival,prompt,decode\n0,10,2\n50,20,3\n99,30,4\n")
    kvbound("import", "csv", trace, "--closed-loop", 2, "--think", "0.26", "--out", out)
    one, two = read_instance(out).requests
    assert (one.id, one.prompt, one.calls) == ("u1", 10, (Call(duration=11, returns=30),))
    assert (two.id, two.arrival, two.calls) == ("u2", 0, ())
    kvbound("generate", "fixed", "--n", 5, "--prompt", 4, "--output", 2, "--closed-loop", 2, "--out", out)
    made = read_instance(out)
    assert [len(request.calls) for request in made.requests] == [2, 1]
    assert made.name.endswith("closed-loop=2,think=0")


@pytest.mark.parametrize(("options", "message"), [
    (["--closed-loop", 4], "--closed-loop is from 1 to 3 users, the number of requests, not 4"),
    (["--closed-loop", 2, "--slo-ttft", 1], "--closed-loop: an SLO or contents of a request have no place"),
    (["--closed-loop", 2, "--load", 2], "--closed-loop: users ask when their last answer has come; leave out --load"),
    (["--closed-loop", 2, "--think", "soon"], "--think soon: write a number of at least 0"),
])  # fmt: skip
def test_what_means_nothing_with_it_is_refused(tmp_path, options, message):
    trace = tmp_path / "t.csv"
    trace.write_text("arrival,prompt,decode\n0,10,2\n50,20,3\n99,30,4\n")
    done = kvbound("import", "csv", trace, *options, "--out", tmp_path / "i.json", code=2)
    assert message in done.stderr
    rate = ["generate", "fixed", "--n", 4, "--rate", 1, "--closed-loop", 2, "--out", tmp_path / "i.json"]
    assert "leave out --rate" in kvbound(*rate, code=2).stderr


def test_a_shared_prefix_is_refused():
    with pytest.raises(BadInput, match="an SLO or contents of a request have no place in a user's session"):
        list(closed_loop([plain(0, 4, 1, path=("n", 1))], 1))
    with pytest.raises(BadInput, match="an SLO or contents"):
        list(closed_loop([plain(0, 4, 1, slo=Slo(tpot=Fraction(1)))], 1))
