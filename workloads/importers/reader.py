"""Any trace as requests: rows, or sessions of rows with calls between them (`docs/data.md`)."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from kvcore.cost import Cost
from kvcore.csv_table import MachineFor, Row, build_instance, check_tick, read_csv, refuse
from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import LIMIT, Call, Instance, Machine, Request, Segment
from workloads.arrivals import arrivals
from workloads.importers.contents import PIECE, Hashes, Input, Inputs, hashes
from workloads.importers.frame import SOURCE, is_frame, read_frame
from workloads.importers.jsonl import read_jsonl
from workloads.importers.selection import SHARED, SLOS, Selection, TraceLayout, read_map

TICK = Fraction(1, 40)
MOST = 10_000_000  # rows that a trace may have
EMPTY, PROMPTLESS = "rows without output", "rows without a prompt"
SHRUNK = "an input is shorter than the one before (if the column counts what is appended: appends=COLUMN)"
RESUMED, BRANCHED = "the row before has no output", "another row follows the same one"
ORPHAN = "the row before is not in the file"
BEGINS = (SHRUNK, RESUMED, BRANCHED, ORPHAN)  # why a row of a session begins a request
GAPS = "calls last from arrival to arrival, the answer included: no pause is given"
UNLIMITED = "requests have no max_new: engines assume 4,096"
MILLENNIA = 10**11  # seconds that no clock shows since 1970: what counts so many counts something shorter


class Turn(NamedTuple):
    """A row: tokens, exact seconds, and ticks of the call (None: not said). `place` counts rows from 1."""

    place: int
    line: int
    seconds: Fraction
    prompt: int
    decode: int
    max_new: int | None = None
    weight: int = 1
    id: str | None = None
    order: int = 0
    call: int | None = None
    returns: int | None = None
    latency: Fraction | None = None
    hashes: Sequence[str] = ()
    common: int = 0
    parent: str = ""
    priority: int = 0
    slo_class: str | None = None
    slos: Mapping[str, Any] = {}  # seconds


Run = Turn | list[Turn]
"""The rows of a request, in order; a single one stands for itself: a trace may have millions."""


@dataclass(frozen=True)
class Imported:
    """Requests of a trace, made once as they are looked at, and notes on them."""

    source: str
    name: str
    requests: Iterable[Request]
    notes: list[str] = field(default_factory=list)
    hashes: Hashes | Inputs | None = None

    def instance(self, machine: Machine | MachineFor, tick: Fraction, cost: Cost) -> Instance:
        """Return all requests as an instance; BadInput if one does not fit."""
        requests = tuple(self.requests)
        share = None if self.hashes is None else self._share
        return build_instance(self.source, requests, machine, self.name, tick, cost, share)

    def _share(self, instance: Instance) -> Instance:
        assert self.hashes is not None
        instance, note = self.hashes.share(instance, self.source)
        self.notes.append(note)
        return instance


def read_trace(
    path: str | Path | Any,
    columns: str,
    *,
    machine: Machine,
    jsonl: bool = False,
    selection: Selection = Selection(),
    rate: Fraction | None = None,
    drop_too_long: bool = False,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
) -> Instance:
    """Return a selection of any trace as an instance with free calls, in ticks of `tick` seconds.

    The file is CSV with a header, or JSONL, plain or in gzip; or a frame: pandas, Arrow's interface or `__dataframe__`.
    `columns` is as `--map`: `arrival=timestamp:ms,prompt=input_length,decode=output_length`. With `rate` (per second)
    requests without arrivals come as a Poisson process. With `drop_too_long`, those that do not fit the memory are left
    out.

    BadInput: the file is not such a table (with line and column), or an argument is out of range.
    """
    fitting = machine if drop_too_long else None
    trace = read_requests(
        path, read_map(columns), kind="jsonl" if jsonl else "csv", selection=selection, rate=rate, tick=tick,
        machine=fitting,
    )  # fmt: skip
    return trace.instance(machine, tick, cost)


def read_requests(
    path: str | Path | Any,
    layout: TraceLayout,
    *,
    kind: str = "csv",
    selection: Selection = Selection(),
    tick: Fraction,
    rate: Fraction | None = None,
    machine: Machine | None = None,
) -> Imported:
    """Return a selection of a trace (`kind`: `jsonl`, or any for CSV); `rate` and BadInput as in `read_trace`.

    A request without an id is `r` and the number of its row, or the name of its session, with the number of its first
    row there where sessions may be cut. With `machine`, requests that do not fit its memory are left out.
    """
    return _Reader(path, layout, kind, check_tick(tick)).read(selection, rate, machine)


class _Reader:
    def __init__(self, path: Any, layout: TraceLayout, kind: str, tick: Fraction) -> None:
        self.frame = path if is_frame(path) else None
        self.source = str(path) if self.frame is None else SOURCE
        self.layout, self.kind, self.tick = layout, kind, tick
        self.explicit = "returns" in layout.columns
        self.seen = Counter[str]()  # what notes say, and how often
        self.clock: bool | None = None
        self.slos = [key for key in SLOS if key in layout.columns]
        self.ranks: dict[int, int] = {}  # the weight of each priority
        self.notes: list[str] = []
        column = layout.columns.get("contents")
        self.hashes = None if column is None else Hashes(int(column.unit or 1), {})
        self.inputs = Inputs({}) if layout.common else None

    def read(self, selection: Selection, rate: Fraction | None, machine: Machine | None) -> Imported:
        timed = "arrival" in self.layout.columns
        check_meaning(selection, timed, rate)
        names, runs = self._runs()
        all_of_them = len(runs)
        if machine is not None and machine.block_limit is not None:
            runs = [run for run in runs if machine.blocks(self._peak(run)) <= machine.block_limit]
        if not runs:
            least = "" if machine is None else f" fits a memory of {machine.memory} tokens"
            raise BadInput(f"{self.source}: no request is left: none with output{least}")
        kept = selection.pick([_first(run).seconds for run in runs])
        ticks: Iterable[int]
        if timed:
            begin, unit = _first(runs[kept[0]]).seconds, selection.load * self.tick
            last = _first(runs[kept[-1]])
            if last.seconds - begin > LIMIT * unit:
                wanted = f"within {LIMIT} ticks of {self.tick} s after the first (--until leaves out later ones)"
                self._refuse(last, self.layout.columns["arrival"].name, wanted, float(last.seconds))
            column = self.layout.columns["arrival"]
            if begin >= MILLENNIA and column.unit is None:
                self.notes.append(
                    f"{column.name} begins {float(begin):.4g} s after 1970: if it counts ms or ns, say so "
                    f"(arrival={column.name}:ms)"
                )
            ticks = (math.ceil((_first(runs[k]).seconds - begin) / unit) for k in kept)
        else:
            draw = random.Random(selection.seed)
            ticks = arrivals(draw, self.tick, rate=None if rate is None else rate * selection.load)
        name = SOURCE if self.frame is not None else f"{self.kind}:{Path(self.source).name}"
        name += selection.words + ("" if rate is None else f",rate={rate}")
        name += "" if machine is None or machine.memory is None else f", {all_of_them - len(runs)} too long left out"
        shared = [name for name in names if SHARED.search(name) and name not in self.layout.names]
        self.notes += [f"{self.seen[rows]} {rows} are left out" for rows in (EMPTY, PROMPTLESS) if self.seen[rows]]
        if "priority" in self.layout.columns:
            priorities = sorted({_first(runs[k]).priority for k in kept}, reverse=True)
            self.ranks = {priority: rank for rank, priority in enumerate(priorities, 1)}
            self.notes.append(
                f"{len(priorities)} priorities are weights now: the smallest number is the largest weight"
            )
        if shared:
            self.notes.append(f"{', '.join(shared[:4])} not used: prefixes that requests share are computed for each")
        requests = self._requests((runs[k] for k in kept), ticks, selection)
        return Imported(self.source, name, requests, self.notes, self.hashes or self.inputs)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _runs(self) -> tuple[Sequence[str], list[Run]]:
        layout = self.layout
        if self.frame is not None:
            table = read_frame(self.frame, layout.names)
        elif self.kind == "jsonl":
            lists = {layout.columns["contents"].name} if self.hashes else ()
            table = read_jsonl(self.source, layout.names, layout.needed, lists)
        else:
            table = read_csv(self.source, layout.names)
        sessions: dict[str, list[Turn]] = {}
        runs: list[Run] = []
        turns = list[Turn]()  # that name the one before
        for place, row in enumerate(table.rows, 1):
            if place > MOST:
                raise BadInput(f"{self.source}: more than {MOST} rows")
            label = layout.session(row) if layout.sessions else ""
            turn = self._turn(row, place, bool(label))
            if "parent" in layout.columns:
                turns.append(turn)
            elif label:
                sessions.setdefault(label, []).append(turn)
            elif turn.decode:
                runs.append(turn)
        if sessions := self._chains(turns) if turns else sessions:
            cut = [run for label, turns in sessions.items() for run in self._cut(label, turns)]
            runs = sorted([*runs, *cut], key=lambda run: _first(run).place)
            self._say_joined(sum(map(len, sessions.values())), len(sessions), len(cut))
        return table.names, runs

    def _turn(self, row: Row, place: int, in_session: bool) -> Turn:
        layout, keys = self.layout, self.layout.columns
        decode, inputs = keys["decode"].name, layout.inputs
        explicit = self.explicit and in_session
        output = row.whole(decode, 1 if explicit else 0) if explicit or row.text(decode) else 0
        self.seen[EMPTY] += not output
        said = output and (all(map(row.text, inputs)) or (in_session and not explicit))
        if output and not said and not in_session:
            self.seen[PROMPTLESS] += 1
            output = 0
        turn = Turn(
            place=place,
            line=row.line,
            seconds=self._arrival(row),
            prompt=sum(row.whole(name, 0 if "appends" in keys else 1) for name in inputs) if said else 0,
            decode=output,
            max_new=self._limit(row, output),
            weight=row.whole(keys["weight"].name, 1) if "weight" in keys else 1,
            id=row.label(keys["id"].name) if "id" in keys else None,
            hashes=hashes(row.text(keys["contents"].name)) if "contents" in keys else (),
            parent=row.text(keys["parent"].name) if "parent" in keys else "",
            priority=row.whole(name, -LIMIT) if (name := self._filled(row, "priority")) else 0,
            slo_class=row.label(name) if (name := self._filled(row, "class")) else None,
            slos={key: found for key in self.slos if (found := layout.seconds(row, key)) is not None},
        )
        if not in_session:
            return turn
        call = layout.seconds(row, "call")
        returns = keys["returns"].name if self.explicit and row.text(keys["returns"].name) else None
        return turn._replace(
            order=row.whole(layout.order, 0) if layout.order else 0,
            call=None if call is None else row.ticks(keys["call"].name, call, self.tick),
            returns=None if returns is None else row.whole(returns, layout.least_returns),
            latency=layout.seconds(row, "latency"),
            common=row.whole(layout.common, 0) if layout.common else 0,
        )

    def _filled(self, row: Row, key: str) -> str | None:
        column = self.layout.columns.get(key)
        return None if column is None or not row.text(column.name) else column.name

    def _limit(self, row: Row, output: int) -> int | None:
        name = self._filled(row, "max_new")
        if name is None:
            return None
        limit = row.whole(name, 1)
        if limit < output:
            row.refuse(name, f"no less than the {output} tokens generated")
        return limit

    def _arrival(self, row: Row) -> Fraction:
        seconds = self.layout.seconds(row, "arrival")
        if seconds is None:
            return Fraction(0)
        name = self.layout.columns["arrival"].name
        clock = row.text(name)[4:8:3] == "--"
        if self.clock not in (None, clock):
            row.refuse(name, "a time of day, as before" if self.clock else "a number, as before")
        self.clock = clock
        return seconds

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _chains(self, turns: Sequence[Turn]) -> dict[str, list[Turn]]:
        known = {turn.id: turn for turn in reversed(turns)}
        after = dict[str | None, Turn]()
        for turn in sorted(turns, key=lambda turn: turn.seconds):
            if known[turn.id] is not turn:
                raise BadInput(f"{self.source}, line {turn.line}: another row has the id {turn.id}")
            if turn.parent in known and turn.parent != turn.id:
                self.seen[BRANCHED] += turn.parent in after
                after.setdefault(turn.parent, turn)
            else:
                self.seen[ORPHAN] += turn.parent not in ("", "-1", turn.id)
        later = {turn.id for turn in after.values()}
        sessions = {str(turn.id): [turn] for turn in turns if turn.id not in later}
        for chain in sessions.values():
            while following := after.get(chain[-1].id):
                chain.append(following)
        if sum(map(len, sessions.values())) < len(turns):
            raise BadInput(f"{self.source}: some rows name each other in a circle as the row before")
        return sessions

    def _say_joined(self, rows: int, sessions: int, requests: int) -> None:
        column = self.layout.columns.get("session")
        reasons = [f"{self.seen[why]} begin where {why}" for why in BEGINS if self.seen[why]]
        if column and "parent" in column.name.lower():
            reasons.append(f"if {column.name} names the row before, give parent={column.name},id=COLUMN")
        if rows > requests or requests > sessions:
            told = ": " + ", ".join(reasons) if reasons else ""
            self.notes.append(f"{rows} rows in {sessions} sessions make {requests} requests{told}")

    def _cut(self, label: str, turns: list[Turn]) -> Iterator[list[Turn]]:
        if self.layout.order:
            self._check_order(label, turns)
        elif "parent" not in self.layout.columns:
            turns.sort(key=lambda turn: turn.seconds)
        if self.layout.appended:
            held = list(accumulate(turn.prompt + turn.decode for turn in turns))
            turns = [turn._replace(prompt=end - turn.decode) for turn, end in zip(turns, held, strict=True)]
        begin, earlier, last, seen = 0, None, 0, False
        for k, turn in enumerate([*turns, None]):
            shrank = turn and k > begin and not self.explicit and self._shrank(turns[k - 1], turn)
            if turn and turn.decode and not shrank:
                continue
            self.seen[SHRUNK] += bool(shrank and turn and turn.decode)
            if k > begin:
                self.seen[RESUMED] += bool(seen and not turns[begin - 1].decode)
                seen = True
                first, name = turns[begin], label if self.explicit else f"{label}/{begin}"
                if self.inputs is not None:
                    common = min(turn.common for turn in turns[last + 1 : begin + 1]) if earlier else 0
                    self.inputs.of[first.id or name] = Input(turns[k - 1].prompt, earlier, common)
                    earlier, last = first.id or name, k - 1
                yield [first._replace(id=first.id or name), *turns[begin + 1 : k]]
            begin = k if turn and turn.decode else k + 1

    def _shrank(self, before: Turn, turn: Turn) -> bool:
        changed = self.inputs is not None and turn.common // PIECE < before.prompt // PIECE
        return changed or turn.prompt < before.prompt

    def _check_order(self, label: str, turns: list[Turn]) -> None:
        order, lines = self.layout.order or "", dict[int, int]()
        for turn in turns:
            if turn.order in lines:
                wanted = f"another: line {lines[turn.order]} has the same one of that session"
                self._refuse(turn, order, wanted, turn.order)
            lines[turn.order] = turn.line
        turns.sort(key=lambda turn: turn.order)
        for k, turn in enumerate(turns):
            if turn.order != k:
                self._refuse(turn, order, f"{k}, the next one of session {label}", turn.order)
            if k and turn.seconds < turns[k - 1].seconds:
                wanted = f"no earlier than that of line {turns[k - 1].line}, the row of the session before it"
                self._refuse(turn, self.layout.columns["arrival"].name, wanted, float(turn.seconds))

    def _shape(self, turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
        held = turns[0].prompt
        for turn, after in zip(turns, [*turns[1:], None], strict=True):
            held += turn.decode
            returns = 0 if after is None else (max(0, turn.returns or 0 if self.explicit else after.prompt - held))
            held += returns
            yield turn.decode, returns

    def _peak(self, run: Run) -> int:
        return _first(run).prompt + sum(decode + returns for decode, returns in self._shape(_turns(run))) - 1

    # --- requests -----------------------------------------------------------------------------------------------------

    def _requests(self, runs: Iterable[Run], ticks: Iterable[int], selection: Selection) -> Iterator[Request]:
        usual, known = selection.slo(self.tick), set[str]()
        unique = not self.layout.sessions and "id" not in self.layout.columns
        for run, arrival in zip(runs, ticks, strict=False):
            first = _first(run)
            name = first.id or f"{self.layout.letter}{first.place}"
            if not first.prompt:
                wanted, found = (
                    ("a whole number above 0", "0") if "appends" in self.layout.columns else ("a whole number", "")
                )
                self._refuse(first, self.layout.inputs[-1], wanted, found)
            if not unique:
                if name in known:
                    raise BadInput(f"{self.source}, line {first.line}: another request has the id {name}")
                known.add(name)
            if self.hashes is not None:
                self.hashes.of[name] = first.hashes
            limits = [turn.max_new for turn in _turns(run)]
            self.seen[UNLIMITED] += None in limits and "max_new" in self.layout.columns
            slo = replace(selection, **first.slos).slo(self.tick) if first.slos else usual
            with valid(f"{self.source}, line {first.line}"):
                request = Request(
                    id=name, arrival=arrival, prompt=first.prompt, weight=self.ranks.get(first.priority, first.weight),
                    slo=slo, slo_class=first.slo_class,
                    max_new=None if None in limits else max(limit for limit in limits if limit is not None),
                    segments=self._segments(_turns(run)),
                )  # fmt: skip
            yield request
        self.notes += [f"{self.seen[what]} {what}" for what in (GAPS, UNLIMITED) if self.seen[what]]

    def _segments(self, turns: Sequence[Turn]) -> tuple[Segment, ...]:
        *before, (last, _) = self._shape(turns)
        calls = [
            Segment(decode=decode, call=Call(duration=self._pause(turn, after), returns=returns))
            for (decode, returns), turn, after in zip(before, turns, turns[1:], strict=False)
        ]
        return (*calls, Segment(decode=last))

    def _pause(self, turn: Turn, after: Turn) -> int:
        keys = self.layout.columns
        if self.explicit and turn.returns is None:
            self._refuse(turn, keys["returns"].name, "a whole number", "")
        call = after.call if self.layout.call_before else turn.call
        if call is not None:
            return call
        if "arrival" not in keys:
            name = keys["call"].name if "call" in keys else "call"
            self._refuse(turn, name, "a decimal number", "")
        self.seen[GAPS] += turn.latency is None
        gap = max(Fraction(0), after.seconds - turn.seconds - (turn.latency or 0))
        ticks = math.ceil(gap / self.tick)
        if ticks > LIMIT:
            self._refuse(after, keys["arrival"].name, f"within {LIMIT} ticks of the row before", float(after.seconds))
        return ticks

    def _refuse(self, turn: Turn, column: str, wanted: str, value: object) -> Any:
        refuse(self.source, turn.line, column, wanted, str(value))


def _first(run: Run) -> Turn:
    return run if isinstance(run, Turn) else run[0]


def _turns(run: Run) -> Sequence[Turn]:
    return [run] if isinstance(run, Turn) else run


def check_meaning(selection: Selection, timed: bool, rate: Fraction | None) -> None:
    """Refuse options without meaning for a trace with arrivals (`timed`), or without."""
    if timed and rate is not None:
        raise BadInput("--rate is for a trace without arrivals; leave arrival out of --map, or give --load")
    if not timed and (selection.since is not None or selection.until is not None):
        raise BadInput("--from and --until mean nothing for a trace without a column of arrivals")
    if not timed and rate is None and selection.load != 1:
        raise BadInput(
            "--load means nothing where all requests arrive at once; give --rate, or map a column of arrivals"
        )
