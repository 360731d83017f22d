"""What each strengthening of the Big-M model buys: its LP bound, and the time to a proof or the bound at the limit.

`python -m benchmarks.big_m [SECONDS [NAME ..]]` switches them off in turn, on small instances, and prints a
Markdown table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from formulations.batch_bigm import BatchBigM
from formulations.batch_clock import Starts
from formulations.batch_cost import BatchCost
from formulations.batch_moves import BatchMoves
from formulations.batch_variables import BatchClock
from formulations.horizon import sufficient_batches
from heuristics import best_schedule
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from solvers import highs
from solvers.matrix import MatrixModel
from solvers.task import Task
from workloads.builtin import builtin_instance

STRENGTHENINGS: dict[str, list[tuple[type, str]]] = {
    "none off": [],
    "tight constants": [(BatchBigM, "most_known"), (BatchMoves, "most")],
    "windows": [(BatchClock, "windows")],
    "order of batches": [(BatchBigM, "batch_order")],
    "memory area and packing": [(BatchBigM, "generation_packing"), (BatchBigM, "resident_packing")],
    "pairs that cannot coexist": [(BatchCost, "prefill_batches")],
    "tokens and pairs": [(BatchBigM, "tokens_by_token"), (BatchCost, "pairs_by_token")],
    "kept KV": [(BatchBigM, "kept_tokens"), (BatchMoves, "fullness")],
    "times": [(Starts, "time_is_spent"), (Starts, "progress_takes_time"), (Starts, "rest_takes_time")],
    "symmetry": [(BatchBigM, "identical_requests_end_in_order")],
}
"""What is switched off, by the methods that say it."""

INSTANCES: dict[str, tuple[Instance, str]] = {
    "figure 15, I=1": (builtin_instance("infermax-figure15:I=1"), "busy-time"),
    "figure 15, I=4": (builtin_instance("infermax-figure15:I=4"), "busy-time"),
    "figure 15, I=32": (builtin_instance("infermax-figure15:I=32"), "busy-time"),
    "infercept k=3": (builtin_instance("infercept-sample:k=3"), "total-flow-time"),
    "mars free": (builtin_instance("mars-figure1").with_free_calls(), "total-flow-time"),
}


def loose(owner: type, name: str) -> Callable[..., object]:
    """Return what stands for a method that is switched off: no rows, or the loosest constant or window."""
    if name == "windows":
        return lambda clock: (
            [[1] * (chain.outputs + 1) for chain in clock.program.chains],
            [[clock.batches] * (chain.outputs + 1) for chain in clock.program.chains],
        )
    if name == "most_known":
        return lambda program, i, j: program.chains[i].request.peak
    if name == "most":
        return lambda moves, i, j: moves.program.loose_tokens
    rows = getattr(owner, name)

    def nothing(*_: object) -> Iterator[object]:
        return iter(())

    nothing.__name__ = rows.__name__
    return nothing


@contextmanager
def without(strengthening: str) -> Iterator[None]:
    """Switch a strengthening off."""
    with ExitStack() as stack:
        for owner, name in STRENGTHENINGS[strengthening]:
            stack.enter_context(patch.object(owner, name, loose(owner, name)))
        yield


def measure(instance: Instance, objective: str, strengthening: str, seconds: float) -> tuple[Value, Value, float, bool]:
    """Return the LP bound, the bound at the end, the seconds to the proof (or the limit), and whether it is one."""
    _, schedule, _ = best_schedule(instance, objective)
    value = objective_value(verify_schedule(instance, schedule), objective)
    horizon = sufficient_batches(instance, objective, value).batches
    with without(strengthening):
        program = BatchBigM(instance, objective, horizon, upper_bound=value)
        matrix = MatrixModel(program.model)
    task = Task(instance, objective, program.name, "highs", horizon, None, None, seconds, 8000, 1, 0)
    integer, matrix.integer = matrix.integer, matrix.integer & False
    lp: list[float] = []
    highs.minimise(matrix, task, lambda _: None, lp.append)
    matrix.integer = integer
    bounds = [lp[-1]]
    started = time.process_time()
    done = highs.minimise(matrix, task, lambda _: None, bounds.append)
    spent = time.process_time() - started
    best = max(bound for bound in bounds if abs(bound) < 1e20)  # HiGHS says "none yet" by an infinity
    return program.objective_bound(lp[-1]), program.objective_bound(best), spent, done.stop == "proved"


def shown(bound: Value, objective: str) -> str:
    """Show a bound: nanoseconds of busy-time as milliseconds."""
    return f"{float(bound) / 1e6:.2f}" if objective == "busy-time" else str(bound)


def main(seconds: str = "30", *names: str) -> None:
    """Print the table, row by row; all rows unless some are named."""
    print("| switched off |", " | ".join(INSTANCES), "|")
    print("|---" * (len(INSTANCES) + 1) + "|")
    for strengthening in names or STRENGTHENINGS:
        cells = []
        for instance, objective in INSTANCES.values():
            lp, bound, spent, proved = measure(instance, objective, strengthening, float(seconds))
            end = f"proved in {spent:.1f} s" if proved else shown(bound, objective)
            cells.append(f"{shown(lp, objective)}: {end}")
        print(f"| {strengthening} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
