"""Finding an instance, options, and printing for people or scripts, for all commands."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from kvbound import tables
from kvbound.cli import only_writes
from kvbound.explanation import Explained
from kvbound.machine_checked import program
from kvbound.tables import Labelled, percent, standing, value_columns
from kvbound.units import Units
from kvcore.errors import BadInput
from kvcore.files import printable, read_schedule, write_text
from kvcore.metrics import understood
from kvcore.schedule import Schedule


def option(
    metavar: str, help: str, *names: str, min: float | None = None, max: float | None = None, **more: Any
) -> Any:
    """Return an option with a value: its metavar, its help, its least and its most."""
    return typer.Option(*names, metavar=metavar, help=help, min=min, max=max, **more)


def picture(help: str) -> Any:
    """Return an option for a picture; an unknown suffix is refused at once."""

    def check(path: str | None) -> str | None:
        if path is not None:
            from kvbound.plots.style import kind_of

            kind_of(path)
        return path

    return option("OUT.svg", f"{help} (svg, png or pdf)", callback=check)


POLICY, OUT = ("--policy", "--policies"), ("--out", "-o")  # two names of one option, in every command that has it
InstanceArgument = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="a file, - (standard input), or a name: built in, or of the library")
]
JsonOption = Annotated[str | None, option("FILE", "write JSON there (-: standard output)", "--json")]
ObjectiveOption = Annotated[
    str, option("NAME", "what is minimised; docs/semantics.md lists all", "--objective", callback=understood)
]
InstanceOutOption = Annotated[str, option("I.json", "the instance file to write (-: standard output)", *OUT)]
HandlingOption = Annotated[str, option("as-given|free", "calls as the instance says, or chosen freely")]
SECONDS = ("--time-limit", "--seconds")
TimeLimitOption = Annotated[
    float | None,
    option("S", "processor seconds, of the command or its busiest worker; four times by the clock", *SECONDS, min=0.1),
]


def built(proved: bool) -> bool:
    """Return whether the proved program is asked for; MissingTool: it is not there."""
    return proved and bool(program())


ProvedOption = Annotated[
    bool, typer.Option("--proved", help="let the program proved in Coq check (docs/verified.md)", callback=built)
]
WorkOption = Annotated[
    int | None, option("N", "a limit in counted work instead: a million is about a second (docs/solving.md)", min=1)
]
ScheduleOption = Annotated[str | None, option("OUT.json", "write the schedule there", "--schedule", *OUT)]
SchedulesOption = Annotated[
    str | None, option("S.json[,..]", "schedules of others, as import run writes them", "--schedule")
]
CertificateOption = Annotated[str | None, option("OUT.json", "write the certificate of the bound there")]
PlotOption = Annotated[str | None, picture("draw it")]
SettingsOption = Annotated[
    list[str] | None, option("NAME=NUMBER", "set an option of a search; `kvbound options` lists all", "--option")
]
TraceOption = Annotated[str | None, option("OUT.json", "write it for Perfetto and Chrome's trace viewer")]
WindowOption = Annotated[str | None, option("SECONDS", "measure as if the clock were stopped then (default: the end)")]
WideOption = Annotated[bool, typer.Option("--wide", help="show all that is measured, not what 80 columns take")]
TableOption = Annotated[
    str | None, option("OUT.csv", "write the rows there, as to_dataframe has them (.parquet: as parquet)", "--csv")
]
GAP = 2  # letters between the columns of a table


def settings_of(options: list[str] | None) -> dict[str, str]:
    """Return what `--option` sets, by name."""
    given = dict[str, str]()
    for name, sign, value in (each.partition("=") for each in options or ()):
        if not sign or name in given:
            why = "is given twice" if sign else "write NAME=NUMBER, such as speed.step=0.2"
            raise BadInput(f"--option {name}: {why}")
        given[name] = value
    return given


def read_schedules(files: str | None) -> dict[str, Schedule]:
    """Return the schedules of files by file name, without folders where unambiguous."""
    names = [] if files is None else [name.strip() for name in files.split(",")]
    short = [Path(name).name for name in names]
    return dict(zip(short if len(set(short)) == len(short) else names, map(read_schedule, names), strict=True))


def is_schedule(name: str | None) -> bool:
    """Whether it is the file of a schedule, no policy."""
    return name is not None and Path(name).is_file() and not name.endswith(".py")


Output = tuple[str | None, Callable[[str], object] | None]
"""A file asked for (None: none), and its writer (None: nothing to write)."""


def as_file(found: Any) -> Callable[[str], None] | None:
    """Return the writer of an instance, a schedule or a certificate (None: there is none)."""
    return None if found is None else lambda file: write_text(file, found.to_json())


def write_all(*outputs: Output) -> None:
    """Write all files; complain at the end of failures."""
    only_writes()
    wrong = []
    for file, write in outputs:
        if file is not None and write is not None:
            try:
                write(file)
            except BadInput as error:
                wrong.append(str(error))
    if wrong:
        raise BadInput("; ".join(wrong))


def emit(target: str | None, payload: Any, show: Callable[[Console], None], *outputs: Output) -> None:
    """Write JSON if asked to, then the other files, and print for people, whatever cannot be written.

    With `--json -` only the JSON goes to standard output.
    """
    as_json: Output = (target, lambda file: write_text(file, json.dumps(payload, indent=1, ensure_ascii=False)))
    try:
        write_all(as_json, *outputs)
    finally:
        if target != "-":
            show(people_console())


class AlignedTable:
    """A table for people, such as of `kvbound.tables.Cells`; `right` are the columns of numbers.

    In a narrow terminal headings are folded, then the table goes on below. Texts are folded to at least `FOLDED`
    letters (the last column to `LAST`), numbers never.
    """

    FOLDED, LAST = 22, 12

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> None:
        self.columns, self.right = columns, set(right)
        self.rows = [["-" if cell is None else str(cell) for cell in row] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        part, headings = list[int](), self.columns
        widths = [self._width(k, len(name)) for k, name in enumerate(headings)]
        if sum(widths) + GAP * (len(widths) - 1) > options.max_width:
            widths[1:] = [self._width(k, max(map(len, headings[k].split()), default=0)) for k in range(1, len(widths))]
            headings = ["\n".join(wrap(name, width)) for name, width in zip(headings, widths, strict=True)]
        for k, width in enumerate(widths):
            if len(part) > 1 and sum(widths[j] for j in part) + len(part) * GAP + width > options.max_width:
                yield self._part(part, headings, widths[0])
                yield ""
                part = [0]
            part.append(k)
        yield self._part(part, headings, widths[0])

    def _width(self, k: int, heading: int) -> int:
        longest = max([heading, *(len(cells[k]) for cells in self.rows)])
        folded = self.LAST if k == len(self.columns) - 1 > 1 else self.FOLDED
        return longest if k in self.right else min(longest, folded)

    def _part(self, part: Sequence[int], headings: Sequence[str], first: int) -> Table:
        made = Table(box=None, pad_edge=False, header_style="bold")
        for k in part:
            number = k in self.right
            least = None if k else first
            made.add_column(
                headings[k], justify="right" if number else "left", overflow="fold", no_wrap=number, min_width=least
            )
        for row in self.rows:
            made.add_row(*(row[k] for k in part))
        return made


table = AlignedTable


def show_measures(rows: Labelled, units: Units, console: Console, *, wide: bool) -> None:
    """Print the times, then throughput, waste and moves, by label."""
    for cells in (tables.times_cells(rows, units, wide=wide), tables.work_cells(rows, units, wide=wide)):
        console.print()
        console.print(table(*cells))
    if not wide:
        console.print("--wide shows more columns")


def show_explained(rows: Sequence[Explained], told: Sequence[Explained], units: Units, console: Console) -> None:
    """Print the parts of schedules' time, then how those `told` differ from the reference, and why."""
    for cells in tables.explained_cells(rows, units):
        console.print()
        console.print(table(*cells))
    for line in [*tables.differences(told, units), *tables.causes(told, units)]:
        console.print(line, soft_wrap=True)


def result_table(row: dict[str, Any], units: Units) -> AlignedTable:
    """Return the table of one result."""
    values = (units.value(row[name], row["objective"]) for name in ("value", "bound", "mean"))
    cells = [row["policy"] or row["found_by"] or row["formulation"], standing(row), *values]
    cells += [percent(row["gap"], 2), f"{row['seconds']:.2f}"]
    columns = ["found by", "status", *value_columns(units, row["objective"], "value", "bound", "mean")]
    return table([*columns, "gap", "took, s"], [cells], right=range(2, 7))


class PlainConsole(Console):
    """A console that prints texts as they are: none is a command to it, or to the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a printed text, cell or heading, unchanged."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """Leave it to `kvbound.cli.main`, for which it is no failure."""
        raise BrokenPipeError


def people_console() -> Console:
    """Return a console; in a pipe no row wraps."""
    return PlainConsole(width=None if sys.stdout.isatty() else 200)


def progress_console() -> Console | None:
    """Return the console for progress: only on a terminal, on standard error."""
    console = PlainConsole(stderr=True)
    return console if console.is_terminal else None
