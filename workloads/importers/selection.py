"""Columns of a trace; which requests are taken, how fast they come, and their objectives."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import NamedTuple

from kvcore.csv_table import Row, check_take, slo_in_ticks
from kvcore.errors import BadInput, unknown
from kvcore.instance import Slo
from kvcore.parameters import NUMBER, fraction

ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(\.\d{1,18})?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = {"since": "from", "slo_latency": "slo-latency", "slo_ttft": "slo-ttft", "slo_tpot": "slo-tpot"}


@dataclass(frozen=True)
class Selection:
    """What is taken of a trace, in this order; times are seconds.

    Requests that arrive from `since` to just before `until` (after the first arrival, or a time such as `2023-11-16
    18:20`); of these, by arrival, all after the first `skip`; the first `take`; `sample` of those, drawn without
    replacement by `random.Random(seed)`. They come `load` times as fast, with the objectives `slo_latency`, `slo_ttft`
    and `slo_tpot` (the first two in whole ticks).
    """

    since: str | None = None
    until: str | None = None
    skip: int = 0
    take: int | None = None
    sample: int | None = None
    seed: int = 0
    load: Fraction = Fraction(1)
    slo_latency: Fraction | None = None
    slo_ttft: Fraction | None = None
    slo_tpot: Fraction | None = None

    def __post_init__(self) -> None:
        if self.skip < 0:
            raise BadInput(f"--skip is at least 0, not {self.skip}")
        if self.load <= 0:
            raise BadInput(f"--load is a number above 0, not {self.load}")

    @property
    def words(self) -> str:
        """`,option=value` for each option given, to be put after a name."""
        usual = asdict(Selection(seed=0 if self.sample is None else -1))
        shown = {NAMES.get(name, name): value for name, value in asdict(self).items() if value != usual[name]}
        return "".join(f",{name}={value}" for name, value in shown.items())

    def pick(self, times: Sequence[Fraction]) -> list[int]:
        """Return the places of the requests taken, from their arrival `times`, by arrival.

        BadInput: nothing is left, or fewer than are to be taken.
        """
        kept = sorted(range(len(times)), key=times.__getitem__)
        first, last = times[kept[0]], times[kept[-1]]
        if self.since is not None:
            begin = _moment("--from", self.since, first)
            kept = [k for k in kept if times[k] >= begin]
        if self.until is not None:
            end = _moment("--until", self.until, first)
            kept = [k for k in kept if times[k] < end]
        kept = kept[self.skip :]
        if not kept:
            raise BadInput(
                f"no request is left after --from, --until and --skip: the trace has {len(times)}, "
                f"and the last arrives {float(last - first):g} s after the first"
            )
        kept = kept[: check_take(self.take, len(kept), "requests that are left")]
        count = check_take(self.sample, len(kept), "requests that are left", "--sample (--take)")
        if self.sample is not None:
            kept = [kept[k] for k in sorted(random.Random(self.seed).sample(range(len(kept)), count))]
        return kept

    def slo(self, tick: Fraction) -> Slo | None:
        """Return the objectives in ticks, or None."""
        return slo_in_ticks(tick, latency=self.slo_latency, ttft=self.slo_ttft, tpot=self.slo_tpot)


def iso_seconds(text: str) -> Fraction | None:
    """Return the exact seconds since 1970 of a date, with or without a time of day (UTC unless it has an offset).

    None if it looks like none; ValueError if there is no such day or time.
    """
    match = ISO.fullmatch(text)
    if match is None:
        return None
    offset = "+00:00" if match[4] in (None, "UTC") else match[4]
    since = datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00'}{offset}") - EPOCH
    return 86400 * since.days + since.seconds + Fraction(match[3] or 0)


def _moment(option: str, text: str, first: Fraction) -> Fraction:
    try:
        at = iso_seconds(text)
    except ValueError as error:
        raise BadInput(f"{option} {text}: {error}") from None
    if at is None and not NUMBER.fullmatch(text):
        raise BadInput(f"{option} {text}: write seconds, such as 90, or a time such as 2023-11-16 18:20")
    return first + fraction(option, text, zero=True) if at is None else at


SLOS = ("slo_latency", "slo_ttft", "slo_tpot")
KEYS = (
    "arrival", "prompt", "appends", "decode", "max_new", "call", "returns", "latency", "session", "parent", "id",
    "weight", "priority", "class", *SLOS, "contents",
)  # fmt: skip
TIMES = ("arrival", "call", "latency", *SLOS)
UNITS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
SHARED = re.compile(r"prefix|hash_?ids|block_?hash|cached?_?(read_)?(input_)?tokens", re.IGNORECASE)
"""Names of columns that say which KV was, or could have been, in a cache."""


class Column(NamedTuple):
    """The name of a column, and the unit of its times, or the tokens of a hash, if given."""

    name: str
    unit: Fraction | None = None


@dataclass(frozen=True)
class TraceLayout:
    """The columns of a trace, and what presets need besides.

    `label` names the session of a row from the columns `others`, `order` numbers its rows 0, 1, ..; with `call_before`
    a call stands in the row after it; `least_returns` may be below 0, which counts as 0. `common` has the tokens in
    common with the row before; where it lacks some of that row's, a request begins.
    """

    columns: Mapping[str, Column]
    label: Callable[[Row], str] | None = None
    others: tuple[str, ...] = ()
    order: str | None = None
    call_before: bool = False
    least_returns: int = 0
    common: str | None = None
    letter: str = "r"  # of requests without an id, before the number of their row

    @property
    def sessions(self) -> bool:
        """Whether rows may belong to sessions."""
        return self.label is not None or bool({"session", "parent"} & self.columns.keys())

    @property
    def inputs(self) -> list[str]:
        """The columns whose sum is the input, or is appended."""
        return [self.columns[key].name for key in ("prompt", "appends") if key in self.columns]

    @property
    def appended(self) -> bool:
        """Whether inputs are without their context."""
        return "prompt" not in self.columns

    @property
    def names(self) -> list[str]:
        """All columns read, each once."""
        order = [name for name in (self.order, self.common) if name]
        return list(dict.fromkeys([*self.others, *order, *(column.name for column in self.columns.values())]))

    @property
    def needed(self) -> list[str]:
        """Columns that the first object of a JSONL file must have."""
        keys = ("arrival", "prompt", "appends", "decode", "weight", "id")
        return [self.columns[key].name for key in keys if key in self.columns]

    def session(self, row: Row) -> str:
        """Return the session of a row (empty: none)."""
        if self.label is not None:
            return self.label(row)
        column = self.columns.get("id" if "parent" in self.columns else "session")
        return row.label(column.name) if column and row.text(column.name) else ""

    def seconds(self, row: Row, key: str) -> Fraction | None:
        """Return the seconds in the column of a key, since 1970 for a time of day (None: nothing there)."""
        if key not in self.columns:
            return None
        name, unit = self.columns[key]
        if key == "arrival" and unit is None and not row.text(name).lstrip("-").replace(".", "", 1).isdecimal():
            return _time(row, name)
        if key != "arrival" and not row.text(name):
            return None
        seconds = row.seconds(name)
        return seconds if unit is None or unit == 1 else seconds * unit


def read_map(text: str) -> TraceLayout:
    """Return the layout of `KEY=COLUMN[:UNIT],..`; a column's name may hold anything but `,KEY=`.

    BadInput: a part is no such thing, or keys are missing or mean nothing.
    """
    columns: dict[str, Column] = {}
    for part in re.split(r",\s*(?=\w+=)", text.strip()):
        key, _, name = part.partition("=")
        if key not in KEYS:
            raise unknown("key of --map", key, KEYS)
        if not name.strip():
            raise BadInput(f"--map: {part!r}: write {key}=COLUMN")
        if key in columns:
            raise BadInput(f"--map: {key} stands twice")
        start, _, unit = name.rpartition(":")
        if start and unit in UNITS and key not in TIMES:
            raise BadInput(f"--map: {part!r}: only {', '.join(TIMES)} have a unit")
        if key == "contents" and not (start and unit.isascii() and unit.isdecimal() and 0 < int(unit) <= 10**9):
            raise BadInput(f"--map: {part!r}: write contents=COLUMN:TOKENS, with the tokens of a block of its hashes")
        with_unit = bool(start) and unit in UNITS
        columns[key] = (
            Column(start.strip(), Fraction(unit))
            if key == "contents"
            else Column(start.strip(), UNITS[unit])
            if with_unit
            else Column(name.strip())
        )
    _check_keys(columns.keys())
    return TraceLayout(columns)


def _check_keys(given: Collection[str]) -> None:
    joined = next((key for key in ("session", "parent") if key in given), None)
    for key in ("prompt", "decode"):
        if key not in given and not (key == "prompt" and "appends" in given):
            raise BadInput(f"--map: {key} is missing; write {key}=COLUMN")
    for key in ("call", "returns", "latency", *["appends"] * ("prompt" not in given)):
        if key in given and joined is None:
            raise BadInput(
                f"--map: {key} means nothing without session (or parent), whose rows have a call between them"
            )
    for one, other, why in CLASHES:
        if one in given and other in given:
            raise BadInput(f"--map: {one} and {other}: {why}")
    if "parent" in given and "id" not in given:
        raise BadInput("--map: parent needs id, by which a row names the row before it")
    if joined and not {"arrival", "call"} & set(given):
        raise BadInput(f"--map: {joined} needs arrival or call, from which the time between its rows is known")


HASHED = "hashes of whole prompts do not say what a call returns"
CLASHES = (
    ("contents", "session", HASHED), ("contents", "parent", HASHED),
    ("session", "parent", "give the name of the session, or of the row before"),
    ("appends", "returns", "both say by how much the next input is longer"),
    ("weight", "priority", "a priority becomes the weight"),
)  # fmt: skip


def _time(row: Row, name: str) -> Fraction:
    try:
        seconds = iso_seconds(row.text(name))
    except ValueError:
        row.refuse(name, "a date and a time of day")
    try:
        return row.seconds(name) if seconds is None else seconds
    except BadInput:
        row.refuse(name, "a time such as 2023-11-16 18:15:46.6805900, or seconds")
