"""Every kind of proof that a file may hold; and two that are made of others: for parts of the requests, and coarse."""

from __future__ import annotations

from math import ceil
from typing import Annotated, Literal

from pydantic import Field

from kvcore.certificates.alone import Alone
from kvcore.certificates.budget import Budget
from kvcore.certificates.configurations import Configurations
from kvcore.certificates.events import Events
from kvcore.certificates.fresh import Fresh
from kvcore.certificates.late_windows import LateWindows
from kvcore.certificates.prices import Prices
from kvcore.certificates.proof import InvalidCertificate, Proof, add_up
from kvcore.certificates.shares import Shares
from kvcore.certificates.slots import Slots
from kvcore.certificates.speed import Speed
from kvcore.certificates.tree import Tree
from kvcore.coarsen import coarsen, fine_bound
from kvcore.errors import BadInput
from kvcore.instance import Instance, Noun
from kvcore.metrics import SUMS, Value

Size = Annotated[int, Field(ge=1, le=10**9)]

PART_WORK = 10_000
"""What a segment, and a request with it, takes to become one of a part."""
COARSE_WORK, COARSE_BYTES = 100_000, 5000
"""What a segment, and a request with it, takes to be coarsened."""


class Part(Noun):
    """Requests, by their positions in the instance, and a proof for the instance of these alone."""

    requests: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    proof: AnyProof

    def instance(self, whole: Instance) -> Instance:
        """Return the instance of these requests alone."""
        return whole.replace(requests=tuple(whole.requests[i] for i in self.requests), coarsening=None)


class Parts(Proof):
    """A sum over requests is at least the sum of the bounds of disjoint parts; a maximum, the largest of them.

    Take a schedule and leave out all requests but those of a part, and every batch in which none of their work is left
    but drops. The drops are made in the next batch that is left; rules R4 and R9 allow them there, because without
    `evict` all of them belong to calls. Features, and so durations, only shrink: each batch starts so much later that
    it ends when it did. So no token of the part comes at another time.
    """

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
        budget.spend(f"parts of {len(chosen)} requests", PART_WORK * segments)
        bounds = [part.proof.prove(part.instance(instance), objective, budget) for part in self.parts]
        return add_up(bounds) if objective in (*SUMS, "late-requests") else max(bounds)

    @property
    def why(self) -> str:
        """The argument in words."""
        return f"{len(self.parts)} parts of the requests, each without the others: {self.parts[0].proof.why}"


class Coarse(Proof):
    """A proof for `relax` of the instance, in blocks of `block_tokens` and slots of `slot_ticks`.

    The instance is rounded in the schedule's favour, so its bound is one of the instance itself (docs/coarsening.md).
    """

    kind: Literal["coarse"] = "coarse"
    block_tokens: Size
    slot_ticks: Size
    proof: AnyProof

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the bound of the coarse instance in fine ticks, less what the roundings leave out."""
        segments = sum(len(request.segments) for request in instance.requests)
        budget.spend(f"coarsening {segments} segments", COARSE_WORK * segments, COARSE_BYTES * segments)
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


AnyProof = Annotated[
    Alone | Coarse | Configurations | Events | Fresh | LateWindows | Parts | Prices | Shares | Slots | Speed | Tree,
    Field(discriminator="kind"),
]
"""Every kind of proof."""

Coarse.model_rebuild()
Part.model_rebuild()
Parts.model_rebuild()
