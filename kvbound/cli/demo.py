"""`kvbound demo`."""

import os
import sys
from fractions import Fraction
from pathlib import Path
from shutil import which
from typing import Annotated, NamedTuple

from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import OUT, option, people_console, table
from kvbound.cli.progress import SolveProgress
from kvbound.comparison import USUAL, USUAL_WITHOUT_EVICTION, Comparison, compare, verdict
from kvbound.tables import handling_text
from kvbound.units import units_of
from kvcore.errors import BadInput
from kvcore.files import WRITTEN, write_text
from workloads.builtin import builtin_instance


class Part(NamedTuple):
    """One comparison of the demo, with the text before and after its table."""

    instance: str
    policies: tuple[str, ...]
    file: str
    title: str
    see: str


PARTS = (
    Part(
        "infercept-sample:k=3,evict=1",
        USUAL[:8],
        "real-requests",
        "1. Mean latency of three real requests (InferCept's data) with 10 tool calls,\n"
        "   under today's engines, schedulers made for calls, and the best schedule.",
        "See: to an engine a call ends the request, so it computes the KV again; that\n"
        "doubles the mean latency. Schedulers made for calls come close to the optimum.",
    ),
    Part(
        "mars-figure1",
        USUAL_WITHOUT_EVICTION[:4],
        "mars-figure1",
        "2. Mean latency in the worked example of MARS and LAMPS: three requests, three\n"
        "   calls. The paper's handling of the calls is `as given`; `free` may change it.",
        "See: the paper's order (mars-order) is not optimal, even with its own handling\n"
        "of the calls; with a free handling 9 ticks are possible, and no less.",
    ),
)
NEXT = """\
Next, the same with reasons: {kvbound} compare mars-figure1 --explain
Your own trace, policy and scheduler, in ten minutes: docs/tutorial.md.
Every batch of part 1, its bounds and its proof, for any browser:"""


def demo(
    out: Annotated[str, option("FOLDER", "where pictures and pages go", *OUT)] = "demo-output",
    time_limit: Annotated[float, option("S", "seconds for each optimum", min=0.1)] = 1800,
) -> int:
    """Compare schedulers with the proved optimum, on real requests and on a paper's worked example."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    console = people_console()
    console.print("Every optimum is proved now: in seconds, the first time in a minute.\n")
    for part in PARTS:
        console.print(part.title)
        instance = builtin_instance(part.instance)
        found = compare(instance, part.policies, time_limit=time_limit, watch=SolveProgress)
        show(found, part.see, console)
        picture, page = (folder / f"{part.file}.{kind}" for kind in ("svg", "html"))
        found.figure(str(picture))
        write_text(str(page), found.report().html())
        console.print(f"The schedules: {picture}, and the page .html beside it\n", soft_wrap=True)
        if found.interrupted:
            return EXIT_INTERRUPTED
    here = "kvbound" if which("kvbound") else os.path.relpath(Path(sys.executable).with_name("kvbound"))
    console.print(NEXT.format(kvbound=here), soft_wrap=True)
    console.print(str(folder / f"{PARTS[0].file}.html"), soft_wrap=True)
    WRITTEN.clear()  # all are named above
    return 0


def show(comparison: Comparison, see: str, console: Console) -> None:
    """Print mean latencies and what to see in them, or what is open; the same text in each run."""
    units, first = units_of(comparison.instance), next(iter(comparison.optima.values()))
    rows: list[tuple[str, Fraction, str | None]] = [
        (run.label, Fraction(run.row["mean"]), handling_text(run.row)) for run in comparison.policies
    ]
    rows += [  # optimal schedules may differ in how calls are handled
        (row["label"] if len(comparison.optima) > 1 else row["label"].partition(",")[0], Fraction(row["mean"]), None)
        for row in comparison.rows()[len(rows) :]
    ]
    least = Fraction(first.bound or 0, len(comparison.instance.requests))
    cells = [
        (label, units.value(mean, comparison.objective), f"{float(100 * abs(mean / least - 1)):.0f} %{below}", how)
        for label, mean, how in rows
        for below in [" below" if mean < least else ""]
    ]
    columns = ("schedule", f"mean, {units.of(comparison.objective)}", "over optimum", "KV during calls")
    console.print(table(columns, cells, right=(1, 2)))
    if all(optimum.status == "optimal" for optimum in comparison.optima.values()):
        console.print(see)
    else:
        for kind, optimum in comparison.optima.items():
            console.print(verdict(kind, optimum), soft_wrap=True)
