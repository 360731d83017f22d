"""Kills and races: a command that dies at any of its writes, or runs twice at once, leaves files whole or as before."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from heuristics import get_policy, run_policy
from library import Library
from library.library import RECORDS
from tests.fuzz.case import Case, Part, Wrong
from tests.fuzz.draw import tiny
from tests.fuzz.files import run

BEFORE = "earlier\n"
COMMANDS = {
    "simulate": "simulate {i} --policy serial --schedule {f}/s.json --json {f}/r.json --trace {f}/t.json",
    "improve": "improve {i} --from serial --seconds 0.1 --schedule {f}/s.json",
    "bound": "bound {i} --method alone --certificate {f}/c.json --json {f}/r.json",
    "compare": "compare {i} --policies serial --no-optimum --html {f}/r.html --json {f}/r.json",
    "generate": "generate fixed --n 3 --prompt 4 --output 2 --out {f}/i.json",
    "import": "import csv {i}.csv --map prompt=p,decode=d --out {f}/i.json",
    "get": "library get mars-figure1 --out {f}/i.json --schedule {f}/s.json --certificate {f}/c.json",
    "submit": "library submit {i} --by me --library {f}",
    "add": "library add {i} --name new --family mars --source s --origin o --licence l --library {f}",
}  # fmt: skip
"""What writes, with the instance and a folder."""
LIBRARIES = ("submit", "add")


def make(draw: Random) -> Iterator[Case]:
    """A command, and an instance for it."""
    yield Case(tiny(draw)[1], "total-flow-time", 0, text=draw.choice(list(COMMANDS)))


def check(case: Case, seen: Counter[str]) -> None:
    """Kill the command at its first write, its second, .. until it ends; then run two at once."""
    name = case.text or ""
    with tempfile.TemporaryDirectory() as place:
        given = prepared(Path(place), case, name)
        folder = Path(place, "out")
        command = COMMANDS[name].format(i=given, f=folder).split()
        for k in range(1, 200):
            fresh(folder, name, command)
            code = ended(started(command, folder, k))
            look(folder, name, command)
            seen[f"killed {name}"] += code == -signal.SIGKILL
            if code != -signal.SIGKILL:
                break
        if code:
            raise Wrong(f"{name}: it ends with {code}")
        fresh(folder, name, command)
        ends = [ended(process) for process in [started(command, folder, None) for _ in range(2)]]
        look(folder, name, command)
        if not set(ends) <= ({0, 1, 2} if name in LIBRARIES else {0}) or all(ends):
            raise Wrong(f"{name}: two at once end with {ends}")
        seen[f"two of {name}"] += 1


def prepared(place: Path, case: Case, name: str) -> Path:
    """Write what the command reads; return its path."""
    given = place / "given.json"
    given.write_text(case.instance.to_json(), encoding="utf-8")
    Path(f"{given}.csv").write_text("p,d\n3,2\n4,1\n", encoding="utf-8")
    if name == "submit":
        known = Library()
        instance = known.instance(known.record("mars-figure1"))
        given.write_text(run_policy(instance, get_policy("fcfs")).to_json(), encoding="utf-8")
    return given


def fresh(folder: Path, name: str, command: list[str]) -> None:
    """Make the folder as it was before the command: with other files in its places, or a library without values."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if name not in LIBRARIES:
        for target in targets(folder, command):
            target.write_text(BEFORE, encoding="utf-8")
        return
    (folder / "mars").mkdir()
    record = json.loads((RECORDS / "mars" / "mars-figure1.json").read_text(encoding="utf-8"))
    record["objectives"] = {"total-flow-time": {}}
    (folder / "mars" / "mars-figure1.json").write_text(json.dumps(record), encoding="utf-8")
    shutil.copy(RECORDS / "mars" / "mars-figure1.instance.json.gz", folder / "mars")


def targets(folder: Path, command: list[str]) -> list[Path]:
    """Return the files that the command writes."""
    return [Path(word) for word in command if Path(word).parent == folder]


def started(command: list[str], folder: Path, k: int | None) -> int:
    """Run it in a child, which is killed before its k-th write into the folder; return the child."""
    child = os.fork()
    if child:
        return child
    left = [k]

    def hook(event: str, given: tuple[object, ...]) -> None:
        writes = event.startswith(("os.", "shutil.")) and event not in ("os.listdir", "os.scandir", "os.walk")
        if event == "open" and isinstance(given[2], int):
            writes = bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        if writes and left[0] is not None and any(str(folder) in str(one) for one in given):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    code: object = 99
    try:
        sys.addaudithook(hook)
        code, _ = run(*command)
    finally:
        os._exit(code if isinstance(code, int) else 99)


def ended(process: int) -> int:
    """Wait for it; return its exit code, below 0 that of a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def look(folder: Path, name: str, command: list[str]) -> None:
    """Raise Wrong where a file is neither whole nor as before, or a library has something that is not true."""
    if name in LIBRARIES:
        library = Library(folder)
        wrong = [one for each in library.names for one in library.check(each) if one.wrong]
        if wrong:
            raise Wrong(f"{name}: a library that is wrong", wrong)
        return
    for target in targets(folder, command):
        text = target.read_text(encoding="utf-8") if target.exists() else ""
        whole = text.endswith("</html>\n") if target.suffix == ".html" else is_json(text)
        if not whole and text != BEFORE:
            raise Wrong(f"{name}: a file that is lost, or half", f"{target.name}: {text[-80:]!r}")
    others = {path for path in folder.iterdir() if not path.name.endswith(".partial")} - set(targets(folder, command))
    if others:
        raise Wrong(f"{name}: other files", others)


def is_json(text: str) -> bool:
    """Whether it is a whole JSON file."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


PART = Part("kills", make, check, frozenset(f"{what} {name}" for name in COMMANDS for what in ("killed", "two of")))
