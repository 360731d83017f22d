"""W: evictions of a resting request in the window of a free call are put off while memory has room for its KV."""

from kvcore import Instance, Schedule
from tests.reductions.parts import Mutable, mutable, schedule_of


def put_off(instance: Instance, schedule: Schedule) -> tuple[Schedule, int]:
    """Return a schedule in which no such eviction can be put off, and how often one was. Unit cost, no `partial`."""
    times = 0
    while (later := _one_put_off(instance, schedule)) is not None:
        schedule, times = later, times + 1
    return schedule, times


def _one_put_off(instance: Instance, schedule: Schedule) -> Schedule | None:
    machine = instance.machine
    trace, batches = mutable(instance, schedule)
    for request in trace.requests:
        id = request.request.id
        on_host = _hosted(batches, id)
        for call in (c for c in request.calls if request.request.calls[c.segment].handling == "free"):
            closes = min(step.batch for step in request.steps if step.batch > call.batch)
            for j in range(call.batch + 1, closes):
                batch, following = batches[j], batches[j + 1]
                kinds = [kind for kind in ("drop", "swap_out", "swap_in") if id in batch[kind]]
                if not batch["work"] or kinds not in (["drop"], ["swap_out"]):
                    continue
                (kind,) = kinds
                tokens, ran = batch[kind][id], trace.batches[j]
                from_host = kind == "drop" and on_host[j]
                host = ran.host + (tokens if from_host else -tokens if kind == "swap_out" else 0)
                device = ran.device // machine.block + (0 if from_host else machine.blocks(tokens))
                if machine.host_memory is not None and host > machine.host_memory:
                    continue
                if machine.block_limit is not None and device > machine.block_limit:
                    continue
                del batch[kind][id]
                if kind == "drop" or id not in following["drop"]:
                    following[kind][id] = tokens  # what it holds is dropped once: from the device, not from the host
                return schedule_of(instance, batches)
    return None


def _hosted(batches: list[Mutable], id: str) -> list[bool]:
    """Return, for each batch, whether the KV is on the host before it."""
    hosted = [False]
    for batch in batches:
        gone = id in batch["drop"] or id in batch["swap_in"]
        hosted.append(False if gone else hosted[-1] or id in batch["swap_out"])
    return hosted
