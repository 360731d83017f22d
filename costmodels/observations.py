"""Batches whose time was measured: their split into those to fit to and those held out, and errors of predictions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvcore.cost import Features
from kvcore.cost_file import Errors, Observation

Floats = NDArray[np.float64]


def errors(predicted: Floats, seconds: Floats) -> Errors | None:
    """Compare predictions with measured seconds; None if there is nothing to compare."""
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
    """Return (those to fit to, those held out): a share of each label, drawn with the seed; one is always left."""
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
