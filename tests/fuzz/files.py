"""Files: what is written is read back equal, and whatever is wrong with one is said in one clear line."""

import contextlib
import gzip
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
from library import check as library_check
from sweeps import read_study
from tests.fuzz.case import Case, Part, Wrong, counted_time
from tests.fuzz.certificates import change, patch_steps
from tests.fuzz.draw import objective, tiny
from tests.support.random_schedules import mutate, random_schedule

MODELS = {"instance": Instance, "schedule": Schedule, "certificate": Certificate}
TABLES = ("csv", "jsonl", "run", "cost", "record")
"""What is drawn with numbers that are none, so that no file of these kinds need be good."""
KINDS = (*MODELS, "study", *TABLES)
MUTANTS = 12
BYTES = (b"\x00", b"\xff", b"\xc3(", b"\x1b[31m", b'"', b"{", b"}", b"[" * 300, b"[" * 100_000, b"]", b",", b":",
         b"NaN", b"1e999", b"-1", b"0", b"1.5", b"9" * 20, b"9" * 5000, b"null", b"true", b'"5/0"', b'"\\ud800"',
         b"\\", b"\n", b"\r", b"{n:999999999999}", b"0..99999999", "é".encode(), "\u202e".encode(), b"=", b"'",
)  # fmt: skip
WEIRD = (
    "1e400", "-0", "NaN", "inf", "1e-400", "0x10", "1_000", "\u0663", "1,5", "", "  ", "-5", "1.5", "\0", '"', "=1+1",
    "9" * 400, "1e18", "2020-01-01T00:00:00Z", "9999999999999999", "1e15", "1/3", "true", "null",
    "[" * 995 + "]" * 995, "9" * 5000, "\u001b[31m", "\ud800", "{}", "R1:" + "9" * 30, "R1", "R1:1 R1:1",
)  # fmt: skip
"""What stands where a number should."""
MAP = "arrival=time,prompt=input,decode=output,call=wait:ms,returns=back,session=user,weight=much"
COLUMNS = [part.partition("=")[2].partition(":")[0] for part in MAP.split(",")]
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
    elif kind in TABLES:
        text = table(draw, kind, instance)
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
    if kind not in TABLES:
        yield Case(instance, name, 0, text=f"{kind}\n{text}")
    for _ in range(MUTANTS):
        if kind in TABLES:
            text = table(draw, kind, instance)
        data = (
            structured(draw, text) if kind in MODELS and draw.random() < 0.4 else text.encode("utf-8", "surrogatepass")
        )
        if (data == text.encode("utf-8", "surrogatepass") and kind not in TABLES) or draw.random() < 0.3:
            for _ in range(draw.choice([1, 1, 2, 4])):
                data = bytewise(draw, data)
        yield Case(case.instance, name, 1, text=f"{kind}\n" + data.decode("latin-1"))


def table(draw: Random, kind: str, instance: Instance) -> str:
    """Return a trace, a log, a cost or a record, where some numbers are none."""
    share = draw.choice([0.0, 0.02, 0.1])

    def number(most: int = 9, *, quoted: bool = False) -> str:
        if draw.random() >= share:
            return str(draw.randint(0, most))
        return json.dumps(draw.choice(WEIRD)) if quoted and draw.random() < 0.7 else draw.choice(WEIRD)

    rows = range(draw.choice([0, 1, 2, 5]))
    ids = [request.id for request in instance.requests]
    match kind:
        case "csv":
            return "\n".join([",".join(COLUMNS), *(",".join(number() for _ in COLUMNS) for _ in rows)])
        case "jsonl":
            return "\n".join(
                "{" + ", ".join(f'"{name}": {number(quoted=True)}' for name in COLUMNS) + "}" for _ in rows
            )
        case "run" if draw.random() < 0.5:
            lines = (f"{k}.{number()}," + " ".join(f"{id}:{number()}" for id in ids) for k in rows)
            return "\n".join([draw.choice(["start_s,work", '"start_s,work', "start_s,start_s,work"]), *lines])
        case "run":
            given = ", ".join(f'"{id}": {number(quoted=True)}' for id in ids)
            return "\n".join(f'{{"start_s": "{k}", "work": {{{given}}}, "time": {number()}}}' for k in rows)
        case "cost":
            terms = ", ".join(f'"{name}": {number()}' for name in draw.sample(["busy", "tokens", "divisor"], 2))
            return f'{{"tick_seconds": {number()}, "cost": [{{{terms}}}], "rounding_error": {number()}}}'
    found = json.dumps({"value": 29, "schedule": {"by": "a", "how": "", "seconds": 1, "date": "2026-01-01"}})
    return json.dumps({
        "name": "file", "family": "of", "source": "s", "origin": "o", "licence": "l", "calls": 0,
        "requests": len(ids), "instance_sha256": instance.sha256, "objectives": {"makespan": {}},
    }).replace("{}", found).replace("29", number(quoted=True)).replace(": 1,", f": {number()},")  # fmt: skip


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
        file, instance, out = Path(folder, "of", "file.json"), Path(folder, "instance"), Path(folder, "out.json")
        file.parent.mkdir()
        file.write_bytes(data)
        instance.write_text(case.instance.to_json(), encoding="utf-8")
        file.with_name("file.instance.json.gz").write_bytes(gzip.compress(case.instance.to_json().encode(), 1))
        given = {
            "instance": ("show", file), "csv": ("import", "csv", file, "--map", MAP, "--out", out),
            "jsonl": ("import", "jsonl", file, "--map", MAP, "--out", out),
            "run": ("import", "run", file, "--instance", instance, "--tolerate", "--out", out),
            "cost": ("generate", "fixed", "--n", 2, "--prompt", 3, "--output", 2, "--cost", file, "--out", out),
            "record": ("library", "show", "file", "--library", folder),
        }.get(kind, ("verify", instance, f"--{kind}", file))  # fmt: skip
        code, err = study(file) if kind == "study" else run(*given)
        second(kind, file, instance)
    if case.seed == 0 and code == 2:
        raise Wrong(f"{kind}: a good file is refused", err)
    if code not in (0, 1, 2) or (code == 2 and not err) or (code != 2 and err and kind not in TABLES):
        raise Wrong(f"{kind}: exit code {code}", err)
    if code == 2 and (err.count("\n") != 1 or not err.strip().isprintable() or len(err) > 900):
        raise Wrong(f"{kind}: not one clear line", err)
    seen[f"{kind} {('used', 'invalid', 'refused')[code]}"] += 1


def second(kind: str, file: Path, instance: Path) -> None:
    """Raise Wrong unless `library/check.py` says one line of the file, or what it is worth."""
    given = {"schedule": [instance, file], "certificate": [instance, file], "record": ["--all", file.parents[1]]}
    given["instance"] = [file, file]
    if kind not in given:
        return
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), patch_steps():
        code = library_check.main(given[kind])
    lines = said.getvalue().splitlines()
    if code not in (0, 1, 2) or (code and len(lines) != 1 + (kind == "record" and code == 1)):
        raise Wrong(f"check.py, {kind}: exit code {code}, or not one line", said.getvalue())
    if not all(line.isprintable() and len(line) < 900 for line in lines):
        raise Wrong(f"check.py, {kind}: not a clear line", said.getvalue())


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


REACH = {f"{kind} {what}" for kind in KINDS for what in ("used", "refused")} - {"run used"}
REACH |= {"schedule invalid", "certificate invalid"}
PART = Part("files", make, check, frozenset(REACH | {f"{kind} read back" for kind in MODELS}), tries=1500)
