"""Certificates of lower bounds, and the checker: exact, without any solver (`docs/certificates.md`)."""

from kvcore.certificates.alone import Alone
from kvcore.certificates.certificate import (
    Certificate,
    certify,
    read_certificate,
    rounded,
    verify_certificate,
)
from kvcore.certificates.configurations import Configurations
from kvcore.certificates.exhaustive import Exhaustive
from kvcore.certificates.kinds import AnyProof, Coarse, Parts
from kvcore.certificates.prices import Prices, Windows
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.certificates.shares import Shares
from kvcore.certificates.speed import Speed

__all__ = [
    "Alone",
    "AnyProof",
    "Certificate",
    "Coarse",
    "Configurations",
    "Exhaustive",
    "InvalidCertificate",
    "Parts",
    "Prices",
    "Proof",
    "Shares",
    "Speed",
    "Windows",
    "certify",
    "read_certificate",
    "rounded",
    "verify_certificate",
]
