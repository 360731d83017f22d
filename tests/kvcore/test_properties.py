"""The referee, `library/check.py` and accounts of every tick agree on random schedules and on mutants of them."""

import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from heuristics import PolicyError, Unsuited, get_policy, run_policy
from tests.fuzz.case import looked_at
from tests.fuzz.referee import PART, agree
from tests.support.drawer import crowded_instance, tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from tests.support.random_schedules import digest_of_some, mutate

POLICIES = ("fcfs", "sjf", "serial", "mars-order", "vllm", "vllm-v1-priority", "sarathi", "infercept", "mars", "srpt")


def test_random_schedules_and_mutants_meet_every_rule():
    seen = looked_at(PART, few(range(2160), 40))
    missed = [rule for rule in range(1, 12) if not seen[f"breaks R{rule}"]]
    assert not missed, f"no mutant breaks {missed}: {seen}"
    assert seen["valid"] > 200, seen
    assert seen["repeated"] > 10, seen
    assert sum(seen[f"breaks R{rule}"] for rule in range(1, 12)) > 300, seen


@pytest.mark.parametrize("seed", few(range(24), 6))
def test_schedules_of_policies_and_mutants_of_them(seed):
    draw, instance, valid = random.Random(seed), crowded_instance(seed), 0
    for policy in POLICIES:
        try:
            schedule = run_policy(instance, get_policy(policy))
        except (Unsuited, PolicyError):
            continue
        valid += agree(instance, schedule) == 0
        for _ in range(3):
            agree(instance, mutate(draw, instance, schedule))
    assert valid


def test_a_batch_that_drops_and_works():
    """Optima are no worse with `drop_and_work`; without it their schedules break R4 where a batch does both."""
    seen, off = Counter[str](), {"drop_and_work": False}
    for seed in few(range(360), 12):
        profile = {"slo": False, "requests": 2, "evict": True, "calls": (0, 0, 1), "host_memory": "none",
                   "hybrid": (False, False, True)}  # fmt: skip
        drawn, objective = tiny_instance(seed, drop_and_work=True, **profile), ("total-flow-time", "makespan")[seed % 2]
        value, schedule = exhaustive_optimum(drawn, objective)
        plain = drawn.replace(machine=drawn.machine.replace(**off))
        without, usual = exhaustive_optimum(plain, objective)
        assert agree(drawn, schedule) == agree(drawn, usual.replace(instance_sha256=drawn.sha256)) == 0
        broken = agree(plain, schedule.replace(instance_sha256=plain.sha256))
        assert broken in (0, 4)
        assert value <= without if broken else value == without
        agree(drawn, mutate(random.Random(seed), drawn, schedule))
        seen.update(better=value < without, breaks=broken == 4)
    assert seen["better"], seen
    assert seen["breaks"] > seen["better"], seen


def test_what_is_drawn_does_not_depend_on_the_order_of_sets():
    command = [sys.executable, "-c", f"import {digest_of_some.__module__} as it; print(it.digest_of_some())"]
    for seed in few(("1", "2"), 2):
        other = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        assert subprocess.run(command, env=other, capture_output=True, text=True).stdout.strip() == digest_of_some()
