"""Z: for busy-time nothing is waited for, as if all arrived at once and no call took time."""

from kvcore import Instance, Schedule
from tests.reductions.early import early


def at_once(instance: Instance) -> Instance:
    """Return the instance with arrivals and durations of calls 0."""
    requests = (r.replace(arrival=0).with_calls(lambda call: call.replace(duration=0)) for r in instance.requests)
    return instance.replace(requests=tuple(requests))


def without_waits(instance: Instance, schedule: Schedule) -> Schedule:
    """Return the same batches, one right after the other, as a schedule of `at_once(instance)`."""
    return early(at_once(instance), schedule.model_copy(update={"instance_sha256": at_once(instance).sha256}))
