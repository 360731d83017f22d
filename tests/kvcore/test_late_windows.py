"""Overlapping windows of late requests: never above the truth, and what is known by hand."""

import random
from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import islice

import pytest

from bounds.late_windows import propose_late_windows
from bounds.task import Task
from kvcore import BadInput, Cost, CostFunction, Instance, Machine, Request, Segment, Slo
from kvcore.certificates import InvalidCertificate, LateWindows, Shares, late_windows
from kvcore.certificates.late_windows import ONE, DueWork, least_number
from kvcore.certificates.shares import UNIT, PricedSteps
from kvcore.certificates.steps import lines
from solvers.dual_bound import best_bound
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.random_proofs import random_late_windows

MANY = {
    "requests": (2, 3, 4), "prompt": (1, 1, 2, 3), "decode": (1, 1, 1, 2), "calls": (0, 0, 0, 1), "slo": True,
    "arrival": (0, 0, 0, 1), "batch_tokens": (None, 1, 1, 2, 3), "batch_requests": (None, 1, 2),
    "cost": ("unit", "unit", "linear", "two-functions"),
}  # fmt: skip
"""More requests, and due times for all, of which some exceed what fits."""
SIZE, ALL = 50, 2_500
LATE = "late-requests"


def batches(*requests, **machine):
    """Requests that share one batch a tick of ten."""
    return Instance(
        machine=Machine(memory=20, host_memory=0, evict=True, **machine),
        cost=Cost((CostFunction(busy=10),)),
        requests=requests,
    )


def request(name, arrival=0, prompt=1, decode=1, **slo):
    return Request(id=name, arrival=arrival, prompt=prompt, segments=(Segment(decode=decode),), slo=Slo(**slo))


def urgent(instance, draw):
    """Return the instance with due times a little after what a request takes alone, for most requests."""
    steps = PricedSteps(instance, Shares(functions=(UNIT,) + (0,) * (len(lines(instance.cost)) - 1)))
    requests = []
    for one, start, stop in zip(instance.requests, steps.steps.first, steps.steps.first[1:], strict=False):
        first, last = int(steps.done[start]) + draw.randint(0, 2), int(steps.done[stop - 1]) + draw.randint(0, 2)
        slos = Slo(ttft=first), Slo(latency=last), Slo(ttft=first, latency=last + 1), Slo(ttft=first, tpot=1), one.slo
        requests.append(one.replace(slo=draw.choice(slos)))
    return instance.replace(requests=tuple(requests))


@cache
def cases(start):
    """Return instances with the least number of late requests, where it is quick to find, and what is proposed."""
    found = []
    for seed in range(start, start + SIZE):
        with suppress(TooManyStates, ValueError):
            instance = urgent(tiny_instance(seed, **MANY), random.Random(seed))
            truth = exhaustive_optimum(instance, LATE, max_states=150)[0]
            *_, last = islice(propose_late_windows(Task(instance, LATE)), 1 + seed % 3)
            found.append((instance, truth, last.proof))
    return found


def above(start):
    """Return what exceeds the truth, and how often what was proved is less, or the truth, by windows or alone."""
    found, seen, draw = [], Counter(), random.Random(start)
    for instance, truth, proof in cases(start):
        values = [proof.value(instance, LATE)]
        values += [random_late_windows(draw, instance).value(instance, LATE) for _ in range(8)]
        alone = proof.replace(rows=()).value(instance, LATE)
        found += [(instance.name, max(values), truth)] * (max(values) > truth)
        seen["less" if max(values) < truth else "alone" if alone == truth else "by windows"] += 1
    return found, seen


@pytest.mark.parametrize("start", few(range(0, ALL, SIZE), ALL // SIZE))
def test_no_windows_prove_more_than_the_truth(start):
    found, seen = above(start)
    assert found == []
    assert seen["by windows"] > 2


INSIDE = DueWork.inside
PLANTED = {
    "all work of a request is due with its first token": (
        DueWork, "inside", lambda self, *ends: INSIDE(self._replace(first=self.whole), *ends)),
    "earlier arrivals": (DueWork, "inside", lambda self, start, end: INSIDE(self, start - 1, end)),
    "shorter": (DueWork, "units", lambda self, ticks: (ticks - 1) << self.bits),
    "one more": (late_windows, "least_number", lambda inside, much: least_number(inside, much) + 1),
    "late more than once": (late_windows, "sum", lambda amounts: 0),
}  # fmt: skip


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_noticed(error, monkeypatch):
    monkeypatch.setattr(*PLANTED[error], raising=False)
    assert above(0)[0]


def test_a_window_by_hand():
    """Three requests a batch each: with four ticks of window, one of three is late, and two of two with three ticks."""
    instance = batches(*(request(name, ttft=20) for name in "ABC"), batch_requests=1)
    shared = {"functions": (UNIT, 0), "requests": UNIT}
    assert LateWindows(**shared, rows=((0, 20, ONE, 0),)).value(instance, LATE) == 1
    assert LateWindows(**shared, rows=((0, 20, 0, ONE),)).value(instance, LATE) == 1
    assert LateWindows(**shared, rows=((0, 19, ONE, ONE), (1, 20, ONE, ONE))).value(instance, LATE) == 0
    assert LateWindows(**shared, rows=((0, 20, 10 * ONE, 0),)).value(instance, LATE) == 0  # each is late once
    found = best_bound(instance, LATE, method="late-windows")
    assert found.bound == exhaustive_optimum(instance, LATE)[0] == 1


def test_overlapping_windows_add_up():
    """One of each pair is late: their windows overlap, and all four would fit into both together."""
    times = ((0, 15), (0, 15), (12, 31), (12, 31))
    those = [request(f"R{i}", arrival, ttft=due - arrival) for i, (arrival, due) in enumerate(times)]
    instance = batches(*those, batch_requests=1)
    windows = best_bound(instance, LATE, method="late-windows")
    assert windows.bound == exhaustive_optimum(instance, LATE)[0] == 2


@pytest.mark.parametrize(("prompt", "decode", "slo"), [(1, 4, {"latency": 50}), (2, 1, {"ttft": 30})])
def test_the_last_token_of_a_prompt_may_be_a_decode(prompt, decode, slo):
    """One prefill token a batch does not keep two requests apart (counted so, one of them would be late)."""
    instance = batches(*(request(name, 0, prompt, decode, **slo) for name in "AB"), batch_tokens=10, prefill_tokens=1)
    assert exhaustive_optimum(instance, LATE)[0] == 0
    found = best_bound(instance, LATE, method="late-windows")
    assert found.bound == 0


BAD = {
    "must not end before it begins": LateWindows(functions=(UNIT, 0), rows=((5, 4, 1, 1),)),
    "above 2\\^21 together": LateWindows(functions=(UNIT, 0), rows=((0, 1, 2**40, 2**40),)),
    "late-windows is not proved with makespan": LateWindows(functions=(UNIT, 0)),
}


@pytest.mark.parametrize("text", BAD)
def test_what_does_not_hold_is_refused(text):
    with pytest.raises(InvalidCertificate, match=text):
        BAD[text].value(batches(request("A")), "makespan" if "makespan" in text else LATE)


def test_a_method_without_due_times_says_so():
    with pytest.raises(BadInput, match="no request has an SLO"):
        best_bound(batches(request("A").replace(slo=None)), LATE, method="late-windows")
    with pytest.raises(BadInput, match=r"^late-windows is not proved with makespan$"):
        best_bound(batches(request("A")), "makespan", method="late-windows")
