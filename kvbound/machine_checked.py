"""The word of the referee and the checker proved in Coq (docs/verified.md), by `verified/build/kvcheck`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kvcore import certificates
from kvcore.certificates import Alone, Certificate, InvalidCertificate, Shares
from kvcore.certificates.enumeration import Enumeration
from kvcore.certificates.events import Events
from kvcore.certificates.potentials import Potentials
from kvcore.certificates.shares import RESOURCES
from kvcore.certificates.slot_dual import SlotDual
from kvcore.certificates.slots import SlotPrices, Slots
from kvcore.certificates.speed import Speed, groups_of
from kvcore.errors import BadInput, MissingTool
from kvcore.features import CALLS, COSTS, MACHINES, REQUESTS, Feature, Takes
from kvcore.instance import Instance
from kvcore.limits import LIMITS
from kvcore.metrics import Value, tail_of
from kvcore.result import Result
from kvcore.schedule import Batch, Schedule

FOLDER = Path(__file__).parents[1] / "verified"
SOURCES = ("kvproof.mli", "kvproof.ml", "search.ml", "shares.ml", "speed.ml", "main.ml")
COMPILE = ("ocamlfind", "ocamlopt", "-O3", "-w", "-a", "-package", "zarith", "-linkpkg")
SEARCHED = (Feature.MAKESPAN, Feature.BUSY, Feature.FLOW, Feature.WEIGHTED, Feature.TTFT)
OBJECTIVES = (*SEARCHED, Feature.LONGEST, Feature.LATE)
TAKES = Takes(MACHINES | REQUESTS | CALLS | COSTS | {*SEARCHED, Feature.LONGEST})
ALONE = Takes(MACHINES | REQUESTS | CALLS | COSTS | {*OBJECTIVES, Feature.PERCENTILE} - {Feature.BUSY})
SHARES = Takes(TAKES.features - {Feature.TTFT, Feature.LONGEST})
SPEED = Takes(SHARES.features - {Feature.MAKESPAN, Feature.BUSY})
ENDS = "a schedule ends at"
"""What the program says of a bound that is false."""
MOST_STATES = 200_000
"""Joint states of a search: half a GB."""
MOST_TOKENS = 16  # of `enumeration` and `potentials`
FUNCTION = (
    "divisor", "busy", "any_decode", "any_prefill", "tokens", "tokens_above", "generated", "decode_requests",
    "prefill_requests", "decode_kv", "prefill_kv", "prefill_pairs", "swap_out_tokens", "swap_in_tokens", "swap_outs",
    "swap_ins",
)  # fmt: skip
MACHINE = (
    "memory", "block", "host_memory", "batch_tokens", "prefill_tokens", "batch_requests", "hybrid", "chunked", "evict",
    "partial", "pause",
)  # fmt: skip


def verify_certificate(instance: Instance, certificate: Certificate, *, proved: bool = False) -> Value:
    """Return the lower bound that the certificate proves, recomputed exactly; it is at least the claimed one.

    With `proved`, the checker that is proved in Coq checks the claim, which is returned.

    Raises:
        InvalidCertificate: another instance, an argument that does not hold, or a smaller bound.
        BadInput: its objective is none; or the proved checker does not take it.
        MissingTool: the proved checker is not built.
    """
    if not proved:
        return certificates.verify_certificate(instance, certificate)
    said = run([claim(instance, certificate)])
    if not said.startswith(f"proved {certificate.bound} "):
        raise InvalidCertificate(said)
    return certificate.value


def mark(result: Result) -> None:
    """Set `machine_checked` if the proved checker accepts the certificate.

    Raises MissingTool, and InvalidCertificate where it finds a schedule below the bound.
    """
    if result.certificate is not None:
        try:
            verify_certificate(result.instance, result.certificate, proved=True)
            result.machine_checked = True
        except BadInput:
            pass
        except InvalidCertificate as refused:
            if ENDS in str(refused):
                raise


def judge(instance: Instance, schedule: Schedule) -> dict[str, int] | None:
    """Return the values by objective that the referee proved in Coq computes (None: invalid). BadInput, MissingTool."""
    said = run([judgement(instance, schedule)])
    return None if "invalid" in said else dict(zip(map(str, OBJECTIVES), map(int, said.split()), strict=True))


def run(lines: list[str]) -> str:
    """Return what the program says of these lines. MissingTool."""
    return subprocess.run(
        [program()], input="\n".join(lines), capture_output=True, text=True, check=True
    ).stdout.strip()


def program() -> Path:
    """Return the program, built into the user's cache if need be. MissingTool."""
    made = FOLDER / "build" / "kvcheck"
    if made.exists():
        return made
    texts = [(FOLDER / name).read_bytes() for name in SOURCES]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kvbound")
    kept = cache / f"kvcheck-{sha256(b''.join(texts)).hexdigest()}"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            for name, text in zip(SOURCES, texts, strict=True):
                Path(folder, name).write_bytes(text)
            try:
                subprocess.run([*COMPILE, *SOURCES, "-o", "kvcheck"], cwd=folder, capture_output=True, check=True)
            except (OSError, subprocess.CalledProcessError):
                raise MissingTool("the program proved in Coq takes OCaml, ocamlfind and zarith to build") from None
            Path(folder, "kvcheck").replace(kept)
    return kept


