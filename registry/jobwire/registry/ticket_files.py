"""A ticket file, and the certificate files that it carries inside."""

import os
import stat
from pathlib import Path

from jobwire.core.errors import ConfigError, NotFoundError
from jobwire.core.ticket import INLINE_FILES, Ticket, decode_ticket
from jobwire.storage.durable import replace_durably
from jobwire.storage.failures import storage_failure
from jobwire.storage.files import FileSystem

# Three PEM chains at most; anything larger is another file.
MAX_TICKET = 256 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_ticket(path: Path) -> Ticket:
    """Return the ticket in `path`.

    Raises NotFoundError where there is none, ConfigError where it is open to others or no ticket.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            payload = file.read(MAX_TICKET + 1)
    except FileNotFoundError as error:
        raise NotFoundError(f"no ticket {path}", hint="`jobwire registry ticket JOB` writes one") from error
    except OSError as error:
        raise ConfigError(f"cannot read the ticket {path}: {error.strerror}", path=str(path)) from error
    if mode & _OTHERS:
        raise ConfigError(
            f"the ticket {path} is open to other users (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}; whoever read it can speak for the job: cancel it in doubt",
            path=str(path),
        )
    if len(payload) > MAX_TICKET:
        raise ConfigError(f"{path} is too large for a ticket", hint=f"{MAX_TICKET} bytes are allowed")
    return decode_ticket(payload)


def broker_layer(ticket: Ticket, path: Path, files: FileSystem) -> dict[str, object]:
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
