"""Certificates of lower bounds, and the checker: exact, without any solver (`docs/certificates.md`)."""

from kvbound.certificates.alone import Alone
from kvbound.certificates.certificate import AnyProof, Certificate, certify, verify_certificate
from kvbound.certificates.coarse import Coarse
from kvbound.certificates.configurations import Configurations
from kvbound.certificates.parts import Parts
from kvbound.certificates.proof import InvalidCertificate, Proof

__all__ = [
    "Alone",
    "AnyProof",
    "Certificate",
    "Coarse",
    "Configurations",
    "InvalidCertificate",
    "Parts",
    "Proof",
    "certify",
    "verify_certificate",
]
