"""SLAI batch by batch by hand: ticks of a second, batches of a tick."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvcore.instance import Instance, Slo
from tests.heuristics.test_policies_today import moves, request, serving


def between(ticks: int, given: Instance) -> Instance:
    """The same, with so many ticks between two tokens."""
    slo = Slo(tpot=Fraction(ticks))
    return given.replace(requests=tuple(request.replace(slo=slo) for request in given.requests))


@pytest.mark.parametrize(("memory", "second"), [(None, {"B": 512}), (3100, {"A": 1, "B": 511})])
def test_a_decode_waits_until_it_is_due(memory: int | None, second: dict[str, int]) -> None:
    """A's token at 1 is due again at 9, less 5 batches: at 4. In a memory that is 97 % full, from then on 10 early."""
    given = between(8, serving(memory, request("A", 8, 4), request("B", 3000, 1, 1)))
    work = [work for work, _ in moves(given, "slai", 6)]
    assert work == [{"A": 8}, *[{"B": 512}] * 3, {"A": 1, "B": 511}, second]


def test_without_a_limit_on_tpot_a_tenth_of_a_second_counts() -> None:
    """A tick is 0.02 s: due 5 ticks after its token, less 5 batches, so at once."""
    given = serving(None, request("A", 8, 2), request("B", 3000, 1, 1)).replace(tick_seconds=Fraction(1, 50))
    assert moves(given, "slai", 2)[1] == ({"A": 1, "B": 511}, {})
    slower = given.replace(tick_seconds=Fraction(1, 60))
    assert moves(slower, "slai", 3) == [({"A": 8}, {}), ({"B": 512}, {}), ({"A": 1, "B": 511}, {})]


@pytest.mark.parametrize(("memory", "most"), [(9, 9), (40, 2)])
def test_the_shortest_prompt_is_admitted_first(memory: int, most: int) -> None:
    """C (5) and D (4) come together; there is room, or a place, for one beside A."""
    three = request("A", 4, 2), request("C", 5, 1, 1), request("D", 4, 1, 1)
    given = serving(memory, *three, batch_requests=most)
    assert moves(given, "slai") == [({"A": 4}, {}), ({"A": 1, "D": 4}, {}), ({"C": 5}, {})]


def test_a_decode_evicts_the_prefill_that_was_cut() -> None:
    """M = 13: B holds or has reserved 8, A needs its sixth token. B finds room again when A is done."""
    given = serving(13, request("A", 4, 6), request("B", 8, 1, 1), batch_tokens=4)
    assert moves(given, "slai") == [
        ({"A": 4}, {}), ({"A": 1, "B": 3}, {}), ({"A": 1}, {"B": 3}), *[({"A": 1}, {})] * 3, *[({"B": 4}, {})] * 2,
    ]  # fmt: skip


def test_a_decode_that_lacks_a_block_evicts_itself() -> None:
    """M = 8 is full when A, which was due first, needs its next token."""
    given = serving(8, request("A", 3, 4), request("B", 3, 4))
    assert moves(given, "slai") == [
        ({"A": 3, "B": 3}, {}), ({"A": 1, "B": 1}, {}), ({"B": 1}, {"A": 4}), ({"B": 1}, {}), ({"A": 5}, {}),
        ({"A": 1}, {}),
    ]  # fmt: skip
