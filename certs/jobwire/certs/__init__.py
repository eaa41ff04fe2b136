"""A private certificate authority."""

from jobwire.certs.authority import CertificateAuthority, self_signed
from jobwire.certs.values import CertificateFacts, Finding, Issued, Kind, Level, Phase, Reason

__all__ = [
    "CertificateAuthority",
    "CertificateFacts",
    "Finding",
    "Issued",
    "Kind",
    "Level",
    "Phase",
    "Reason",
    "self_signed",
]
