"""Measures everything on one GPU, in under 20 minutes, and writes the records: `python -m gpu_validation.record`.

Each step is a process of its own, so that one that fails, hangs or breaks the device leaves the others whole; what a
step writes is there as soon as it has ended. `--device cpu` is a dry run of all steps at tiny sizes, into a folder of
one's own. A step is a command that a reader can type, where there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kvcore.files import write_text

RECORDS = Path(__file__).parent / "records"
CLI = ("-m", "kvbound")
POLICIES = ("vllm", "sarathi", "infercept", "mars", "augserve", "preserve", "swap")
SLICE = ("vllm", "infercept", "mars", "preserve", "swap")
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Step:
    """A step: its name, what Python is called with, its limit in seconds on a GPU, and the steps that it builds on.

    A dry run has no limits: how long a CPU takes says nothing.
    """

    name: str
    arguments: tuple[str, ...]
    seconds: int
    after: tuple[str, ...] = ()


def steps(device: str, folder: Path) -> list[Step]:
    """Return the steps in order; together they may take 20 minutes on a GPU."""
    dry = device == "cpu"

    def limited(seconds: int) -> tuple[str, ...]:
        return ("--device", device, *(("--quick",) if dry else ("--time-limit", str(seconds))))

    best = "optimum@infercept-ve:k=3"  # proved among schedules with whole prefills
    measure = (*CLI, "calibrate", *limited(110), "--out", cost(folder), *shown(folder, "calibration"))
    return [
        Step("truth", ("-m", "gpu_validation.check", "--device", device, "--json", str(folder / "truth.json")), 90),
        Step("kernels", (*CLI, "kernels", *limited(200), *shown(folder, "kernels")), 240),
        Step("calibration", measure, 150),
        replay(device, folder, "slice", "infercept-ve:k=3,chunked=1", *SLICE, best),
        *(step for seed in SEEDS[: 1 if dry else None] for step in mixture(device, folder, seed)),
    ]


def shown(folder: Path, name: str) -> tuple[str, ...]:
    """Return the options that write what a command found, and its picture."""
    return ("--json", str(folder / f"{name}.json"), "--plot", str(folder / f"{name}.svg"))


def cost(folder: Path) -> str:
    """Return the file of the calibrated cost model."""
    return str(folder / "cost.json")


def replay(device: str, folder: Path, name: str, instance: str, *schedules: str) -> Step:
    """Return the step that replays schedules of an instance at the calibrated cost."""
    rounds = ("--repeats", "2", "--warm-up", "1") if device == "cpu" else ("--repeats", "7", "--warm-up", "3")
    asked = ("--handling", "free", "--cost", cost(folder), "--device", device, *rounds)
    name = f"replay-{name}"
    return Step(name, (*CLI, "replay", instance, *schedules, *asked, *shown(folder, name)), 110, ("calibration",))


def mixture(device: str, folder: Path, seed: int) -> list[Step]:
    """Return the steps that draw requests of InferCept's mixture and replay what the policies make of them."""
    dry, made = device == "cpu", str(folder / f"mixture-{seed}.instance.json")
    drawn = ("--n", "2" if dry else "10", "--rate", "4", "--seed", str(seed), "--handling", "free")
    size = ("--memory", "6144", "--host-memory", "16384", "--batch-tokens", "2048", "--cost", cost(folder))
    generate = (*CLI, "generate", "infercept", *drawn, *size, "--out", made)
    return [
        Step(f"mixture-{seed}", generate, 10, ("calibration",)),
        replay(device, folder, f"mixture-{seed}", made, *(POLICIES[:2] if dry else POLICIES)),
    ]


def run(step: Step, folder: Path, limit: int | None) -> dict[str, object]:
    """Run a step, what it says in a log as it says it; return how it ended, in a row of `steps.json`."""
    started, log = time.monotonic(), folder / f"{step.name}.log"
    with log.open("w", encoding="utf-8") as said:
        try:
            code = subprocess.run([sys.executable, *step.arguments], stdout=said, stderr=said, timeout=limit).returncode
        except subprocess.TimeoutExpired:
            code, _ = 124, said.write(f"stopped after {limit} s")
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    row: dict[str, object] = {
        "step": step.name, "ok": code == 0, "exit_code": code, "seconds": round(time.monotonic() - started, 1),
        "command": " ".join(["python", *step.arguments]),
    }  # fmt: skip
    return row if code == 0 else row | {"error": lines[-1][:300] if lines else ""}


def record(device: str, folder: Path, only: list[str] | None = None) -> list[dict[str, object]]:
    """Run the steps (or only some), and write `steps.json` after each; return its rows."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for step in steps(device, folder):
        if only and step.name not in only:
            continue
        missing = [name for name in step.after if any(row["step"] == name and not row["ok"] for row in rows)]
        if missing:
            rows.append({"step": step.name, "ok": False, "error": f"{missing[0]} failed"})
        else:
            rows.append(run(step, folder, step.seconds if device == "cuda" else None))
        print(f"{step.name}: {'done' if rows[-1]['ok'] else rows[-1]['error']}", flush=True)
        facts = {"device": device, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "steps": rows}
        write_text(folder / "steps.json", json.dumps(facts, indent=1))
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the records and the table of targets; return 0 if every step ended well."""
    from gpu_validation.targets import table

    parser = argparse.ArgumentParser(prog="python -m gpu_validation.record", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    parser.add_argument("--out", type=Path, default=None, help="the folder of the records")
    parser.add_argument("--steps", nargs="+", default=None, help="only these")
    given = parser.parse_args(arguments)
    if given.out is None and given.device == "cpu":
        parser.error("a dry run is no record of a GPU: say with --out where it may write")
    folder = given.out or RECORDS
    names = [step.name for step in steps(given.device, folder)]
    unknown = [name for name in given.steps or [] if name not in names]
    if unknown:
        parser.error(f"there is no step {unknown[0]!r}; there are {', '.join(names)}")
    rows = record(given.device, folder, given.steps)
    write_text(folder / "README.md", table(folder))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
