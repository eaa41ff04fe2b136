"""Removing what time has made useless: job certificates past their end, crash leftovers, old index lines."""

from jobwire.certs import files, inspection, pem, revocation
from jobwire.certs.layout import Places
from jobwire.certs.values import Kind


def prune(places: Places, *, now: float) -> list[str]:
    """Remove expired job certificates with their keys; return the job ids. The caller holds the lock."""
    for folder in (places.directory, places.clients, places.servers):
        files.sweep(folder)
    gone = []
    for path in inspection.client_files(places):
        certificate = pem.load_certificate(path)
        expired = certificate.not_valid_after_utc.timestamp() < now
        if expired and inspection.kind_of(certificate) == Kind.JOB:
            # The key first: a certificate without its key opens nothing.
            files.remove_files(path.with_suffix(".key"), path)
            gone.append(path.stem)
    revocation.forget_expired(places, now=now)
    return gone
