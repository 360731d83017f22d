"""What the engine and the cost model are to reach on an H200, beside what the records say was measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcore.files import write_text

NOT_YET = "not yet measured"
LARGE = 500_000_000
"""Bytes of KV of a launch from which on decode attention is judged."""

Rows = list[dict[str, Any]]


class Records:
    """The records of a folder by name; None for one that is not there, or of a dry run on a CPU."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> Any:
        """Return the record `name`.json, if it is of a GPU."""
        file = self.folder / f"{name}.json"
        if not file.exists():
            return None
        found = json.loads(file.read_text(encoding="utf-8"))
        facts = found.get("device") if isinstance(found.get("device"), dict) else found
        facts = found["rows"][0] if name in ("kernels", "truth") and found["rows"] else facts
        return found if facts.get("device_type") == "cuda" else None

    def replays(self) -> Iterator[dict[str, Any]]:
        """Yield the records of replays."""
        for file in sorted(self.folder.glob("replay-*.json")):
            found = self.read(file.stem)
            if found is not None:
                yield found


def _attention(records: Records, kind: str) -> Rows:
    found = records.read("kernels") or {"rows": []}
    return [row for row in found["rows"] if row["ours"] and row["kind"] == kind and "seconds_median" in row]


def _large_decodes(records: Records) -> Rows:
    return [row for row in _attention(records, "decode") if row["kv_bytes"] >= LARGE]


def decode_of_read(records: Records) -> float | None:
    """Return the least share of the measured read bandwidth over large decodes."""
    return min((row["of_read"] for row in _large_decodes(records)), default=None)


def decode_over_peer(records: Records) -> float | None:
    """Return the least ratio of the best peer's time to ours over large decodes."""
    return min((row["over_best_peer"] for row in _large_decodes(records) if "over_best_peer" in row), default=None)


def prefill_rate(records: Records) -> float | None:
    """Return the least FLOP/s over whole prompts of 2,048 to 8,192 tokens, in TFLOP/s."""
    rows = [row for row in _attention(records, "prefill") if 2048 <= row["longest"] <= 8192]
    return min((row["flop_per_second"] / 1e12 for row in rows), default=None)


def prefill_over_flex(records: Records) -> float | None:
    """Return the least ratio of the time of torch's flex_attention, which is Triton, to ours over those prompts."""
    found = records.read("kernels") or {"rows": []}
    flex = {
        (row["case"], row["model"]): row["seconds_median"]
        for row in found["rows"]
        if "flex" in row["peer"] and "seconds_median" in row
    }
    ours = [row for row in _attention(records, "prefill") if 2048 <= row["longest"] <= 8192]
    ratios = [flex[key] / row["seconds_median"] for row in ours if (key := (row["case"], row["model"])) in flex]
    return min(ratios, default=None)


def decode_over_floor(records: Records) -> float | None:
    """Return the time of 64 decodes at context 2,048 over the roofline."""
    found = records.read("calibration") or {"rows": []}
    rows = [row for row in found["rows"] if row["label"] == "decode" and row["batch"] == "64 x 1 at 2048"]
    return rows[0]["over_floor"] if rows else None


def swap_rate(records: Records) -> float | None:
    """Return the rate of the largest swaps alone over the copy that was measured, the slower direction."""
    found = records.read("calibration")
    if found is None:
        return None
    link = {"in": "host to device", "out": "device to host"}
    rates = {row["quantity"]: row["per_second"] for row in found["bandwidths"]}
    largest = {row["direction"]: row for row in sorted(found["swaps"], key=lambda row: row["tokens"])}
    return min((largest[way]["bytes_per_second"] / rates[link[way]] for way in link if way in largest), default=None)


def swap_hidden(records: Records) -> float | None:
    """Return the least hidden part of swaps one way that take at most as long as their batch."""
    found = records.read("calibration") or {"swaps": []}
    inside = [row for row in found["swaps"] if row["direction"] != "both" and row["alone"] <= row["without"]]
    return min((row["hidden"] for row in inside if row["hidden"] is not None), default=None)


def held_out_error(records: Records) -> float | None:
    """Return the mean absolute error of batches held out of the fit."""
    found = records.read("calibration")
    errors = found["fit"]["held_out"] if found else None
    return None if errors is None else errors["mean"]


