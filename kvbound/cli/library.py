"""`kvbound library`."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from fractions import Fraction
from functools import partial
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kvbound.cli import EXIT_FAILED, common
from kvbound.cli.app import STYLE
from kvbound.cli.common import OUT, POLICY, Output, as_file, emit, option, read_schedules, table, write_all
from kvbound.cli.progress import counted, drawing, load_instance
from kvbound.comparison import USUAL, USUAL_WITHOUT_EVICTION
from kvbound.plots import plot_profile
from kvbound.simulation import policy_names
from kvbound.tables import percent
from kvbound.units import seconds_of
from kvcore.certificates import Certificate, InvalidCertificate
from kvcore.errors import BadInput
from kvcore.files import check_writable, parse, read_text, write_text
from kvcore.referee import InvalidSchedule
from kvcore.schedule import Schedule
from library import Library
from library.fill import WAYS, fill
from library.policies import COLUMNS, MEASURED, TABLE, beside_the_best, failed, policy_rows, profile, schedule_rows
from library.record import Record
from library.table import write_table
from sweeps.export import as_csv

app = typer.Typer(
    help="Instances with their best known schedules and certified bounds; beat them.", no_args_is_help=True, **STYLE
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="`kvbound library list` names all")]
FolderOption = Annotated[str | None, option("FOLDER", "of records, not the shipped one", "--library")]
FamilyOption = Annotated[str | None, option("NAME", "only this family")]
ObjectiveOption = Annotated[str | None, option("NAME", "only this objective")]
JobsOption = Annotated[int | None, option("N", "processes at once (default: cores)", min=1, max=1024)]


def _rows(library: Library, family: str | None, objective: str | None, status: str | None) -> list[dict[str, Any]]:
    wanted = {"family": family, "objective": objective, "status": status}
    given = {key: value for key, value in wanted.items() if value is not None}
    rows = [row for record in library.records() for row in _in_ticks(library, record)]
    kept = [row for row in rows if all(row[key] == value for key, value in given.items())]
    if not kept:
        there = "; ".join(f"{key}: {', '.join(dict.fromkeys(row[key] for row in rows))}" for key in given)
        raise BadInput(f"the library has no such instance; there are {there}")
    return kept


def _in_ticks(library: Library, record: Record) -> list[dict[str, Any]]:
    tick = str(library.tick_seconds(record))
    return [row | {"tick_seconds": tick} for row in record.rows()]


def _each(function: Callable[[str], Any], names: Sequence[str], jobs: int | None) -> Iterator[Any]:
    jobs = min(jobs or os.cpu_count() or 1, len(names))
    with counted("instances", 0, len(names)) as advance:
        if jobs == 1:
            for name in names:
                yield function(name)
                advance()
            return
        with ProcessPoolExecutor(jobs) as pool:
            for found in pool.map(function, names):
                yield found
                advance()


@app.command("list")
def list_(
    family: FamilyOption = None,
    objective: ObjectiveOption = None,
    status: Annotated[str | None, option("open|solved", "only these")] = None,
    library: FolderOption = None,
    json: common.JsonOption = None,
) -> None:
    """List instances, the best known of each objective, and the gap."""
    rows = _rows(Library(library), family, objective, status)
    solved = sum(row["status"] == "solved" for row in rows)

    def show(console: Console) -> None:
        console.print(_table(rows))
        console.print(f"{len({row['name'] for row in rows})} instances; {solved} of {len(rows)} values are optimal")

    emit(json, {"rows": rows}, show)


def _table(rows: Sequence[dict[str, Any]]) -> Any:
    keys = ("name", "requests", "objective", "value", "bound")
    cells = [
        [*(row[key] for key in keys[:3]),
         *(_seconds(Fraction(row["tick_seconds"]), row["objective"], row[key]) for key in keys[3:]),
         "solved" if row["status"] == "solved" else percent(row["gap"], 2)]
        for row in rows
    ]  # fmt: skip
    return table([*keys, "gap"], cells, right=(1, 3, 4, 5))


def _seconds(tick: Fraction, objective: str, value: int | str | None) -> str | None:
    return None if value is None else seconds_of(tick).named(value, objective)


@app.command()
def show(name: NameArgument, library: FolderOption = None, json: common.JsonOption = None) -> None:
    """Say what an instance is from, and who found the best known, and how."""
    opened = Library(library)
    record = opened.record(name)

    def people(console: Console) -> None:
        console.print(f"{record.name}: {record.requests} requests with {record.calls} calls; {record.origin}")
        console.print(f"made by {record.source}; licence: {record.licence}", soft_wrap=True)
        console.print(_table(_in_ticks(opened, record)))
        found = [
            [objective, what, made.by, made.how, f"{made.seconds:g}", made.date]
            for objective, best in record.objectives.items()
            for what, made in (("schedule", best.schedule), ("certificate", best.certificate)) if made is not None
        ]  # fmt: skip
        console.print(table(("objective", "what", "by", "how", "took, s", "date"), found, right=(4,)))

    emit(json, record.model_dump(mode="json"), people)


@app.command()
def get(
    name: NameArgument,
    out: Annotated[str | None, option("I.json", "write the instance there", *OUT)] = None,
    objective: Annotated[str | None, option("NAME", "of the others (default: the first)")] = None,
    schedule: Annotated[str | None, option("S.json", "write the best schedule there")] = None,
    certificate: Annotated[str | None, option("C.json", "and the certificate of the bound")] = None,
    library: FolderOption = None,
) -> None:
    """Write an instance, its best schedule, or the certificate of its best bound (default: the instance, printed)."""
    check_writable(out, schedule, certificate)
    opened = Library(library)
    record = opened.record(name)
    of = next(iter(record.objectives)) if objective is None else objective
    if of not in record.objectives:
        raise BadInput(f"{name} is for {', '.join(record.objectives)}, not for {of}")
    found: list[Output] = []
    for target, read, what in ((schedule, opened.schedule, "schedule"), (certificate, opened.certificate, "bound")):
        if target is not None:
            found.append((target, as_file(read(record, of))))
            if found[-1][1] is None:
                raise BadInput(f"{name}: no {what} for {of} is known")
    if out is not None or not found:
        found.append((out or "-", as_file(opened.instance(record))))
    write_all(*found)


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME ..]", help="of instances")] = None,
    everything: Annotated[bool, typer.Option("--all", help="every instance")] = False,
    jobs: JobsOption = None,
    library: FolderOption = None,
    json: common.JsonOption = None,
) -> int:
    """Execute every schedule and recompute every bound: the referee, and the checker of certificates."""
    opened = Library(library)
    if bool(names) is everything:
        raise BadInput("verify takes names, or --all")
    for name in names or ():
        opened.place(name)  # refuses what is none
    checked = [one for found in _each(opened.check, names or opened.names, jobs) for one in found]
    wrong = [one for one in checked if one.wrong]

    def people(console: Console) -> None:
        for one in wrong:
            console.print(f"{one.name} {one.objective} {one.what}: {one.wrong}", soft_wrap=True)
        kinds = ", ".join(f"{sum(one.what == kind for one in checked)} {kind}s" for kind in KINDS)
        console.print(f"{kinds} checked, {len(wrong)} of them wrong")

    emit(json, {"valid": not wrong, "checked": len(checked), "wrong": [one._asdict() for one in wrong]}, people)
    return EXIT_FAILED if wrong else 0


KINDS = ("record", "schedule", "certificate")


def _kind(text: str) -> type[Certificate | Schedule]:
    with suppress(ValueError, RecursionError):
        found = loads(text)
        if isinstance(found, dict) and ("proof" in found or found.get("format") == "kvbound-certificate"):
            return Certificate
    return Schedule


@app.command()
def run(
    policies: Annotated[
        str | None, option("NAME[,NAME..]|usual|all", "FILE.py is one of your own", *POLICY[::-1])
    ] = None,
    schedule: common.SchedulesOption = None,
    out: Annotated[str | None, option("OUT.csv", "write a line for each value there", *OUT)] = None,
    plot: common.PlotOption = None,
    family: FamilyOption = None,
    time_limit: Annotated[float, option("S", "CPU seconds for each policy", min=0.1)] = 60,
    jobs: JobsOption = None,
    library: FolderOption = None,
    json: common.JsonOption = None,
) -> None:
    """Say how far policies, or schedules of others, are from the best known and the bound of every instance."""
    check_writable(out, plot, json)
    if policies is None and schedule is None:
        raise BadInput("give --policies, --schedule, or both")
    opened, rows = Library(library), list[dict[str, Any]]()
    for label, read in read_schedules(schedule).items():
        rows += schedule_rows(opened, label, read)
    if policies is not None:
        usual = tuple(dict.fromkeys((*USUAL, *USUAL_WITHOUT_EVICTION)))
        chosen = usual if policies == "usual" else policy_names(policies)
        names = list(dict.fromkeys(row["name"] for row in _rows(opened, family, None, None)))
        on_one = partial(policy_rows, opened, policies=chosen, seconds=time_limit)
        rows += [row for found in _each(on_one, names, jobs) for row in found]
    beside = beside_the_best(opened, rows)
    lines = profile(beside)
    better = sum(bool(row["over_best"]) and Fraction(row["over_best"]) < 1 for row in beside)

    def people(console: Console) -> None:
        console.print(_profile_table(lines))
        for policy, error in failed(rows, lines).items():
            console.print(f"{policy} has no ratio on any instance: {error}", soft_wrap=True)
        if better:
            console.print(f"{better} values are better than the best known: submit their schedules")

    kept = out is not None and Path(out).resolve() == (opened.folder / TABLE).resolve()
    table_of = partial(write_text, text=as_csv(rows, MEASURED) if kept else as_csv(beside, COLUMNS))
    emit(json, {"rows": beside}, people, (out, table_of), (plot, drawing(lambda file: plot_profile(lines, path=file))))


def _profile_table(lines: Sequence[dict[str, Any]]) -> Any:
    limits = list(lines[0]["within"]) if lines else []
    cells = [
        [line["policy"], line["values"], f"{line['median']:.3f}", f"{line['worst']:.3f}",
         *(percent(line["within"][limit], 2) for limit in limits)]
        for line in lines
    ]  # fmt: skip
    columns = ["schedule", "values", "median / best", "worst / best", *(f"within {limit}" for limit in limits)]
    return table(columns, cells, right=range(1, len(columns)))


@app.command()
def submit(
    file: Annotated[str, typer.Argument(metavar="SCHEDULE|CERTIFICATE", help="a file for an instance of the library")],
    by: Annotated[str, option("WHO", "who found it: a name, a program and its version")],
    how: Annotated[str, option("TEXT", "how it was found")] = "",
    seconds: Annotated[float, option("S", "how long that took", min=0)] = 0.0,
    library: FolderOption = None,
    json: common.JsonOption = None,
) -> int:
    """Take a schedule or a certificate into the library if it verifies and is better than what is known."""
    opened, text = Library(library), read_text(file)
    try:
        improved = opened.submit(parse(_kind(text), text, file), by, how, seconds)
    except (InvalidSchedule, InvalidCertificate) as broken:
        line = f"invalid: {broken}"
        emit(json, {"valid": False, "detail": str(broken)}, lambda console: console.print(line, soft_wrap=True))
        return EXIT_FAILED
    if improved:
        write_table(opened)
    cells = [
        (one.name, one.objective, one.what, *(_seconds(tick, one.objective, known) for known in (one.before, one.now)))
        for one in improved
        for tick in [opened.tick_seconds(opened.record(one.name))]
    ]
    better = table(("instance", "objective", "what", "was", "is"), cells, right=(3, 4))
    rows = [one._asdict() for one in improved]
    emit(
        json, {"valid": True, "improved": rows},
        lambda console: console.print(better if rows else "valid, but no better than what the library has"),
    )  # fmt: skip
    return 0 if improved else EXIT_FAILED


@app.command()
def add(
    instance: common.InstanceArgument,
    name: Annotated[str, option("NAME", "of letters, digits and -")],
    family: Annotated[str, option("NAME", "of the library, or a new one")],
    source: Annotated[str, option("TEXT", "what makes it: a built-in name, a command, or a file")],
    origin: Annotated[str, option("TEXT", "what it is from, in words")],
    licence: Annotated[str, option("TEXT", "of the data in it")],
    objectives: Annotated[
        str, option("NAME[,NAME..]", "that count for it; docs/semantics.md lists all")
    ] = "total-flow-time",
    library: FolderOption = None,
    json: common.JsonOption = None,
) -> None:
    """Add an instance, with nothing known of it yet; a folder that is not there is made."""
    added, about = load_instance(instance), {"source": source, "origin": origin, "licence": licence}
    if library is not None:
        with suppress(OSError):  # what Library then says is enough
            Path(library).mkdir(exist_ok=True)
    opened, chosen = Library(library), [objective.strip() for objective in objectives.split(",")]
    record = opened.add(added, chosen, name=name, family=family, **about)
    write_table(opened)
    text = f"{family}/{name} is there; `kvbound library fill --names {name}` looks for first values"
    emit(json, record.model_dump(mode="json"), lambda console: console.print(text, soft_wrap=True))


@app.command("fill")
def fill_(
    out: Annotated[str, option("DB.sqlite", "says what was tried, and is gone on with", *OUT)],
    seconds: Annotated[float, option("S", "for each try", min=0.1)] = 60,
    ways: Annotated[str | None, option("WAY[,WAY..]", f"of {', '.join(WAYS)} (default: all)")] = None,
    names: Annotated[str | None, option("NAME[,NAME..]", "of instances (default: all)")] = None,
    family: FamilyOption = None,
    objective: ObjectiveOption = None,
    largest_gap: Annotated[
        bool, typer.Option("--largest-gap", help="begin with the largest gap (default: the smallest instance)")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N")] = 0,
    library: FolderOption = None,
    json: common.JsonOption = None,
) -> None:
    """Try every way of kvbound on every open instance, and keep what is better; resumable."""
    check_writable(out, json)
    opened, chosen = Library(library), WAYS if ways is None else [way.strip() for way in ways.split(",")]
    some = None if names is None else [name.strip() for name in names.split(",")]
    _rows(opened, family, objective, None)  # refuses what is none
    tries = partial(fill, names=some, family=family, objective=objective, ways=chosen, largest_gap=largest_gap)
    try:
        done = tries(opened, out, seconds=seconds, seed=seed, watch=partial(counted, "tries"))
    finally:
        write_table(opened)
    payload = {"run": done.run, "improved": [one._asdict() for one in done.improved]}
    emit(json, payload, lambda console: console.print(f"{done.run} tries, {len(done.improved)} improvements"))
