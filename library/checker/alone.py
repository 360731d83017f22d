"""Kind `alone` (the head of kvcore/certificates/alone.py)."""

from __future__ import annotations

from library.checker.files import Amount, Box
from library.checker.instance import blocks, duration, most_prefill
from library.checker.objectives import by_objective, percentile, tail_of
from library.checker.work import least_step, tokens_of


def alone(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `alone`: each request takes its own batches, each of least duration, its whole prompt, and its calls."""
    step, P = least_step(instance), most_prefill(instance.machine)
    smooth = [Box(function, tokens_above=None) for function in instance.cost]
    busy, times = [], []
    for one in instance.requests:
        tokens = tokens_of(one, instance.machine)
        free = tokens[0].free or 0
        batches = [blocks(token.A - token.own, P) if P else 1 for token in tokens]
        whole = {"busy": 1, "generated": 1, "tokens": one.prompt - free}
        if one.prompt - free != 1 or not free:  # else it may be a decode
            whole |= {"any_prefill": 1, "prefill_requests": 1, "prefill_pairs": max(1, (one.prompt - 1) ** 2 - free**2)}
        first = max(batches[0] * step, duration(smooth, whole))
        times.append((first, first + step * sum(batches[1:]) + sum(token.wait for token in tokens)))
        busy.append(step * sum(batches))
    if tail_of(objective):
        return percentile(objective, times)
    return by_objective(instance.requests, times, max(busy))[objective]
