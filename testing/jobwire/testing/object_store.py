"""A real S3 store on loopback: `rclone serve s3` over a folder, so what it took is there after a restart."""

import os
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from jobwire.storage.process import ManagedProcess
from jobwire.testing.ports import free_port
from jobwire.testing.requirements import skip_here
from jobwire.testing.waiting import wait_for

_KEY, _SECRET = "loopback", "a-secret-of-the-test"


class ObjectStore:
    """One store with the bucket `bucket`, of its own folder and port; a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jobwire-store-"))
        self.bucket = self.folder / "served" / "bucket"
        self.bucket.mkdir(parents=True)
        self.log = self.folder / "log"
        self._port = free_port()
        self._process: ManagedProcess | None = None

    @property
    def environ(self) -> dict[str, str]:
        """Return what clients need in their environment: keys, and that it knows no appended checksums."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def uri(self, name: str = "bucket/jobwire") -> str:
        """Return the URI of a bucket's folder."""
        return f"s3://{name}?scheme=http&endpoint_override=127.0.0.1:{self._port}"

    @property
    def endpoint(self) -> str:
        """Return its URL, as AWS_ENDPOINT_URL wants it."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it on its old port; return when it accepts connections."""
        program = Path(sys.executable).with_name("rclone")
        if not program.exists():
            skip_here("rclone is not installed (make setup)")
        self._process = ManagedProcess(
            [program, "serve", "s3", self.bucket.parent, "--addr", f"127.0.0.1:{self._port}"],
            log=self.log,
            # In the environment, as everywhere: other users of the host see the command line.
            environ=os.environ | {"RCLONE_AUTH_KEY": f'"{_KEY},{_SECRET}"', "RCLONE_CONFIG": os.devnull},
        ).start()
        wait_for(self._accepts, what="the object store")

    def _accepts(self) -> bool:
        if self._process is not None and not self._process.alive():
            raise RuntimeError(f"the object store {self._process.how_it_ended()}: {self._process.tail()}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self._process is not None:
            self._process.stop(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
