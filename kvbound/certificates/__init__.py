"""Certificates of lower bounds, and the checker: exact, without any solver (`docs/certificates.md`)."""

from kvbound.certificates.alone import Alone
from kvbound.certificates.certificate import (
    AnyProof,
    Certificate,
    certify,
    read_certificate,
    rounded,
    verify_certificate,
)
from kvbound.certificates.coarse import Coarse
from kvbound.certificates.configurations import Configurations
from kvbound.certificates.exhaustive import Exhaustive
from kvbound.certificates.parts import Parts
from kvbound.certificates.prices import Prices, Windows
from kvbound.certificates.proof import InvalidCertificate, Proof
from kvbound.certificates.shares import Shares

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
    "Windows",
    "certify",
    "read_certificate",
    "rounded",
    "verify_certificate",
]
