"""Every method of the ladder: never above an optimum, a schedule, or what any other method knows."""

import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from bounds.task import Proposal, Task
from heuristics import POLICIES, PolicyError, Unsuited, trace_policy
from heuristics.registry import STARTERS
from kvcore import BadInput, objective_value
from kvcore.certificates import Certificate, InvalidCertificate, certify, verify_certificate
from kvcore.files import parse
from kvcore.metrics import Value, tail_of
from solvers.exact import exact
from solvers.ways import CERTIFYING
from tests.fuzz.case import Case, Part, Wrong
from tests.fuzz.draw import CORNERS, NEEDED, PERCENTILES, medium, objective, tiny
from tests.fuzz.optima import count_case, optimum

METHODS = {way.label: way for way in CERTIFYING}
LOOKS = 0.15
"""Seconds of the counting clock that a method has: so many looks at it, times 1000."""
TARGETED = ("plain", "late segments", "rigid", "rigid", "rigid, online", "plain, no pause", "gaps", "four")
"""Corners in which prices, windows and configurations apply."""


def make(draw: Random) -> Iterator[Case]:
    """A tiny instance, mostly one that prices go with; and one of 5 to 12 requests now and then."""
    kind = draw.random()
    if kind < 0.15:
        corner, instance = medium(draw)
    else:
        corner, instance = tiny(draw, draw.choice(TARGETED) if kind < 0.7 else None, twins=0.08)
    yield Case(instance, objective(draw, corner, tails=0.2), draw.randrange(2**30))


def certificates(case: Case, upper: Value | None, seen: Counter[str]) -> Iterator[tuple[str, Certificate]]:
    """Yield what each method proves, in the time of `LOOKS`."""
    for name, method in METHODS.items():
        task = Task(case.instance, case.objective, time.process_time() + LOOKS, upper)
        try:
            found = list(method.proposals(task))
            # none where time is over before the first of slots
            proposals = [each for each in found if isinstance(each, Proposal)]
            certificate = certify(case.instance, case.objective, *proposals[-1]) if proposals else None
        except (BadInput, InvalidCertificate):
            certificate = None
        if certificate is None:
            seen[f"declines {name}"] += 1
            continue
        seen[f"proves {name}"] += 1
        yield name, certificate


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a bound is above the best that is known, or its certificate does not verify."""
    draw = Random(case.seed)
    if len(case.instance.requests) > 4:
        best, exact = best_known(case, seen, draw), False
    else:
        best, exact = optimum(case, 3000)[0], True
    upper = draw.choice([None, best, best + 1, 3 * best + 7])
    for name, certificate in certificates(case, upper, seen):
        if certificate.value > best:
            raise Wrong(f"bound {name} above {'the optimum' if exact else 'a schedule'}",
                        f"{certificate.value} > {best}; {certificate.to_json()}")  # fmt: skip
        try:
            read = parse(Certificate, certificate.to_json(), name)
            again = verify_certificate(case.instance, read)
        except (InvalidCertificate, BadInput) as refused:
            raise Wrong(f"certificate of {name} is refused", refused) from None
        if read != certificate:
            raise Wrong(f"certificate of {name} is not read back equal", certificate.to_json())
        if again < certificate.value:
            raise Wrong(f"certificate of {name} proves less", f"{again} < {certificate.value}")
        seen[f"meets {name}"] += certificate.value == best
        seen[f"proves {name}, medium"] += not exact
    count_case(case, seen)
    seen["tiny" if exact else "medium"] += 1


def best_known(case: Case, seen: Counter[str], draw: Random) -> Value:
    """Return the value of the best schedule of a search with a limit and of policies; its bound is below."""
    bound: Value | None = None
    values: list[Value] = []
    if tail_of(case.objective) is None:
        found = exact(case.instance, case.objective, time_limit=0.1)  # what it ends with is judged, however far it came
        assert found.value is not None
        assert found.bound is not None
        seen["medium proved by exact"] += found.status == "optimal"
        bound, values = found.bound, [found.value]
    for policy in [*STARTERS, *draw.sample(list(POLICIES.values()), 8)]:
        try:
            values.append(objective_value(trace_policy(case.instance, policy), case.objective))
        except (Unsuited, PolicyError):
            continue
    if bound is not None and bound > min(values):
        raise Wrong("exact: bound above a policy's value", f"{bound} > {min(values)}")
    return min(values)


REACH = (
    NEEDED
    | {f"{what} {name}" for name in METHODS for what in ("proves", "meets")}
    | {f"proves {name}, medium" for name in METHODS}
    | {"tiny", "medium", "medium proved by exact", *PERCENTILES}
)
PART = Part("bounds", make, check, frozenset(REACH))
assert set(TARGETED) <= CORNERS.keys()
