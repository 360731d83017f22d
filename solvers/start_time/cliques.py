"""Cliques of starts that exclude one another, violated by a fractional solution."""

from __future__ import annotations

import numpy as np

from solvers.start_time.prices import Mask, StartColumns
from solvers.start_time.problem import Array

MOST = 20
"""Cliques added in a round."""


def violated_cliques(columns: StartColumns, x: Array, extra: Array, alive: Mask) -> list[Array]:
    """Return sets of columns, pairwise in conflict, of which `x` takes more than one; made maximal.

    Each is grown greedily from one column of the support; other columns alive are added in order of `extra`, what a
    column adds to the bound when it is taken.
    """
    support = np.flatnonzero((x > 1e-6) & columns.once)
    if not len(support):
        return []
    conflict = np.array([columns.conflicts(int(j), support) for j in support])
    np.fill_diagonal(conflict, False)
    found = {}
    for j in range(len(support)):
        for weighted in (False, True):
            clique = _grow(j, conflict, x[support], weighted)
            weight = float(x[support[clique]].sum())
            if weight > 1.001:
                found[tuple(sorted(clique))] = weight
    best = sorted(found, key=lambda clique: (-found[clique], clique))[:MOST]
    others = np.flatnonzero(alive & columns.once)
    others = others[np.argsort(extra[others], kind="stable")]
    return [_maximal(columns, support[list(clique)], others) for clique in best]


def _grow(first: int, conflict: Mask, weight: Array, weighted: bool) -> list[int]:
    """Add the heaviest candidate, or the one with the heaviest candidates left, until there is none."""
    clique, candidates = [first], conflict[first].copy()
    while candidates.any():
        places = np.flatnonzero(candidates)
        score = weight[places]
        if weighted:
            score = score + conflict[np.ix_(places, places)] @ score
        chosen = int(places[score.argmax()])
        clique.append(chosen)
        candidates &= conflict[chosen]
    return clique


def _maximal(columns: StartColumns, clique: Array, candidates: Array) -> Array:
    """Add candidates, in this order, as long as there are any in conflict with all."""
    candidates = candidates[~np.isin(candidates, clique)]
    for j in clique.tolist():
        candidates = candidates[columns.conflicts(j, candidates)]
    members = clique.tolist()
    while len(candidates):
        members.append(int(candidates[0]))
        candidates = candidates[1:][columns.conflicts(members[-1], candidates[1:])]
    return np.array(members)
