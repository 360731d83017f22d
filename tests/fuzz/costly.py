"""Certificates with huge numbers for huge instances: a checker counts what it takes, and then takes no more."""

import json
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import log
from random import Random
from typing import Any

from pydantic import ValidationError

from kvcore import OBJECTIVES, Instance
from kvcore import certificates as kinds
from kvcore.certificates import InvalidCertificate, PricedLine, Proof
from kvcore.certificates.budget import Budget, Bytes
from kvcore.certificates.shares import UNIT
from kvcore.certificates.steps import lines
from kvcore.instance import alike
from library import check as second
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.certificates import patch_steps
from tests.support.drawer import Profile, draw_instance

WORK, STEPS, MEMORY = 10**9, 10**7, Bytes.local_graphs
"""What kvbound and `library/check.py` may count: a second."""
SLOW, GROWN = 60.0, 3 << 20
"""Seconds of the processor, and KiB, in which even a machine that is busy does that."""


def size(draw: Random, most: int = 10**15, least: int = 0) -> int:
    """Draw a number of which each length is as likely."""
    return min(most, max(least, int(2 ** (draw.random() * log(most + 1, 2)))))


def make(draw: Random) -> Iterator[Case]:
    """Draw an instance, some of whose numbers are huge."""
    top = draw.choice([4, 100, 10**4, 10**6, 10**9, 10**15])

    def numbers(least: int = 0, many: int = 9) -> tuple[int, ...]:
        return tuple(size(draw, draw.choice([3, top]), least) for _ in range(many))

    unit, rigid = draw.random() < 0.6, draw.random() < 0.3
    rates = {name: (size(draw, 10**6),) for name in ("busy", "tokens", "decode_kv", "prefill_pairs")}
    huge = Profile(
        requests=(1, 2, 3, 3, 40), prompt=numbers(1), decode=numbers(1), calls=(0,) if rigid else (0, 0, 1, 3, 30),
        duration=numbers(), returns=numbers(), handling=("free",), arrival=numbers(), weight=(1,), slo=(False,),
        block=(1, 1, 16, *numbers(1, 1)), memory=(None, "largest", "triple"),
        host_memory=("no limit", *numbers(1, 1)), hybrid=(True,), prefill_tokens=(None,), **dict.fromkeys(
            ("batch_tokens", "batch_requests"), (None,) if rigid else (None, *numbers(1, 1))),
        chunked=(False,) if rigid else (True, True, False), evict=(False,) if rigid else (True, False),
        pause=(False,) if rigid else (True, True, False), partial=(*(False,) * 9, not rigid),
        cost=("unit",) if unit or rigid else (({"divisor": numbers(1), **rates}, {"busy": numbers(1)}),),
    )  # fmt: skip
    with suppress(ValueError):  # none of so many that can be carried out
        yield Case(draw_instance(draw, huge, attempts=30), draw.choice(list(OBJECTIVES)), draw.randrange(2**30))


