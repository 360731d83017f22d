"""`kvbound demo`: real requests and the worked example of the papers, from instance to proved optimum and picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import option, people_console
from kvbound.cli.compare import show
from kvbound.cli.progress import SolveProgress
from kvbound.comparison import USUAL, USUAL_WITHOUT_EVICTION, compare
from kvcore.errors import BadInput
from workloads.builtin import SAMPLES, builtin_instance

PEOPLE_USE = USUAL[:8]
FIGURE_1 = USUAL_WITHOUT_EVICTION[:4]
"""The policies of the worked example of MARS and LAMPS."""
COMPARED = {**{f"infercept-sample:k={k},evict=1": PEOPLE_USE for k in SAMPLES}, "mars-figure1": FIGURE_1}
"""Instances, and the policies that are compared on each."""


def demo(
    out: Annotated[str, option("FOLDER", "where the pictures go")] = "demo-output",
    time_limit: Annotated[float, option("S", "seconds for each optimum", min=0.1)] = 40,
) -> int:
    """Compare schedulers with the proved optimum, on real requests and on a paper's worked example."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    console = people_console()
    for name, policies in COMPARED.items():
        comparison = compare(builtin_instance(name), policies, time_limit=time_limit, watch=SolveProgress)
        show(comparison, console)
        picture = folder / (name.replace(":", "-").replace("=", "").replace(",", "-") + ".svg")
        comparison.draw(str(picture))
        console.print(f"the schedules: {picture}\n", soft_wrap=True)
        if comparison.interrupted:
            return EXIT_INTERRUPTED
    return 0
