"""Compile what the tests run, before they run side by side: `python -m tests.compiled`. What is compiled is kept."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

import bounds
from bounds import events, slot_search
from solvers.improve import improve
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.prices import SlotRelaxation
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
SEARCHES = ("slots", "events")


def slots() -> None:
    """The search over slots."""
    list(slot_search.climb(builtin_instance("mars-figure1"), FLOW))


def boundaries() -> None:
    """The search over batch boundaries."""
    list(events.climb(builtin_instance("mars-figure1"), "late-requests"))


def ladder() -> None:
    """The other methods of bounding."""
    for name in ("mars-figure1", "infercept-sample:k=3,evict=1", "infercept-ve:k=3,chunked=1"):
        list(bounds.climb(builtin_instance(name), FLOW, time_limit=1, without=SEARCHES))


def paths() -> None:
    """Policies with other parameters, and prices of the network of slots."""
    for name in ("mars-figure1", "infercept-ve:k=3,chunked=1"):
        improve(builtin_instance(name), rounds=60)
    network = PathNetwork(builtin_instance("mars-figure1"), FLOW)
    SlotRelaxation(network, 60).find_prices(29.0, 20)


if __name__ == "__main__":
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for job in [pool.submit(task) for task in (slots, boundaries, paths, ladder)]:
            job.result()
