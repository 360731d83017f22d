"""What the engine and the cost model are to reach on an H200, beside what the records say was measured."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from gpu_validation.attention_bench import LARGE
from gpu_validation.floors import LINK

NOT_YET = "not yet measured"


class Target(NamedTuple):
    """A quantity, where it is to be, and what was measured, if anything was."""

    what: str
    limit: float
    at_least: bool
    value: float | None
    percent: bool = True

    def row(self) -> str:
        """Return its row of the table."""
        bound = f"{'at least' if self.at_least else 'at most'} {self._text(self.limit)}"
        if self.value is None:
            return f"| {self.what} | {bound} | {NOT_YET} | |"
        met = self.value >= self.limit if self.at_least else self.value <= self.limit
        return f"| {self.what} | {bound} | {self._text(self.value)} | {'yes' if met else 'no'} |"

    def _text(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.4g}"


def targets(folder: Path) -> list[Target]:
    """Return the targets, with the values that the records of a folder give; those of a dry run on a CPU give none."""
    calibration = _read(folder / "calibration.json")
    timed = [row for row in _read(folder / "kernels.json").get("rows", ()) if "seconds_median" in row]
    decodes = [row for row in timed if row["ours"] and row["kind"] == "decode" and row["kv_bytes"] >= LARGE]
    prompts = [row for row in timed if row["ours"] and row["kind"] == "prefill" and 2048 <= row["longest"] <= 8192]
    flex = {(row["case"], row["model"]): row["seconds_median"] for row in timed if "flex" in row["peer"]}
    over_flex = [flex[case] / row["seconds_median"] for row in prompts if (case := (row["case"], row["model"])) in flex]
    floors = [
        row["over_floor"] for row in calibration.get("rows", ())
        if (row["label"], row["batch"]) == ("decode", "64 x 1 at 2048")
    ]  # fmt: skip
    swaps = sorted(
        (row for row in calibration.get("swaps", ()) if row["direction"] != "both"), key=lambda row: int(row["tokens"])
    )
    links = {row["quantity"]: row["per_second"] for row in calibration.get("bandwidths", ())}
    rates = {row["direction"]: row["bytes_per_second"] / links[LINK[row["direction"]]] for row in swaps}
    hidden = [row["hidden"] for row in swaps if row["alone"] <= row["without"] and row["hidden"] is not None]
    held_out = calibration["fit"]["held_out"] if calibration else None
    replays = [found for file in sorted(folder.glob("replay-*.json")) if (found := _read(file))]
    replayed = [row for found in replays for row in found["rows"]]
    clear, right = (sum(found["ranking"][key] for found in replays) for key in ("clear", "clear_and_right"))
    holds = [row["holds"] for row in _read(folder / "truth.json").get("rows", ())]
    return [
        Target("checks of tokens and logits, L0 to L3", 1.0, True, statistics.mean(holds) if holds else None),
        Target("paged decode attention, of the measured read bandwidth, worst large shape", 0.85, True,
               min((row["of_read"] for row in decodes), default=None)),
        Target("paged decode attention, best peer's time over ours, worst large shape", 1.0, True,
               min((row["over_best_peer"] for row in decodes if "over_best_peer" in row), default=None), False),
        Target("causal prefill attention, TFLOP/s, worst of 2,048 to 8,192", 450, True,
               min((row["flop_per_second"] / 1e12 for row in prompts), default=None), False),
        Target("the same, flex_attention's time over ours (0.9 would do)", 0.9, True,
               min(over_flex, default=None), False),
        Target("1B, 64 decodes at context 2,048, over the roofline", 1.2, False, next(iter(floors), None), False),
        Target("swaps, of the measured copy, slower direction", 0.95, True, min(rates.values(), default=None)),
        Target("swaps hidden within the time of their batch, worst", 0.9, True, min(hidden, default=None)),
        Target("held-out batches, mean error", 0.03, False, held_out["mean"] if held_out else None),
        Target("replayed batches, mean error", 0.03, False,
               statistics.mean(row["mape"] for row in replayed) if replayed else None),
        Target("makespan, worst error", 0.02, False,
               max((abs(row["makespan_error"]) for row in replayed), default=None)),
        Target("order of schedules, clear pairs that are right", 0.95, True, right / clear if clear else None),
    ]  # fmt: skip


def _read(file: Path) -> dict[str, Any]:
    """Return a record of a GPU; nothing where there is none."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return dict(json.loads(text)) if re.search(r'"device_type":\s*"cuda"', text) else {}


def table(folder: Path) -> str:
    """Return the page of the records in a folder."""
    lines = [
        "# Records",
        "",
        "What was measured on a GPU, by `python -m gpu_validation.record`; one file for each step, and the commands in",
        "`steps.json`. [docs/replay.md](../../docs/replay.md) says what the quantities are.",
        "",
        _where(folder / "steps.json"),
        "",
        "| quantity | target on an H200 | measured | met |",
        "|---|---|---|---|",
        *(target.row() for target in targets(folder)),
    ]
    return "\n".join(lines) + "\n"


def _where(steps: Path) -> str:
    if not steps.exists():
        return "Not yet measured: no GPU was at hand. `--device cpu --out DIR` is a dry run of the same steps."
    found = json.loads(steps.read_text(encoding="utf-8"))
    failed = [f"{row['step']} ({row['error']})" for row in found["steps"] if not row["ok"]]
    where = "A dry run on a CPU: no numbers of a GPU." if found["device"] == "cpu" else "Measured on a GPU"
    return f"{where.rstrip('.')}, {found['date']}." + (f" Steps that failed: {'; '.join(failed)}." if failed else "")
