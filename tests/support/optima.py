"""Tiny instances with their optima, by the exhaustive search."""

from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum


def optima(profile, seeds, objectives, max_states, **changes):
    """Yield (seed, instance, objective, optimum) with the objectives in turn; leave out what takes more states."""
    for seed in seeds:
        instance = tiny_instance(seed, **PROFILES[profile] | changes)
        objective = objectives[seed % len(objectives)]
        try:
            yield seed, instance, objective, exhaustive_optimum(instance, objective, max_states=max_states)[0]
        except TooManyStates:
            continue
