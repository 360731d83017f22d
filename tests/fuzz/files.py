"""Files: what is written is read back equal, and whatever is wrong with one is said in one clear line."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest import mock

import kvbound as kv
from kvbound.cli import main
from kvcore import BadInput, Instance, Schedule
from kvcore.certificates import Certificate
from kvcore.files import parse
from sweeps import read_study
from tests.fuzz.case import Case, Part, Wrong, counted_time
from tests.fuzz.certificates import change
from tests.fuzz.draw import objective, tiny
from tests.support.random_schedules import mutate, random_schedule

MODELS = {"instance": Instance, "schedule": Schedule, "certificate": Certificate}
KINDS = (*MODELS, "study")
MUTANTS = 12
BYTES = (b"\x00", b"\xff", b"\xc3(", b"\x1b[31m", b'"', b"{", b"}", b"[" * 300, b"[" * 100_000, b"]", b",", b":",
         b"NaN", b"1e999", b"-1", b"0", b"1.5", b"9" * 20, b"9" * 5000, b"null", b"true", b'"5/0"', b'"\\ud800"',
         b"\\", b"\n", b"\r", b"{n:999999999999}", b"0..99999999", "é".encode(), "\u202e".encode(), b"=", b"'",
)  # fmt: skip
STUDY = """name = "study"
objectives = ["total-flow-time"]
[[instances]]
builtin = "hindsight"
parameters = {{ n = {n}, M = 8, seed = "0..{most}" }}
label = "n={{n}}"
[[policies]]
names = ["fcfs", "sjf"]
[[solvers]]
formulation = "search"
time_limit = 10
"""


def make(draw: Random) -> Iterator[Case]:
    """A file of each kind, and mutants of it; the text of a case is its kind, a line break, and its bytes."""
    corner, instance = tiny(draw)
    name = objective(draw, corner)
    case = Case(instance, name, 0)
    kind = draw.choice(KINDS)
    if kind == "study":
        text = STUDY.format(n=draw.randint(1, 4), most=draw.randint(0, 5))
    elif kind == "instance":
        text = instance.to_json()
    elif kind == "schedule":
        try:
            text = mutate(draw, instance, random_schedule(draw, instance)).to_json()
        except AssertionError:  # it takes more batches than are drawn
            return
    else:
        method = draw.choice(["alone", "shares", "auto"])
        with counted_time():
            text = kv.bound(instance, name, method=method, time_limit=10.0).certificate.to_json()
    yield Case(instance, name, 0, text=f"{kind}\n{text}")
    for _ in range(MUTANTS):
        data = structured(draw, text) if kind != "study" and draw.random() < 0.4 else text.encode()
        if data == text.encode() or draw.random() < 0.3:
            for _ in range(draw.choice([1, 1, 2, 4])):
                data = bytewise(draw, data)
        yield Case(case.instance, name, 1, text=f"{kind}\n" + data.decode("latin-1"))


def structured(draw: Random, text: str) -> bytes:
    document = json.loads(text)
    for _ in range(draw.choice([1, 2])):
        change(document, draw, document)
    return json.dumps(document).encode()


def bytewise(draw: Random, data: bytes) -> bytes:
    """Cut, repeat, overwrite or insert some bytes."""
    start = draw.randint(0, len(data))
    end = min(len(data), start + draw.choice([0, 1, 1, 2, 8, 40]))
    kind = draw.randrange(5)
    if kind == 0:
        return data[:start] + data[end:]
    if kind == 1:
        return data[:end] + data[start:end] + data[end:]
    if kind == 2:
        return data[:start] + bytes([draw.randrange(256)]) + data[start + 1 :]
    if kind == 3:
        return data[:start] + draw.choice(BYTES) + data[end:]
    return data[:start] if draw.random() < 0.3 else data[:start] + data[end:] + data[start:end]


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong unless the file is read back equal (seed 0: it is good), or is used or refused in the right way."""
    kind, text = (case.text or "").split("\n", 1)
    data = text.encode("latin-1")
    if case.seed == 0 and kind in MODELS:
        found = parse(MODELS[kind], data.decode(), "file")
        if parse(MODELS[kind], found.to_json(), "file") != found:
            raise Wrong(f"{kind}: not read back equal", text)
        seen[f"{kind} read back"] += 1
    with tempfile.TemporaryDirectory() as folder:
        file, instance = Path(folder, "file"), Path(folder, "instance")
        file.write_bytes(data)
        instance.write_text(case.instance.to_json(), encoding="utf-8")
        if kind == "study":
            code, err = study(file)
        else:
            given = ("show", file) if kind == "instance" else ("verify", instance, f"--{kind}", file)
            code, err = run(*given)
    if case.seed == 0 and code == 2:
        raise Wrong(f"{kind}: a good file is refused", err)
    if code not in (0, 1, 2) or (code == 2) != bool(err):
        raise Wrong(f"{kind}: exit code {code}", err)
    if err and (err.count("\n") != 1 or not err.strip().isprintable() or len(err) > 900):
        raise Wrong(f"{kind}: not one clear line", err)
    seen[f"{kind} {('used', 'invalid', 'refused')[code]}"] += 1


def run(*arguments: object) -> tuple[object, str]:
    """Run a command line in this process; return its exit code and what is on standard error."""
    err = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["kvbound", *map(str, arguments)]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            return ended.code, err.getvalue()
    return None, err.getvalue()


def study(file: Path) -> tuple[object, str]:
    """Read a study, which is all that may be done with one in little time."""
    try:
        read_study(file)
    except BadInput as error:
        return 2, f"{error}\n"
    return 0, ""


REACH = {f"{kind} {what}" for kind in KINDS for what in ("used", "refused")} | {
    "schedule invalid",
    "certificate invalid",
}
PART = Part("files", make, check, frozenset(REACH | {f"{kind} read back" for kind in MODELS}), tries=1500)
