"""Which reductions of the search are valid for an instance. `docs/search.md` proves each; the tests switch each off."""

from __future__ import annotations

from dataclasses import dataclass

from formulations.chains import refill_pays
from formulations.timing import is_paced
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
    """A prefill is split only into all but one token and that token (or, `single_chunk`, one token and the rest)."""
    last_token_chunk: bool
    single_chunk: bool
    lazy: bool
    """KV moves only where a memory is needed, or with work."""
    early_drop: bool
    """Even so, an eviction may drop KV before memory is needed."""
    drop_and_work: bool
    """Even so, KV may be dropped in the batch in which the request works."""
    makes_batches: bool
    """A swap-out and a swap-in at once may make a batch of drops, because a refill may be cheaper than other work."""
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
    few = "chunks" in on and ample and (slots or _splitting_costs(instance, objective))
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
        single_chunk=slots and not machine.hybrid and machine.evict,
        lazy=lazy,
        early_drop=early_drop,
        drop_and_work=not lazy or (keeps_drops and not swap),
        makes_batches=(not lazy or early_drop) and refill_pays(instance),
        transfer_only=not lazy or early_drop,
        forget=forget,
        swap=swap,
        finish="finish" in on and lazy and machine.hybrid and regular,
        maximal="maximal" in on and forget and machine.evict and regular,
        calls="calls" in on,
        counts="counts" in on and "symmetry" in on,
    )


def ample_budgets(instance: Instance) -> bool:
    """Whether no batch can exhaust the token budgets: what works is resident, and memory is no larger than they are."""
    machine = instance.machine
    most = sum(sorted((r.peak for r in instance.requests), reverse=True)[: machine.batch_requests])
    if machine.memory is not None:
        most = min(most, machine.memory)
    budgets = (machine.batch_tokens, machine.prefill_limit)
    return all(budget is None or budget >= most for budget in budgets)


def _splitting_costs(instance: Instance, objective: str) -> bool:
    """Whether, for busy-time, a split prefill costs more than the rounding of durations can give back."""
    machine, functions = instance.machine, instance.cost.functions
    if objective != "busy-time" or len(functions) != 1 or (machine.evict and not machine.hybrid):
        return False
    f = functions[0]
    if f.tokens_above is not None or f.busy == 0:
        return False
    n, q = len(instance.requests), f.divisor
    peaks = sum(r.peak for r in instance.requests)
    held = peaks if machine.memory is None else min(machine.memory, peaks)
    split = f.prefill_requests + f.prefill_kv
    whole_batch = f.busy + f.any_prefill + f.prefill_requests
    keeping = f.any_decode + n * f.decode_requests + max(f.decode_kv, f.prefill_kv) * held
    exact = q == 1
    return (exact or split >= 2 * q) and (not machine.evict or whole_batch >= keeping + (0 if exact else (n + 2) * q))
