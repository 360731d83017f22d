"""The narrow search of `events.py`, compiled where numba is installed."""

from typing import Any, NamedTuple

from kvcore.certificates import frontier, labels
from kvcore.certificates.labels import EMPTY
from kvcore.compiled import compiled


class Narrow(NamedTuple):
    """A problem, and how many states with the same tokens left are followed."""

    problem: frontier.Problem
    width: int
    followed: Any  # by tokens left


@compiled
def expand(p, f, at):
    """Add the states after one if it is followed."""
    p.followed[f.labels.left[at]] += 1
    if p.followed[f.labels.left[at]] > p.width:
        return EMPTY
    return frontier.expand(p.problem, f, at)


search = labels.searching(expand)