def replay_error(records: Records) -> float | None:
    """Return the mean over replayed schedules of the mean absolute error of their batches."""
    errors = [row["mape"] for replay in records.replays() for row in replay["rows"]]
    return sum(errors) / len(errors) if errors else None


def makespan_error(records: Records) -> float | None:
    """Return the largest error of a makespan over all replays."""
    return max((abs(row["makespan_error"]) for replay in records.replays() for row in replay["rows"]), default=None)


def right_order(records: Records) -> float | None:
    """Return the share of clear pairs of schedules whose order was predicted."""
    rankings = [replay["ranking"] for replay in records.replays()]
    clear = sum(ranking["clear"] for ranking in rankings)
    return sum(ranking["clear_and_right"] for ranking in rankings) / clear if clear else None


def truth(records: Records) -> float | None:
    """Return the share of the checks of levels L0 to L3 that hold."""
    found = records.read("truth")
    return None if found is None else sum(row["holds"] for row in found["rows"]) / len(found["rows"])


@dataclass(frozen=True)
class Target:
    """A quantity, where it is to be, and how it is read from the records."""

    what: str
    limit: float
    at_least: bool
    read: Callable[[Records], float | None]
    percent: bool = True

    def text(self, value: float) -> str:
        """Write a value for people."""
        return f"{100 * value:.1f} %" if self.percent else f"{value:.4g}"

    def row(self, records: Records) -> str:
        """Return its row of the table."""
        value = self.read(records)
        bound = f"{'at least' if self.at_least else 'at most'} {self.text(self.limit)}"
        if value is None:
            return f"| {self.what} | {bound} | {NOT_YET} | |"
        met = value >= self.limit if self.at_least else value <= self.limit
        return f"| {self.what} | {bound} | {self.text(value)} | {'yes' if met else 'no'} |"


TARGETS = (
    Target("checks of tokens and logits, L0 to L3", 1.0, True, truth),
    Target("paged decode attention, of the measured read bandwidth, worst large shape", 0.85, True, decode_of_read),
    Target("paged decode attention, best peer's time over ours, worst large shape", 1.0, True, decode_over_peer, False),
    Target("causal prefill attention, TFLOP/s, worst of 2,048 to 8,192", 450, True, prefill_rate, False),
    Target("the same, flex_attention's time over ours (0.9 would do)", 0.9, True, prefill_over_flex, False),
    Target("1B, 64 decodes at context 2,048, over the roofline", 1.2, False, decode_over_floor, False),
    Target("swaps, of the measured copy, slower direction", 0.95, True, swap_rate),
    Target("swaps hidden within the time of their batch, worst", 0.9, True, swap_hidden),
    Target("held-out batches, mean error", 0.03, False, held_out_error),
    Target("replayed batches, mean error", 0.03, False, replay_error),
    Target("makespan, worst error", 0.02, False, makespan_error),
    Target("order of schedules, clear pairs that are right", 0.95, True, right_order),
)


def table(folder: Path) -> str:
    """Return the page of the records in a folder."""
    records = Records(folder)
    steps = folder / "steps.json"
    lines = [
        "# Records",
        "",
        "What was measured on a GPU, by `python -m gpu_validation.record`; one file for each step, and the commands in",
        "`steps.json`. [docs/replay.md](../../docs/replay.md) says what the quantities are.",
        "",
        _where(steps),
        "",
        "| quantity | target on an H200 | measured | met |",
        "|---|---|---|---|",
        *(target.row(records) for target in TARGETS),
    ]
    return "\n".join(lines) + "\n"


def _where(steps: Path) -> str:
    if not steps.exists():
        return "Not yet measured: no GPU was at hand. `--device cpu --out DIR` is a dry run of the same steps."
    found = json.loads(steps.read_text(encoding="utf-8"))
    failed = [f"{row['step']} ({row['error']})" for row in found["steps"] if not row["ok"]]
    where = "A dry run on a CPU: no numbers of a GPU." if found["device"] == "cpu" else "Measured on a GPU"
    return f"{where.rstrip('.')}, {found['date']}." + (f" Steps that failed: {'; '.join(failed)}." if failed else "")


def write_table(folder: Path) -> None:
    """Write README.md of the folder."""
    write_text(folder / "README.md", table(folder))
