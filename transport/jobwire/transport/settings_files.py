"""Reads the settings hierarchy from its files: jobwire.toml, password files, the environment."""

from collections.abc import Mapping

from jobwire.core.errors import ConfigError
from jobwire.core.setting_tables import MAX_PASSWORD
from jobwire.core.settings import BrokerSettings, Secret, from_environment, resolve_broker
from jobwire.storage.named_files import read_named_file
from jobwire.storage.settings_file import SETTINGS_FILE, read_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobwire.storage.files import StrPath

_PASSWORDS = ("password", "password_file")
_PATH_HINT = "check the path in jobwire.toml or the environment; it names a file of mode 0600"

Layer = tuple[str, dict[str, object]]


def load_settings(
    *,
    home: "StrPath | None",
    role: str,
    command_line: Mapping[str, object],
    record: Mapping[str, object],
    environ: Mapping[str, str],
) -> BrokerSettings:
    """Return the merged settings with the password read from its file.

    Highest first: `command_line`, the job `record`'s broker overrides, `environ`, `[roles.ROLE]` (only
    when nothing above names a user or a certificate), `[broker]`, defaults; the last two are of the
    `home`'s file, if there is a home. A password goes only with the user name of its own layer. Raises
    ConfigError naming file and key.
    """
    path = f"{home}/{SETTINGS_FILE}" if home is not None else None
    tables = read_settings(home).tables if home is not None else {}
    layers: list[Layer] = [
        ("the command line", dict(command_line)),
        ("the job record", dict(record)),
        ("the environment", dict(from_environment(environ))),
    ]
    if not any(layer.get(key) is not None for _, layer in layers for key in ("username", "certfile")):
        layers.append((f"{path} [roles.{role}]", dict(tables.get(f"roles.{role}", {}))))
    layers.append((f"{path} [broker]", dict(tables.get("broker", {}))))
    _choose_password(layers)
    settings = resolve_broker(layers)
    if settings.password is None and settings.password_file is not None:
        return settings._replace(password=_read_password(settings.password_file))
    return settings


def _choose_password(layers: list[Layer]) -> None:
    """Leave a password, or the file of one, in the one layer it is taken from.

    A lower layer's password is dropped when a higher one has its own, or when it was written beside
    a user name that is not the one in force: it would be sent to the broker as somebody else's.
    """
    user: object = None
    found = False
    for name, layer in layers:
        if all(layer.get(key) is not None for key in _PASSWORDS):
            raise ConfigError(
                f"{name} gives both a password and a password file", hint="give one of them", layer=name
            )
        own = layer.get("username")
        foreign = user is not None and own is not None and own != user
        if found or foreign:
            for key in _PASSWORDS:
                layer.pop(key, None)
        found = found or any(layer.get(key) is not None for key in _PASSWORDS)
        user = user if user is not None else own


def _read_password(path: str) -> Secret:
    try:
        raw = read_named_file(path, "password file", limit=MAX_PASSWORD, private=True, hint=_PATH_HINT)
        text = raw.decode().rstrip("\r\n")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "does not exist"
        raise ConfigError(f"the password file {path} {reason}", hint=_PATH_HINT, path=path) from error
    if not text or "\n" in text:
        raise ConfigError(
            f"the password file {path} is not one line", hint="write the password as its only line", path=path
        )
    return Secret(text)
