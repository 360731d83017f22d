"""SLAI batch by batch by hand: ticks of a second, batches of a tick."""

from __future__ import annotations

from fractions import Fraction

from kvcore.instance import Instance, Slo
from tests.heuristics.test_policies_today import moves, request, serving


def between(ticks: int, given: Instance) -> Instance:
    """The same, with so many ticks between two tokens."""
    slo = Slo(tpot=Fraction(ticks))
    return given.replace(requests=tuple(request.replace(slo=slo) for request in given.requests))


def test_without_a_limit_on_tpot_a_tenth_of_a_second_counts() -> None:
    """A tick is 0.02 s: due 5 ticks after its token, less 5 batches, so at once."""
    given = serving(None, request("A", 8, 2), request("B", 3000, 1, 1)).replace(tick_seconds=Fraction(1, 50))
    assert moves(given, "slai", 2)[1] == ({"A": 1, "B": 511}, {})
    slower = given.replace(tick_seconds=Fraction(1, 60))
    assert moves(slower, "slai", 3) == [({"A": 8}, {}), ({"B": 512}, {}), ({"A": 1, "B": 511}, {})]
