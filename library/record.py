"""The record of an instance: its origin, and the best known of each objective (`docs/library.md`)."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from kvcore.instance import Name, Noun

Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,100}$")]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Exact = Annotated[str, Field(max_length=400, pattern=r"^-?[0-9]+(/0*[1-9][0-9]*)?$")] | int
"""An integer, or a fraction in text."""


class Origin(Noun):
    """Who found a schedule or a certificate, how, in how many seconds, and when."""

    by: Name
    how: Name
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]


class Best(Noun):
    """The best known of one objective: the value of a schedule, and the bound of a certificate."""

    value: Exact | None = None
    bound: Exact | None = None
    status: Literal["solved", "open"] = "open"
    schedule: Origin | None = None
    certificate: Origin | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if [self.value is None, self.bound is None] != [self.schedule is None, self.certificate is None]:
            raise ValueError("a value has a schedule, and a bound a certificate, or neither is there")
        if (self.status == "solved") is not (self.value is not None and self.value == self.bound):
            raise ValueError("solved is what has a value that is its bound, and nothing else")
        return self

    @property
    def gap(self) -> float | None:
        """(value - bound) / bound; None without both, or without a positive bound."""
        if self.value is None or self.bound is None:
            return None
        value, bound = Fraction(self.value), Fraction(self.bound)
        return 0.0 if value == bound else float((value - bound) / bound) if bound > 0 else None

    def better(self, kind: Literal["schedule", "certificate"], value: int | str, origin: Origin) -> Best | None:
        """Return it with what was found; None where that is no better."""
        name, sign = ("value", 1) if kind == "schedule" else ("bound", -1)
        known = getattr(self, name)
        if known is not None and sign * Fraction(known) <= sign * Fraction(value):
            return None
        made: dict[str, Any] = {**dict(self), name: value, kind: origin}
        made["status"] = "solved" if made["value"] is not None and made["value"] == made["bound"] else "open"
        return Best(**made)


class Record(Noun):
    """An instance of the library, and the best known of its objectives."""

    format: Literal["kvbound-record"] = "kvbound-record"
    version: Annotated[int, Field(ge=1, le=1)] = 1
    name: Word
    family: Word
    source: Name
    origin: Name
    licence: Name
    instance_sha256: Hash
    requests: Annotated[int, Field(ge=1)]
    calls: Annotated[int, Field(ge=0)]
    objectives: Annotated[dict[Word, Best], Field(min_length=1)]

    def rows(self) -> list[dict[str, Any]]:
        """Return a JSON-ready row for each objective."""
        return [
            {"name": self.name, "family": self.family, "requests": self.requests, "calls": self.calls,
             "objective": objective, "value": best.value, "bound": best.bound, "gap": best.gap, "status": best.status}
            for objective, best in self.objectives.items()
        ]  # fmt: skip

    def to_json(self) -> str:
        """Return the file as text."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
