"""Make what was found smaller for as long as it stays wrong in the same way: what its file says less, and numbers."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from kvcore import Instance, Schedule
from tests.fuzz.case import Case, Finding, Part, judge

Path = tuple[Any, ...]


def shrink(part: Part, finding: Finding, alive: Callable[[], None] = lambda: None) -> Finding:
    """Return a finding of the same kind that no step makes smaller, or what its part's tries have led to."""
    tries, cases = part.tries, simpler(finding.case)
    while tries and (case := next(cases, None)) is not None:
        if size(case) >= size(finding.case):
            continue
        tries -= 1
        alive()
        found = judge(part, case, Counter())
        if found is not None and found.kind == finding.kind:
            finding, cases = found, simpler(case)
    return finding


def simpler(case: Case) -> Iterator[Case]:
    """Yield cases with something less; some of them are no smaller by `size`, and are passed over."""
    if case.text is not None:
        yield from (replace(case, text=text) for text in shorter(case.text))
        return
    document = written(case)
    for less in map(numbered, (*left_out(document), *lower(document))):
        try:
            instance = Instance.model_validate_json(json.dumps(less["instance"]))
            if less["schedule"]:
                batches = of_requests(less["schedule"]["batches"], {request.id for request in instance.requests})
                less["schedule"]["batches"] = list(batches)
            schedule = less["schedule"] and Schedule.model_validate_json(json.dumps(less["schedule"]))
        except ValidationError:  # it cannot be carried out, or is no file
            continue
        yield replace(case, schedule=schedule).of(instance)


def written(case: Case) -> dict[str, Any]:
    """Return the instance and the schedule as in a file, without defaults."""
    parts = {"instance": case.instance, "schedule": case.schedule}
    return {what: part and json.loads(part.model_dump_json(exclude_defaults=True)) for what, part in parts.items()}


def size(case: Case) -> tuple[int, int, int]:
    """Return what shrinks: the letters of the text, the entries of the files, and their numbers."""
    document = written(case)
    values = [value for _, value in places(document)]
    return len(case.text or ""), len(values), sum(1 + abs(value) for value in values if type(value) is int)


def places(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every entry, with the keys that lead to it."""
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield (*path, key), value
            yield from places(value, (*path, key))


def left_out(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the document without one of its entries."""
    for path, _ in places(document):
        less = deepcopy(document)
        holder = _at(less, path[:-1])
        if len(path) > (1 if path[0] == "instance" else 2):
            del holder[path[-1]]
            yield less


def lower(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the document with a smaller number; with the start of a batch, all after it are earlier."""
    for path, value in places(document):
        for number in (None, 0, 1, value // 2, value - 1) if type(value) is int else ():
            less = deepcopy(document)
            if path[-1] == "start" and number is not None:
                for batch in less["schedule"]["batches"][path[2] :]:
                    batch["start"] -= value - number
            else:
                _at(less, path[:-1])[path[-1]] = number
            yield less


def numbered(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the requests named R1, R2, .."""
    text = json.dumps(document)
    for k, request in enumerate(document["instance"].get("requests", ()), 1):
        text = text.replace(f'"{request.get("id")}"', f'"R{k}"')
    return json.loads(text)


def _at(node: Any, path: Path) -> Any:
    for key in path:
        node = node[key]
    return node


def of_requests(batches: list[dict[str, Any]], ids: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the batches with what is done with some requests alone, where anything is."""
    for batch in batches:
        kept = {k: {i: n for i, n in v.items() if i in ids} if isinstance(v, dict) else v for k, v in batch.items()}
        if any(isinstance(value, dict) and value for value in kept.values()):
            yield kept


def shorter(text: str) -> Iterator[str]:
    """Yield the text (its first line is kept) without ever smaller pieces of it."""
    kind, _, content = text.partition("\n")
    length = len(content) // 2
    while length:
        for start in range(0, len(content), length):
            yield f"{kind}\n{content[:start]}{content[start + length :]}"
        length //= 2
