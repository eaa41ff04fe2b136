"""The embedded broker: amqtt on this host, under Mosquitto's own password and access files.

TLS 1.3, with optional client certificates and a revocation list.
"""

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.broker.acl import AccessList
from jobwire.broker.files import write_private
from jobwire.broker.hardened.limits import BrokerLimits
from jobwire.broker.home import BrokerPaths
from jobwire.broker.passwd import PasswordFile
from jobwire.certs.inspection import listed_serials
from jobwire.core.errors import ConfigError, JobwireError, UnreachableError
from jobwire.core.settings import is_loopback
from jobwire.storage.named_files import check_named_file

if TYPE_CHECKING:
    from jobwire.broker.hardened.broker import HardenedBroker

log = logging.getLogger("jobwire.broker")

_SHUTDOWN_SECONDS = 10.0


class EmbeddedBroker:
    """One broker on this host, TLS 1.3 with password and access files, for one event loop."""

    def __init__(
        self,
        *,
        home: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        beyond_loopback: bool = False,
        limits: BrokerLimits | None = None,
    ) -> None:
        """Prepare a broker on the files of `home`; `port` 0 takes a free one.

        Raises ConfigError for unusable files, and for a `host` beyond loopback that was not asked for.
        """
        require_loopback(host, beyond_loopback=beyond_loopback)
        self._paths = BrokerPaths(home)
        self.host = host
        self.port = port
        self._limits = limits or BrokerLimits()
        self._context: ssl.SSLContext | None = None
        self._users = PasswordFile.load(self._paths.passwd)
        self._acl = AccessList.load(self._paths.acl)
        self._broker: HardenedBroker | None = None

    async def start(self) -> None:
        """Start to accept connections; raises UnreachableError if the address cannot be bound."""
        # amqtt takes a quarter of a second to import: only those who start a broker pay for it.
        from jobwire.broker.hardened.broker import HardenedBroker  # noqa: PLC0415

        self._context = _server_context(self._paths)
        broker = HardenedBroker(
            host=self.host,
            port=self.port,
            tls=self._context,
            users=self._users,
            acl=self._acl,
            limits=self._limits,
        )
        try:
            await broker.start()
        except Exception as error:
            # amqtt wraps what the system said.
            reason = error.__cause__ or error
            raise UnreachableError(
                f"the broker cannot start on {self.host} port {self.port}: {reason}",
                hint="stop the other broker or choose another --port",
            ) from error
        self.port = broker.bound_port
        self._broker = broker

    def reload(self) -> None:
        """Read passwords, access list, server certificate and revocation list again.

        Raises ConfigError and changes nothing if a file is unusable. Clients whose password is gone or whose
        certificate is revoked are disconnected; the others notice nothing.
        """
        users, acl = PasswordFile.load(self._paths.passwd), AccessList.load(self._paths.acl)
        revoked = listed_serials(self._paths.crl)
        # A trial on a context of its own: the one in use must not be left half loaded.
        _server_context(self._paths)
        if self._context is not None:
            _load_files(self._context, self._paths)
        self._users, self._acl = users, acl
        if self._broker is not None:
            self._broker.reload(users, acl, revoked)

    async def stop(self) -> None:
        """Close every connection and stop; idempotent."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.shutdown()


def require_loopback(host: str, *, beyond_loopback: bool) -> None:
    """Raise ConfigError for an address beyond loopback that was not asked for explicitly."""
    if not beyond_loopback and not is_loopback(host):
        raise ConfigError(
            f"the embedded broker is for this host, not for {host}",
            hint="use Mosquitto (jobwire broker render), or --beyond-loopback if you must",
            host=host,
        )


def _server_context(paths: BrokerPaths) -> ssl.SSLContext:
    """Return a context for the files of `paths`; raises ConfigError naming the one that is unusable."""
    check_named_file(paths.server_key, "server key", private=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # No resumption: a ticket would outlive the revocation of the certificate it was given for.
    context.num_tickets = 0
    # A certificate that is presented must be good; without one there is the password.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF | ssl.VerifyFlags.VERIFY_X509_STRICT
    _load_files(context, paths)
    return context


def _load_files(context: ssl.SSLContext, paths: BrokerPaths) -> None:
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


def run_embedded(broker: EmbeddedBroker, *, pid_file: Path, on_ready: Callable[[], None]) -> None:
    """Run `broker` until SIGTERM or SIGINT; calls `on_ready` once it accepts connections. Blocks.

    SIGHUP reads the files again. `pid_file` holds this process's id while it accepts connections.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    # amqtt logs what our own modules say better; a refused client is no error of the broker.
    for name in ("amqtt", "transitions", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.run(_run(broker, pid_file, on_ready))


async def _run(broker: EmbeddedBroker, pid_file: Path, on_ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, _reload, broker)
    await broker.start()
    try:
        # Not before: a second broker that finds the port taken must leave the first one's file alone.
        write_private(pid_file, f"{os.getpid()}\n")
        on_ready()
        await stop.wait()
    finally:
        _remove_pid(pid_file)
        await asyncio.wait_for(broker.stop(), _SHUTDOWN_SECONDS)


def _reload(broker: EmbeddedBroker) -> None:
    try:
        broker.reload()
    except JobwireError as error:
        log.error("not reloaded, the old files stay in force: %s", error)  # noqa: TRY400 - no traceback for people
    else:
        log.warning("files read again")


def _remove_pid(path: Path) -> None:
    # Another broker's stays.
    try:
        if read_pid(path) == os.getpid():
            path.unlink()
    except (OSError, ValueError):
        return


def read_pid(path: Path) -> int:
    """Return the process id in a file; raises OSError or ValueError where there is none."""
    return int(path.read_text(encoding="ascii"))
