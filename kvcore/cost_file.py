"""Cost files: a cost model, its measurements and its fit."""

import json
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.dataclasses import dataclass

from kvcore.cost import Cost, Features
from kvcore.instance import LIMIT, Machine, Name, Noun, PositiveFraction


def _features(value: Any) -> Features:
    counts = value._asdict() if isinstance(value, Features) else value
    if not isinstance(counts, dict) or not set(counts) <= set(Features._fields):
        raise ValueError(f"features are an object with keys among {', '.join(Features._fields)}")
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= LIMIT:
            raise ValueError(f"{name} is a whole number from 0 to {LIMIT}, not {count!r}")
    return Features(**counts)


def _counts(features: Features) -> dict[str, int]:
    return {name: count for name, count in features._asdict().items() if count}


_SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "integer", "minimum": 0, "maximum": LIMIT} for name in Features._fields},
    "additionalProperties": False,
    "description": "The features of a batch that are not 0.",
}
BatchFeatures = Annotated[
    Features, PlainValidator(_features), PlainSerializer(_counts, return_type=dict[str, int]), WithJsonSchema(_SCHEMA)
]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Observation:
    """A measured batch: `Observation(features, seconds, label)`.

    The label names its kind, such as "decode"; some of each are held out.
    """

    features: BatchFeatures
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    label: Name = ""


class Errors(Noun):
    """Errors of predictions; all but `r2` are fractions of the measured time."""

    count: int
    r2: float | None
    """1 - (squared errors in seconds) / (squared deviations from the mean); None for equal times."""
    mean: float
    """Of the absolute relative errors."""
    p95: float
    worst: float
    bias: float
    """Mean of the signed relative errors; above 0: the model is too slow."""


class ShapeFit(Noun):
    """Errors of one shape on batches fitted and held out, and its knees in tokens."""

    fitted: Errors
    held_out: Errors | None
    knees: tuple[int, ...] = ()


class FitReport(Noun):
    """Batches fitted and errors; None: no batches of that kind."""

    shape: Literal["linear", "hinge", "max"]
    transfers: Literal["overlapped", "sync"]
    seed: int
    share_held_out: float
    shapes: dict[str, ShapeFit]
    """Work alone, by shape."""
    moves: ShapeFit | None
    mixed: Errors | None
    """With work and moves; none fitted."""
    held_out: Errors | None
    """All held out, by the whole model."""
    by_label: dict[str, Errors]
    """The same by label."""


Fact = str | int | float | bool | None


class CostFile(Noun):
    """A cost model; all but the cost and its tick may be null."""

    format: Literal["kvbound-cost"] = "kvbound-cost"
    version: Annotated[int, Field(ge=1, le=1)] = 1
    name: Name = "cost"
    tick_seconds: PositiveFraction
    cost: Cost
    machine: Machine | None = None
    model: Name | None = None
    device: dict[str, Fact] | None = None
    versions: Annotated[dict[str, str], Field(default_factory=dict)]
    rounding_error: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Largest relative error of a coefficient; see `costmodels.rounding`."""
    fit: FitReport | None = None
    observations: tuple[Observation, ...] | None = None

    def to_json(self) -> str:
        """Return the file as text, every key written."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
