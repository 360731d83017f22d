"""Certificates (docs/certificates.md): the table of kinds, and what a file proves."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf
from typing import Any

from library.checker.alone import alone
from library.checker.configurations import configurations
from library.checker.dual import slot_dual
from library.checker.enumeration import enumerated
from library.checker.events import exhaustive
from library.checker.files import (
    MOST_TOKENS,
    Amount,
    Bad,
    Box,
    Broken,
    NotChecked,
    check,
    claim,
    headed,
    integer,
    number,
    one_of,
    optional,
    shaped,
    spent,
    switch,
    text,
)
from library.checker.instance import RESOURCES, output, sha256
from library.checker.objectives import AVERAGES, OBJECTIVES, PLAIN, RATES, TAIL, tail_of
from library.checker.order import in_order
from library.checker.pairs import pairs
from library.checker.potentials import potentials
from library.checker.prefixes import note_prefixes
from library.checker.shares import PARTS, shares
from library.checker.slots import slots
from library.checker.speed import speed
from library.checker.tail import INSIDE, late_tail
from library.checker.windows import late_windows

part, price = integer(0, 1024), integer(0, 2**50)
DIVISION = {"functions": [part], "packs": (integer(1), 1), **dict.fromkeys(PARTS, (part, 0))}
SLOTS = {"since": (integer(0, 2**16), 0), **dict.fromkeys(RESOURCES, ([price], []))}
BRANCH = {"request": text, "segment": number, "slot": integer(0, 2**16)}
SPEED = {
    **DIVISION, "slot": integer(1), "scale": integer(1), "price": [price], "level": (part, 0),
    "cells": (integer(1, 64), 1), "ratios": ([integer(65)], []), "ordered": (switch, False), "within": (number, 0),
    "fee": (part, 0), "fees": ([[number]], []), "lines": ([{"functions": [part], "price": ([price], [])}], []),
}  # fmt: skip
CONFIGURATIONS = {
    "scale": (integer(1), 1), "memory": [number], "starts": [optional(integer(-inf))],
    "target": (optional(integer(1)), None), "tries": (integer(0, 10**9), 0),
}  # fmt: skip
EVENTS = {"states": integer(1), "target": (optional(integer(0, 2**60)), None), "free_drops": (switch, False)}
weight, amount = integer(0, 2**20), integer(0, 2**58)
POTENTIAL = {
    "compute": weight, "wait": (weight, 0), "request": (optional(number), None), "device": [amount], "host": [amount],
}  # fmt: skip
SEARCH = {
    "target": integer(1), "scale": integer(1, 2**30), "prices": [SLOTS], "strict": (switch, False),
    "states": integer(0, 4 * 10**6), "tries": integer(0, 10**9),
}  # fmt: skip
WITH_CONTENTS = {"alone", "enumeration", "shares", "late-windows", "late-tail", "speed"}
WITH_LAYOUT = {"alone", "enumeration", "shares", "speed"}
none = check(lambda value: value == [], "an empty list: more is not checked here")


def window(value: Any, where: str) -> Any:
    """Start and end of a window, and the weights of its two inequalities."""
    row = shaped(value, [number], where)
    if len(row) != 4:
        raise Bad(f"{where}: give start, end and two weights")
    return row


def windows(value: Any, where: str) -> Any:
    """The proof inside one of kind `late-tail`."""
    value = proof(value, where)
    if value.kind not in INSIDE:
        raise Bad(f"{where}: give windows or a search")
    return value


def cases(value: Any, where: str) -> Any:
    """Prices of slots, or branches to several."""
    if isinstance(value, list):
        return [
            shaped(each, BRANCH if isinstance(each, dict) and "request" in each else SLOTS, where) for each in value
        ]
    return shaped(value, SLOTS, where)


IN_ORDER = {
    "line": (number, 0), "packs": (integer(0, 1000), 0), "most": (integer(1, 2**20), 1), "scale": integer(1, 2**30),
    "price": [price],
}  # fmt: skip
POTENTIALS = {
    "function": (number, 0), "moves": (number, 0), "places": (switch, False), "scale": integer(1, 2**20),
    "potentials": [POTENTIAL],
    "in_order": ([{"kind": one_of("in-order"), **IN_ORDER}], []), "labels": integer(1),
    "target": (optional(amount), None),
}  # fmt: skip
KINDS: dict[str, tuple[Callable[[Box, Box, str], Amount], dict[str, Any], tuple[str, ...]]] = {
    # a proof's function, its keys, and the objectives for which it is checked
    "alone": (alone, {}, (*OBJECTIVES, TAIL)),
    "shares": (shares, {**DIVISION, "alone": (none, []), "windows": (none, [])}, ("busy-time", *RATES)),
    "late-windows": (late_windows, {**DIVISION, "rows": ([window], [])}, ("late-requests",)),
    "late-tail": (late_tail, {"within": number, "proof": windows}, (TAIL,)),
    "slot-dual": (slot_dual, {"scale": integer(1, 2**40), "prices": cases}, tuple(RATES)),
    "speed": (speed, SPEED, tuple(RATES)),
    "configurations": (configurations, CONFIGURATIONS, ("total-flow-time",)),
    "events": (exhaustive, EVENTS, (*PLAIN, "total-flow-time")),
    "enumeration": (enumerated, {"states": integer(1)}, OBJECTIVES),
    "in-order": (in_order, IN_ORDER, tuple(RATES)),
    "pairs": (pairs, {}, tuple(RATES)),
    "potentials": (potentials, POTENTIALS, tuple(RATES)),
    "slots": (slots, SEARCH, ("makespan", "busy-time", "max-flow-time", *RATES)),
}


def proof(value: Any, where: str) -> Box:
    """A proof of any kind."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Bad(f"{where}: no proof of kind {kind!r} is checked here")
    return shaped(value, {"kind": text, **KINDS[kind][1]}, where)