def claim(instance: Instance, certificate: Certificate) -> str:
    """Return the line of a claim, with the prices that prove it. BadInput where the checker takes no such proof."""
    proof = certificate.proof
    takes = {Alone: ALONE, Shares: SHARES, Speed: SPEED}.get(type(proof), TAKES)
    is_toy = not instance.machine.partial and sum(request.peak for request in instance.requests) <= MOST_TOKENS
    if certificate.value < 0:
        raise BadInput("the checker in Coq is not asked for a bound below 0")
    about = _instance(instance, certificate.objective, certificate.instance_sha256, takes)
    more: tuple[Any, ...] = ()
    kind, aim = "search", certificate.objective
    if isinstance(proof, Alone):
        kind, aim = "alone", _goal(certificate.objective, len(instance.requests))
    elif isinstance(proof, Shares):
        kind, more = "shares", _division(instance, proof)
    elif isinstance(proof, Speed):
        kind, more = "speed", _speed(instance, proof)
    elif isinstance(proof, Events) or (is_toy and isinstance(proof, Enumeration | Potentials)):
        more = 1, True, MOST_STATES, ()
    elif isinstance(proof, Slots):
        more = proof.scale, proof.strict, MOST_STATES, [_prices(instance, each) for each in proof.prices]
    elif isinstance(proof, SlotDual) and isinstance(proof.prices, SlotPrices):
        more = proof.scale, False, MOST_STATES, [_prices(instance, proof.prices)]
    else:
        of_toys = f" above {MOST_TOKENS} tokens, or with `partial`" * isinstance(proof, Enumeration | Potentials)
        raise BadInput(f"the checker in Coq takes no certificate of the kind {proof.kind}{of_toys}")
    return _line(*about, (kind, aim, certificate.bound, *more))


def judgement(instance: Instance, schedule: Schedule) -> str:
    """Return the line that asks for the values of a schedule. BadInput where it would not say the same."""
    places = {request.id: place for place, request in enumerate(instance.requests)}
    batches = [(batch.start, _acts(batch, places)) for batch in schedule.batches]
    return _line(*_instance(instance, "makespan", schedule.instance_sha256, TAKES), ("judge", batches))


def _instance(instance: Instance, objective: str, hashed: str, takes: Takes) -> tuple[Any, ...]:
    """Return what is said of an instance with this hash, from the text that is hashed. BadInput, InvalidCertificate."""
    if reason := takes.why_not("the checker in Coq", instance, objective):
        raise BadInput(reason)
    text = instance.canonical
    if sha256(text.encode()).hexdigest() != hashed:
        raise InvalidCertificate(f"it is of another instance: {hashed[:12]}.., not {instance.sha256[:12]}..")
    read = json.loads(text)
    functions = [_function(function) for function in read["cost"]]
    requests = [_request(request) for request in read["requests"]]
    slos = [request.slo_ticks for request in instance.requests]
    return [read["machine"][name] for name in MACHINE], functions, requests, slos


