"""The banker's tests against plain ones: all orders of finishing, and running on step by step."""

import random
from itertools import permutations

import pytest

from heuristics.engine.admission import Banker, NonPreemptiveBanker, RunningRequest, is_safe
from heuristics.engine.demand import Demand, SoloEstimate
from kvcore import Call, Cost, CostFunction, Machine, Request, Segment


def blocks_of(path):
    """What is held, as a set."""
    return {(node, k) for node, blocks in path for k in range(blocks)}


def some_order_works(capacity, holdings):
    def works(order):
        free = capacity - sum(held for held, _ in holdings)
        for held, claim in order:
            if claim - held > free:
                return False
            free += held
        return free >= 0

    return any(works(order) for order in permutations(holdings))


def test_safe_means_that_some_order_works():
    draw, seen = random.Random(1), set()
    for _ in range(2000):
        capacity = draw.randint(4, 12)
        holdings = [(held, draw.randint(held, capacity)) for held in (draw.randint(0, 4) for _ in range(4))]
        if sum(held for held, _ in holdings) <= capacity:
            seen.add(is_safe(capacity, holdings))
            assert is_safe(capacity, holdings) == some_order_works(capacity, holdings)
    assert seen == {True, False}


def test_contents_that_several_hold_are_given_back_by_the_last():
    """Against every order, with sets of blocks."""
    draw, seen = random.Random(3), set()
    for _ in range(600):
        capacity, paths, holdings = draw.randint(4, 12), [], []
        for _ in range(4):
            path = (("root", draw.randint(0, 3)),)
            path += ((draw.choice("ab"), draw.randint(0, 2)),) if path[0][1] == 3 else ()
            held = sum(blocks for _, blocks in path) + draw.randint(0, 2)
            paths.append(path)
            holdings.append((held, held + draw.randint(0, 5)))
        sets = [*map(blocks_of, paths)]
        private = [held - len(path) for (held, _), path in zip(holdings, sets, strict=True)]

        def works(order, sets=sets, private=private, holdings=holdings, capacity=capacity):
            left = list(order)
            while left:
                free = capacity - len(set().union(*(sets[i] for i in left))) - sum(private[i] for i in left)
                held, claim = holdings[left.pop(0)]
                if claim - held > free:
                    return False
            return True

        held = len(set().union(*sets)) + sum(private)
        if held <= capacity:
            seen.add(safe := is_safe(capacity, holdings, paths))
            assert safe == any(map(works, permutations(range(4))))
            assert safe or not is_safe(capacity, holdings)  # that each counts is not less safe
    assert seen == {True, False}


def test_the_bank_admits_exactly_what_stays_safe():
    """Over long random growths, and what is given back."""
    draw, seen = random.Random(2), {True: 0, False: 0}
    for _ in range(400):
        capacity = draw.randint(5, 40)
        claims = {i: draw.randint(1, capacity) for i in range(draw.randint(2, 9))}
        held = {}
        banker = Banker(capacity, {})
        for _ in range(60):
            i = draw.choice(list(claims))
            growth = draw.randint(1, 3)
            if held.get(i, 0) + growth > claims[i]:  # it has its claim: it gives something back, or all
                growth = -draw.choice([held.get(i, 0), draw.randint(0, held.get(i, 0))])
            after = held | {i: held.get(i, 0) + growth}
            safe = is_safe(capacity, [(tokens, claims[k]) for k, tokens in after.items() if tokens])
            assert banker.admits(i, growth, claims[i]) == safe
            seen[safe] += 1
            if safe:
                banker.grow(i, growth, claims[i])
                held = after
    assert min(seen.values()) > 1000


