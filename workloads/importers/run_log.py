"""The log of a scheduler, iteration by iteration: ours as CSV or JSON lines, Vidur's, vLLM's.

Nothing is made up: a log that lacks who processed how many tokens is refused. Evictions not named show in work that
starts again (`find_restarts`).
"""

import csv
import io
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from kvcore.csv_table import DECIMAL, WHOLE
from kvcore.errors import BadInput
from kvcore.files import read_text, valid
from kvcore.instance import Handling, Instance, Name, Noun, Positive, Request

MOVES = ("drop", "swap_out", "swap_in")
Held = dict[Name, Positive | None]  # tokens of KV that each request moves; None: all that it has there
_EMPTY: Any = Field(default_factory=dict)


class LoggedBatch(Noun):
    """One iteration: its start, the tokens that each request processed, and the moves before that."""

    start_s: Fraction  # seconds
    work: dict[Name, Positive] = _EMPTY
    drop: Held = _EMPTY
    swap_out: Held = _EMPTY
    swap_in: Held = _EMPTY


class RunLog(Noun):
    """The iterations in order; where `moves` is false it does not say which KV was evicted."""

    source: str
    batches: Annotated[tuple[LoggedBatch, ...], Field(min_length=1)]
    moves: bool
    numbered: bool = False  # its requests are numbers from 0, in the order of the instance


def read_log(path: str | Path, preset: str | None = None) -> RunLog:
    """Read a log: CSV or JSON lines (docs/runs.md), or an engine's (`PRESETS`); `.gz` is unpacked.

    BadInput: it is none, with the line and what is wrong, or it does not say enough.
    """
    if preset is not None and preset not in PRESETS:
        raise BadInput(f"--preset is one of {', '.join(PRESETS)}, not {preset!r}")
    log = PRESETS[preset](str(path)) if preset is not None else _ours(str(path))
    for k, (one, other) in enumerate(pairwise(log.batches), 1):
        if other.start_s < one.start_s:
            raise BadInput(
                f"{path}: batch {k} starts at {float(other.start_s):g} s, before batch {k - 1} "
                f"({float(one.start_s):g} s): the iterations of one device come in order"
            )
    return log


def _ours(path: str) -> RunLog:
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return _csv(path, text)
    lines = list(_lines(path, text))
    moves = any(move in line for _, line in lines for move in MOVES)
    return _log(path, [_batch(place, _seconds(place, line.get("start_s")), line) for place, line in lines], moves)


def _csv(path: str, text: str) -> RunLog:
    reader, batches = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True), []
    try:
        given = {name: name in (reader.fieldnames or ()) for name in ("start_s", "work", *MOVES)}
        for name in ("start_s", "work"):
            if not given[name]:
                raise BadInput(f"{path}, line 1: no column {name}; a log has start_s and work (docs/runs.md)")
        for row in reader:
            place = f"{path}, line {reader.line_num}"
            if "" in row or None in row.values():
                raise BadInput(f"{place}: it has other fields than the header, which names {len(given)} columns")
            parts = {
                name: _cell(f"{place}: {name}", row[name], name in MOVES) for name in ("work", *MOVES) if given[name]
            }
            batches.append(_batch(place, _seconds(place, row["start_s"]), parts))
    except csv.Error as error:
        raise BadInput(f"{path}, line {reader.line_num}: not a CSV file: {error}") from None
    return _log(path, batches, any(given[name] for name in MOVES))


def _cell(place: str, text: str, moves: bool) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for part in text.split():
        id, colon, tokens = part.rpartition(":") if ":" in part else (part, "", "")
        match = WHOLE.fullmatch(tokens)
        if not id or id in found or not (match or (moves and not colon)):
            raise BadInput(
                f"{place} must be request:tokens, once for each request and with spaces between, not {part[:40]!r}"
            )
        found[id] = int(match[1]) if match else None
    return found