def proof(draw: Random, instance: Instance) -> Proof:
    """Draw a proof of any kind, some of whose numbers are huge."""

    def row(most: int = 2**50, longest: int = 2000) -> tuple[int, ...]:
        top = size(draw, most)
        return tuple(size(draw, top) for _ in range(draw.choice([0, 0, 1, 5, longest])))

    def prices() -> Any:
        return kinds.SlotPrices(device=row(), tokens=row(longest=20))

    parts = len(lines(instance.cost))
    division: dict[str, Any] = {"functions": (UNIT // parts,) * parts, "packs": size(draw, 1000, 1)}
    if instance.machine.memory is not None:
        division[draw.choice(["memory", "packing"])] = UNIT
    kind = draw.choice(["alone", "shares", "speed", "slot-dual", "slots", "events", "potentials", "configurations",
                        "enumeration"])  # fmt: skip
    match kind:
        case "shares":
            return kinds.Shares(**division)
        case "speed":
            fees = tuple(row(9)[:1000] for _ in alike(instance.requests)) if draw.random() < 0.5 else ()
            ratios = tuple(sorted(draw.sample(range(1025, 5000), draw.choice([0, 3, 60]))))
            price = row(10**9)
            more = PricedLine(functions=division["functions"], price=price[: draw.choice([0, 9, len(price)])])
            return kinds.Speed(**division, slot=size(draw, 10**9, 1), scale=size(draw, 2**20, 1), price=price,
                               lines=(more,) * draw.choice([0, 0, 1, 16]),
                               level=draw.randint(0, UNIT), ratios=ratios, fees=fees, fee=draw.choice([0, UNIT]),
                               ordered=draw.random() < 0.5)  # fmt: skip
        case "slot-dual":
            leaves = draw.choice([1, 3, 300])
            branches = [kinds.Branch(request=draw.choice(instance.requests).id, segment=0, slot=size(draw, 2**16))
                        for _ in range(leaves - 1)]  # fmt: skip
            return kinds.SlotDual(scale=size(draw, 2**40, 1), prices=(*branches, *(prices() for _ in range(leaves))))
        case "slots":
            given = (0, *(size(draw, 2**16) for _ in range(draw.choice([0, 0, 1, 1999]))))
            vectors = tuple(
                kinds.SlotPrices(since=since, device=row(longest=20), tokens=row(longest=20)) for since in given
            )
            return kinds.Slots(target=size(draw, least=1), scale=size(draw, 2**30, 1), prices=vectors,
                               states=size(draw, 2 * 10**5), tries=size(draw, 10**8))  # fmt: skip
        case "events":
            return kinds.Events(states=size(draw, 10**5, 1), target=draw.choice([None, size(draw)]))
        case "enumeration":
            return kinds.Enumeration(states=size(draw, 10**5, 1))
        case "potentials":
            target = draw.choice([None, size(draw)])
            return kinds.Potentials(scale=1, potentials=(), places=draw.random() < 0.5, labels=size(draw, 10**5, 1),
                                    target=target)  # fmt: skip
        case "configurations":
            top = size(draw)
            same = {id: size(draw, top) for id in range(5)}
            target = {"target": size(draw, least=1), "tries": size(draw, 10**8)} if draw.random() < 0.6 else {}
            starts = tuple(same[hash(request.shape) % 5] for request in instance.requests)
            return kinds.Configurations(scale=size(draw, 10**6, 1), memory=row(10**15), starts=starts, **target)
    return kinds.Alone()


def files_of(case: Case, proof: Proof) -> tuple[Any, Any]:
    """Return the instance and the certificate as `library/check.py` reads them."""
    claim = {"instance_sha256": case.instance.sha256, "objective": case.objective, "bound": "0"}
    return second.read_instance(json.loads(case.instance.to_json())), claim | {"proof": proof.model_dump(mode="json")}


@contextmanager
def watched(kind: str) -> Iterator[None]:
    """Raise Wrong where what is done takes more than it may, of the processor or of memory."""

    def late(*_: object) -> None:
        raise Wrong(f"{kind} takes more than {SLOW:g} s of the processor for {WORK} steps at the most")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    handler = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SLOW)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > GROWN:
        raise Wrong(f"{kind} takes {grown >> 10} MiB where it may take {MEMORY >> 20}")


def check(case: Case, seen: Counter[str]) -> None:
    """Check some proofs, each within the budget."""
    draw = Random(case.seed)
    for _ in range(5):
        try:
            drawn = proof(draw, case.instance)
        except ValidationError as error:
            raise Skip from error
        try:
            with watched(f"check.py, {drawn.kind}"), patch_steps(STEPS), suppress(second.Bad, second.Broken):
                second.verify_certificate(*files_of(case, drawn))
                seen[f"check.py proved {drawn.kind}"] += 1
            with watched(drawn.kind):
                drawn.checked(case.instance, case.objective, Budget(WORK, MEMORY))
            seen[f"proved {drawn.kind}"] += 1
        except InvalidCertificate as error:
            too = "too much" if "would take too" in str(error) else "refused"
            seen[f"{too} {drawn.kind}"] += 1


EVERY = ("configurations", "events", "potentials", "shares", "slot-dual", "slots", "speed")
REACH = {f"refused {kind}" for kind in EVERY if kind != "shares"} | {f"too much {kind}" for kind in EVERY} | {
    f"proved {kind}" for kind in ("alone", "enumeration", "events", "potentials", "shares", "speed")} | {
    "too much enumeration"}  # fmt: skip
PART = Part("costly", make, check, frozenset(REACH))
