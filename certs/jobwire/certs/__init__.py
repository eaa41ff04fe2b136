"""A private certificate authority."""

from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import CertificateFacts, Finding, Issued, Kind, Level, Phase, RevocationReason

__all__ = [
    "CertificateAuthority",
    "CertificateFacts",
    "Finding",
    "Issued",
    "Kind",
    "Level",
    "Phase",
    "RevocationReason",
]
