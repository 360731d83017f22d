"""`kvbound sweep`."""

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED, EXIT_UNDECIDED
from kvbound.cli.common import OUT, JsonOption, emit, option, table
from kvbound.cli.progress import counted
from kvcore.files import check_writable

COLUMNS = ("instances", "objective", "run", "cells", "failed", "optimal", "claimed", "mean ratio", "worst ratio")
SHOWN = ("label", "objective", "run", "cells", "failed", "optimal", "claimed")


def sweep(
    study: Annotated[str, typer.Argument(metavar="STUDY.toml", help="what is run on what; docs/sweeps.md")],
    cluster: Annotated[str | None, option("ADDRESS", "of the scheduler of a Dask cluster")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="run what the database does not have yet")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="with --resume: run failed cells again, too")] = False,
    jobs: Annotated[int, option("N", "processes at once", min=1, max=1024)] = 1,
    out: Annotated[str | None, option("DB.sqlite", "results (default: STUDY.sqlite)", *OUT)] = None,
    export: Annotated[str | None, option("OUT.parquet|OUT.csv", "and write them there")] = None,
    json: JsonOption = None,
) -> int:
    """Run a grid of instances, policies and solvers; what is finished is never lost or run again."""
    from sweeps import sweep as run
    from sweeps.export import check_export
    from sweeps.export import export as write_export

    target = str(Path(study).with_suffix(".sqlite")) if out is None else out
    check_writable(target, export, json)
    check_export(export)
    done = run(study, target, jobs=jobs, cluster=cluster, resume=resume, retry=retry, watch=partial(counted, "cells"))
    if export is not None:
        write_export(done.flat, export)
    payload = {
        "study": study, "database": target, "cells": done.cells, "finished": len(done.rows), "run": done.run,
        "failed": sum("error" in row for row in done.rows),
        "summary": [line.to_json() for line in done.summary], "rows": done.rows,
    }  # fmt: skip
    emit(json, payload, lambda console: _show(console, payload))
    if len(done.rows) < done.cells:
        return EXIT_INTERRUPTED
    undecided = any(row["status"] == "unknown" and row["stopped"] != "declined" for row in done.rows)
    return EXIT_UNDECIDED if undecided else 0


def _show(console: Console, payload: dict[str, Any]) -> None:
    cells = [
        [*(line[name] for name in SHOWN), _decimal(line["mean_ratio"]), _decimal(line["worst_ratio"])]
        for line in payload["summary"]
    ]
    console.print(table(COLUMNS, cells, right=range(3, len(COLUMNS))))
    cells, finished, where = payload["cells"], payload["finished"], payload["database"]
    console.print(
        f"{cells} cells, {payload['run']} of them run now, {payload['failed']} failed; results are in {where}"
    )
    if finished < cells:
        console.print(f"interrupted: {cells - finished} cells are left; go on with --resume")


def _decimal(text: str | None) -> str | None:
    return None if text is None else f"{float(Fraction(text)):.3f}"
