"""A real broker in a child process: started, awaited, restarted, killed and always cleaned up."""

import re
import shutil
import signal
import socket
import ssl
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from jobwire.certs.authority import CertificateAuthority
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import DEFAULT_ROOT, JOB_ID_PATTERN
from jobwire.storage.process import ManagedProcess
from jobwire.testing.ports import free_port
from jobwire.testing.waiting import wait_for
from jobwire.transport import load_settings

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LOG_TAIL = 2000


class BrokerProcess:
    """One broker of its own home directory on a free loopback port; a context manager.

    Without `home` a temporary one is made and removed at the end. `start` returns when its ports answer a
    handshake (Mosquitto 2.0 listens before it handles signals: SIGHUP would end it until then); a broker that
    ends instead is an error that shows the end of its log.
    """

    program = "broker"

    def __init__(
        self, home: Path | None = None, *, topic_root: str = DEFAULT_ROOT, port: int | None = None
    ) -> None:
        self._temporary = Path(tempfile.mkdtemp(prefix="jobwire-broker-")) if home is None else None
        self.home = home if home is not None else Path(str(self._temporary))
        self.host = _HOST
        self.port = port or free_port()
        self.mtls_port = self.port
        self.topic_root = topic_root
        self._process: ManagedProcess | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id while it runs."""
        return self._process.pid if self._process is not None else None

    @property
    def log_file(self) -> Path:
        """Return where its output goes."""
        return self.home / "broker.log"

    @property
    def ca_certs(self) -> Path:
        """Return the CA certificate that clients trust."""
        return self.home / "certs" / "ca.pem"

    def settings(self, role: str) -> BrokerSettings:
        """Return the settings of `role`, read from the home directory as every command reads them."""
        return load_settings(home=self.home, role=role, command_line={}, record={}, environ={})

    def certificate_settings(self, name: str) -> BrokerSettings:
        """Return settings for a client with a new certificate instead of a password.

        `name` is a user or role, or a job id, whose certificate is confined to its own topics.
        """
        authority = CertificateAuthority(self.home / "certs")
        is_job = re.fullmatch(JOB_ID_PATTERN, name)
        issued = (authority.issue_job if is_job else authority.issue)(name, force=True)
        return self.settings("hermes")._replace(
            port=self.mtls_port,
            username=None,
            password=None,
            password_file=None,
            certfile=str(issued.certfile),
            keyfile=str(issued.keyfile),
        )

    def prepare(self) -> None:
        """Write what the broker needs under `home`; called once, before the first start."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return the command line of the broker in the foreground."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        if self._process is not None:
            raise RuntimeError(f"{self.program} is running already")
        self._process = ManagedProcess(self.command(), log=self.log_file, grace_seconds=_STOP_SECONDS).start()
        try:
            wait_for(self._accepts, deadline_seconds=_START_SECONDS, what=f"{self.program} on {self.port}")
        except BaseException:
            self.kill()
            raise

    def _accepts(self) -> bool:
        if self._process is not None and not self._process.alive():
            raise RuntimeError(f"{self.program} {self._process.how_it_ended()}: {self.log_tail()}")
        try:
            for port in {self.port, self.mtls_port}:
                with socket.create_connection((self.host, port), timeout=1) as plain:
                    _any_server().wrap_socket(plain).close()
        except OSError:
            return False
        return True

    def log_tail(self) -> str:
        """Return the last lines of its output."""
        return self.log_file.read_text(errors="replace")[-_LOG_TAIL:]

    def stop(self) -> None:
        """End it with SIGTERM and wait; idempotent. Raises AssertionError if it does not end in time."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would, and wait; idempotent."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """Freeze it with SIGSTOP: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `suspend`."""
        self._signal(signal.SIGCONT)

    def reload(self) -> None:
        """Send SIGHUP."""
        self._signal(signal.SIGHUP)

    def restart(self) -> None:
        """Stop it cleanly and start it on the same port and home."""
        self.stop()
        self.start()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.tell(number)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and not process.stop(number):
            raise AssertionError(f"{self.program} ignored {number.name}: {self.log_tail()}")

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._remove()

    def _remove(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _any_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
