"""What requests still take and pay in order, from any moment on (prices in order of `potentials.py`), over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates.budget import Budget, InvalidCertificate
from kvcore.certificates.in_order import FINE, MOST, Chain, InOrder, Units, after
from kvcore.certificates.tokens import chain_of
from kvcore.compiled import compiled
from kvcore.instance import Instance


class Remaining(NamedTuple):
    """Tables of proofs that differ in prices alone, by number; times are from the first arrival, in 1/`divisor`."""

    price: Any  # [proofs, slots]
    supply: Any  # [proofs, slots + 1]: what batches can be paid from a slot on
    values: Any  # [proofs, requests, slots + 1, units + 1]: `fill`
    starts: Any  # [proofs, requests, slots, runs, room + 1]: `fill`
    paid: Any  # [requests, units + 1]
    begin: Any  # [requests, runs + 1]
    wait: Any  # [requests, runs]
    units: Any  # [requests]
    unit: Any  # [requests, tokens]: the first unit that counts, by the next token
    run: Any  # [requests, tokens]: its run
    delay: Any  # [requests, tokens]: what passes before it at the least
    rate: Any  # [requests]
    slot: int  # its length
    each: int  # what a unit takes at the least
    room: int  # units of a run that a slot has room for
    begun: int  # the first arrival
    divisor: int
    scale: int  # costs are in parts of it


def remaining(
    instance: Instance, objective: str, proofs: Sequence[InOrder], latest: int, divisor: int, budget: Budget
) -> Remaining:
    """Return the tables, for times up to `latest` in 1/`divisor` ticks.

    Raises InvalidCertificate where proofs have no slots, or differ in more than prices.
    """
    if not proofs:
        nothing = [np.zeros((0,) * rank, dtype=np.int64) for rank in (2, 2, 4, 5, 2, 2, 2, 1, 2, 2, 2, 1)]
        return Remaining._make([*nothing, *(1,) * 6])
    first, slots, requests = proofs[0], len(proofs[0].price), instance.requests
    if any(proof.replace(price=first.price) != first or len(proof.price) != slots for proof in proofs):
        raise InvalidCertificate("prices in order of what is left differ in more than prices")
    if slots == 0:
        raise InvalidCertificate("prices in order of what is left are of no slots")
    values, starts, scale = list[Any](), list[Any](), first.scale * FINE
    for proof in proofs:
        units = Units(instance, objective, proof)
        units.spend(budget)
        chains = [units.chain(request)._replace(arrival=0) for request in requests]
        room = max(chain.room for chain in chains)
        cells = (slots + 1) * max(len(chain.paid) + len(chain.wait) * (room + 1) for chain in chains)
        budget.spend("prices in order", 0, 8 * len(proofs) * len(requests) * cells)
        tables = [units.least(chain, np.array(proof.price, dtype=np.int64)) for chain in chains]
        values.append(_stacked([table.values for table in tables]))
        starts.append(_stacked([table.starts for table in tables], "edge"))
    supply = np.zeros((len(proofs), slots + 1), dtype=object)
    price = np.array([proof.price for proof in proofs], dtype=object)
    supply[:, :-1] = units.slot * FINE * np.cumsum(price[:, ::-1], axis=1)[:, ::-1]
    most = max(supply.max(), sum(values[0][:, slots, 0].tolist()))
    if max(most, most // scale * divisor, latest * units.divisor) >= MOST:
        raise InvalidCertificate("numbers are too large to be added up")
    tokens = [chain_of(request, objective) for request in requests]
    unit, run, delay = np.zeros((3, len(requests), max(map(len, tokens))), dtype=np.int64)
    for i, chain in enumerate(tokens):
        k = j = 0
        for q, (new, call) in enumerate(chain):
            after_it = k + units.count(new), j + (call > 0)
            unit[i, q], run[i, q] = (k, j) if new == 1 else after_it
            delay[i, q] = 0 if new == 1 else units.each + call * units.divisor
            k, j = after_it
    paid, begin, wait = (_stacked([chain[k] for chain in chains]) for k in range(3))
    return Remaining(
        price.astype(np.int64), supply.astype(np.int64), np.stack(values), np.stack(starts), paid, begin, wait,
        units=np.array([len(chain.paid) - 1 for chain in chains]), unit=unit, run=run, delay=delay,
        rate=np.array([chain.rate for chain in chains]), slot=units.slot, each=units.each, room=room,
        begun=instance.first_arrival * units.divisor, divisor=units.divisor, scale=scale,
    )  # fmt: skip


def _stacked(some: Sequence[Any], mode: Any = "constant") -> Any:
    shape = np.max([one.shape for one in some], axis=0)
    return np.stack([np.pad(one, [(0, n - m) for n, m in zip(shape, one.shape, strict=True)], mode) for one in some])


@compiled
def least_from(x, v, i, q, time):  # type: ignore[no-untyped-def]
    """Return the least that a request takes and pays from a time on, when token q is next."""
    k, j, t, slots = x.unit[i, q], x.run[i, q], time + x.delay[i, q], x.price.shape[1]
    values, s = x.values[v, i], t // x.slot
    if s >= slots:
        return values[slots, k]
    if k == x.units[i]:
        return x.rate[i] * t
    chain = Chain(x.paid[i, : x.units[i] + 1], x.begin[i], x.wait[i], x.rate[i], 0, x.room)
    best = values[s + 1, k]
    for g in range(1, min(x.room, ((s + 1) * x.slot - t + x.each - 1) // x.each, x.begin[i, j + 1] - k) + 1):
        cost = x.price[v, s] * (x.paid[i, k + g] - x.paid[i, k])
        best = min(best, cost + after(values, x.starts[v, i], chain, s, j, k + g, g, x.slot, x.each))
    return best


@compiled
def supplied(x, v, time):  # type: ignore[no-untyped-def]
    """Return what batches can be paid from a time on."""
    s = time // x.slot
    return x.supply[v, s] - x.price[v, s] * FINE * (time - s * x.slot) if s < x.price.shape[1] else 0
