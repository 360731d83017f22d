"""`python -m tests.fuzz --hours H|--minutes M --seed S [--jobs J] [--only PART,..] [--out FOLDER] [--replay FILE]`."""

import argparse
import json
import signal
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz import bounds, certificates, costly, files, kills, optima, policies, records, referee
from tests.fuzz.case import Case, judge
from tests.fuzz.report import State
from tests.fuzz.run import run

PARTS = [referee.PART, optima.PART, bounds.PART, certificates.PART, costly.PART, policies.PART, files.PART,
         kills.PART, records.PART, optima.CP_SAT]  # fmt: skip


def main() -> int:
    """Run; 0: nothing was found, 1: something was (in this run or before), 2: bad usage."""
    names = ", ".join(part.name for part in PARTS)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random cases, for hours.")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, help="in place of --hours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="parts that run at a time")
    parser.add_argument("--only", help=f"some of {names}")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where findings and state.json are")
    parser.add_argument("--replay", type=Path, help="look at the case of a finding again")
    given = parser.parse_args()
    chosen = [part for part in PARTS if given.only is None or part.name in given.only.split(",")]
    if given.only is not None and len(chosen) != len(set(given.only.split(","))):
        parser.error(f"--only {given.only}: the parts are {names}")
    if given.replay is not None:
        return replay(given.replay)
    try:
        state = State(given.out, given.seed)
    except ValueError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(chosen, state, given.hours if given.minutes is None else given.minutes / 60, given.jobs)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here")
    print(state.table(chosen))
    return int(any(state.of(part.name)["findings"] for part in chosen))


def replay(file: Path) -> int:
    """Look at the case of a finding again; 1 if it is still wrong."""
    document = json.loads(file.read_text(encoding="utf-8"))
    part = next(part for part in PARTS if part.name == document["part"])
    found = judge(part, Case.read(document["case"]), Counter())
    print("nothing is wrong" if found is None else found.detail)
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main())
