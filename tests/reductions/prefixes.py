"""P3 and P6' of contents: forget only where memory is full, and reuse rather than recompute."""

from collections.abc import Iterator

from kvcore import Batch, Instance, Schedule
from kvcore.rules import Execution
from tests.reductions.parts import Mutable, mutable


def residents(instance: Instance, batches: list[Mutable]) -> Iterator[tuple[Mutable, dict[str, int], dict[str, int]]]:
    """Yield each batch with the resident blocks of each node before it and after it."""
    execution = Execution(instance)
    for batch in batches:
        before = dict(execution.resident.blocks)
        execution.execute(Batch.model_validate(batch))
        yield batch, before, dict(execution.resident.blocks)


def on_demand(instance: Instance, schedule: Schedule) -> Schedule:
    """Return the same batches with each forget put off until memory is full (P3)."""
    trace, batches = mutable(instance, schedule)
    limit, block = instance.machine.block_limit, instance.machine.block
    below = {
        node.id: [child.id for child in instance.contents if child.parent == node.id] for node in instance.contents
    }
    there, found = dict.fromkeys(below, 0), []
    for (batch, _, after), ran in zip(residents(instance, batches), trace.batches, strict=True):
        there = {node: max(blocks, after[node]) for node, blocks in there.items()}
        batch = {**batch, "forget": {}}
        while limit is not None and ran.device // block + sum(there.values()) - sum(after.values()) > limit:
            node = next(n for n in there if there[n] > after[n] and not any(there[child] for child in below[n]))
            there[node] -= 1
            batch["forget"][node] = batch["forget"].get(node, 0) + 1
        found.append(batch)
    return Schedule.model_validate({"instance_sha256": instance.sha256, "batches": tuple(found)})


def is_on_demand(instance: Instance, schedule: Schedule) -> bool:
    """Whether memory is full in each batch that forgets."""
    trace, batches = mutable(instance, schedule)
    limit = instance.machine.block_limit
    full = None if limit is None else limit * instance.machine.block
    return all(ran.device == full for batch, ran in zip(batches, trace.batches, strict=True) if batch["forget"])


def may_not_reuse(instance: Instance) -> str | None:
    """Return why a reuse may cost more than the work that it saves."""
    if instance.machine.layout:
        return "layout"
    if not instance.machine.hybrid:
        return "hybrid"
    for cost in instance.cost.functions:
        if cost.tokens < cost.prefill_kv:
            return "tokens < prefill_kv"
        if cost.prefill_kv < cost.decode_kv:
            return "prefill_kv < decode_kv"
        if cost.prefill_requests < cost.decode_requests:
            return "prefill_requests < decode_requests"
        if cost.any_decode:
            return "any_decode"
    return None


def missed(instance: Instance, schedule: Schedule) -> Iterator[tuple[int, str, int]]:
    """Yield batch, request and tokens that it processes although they were resident, in blocks before its last."""
    trace, batches = mutable(instance, schedule)
    steps = {(step.batch, each.request.id): step for each in trace.requests for step in each.steps}
    block, position = instance.machine.block, {request.id: i for i, request in enumerate(instance.requests)}
    for j, (batch, before, _) in enumerate(residents(instance, batches)):
        for id, work in batch["work"].items():
            resident, blocks = steps[j, id].resident, 0
            for part in instance.parts[position[id]]:
                found = min(part.blocks, before[part.node] - batch["forget"].get(part.node, 0))
                blocks += found
                if found < part.blocks:
                    break
            if (tokens := min(blocks, (resident + work - 1) // block) * block - resident) > 0:
                yield j, id, tokens


def reused(instance: Instance, schedule: Schedule) -> Schedule:
    """Return the same batches, in which no request processes what `missed` names: it reuses it (P6').

    After each batch all is as before, so that what was on demand still is. No cost is higher unless `may_not_reuse`.
    """
    _, batches = mutable(instance, schedule)
    for j, id, tokens in missed(instance, schedule):
        batches[j]["work"][id] -= tokens
        batches[j]["reuse"] = {**batches[j]["reuse"], id: batches[j]["reuse"].get(id, 0) + tokens}
    return Schedule.model_validate({"instance_sha256": instance.sha256, "batches": tuple(batches)})
