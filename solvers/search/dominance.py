"""Which of many states need not be looked at, because another one is as good."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from solvers.search.problem import Problem
from solvers.search.successors import States

NEIGHBOURS = 3
"""How many of the next cheaper states like it each state is compared with, besides the cheapest."""

_ODD = np.random.default_rng(20).integers(1, 2**62, 1 << 12, dtype=np.int64) * 2 + 1
"""Multipliers of a hash. A collision costs time, never a state: rows are compared."""


def undominated(problem: Problem, states: States) -> States:
    """Return the states without those that another one dominates (rules `calls` and `forget`, and equal ones).

    Of two states that are alike, the one that costs no more and waits no longer for any call is as good, unless it
    has waited and the other has not (then its next batch is not free).
    """
    if len(states) < 2:
        return states
    columns = problem.table.state
    alike = columns["alike"][states.rows]
    key = (alike * np.resize(_ODD, alike.shape[1])).sum(axis=1)
    if problem.objective.timed:
        key = key + states.time * _ODD[-1]
    fresh = np.asarray(columns["fresh"][states.rows].any(axis=1))
    remaining = columns["remaining"][states.rows]
    order = np.lexsort((fresh, remaining.sum(axis=1), states.cost, key))
    states = states.take(order)
    alike, key, fresh, remaining = alike[order], key[order], fresh[order], remaining[order]
    index = np.arange(len(key))
    cheapest = np.maximum.accumulate(np.where(np.append(True, key[1:] != key[:-1]), index, 0))
    beaten: npt.NDArray[np.bool_] = np.zeros(len(key), np.bool_)
    for back in range(NEIGHBOURS + 1):
        rival = cheapest if back == 0 else index - back
        which = np.nonzero(~beaten & (rival < index) & (rival >= cheapest))[0]
        rivals = rival[which]
        wins = (alike[which] == alike[rivals]).all(axis=1) & (remaining[rivals] <= remaining[which]).all(axis=1)
        wins &= ~fresh[rivals] | (states.rows[which] == states.rows[rivals]).all(axis=1)
        if problem.objective.timed:
            wins &= states.time[which] == states.time[rivals]
        beaten[which[wins]] = True
    return states.take(~beaten)
