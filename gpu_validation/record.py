"""Measures everything on one GPU within a budget, and writes the records: `python -m gpu_validation.record`.

Each step is a process of its own. One that runs out of time writes its results; called again, only what is missing is
measured. `--device cpu` is a dry run at tiny sizes, into a folder of one's own.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvcore.files import write_text

RECORDS = Path(__file__).parent / "records"
POLICIES = ("vllm", "sarathi", "infercept", "mars", "augserve", "preserve", "swap")
SEEDS = (1, 2, 3)
STOPPED, GRACE, LEAST = 130, 30, 15
"""The exit code of a command told to stop that wrote its results; its seconds for that; least to begin with."""


@dataclass(frozen=True)
class RecordStep:
    """A step: its name, Python's arguments, its limit in seconds on a GPU, and the steps before it."""

    name: str
    arguments: tuple[str, ...]
    seconds: int
    after: tuple[str, ...] = ()


SHOWN = "--json DIR/NAME.json --plot DIR/NAME.svg"
DRAWN = (
    "-m kvbound generate infercept --n {n} --rate 4 --seed {seed} --handling free --memory 6144 --host-memory 16384 "
    "--batch-tokens 2048 --cost DIR/cost.json --out DIR/mixture-{seed}.instance.json"
)
"""Requests of InferCept's mixture."""


def steps(device: str, folder: Path) -> list[RecordStep]:
    """Return the steps in order of worth; together at most 25 minutes on a GPU."""
    dry, every = device == "cpu", " ".join(POLICIES)
    check = f"-m gpu_validation.check --device {device}"
    small, few, n = ("--model tiny --quick", " ".join(POLICIES[:2]), 2) if dry else ("", every, 10)
    rounds = "--repeats 2 --warm-up 1 --time-limit 5" if dry else "--time-limit 30"
    given = f"--handling free --cost DIR/cost.json --device {device} {rounds} {SHOWN}"
    slice_ = f"-m kvbound replay infercept-ve:k=3,chunked=1 {every} optimum@infercept-ve:k=3"
    first, *others = [
        (
            (f"mixture-{seed}", DRAWN.format(n=n, seed=seed), 20, "calibration"),
            (f"replay-mixture-{seed}", f"-m kvbound replay DIR/mixture-{seed}.instance.json {few} {given}", 180,
             "calibration"),
        )
        for seed in SEEDS
    ]  # fmt: skip
    rows = [
        ("preflight", f"{check} --preflight --json DIR/NAME.json", 120, ""),
        ("calibration", f"-m kvbound calibrate --device {device} {small} --block 64 --out DIR/cost.json {SHOWN}", 240,
         "preflight"),
        ("replay-slice", f"{slice_} {given}", 150, "calibration"),
        ("truth", f"{check} --json DIR/NAME.json", 180, "preflight"),
        *first,
        ("kernels", f"-m kvbound kernels --device {device} --quick --json DIR/NAME.json", 240, "preflight"),
    ]  # fmt: skip
    if not dry:
        rows.append(("replay-flashinfer", f"{slice_} --backend flashinfer --calibrate {given}", 150, "calibration"))
        rows += [row for pair in others for row in pair]
    return [
        RecordStep(name, tuple(word.replace("DIR", str(folder)).replace("NAME", name) for word in command.split()),
                   seconds, tuple(after.split()))
        for name, command, seconds, after in rows
    ]  # fmt: skip


def run(step: RecordStep, folder: Path, limit: float | None) -> dict[str, object]:
    """Run a step with a log; return its end, in a row of `steps.json`."""
    started, log = time.monotonic(), folder / f"{step.name}.log"
    with log.open("w", encoding="utf-8") as said:
        process = subprocess.Popen([sys.executable, *step.arguments], stdout=said, stderr=said)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            said.write(f"stopped after {limit:.0f} s\n")
            said.flush()
            process.terminate()
            try:
                code = process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    row: dict[str, object] = {
        "step": step.name, "ok": code in (0, STOPPED), "exit_code": code,
        "seconds": round(time.monotonic() - started, 1), "command": " ".join(["python", *step.arguments]),
    }  # fmt: skip
    return row if row["ok"] else row | {"error": lines[-1][:300] if lines else ""}


def record(
    device: str, folder: Path, only: list[str] | None = None, budget: float | None = None
) -> list[dict[str, object]]:
    """Run the steps (or some) that are not done, and write `steps.json` after each; return its rows.

    A dry run without a budget stops nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, started = folder / "steps.json", time.monotonic()
    before: Any = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"device": device, "steps": []}
    rows: dict[str, Any] = {row["step"]: row for row in before["steps"] if before["device"] == device}
    for step in steps(device, folder):
        if step.name in (only or ()) or (not only and not rows.get(step.name, {}).get("ok")):
            left = None if budget is None else budget - (time.monotonic() - started)
            missing = [name for name in step.after if not rows.get(name, {}).get("ok")]
            if missing:
                rows[step.name] = {"step": step.name, "ok": False, "error": f"{missing[0]} failed"}
            elif left is not None and left < LEAST:
                rows[step.name] = {"step": step.name, "ok": False, "error": "no time was left; run the same again"}
            else:
                limits = [seconds for seconds in (step.seconds if device == "cuda" else None, left) if seconds]
                rows[step.name] = run(step, folder, min(limits, default=None))
            told = rows[step.name]
            print(f"{step.name}: {'done' if told['ok'] else told['error']}", flush=True)
            facts = {"device": device, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "steps": list(rows.values())}
            write_text(file, json.dumps(facts, indent=1))
    return list(rows.values())


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the records and the table of targets; return 0 if every step ended well."""
    from gpu_validation.targets import table

    parser = argparse.ArgumentParser(prog="python -m gpu_validation.record", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    parser.add_argument("--out", type=Path, default=None, help="the folder of the records")
    parser.add_argument("--budget", type=float, default=None, metavar="SECONDS", help="of all steps together")
    parser.add_argument("--steps", nargs="+", default=None, help="only these, and anew")
    given = parser.parse_args(arguments)
    if given.out is None and given.device == "cpu":
        parser.error("a dry run is no record of a GPU: say with --out where it may write")
    folder = given.out or RECORDS
    names = [step.name for step in steps(given.device, folder)]
    unknown = [name for name in given.steps or [] if name not in names]
    if unknown:
        parser.error(f"there is no step {unknown[0]!r}; there are {', '.join(names)}")
    rows = record(given.device, folder, given.steps, given.budget)
    write_text(folder / "README.md", table(folder))
    print(table(folder))
    sent = shutil.make_archive(str(folder.resolve().parent / f"{folder.name}-of-kvbound"), "zip", folder)
    print(f"the file to send back: {sent}")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
