"""Which reductions of the search are valid for an instance. `docs/search.md` proves each; the tests switch each off."""

from __future__ import annotations

from dataclasses import dataclass

from formulations.refills import ample_budgets, drops_need_batches, is_paced, splitting
from kvcore.instance import Instance

DOMINANCE = ("symmetry", "chunks", "moves", "forget", "swap", "finish", "maximal", "calls", "counts")
"""The reductions that can be switched off, by the names of `docs/search.md`."""


@dataclass(frozen=True)
class Rules:
    """What the search may leave out on one instance."""

    slots: bool
    """Every batch lasts one tick: batches are slots of time."""
    symmetry: bool
    """Requests with the same parameters are interchangeable."""
    few_chunks: bool
    """A prefill is taken whole, but for the exceptions that follow: its last token, any one token, its first."""
    last_token_chunk: bool
    single_chunk: bool
    first_token_chunk: bool
    lazy: bool
    """KV moves only where a memory is needed, or with work."""
    early_drop: bool
    """Even so, an eviction may drop KV before memory is needed."""
    drop_and_work: bool
    """Even so, KV may be dropped in the batch in which the request works."""
    makes_batches: bool
    """A swap-out and a swap-in at once may make a batch of drops."""
    transfer_only: bool
    """A batch may consist of transfers alone."""
    forget: bool
    """KV that may be dropped is worth nothing, and is dropped at once."""
    swap: bool
    """KV is never dropped where it may be swapped out."""
    finish: bool
    """A segment that can end, and gives its memory back, is not put off."""
    maximal: bool
    """No request is left out that fits."""
    calls: bool
    """Of two states that differ in the ticks until calls return, the one that is behind and costs more is left out."""
    counts: bool
    """Like requests are counted, where `solvers/search/counts` applies."""


def valid_rules(instance: Instance, objective: str, dominance: tuple[str, ...] = DOMINANCE) -> Rules:
    """Return the reductions of `dominance` that are proved for this instance and objective."""
    machine = instance.machine
    on = set(dominance)
    slots = instance.cost.always_one_tick
    ample = ample_budgets(instance)
    parts = splitting(instance, objective) if "chunks" in on else "any"
    few = machine.chunked and parts != "any"
    whole = not machine.chunked or (few and slots and machine.hybrid)
    lazy = "moves" in on and slots
    keeps_drops = not machine.hybrid or (not machine.partial and not whole)
    forget = "forget" in on and lazy and ample and whole and machine.hybrid
    ample_host = machine.host_memory is None or machine.host_memory >= sum(r.peak for r in instance.requests)
    swap = "swap" in on and lazy and machine.hybrid and not forget and ample_host
    regular = not is_paced(instance, objective)
    early_drop = machine.evict and keeps_drops and not swap
    return Rules(
        slots=slots,
        symmetry="symmetry" in on,
        few_chunks=few,
        last_token_chunk=not slots or not machine.hybrid,
        single_chunk=parts == "one token",
        first_token_chunk=parts == "first token",
        lazy=lazy,
        early_drop=early_drop,
        drop_and_work=not lazy or (keeps_drops and not swap),
        makes_batches=(not lazy or early_drop) and drops_need_batches(instance),
        transfer_only=not lazy or early_drop,
        forget=forget,
        swap=swap,
        finish="finish" in on and lazy and machine.hybrid and regular and not early_drop,
        maximal="maximal" in on and forget and machine.evict and regular,
        calls="calls" in on,
        counts="counts" in on and "symmetry" in on,
    )
