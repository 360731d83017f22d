"""Runs that a simulator or a load generator reports by the times of each request (`docs/runs.md`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import NamedTuple

from kvcore.cost import Cost
from kvcore.csv_table import Row, build_instance, check_take, check_tick, read_csv, text_lines
from kvcore.errors import BadInput, unknown
from kvcore.files import valid
from kvcore.instance import LIMIT, Instance, Machine, Request, Segment
from workloads.importers.jsonl import read_jsonl
from workloads.importers.reader import TICK
from workloads.importers.selection import UNITS


class Form(NamedTuple):
    """The columns of a format. Of several arrivals the latest counts; prompts and cached tokens are sums.

    `done` is the column that says whether a request ended, and its word for it. `device` has one value in a run of one
    device, `other` none.
    """

    id: str
    prompt: tuple[str, ...]
    output: str
    arrival: tuple[str, ...]
    first: str
    last: str
    unit: Fraction
    since_arrival: bool = False  # whether `first` and `last` count from the arrival
    jsonl: bool = False
    done: tuple[str, str] | None = None
    device: str | None = None
    other: str | None = None
    cached: str | None = None
    optional: tuple[str, ...] = ()  # columns that older files lack

    def columns(self, header: str) -> list[str]:
        """Return the columns that are read of a file with this first line."""
        named = [self.id, *self.prompt, self.output, *self.arrival, self.first, self.last]
        named += [name for name in (self.done and self.done[0], self.device, self.other, self.cached) if name]
        return [name for name in dict.fromkeys(named) if name not in self.optional or name in header]


FORMS = {
    "blis": Form(
        "request_id", ("input_tokens", "prefix_length"), "output_tokens", ("arrival_time_us", "send_time_us"),
        "first_chunk_time_us", "last_chunk_time_us", UNITS["us"], done=("status", "ok"), cached="prefix_length",
        optional=("prefix_length",),
    ),
    "llmservingsim": Form(
        "request id", ("input",), "output", ("arrival",), "TTFT", "latency", UNITS["ns"], since_arrival=True,
        device="instance id",
    ),
    "aisimulate": Form(
        "uuid", ("input_length",), "output_length", ("arrival_time_ms",), "first_token_ms", "last_token_ms",
        UNITS["ms"], jsonl=True, done=("terminal_status", "completed"), device="decode_worker_idx",
        other="prefill_worker_idx", cached="reused_input_tokens", optional=("prefill_worker_idx",),
    ),
}  # fmt: skip
"""BLIS's trace v2, the CSV of LLMServingSim 2, and the records of requests of AISimulate (Dynamo's replay)."""


class Served(NamedTuple):
    """A request of a run: its tokens, and when it came, had its first token and its last, in seconds."""

    id: str
    prompt: int
    output: int
    arrival: Fraction
    first: Fraction
    last: Fraction


@dataclass(frozen=True)
class MeasuredRun:
    """The requests of a run as an instance, and the sums of what was measured of them, in seconds."""

    instance: Instance
    seconds: dict[str, Fraction]
    """By objective: `total-flow-time` and `total-ttft`."""
    notes: tuple[str, ...] = ()


def form_of(path: str | Path) -> str | None:
    """Return the format of the file, known by the columns that its first line names, or None."""
    header = "" if str(path) == "-" else next(text_lines(path), "")
    fits = (name for name, form in FORMS.items() if all(column in header for column in form.columns(header)))
    return next(fits, None)


def read_measured(
    path: str | Path,
    form: str | None = None,
    *,
    machine: Machine,
    take: int | None = None,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
) -> MeasuredRun:
    """Read a run from the times of its requests: the first `take` that were done (None: all).

    `form` is a name of `FORMS` (None: by the columns). Arrivals count from the first one, rounded up to ticks of `tick`
    seconds. BadInput: the file is not of this form, with line and column, or its run has several devices.
    """
    form = form or form_of(path)
    if str(path) == "-":
        raise BadInput("times of requests come from a file, not from standard input: its first line is read twice")
    if form not in FORMS:
        raise unknown("format of a run", form or str(path), FORMS)
    served, notes = _served(str(path), FORMS[form])
    served.sort(key=lambda one: one.arrival)
    served = served[: check_take(take, len(served), "requests that were done")]
    zero, tick = served[0].arrival, check_tick(tick)
    with valid(str(path)):
        requests = [
            Request(
                id=one.id, arrival=ceil((one.arrival - zero) / tick), prompt=one.prompt,
                segments=(Segment(decode=one.output),),
            )
            for one in served
        ]  # fmt: skip
    instance = build_instance(path, requests, machine, f"{form}:{Path(path).name}", tick, cost)
    seconds = {
        "total-flow-time": sum((one.last - one.arrival for one in served), Fraction(0)),
        "total-ttft": sum((one.first - one.arrival for one in served), Fraction(0)),
    }
    return MeasuredRun(instance, seconds, tuple(notes))


def _served(source: str, form: Form) -> tuple[list[Served], list[str]]:
    columns = form.columns(next(text_lines(source), ""))
    rows = read_jsonl(source, columns, columns[:1], (), form.optional) if form.jsonl else read_csv(source, columns)
    found, failed, cached, devices = list[Served](), 0, 0, set[str]()
    for row in rows.rows:
        if form.done and row.text(form.done[0]) != form.done[1]:
            failed += 1
            continue
        _check_device(row, form, devices)
        found.append(_read(row, form, columns))
        cached += row.whole(form.cached, 0) if form.cached in columns else 0
    if not found:
        raise BadInput(f"{source}: none of its requests was done")
    notes = [f"{failed} requests without a whole answer are left out"] * bool(failed)
    if cached:
        notes.append(f"{cached} prompt tokens may come from a cache; the model computes them, so the run may be faster")
    return found, notes


def _check_device(row: Row, form: Form, devices: set[str]) -> None:
    for column in filter(None, (form.device, form.other)):
        if column not in row.cells:
            continue
        if column == form.other:
            if row.text(column):
                row.refuse(column, "empty: prefills and decodes on two devices are no run of one")
        elif row.text(column) not in devices and devices:
            row.refuse(column, f"{min(devices)} in all rows: a run here is that of one device")
        else:
            devices.add(row.text(column))


def _read(row: Row, form: Form, columns: Sequence[str]) -> Served:
    arrival = max(_times(row, form, form.arrival))
    first, last = _times(row, form, (form.first, form.last))
    if form.since_arrival:
        first, last = arrival + first, arrival + last
    if first <= arrival:
        row.refuse(form.first, "later than the arrival: the file must be of a run")
    if last < first:
        row.refuse(form.last, f"no earlier than {form.first}")
    prompt = sum(row.whole(name, 0) for name in form.prompt if name in columns)
    if not 1 <= prompt <= LIMIT:
        row.refuse(form.prompt[0], "at least 1")
    return Served(row.label(form.id), prompt, row.whole(form.output, 1), arrival, first, last)


def _times(row: Row, form: Form, names: Sequence[str]) -> Iterator[Fraction]:
    return (row.seconds(name) * form.unit for name in names)
