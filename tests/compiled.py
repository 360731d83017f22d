"""Compile what the tests run, before they run side by side: `python -m tests.compiled`. What is compiled is kept."""

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress

import kvbound as kv
from bounds import events, just_in_time, slot_solver
from bounds.task import Task
from heuristics import best_schedule
from kvcore import BadInput, Cost, CostFunction, Instance, Machine, Request, Segment
from solvers import dual_bound, epochs, neighbourhoods
from solvers.improve import improve
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
SEARCHES = ("slots", "events")
PLAIN = Instance(
    machine=Machine(memory=30, host_memory=0, evict=True),
    cost=Cost((CostFunction(busy=5, tokens=2),)),
    requests=tuple(Request(id=f"R{i}", arrival=i, prompt=4, segments=(Segment(decode=3 + i),)) for i in range(6)),
)
"""Batches that last longer with more tokens, and no calls."""


def slots() -> None:
    """The search over slots."""
    list(slot_solver.climb(Task(builtin_instance("mars-figure1"), FLOW)))


def boundaries() -> None:
    """The search over batch boundaries."""
    list(events.climb(Task(builtin_instance("mars-figure1"), "late-requests")))


def in_time() -> None:
    """The search near an order of tokens."""
    just_in_time.search(PLAIN.replace(requests=PLAIN.requests[:3]), FLOW, 30)


def ladder() -> None:
    """The other methods of bounding."""
    for name in ("mars-figure1", "infercept-sample:k=3,evict=1"):
        instance = builtin_instance(name)
        list(dual_bound.rungs(instance, FLOW, dual_bound.ladder(instance, SEARCHES), time_limit=1))
    with suppress(BadInput):  # on a slow machine there may be no time for it: the tests compile it then
        kv.bound(PLAIN, method="speed", time_limit=4)


def potentials() -> None:
    """Prices of KV in time."""
    with suppress(BadInput):
        kv.bound(PLAIN.replace(machine=Machine(memory=20)), method="potentials", time_limit=4)


def paths() -> None:
    """Policies with other parameters, neighbourhoods, epochs, and what prices of slots leave."""
    parts = PLAIN.machine.replace(partial=True)
    epochs.search(PLAIN.replace(machine=parts, requests=PLAIN.requests[:3]), FLOW, 0, 0, rounds=4)
    improve(PLAIN, rounds=30)
    for name in ("mars-figure1", "hindsight:n=30,M=80,P=10,seed=1"):
        instance = builtin_instance(name)
        neighbourhoods.improve(instance, FLOW, best_schedule(instance, FLOW)[1], seconds=1.0, seed=0, rounds=500)
    solver = slot_solver.SlotSolver(Task(instance, FLOW))
    solver.ascend_root(slot_solver.SlotSearch(solver.local, 10**4, 64), 1)


if __name__ == "__main__":
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for job in [pool.submit(task) for task in (in_time, slots, boundaries, potentials, paths, ladder)]:
            job.result()