def fits_step_by_step(capacity, block, waiting, runners, paths):
    """Run everyone on token by token, blocks of contents once, then ask for a safe order of what is left."""
    static, held = sum(held for held, _ in waiting.values()), [blocks_of(paths[i]) for i in waiting]
    for step in range(max((runner.steps for runner in runners), default=0) + 2):
        used, sets = static, [*held]
        for runner in runners:
            ended = 0 <= runner.steps < step
            used += runner.end if runner.steps < 0 else runner.kept if ended else -(-(runner.tokens + step) // block)
            sets += [] if ended and not runner.kept else [blocks_of(runner.path)]
        if used - sum(map(len, sets)) + len(set().union(*sets)) > capacity:
            return False
    kept = [runner for runner in runners if runner.kept]
    holdings = [*waiting.values(), *((runner.kept, runner.claim) for runner in kept)]
    return is_safe(capacity, holdings, [*(paths[i] for i in waiting), *(runner.path for runner in kept)])


def random_runner(draw, capacity, block, shares):
    tokens, steps = draw.randint(1, 6), draw.randint(-1, 6)
    end = -(-(tokens + max(steps, 2)) // block) if steps < 0 else -(-(tokens + steps) // block)
    kept = draw.choice([0, end])
    path = random_path(draw, tokens // block) if shares else ()
    return RunningRequest(tokens, steps, end, kept, draw.randint(end, max(end, capacity)), path)


def random_path(draw, most):
    """Up to `most` blocks, of which those after the second are of one node or another."""
    blocks = draw.randint(0, most)
    return ("root", min(blocks, 2)), (draw.choice("ab"), max(0, blocks - 2))


def test_lockstep_admits_exactly_what_fits_step_by_step():
    """Every second time contents count once."""
    draw, seen = random.Random(3), {True: 0, False: 0}
    for shares in [False, True] * 750:
        capacity, block = draw.randint(6, 30), draw.choice([1, 1, 2, 3])
        waiting = {i: (held, draw.randint(held, capacity)) for i, held in enumerate((draw.randint(1, 3), 2))}
        paths = {i: random_path(draw, held) if shares else () for i, (held, _) in waiting.items()}
        banker, runners = (
            NonPreemptiveBanker(capacity, block, waiting, paths if shares else None),
            list[RunningRequest](),
        )
        for i in range(1, 6):  # 1 waits before it runs, the others hold nothing before
            runner = random_runner(draw, capacity, block, shares)
            others = {k: holding for k, holding in waiting.items() if k != i}
            fits = fits_step_by_step(capacity, block, others, [*runners, runner], paths)
            assert banker.admits(i, runner) == fits
            seen[fits] += 1
            if fits:
                banker.add(i, runner)
                runners.append(runner)
                waiting = others
    assert min(seen.values()) > 500


def test_what_lies_ahead_of_a_request():
    calls = [Call(duration=5, returns=2, handling="preserve"), Call(duration=7, handling="swap")]
    calls.append(Call(duration=9, returns=1, handling="discard"))
    segments = (*(Segment(decode=3, call=call) for call in calls), Segment(decode=4))
    estimate = SoloEstimate(Machine(memory=40, block=4), Cost.unit())
    demand = Demand(Request(id="A", prompt=4, segments=segments), estimate)
    assert demand.end == [6, 11, 14, 19]
    assert demand.end_blocks == [2, 3, 4, 5]
    assert demand.release_blocks == [3, 3, 4, 5]  # the first call gives nothing back
    assert demand.releases == [False, True, True, True]
    assert (demand.host_next, demand.host_claim) == ([11, 11, 0, 0], [11, 11, 0, 0])
    assert demand.call_ticks == [21, 16, 9, 0]
    assert demand.ticks == [10, 7, 4, 0]  # a prefill of what was returned generates the first token
    assert demand.effort(0, 0, 0, 4, 0).ticks == 13
    assert demand.effort(3, 17, 0, 1, 2).area == 18 + 19


@pytest.mark.parametrize("size", [1, 3, 4, 7, 8])
def test_efforts_alone_are_sums_over_batches(size):
    """Exact where the cost does not read the KV: against a loop over the batches."""
    cost = Cost((CostFunction(divisor=2, busy=3, tokens=1, swap_out_tokens=1, swap_in_tokens=2),))
    estimate = SoloEstimate(Machine(memory=30, batch_tokens=size), cost)
    ticks = area = 0
    resident, missing = 2, 11
    while missing:
        chunk = min(size, missing)
        resident, missing = resident + chunk, missing - chunk
        lasts = -(-(3 + chunk) // 2)
        ticks, area = ticks + lasts, area + lasts * resident
    assert estimate.prefill(2, 11) == (ticks, area)
    assert estimate.decode(5, 3) == (6, 2 * (6 + 7 + 8))
    assert estimate.run(2, 11, 4) == (ticks + 6, area + 2 * (14 + 15 + 16))
    assert (estimate.swap_out(5), estimate.swap_in(5)) == (3, 5)
    assert (estimate.others(12), estimate.others(31)) == (18, 0)
    assert SoloEstimate(Machine(memory=None), cost).others(5) == 0
