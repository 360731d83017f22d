"""Certificates with random numbers and random changes: whatever verifies is at most the optimum."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any
from unittest import mock

from kvcore import OBJECTIVES, BadInput, Instance
from kvcore.certificates import Certificate, InvalidCertificate, certify, verify_certificate
from kvcore.certificates.slot_dual import SlotDual
from kvcore.certificates.slots import Slots
from kvcore.files import parse
from kvcore.metrics import AVERAGES, Value, scale_of, tail_of
from kvcore.rigid import RIGID
from library import check as second
from tests.fuzz.bounds import TARGETED, certificates
from tests.fuzz.case import Case, Part, Wrong
from tests.fuzz.draw import NEEDED, PERCENTILES, objective, tiny
from tests.fuzz.optima import count_case, optimum
from tests.support import random_proofs

MUTANTS = 12
KINDS = ("alone", "configurations", "enumeration", "events", "in-order", "late-tail", "late-windows", "pairs",
         "potentials", "shares", "slot-dual", "slots", "speed")  # fmt: skip
STEPS = 3 * 10**6
"""Steps that `library/check.py` may take for a certificate."""
WORTHLESS = "-999999999999"
ROUNDED = ("late-windows", "speed")
"""Kinds of which kvbound proves a little less: it rounds to 1/scale, and leaves out parts after the last slot."""
SEARCHED = ("configurations", "enumeration", "events", "late-tail", "potentials", "slots")
"""Kinds of which one of the checkers may look further than the other."""
HUGE = {"states": 2000, "labels": 2000, "slots": 5000, "tries": 10**6}
"""What some numbers are at the most, so that no check takes long."""


def make(draw: Random) -> Iterator[Case]:
    corner, instance = tiny(draw, draw.choice(TARGETED) if draw.random() < 0.6 else None, twins=0.05)
    yield Case(instance, objective(draw, corner, tails=0.15), draw.randrange(2**30))


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a certificate is believed that claims or proves more than the optimum."""
    draw, best = Random(case.seed), {case.objective: optimum(case)[0]}
    proved = [certificate for _, certificate in certificates(case, None, Counter())]
    for certificate in proved:
        claims_more(case, certificate, best, seen)
        for _ in range(MUTANTS):
            believe(case, mutated(certificate, draw, [c.proof for c in proved]), best, seen, "mutated")
    for proof in drawn_proofs(case, draw, best[case.objective]):
        with contextlib.suppress(InvalidCertificate):
            certificate = certify(case.instance, case.objective, proof)
            claims_more(case, certificate, best, seen)
            believe(case, certificate.to_json(), best, seen, "random")
            believe(case, mutated(certificate, draw, [proof]), best, seen, "mutated")
    count_case(case, seen)


def claims_more(case: Case, certificate: Certificate, best: dict[str, Value], seen: Counter[str]) -> None:
    """Put a claim above the optimum to both checkers."""
    more = {"bound": str(best[case.objective] + 1)}
    believe(case, json.dumps(json.loads(certificate.to_json()) | more), best, seen, "optimum + 1")


def believe(case: Case, text: str, best: dict[str, Value], seen: Counter[str], what: str) -> None:
    """Verify a certificate, twice; whatever it proves has to be true, and of most kinds the same."""
    document = json.loads(text)
    kind, other = document["proof"]["kind"], document["objective"]
    ours, theirs = both(case.instance, document)
    for checker, bound in (("certificate", ours), ("check.py,", theirs)):
        if isinstance(bound, str):
            continue
        if other not in best:
            best[other] = optimum(Case(case.instance, other, 0), 10_000)[0]
        if bound > best[other]:
            raise Wrong(
                f"{checker} {kind}: {what}, and above the optimum", f"{bound} > {best[other]} of {other}: {text}"
            )
    if kind not in SEARCHED and differ(document, ours, theirs):
        raise Wrong(f"{what}: two checkers differ about {kind}", f"{ours}, {theirs}: {text}")
    seen[f"check.py: {theirs}" if isinstance(theirs, str) else f"check.py believed {kind}"] += 1
    seen[f"{ours} {what} {kind}" if isinstance(ours, str) else f"believed {what} {kind}"] += 1


def differ(document: dict[str, Any], ours: Value | str, theirs: Value | str) -> bool:
    """Whether `library/check.py` refuses what kvbound takes, or proves less, or more than its rounding explains."""
    kind, claimed = document["proof"]["kind"], Fraction(document["bound"])
    if "not checked" in (ours, theirs):
        return False
    if isinstance(theirs, str):
        return not isinstance(ours, str)
    slack = 1 + abs(theirs) // 10**4 if kind in ROUNDED else Fraction(1, 10**6) * (document["objective"] in AVERAGES)
    if isinstance(ours, str):
        return not (slack and claimed <= theirs < claimed + 1 + slack)
    return not ours - (slack and Fraction(1, 10**6)) <= theirs <= ours + slack


def both(instance: Instance, document: dict[str, Any], steps: int = STEPS) -> tuple[Value | str, Value | str]:
    """Return what kvbound proves and what `library/check.py` does, or why not; it rounds no average up."""
    ours, theirs = by_first(instance, json.dumps(document)), by_second(instance, document, steps)
    if document["objective"] in AVERAGES and theirs == "refused" and not isinstance(ours, str):
        theirs = by_second(instance, document | {"bound": WORTHLESS}, steps)
    return ours, theirs


