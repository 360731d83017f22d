"""The pages made of what the code has: names, rules of policies, and measurements."""

import inspect
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, get_args

from costmodels import COSTS, DEVICES, MODELS
from docs.make.pages import PAGES, rendered
from heuristics import POLICIES, SHARING
from heuristics.engine import admission, min_waste
from heuristics.engine.policy import Policy
from heuristics.policies.wait import Wait
from kvcore.certificates import AnyProof
from kvcore.features import Feature
from kvcore.instance import LIMIT, Machine
from library.library import table_rows
from solvers.option_names import rows_of_options
from solvers.ways import SOLVERS, WAYS
from workloads.builtin import BUILTIN

OPTIONS = {row["option"]: row for row in table_rows(Path(__file__).parents[2] / "benchmarks/records/options.csv")}
KINDS = {str(kind.model_fields["kind"].default): kind.takes for kind in get_args(get_args(AnyProof)[0])}
KNOWN = POLICIES | SHARING


def names_page() -> str:
    """Return docs/names.md."""
    instances = [
        (f"`{family.usage(name)}`", family.what, family.source)
        for name, family in BUILTIN.items()
        if not name.startswith("worst-")
    ]
    worst = "at most n requests, on which the policy is far from the least value of the objective; n is 2, 3 or 4"
    instances.append(("`worst-POLICY-OBJECTIVE:n=4`", worst, "found by `kvbound search`"))
    rests = {"certificate": "a certificate", "solver": "the word of a solver", None: ""}
    return rendered(
        "names", instances=instances, kinds=list(KINDS), taken=taken(), devices=DEVICES.values(),
        models=MODELS.values(), options=map(measured_option, rows_of_options()),
        policies=[(f"`{name}`", policy.rule, policy.knows, policy.source) for name, policy in KNOWN.items()],
        ways=[(f"`{w.label}`", "yes" if w.finds else "", rests[w.proves], w.drops) for w in WAYS.values()],
        solvers=[(f"`{name}`", solver.proves) for name, solver in SOLVERS.items()],
        costs=[(f"`{name}`", c.what, f"{c.tick} s", machine(c.machine), c.source) for name, c in COSTS.items()],
    )  # fmt: skip


def taken() -> Iterator[list[str]]:
    """Yield a row for each feature: which kinds of proof take it, and together with which others they do not."""
    for feature in Feature:
        cells = []
        for takes in KINDS.values():
            apart = sorted({other for pair in takes.apart if feature in pair for other in pair} - {feature})
            cells.append("" if feature not in takes.features else f"not with {', '.join(apart)}" if apart else "yes")
        yield [feature, *cells]


def measured_option(row: Sequence[str]) -> list[str]:
    """Return the row of an option with its measurement: what half and double reach, and in what part of the time."""
    known = OPTIONS.get(row[0], {})
    cells = [f"{float(known[f'{side}_reached']) - 1:+.2%}, {float(known[f'{side}_seconds']):.2f}"
             if known.get(f"{side}_reached") else "" for side in ("half", "double")]  # fmt: skip
    return [*row, *cells, known.get("read", ""), known.get("moved", "")]


def machine(measured: Machine | None) -> str:
    """Return the sizes of the machine of a cost, in tokens; nothing for a cost of no machine."""
    if measured is None:
        return ""
    blocks = f" in blocks of {measured.block}" if measured.block > 1 else ""
    host = f", host {measured.host_memory:,}" if measured.host_memory else ""
    return f"memory {measured.memory:,}{blocks}{host}; {measured.batch_tokens:,} a batch"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; its cells are Markdown."""
    yield from (f"| {' | '.join(head)} |", "|---" * len(head) + "|")
    yield from (f"| {' | '.join(row)} |" for row in rows)


def rules_page() -> str:
    """Return docs/rules.md: what several policies share, then each policy."""
    classes = {type(policy): None for policy in KNOWN.values()}
    shared = {base: None for one in classes for base in one.__mro__[1:] if issubclass(base, Policy)}
    names = {one: [name for name, policy in KNOWN.items() if type(policy) is one] for one in classes}
    lines = [PAGES["rules"]["head"], text_of(admission), "## The min-waste rule\n", text_of(min_waste)]
    lines += [line for base in shared if base is not Policy and base not in classes for line in described(base, [])]
    lines += [line for one, known in names.items() for line in described(one, known)]
    lines += described(Wait, ["wait:.."])
    return "\n".join(lines)


def described(one: type, names: list[str]) -> Iterator[str]:
    """Yield a heading with the names of a class, or its own, and its docstring with a link to its file."""
    file = f"{one.__module__.replace('.', '/')}.py"
    yield f"## {', '.join(names) or one.__name__}\n"
    yield f"[{file}](../{file})" + (
        f", on top of `{one.__mro__[1].__name__}`.\n" if one.__mro__[1] is not Policy else "\n"
    )
    yield text_of(one)
    settings = one.settings if issubclass(one, Policy) else {}
    if settings:
        values = ((key, getattr(one, key), setting.does) for key, setting in settings.items())
        rows = ((f"`{key}`", "none" if value in (None, LIMIT) else f"{value}", does) for key, value, does in values)
        yield "\n".join(table(("setting", "default", "what it sets"), rows)) + "\n"


def text_of(documented: Any) -> str:
    """Return a docstring, its first sentence as a paragraph."""
    return f"{inspect.getdoc(documented)}\n"


RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
"""A file for each section, in the order of their names: `title`, `date`, `command`, `about`, and `tables`, each with
`columns`, `rows` and perhaps `notes`; a `diary`, and a table with `shown = false`, stay in the record."""


def measured_page() -> str:
    """Return docs/measured.md."""
    records = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.toml"))]
    shown = [record for record in records if any(part.get("shown", True) for part in record["tables"])]
    return "\n".join([PAGES["measured"]["head"], *(line for record in shown for line in lines(record))])


def lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a section. ValueError for a record without date or command."""
    if not isinstance(record.get("date"), date) or not record.get("command"):
        raise ValueError(f"{record['title']}: a measurement has a date and the command that makes it")
    yield from (f"## {record['title']}", "", f"`{record['command']}`, {record['date']}. {record['about']}")
    for part in record["tables"]:
        if not part.get("shown", True):
            continue
        yield from (*table(part["columns"], part["rows"]), "")
        yield from [part["notes"]] if "notes" in part else []
