"""Whether the KV is true: tokens and logits are the same whatever a schedule did. Four levels, each with its own claim.

L0 (any dtype): the bits of the KV of every token before a swap-out are those after the swap-in, and with the same
   batches the logits are bitwise those of the run that never swapped.
L1 (fp64; fp32 with exact products): the tokens are the same for swap, recomputation, pauses, chunks and any batching.
   Void where the smallest margin between the best two tokens is below twice the largest difference of the logits.
L2 (strict backend, any dtype): all logits are bitwise the same, recomputation included.
L3 (bf16): forced along the same tokens, the logits differ by at most TOLERANCE, and where the best token differs its
   margin was at most twice the difference (which follows; the rate of such flips is what is worth knowing).

Each check returns a flat record whose `holds` is the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gpu_validation.engine import Engine, ReplayResult
from gpu_validation.plan import Plan, make_plan
from gpu_validation.scenarios import WAYS, laid_out
from kvcore.instance import Instance

TOLERANCE = 2e-2
"""Of L3: the norm of the difference of the logits of a token, over the norm of the logits."""

Record = dict[str, Any]
Named = tuple[str, ReplayResult]


def truth_plans(instance: Instance) -> dict[str, Plan]:
    """Return the plans that L1 to L3 compare, the one to compare with first."""
    plans = {way: make_plan(instance, laid_out(instance, way)) for way in WAYS}
    plans["chunked"] = make_plan(instance, laid_out(instance, "recompute", chunk=5))
    plans["alone"] = make_plan(instance, laid_out(instance, alone=True))
    return plans


def swaps_are_exact(engine: Engine, preserved: Plan, swapped: Plan) -> Record:
    """L0, for two plans of the same batches."""
    before = engine.run(preserved, keep_logits=True, poison=True)
    after = engine.run(swapped, keep_logits=True, poison=True, check=True)
    wrong, differ = sum(s.before != s.after for s in after.swapped), _unequal(before, after)
    return _record(engine, "L0", not wrong and not differ and bool(after.swapped)) | {
        "swapped_tokens": len(after.swapped), "wrong_checksums": wrong, "logits": len(before.logits),
        "unequal_logits": differ,
    }  # fmt: skip


def tokens_are_equal(engine: Engine, plans: Mapping[str, Plan]) -> list[Record]:
    """L1: a record for every plan but the first, which the others are compared with."""
    return [_equal_tokens(engine, *pair) for pair in _pairs(engine, plans)]


def _equal_tokens(engine: Engine, reference: Named, other: Named) -> Record:
    margin = min(_margin(row) for row in reference[1].logits.values())
    difference = max(_difference(reference[1], other[1]))
    same = reference[1].tokens == other[1].tokens
    void = not margin >= 2 * difference
    return _record(engine, "L1", same and not void, reference[0], other[0]) | {
        "tokens": len(reference[1].logits), "equal": same, "void": void, "smallest_margin": margin,
        "largest_difference": difference,
    }  # fmt: skip


def logits_are_bitwise_equal(engine: Engine, plans: Mapping[str, Plan]) -> list[Record]:
    """L2: as L1, for an engine whose backend is strict."""
    return [
        _record(engine, "L2", not (differ := _unequal(a, b)), reference, other)
        | {"logits": len(a.logits), "unequal_logits": differ}
        for (reference, a), (other, b) in _pairs(engine, plans)
    ]


def forced_logits_are_close(engine: Engine, plans: Mapping[str, Plan]) -> list[Record]:
    """L3: every plan is forced along the tokens that the first one generates."""
    first = next(iter(plans.values()))
    return [_close(engine, *pair) for pair in _pairs(engine, plans, teacher_of(first, engine.run(first)))]


def teacher_of(plan: Plan, run: ReplayResult) -> Tensor:
    """Return the history of a run, to force others along it."""
    history = torch.zeros(1 + len(plan.ids) * plan.width, dtype=torch.int64)
    for r, id in enumerate(plan.ids):
        start = 1 + r * plan.width
        history[start : start + len(run.tokens[id])] = torch.tensor(run.tokens[id])
    return history


def _close(engine: Engine, reference: Named, other: Named) -> Record:
    pairs = [(row, other[1].logits[key]) for key, row in reference[1].logits.items()]
    relative = [float((a - b).norm() / a.norm()) for a, b in pairs]
    flips = [(_margin(a), float((a - b).abs().max())) for a, b in pairs if a.argmax() != b.argmax()]
    unexplained = sum(margin > 2 * difference * (1 + 1e-6) for margin, difference in flips)
    worst = max(relative)
    return _record(engine, "L3", worst <= TOLERANCE and not unexplained, reference[0], other[0]) | {
        "tokens": len(pairs), "relative_worst": worst, "relative_mean": sum(relative) / len(relative),
        "flips": len(flips), "flip_rate": len(flips) / len(pairs), "unexplained_flips": unexplained,
    }  # fmt: skip


def _pairs(engine: Engine, plans: Mapping[str, Plan], teacher: Tensor | None = None) -> list[tuple[Named, Named]]:
    """Run the plans; return the first with each of the others."""
    first, *others = (
        (name, engine.run(plan, keep_logits=True, poison=True, teacher=teacher)) for name, plan in plans.items()
    )
    return [(first, other) for other in others]


def _unequal(a: ReplayResult, b: ReplayResult) -> int:
    """Return how many logits rows are not bitwise the same, those that only one of the runs has included."""
    common = a.logits.keys() & b.logits.keys()
    return len(a.logits.keys() ^ b.logits.keys()) + sum(not torch.equal(a.logits[k], b.logits[k]) for k in common)


def _difference(a: ReplayResult, b: ReplayResult) -> list[float]:
    """Return the largest difference of the logits of every token; infinite for one that only one run has."""
    if a.logits.keys() != b.logits.keys():
        return [float("inf")]
    return [float((row - b.logits[key]).abs().max()) for key, row in a.logits.items()]


def _margin(logits: Tensor) -> float:
    """Return by how much the best token leads the second best."""
    best, second = logits.topk(2).values.tolist()
    return float(best - second)


def _record(engine: Engine, level: str, holds: bool, reference: str = "preserve", other: str = "swap") -> Record:
    return {
        "level": level, "holds": holds, "reference": reference, "schedule": other, "model": engine.model.name,
        "dtype": str(engine.dtype).removeprefix("torch."), "backend": type(engine.backend).__name__,
        "strict": bool(getattr(engine.backend, "strict", False)), "device": engine.device.type,
    }  # fmt: skip
