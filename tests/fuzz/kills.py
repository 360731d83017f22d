"""Kills and races: a command that dies at any moment, or runs twice at once, leaves files whole, and no process."""

import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psutil

from heuristics import get_policy, run_policy
from library import Library
from library.library import RECORDS
from tests.fuzz.case import Case, Part, Wrong
from tests.fuzz.draw import tiny
from tests.fuzz.files import STUDY, run

CLOCKS = time.monotonic, time.process_time
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
MOMENTS, SOME = 2, 2
"""Moments between writes at which a command is ended, and writes, where it starts processes."""
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
    "solve": "solve {i} --time-limit 5 --schedule {f}/s.json --certificate {f}/c.json --json {f}/r.json",
    "search": "search --policy serial --n 2 --memory 2 --prompt 1 --decode 1 --arrival 0 --out {f}/i.json",
    "check": "check faster-call-vllm --out {f}/d --json {f}/r.json",
    "sweep": "sweep {i}.toml --resume --out {f}/d.sqlite --export {f}/e.csv",
    "fill": "library fill --out {f}/d.sqlite --ways improve,bound --seconds 0.2 --library {f}",
}  # fmt: skip
"""What writes, with the instance and a folder."""
LIBRARIES = ("submit", "add", "fill")
STARTING = ("solve", "search", "check", "sweep", "fill")
"""What starts processes, or takes seconds; it is ended at some of its writes only, and then goes on."""
HOLDS = {"solve": ("hold", "s.json"), "improve": ("hold", "s.json"), "search": ("certify", "i.json")}
"""The function that has found something, and the file that has it even if the command is ended in time."""


class End(NamedTuple):
    """How a child is ended: before its k-th write into the folder, or else the k-th call of a function of Python."""

    k: int
    number: int = signal.SIGKILL
    at_calls: bool = False


def make(draw: Random) -> Iterator[Case]:
    """A command, and an instance for it."""
    yield Case(tiny(draw)[1], "total-flow-time", draw.randrange(2**30), text=draw.choice(list(COMMANDS)))


def check(case: Case, seen: Counter[str]) -> None:
    """End the command at its writes and between them; then run two at once."""
    name, draw = case.text or "", Random(case.seed)
    with tempfile.TemporaryDirectory() as place:
        given = prepared(Path(place), case, name)
        folder = Path(place, "out")
        command = COMMANDS[name].format(i=given, f=folder).split()
        fresh(folder, name, command)
        code, whole = ended(started(command, folder), name, folder)
        if code not in (0, 3):
            raise Wrong(f"{name}: it ends with {code}")
        look(folder, name, command)
        writes = range(1, whole["writes"] + 1)
        moments = [End(k, draw.choice(SIGNALS)) for k in writes]
        if name in STARTING:
            moments = draw.sample(moments, min(SOME, len(moments)))
        moments += [
            End(int(whole["calls"] ** draw.uniform(0.6, 1)), draw.choice(SIGNALS), True) for _ in range(MOMENTS)
        ]
        for end in moments:
            fresh(folder, name, command)
            code, left = ended(started(command, folder, end), name, folder)
            look(folder, name, command)
            lost(folder, name, code, left, end)
            seen[f"{'between' if end.at_calls else 'killed'} {name}"] += "sent" in left
            if name in STARTING or end.at_calls:
                code, _ = ended(started(command, folder), name, folder)
                look(folder, name, command)
                if code not in (0, 3):
                    raise Wrong(f"{name}: after an end it does not go on, {code}", end)
        fresh(folder, name, command)
        ends = [ended(process, name, folder)[0] for process in [started(command, folder) for _ in range(2)]]
        look(folder, name, command)
        if not set(ends) <= ({0, 1, 2, 3} if name in (*LIBRARIES, "sweep") else {0, 3}) or all(ends):
            raise Wrong(f"{name}: two at once end with {ends}")
        seen[f"two of {name}"] += 1


def lost(folder: Path, name: str, code: int, left: dict[str, Any], end: End) -> None:
    """Raise Wrong where a signal that can be heard loses what was found."""
    if "sent" not in left and end.number == signal.SIGKILL:
        return
    allowed = {0, 3, 130, -end.number} if end.number != signal.SIGKILL else {-end.number}
    if "sent" in left and code not in allowed:
        raise Wrong(f"{name}: a signal ends it with {code}", (end, left))
    if code == 130 and name in HOLDS and left.get("found"):
        file = folder / HOLDS[name][1]
        if file.read_text(encoding="utf-8") == BEFORE:
            raise Wrong(f"{name}: what was found is lost", (end, left))


