"""Shares of time: never above an optimum or a schedule, exact where they must be, and every slip is noticed."""

import random
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations

import numpy as np
import pytest
from pydantic import ValidationError

from bounds.shares import corners, propose_shares
from bounds.task import Task
from costmodels import get_cost
from heuristics import trace_policy
from heuristics.policies.figure_1 import Fcfs
from kvcore import OBJECTIVES, Cost, CostFunction, Instance, Machine
from kvcore.certificates import InvalidCertificate, Shares
from kvcore.certificates.certificate import rounded
from kvcore.certificates.one_machine import WorkPiece, largest, moments
from kvcore.certificates.shares import RESOURCES, UNIT, PricedSteps, most_prefill
from kvcore.certificates.steps import Steps, lines
from kvcore.cost import TokensAbove
from kvcore.metrics import objective_value
from solvers.dual_bound import best_bound as bound
from tests.support.build import request
from tests.support.drawer import PROFILES, crowded_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from tests.support.optima import optima
from workloads.builtin import builtin_instance

WHOLE = Shares(functions=(UNIT, 0), memory=UNIT)
"""One function of cost, and its fixed part shared by memory."""


def lone(cost, prompt=3, decode=4, **machine):
    return Instance(machine=Machine(memory=20, **machine), cost=cost, requests=(request("R", prompt, decode),))


def alike(n, prompt, decode, memory, **machine):
    requests = tuple(request(f"R{i}", prompt, decode) for i in range(n))
    return Instance(machine=Machine(memory=memory, **machine), requests=requests)


@cache
def all_optima(seeds, max_states=150):
    """Instances of every profile and objective with exhaustive optima, those that are quick to find."""
    asked = [optima(profile, seeds, [name], max_states) for profile in PROFILES for name in OBJECTIVES]
    return [(instance, objective, optimum) for each in asked for _, instance, objective, optimum in each]


