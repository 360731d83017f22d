"""How far policies, and schedules of others, are from the best known."""

import time
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from statistics import median
from typing import Any

from heuristics import PolicyError, Unsuited, get_policy, trace_policy
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.result import number
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from library.library import Library, table_rows
from library.record import Record

TABLE = "policies.csv"
"""In the folder of the records, written by the command in docs/library.md."""
MEASURED = ("name", "objective", "policy", "value", "seconds", "error")
"""Columns that are measured."""
COLUMNS = (
    "name", "family", "requests", "calls", "objective", "policy", "value", "best", "bound", "over_best", "over_bound",
    "seconds", "error",
)  # fmt: skip
"""Columns beside the best known: `over_best` and `over_bound` are fractions in text."""


def policy_rows(library: Library, name: str, policies: Sequence[str], seconds: float = 60.0) -> list[dict[str, Any]]:
    """Run policies on an instance, each for at most `seconds` of the CPU; a row for each and each objective."""
    record, rows = library.record(name), list[dict[str, Any]]()
    instance = library.instance(record)
    for policy in policies:
        began = time.process_time()
        trace, error = None, ""
        try:
            end = began + seconds
            trace = trace_policy(instance, get_policy(policy), go_on=lambda: time.process_time() < end)  # noqa: B023
        except (PolicyError, Unsuited) as failed:
            late = time.process_time() >= end
            error = f"not done after {seconds:g} s" if late else str(failed)
        rows += _rows(record, policy, trace, round(time.process_time() - began, 2), error)
    return rows


def schedule_rows(library: Library, label: str, schedule: Schedule) -> list[dict[str, Any]]:
    """Return the rows of a schedule. BadInput: it is for no instance; InvalidSchedule: it breaks a rule."""
    record = library.of(schedule.instance_sha256)
    return list(_rows(record, label, verify_schedule(library.instance(record), schedule), 0.0, ""))


def _rows(record: Record, policy: str, trace: Trace | None, seconds: float, error: str) -> Iterator[dict[str, Any]]:
    for objective in record.objectives:
        value = None if trace is None else number(objective_value(trace, objective), objective)
        yield dict(zip(MEASURED, (record.name, objective, policy, value, seconds, error), strict=True))


def known_rows(library: Library) -> list[dict[str, Any]]:
    """Return the rows of the table, each beside the best known; measured columns are text."""
    return beside_the_best(library, table_rows(library.folder / TABLE, *MEASURED))


def beside_the_best(library: Library, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows whose instance and objective the library has, beside the best known."""
    known = {(row["name"], row["objective"]): row for record in library.records() for row in record.rows()}
    return [_beside(of, row) for row in rows if (of := known.get((row["name"], row["objective"])))]


def _beside(of: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    best, value = of["value"], row["value"]
    known = of | {"best": best, "over_best": over(value, best), "over_bound": over(value, of["bound"])}
    return {name: (row if name in MEASURED else known)[name] for name in COLUMNS}


def over(value: int | str | None, known: int | str | None) -> str | None:
    """Return value / known, as a fraction in text; None without both, or where 0 is the best."""
    if value in (None, "") or known is None or Fraction(known) <= 0:
        return None
    return str(Fraction(value) / Fraction(known))


def profile(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each policy's number of values, and its median and largest ratio to the best known.

    `within` has the share of ratios up to each limit.
    """
    rows = list(rows)
    lines = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = (row["over_best"] for row in rows if row["policy"] == policy and row["over_best"])
        ratios = sorted(float(Fraction(ratio)) for ratio in mine)
        if ratios:
            within = {limit: sum(ratio <= float(limit) for ratio in ratios) / len(ratios) for limit in WITHIN}
            lines.append({"policy": policy, "values": len(ratios), "median": median(ratios), "worst": ratios[-1],
                          "within": within, "ratios": ratios})  # fmt: skip
    return sorted(lines, key=lambda line: line["median"])


def failed(rows: Sequence[dict[str, Any]], lines: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the policies without a line in the profile, and their first error."""
    told = {line["policy"] for line in lines}
    missing = (row for row in reversed(rows) if row["policy"] not in told)
    return {row["policy"]: row["error"] or "no best above 0 is known" for row in missing}


WITHIN = ("1.01", "1.1", "1.5")
"""Multiples of the best known, for the table of a profile."""
