"""Certificates of the library, mutated: no checker believes more of an instance than a schedule of it is worth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from random import Random

from kvcore import BadInput
from kvcore.certificates import Certificate, InvalidCertificate
from kvcore.certificates.budget import Budget
from kvcore.files import parse
from library import Library
from library import check as second
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.certificates import mutated, patch_steps
from tests.fuzz.costly import MEMORY, WORK

MUTANTS = 6
MOST = 12
"""Requests of an instance."""
KINDS = ("configurations", "events", "fresh", "prices", "shares", "slots", "speed")


@cache
def known() -> list[tuple[str, str]]:
    """Return the records and objectives that have a schedule and a certificate."""
    return [(record.name, objective) for record in Library().records() if record.requests <= MOST
            for objective, best in record.objectives.items() if None not in (best.value, best.bound)]  # fmt: skip


def make(draw: Random) -> Iterator[Case]:
    """A record."""
    name, objective = draw.choice(known())
    library = Library()
    yield Case(library.instance(library.record(name)), objective, draw.randrange(2**30), text=name)


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a mutant proves more than the best value."""
    library, draw = Library(), Random(case.seed)
    record = library.record(case.text or "")
    certificate = library.certificate(record, case.objective)
    if certificate is None or record.instance_sha256 != case.instance.sha256:
        raise Skip
    for _ in range(MUTANTS):
        text = mutated(certificate, draw, [certificate.proof])
        document = json.loads(text)
        best = record.objectives.get(document["objective"])
        if best is None or best.value is None:
            continue
        kind, most = document["proof"]["kind"], Fraction(best.value)
        with suppress(BadInput, InvalidCertificate, RecursionError):
            read = parse(Certificate, text, "c.json")
            if read.proof.prove(case.instance, read.objective, Budget(WORK // 2, MEMORY)) > most:
                raise Wrong(f"record, {kind}: above a schedule", text)
            seen[f"believed {kind}"] += 1
        with patch_steps(), suppress(second.Bad, second.Broken):
            if second.verify_certificate(second.read_instance(json.loads(case.instance.to_json())), document)[1] > most:
                raise Wrong(f"check.py, record, {kind}: above a schedule", text)
            seen[f"check.py believed {kind}"] += 1
        seen[f"looked at {kind}"] += 1


PART = Part("records", make, check, frozenset(f"believed {kind}" for kind in KINDS), tries=0)
