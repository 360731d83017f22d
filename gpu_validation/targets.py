"""Targets of the engine and the cost model on an H100 or H200, beside the records."""

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpu_validation.attention_bench import LARGE
from gpu_validation.bandwidth import LINK

NOT_YET = "not yet measured"


class Target(NamedTuple):
    """A quantity, its target, and its measured value, if any."""

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
    """Return the targets, with the values of a folder's records (none from a CPU)."""
    calibration = _read(folder / "calibration.json")
    ours = [row for row in _read(folder / "kernels.json").get("rows", ()) if row["ours"] and "seconds_median" in row]
    decodes = [row for row in ours if row["kind"] == "decode" and row["kv_bytes"] >= LARGE]
    prompts = [row for row in ours if row["kind"] == "prefill" and 2048 <= row["longest"] <= 8192]
    batch = ("decode", "64 x 1 at 2048")
    floors = [row["over_floor"] for row in calibration.get("rows", ()) if (row["label"], row["batch"]) == batch]
    swaps = [row for row in calibration.get("swaps", ()) if row["direction"] != "both"]
    links = {row["quantity"]: row["per_second"] for row in calibration.get("bandwidths", ())}
    largest = {row["direction"]: row for row in sorted(swaps, key=lambda row: int(row["tokens"]))}
    rates = [row["bytes_per_second"] / links[LINK[way]] for way, row in largest.items()]
    hidden = [row["hidden"] for row in swaps if row["alone"] <= row["without"] and row["hidden"] is not None]
    held_out = [calibration["fit"]["held_out"]["mean"]] if calibration else []
    replays = [found for file in sorted(folder.glob("replay-*.json")) if (found := _read(file))]
    replayed = [row for found in replays for row in found["rows"]]
    taus = [tau for found in replays if (tau := found["kendall_tau"]) is not None]
    regrets = [found["regret"] for found in replays]
    checks = [row["holds"] for row in _read(folder / "truth.json").get("rows", ())]
    slowed = [bool(found["throttled"]) for found in replays if found.get("throttled") is not None]
    errors = {key: [row["batch_error"][key] for row in replayed] for key in ("median", "p95")}
    bound = [row["launch_bound"] for row in replayed]
    return [
        Target("checks of tokens, logits and kernels, L0 to L3", 1.0, True, _mean(checks)),
        Target("paged decode attention, of the measured read bandwidth, worst large shape", 0.85, True,
               min((row["of_read"] for row in decodes), default=None)),
        *(Target(f"{what} attention, D {width}: best peer's time over ours, worst", limit, True,
                 _least(rows, width), False)
          for what, rows, limit in (("paged decode", decodes, 1.0), ("causal prefill", prompts, 0.8))
          for width in (64, 128)),
        Target("1B, 64 decodes at context 2,048, over the roofline", 1.35, False, min(floors, default=None), False),
        Target("swaps, of the measured copy, slower direction", 0.95, True, min(rates, default=None)),
        Target("swaps hidden within the time of their batch, worst", 0.9, True, min(hidden, default=None)),
        Target("held-out batches, mean error", 0.05, False, _mean(held_out)),
        Target("replayed batches, median error", 0.05, False, max(errors["median"], default=None)),
        Target("replayed batches, 95th percentile of the error", 0.15, False, max(errors["p95"], default=None)),
        Target("makespan, worst error", 0.05, False,
               max((abs(row["makespan_error"]) for row in replayed), default=None)),
        Target("Kendall's tau over distinct schedules, worst instance", 0.9, True, min(taus, default=None), False),
        Target("regret of the schedule predicted to be best, worst", 0.02, False, max(regrets, default=None)),
        Target("batches that the host starts no faster than they run, worst", 0.1, False, max(bound, default=None)),
        Target("replays during which the GPU was throttled", 0.0, False, _mean(slowed)),
    ]  # fmt: skip


def _mean(values: Sequence[float]) -> float | None:
    return statistics.mean(values) if values else None


def _least(rows: Sequence[dict[str, Any]], width: int) -> float | None:
    ratios = [row["over_best_peer"] for row in rows if row["head_width"] == width and "over_best_peer" in row]
    return min(ratios, default=None)


def _read(file: Path) -> dict[str, Any]:
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
        "| quantity | target on an H100 or H200 | measured | met |",
        "|---|---|---|---|",
        *(target.row() for target in targets(folder)),
    ]
    return "\n".join(lines) + "\n"


def _where(steps: Path) -> str:
    if not steps.exists():
        return "Not yet measured: no GPU was at hand. `--device cpu --out DIR` is a dry run of the same steps."
    found = json.loads(steps.read_text(encoding="utf-8"))
    failed = [f"{row['step']} ({row['error']})" for row in found["steps"] if not row["ok"]]
    where = "A dry run on a CPU: no numbers of a GPU" if found["device"] == "cpu" else "Measured on a GPU"
    return f"{where}, {found['date']}." + (f" Steps that failed: {'; '.join(failed)}." if failed else "")
