"""Whether the KV is true: tokens and logits are the same whatever a schedule did. Four levels, each with its own claim.

docs/engine.md has the table. L3 forces the same tokens; its logits are at most CLOSE times as far from exact arithmetic
(fp32, fp64 on a CPU) as those of plain torch in bf16 in the root of the mean square, and TWICE as far at worst.

Each check returns a flat record whose `holds` is the claim.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

import torch
from torch import Tensor

from costmodels.models import Model
from gpu_validation.devices import open_backend
from gpu_validation.engine import Engine, ReplayResult
from gpu_validation.kernels.variants import HALF
from gpu_validation.plan import EnginePlan, make_plan
from gpu_validation.scenarios import WAYS, laid_out
from kvcore.instance import Instance

CLOSE, TWICE = 1.5, 2.0  # factors on the errors of the reference, norms of differences over norms of a token's logits
Record = dict[str, Any]
Named = tuple[str, ReplayResult]


def truth_plans(instance: Instance, chunk: int = 5) -> dict[str, EnginePlan]:
    """Return the plans of L1 to L3, the reference first."""
    plans = {way: make_plan(instance, laid_out(instance, way)) for way in WAYS}
    plans["chunked"] = make_plan(instance, laid_out(instance, "recompute", chunk=chunk))
    plans["alone"] = make_plan(instance, laid_out(instance, alone=True))
    return plans


def check_all(
    model: Model, instance: Instance, device: str = "cuda", backend: str = "triton", chunk: int = 5
) -> list[Record]:
    """Return the records of all levels on a device: L0 and L3 in bf16, L1 in fp32 (fp64 on a CPU), the strict L2.

    On a CPU the strict kernels run in the interpreter, in fp64; plain torch has no L2. On a GPU all kernels have to
    run.
    """
    exact, strict_dtype = (torch.float32, torch.bfloat16) if device == "cuda" else (torch.float64,) * 2
    plans = truth_plans(instance, chunk)
    first = plans["preserve"]

    def engine(dtype: torch.dtype, kind: str = backend, strict: bool = False) -> Engine:
        return Engine(model, open_backend(device, kind, strict=strict), dtype=dtype)

    one = engine(exact)
    teacher = teacher_of(first, one.run(first))
    records, wanted = tokens_are_equal(one, plans), _run(one, first, teacher)
    one = engine(torch.bfloat16, "torch")
    reference = _run(one, first, teacher)
    one = engine(torch.bfloat16)
    records.append(swaps_are_exact(one, first, plans["swap"]))
    records += [_close(one, wanted, reference, (name, _run(one, plan, teacher))) for name, plan in plans.items()]
    if backend == "triton":
        missing = {variant.name for variant in HALF} - one.backend.used
        one = engine(strict_dtype, strict=True)
        records += logits_are_bitwise_equal(one, plans)
        missing -= one.backend.used
        if device == "cuda":
            records.append(_record(one, "kernels", not missing, "all", "all") | {"missing": ", ".join(sorted(missing))})
    return sorted(records, key=lambda record: str(record["level"]))


def swaps_are_exact(engine: Engine, preserved: EnginePlan, swapped: EnginePlan) -> Record:
    """L0, for two plans of the same batches."""
    before = engine.run(preserved, keep_logits=True, poison=True)
    after = engine.run(swapped, keep_logits=True, poison=True, check=True)
    wrong, differ = sum(s.before != s.after for s in after.swapped), _unequal(before, after)
    return _record(engine, "L0", not wrong and not differ and bool(after.swapped)) | {
        "swapped_tokens": len(after.swapped), "wrong_checksums": wrong, "logits": len(before.logits),
        "unequal_logits": differ,
    }  # fmt: skip


def tokens_are_equal(engine: Engine, plans: Mapping[str, EnginePlan]) -> list[Record]:
    """L1: a record for every plan but the first, the reference."""
    return [_equal_tokens(engine, *pair) for pair in _pairs(engine, plans)]


def _equal_tokens(engine: Engine, reference: Named, other: Named) -> Record:
    leads = (row.topk(2).values.tolist() for row in reference[1].logits.values())
    margin = min(best - second for best, second in leads)
    difference = max(_difference(reference[1], other[1]))
    same = reference[1].tokens == other[1].tokens
    void = not margin >= 2 * difference
    return _record(engine, "L1", same and not void, reference[0], other[0]) | {
        "tokens": len(reference[1].logits), "equal": same, "void": void, "smallest_margin": margin,
        "largest_difference": difference,
    }  # fmt: skip


def logits_are_bitwise_equal(engine: Engine, plans: Mapping[str, EnginePlan]) -> list[Record]:
    """L2: as L1, for an engine whose backend is strict."""
    return [
        _record(engine, "L2", not (differ := _unequal(a, b)), reference, other)
        | {"logits": len(a.logits), "unequal_logits": differ}
        for (reference, a), (other, b) in _pairs(engine, plans)
    ]


def teacher_of(plan: EnginePlan, run: ReplayResult) -> Tensor:
    """Return the history of a run, to force others along it."""
    history = torch.zeros(1 + len(plan.ids) * plan.width, dtype=torch.int64)
    for r, id in enumerate(plan.ids):
        start = 1 + r * plan.width
        history[start : start + len(run.tokens[id])] = torch.tensor(run.tokens[id])
    return history


def _close(engine: Engine, exact: ReplayResult, reference: ReplayResult, other: Named) -> Record:
    ours, theirs = _distances(exact, other[1]), _distances(exact, reference)
    mean, usual = ((sum(x * x for x in each) / len(each)) ** 0.5 for each in (ours, theirs))
    flips = sum(row.argmax() != other[1].logits.get(k, row).argmax() for k, row in exact.logits.items())
    holds = mean <= CLOSE * usual and max(ours) <= TWICE * max(theirs)
    return _record(engine, "L3", holds, "exact", other[0]) | {
        "tokens": len(ours), "relative_worst": max(ours), "relative_mean": mean, "reference_worst": max(theirs),
        "reference_mean": usual, "flips": int(flips), "flip_rate": int(flips) / len(ours),
    }  # fmt: skip


def _distances(exact: ReplayResult, other: ReplayResult) -> list[float]:
    rows = other.logits
    return [float((row - rows[k]).norm() / row.norm()) if k in rows else inf for k, row in exact.logits.items()]


def _run(engine: Engine, plan: EnginePlan, teacher: Tensor | None = None) -> ReplayResult:
    return engine.run(plan, keep_logits=True, poison=True, teacher=teacher)


def _pairs(engine: Engine, plans: Mapping[str, EnginePlan]) -> list[tuple[Named, Named]]:
    first, *others = ((name, _run(engine, plan)) for name, plan in plans.items())
    return [(first, other) for other in others]


def _unequal(a: ReplayResult, b: ReplayResult) -> int:
    common = a.logits.keys() & b.logits.keys()
    return len(a.logits.keys() ^ b.logits.keys()) + sum(not torch.equal(a.logits[k], b.logits[k]) for k in common)


def _difference(a: ReplayResult, b: ReplayResult) -> list[float]:
    if a.logits.keys() != b.logits.keys():
        return [float("inf")]
    return [float((row - b.logits[key]).abs().max()) for key, row in a.logits.items()]


def _record(engine: Engine, level: str, holds: bool, reference: str = "preserve", other: str = "swap") -> Record:
    return {
        "level": level, "holds": holds, "reference": reference, "schedule": other, "model": engine.model.name,
        "dtype": str(engine.dtype).removeprefix("torch."), "backend": type(engine.backend).__name__,
        "strict": engine.backend.strict, "device": engine.device.type,
    }  # fmt: skip