named = check(
    lambda value: isinstance(value, str) and (value in OBJECTIVES or tail_of(value)),
    f"one of {', '.join((*OBJECTIVES, TAIL))}",
)
certificate_file = headed("certificate") | {
    "instance_sha256": text, "objective": named, "bound": claim, "proof": proof,
    **dict.fromkeys(("why", "horizon", "made_by"), (text, "")),
}  # fmt: skip


def prove(instance: Box, proof: Box, objective: str) -> Amount:
    """The lower bound that the numbers of a proof give, whatever they are; Broken where its argument does not hold."""
    function, _, objectives = KINDS[proof.kind]
    if (TAIL if tail_of(objective) else objective) not in objectives:
        raise NotChecked(f"a proof of kind {proof.kind} is not checked here for {objective}")
    kinds = {proof.kind, proof.get("proof", proof).kind}
    if instance.machine.drop_and_work and kinds != {"alone"}:
        raise NotChecked(f"a proof of kind {proof.kind} is not checked here with drop_and_work")
    if instance.contents and not kinds <= WITH_CONTENTS:
        raise NotChecked(f"a proof of kind {' '.join(sorted(kinds - WITH_CONTENTS))} is not checked here with contents")
    if instance.machine.layout and not kinds <= WITH_LAYOUT:
        raise NotChecked(f"a proof of kind {' '.join(sorted(kinds - WITH_LAYOUT))} is not checked here with a layout")
    return function(instance if "enumeration" in kinds else note_prefixes(instance), proof, objective)


def verify_certificate(instance: Box, data: Any) -> tuple[str, Amount]:
    """What a certificate proves; Broken if that is less than it claims."""
    certificate = shaped(data, certificate_file, "certificate")
    objective = certificate.objective
    if certificate.instance_sha256 != sha256(instance):
        raise Broken("the certificate is for another instance (or for this one with its calls freed)")
    spent[0] = 0
    if sum(map(output, instance.requests)) > MOST_TOKENS:
        raise NotChecked(f"bounds of more than {MOST_TOKENS} output tokens are not checked")
    bound = prove(instance, Box(certificate.proof, claim=certificate.bound), objective)
    bound = bound if objective in AVERAGES else ceil(bound)  # all other values are whole numbers
    if bound < certificate.bound:
        raise Broken(f"it claims {certificate.bound}, but proves {bound} only")
    return objective, bound