def _lines(path: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                found = json.loads(line, parse_float=str, object_pairs_hook=_once)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise BadInput(f"{place}: not a JSON object with each key once; a log has one on each line")
            yield place, found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def _seconds(place: str, value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | str) or not DECIMAL.fullmatch(str(value).strip()):
        raise BadInput(f"{place}: a start must be a decimal number of seconds, it is {str(value)[:40]!r}")
    return Fraction(str(value).strip())


def _batch(place: str, start: Fraction, parts: dict[str, Any]) -> LoggedBatch:
    with valid(f"{place}"):
        return LoggedBatch(**parts | {"start_s": start})


def _log(path: str, batches: list[LoggedBatch], moves: bool, numbered: bool = False) -> RunLog:
    if not batches:
        raise BadInput(f"{path}: it has no iterations")
    return RunLog(source=path, batches=tuple(batches), moves=moves, numbered=numbered)


# --- presets ---------------------------------------------------------------------------------------------------------


def _vidur(path: str) -> RunLog:
    try:
        events = json.loads(read_text(path), parse_float=str)["traceEvents"]
        found = [(event["pid"], event["tid"], event["ts"], event["args"]) for event in events]
        batches = [
            _batch(
                f"{path}, event {k}", _seconds(f"{path}, event {k}", ts) / 10**6,
                {"work": {str(id): n for id, n in zip(args["request_ids"], args["num_tokens"], strict=True)}},
            )
            for k, (_, _, ts, args) in enumerate(found)
        ]  # fmt: skip
    except BadInput:
        raise
    except (ValueError, TypeError, LookupError, RecursionError):
        raise BadInput(
            f"{path}: not Vidur's chrome_trace.json, which alone says which request processed how many tokens in which "
            "batch (its request_metrics.csv and batch metrics do not); have it written with enable_chrome_trace"
        ) from None
    places = {(replica, stage) for replica, stage, _, _ in found}
    if len(places) > 1:
        raise BadInput(f"{path}: {len(places)} replicas and pipeline stages; a run here is that of one device")
    return _log(path, sorted(batches, key=lambda batch: batch.start_s), moves=False, numbered=True)


def _vllm(path: str) -> RunLog:
    """Lines of `SchedulerOutput` (docs/runs.md): vLLM's logs and metrics do not name requests."""
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        raise BadInput(
            f"{path}: not JSON lines of vLLM's SchedulerOutput; what vLLM logs of an iteration itself "
            "(--enable-logging-iteration-details, metrics) does not say which requests work, so that it cannot become "
            "a schedule: docs/runs.md has the lines of code that log it"
        )
    lines = list(_lines(path, text))
    batches = []
    for place, line in lines:
        for key, why in NOT_MODELLED.items():
            if line.get(key):
                raise BadInput(f"{place}: {key} is not empty: {why}")
        preempted = line.get("preempted_req_ids") or []
        if not isinstance(preempted, list) or not all(isinstance(id, str) for id in preempted):
            raise BadInput(f"{place}: preempted_req_ids must be a list of names")
        parts = {"work": line.get("num_scheduled_tokens"), "drop": dict.fromkeys(preempted)}
        batches.append(_batch(place, _seconds(place, line.get("time")), parts))
    first = batches[0].start_s if batches else 0
    batches = [batch.replace(start_s=batch.start_s - first) for batch in batches]
    return _log(path, batches, moves=all(line.get("preempted_req_ids") is not None for _, line in lines))


NOT_MODELLED = {
    "scheduled_spec_decode_tokens": "speculative decoding has no counterpart here",
    "num_cached_tokens": "prefixes shared between requests have no counterpart here (--no-enable-prefix-caching)",
}
"""What vLLM does and no schedule here says."""
PRESETS: dict[str, Callable[[str], RunLog]] = {"vidur": _vidur, "vllm": _vllm}


class _Reading(NamedTuple):
    cuts: int  # times that it had more tokens than were to be processed
    drops: int
    places: tuple[Any, ...] = ()  # batches after which it was dropped, a linked list: the last, and the list before


def restarts(request: Request, steps: list[tuple[int, int]]) -> tuple[list[int], bool]:
    """Return the batches after whose work all KV of a request was dropped, from its (batch, tokens) in order.

    Only where it sat out a batch or more, or in a call that leaves the handling free, can it have been. The reading has
    the fewest impossible tokens, then the most generated, then the fewest evictions. The second result: whether it is
    done in the end.
    """
    known, handlings = _contexts(request)
    readings = {(0, 0, False): _Reading(0, 0)}  # by tokens generated, KV held, and whether the latest work generated
    for k, (batch, tokens) in enumerate(steps):
        before = steps[k - 1][0] if k else batch
        following: dict[tuple[int, int, bool], _Reading] = {}
        for (generated, device, fresh), reading in readings.items():
            done = generated == request.output
            handling = handlings.get(generated) if fresh else None
            for start, dropped in _starts(device, handling, batch > before + 1 and not done):
                missing = 0 if done else known[generated] - start
                count = min(tokens, missing)
                places = (before, reading.places) if dropped else reading.places
                made = _Reading(reading.cuts + (count < tokens), reading.drops + dropped, places)
                generates = count == missing and not done
                key = (generated + generates, start + count, generates)
                if key not in following or made[:2] < following[key][:2]:
                    following[key] = made
        readings = following
    (generated, _, _), best = min(readings.items(), key=lambda found: (found[1].cuts, -found[0][0], found[1].drops))
    dropped_after, places = [], best.places
    while places:
        batch, places = places
        dropped_after.append(batch)
    return dropped_after[::-1], generated == request.output


def _contexts(request: Request) -> tuple[list[int], dict[int, Handling]]:
    known, handlings = [request.prompt], dict[int, Handling]()
    for segment in request.segments:
        known += [known[-1] + k for k in range(1, segment.decode + 1)]
        if segment.call is not None:
            known[-1] += segment.call.returns
            handlings[len(known) - 1] = segment.call.handling
    return known, handlings


def _starts(device: int, handling: str | None, sat_out: bool) -> Iterator[tuple[int, bool]]:
    if handling == "discard":
        yield 0, False
        return
    yield device, False
    if device and (sat_out or handling == "free"):
        yield 0, True


class Restarts(NamedTuple):
    """Evictions that a log without them shows."""

    drops: dict[int, list[str]]  # whose KV was dropped, by the first batch in which that can have been
    left: dict[str, int]  # the last batch of each that works and is not done at the end


def find_restarts(instance: Instance, batches: tuple[LoggedBatch, ...]) -> Restarts:
    """Return what the work of all requests shows."""
    steps: dict[str, list[tuple[int, int]]] = {request.id: [] for request in instance.requests}
    for j, batch in enumerate(batches):
        for id, tokens in batch.work.items():
            steps[id].append((j, tokens))
    found = Restarts({}, {})
    for request in instance.requests:
        dropped_after, done = restarts(request, steps[request.id])
        for last in dropped_after:
            found.drops.setdefault(last + 1, []).append(request.id)
        if steps[request.id] and not done:
            found.left[request.id] = steps[request.id][-1][0]
    return found
