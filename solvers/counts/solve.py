"""The search over counts of like requests in a worker process."""

import time

from heuristics import best_schedule
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from solvers.counts.batch_numbers import CountSearch
from solvers.counts.model import CountOptions, count_model
from solvers.counts.vectors import fitting_vectors
from solvers.messages import NEWS, Bound, Done, Found, Send, SolveJob, Stop


class _Stopped(Exception):
    """A limit was reached."""

    def __init__(self, why: Stop) -> None:
        self.why = why


def too_large(instance: Instance) -> str | None:
    """Say why requests are not counted (None: they are, if there are not too many ways to fill the memory)."""
    if count_model(instance, "busy-time") is None:
        return "counts are for one linear cost and ample budgets (docs/search.md, Counts)"
    return None


def run(job: SolveJob, send: Send) -> Done:
    """Carry out a job; schedules and bounds are sent as they come."""
    model = count_model(job.instance, job.objective)
    vectors = None if model is None else fitting_vectors(model, CountOptions.given().most_vectors)
    if vectors is None:
        raise BadInput(too_large(job.instance) or "counts: there are too many ways to fill the memory")
    deadline = time.process_time() + job.time_limit
    told = 0
    schedule = job.start or best_schedule(job.instance, job.objective)[1]
    best = int(objective_value(verify_schedule(job.instance, schedule), job.objective))

    def hold(found: Schedule) -> int:
        nonlocal best
        value = int(objective_value(verify_schedule(job.instance, found), job.objective))
        if value < best:
            best = value
            send(Found(found, value))
        return best

    def check(search: CountSearch) -> None:
        nonlocal told
        if search.bound() > told:
            told = search.bound()
            send(Bound(told))
        if NEWS.value is not None:
            search.best = min(search.best, int(NEWS.value))
        if time.process_time() > deadline:
            raise _Stopped("time limit")
        if search.bytes > job.memory_limit * 1_000_000:
            raise _Stopped("memory limit")

    search = CountSearch(vectors, best, hold, check)
    stopped: Stop = "proved"
    try:
        search.run()
    except _Stopped as limit:
        stopped = limit.why
    except MemoryError:
        stopped = "memory limit"
    send(Bound(search.bound()))
    return Done("proved" if search.bound() >= search.best else stopped)
