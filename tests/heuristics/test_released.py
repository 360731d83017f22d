"""Our schedulers against what released simulators did, batch for batch; and where released code differs from papers."""

from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from costmodels import INFERMAX_7B, infermax_7b
from heuristics import Plan, View, get_policy, trace_policy
from heuristics.policies.mars_as_released import MarsAsReleased
from kvcore import Instance, verify_schedule
from kvcore.referee import InvalidSchedule
from tests.heuristics.test_policies_today import request, serving

RELEASED = Path(__file__).parent / "released"
RUNS = {
    "vllm": "infermax-vllm",
    "vllm-ef": "infermax-vllm-ef",
    "sarathi-serve": "infermax-sarathi",
    "sarathi-serve-ef": "infermax-sarathi-ef",
    "vllm-vidur": "vidur-vllm",
}


def released_requests() -> Instance:
    """The 48 requests, on the machine of the runs."""
    with (RELEASED / "requests.csv").open() as file:
        requests = tuple(
            request(row["request"], int(row["prompt_tokens"]), int(row["output_tokens"]))
            for row in csv.DictReader(file)
        )
    machine = INFERMAX_7B.replace(memory=10_000)
    return Instance(machine=machine, cost=infermax_7b(), tick_seconds=Fraction(1, 10**9), requests=requests)


@pytest.mark.parametrize("policy", RUNS)
def test_a_policy_does_what_the_released_simulator_did(policy: str) -> None:
    """Batch for batch; a start may be later by the rounding of each batch before it to whole nanoseconds."""
    given = released_requests()
    batches = trace_policy(given, get_policy(policy)).expanded().batches
    with gzip.open(RELEASED / f"{RUNS[policy]}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(batches) > 1800
    for k, (row, batch) in enumerate(zip(rows, batches, strict=True)):
        did = {id: int(tokens) for id, _, tokens in (item.partition(":") for item in row["work"].split())}
        assert did == batch.work, k
        assert -1 <= batch.start - Fraction(row["start_s"]) / given.tick_seconds <= k + 1


def test_the_papers_rules_do_something_else() -> None:
    """The text's Sarathi gives prefills 512 tokens beside any decodes: it needs a batch less here."""
    given = released_requests()
    assert len(trace_policy(given, get_policy("sarathi")).expanded().batches) == 1804
    assert len(trace_policy(given, get_policy("vllm")).expanded().batches) == 1801


# --- the tiny instances that show each difference ----------------------------------------------------------------


class Watched(MarsAsReleased):
    """MARS as released, with the requests that starved."""

    starved: set[int]

    def start(self, view: View) -> None:
        super().start(view)
        self.starved = set()

    def observe(self, view: View, plan: Plan) -> None:
        super().observe(view, plan)
        self.starved |= self.promoted


@pytest.mark.parametrize(("memory", "waits", "starves"), [(7, [3, 1, 0], False), (6, [5, 0, 0], True)])
def test_5_released_starvation_counts_what_is_waited_on_end(memory: int, waits: list[int], starves: bool) -> None:
    """C is evicted once or twice. A wait of more than 3 batches on end makes it starve, not 3 and 1."""
    policy = Watched(threshold=3)
    given = serving(memory, request("A", 2, 4), request("B", 2, 4), request("C", 2, 4))
    ran = [step.batch for step in trace_policy(given, policy, compress=False).requests[2].steps]
    assert [after - before - 1 for before, after in pairwise(ran)] == waits
    assert policy.starved == ({2} if starves else set())


@pytest.mark.parametrize("name", ["infercept", "infercept-as-released"])
def test_6_a_victim_does_not_come_back_in_the_same_batch(name: str) -> None:
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
