"""The one builder of TLS contexts: version 1.3 at least, certificate and host name always verified."""

import ssl

from jobwire.core.errors import ConfigError
from jobwire.core.settings import BrokerSettings
from jobwire.storage.named_files import check_named_file

_HINT = "check the path in jobwire.toml or the environment"


def build_context(settings: BrokerSettings) -> ssl.SSLContext:
    """Return the client context for `settings`: their CA or the system's, their certificate if any.

    Raises ConfigError for a missing or unusable file and for a key that others may read.
    """
    # Not create_default_context: without a CA file that one loads the system's bundle as well.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if settings.ca_certs is None:
        context.load_default_certs()
    else:
        _load_authority(context, settings.ca_certs)
    load_certificate(context, settings)
    return context


def load_certificate(context: ssl.SSLContext, settings: BrokerSettings) -> None:
    """Load the client certificate from its files, again if it was loaded before.

    The next handshake of `context` uses it, so a renewed certificate needs no new process.
    """
    if settings.certfile is None or settings.keyfile is None:
        return
    # OpenSSL would wait for ever at a pipe.
    check_named_file(settings.keyfile, "private key", private=True, hint=_HINT)
    check_named_file(settings.certfile, "client certificate", hint=_HINT)
    try:
        # Without a password function OpenSSL would ask on the terminal.
        context.load_cert_chain(settings.certfile, settings.keyfile, password=lambda: b"")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"cannot use the client certificate {settings.certfile} with the key {settings.keyfile}: {error}",
            hint="both must be PEM files that belong together, the key without a passphrase;"
            " `jobwire certs issue NAME` makes such a pair",
            certfile=settings.certfile,
            keyfile=settings.keyfile,
        ) from error


def _load_authority(context: ssl.SSLContext, path: str) -> None:
    check_named_file(path, "CA certificates", hint=_HINT)
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"cannot load the CA certificates {path}: {error}",
            hint="MQTT_CA_CERTS (ca_certs in jobwire.toml) names a PEM file; `jobwire certs init` makes one",
            path=path,
        ) from error
