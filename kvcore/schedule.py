"""The schedule: a list of batches, each with a start, the work of each request, and the moves made at its start."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field

from kvcore.instance import _NO_FIELDS, Name, Noun

Integer = Annotated[int, Field(ge=-(10**15), le=10**15)]
"""A number that the referee judges."""
Start = Annotated[int, Field(ge=-(10**15), le=10**60)]
"""Start of a batch, in ticks: in a long schedule far beyond an instance's numbers."""


class _Nothing(dict[str, int]):
    def __setitem__(self, request: str, tokens: int) -> NoReturn:
        raise TypeError("a batch is not changed: make another one")

    setdefault = update = __ior__ = __setitem__  # type: ignore[assignment]


_NOTHING = _Nothing()
_EMPTY: Any = Field(default_factory=lambda: _NOTHING, json_schema_extra={"default": {}})
_UNSAID: Any = Field(
    default_factory=lambda: _NOTHING, json_schema_extra={"default": {}}, exclude_if=lambda moves: not moves
)


class Batch(Noun):
    """One batch: `work` and moves map request ids to tokens, `forget` maps nodes to blocks.

    With `repeat` = k > 1 it stands for k batches: itself and k - 1 more of the same work, without moves, each
    starting when the one before ends.
    """

    start: Start
    work: dict[Name, Integer] = _EMPTY
    drop: dict[Name, Integer] = _EMPTY
    swap_out: dict[Name, Integer] = _EMPTY
    swap_in: dict[Name, Integer] = _EMPTY
    forget: dict[Name, Integer] = _UNSAID
    reuse: dict[Name, Integer] = _UNSAID
    repeat: Annotated[int, Field(ge=1, le=10**9)] = 1

    def again(self, start: int) -> Batch:
        """Return the next of its repetitions: the same work, no moves."""
        return Batch.unchecked(start, work=self.work)

    @classmethod
    def unchecked(cls, start: int, **parts: dict[str, int]) -> Batch:
        """Return a batch of integers, in a tenth of the time that checks take."""
        batch, set = cls.__new__(cls), object.__setattr__
        set(batch, "__dict__", {"start": start, **_PARTS, "repeat": 1, **parts})
        set(batch, "__pydantic_fields_set__", _NO_FIELDS)
        set(batch, "__pydantic_extra__", None)
        set(batch, "__pydantic_private__", None)
        return batch


_PARTS = {name: _NOTHING for name in Batch.model_fields if name not in ("start", "repeat")}


class Schedule(Noun):
    """Batches in order. The referee derives everything else (`kvbound.verify_schedule`)."""

    format: Literal["kvbound-schedule"] = "kvbound-schedule"
    version: Annotated[int, Field(ge=1, le=1)] = 1
    instance_sha256: Name
    batches: tuple[Batch, ...]

    def __repr__(self) -> str:
        batches = sum(batch.repeat for batch in self.batches)
        return f"Schedule({batches} batches of the instance {self.instance_sha256[:12]}..)"

    def to_json(self, indent: int | None = None) -> str:
        """Return the schedule file as text; `repeat` is written where it is above 1."""
        data = self.model_dump(mode="json")
        for batch in data["batches"]:
            if batch["repeat"] == 1:
                del batch["repeat"]
        return json.dumps(data, indent=indent, ensure_ascii=False)
