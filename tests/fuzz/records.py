"""Certificates of the library, mutated: no checker believes more of an instance than a schedule of it is worth."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any
from unittest import mock

from kvcore import BadInput
from kvcore.certificates import Certificate, InvalidCertificate, verify_certificate
from kvcore.certificates.budget import Budget
from kvcore.files import parse
from library import Library
from library import check as second
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.certificates import change, patch_steps
from tests.fuzz.costly import MEMORY, WORK, watched

MUTANTS, DEEPLY = 20, 3
"""Mutants of a certificate, and how many of them get the whole budgets."""
WHOLE, LITTLE = (WORK, 2 * 10**7), (WORK // 20, 2 * 10**5)
"""What kvbound and `library/check.py` may count."""
SMALLEST = 15
"""Records of a kind that are looked at."""
KINDS = ("alone", "configurations", "events", "potentials", "shares", "slot-dual", "slots", "speed")
DEEP = "@"
ODD = (None, True, "", "1", "1/0", "-5/3", 1.5, -1, 2**63, 10**400, [], {}, [[]], [0] * 10**5, DEEP)
"""What stands where it should not."""


@cache
def known() -> dict[str, list[tuple[int, str, str]]]:
    """Return by kind the smallest records that have a schedule and such a certificate: requests, name, objective."""
    library, found = Library(), defaultdict[str, list[tuple[int, str, str]]](list)
    for record in library.records():
        for objective, best in record.objectives.items():
            if best.value is not None and (certificate := library.certificate(record, objective)) is not None:
                found[certificate.proof.kind].append((record.requests, record.name, objective))
    return {kind: sorted(of)[:SMALLEST] for kind, of in found.items()}


def make(draw: Random) -> Iterator[Case]:
    """A record, by the kind of its certificate."""
    _, name, objective = draw.choice(known()[draw.choice(KINDS)])
    library = Library()
    yield Case(library.instance(library.record(name)), objective, draw.randrange(2**30), text=name)


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a mutant proves more than the best value, or takes more than it may."""
    library, draw = Library(), Random(case.seed)
    record = library.record(case.text or "")
    certificate = library.certificate(record, case.objective)
    if certificate is None or record.instance_sha256 != case.instance.sha256:
        raise Skip
    kind, instance = certificate.proof.kind, second.read_instance(json.loads(case.instance.to_json()))
    for k in range(MUTANTS):
        text, (work, steps) = mutant(certificate, draw), WHOLE if k < DEEPLY else LITTLE
        believed = dict[str, tuple[str, Any]]()
        with (
            watched(f"record, {kind}"), mock.patch.object(Budget.__init__, "__defaults__", (work, MEMORY)),
            suppress(BadInput, InvalidCertificate),
        ):  # fmt: skip
            read = parse(Certificate, text, "c.json")
            believed["believed"] = read.objective, verify_certificate(case.instance, read)
        with watched(f"check.py, record, {kind}"), patch_steps(steps), suppress(ValueError, RecursionError):
            document = json.loads(text, object_pairs_hook=second.once, parse_constant=second.refused)
            with suppress(second.Bad, second.Broken):
                believed["check.py believed"] = second.verify_certificate(instance, document)
        for who, (objective, bound) in believed.items():
            best = record.objectives.get(objective)
            if best is not None and best.value is not None and bound > Fraction(best.value):
                raise Wrong(f"record, {kind}, {who}: above a schedule", f"{bound} > {best.value}: {text[:5000]}")
            seen[f"{who} {kind}"] += 1
        seen[f"looked at {kind}"] += 1


def mutant(certificate: Certificate, draw: Random) -> str:
    """Return the text of a certificate after one to three changes of numbers, sizes or structure; it claims little."""
    document = json.loads(certificate.to_json())
    for _ in range(draw.choice([1, 1, 2, 3])):
        if draw.random() < 0.6:
            change(document["proof"], draw, document["proof"])
        else:
            break_one(draw.choice([document, document["proof"]]), draw)
        if not isinstance(document.get("proof"), dict):
            break
    if draw.random() < 0.15:
        document["objective"] = draw.choice(["makespan", "total-flow-time", "total-ttft", "late-requests"])
    if draw.random() < 0.8 and "bound" in document:
        document["bound"] = "0"
    depth = draw.choice([3, 900, 10**5])
    return json.dumps(document).replace(f'"{DEEP}"', "[" * depth + "]" * depth)


def break_one(node: Any, draw: Random) -> None:
    """Change the structure somewhere below: leave something out, repeat it often, or put something odd in its place."""
    if not node:
        return
    place = draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
    if isinstance(node[place], dict | list) and node[place] and draw.random() < 0.7:
        break_one(node[place], draw)
    elif isinstance(node[place], list) and draw.random() < 0.5:
        times = draw.choice([2, 100, 10**4])
        node[place] = node[place] * min(times, 1 + 10**8 // len(str(node[place])))
    elif draw.random() < 0.3:
        del node[place]
    elif isinstance(node, dict) and draw.random() < 0.2:
        node[draw.choice(["kind", "x", "states", "target"])] = node.pop(place)
    else:
        node[place] = draw.choice(ODD)


PART = Part("records", make, check, frozenset(f"believed {kind}" for kind in KINDS), tries=0)
