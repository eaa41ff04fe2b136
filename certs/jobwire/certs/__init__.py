"""A private certificate authority."""

from jobwire.certs.authority import CertificateAuthority, self_signed
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
    "self_signed",
]