def proofs(instance, objective, draw):
    """Every corner, mixtures drawn at random, and what is proposed."""
    *_, last = propose_shares(Task(instance, objective, float("inf")))
    yield last.proof
    for proof in corners(instance):
        if proof.memory:
            yield proof.replace(memory=UNIT // 3, packing=UNIT - UNIT // 3, packs=draw.randint(1, 4))
        parts = [draw.random() for _ in proof.functions]
        functions = tuple(int(UNIT * part / sum(parts)) for part in parts)
        yield from (proof, proof.replace(functions=functions))


def compared(cases):
    """Yield each case with its largest bound and its optimum."""
    draw = random.Random(0)
    for instance, objective, value in cases:
        bounds = [rounded(proof.value(instance, objective), objective) for proof in proofs(instance, objective, draw)]
        yield instance.name, objective, max(bounds), value


def test_no_bound_exceeds_an_optimum():
    cases = all_optima(few(range(100), 100))
    found = list(compared(cases))
    assert [case for case in found if case[2] > case[3]] == []
    assert len(found) > 25
    assert sum(case[2] == case[3] for case in found) > len(found) // 4


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", few(range(12)))
def test_no_bound_exceeds_a_schedule(seed, objective):
    instance = crowded_instance(seed, most=30)
    value = objective_value(trace_policy(instance, Fcfs()), objective)
    for proof in proofs(instance, objective, random.Random(seed)):
        assert rounded(proof.value(instance, objective), objective) <= value


def cleared(*names):
    """Steps that know nothing of what stands in some arrays."""

    def wrong(make):
        def forget(self, instance, packs):
            make(self, instance, packs)
            for name in names:
                getattr(self, name)[:] = 0

        return forget

    return Steps, "__init__", wrong


PLANTED = {
    "doubled": (Steps, "least", lambda least: lambda self, prices: 2 * least(self, prices)),
    "longer tails": (PricedSteps, "_after", lambda after: lambda self, done: after(self, done) + 1),
    "later middles": (PricedSteps, "_tails", lambda tails: lambda self, work, goal: [
        tail + 2 * total for tail, total in zip(tails(self, work, goal), self.steps.sums(work), strict=True)]),
    "later starts": (PricedSteps, "_pieces", lambda pieces: lambda self, work, bits, *others: [
        p._replace(release=p.release + (1 << bits)) for p in pieces(self, work, bits, *others)]),
    "packed too tight": (Steps, "_packed", lambda _: lambda self, blocks: np.where(
        blocks > 0, self.packs * self.machine.block_limit, 0)),
    "discarded though kept": cleared("own", "start"),
}  # fmt: skip


def plant(monkeypatch, owner, name, wrong):
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_noticed(error, monkeypatch):
    plant(monkeypatch, *PLANTED[error])
    assert any(found > value for _, _, found, value in compared(all_optima(range(1))))


def test_a_refill_may_be_cheaper_than_a_decode(monkeypatch):
    """The first request is dropped while the second is served, and comes back with two tokens: 1 + 1 + 2 ticks."""
    cost = Cost((CostFunction(tokens=1, decode_requests=50),))
    instance = lone(cost, evict=True).replace(requests=(request("R2", 1, 2), request("R1", 1, 1)))
    value, _ = exhaustive_optimum(instance, "busy-time")
    assert value == rounded(WHOLE.value(instance, "busy-time"), "busy-time") == 4
    monkeypatch.setattr("kvcore.certificates.steps.may_drop", lambda machine, request: False)
    assert WHOLE.value(instance, "busy-time") > value


@pytest.mark.parametrize("objective", ["total-flow-time", "normalized-latency", "total-ttft", "makespan", "busy-time"])
@pytest.mark.parametrize("prefill", [None, 2])
def test_a_lone_request_is_exact(objective, prefill):
    cost = Cost((CostFunction(busy=7, tokens=2, decode_kv=3, any_prefill=4),))
    instance = lone(cost, prompt=4 if prefill else 3, prefill_tokens=prefill)
    value = objective_value(trace_policy(instance, Fcfs()), objective)
    assert bound(instance, objective, method="shares").bound == pytest.approx(value, rel=1e-3)
    assert bound(instance, objective, method="shares").bound <= value


def test_memory_that_fills_up_is_exact():
    """Four requests hold 2 and then 3 tokens each: 20 in all, and 6 fit, so 4 batches are needed."""
    instance = alike(4, 2, 2, 6)
    for objective in ("busy-time", "makespan"):
        assert bound(instance, objective, method="shares").bound == 4 == exhaustive_optimum(instance, objective)[0]


@pytest.mark.parametrize(("memory", "packs", "batches"), [(5, 1, 4), (8, 2, 2), (9, 3, 2), (9, 2, 2), (3, 1, 4)])
def test_whole_requests_fit(memory, packs, batches):
    """Four requests of 3 tokens: one, two or three fit, however much is left over."""
    instance = alike(4, 3, 1, memory)
    assert bound(instance, "makespan", method="shares").bound == batches
    assert WHOLE.replace(memory=0, packing=UNIT, packs=packs).value(instance, "busy-time") == batches


@pytest.mark.parametrize("packs", range(1, 8))
@pytest.mark.parametrize("limit", [7, 12, 30])
def test_what_fits_counts_for_all_the_memory_at_most(packs, limit):
    """The best set of contexts that fits, by their counts, for every memory up to the limit."""
    steps = Steps(alike(1, limit, 1, limit), packs)
    counts = [0, *steps._packed(np.arange(1, limit + 1)).tolist()]
    best = [0]
    for filled in range(1, limit + 1):
        best.append(max(best[filled - size] + counts[size] for size in range(1, filled + 1)))
    assert best[-1] == packs * limit
    assert counts == sorted(counts)


def test_tokens_that_fill_the_batches_are_exact():
    """Six prompts of 2 tokens, 4 a batch: two end at 1, 2 and 3."""
    instance = alike(6, 2, 1, None, batch_tokens=4)
    assert bound(instance, "makespan", method="shares").bound == 3
    assert bound(instance, "max-flow-time", method="shares").bound == 3
    assert bound(instance, "total-ttft", method="shares").bound >= 9


def test_the_last_prompt_leaves_its_outputs_to_be_decoded():
    """Eight prompts of 4 tokens take 8 batches of 4; each has two more tokens: 8 + 2 batches."""
    instance = alike(8, 4, 3, None, prefill_tokens=4, chunked=False)
    assert bound(instance, "busy-time", method="shares").bound == 10


def test_a_hinge_counts_as_a_line():
    """16 tokens in batches of at most 4, of which those above 2 cost 5 each: 16 (1 + 5) - 4 (2 5 - 10) = 96."""
    cost = Cost((CostFunction(busy=10, tokens=1, tokens_above=TokensAbove(knee=2, coefficient=5)),))
    instance = alike(4, 4, 1, None, batch_tokens=4, chunked=False).replace(cost=cost)
    value = objective_value(trace_policy(instance, Fcfs()), "busy-time")
    assert bound(instance, "busy-time", method="shares").bound == value == 4 * (10 + 4 + 10)


def test_like_requests_that_all_fit_are_exact():
    instance = builtin_instance("infermax-figure15:I=16").replace(machine=Machine(memory=10_000, evict=True))
    trace = trace_policy(instance, Fcfs())
    value, batches = objective_value(trace, "busy-time"), sum(len(run.ends) for run in trace.runs)
    assert value - batches <= bound(instance, "busy-time", method="shares").bound <= value


BAD = {
    "add up to more than 1024": WHOLE.replace(memory=UNIT, tokens=1),
    "parts of one thing": WHOLE.replace(functions=(UNIT, 1)),
    "there are 2 lines, not 1": WHOLE.replace(functions=(UNIT,)),
    "cannot be shared by requests": WHOLE.replace(memory=0, requests=1),
}


@pytest.mark.parametrize("text", BAD)
def test_a_proof_that_does_not_hold_is_refused(text):
    with pytest.raises(InvalidCertificate, match=text):
        BAD[text].value(alike(3, 1, 1, 5), "makespan")


@pytest.mark.parametrize("field", RESOURCES)
@pytest.mark.parametrize("part", [-1, UNIT + 1, 0.5])
def test_a_part_outside_0_to_1_is_refused(field, part):
    with pytest.raises(ValidationError):
        Shares.model_validate({"functions": (UNIT, 0), field: part})


def test_numbers_too_large_are_refused():
    huge = Cost((CostFunction(tokens=10**15, prefill_pairs=10**15),))
    for instance, text in (
        (alike(1, 10**12, 1, None), "request R0 is too large"),
        (alike(1, 1, 10**12, None), "request R0 generates more than"),
        (alike(1, 10**6, 1, None).replace(cost=huge), "too large for shares"),
        (alike(3, 1, 9_000_000, None), "are more than 10000000"),
    ):
        with pytest.raises(InvalidCertificate, match=text):
            Shares(functions=(UNIT, 0)).value(instance, "makespan")


def test_long_contexts_in_nanoseconds_are_not_too_large():
    """A request of 460,000 tokens under a roofline, 60,000 of them generated: no prices of pairs are added up."""
    model = get_cost("roofline:model=llama-3-8b,device=h100")
    long = Instance(machine=model.machine, cost=model.make(), requests=(request("R", 400_000, 60_000),))
    first = Shares(functions=(UNIT, *(0,) * (len(lines(long.cost)) - 1)))
    assert first.value(long, "makespan") > 10**9


def test_shares_are_coarser_where_64_bits_would_not_hold_their_sum():
    one = request("R", 2**20, *[(1, 0, 0, "discard")] * 50, 1)
    large = Instance(machine=Machine(memory=None), cost=Cost((CostFunction(tokens=10**9),)), requests=(one,))
    work, bits = PricedSteps(large, Shares(functions=(UNIT, 0))).shares()
    total = sum(one.prompt + q for q in range(51)) * 10**9
    assert total - 51 <= sum(work.tolist()) / 2**bits <= total
    huge = large.replace(cost=Cost((CostFunction(tokens=10**12),)))
    with pytest.raises(InvalidCertificate, match="too large for shares of time"):
        PricedSteps(huge, Shares(functions=(UNIT, 0)))


def test_a_machine_without_limits_prefills_all_requests_at_once():
    """Its 1.5 million prompts of 2^30 tokens are more than the 10^15 that once stood for infinity."""
    one, short = request("R", 2**30, 1), request("S", 3, 2)
    free = Instance(machine=Machine(memory=None), cost=Cost((CostFunction(any_prefill=10**12),)), requests=(one,))
    assert most_prefill(free.model_copy(update={"requests": (one,) * 1_500_000})) == 1_500_000 * 2**30
    assert most_prefill(free.replace(machine=Machine(memory=2**30 + 9, block=10))) == 2**30
    assert most_prefill(free.replace(machine=Machine(memory=None, batch_tokens=7))) == 7
    two = free.replace(requests=(short.replace(id="T"), short))
    priced = PricedSteps(two, Shares(functions=(UNIT, 0)))
    work, bits = priced.shares()
    assert 0 < work.sum() <= 10**12 << bits


def test_as_many_lines_as_would_take_hours_are_refused_at_once():
    cost = Cost((CostFunction(busy=3),) * 900)
    with pytest.raises(InvalidCertificate, match="shares of 9000000 steps in 901 lines would take too long to check"):
        Shares(functions=(1,) * 901).value(alike(1, 1, 9_000_000, None).replace(cost=cost), "makespan")


def test_pieces_of_many_steps_are_weaker_but_bounds(monkeypatch):
    instance = builtin_instance("hindsight:n=14,M=30,seed=14")
    fine = {objective: WHOLE.value(instance, objective) for objective in OBJECTIVES}
    monkeypatch.setattr("kvcore.certificates.budget.Most.pieces", 30)
    for objective in OBJECTIVES:
        assert WHOLE.value(instance, objective) <= fine[objective]
    assert WHOLE.value(instance, "total-flow-time") > fine["total-flow-time"] / 2


# --- one machine -----------------------------------------------------------------------------------------------------
def drawn_pieces(draw, n):
    return [WorkPiece(draw.randint(0, 6), -draw.randint(0, 6), draw.randint(1, 4), i) for i in range(n)]


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_end_is_that_of_some_set(seed):
    """Carlier: it is the largest, over all sets of pieces, of the first release, all work and the least tail."""
    pieces = drawn_pieces(random.Random(seed), 6)
    sets = (chosen for k in range(1, 7) for chosen in combinations(pieces, k))
    assert largest(pieces) == max(
        min(p.release for p in chosen) + sum(p.work for p in chosen) + min(-p.rank for p in chosen) for chosen in sets
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_greedy_order_has_the_least_moments(seed):
    """Against every order of priorities, with random weights."""
    draw = random.Random(seed)
    pieces = drawn_pieces(draw, 4)
    weights = np.array([draw.randint(1, 9) for _ in pieces])
    values = {}
    for order in permutations(range(4)):
        ranked = [piece._replace(rank=order[piece.owner]) for piece in pieces]
        values[order] = int(weights @ moments(ranked, 4))
    greedy = tuple(np.argsort(np.argsort(-weights, kind="stable")).tolist())
    assert values[greedy] == min(values.values())


def test_fractions_of_ticks_are_kept():
    """Two requests of a third of the memory each and three of them: 7 thirds of a batch are 3 batches."""
    instance = alike(7, 1, 1, 3)
    assert rounded(Fraction(WHOLE.value(instance, "makespan")), "makespan") == 3
