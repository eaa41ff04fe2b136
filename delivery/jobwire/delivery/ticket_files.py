"""A ticket file, and the certificate files that it carries inside."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jobwire.core.errors import NotFoundError
from jobwire.jobs.ticket import INLINE_FILES, Ticket, decode_ticket
from jobwire.storage.durable import replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FileSystem
from jobwire.storage.named_files import read_named_file

# Three PEM chains at most; anything larger is another file.
MAX_TICKET = 256 * 1024
_HINT = "`jobwire registry ticket JOB` writes one"


def read_ticket(path: Path) -> Ticket:
    """Return the ticket in `path`.

    Raises NotFoundError where there is none, ConfigError where it is open to others or no ticket.
    """
    try:
        return decode_ticket(read_named_file(path, "ticket", limit=MAX_TICKET, private=True, hint=_HINT))
    except FileNotFoundError as error:
        raise NotFoundError(f"no ticket {path}", hint=_HINT) from error


class Placed(Protocol):
    """What says where the broker is: a job's ticket, or an agent's."""

    @property
    def broker(self) -> Mapping[str, str | int]:
        """Return settings as in jobwire.toml, and INLINE_FILES as PEM text."""
        ...

    @property
    def topic_root(self) -> str:
        """Return what all topics begin with."""
        ...


def broker_layer(ticket: Placed, path: Path, files: FileSystem) -> dict[str, object]:
    """Return the ticket's settings with certificate files in place of inline PEM text.

    OpenSSL loads certificates from files only: they are kept in `<ticket>.files/`, mode 0600, and
    written again when the ticket's differ. Relative paths are relative to the ticket's folder.
    """
    layer: dict[str, object] = {"topic_root": ticket.topic_root}
    for key, value in ticket.broker.items():
        name = INLINE_FILES.get(key)
        if name is not None:
            layer[name] = str(_keep(path, name, str(value), files))
        elif key in {*INLINE_FILES.values(), "password_file"}:
            layer[key] = str(path.parent / str(value))
        else:
            layer[key] = value
    return layer


def _keep(ticket_path: Path, name: str, text: str, files: FileSystem) -> Path:
    folder = ticket_path.with_name(f"{ticket_path.name}.files")
    target = folder / f"{name}.pem"
    try:
        if target.read_bytes() == text.encode():
            return target
    except FileNotFoundError:
        pass
    except OSError as error:
        raise storage_failure("read", target, error) from error
    try:
        files.make_directory(str(folder))
    except OSError as error:
        raise storage_failure("create", folder, error) from error
    replace_durably(target, text.encode(), files=files)
    return target
