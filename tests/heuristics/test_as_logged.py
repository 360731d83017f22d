"""Logs of other schedulers as schedules: what comes back of our own, what is tolerated, and the real ones."""

import csv
import json
import random
from fractions import Fraction

import pytest

from costmodels import infermax_7b
from heuristics import get_policy, run_policy, trace_policy
from heuristics.as_logged import LoggedDifference, read_run
from kvcore import BadInput, Instance, InvalidSchedule, Machine, verify_schedule
from kvcore.metrics import evictions, makespan, objective_value
from tests.support.build import request
from tests.support.data import real
from workloads.importers.run_log import restarts

MACHINE = Machine(memory=20, host_memory=40, block=1, batch_tokens=16, evict=True)


def instance(*requests, **machine):
    """Three requests of 8 and 4 tokens unless others are given; a tick is a second."""
    three = tuple(request(f"r{k}", 8, 4) for k in range(3))
    return Instance(name="x", requests=requests or three, machine=MACHINE.replace(**machine))


def log_of(schedule, made, path, *, moves):
    """Write a schedule as a log, with the moves or without."""
    names = ("drop", "swap_out", "swap_in") if moves else ()
    lines = [
        {"start_s": float(batch.start * made.tick_seconds), "work": batch.work}
        | {name: getattr(batch, name) for name in names}
        for batch in verify_schedule(made, schedule).expanded().batches
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def drawn(draw):
    """A crowded machine; calls of nothing, or of a hundred batches."""

    def one(id):
        calls, handlings = draw.choice((0, 0, 1, 2)), ("preserve", "discard", "free")
        segments = [(draw.randint(1, 6), draw.choice((0, 10**9)), draw.randint(0, 5), draw.choice(handlings))
                    for _ in range(calls)]  # fmt: skip
        last, arrival = draw.randint(1, 6), draw.choice((0, 0, 2 * 10**8))
        return request(id, draw.randint(1, 12), *segments, last, arrival=arrival)

    requests = tuple(one(f"r{k}") for k in range(draw.randint(2, 6)))
    machine = MACHINE.replace(
        memory=max(request.peak for request in requests) + draw.randint(3, 20),
        host_memory=None, batch_tokens=draw.choice((None, 8, 16)),
    )  # fmt: skip
    return Instance(name="x", requests=requests, machine=machine, cost=infermax_7b(), tick_seconds=Fraction(1, 10**9))


def test_our_own_schedules_come_back(tmp_path):
    """With their moves they are the same; without, the same work, and evictions are found again."""
    found = restarted = 0
    for seed in range(25):
        made = drawn(random.Random(seed))
        for name in ("vllm", "sarathi"):
            schedule = run_policy(made, get_policy(name))
            log = log_of(schedule, made, tmp_path / "log.jsonl", moves=True)
            whole = verify_schedule(made, schedule).expanded()
            assert read_run(made, log).schedule == whole
            assert set(read_run(made, log, tolerate=True).differences) <= {"late"}
            read = read_run(made, log_of(schedule, made, log, moves=False), tolerate=True)
            assert [batch.work for batch in read.schedule.batches] == [batch.work for batch in whole.batches]
            assert not read.differences.keys() - {"early", "late"}
            found, restarted = found + 1, restarted + read.restarts
    assert (found, restarted) == (50, 69)


@pytest.mark.parametrize(("steps", "expected"), [
    ([(0, 4), (1, 4), (2, 1), (3, 1)], []),
    ([(0, 8), (1, 1), (3, 10), (4, 1)], [1]),  # all of its context
    ([(0, 4), (2, 4), (3, 4), (4, 1), (5, 1)], [0]),  # in the middle of the prompt: the rest would be too much
    ([(0, 8), (3, 1), (9, 1)], []),  # it only sat out
    ([(0, 8), (2, 1), (4, 4), (5, 6)], [2]),  # in chunks
    ([(0, 8), (1, 9)], []),  # no batch between: too many tokens
    ([], []),
])  # fmt: skip
def test_restarts(steps, expected):
    """A request of 8 and 3 or 4 tokens, by hand."""
    assert restarts(request("r", 8, 3), steps)[0] == expected


def test_a_restart_after_a_call():
    """What the handling discards is no eviction; what it keeps can be evicted by one that sat out."""
    for handling, steps, expected in (
        ("discard", [(0, 2), (1, 5)], []),
        ("preserve", [(0, 2), (5, 5)], [0]),
        ("preserve", [(0, 2), (5, 3)], []),
        ("free", [(0, 2), (1, 5)], [0]),
    ):
        assert restarts(request("r", 2, (1, 1, 2, handling), 1), steps) == (expected, True), handling


def read(tmp_path, made, log, *, tolerate=True):
    (tmp_path / "log.csv").write_text("start_s,work\n" + log)
    return read_run(made, tmp_path / "log.csv", tolerate=tolerate)


PLAIN = "0,r0:8 r1:8\n1,r0:1 r1:1\n2,r0:1 r1:1\n3,r0:1\n4,r1:11\n5,r2:8\n6,r2:1\n7,r2:1\n8,r2:1\n"


def test_what_is_tolerated_is_counted(tmp_path):
    made = instance()
    strict = read(tmp_path, made, PLAIN, tolerate=False)
    assert strict.schedule.batches[3].drop == {"r1": 10}
    assert (strict.restarts, evictions(strict.trace), makespan(strict.trace), strict.differences) == (1, 1, 9, {})
    for log, differences in (
        (PLAIN, {}),
        (PLAIN.replace("3,r0", "2.4,r0"), {"early": LoggedDifference(1, 3, 1), "late": LoggedDifference(1, 4, 1)}),
        (PLAIN.replace("8,r2", "20,r2"), {"late": LoggedDifference(1, 8, 12)}),
        (PLAIN.replace("3,r0:1", "3,r0:3"), {"tokens": LoggedDifference(1, 3, 2)}),
        (PLAIN + "9,r2:1 r0:4\n", {"done": LoggedDifference(2, 9, 4), "empty": LoggedDifference(1, 9)}),
        (PLAIN[:-7], {"unfinished": LoggedDifference(1, 8)}),
        (PLAIN[: PLAIN.index("4,r1")], {"unfinished": LoggedDifference(2, 4)}),  # r1 must have been evicted
        ("0,r0:8\n", {"unfinished": LoggedDifference(3, 1)}),
    ):
        run = read(tmp_path, made, log)
        assert run.differences == differences
        if "unfinished" not in differences:
            assert makespan(run.trace) == 9
    assert [float(x) for x in read(tmp_path, made, PLAIN.replace("8,r2", "20,r2")).start_differences] == [12, 12]


def test_work_before_an_arrival_waits(tmp_path):
    made = instance(request("r0", 2, 1, arrival=3))
    run = read(tmp_path, made, "1,r0:2\n")
    assert run.differences == {"arrival": LoggedDifference(1, 0)}
    assert run.schedule.batches[0].start == 3
    with pytest.raises(
        InvalidSchedule, match="R2 is broken in batch 0, request r0: it works at 1, but it arrives at 3"
    ):
        read(tmp_path, made, "1,r0:2\n", tolerate=False)


def test_those_left_are_finished_with_evictions_where_they_must(tmp_path):
    """All three hold KV, and none can finish beside the others."""
    run = read(tmp_path, instance(), "0,r0:8\n1,r1:8\n2,r2:4\n")
    assert run.differences == {"unfinished": LoggedDifference(3, 3)}
    assert evictions(run.trace) == 1


@pytest.mark.parametrize("tolerate", [False, True])
@pytest.mark.parametrize(("log", "machine", "rule"), [
    (PLAIN, {"memory": 18}, "R6 is broken in batch 2: the requests occupy 20 blocks"),
    (PLAIN, {"batch_tokens": 10}, "R5 is broken in batch 0: it processes 16 tokens"),
    (PLAIN, {"evict": False}, "R8 is broken in batch 3, request r1: drop outside a call"),
])  # fmt: skip
def test_limits_are_never_tolerated(tmp_path, tolerate, log, machine, rule):
    with pytest.raises(InvalidSchedule, match=rule):
        read(tmp_path, instance(**machine), log, tolerate=tolerate)


def test_moves_of_a_log(tmp_path):
    """They are taken at their word: all that is there where no tokens are named, and what is not there is left out."""
    made = instance(request("r0", 8, 2), request("r1", 8, 2))
    log = tmp_path / "log.csv"
    log.write_text("start_s,work,swap_out,swap_in,drop\n0,r0:8,,,\n1,r1:8,r0,,\n2,r1:1,,,\n3,r0:1,,r0:8,\n")
    run = read_run(made, log)
    assert [batch.swap_out for batch in run.schedule.batches] == [{}, {"r0": 8}, {}, {}]
    assert (run.restarts, run.schedule) == (0, read_run(made, log, tolerate=True).schedule)
    log.write_text("start_s,work,swap_out,swap_in,drop\n0,r0:8,r1,,r0:3\n1,r1:8,r0:9,,\n2,r1:1,,,\n3,r0:1,,r0,\n")
    assert read_run(made, log, tolerate=True).differences == {"moves": LoggedDifference(3, 0, 3)}
    with pytest.raises(InvalidSchedule, match="R8 is broken in batch 0, request r0: drop of 3 of 0 tokens"):
        read_run(made, log)


def test_an_unknown_request(tmp_path):
    with pytest.raises(BadInput, match="batch 0 has a request '7' that x does not have; its 3 requests are r0, r1, r2"):
        read(tmp_path, instance(), "0,7:1\n")


def without_moves(batches):
    return [(batch.start, batch.work) for batch in batches]


@pytest.mark.data
@pytest.mark.parametrize(("name", "policy", "budget", "drops", "mean"), [
    ("infermax-vllm", "vllm", 4096, 19, 7.7382),
    ("infermax-sarathi-ef", "sarathi-ef", 512, 0, 7.7043),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in (
        ("infermax-vllm-ef", "vllm-ef", 4096, 0, 7.5734), ("infermax-sarathi", "sarathi", 512, 21, 8.0365),
        ("vidur-vllm", None, 4096, 19, 7.7537), ("vidur-sarathi", "sarathi", 512, 21, 8.0365),
    )),
])  # fmt: skip
def test_released_runs(name, policy, budget, drops, mean):
    """They obey every rule but R1, by a nanosecond: durations are rounded up here. Our policies give the same batches.

    Vidur's vllm has another budget: the longest request times their number.
    """
    requests = tuple(
        request(row["request"], int(row["prompt_tokens"]), int(row["output_tokens"]))
        for row in csv.DictReader(real("released_runs/requests.csv").open())
    )
    machine = Machine(memory=10_000, host_memory=0, block=1, batch_tokens=budget, evict=True)
    made = Instance(name="48", requests=requests, machine=machine, cost=infermax_7b(), tick_seconds=Fraction(1, 10**9))
    run = read_run(made, real(f"released_runs/{name}.csv.gz"), tolerate=True)
    assert list(run.differences) == ["early"]
    assert run.differences["early"].largest == 1
    assert (run.restarts, evictions(run.trace)) == (drops, drops)
    assert run.start_differences[0] < Fraction(2, 10**6)
    assert objective_value(run.trace, "total-flow-time") / 48e9 == pytest.approx(mean, abs=5e-5)
    if policy is not None:
        ours = trace_policy(made, get_policy(policy)).expanded()
        assert without_moves(run.schedule.batches) == without_moves(ours.batches)
