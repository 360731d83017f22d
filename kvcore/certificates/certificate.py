"""The certificate file and its checker."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from weakref import WeakValueDictionary

from pydantic import Field

import kvcore
from kvcore.certificates.alone import Alone
from kvcore.certificates.budget import InvalidCertificate
from kvcore.certificates.configurations import Configurations
from kvcore.certificates.enumeration import Enumeration
from kvcore.certificates.events import Events
from kvcore.certificates.in_order import InOrder
from kvcore.certificates.late_windows import LateWindows
from kvcore.certificates.pairs import Pairs
from kvcore.certificates.potentials import Potentials
from kvcore.certificates.proof import Proof
from kvcore.certificates.shares import Shares
from kvcore.certificates.slot_dual import SlotDual
from kvcore.certificates.slots import Slots
from kvcore.certificates.speed import Speed
from kvcore.certificates.tail import LateTail
from kvcore.files import parse, read_text
from kvcore.instance import Instance, Name, Noun
from kvcore.metrics import AVERAGES, Value, check_objective, least_value

HORIZON = "no batches are counted: the argument holds for schedules of any length"

FINEST = 10**18
"""Fractions with larger denominators are rounded down."""

AnyProof = Annotated[
    Alone
    | Configurations
    | Enumeration
    | Events
    | InOrder
    | LateWindows
    | Pairs
    | Potentials
    | Shares
    | SlotDual
    | Slots
    | Speed
    | LateTail,
    Field(discriminator="kind"),
]

Bound = Annotated[str, Field(max_length=400, pattern=r"^-?[0-9]+(/0*[1-9][0-9]*)?$")]


class Certificate(Noun):
    """A lower bound on an objective of an instance, and its proof.

    `bound` is in text: a whole number, or a fraction for normalized-latency. `why` and `made_by` are for people.
    """

    format: Literal["kvbound-certificate"] = "kvbound-certificate"
    version: Annotated[int, Field(ge=1, le=1)] = 1
    most_bytes: ClassVar[int] = 64 * 1024 * 1024  # a text takes up to twenty times its size while it is read
    instance_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    objective: Name
    bound: Bound
    why: Name = ""
    horizon: Name = HORIZON
    made_by: Name = ""
    proof: AnyProof

    @property
    def value(self) -> Value:
        """The claimed bound as a number."""
        return least_value(Fraction(self.bound), self.objective)

    def to_json(self) -> str:
        """Return the certificate file as text."""
        return self.model_dump_json()


def read_certificate(source: str | Path) -> Certificate:
    """Read a certificate file (`-`: standard input). Raises BadInput."""
    return parse(Certificate, read_text(source), str(source))


def certify(instance: Instance, objective: str, proof: Proof, value: Value | None = None) -> Certificate:
    """Return the certificate of the bound that a proof gives; `value` is that bound if known.

    Raises InvalidCertificate.
    """
    proved = proof.value(instance, objective) if value is None else value
    made = Certificate.model_validate(
        {
            "instance_sha256": instance.sha256,
            "objective": objective,
            "bound": str(rounded(proved, objective)),
            "why": proof.why,
            "made_by": f"kvbound {kvcore.__version__}",
            "proof": proof,
        }
    )
    if value is None:
        _RECOMPUTED[id(made)] = made
    return made


def verify_certificate(instance: Instance, certificate: Certificate) -> Value:
    """Return the lower bound that the certificate proves, recomputed exactly; it is at least the claimed one.

    Raises:
        InvalidCertificate: another instance, an argument that does not hold, or a smaller bound.
        BadInput: its objective is none.
    """
    objective = check_objective(certificate.objective)
    if certificate.instance_sha256 != instance.sha256:
        raise InvalidCertificate(
            f"it is of another instance: {certificate.instance_sha256[:12]}.., not {instance.sha256[:12]}.."
        )
    try:
        proved = rounded(certificate.proof.value(instance, objective), objective)
    except RecursionError:
        raise InvalidCertificate("its proof is nested too deeply") from None
    if certificate.value > proved:
        raise InvalidCertificate(f"it claims {certificate.bound}, but proves {proved} only")
    _RECOMPUTED[id(certificate)] = certificate
    return proved


def recompute(instance: Instance, objective: str, certificate: Certificate) -> None:
    """Verify a certificate of this objective, unless this process has recomputed this very object before.

    Raises InvalidCertificate.
    """
    if certificate.objective != objective:
        raise InvalidCertificate(f"it is of {certificate.objective}, not of {objective}")
    if certificate.instance_sha256 != instance.sha256 or _RECOMPUTED.get(id(certificate)) is not certificate:
        verify_certificate(instance, certificate)


_RECOMPUTED: WeakValueDictionary[int, Certificate] = WeakValueDictionary()
"""Certificates that this process has recomputed, by `id`."""


def rounded(bound: Value, objective: str) -> Value:
    """Round up to a whole number where every value is one; else down to `FINEST` parts."""
    if objective not in AVERAGES:
        return ceil(bound)
    return Fraction(bound) if Fraction(bound).denominator <= FINEST else Fraction(floor(bound * FINEST), FINEST)
