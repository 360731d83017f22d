"""Non-negative least squares on relative errors: split, fit, errors."""

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from costmodels.rounding import Function
from kvcore.cost import Features
from kvcore.cost_file import Errors, Observation

Floats = NDArray[np.float64]


def errors(predicted: Floats, seconds: Floats) -> Errors | None:
    """Compare predictions with measured seconds; None without any."""
    if not len(seconds):
        return None
    relative = predicted / seconds - 1
    spread = float(((seconds - seconds.mean()) ** 2).sum())
    return Errors(
        count=len(seconds),
        r2=None if spread == 0 else 1 - float(((predicted - seconds) ** 2).sum()) / spread,
        mean=float(np.abs(relative).mean()),
        p95=float(np.quantile(np.abs(relative), 0.95)),
        worst=float(np.abs(relative).max()),
        bias=float(relative.mean()),
    )


def split(observations: Sequence[Observation], share: float, seed: int) -> tuple[list[Observation], list[Observation]]:
    """Return (those to fit to, those held out): a share of each label, by seed; one is always left."""
    kinds: dict[str, list[Observation]] = {}
    for observation in observations:
        kinds.setdefault(observation.label, []).append(observation)
    train: list[Observation] = []
    held: list[Observation] = []
    for label, kind in kinds.items():
        random.Random(f"{seed} {label}").shuffle(kind)
        count = min(round(share * len(kind)), len(kind) - 1)
        held += kind[:count]
        train += kind[count:]
    return train, held


def table_of(observations: Sequence[Observation]) -> tuple[Floats, Floats]:
    """Return the features [rows, features] and the seconds [rows]."""
    features = np.array([observation.features for observation in observations], dtype=float)
    return features.reshape(-1, len(Features._fields)), np.array([o.seconds for o in observations], dtype=float)


NEGLIGIBLE = 1e-7  # a coefficient that never adds more than this fraction of a batch's time is left out


def fit_function(names: Sequence[str], features: Floats, seconds: Floats, knee: int | None = None) -> Function:
    """Return the function of these features (and tokens above a knee) with the least squared relative errors.

    Minimises sum(((X b - t) / t)^2) over b >= 0, with columns of one length.
    """
    from scipy.optimize import nnls  # only a fit loads it

    rows = columns(names, features, knee) / seconds[:, None]
    length = np.linalg.norm(rows, axis=0)
    scaled = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    solution, _ = nnls(scaled, np.ones(len(rows)))
    found = np.divide(solution, length, out=np.zeros_like(solution), where=length > 0)
    found[(found * rows).max(axis=0) < NEGLIGIBLE] = 0
    used = [*names, "tokens_above"] if knee is not None else names
    return Function({name: Fraction(float(b)) for name, b in zip(used, found, strict=True) if b > 0}, knee or 0)


def predict(function: Function, features: Floats) -> Floats:
    """Return the seconds [rows] of a function for features [rows, features], in floating point."""
    names = [name for name in function.seconds if name != "tokens_above"]
    bent = "tokens_above" in function.seconds
    used = [*names, "tokens_above"] if bent else names
    coefficients = np.array([float(function.seconds[name]) for name in used])
    values: Floats = columns(names, features, function.knee if bent else None) @ coefficients
    return values


def longest_of(functions: Sequence[Function], features: Floats) -> Floats:
    """Return the largest value of the functions for each row, 0 if there is none."""
    best = np.zeros(len(features))
    for function in functions:
        np.maximum(best, predict(function, features), out=best)
    return best


def columns(names: Sequence[str], features: Floats, knee: int | None) -> Floats:
    """Return the columns of these features, and with a knee that of the tokens above it."""
    chosen = features[:, [Features._fields.index(name) for name in names]]
    if knee is None:
        return chosen
    above = np.maximum(0, features[:, Features._fields.index("tokens")] - knee)
    return np.column_stack([chosen, above])
