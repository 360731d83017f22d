"""The waste of a schedule."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvbound.tables import CAUSES, Cells, few, percent
from kvbound.timeline import timeline
from kvbound.units import units_of
from kvcore.account import memory_waste, node_uses, savings
from kvcore.metrics import busy_time, makespan, summary
from kvcore.trace import Trace

WASTE = dict(
    zip(CAUSES, ("wasted", "held in calls", "held while paused", "held in transfer", "held to refill"), strict=True),
    retained="kept for reuse",
)


def wasted(trace: Trace) -> dict[str, Any]:
    """Return `kvcore.metrics.summary`, and more, JSON-ready.

    `idle_seconds` without a batch between the first arrival and the end, `request_seconds` by what the requests do
    (`kvbound.timeline`), `waste_token_seconds` of KV by cause, and where `batch_tokens` is limited, the batches below
    that (`batches_below_budget`) and the unused share of all budgets (`budget_unused`). With contents:
    `saved_seconds`, and `nodes` (`kvcore.account.node_uses`).
    """
    instance = trace.instance
    tick, budget = instance.tick_seconds, instance.machine.batch_tokens
    spent: Counter[str] = Counter()
    for intervals in timeline(trace).values():
        for start, end, kind in intervals:
            spent[kind] += end - start
    idle = makespan(trace) - min(request.arrival for request in instance.requests) - busy_time(trace)
    measured = {
        **summary(trace),
        "idle_seconds": float(idle * tick),
        "request_seconds": {kind: float(ticks * tick) for kind, ticks in spent.most_common()},
        "waste_token_seconds": {cause: float(ticks * tick) for cause, ticks in memory_waste(trace).parts().items()},
    }
    if instance.contents:
        measured["saved_seconds"] = float(sum(saving.ticks for saving in savings(trace)) * tick)
        measured["nodes"] = [use._asdict() for use in node_uses(trace)]
    if budget is not None:
        sizes = [tokens for run in trace.runs for tokens in [run.features.tokens] * len(run.ends)]
        measured["batches_below_budget"] = sum(tokens < budget for tokens in sizes)
        measured["budget_unused"] = 1 - sum(sizes) / (budget * len(sizes))
    return measured


def wasted_cells(trace: Trace) -> Cells:
    """Return the waste of a schedule as a table."""
    found, machine, kv = wasted(trace), trace.instance.machine, units_of(trace.instance).kv
    end = float(makespan(trace) * trace.instance.tick_seconds)
    shares = found["waste_share"] or {}
    spent, all_spent = found["request_seconds"], sum(found["request_seconds"].values())
    redone, idle = percent(found["recomputed_share"]), percent(found["idle_seconds"] / end)
    rows: list[tuple[object, ...]] = [
        ("evictions", f"{found['evictions']:,}", None),
        (f"{kv} recomputed", f"{found['tokens_recomputed']:,}", f"{redone} of those processed"),
        *(
            [(f"{kv} reused", f"{found['tokens_reused']:,}", f"saves {found['saved_seconds']:.4g} s of batches")]
            if "saved_seconds" in found
            else []
        ),
        (f"{kv} swapped out, in", f"{found['tokens_swapped_out']:,}, {found['tokens_swapped_in']:,}", None),
        ("time without a batch", f"{found['idle_seconds']:.4g} s", f"{idle} of {end:.6g} s"),
    ]
    if "budget_unused" in found:
        unused = f"{percent(found['budget_unused'])} of the budget of all {found['batches']:,} left"
        rows.append((f"batches below {machine.batch_tokens:,} {kv}", f"{found['batches_below_budget']:,}", unused))
    rows += [
        (
            f"KV {WASTE[cause]}, {kv} x s", f"{found['waste_token_seconds'][cause]:,.4g}",
            f"{percent(shares[cause])} of memory x makespan" if shares else None,
        )
        for cause in WASTE if cause in found["waste_token_seconds"]
    ]  # fmt: skip
    rows += [
        (f"requests: {kind}", f"{seconds:.4g} s", f"{percent(seconds / all_spent)} of their time")
        for kind, seconds in spent.items()
    ]
    return Cells(("what", "amount", "share"), rows, (1,))


def node_use_cells(trace: Trace, most: int) -> Cells:
    """Return the nodes reused most."""
    end, kv = makespan(trace), units_of(trace.instance).kv
    sizes = {node.id: node.blocks for node in trace.instance.contents}
    uses = sorted(node_uses(trace), key=lambda use: -sum(use.reused.values()))
    rows = [
        (
            use.node, f"{sizes[use.node]:,}", f"{use.resident / end:,.4g}", f"{use.retained / end:,.4g}",
            f"{sum(use.reused.values()):,}", few([*use.reused]) or "-", f"{use.forgotten:,}",
        )
        for use in uses[:most]
    ]  # fmt: skip
    columns = ("node", "blocks", f"{kv} resident, mean", "retained", f"{kv} reused", "by", "blocks forgotten")
    return Cells(columns, rows, (1, 2, 3, 4, 6))