def by_first(instance: Instance, text: str) -> Value | str:
    """Return what kvbound proves, or why not; its limits of numbers are its own."""
    try:
        return verify_certificate(instance, parse(Certificate, text, "c.json"))
    except BadInput as error:
        return "not checked" if "less than or equal to" in str(error) else "unreadable"
    except InvalidCertificate as error:
        return "not checked" if "numbers are too large" in str(error) else "refused"


def by_second(instance: Instance, document: dict[str, Any], steps: int) -> Value | str:
    """Return what `library/check.py` proves in some steps, or why not."""
    try:
        with patch_steps(steps):
            return second.verify_certificate(second.read_instance(json.loads(instance.to_json())), document)[1]
    except second.NotChecked:
        return "not checked"
    except second.Broken:
        return "refused"
    except second.Bad as error:
        return "not checked" if "not checked here" in str(error) else "unreadable"


def patch_steps(steps: int = STEPS) -> Any:
    """Return a block in which `library/check.py` takes so many steps at the most."""
    return mock.patch.object(second, "MOST_STEPS", steps)


def drawn_proofs(case: Case, draw: Random, best: Value) -> Iterator[Any]:
    """Yield prices that nobody proposed, and searches below the optimum, and above it."""
    from tests.kvcore.test_configurations import random_proof  # it loads HiGHS, beside which CP-SAT cannot be loaded

    for _ in range(4):
        yield (proof := random_proofs.random_speed(draw, case.instance))
        yield random_proofs.with_lines(draw, case.instance, proof)
        yield random_proofs.random_events(draw)
        yield random_proofs.random_enumeration(draw)
        yield random_proofs.random_in_order(draw, case.instance)
        yield random_proofs.random_potentials(draw, case.instance)
        yield random_proofs.random_late_windows(draw, case.instance)
    if SlotDual.takes.why_not("slot-dual", case.instance, case.objective) is None:
        for _ in range(4):
            with contextlib.suppress(InvalidCertificate):
                yield random_proofs.random_dual(draw, case.instance, case.objective)
    if tail_of(case.objective) is not None:
        for _ in range(4):
            yield random_proofs.random_tail(draw, case.instance, case.objective)
    if Slots.takes.why_not("slots", case.instance, case.objective) is None:
        units = int(best * scale_of(case.instance.requests, case.objective))
        for target in (units, units + 1, draw.randint(1, units + 1)):
            with contextlib.suppress(InvalidCertificate):
                yield random_proofs.random_slots(draw, case.instance, case.objective, target, draw.random() < 0.5)
    if RIGID.why_not("configurations", case.instance, case.objective) is None:
        for _ in range(4):
            proof = random_proof(case.instance, case.objective, draw)
            yield from (proof, proof.replace(target=draw.randint(1, 80), tries=10**5))


def mutated(certificate: Certificate, draw: Random, others: list[Any]) -> str:
    """Return the text of the certificate after one to three changes; its claim mostly becomes a small one."""
    document = json.loads(certificate.to_json())
    for _ in range(draw.choice([1, 1, 2, 3])):
        change(document["proof"], draw, document["proof"])
    if draw.random() < 0.15:
        document["objective"] = draw.choice(list(OBJECTIVES))
    if draw.random() < 0.1:
        document["proof"] = draw.choice(others).model_dump(mode="json")
    document["bound"] = draw.choice(["0", "0", "0", document["bound"], str(certificate.value + 1)])
    return json.dumps(document)


def change(node: Any, draw: Random, root: Any, key: str = "") -> None:
    """Change one place of a document: a number, the length of a list, an entry."""
    places = list(node) if isinstance(node, dict) else list(range(len(node)))
    if isinstance(node, list) and draw.random() < 0.3:
        places and draw.random() < 0.5 and node.pop(draw.choice(places))
        node.insert(draw.randint(0, len(node)), json.loads(json.dumps(draw.choice(node))) if node else 1)
        return
    if not places:
        return
    place = draw.choice(places)
    name = place if isinstance(place, str) else key
    value = node[place]
    if isinstance(value, dict | list) and value:
        change(value, draw, root, name)
    elif isinstance(value, int) and not isinstance(value, bool):
        near = [value - 1, value + 1, 2 * value, -value, value // 2]
        far = [0, 1, 10**6, 2**40, 10**15, draw.randint(0, 50)]
        node[place] = min(draw.choice(near if draw.random() < 0.7 else far), HUGE.get(name, 10**15))
    elif value is None or isinstance(value, list):
        node[place] = draw.choice([0, 1, [1], [0, 3], draw.randint(-9, 99)])


RANDOM = [kind for kind in KINDS if kind not in ("alone", "pairs", "shares")]
REACH = (
    NEEDED
    | {"unreadable", *PERCENTILES}
    | {f"{what} mutated {kind}" for kind in KINDS for what in ("believed", "refused")} - {"refused mutated alone"}
    | {f"believed random {kind}" for kind in RANDOM}
    | {f"refused optimum + 1 {kind}" for kind in KINDS}
    | {f"check.py believed {kind}" for kind in KINDS}
)
PART = Part("certificates", make, check, frozenset(REACH))
