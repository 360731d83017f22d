"""Every schedule of a small instance is looked at, the cheapest first: what is reached is a lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from kvcore.certificates.batches import TooManyStates
from kvcore.certificates.budget import Budget
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.certificates.search import ExhaustiveSearch
from kvcore.instance import Instance
from kvcore.metrics import Value

MOST_STATES = 100_000
"""States that a checker looks at, at the most; with `TRIES`, it takes two minutes or so."""
TRIES = 30
"""Moves, options, choices and batches that it tries for each of them, on average, at the most."""
STATE_WORK, STATE_BYTES = 2_000_000, 16_000
"""What a state takes at the most, with its tries."""
MOST_REQUESTS, MOST_SEGMENTS, MOST_TOKENS = 32, 100, 10_000
"""Larger instances are refused: nothing could be proved in so many states."""


class Exhaustive(Proof):
    """Look at the first `states` states in the order of what they cost at the least, or all up to an optimum.

    Any number is safe: where the search stops early, no schedule is below the state that comes next.
    """

    kind: Literal["exhaustive"] = "exhaustive"
    states: Annotated[int, Field(ge=1, le=MOST_STATES)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what no schedule is below after so many states: the optimum, if they are enough."""
        budget.spend(f"a search of {self.states} states", STATE_WORK * self.states, STATE_BYTES * self.states)
        return look(instance, objective, self.states).bound

    @property
    def why(self) -> str:
        """The argument in words."""
        return f"all batches that the rules allow were tried, the cheapest states first, {self.states} at the most"


@dataclass(frozen=True)
class Look:
    """What a search came to."""

    bound: Value
    states: int
    """States that a proof of the same bound needs."""
    is_optimum: bool


def look(instance: Instance, objective: str, states: int) -> Look:
    """Search until an optimum is found, or `states` states were seen, or `TRIES` tries made for each of them.

    Raises InvalidCertificate if the instance is too large.
    """
    check_size(instance)
    search = ExhaustiveSearch(instance, objective, guided=True)
    search.batches.tries = states * TRIES
    try:
        label, _ = search.run(states)
    except TooManyStates:
        return Look(search.value(search.reached), states, False)
    tried = states * TRIES - int(search.batches.tries)
    return Look(search.value(label), max(search.seen, -(-tried // TRIES)), True)


def check_size(instance: Instance) -> None:
    """Raise InvalidCertificate if an exhaustive search has no hope."""
    for what, limit, size in (
        ("requests", MOST_REQUESTS, len(instance.requests)),
        ("segments", MOST_SEGMENTS, sum(len(request.segments) for request in instance.requests)),
        ("generated tokens", MOST_TOKENS, sum(request.output for request in instance.requests)),
    ):
        if size > limit:
            raise InvalidCertificate(f"an exhaustive search takes at most {limit} {what}, and there are {size}")
