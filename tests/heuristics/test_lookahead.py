"""How long a policy foresees the memory: the profile of `mc-sf`, and the batches that decodes go on under Figure 1."""

import random

import numpy as np

from heuristics.engine.admission import is_safe
from heuristics.engine.ranked import safe_batches
from heuristics.policies.mc_sf import Occupancy, OccupancyProfile
from kvcore import Machine


def blocks(course, batch, block):
    last, held, kept = course
    return -(-(held + batch) // block) if batch <= last else kept


def overflows(machine, others, new, delay):
    """Batch by batch, up to the new one's end, and beyond it if it keeps memory."""
    latest = max([delay + new.last, *(course.last for course in others)]) + 1
    end = latest if new.kept else delay + new.last
    held = (
        sum(blocks(course, t, machine.block) for course in others) + blocks(new, t - delay, machine.block)
        for t in range(delay + 1, end + 1)
    )
    kept = sum(course.kept for course in others) + new.kept
    return max(*held, kept) > machine.memory // machine.block


def test_the_profile_batch_by_batch():
    draw, seen = random.Random(0), set()
    for _ in range(200):
        machine = Machine(memory=draw.randint(10, 60), block=draw.choice([1, 1, 4]))
        new, *others = (
            Occupancy(draw.randint(1, 9), draw.randint(0, 12), draw.choice([0, draw.randint(0, 5)]))
            for _ in range(draw.randint(1, 5))
        )
        arrays = Occupancy(*np.array(others, dtype=np.int64).reshape(-1, 3).T)
        expected = [not overflows(machine, others, new, delay) for delay in range(12)]
        assert OccupancyProfile(machine, arrays).admits(new, 12).tolist() == expected
        seen.add((any(expected), all(expected)))
    assert len(seen) == 3


def test_how_long_decodes_go_on():
    """Against every number of batches in turn: never too many, at most a factor of two too few."""
    draw, cut = random.Random(1), 0
    for _ in range(300):
        block, decodes = draw.choice([1, 1, 4]), []
        for _ in range(draw.randint(1, 5)):
            tokens = draw.randint(1, 9)
            end = tokens + draw.randint(1, 30)
            decodes.append((tokens, end, -(-end // block) + draw.choice([0, 0, 3])))
        others = [(held, held + draw.randint(0, 9)) for held in (draw.randint(1, 4) for _ in range(draw.randint(0, 2)))]
        capacity = sum(-(-tokens // block) for tokens, _, _ in decodes) + sum(held for held, _ in others)
        capacity += draw.randint(0, 40)

        def safe_after(batches, block=block, decodes=decodes, others=others, capacity=capacity):
            held = [-(-(tokens + batches) // block) for tokens, _, _ in decodes]
            free = capacity - sum(held) - sum(blocks for blocks, _ in others)
            fits = all(-(-end // block) - had <= free for had, (_, end, _) in zip(held, decodes, strict=True))
            holdings = [*others, *((had, claim) for had, (_, _, claim) in zip(held, decodes, strict=True))]
            return fits and is_safe(capacity, holdings)

        first_end = min(end - tokens for tokens, end, _ in decodes)
        most = max((k for k in range(1, first_end + 1) if safe_after(k)), default=0)
        found = safe_batches(capacity, block, decodes, others)
        assert found <= most < max(1, 2 * found) or found == most
        cut += 0 < found < first_end
    assert cut > 20
