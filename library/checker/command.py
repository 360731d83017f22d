"""The command: an instance with a schedule or a certificate, or every record of the library."""

from __future__ import annotations

import re
import sys
from collections import Counter
from math import ceil, inf
from pathlib import Path
from typing import Any

from library.checker.files import (
    Bad,
    Broken,
    NotChecked,
    Shape,
    check,
    claim,
    headed,
    integer,
    load,
    number,
    one_of,
    optional,
    ratio,
    shaped,
    text,
)
from library.checker.instance import read_instance, sha256
from library.checker.kinds import verify_certificate
from library.checker.objectives import AVERAGES, OBJECTIVES
from library.checker.referee import verify_schedule


def held(path: Path, claimed: object, objective: str, kind: str) -> Any:
    """What a record claims: with the claim in its name, while it is not yet in its place."""
    new = path.with_name(f".{path.stem}.{objective}.{kind}.{claimed}.json.gz".replace("/", "_"))
    return load(new if new.exists() else path.with_name(f"{path.stem}.{objective}.{kind}.json.gz"))


def matches(pattern: str) -> Shape:
    """The shape of a text of a pattern."""
    return check(lambda value: isinstance(value, str) and re.fullmatch(pattern, value), f"a text like {pattern}")


seconds = check(lambda value: type(value) in (int, float) and 0 <= value < inf, "a number of seconds")
made = optional({"by": text, "how": text, "seconds": seconds, "date": matches(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")})
best = {
    **dict.fromkeys(("value", "bound"), (optional(ratio), None)), "status": (one_of("solved", "open"), "open"),
    **dict.fromkeys(("schedule", "certificate"), (made, None)),
}  # fmt: skip
record_file = headed("record") | {
    **dict.fromkeys(("name", "family"), matches("[A-Za-z0-9-]{1,100}")),
    **dict.fromkeys(("source", "origin", "licence", "instance_sha256"), text),
    "requests": integer(1), "calls": number, "objectives": {str: best},
}  # fmt: skip


def check_record(path: Path) -> str:
    """Check what a record of the library (docs/library.md) claims; return what was checked, in words."""
    data = load(path)
    record = shaped(data, record_file, "record")
    instance = read_instance(load(path.with_name(f"{path.stem}.instance.json.gz")))
    calls = sum(len(one.segments) - 1 for one in instance.requests)
    if (record.family, record.name) != (path.parent.name, path.stem):
        raise Broken(f"it says that it is {record.family}/{record.name}")
    if (record.instance_sha256, record.requests, record.calls) != (sha256(instance), len(instance.requests), calls):
        raise Broken("it is of another instance")
    if not record.objectives or record.objectives.keys() - set(OBJECTIVES):
        raise Broken(f"its objectives are {list(record.objectives)}")
    done, known = [], {f"{path.stem}.instance.json.gz"}
    for objective, claimed in record.objectives.items():
        written = data["objectives"][objective]
        for kind, value in (("schedule", claimed.value), ("certificate", claimed.bound)):
            known |= {f"{path.stem}.{objective}.{kind}.json.gz"} if value is not None else set()
            if (value is None) != (claimed[kind] is None):
                raise Broken(f"{objective}: it has a {kind} and no value of it, or a value and no {kind}")
        if claimed.value is not None:
            value = verify_schedule(instance, held(path, written["value"], objective, "schedule"))[objective]
            if value != claimed.value:
                raise Broken(f"{objective}: the schedule has {value}, the record says {claimed.value}")
        if claimed.bound is not None:
            said = held(path, written["bound"], objective, "certificate")
            of, _ = verify_certificate(instance, said)
            bound = claim(said["bound"], "bound")
            if (of, bound if of in AVERAGES else ceil(bound)) != (objective, claimed.bound):
                raise Broken(f"{objective}: the certificate claims {of} >= {said['bound']}, not {claimed.bound}")
        if (claimed.status == "solved") != (claimed.value is not None and written["value"] == written.get("bound")):
            raise Broken(f"{objective}: it is called {claimed.status} with {claimed.value} and bound {claimed.bound}")
        done.append(f"{objective} {claimed.value} >= {claimed.bound}")
    for each in path.parent.glob(f"{path.stem}.*.gz"):
        if each.name not in known:
            raise Broken(f"no objective of it has the file {each.name}")
    return ", ".join(done)


def check_all(folder: str) -> int:
    """Check every record below a folder; the exit code."""
    wrong, records = 0, sorted(path for path in Path(folder).rglob("*.json") if path.name.count(".") == 1)
    if not records:
        raise Bad(f"{folder}: there is no record below it")
    names = Counter(path.stem for path in records)
    for path in records:
        try:
            if names[path.stem] > 1:
                raise Broken("two records have this name")
            print(f"{path.stem}: {check_record(path)}", flush=True)
        except (Bad, Broken, RecursionError, MemoryError) as error:
            wrong += 1
            what = "NOT CHECKED" if isinstance(error, NotChecked | MemoryError) else "WRONG"
            print(f"{path.stem}: {what}: {error or 'there is too little memory'}", flush=True)
    print(f"{len(records)} records, {wrong} of them wrong or not checked")
    return int(wrong > 0)


def main(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    try:
        if len(arguments) == 2 and arguments[0] == "--all":
            return check_all(arguments[1])
        if len(arguments) != 2:
            print(__doc__, file=sys.stderr)
            return 2
        instance, data = read_instance(load(arguments[0])), load(arguments[1])
        if isinstance(data, dict) and ("proof" in data or data.get("format") == "kvbound-certificate"):
            objective, bound = verify_certificate(instance, data)
            print(f"valid: {objective} is at least {bound}")
        else:
            for objective, value in verify_schedule(instance, data).items():
                print(f"{objective} {value}")
    except Broken as error:
        print(f"{'not checked' if isinstance(error, NotChecked) else 'invalid'}: {error}")
        return 1
    except (Bad, RecursionError) as error:
        print(error, file=sys.stderr)
        return 2
    except MemoryError:
        print("not checked: there is too little memory")
        return 1
    return 0
