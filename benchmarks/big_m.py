"""What each strengthening of the Big-M model buys: its LP bound, and the time to a proof or the bound at the limit.

`python -m benchmarks.big_m [SECONDS [NAME ..]]` switches them off in turn, on small instances, and prints a
Markdown table.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from unittest.mock import patch

from formulations import tightening
from formulations.big_m import BigM
from formulations.big_m_letters import Letters
from formulations.horizon import sufficient_batches
from formulations.tightening import times, tokens
from heuristics import best_schedule
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from solvers import highs
from solvers.matrix import MatrixModel
from solvers.task import Task
from workloads.builtin import builtin_instance

STRENGTHENINGS: dict[str, tuple[str, ...]] = {
    "none off": (),
    "tight constants": ("narrow_constants",),
    "windows": ("windows",),
    "order of batches": ("batch_order", "batches_until_the_end"),
    "memory area and packing": ("generation_packing", "resident_packing"),
    "pairs that cannot coexist": ("prefill_batches",),
    "tokens and pairs": ("tokens_by_token", "pairs_by_token"),
    "kept KV": ("kept_tokens", "fullness"),
    "times": ("time_is_spent", "progress_takes_time", "rest_takes_time"),
    "symmetry": ("identical_requests_end_in_order",),
}
"""What is switched off, by the functions and rows that say it."""

INSTANCES: dict[str, tuple[Instance, str]] = {
    "figure 15, I=1": (builtin_instance("infermax-figure15:I=1"), "busy-time"),
    "figure 15, I=4": (builtin_instance("infermax-figure15:I=4"), "busy-time"),
    "figure 15, I=32": (builtin_instance("infermax-figure15:I=32"), "busy-time"),
    "infercept k=3": (builtin_instance("infercept-sample:k=3"), "total-flow-time"),
    "mars free": (builtin_instance("mars-figure1").with_free_calls(), "total-flow-time"),
}


def no_windows(program: Letters) -> tokens.Windows:
    """Return the loosest windows."""
    lasts = [[program.clock.batches] * (chain.outputs + 1) for chain in program.chains]
    return [[1] * (chain.outputs + 1) for chain in program.chains], lasts


def without(strengthening: str, program: BigM) -> BigM:
    """Tighten and write a program, with a strengthening switched off."""
    off = STRENGTHENINGS[strengthening]
    with ExitStack() as stack:
        for name in ("NARROW", "ROWS"):
            kept = tuple(each for each in getattr(tightening, name) if each.__name__ not in off)
            stack.enter_context(patch.object(tightening, name, kept))
        for module in (tokens, times) if "windows" in off else ():
            stack.enter_context(patch.object(module, "windows", no_windows))
        tightening.tighten(program)
        program.rows = {name: rows for name, rows in program.rows.items() if name not in off}
        program.write()
    return program


def measure(instance: Instance, objective: str, strengthening: str, seconds: float) -> tuple[Value, Value, float, bool]:
    """Return the LP bound, the bound at the end, the seconds to the proof (or the limit), and whether it is one."""
    _, schedule, _ = best_schedule(instance, objective)
    value = objective_value(verify_schedule(instance, schedule), objective)
    horizon = sufficient_batches(instance, objective, value).batches
    program = without(strengthening, BigM(instance, objective, horizon, upper_bound=value))
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
