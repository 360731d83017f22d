"""Requests in parts: leaving out the others hurts nobody, so each part's bound holds beside theirs.

Take a schedule and leave out all requests but those of a part, and every batch in which nothing of theirs is left but
drops. The drops are made in the next batch that is left; rules R4 and R9 allow them there, because without `evict` all
of them belong to calls. Features, and so durations, only shrink: each batch starts so much later that it ends when it
did. So no token of the part comes at another time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from kvcore.certificates.budget import Budget
from kvcore.certificates.proof import InvalidCertificate, Proof, add_up
from kvcore.instance import Instance, Noun
from kvcore.metrics import SUMS, Value

if TYPE_CHECKING:
    from kvcore.certificates.certificate import AnyProof

SEGMENT_WORK = 10_000
"""What a segment, and a request with it, takes to become one of a part."""


class Part(Noun):
    """Requests, by their positions in the instance, and a proof for the instance of these alone."""

    requests: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    proof: AnyProof

    def instance(self, whole: Instance) -> Instance:
        """Return the instance of these requests alone."""
        return whole.replace(requests=tuple(whole.requests[i] for i in self.requests), coarsening=None)


class Parts(Proof):
    """A sum over requests is at least the sum of the bounds of disjoint parts; a maximum, the largest of them."""

    kind: Literal["parts"] = "parts"
    parts: Annotated[tuple[Part, ...], Field(min_length=1)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the bounds of the parts, added up for a sum over requests."""
        if instance.machine.evict:
            raise InvalidCertificate("parts are not proved for a machine that evicts outside calls")
        chosen = [i for part in self.parts for i in part.requests]
        if len(set(chosen)) < len(chosen) or max(chosen) >= len(instance.requests):
            raise InvalidCertificate("the parts must hold different requests of the instance")
        segments = sum(len(instance.requests[i].segments) for i in chosen)
        budget.spend(f"parts of {len(chosen)} requests", SEGMENT_WORK * segments)
        bounds = [part.proof.prove(part.instance(instance), objective, budget) for part in self.parts]
        return add_up(bounds) if objective in (*SUMS, "late-requests") else max(bounds)

    @property
    def why(self) -> str:
        """The argument in words."""
        return f"{len(self.parts)} parts of the requests, each without the others: {self.parts[0].proof.why}"
