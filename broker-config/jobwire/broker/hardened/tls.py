"""The server side of TLS 1.3 with optional client certificates and a revocation list."""

import ssl
from collections.abc import Callable
from pathlib import Path

from jobwire.broker.home import BrokerPaths
from jobwire.core.errors import ConfigError
from jobwire.storage.named_files import check_named_file


def server_context(paths: BrokerPaths) -> ssl.SSLContext:
    """Return a context for the files of `paths`; raises ConfigError naming the one that is unusable."""
    check_named_file(paths.server_key, "server key", private=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # No resumption: a ticket would outlive the revocation of the certificate it was given for.
    context.num_tickets = 0
    # A certificate that is presented must be good; without one there is the password.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF | ssl.VerifyFlags.VERIFY_X509_STRICT
    load_files(context, paths)
    return context


def load_files(context: ssl.SSLContext, paths: BrokerPaths) -> None:
    """Load certificate, authorities and revocation list into `context`, at the start and on reload.

    New handshakes use them at once; of several lists of one authority OpenSSL takes the newest.
    """
    certificate, key = paths.server_certificate, paths.server_key
    _load("server certificate", certificate, lambda: context.load_cert_chain(certificate, key))
    _load("certificate authority", paths.ca, lambda: context.load_verify_locations(cafile=paths.ca))
    _load("revocation list", paths.crl, lambda: context.load_verify_locations(cafile=paths.crl))


def _load(what: str, path: Path, action: Callable[[], None]) -> None:
    try:
        action()
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the {what} {path} cannot be used: {error.strerror or error}",
            hint="jobwire certs show tells what is there; jobwire certs init creates it",
            path=str(path),
        ) from error
