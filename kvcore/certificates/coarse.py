"""A bound of the instance rounded in the schedule's favour is one of the instance itself (docs/coarsening.md)."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from kvcore.certificates.budget import Budget
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.coarsen import coarsen, fine_bound
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value

if TYPE_CHECKING:
    from kvcore.certificates.certificate import AnyProof

Size = Annotated[int, Field(ge=1, le=10**9)]

SEGMENT_WORK, SEGMENT_BYTES = 100_000, 5000
"""What a segment, and a request with it, takes to be coarsened."""


class Coarse(Proof):
    """A proof for `relax` of the instance, in blocks of `block_tokens` and slots of `slot_ticks`."""

    kind: Literal["coarse"] = "coarse"
    block_tokens: Size
    slot_ticks: Size
    proof: AnyProof

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the bound of the coarse instance in fine ticks, less what the roundings leave out."""
        segments = sum(len(request.segments) for request in instance.requests)
        budget.spend(f"coarsening {segments} segments", SEGMENT_WORK * segments, SEGMENT_BYTES * segments)
        try:
            coarse = coarsen(instance, block_tokens=self.block_tokens, slot_ticks=self.slot_ticks, direction="relax")
        except BadInput as error:
            raise InvalidCertificate(str(error)) from None
        found = self.proof.prove(coarse, objective, budget)
        fine = fine_bound(coarse, objective, ceil(found))
        if fine is None:
            raise InvalidCertificate(f"no bound on {objective} carries over from a coarse instance")
        return fine

    @property
    def why(self) -> str:
        """The argument in words."""
        return f"in blocks of {self.block_tokens} tokens and slots of {self.slot_ticks} ticks: {self.proof.why}"