def prepared(place: Path, case: Case, name: str) -> Path:
    """Write what the command reads; return its path."""
    given = place / "given.json"
    given.write_text(case.instance.to_json(), encoding="utf-8")
    Path(f"{given}.csv").write_text("p,d\n3,2\n4,1\n", encoding="utf-8")
    Path(f"{given}.toml").write_text(STUDY.format(n=2, most=1).partition("[[solvers]]")[0], encoding="utf-8")
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
            if target.suffix not in ("", ".sqlite"):
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


def started(command: list[str], folder: Path, end: End | None = None) -> int:
    """Run it in a child, which a signal ends; return the child. A note of what it did is left beside the folder."""
    child = os.fork()
    if child:
        return child
    note, (holds, _) = dict[str, Any](writes=0, calls=0), HOLDS.get(command[0], ("", ""))

    def count(what: str) -> None:
        note[what] += 1
        if end is not None and note[what] == end.k and end.at_calls == (what == "calls"):
            (folder.parent / f"note{os.getpid()}").write_text(json.dumps(note | {"sent": end.number}))
            os.kill(os.getpid(), end.number)

    def hook(event: str, given: tuple[object, ...]) -> None:
        writes = event.startswith(("os.", "shutil.")) and event not in ("os.listdir", "os.scandir", "os.walk")
        if event == "open" and isinstance(given[2], int):
            writes = bool(given[2] & (os.O_WRONLY | os.O_RDWR))
        if writes and any(str(folder) in str(one) for one in given):
            count("writes")

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call":
            count("calls")
        elif event == "return" and frame.f_code.co_name == holds:
            note["found"] = True

    code: object = 99
    try:
        time.monotonic, time.process_time = CLOCKS
        os.environ["KVBOUND_FUZZ"] = folder.parent.name
        for number in SIGNALS[1:]:
            signal.signal(number, signal.SIG_DFL)
        sys.addaudithook(hook)
        sys.setprofile(profile)
        try:
            code, said = run(*command)
        except BaseException:
            said = traceback.format_exc()
        sys.setprofile(None)
        code = 99 if "Traceback" in said else code
        if end is None or code == 99:
            (folder.parent / f"note{os.getpid()}").write_text(json.dumps(note | {"sent": end, "said": said[-2000:]}))
    finally:
        os._exit(code if isinstance(code, int) else 99)


def ended(process: int, name: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """Wait for it; return its exit code, below 0 that of a signal, and its note. Wrong: a process outlives it."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    note = folder.parent / f"note{process}"
    for _ in range(600 if name in STARTING else 0):
        if not (left := [one for one in psutil.process_iter() if started_by(one, folder.parent.name)]):
            break
        time.sleep(0.1)
    else:
        if name in STARTING:
            raise Wrong(f"{name}: a process outlives it", [one.cmdline() for one in left])
    return code, json.loads(note.read_text()) if note.exists() else {}


def started_by(process: psutil.Process, mark: str) -> bool:
    """Whether it has this mark in what it was started with."""
    with suppress(psutil.Error):
        return process.environ().get("KVBOUND_FUZZ") == mark
    return False


def look(folder: Path, name: str, command: list[str]) -> None:
    """Raise Wrong where a file is neither whole nor as before, or a library has something that is not true."""
    if name in LIBRARIES:
        library = Library(folder)
        wrong = [one for each in library.names for one in library.check(each) if one.wrong]
        if wrong:
            raise Wrong(f"{name}: a library that is wrong", wrong)
        return
    if name == "sweep":
        if (folder / "d.sqlite").exists():
            with sqlite3.connect(folder / "d.sqlite") as database:
                database.execute("PRAGMA integrity_check")
        return
    if name == "check":
        for file in folder.rglob("*.json"):
            if not is_json(text := file.read_text(encoding="utf-8")) and text != BEFORE:
                raise Wrong(f"{name}: a file that is half", f"{file.name}: {text[-80:]!r}")
        for file in folder.rglob("counterexample.json"):
            for shown in json.loads(file.read_text(encoding="utf-8"))["shown_by"]:
                if not all((file.parent / shown[what]).exists() for what in ("instance", "schedule")):
                    raise Wrong(f"{name}: a counterexample whose files are not there", shown)
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


PART = Part(
    "kills", make, check, frozenset(f"{what} {name}" for name in COMMANDS for what in ("killed", "between", "two of"))
)
