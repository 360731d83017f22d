"""Our policies against what released schedulers and simulators did, batch for batch; where released code differs."""

import csv
import gzip
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from costmodels import INFERMAX_7B, infermax_7b
from heuristics import get_policy, trace_policy
from heuristics.policies.mars_as_released import MarsAsReleased
from kvcore import Instance, Machine, verify_schedule
from kvcore.referee import InvalidSchedule
from tests.heuristics.test_policies_today import moves, request, serving

RELEASED = Path(__file__).parent / "released"
SIMULATED = INFERMAX_7B.replace(memory=10_000)


def served(requests, machine):
    """The requests of a file, on this machine; ids are their numbers."""
    with (RELEASED / f"{requests}.csv").open() as file:
        made = tuple(
            request(
                row["request"], int(row["prompt_tokens"]), int(row["output_tokens"]),
                int(Fraction(row["arrival_s"]) * 10**9), weight=int(row.get("weight", 1)),
                max_new=int(row["max_new"]) if "max_new" in row else None,
            )
            for row in csv.DictReader(file)
        )  # fmt: skip
    return Instance(machine=machine, cost=infermax_7b(), tick_seconds=Fraction(1, 10**9), requests=made)


def engine(**limits):
    return Machine(block=16, evict=True, **limits)


RUNS = {
    "vllm": ("infermax-vllm", SIMULATED), "vllm-ef": ("infermax-vllm-ef", SIMULATED),
    "sarathi-serve": ("infermax-sarathi", SIMULATED), "sarathi-serve-ef": ("infermax-sarathi-ef", SIMULATED),
    "vllm-vidur": ("vidur-vllm", SIMULATED),
    "vllm-v1": ("vllm-0.33", engine(memory=9600, batch_tokens=2048, batch_requests=256)),
    "vllm-v1-first-chunk": ("vllm-0.33-first-chunk", engine(memory=6400, batch_tokens=512, batch_requests=64)),
    "vllm-v1-priority": ("vllm-0.33-priority", engine(memory=6400, batch_tokens=1024, batch_requests=64)),
    "sglang": ("sglang-0.5.23", engine(memory=9600, prefill_tokens=2048, batch_requests=256)),
}  # fmt: skip


def pairs(text):
    return [(id, int(tokens)) for id, _, tokens in (item.partition(":") for item in text.split())]


@pytest.mark.parametrize("policy", RUNS)
def test_a_policy_does_what_was_released(policy):
    """Of an engine: start, requests, tokens and order of every batch, and whose KV was lost.

    A simulator says requests and tokens; a start may be later by the rounding of each batch before it to nanoseconds.
    """
    name, machine = RUNS[policy]
    simulated = machine is SIMULATED
    given = served("requests" if simulated else f"{name}.requests", machine)
    batches = trace_policy(given, get_policy(policy)).expanded().batches
    with gzip.open(RELEASED / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(batches) > (1800 if simulated else 700)
    for k, (row, batch) in enumerate(zip(rows, batches, strict=True)):
        late, work = batch.start - Fraction(row["start_s"]) * 10**9, pairs(row["work"])
        if simulated:
            assert (-1 <= late <= k + 1, dict(work)) == (True, batch.work), k
        else:
            lost = pairs(row["preempted"])
            assert (late, work, lost) == (0, [*batch.work.items()], [*batch.drop.items()]), k


def test_the_papers_rules_do_something_else():
    """The text's Sarathi gives prefills 512 tokens beside any decodes: it needs a batch less here."""
    given = served("requests", SIMULATED)
    assert len(trace_policy(given, get_policy("sarathi")).expanded().batches) == 1804
    assert len(trace_policy(given, get_policy("vllm")).expanded().batches) == 1801


# --- the tiny instances that show each difference ----------------------------------------------------------------
class Watched(MarsAsReleased):
    """MARS as released, with the requests that starved."""

    starved: set[int]

    def start(self, view):
        super().start(view)
        self.starved = set()

    def observe(self, view, plan):
        super().observe(view, plan)
        self.starved |= self.promoted


@pytest.mark.parametrize(("memory", "waits", "starves"), [(7, [3, 1, 0], False), (6, [5, 0, 0], True)])
def test_5_released_starvation_counts_what_is_waited_on_end(memory, waits, starves):
    """C is evicted once or twice. A wait of more than 3 batches on end makes it starve, not 3 and 1."""
    policy = Watched(threshold=3)
    given = serving(memory, request("A", 2, 4), request("B", 2, 4), request("C", 2, 4))
    ran = [step.batch for step in trace_policy(given, policy, compress=False).requests[2].steps]
    assert [after - before - 1 for before, after in pairwise(ran)] == waits
    assert policy.starved == ({2} if starves else set())


@pytest.mark.parametrize("name", ["infercept", "infercept-as-released"])
def test_6_a_victim_does_not_come_back_in_the_same_batch(name):
    """M = 8, C = 3: A's token takes B's memory, and leaves 2 of each free. The release lets B prefill 2 at once.

    Here rule R4 forbids that, and C (1) waits behind B.
    """
    three = request("A", 3, 6), request("B", 3, 2, 1), request("C", 1, 1, 3)
    given = serving(8, *three, host_memory=0, batch_tokens=3)
    schedule = trace_policy(given, get_policy(name)).expanded()
    evicting = schedule.batches[3]
    assert (evicting.work, evicting.drop) == ({"A": 1}, {"B": 3})
    released = evicting.model_copy(update={"work": {"A": 1, "B": 2}})
    batches = (*schedule.batches[:3], released, *schedule.batches[4:])
    with pytest.raises(InvalidSchedule, match="R4 is broken in batch 3, request B"):
        verify_schedule(given, schedule.model_copy(update={"batches": batches}))


# --- SGLang, by hand ---------------------------------------------------------------------------------------------
def test_after_a_retraction_those_that_stay_are_in_its_order():
    """M = 56: all have as many outputs; C (prompt 3) goes first, and of the others B (1) stays before A (2)."""
    three = request("A", 2, 20, max_new=20), request("B", 1, 20, max_new=20), request("C", 3, 20, 1, max_new=20)
    batches = moves(serving(56, *three), "sglang")
    lost = next(k for k, (_, drop) in enumerate(batches) if drop)
    assert [*batches[lost - 1][0]] == ["A", "B", "C"]
    assert ([*batches[lost][0]], [*batches[lost][1]]) == (["B", "A"], ["C"])