def _function(function: dict[str, Any]) -> list[Any]:
    hinge = function["tokens_above"] or {"knee": 0, "coefficient": 0}
    numbers = ((hinge["knee"], hinge["coefficient"]) if k == "tokens_above" else (function[k],) for k in FUNCTION)
    return [number for each in numbers for number in each]


def _request(request: dict[str, Any]) -> list[Any]:
    segments = request["segments"]
    calls = [
        (*(before["call"][k] for k in ("duration", "returns", "handling")), after["decode"])
        for before, after in pairwise(segments)
    ]
    return [request["arrival"], request["weight"], request["prompt"], segments[0]["decode"], calls]


def _division(instance: Instance, proof: Shares) -> tuple[Any, ...]:
    functions, last = proof.functions, len(instance.cost.functions)
    place = [k for k, part in enumerate(functions) if part]
    by = [name for name in RESOURCES if getattr(proof, name)]
    is_one = len(functions) == last + 1 and len(place) == len(by) == 1
    if not is_one or place[0] == last or by == ["requests"] or any(proof.alone):
        raise BadInput("the checker in Coq takes shares of one function, without a knee, by one resource")
    return place[0], ("packing", proof.packs) if proof.packing else by[0]


def _speed(instance: Instance, proof: Speed) -> tuple[Any, ...]:
    if proof.lines:
        raise BadInput("the checker in Coq takes prices of work in one line")
    part, limits = proof.shared, {"memory": instance.machine.memory, "tokens": instance.machine.batch_tokens}
    parts = {name: getattr(proof, name) for name in RESOURCES}
    if not part:  # any will do
        parts[next((name for name, most in limits.items() if most is not None), "prefill_tokens")] = 1
    place = {i: group for group, same in enumerate(groups_of(instance)) for i in same}
    weights = proof.fees, [place[i] for i in range(len(place))]
    numbers = part, proof.fee, proof.slot, proof.scale, proof.level, proof.cells
    return (
        *_division(instance, Shares(functions=proof.functions, packs=proof.packs, **parts)),
        *numbers,
        proof.price,
        *weights,
    )


def _goal(objective: str, requests: int) -> Any:
    if tail := tail_of(objective):
        return "tail", tail.of_first, tail.spared(requests)
    return ("tail", False, 0) if objective == "max-flow-time" else objective


def _prices(instance: Instance, prices: SlotPrices) -> tuple[int, Any]:
    before = instance.first_arrival
    rows = [getattr(prices, limit.name) for limit in LIMITS]
    slots = range(-before, max(map(len, rows)))
    priced = [[row[slot] if 0 <= slot < len(row) else 0 for row in rows] for slot in slots]
    return prices.since and before + prices.since, priced


def _acts(batch: Batch, places: Mapping[str, int]) -> list[Any]:
    kinds = (batch.work, batch.drop, batch.swap_out, batch.swap_in)
    if batch.repeat > 1 or batch.forget or batch.reuse:
        raise BadInput("the referee in Coq takes no batch with `repeat`, `forget` or `reuse`")
    if unknown := {id for kind in kinds for id, tokens in kind.items() if tokens < 1 or id not in places}:
        raise BadInput(f"the referee in Coq takes no entry below 1, and no unknown request: {min(unknown)}")
    acting = [id for id in places if any(id in kind for kind in kinds)]
    return [(places[id], *(kind.get(id, 0) for kind in kinds)) for id in acting]


def _line(*forms: Any) -> str:
    """Return words and nested lists as the program reads them."""
    spelled = {None: "-", False: "0", True: "1"}
    words = []
    for form in forms:
        if isinstance(form, list | tuple):
            words.append(f"( {_line(*form)} )" if form else "( )")
        else:
            words.append(spelled[form] if form is None or isinstance(form, bool) else str(form))
    return " ".join(words)
