"""Kind `late-tail` (docs/bounds.md, Percentiles)."""

from __future__ import annotations

from library.checker.enumeration import enumerated
from library.checker.events import exhaustive
from library.checker.files import Amount, Box
from library.checker.objectives import spared, tail_of
from library.checker.windows import late_windows

INSIDE = {"enumeration": enumerated, "events": exhaustive, "late-windows": late_windows}


def late_tail(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `late-tail`: if all had to be on time `within` ticks, more would be late than the percentile spares."""
    slo = {"ttft" if tail_of(objective)[2] == "ttft" else "latency": proof.within}
    due = Box(instance, requests=[Box(one, slo=slo) for one in instance.requests])
    may, function = spared(objective, len(due.requests)), INSIDE[proof.proof.kind]
    return proof.within + 1 if function(due, Box(proof.proof, claim=may + 1), "late-requests") > may else 0
