"""`kvbound check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from kvbound.cli import EXIT_FAILED, EXIT_INTERRUPTED
from kvbound.cli.common import OUT, SECONDS, JsonOption, WorkOption, emit, option, table
from kvbound.cli.progress import LiveLine
from kvcore.contradiction import Contradiction
from kvcore.errors import BadInput, in_one_line
from kvcore.files import check_writable

if TYPE_CHECKING:
    from hypotheses import Verdict


def check(
    source: Annotated[str, typer.Argument(metavar="FILE.py|NAME|all", help="a file, a shipped one's name, or all")],
    take: Annotated[int | None, option("N", "only the N smallest cases of each", min=1)] = None,
    time_limit: Annotated[
        float, option("S", "processor seconds for each hypothesis; four times by the clock", *SECONDS, min=0.1)
    ] = 60.0,
    work: WorkOption = None,
    out: Annotated[
        str | None, option("DIR", "write counterexamples there: instances, schedules, certificates", *OUT)
    ] = None,
    json: JsonOption = None,
) -> int:
    """Try hypotheses: proved on a family, no counterexample found, refuted by a smallest one, or undecided."""
    from hypotheses.hypothesis_files import find, save
    from hypotheses.verdict import check as judge

    check_writable(json)
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise BadInput(f"{out}: not a folder")
    verdicts: list[Verdict] = []
    for name, hypothesis in find(source).items():
        try:
            with LiveLine(f"checking {name}"):
                verdicts.append(judge(name, hypothesis, take=take, time_limit=time_limit, work=work))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | Contradiction) or not Path(source).is_file():
                raise
            raise BadInput(f"{name} fails: {in_one_line(error, source)}") from None
        if verdicts[-1].interrupted:
            break
        if out is not None:
            save(verdicts[-1], Path(out))
    emit(json, {"rows": [verdict.row() for verdict in verdicts]}, lambda console: _show(console, verdicts))
    if verdicts[-1].interrupted:
        return EXIT_INTERRUPTED
    return 0 if all(verdict.as_stated for verdict in verdicts) else EXIT_FAILED


def _show(console: Console, verdicts: list[Verdict]) -> None:
    columns = ("hypothesis", "verdict", "stated", "held", "undecided", "largest", "took, s")
    console.print(table(columns, [_cells(verdict) for verdict in verdicts], right=(3, 4, 5, 6)))
    for verdict in verdicts:
        row = verdict.row()
        if len(verdicts) == 1:
            console.print(f"{row['statement']} ({row['source']})\nfamily: {row['family']}", soft_wrap=True)
        if row["why"]:
            console.print(f"{verdict.name}: {row['why']}", soft_wrap=True)
        for line in row["counterexample"] or ():
            console.print(f"  {line}", soft_wrap=True)


def _cells(verdict: Verdict) -> list[object]:
    largest = None if verdict.largest is None else f"{float(verdict.largest):.4g}"
    stated = verdict.hypothesis.states + ("" if verdict.as_stated else " (differs)")
    return [
        verdict.name, verdict.verdict, stated, verdict.held, verdict.undecided, largest, f"{verdict.seconds:.1f}",
    ]  # fmt: skip
