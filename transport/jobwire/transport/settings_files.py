"""Reads the settings hierarchy from its files: jobwire.toml, password files, the environment."""

from collections.abc import Mapping

from jobwire.core.errors import ConfigError
from jobwire.core.settings import KEYS, BrokerSettings, Secret, from_environment, resolve_broker
from jobwire.storage.named_files import check_named_file, read_named_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path  # the caller has it, who needs no Path need not load it

SETTINGS_FILE = "jobwire.toml"
_PATHS = ("ca_certs", "certfile", "keyfile", "password_file")
_ROLE_KEYS = frozenset({"username", "password_file", "certfile", "keyfile"})
_PASSWORDS = ("password", "password_file")
_MAX_SETTINGS = 1024 * 1024
# MQTT 5, 3.1.3.6: two bytes of length.
_MAX_PASSWORD = 64 * 1024
_PATH_HINT = "check the path in jobwire.toml or the environment; it names a file of mode 0600"

Layer = tuple[str, dict[str, object]]


def load_settings(
    *,
    home: "Path | None",
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
    path = home / SETTINGS_FILE if home is not None else None
    broker, account = _read_file(path, role) if path is not None else ({}, {})
    layers: list[Layer] = [
        ("the command line", dict(command_line)),
        ("the job record", dict(record)),
        ("the environment", dict(from_environment(environ))),
    ]
    if not any(layer.get(key) is not None for _, layer in layers for key in ("username", "certfile")):
        layers.append((f"{path} [roles.{role}]", account))
    layers.append((f"{path} [broker]", broker))
    _choose_password(layers)
    settings = resolve_broker(layers)
    if settings.password is None and settings.password_file is not None:
        return settings._replace(password=_read_password(settings.password_file))
    return settings


def mtls_port(home: "Path") -> int | None:
    """Return the port that accepts client certificates, where the home's `[mtls]` names one."""
    table = read_settings(home / SETTINGS_FILE).get("mtls")
    port = table.get("port") if isinstance(table, dict) else None
    return port if type(port) is int else None


def read_settings(path: "Path") -> dict[str, object]:
    """Return all tables of a home's settings file, none if there is no file. Raises ConfigError."""
    try:
        return _parse(path, read_named_file(path, "settings file", limit=_MAX_SETTINGS))
    except FileNotFoundError:
        return {}


def _read_file(path: "Path", role: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the tables `[broker]` and `[roles.ROLE]`, paths made absolute; empty if there is no file."""
    document = read_settings(path)
    broker = _table(path, document, "broker", KEYS)
    if "password" in broker:
        check_named_file(path, "settings file with a password in it", private=True)
    roles = _table(path, document, "roles", None)
    account = _table(path, roles, role, _ROLE_KEYS, prefix="roles.")
    return broker, account


def _parse(path: "Path", raw: bytes) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - many a command runs without a settings file

    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}", hint="correct the line named above", path=str(path)
        ) from error


def _table(
    path: "Path", document: Mapping[str, object], name: str, known: frozenset[str] | None, prefix: str = ""
) -> dict[str, object]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(
            f"{prefix}{name} in {path} is not a table", hint=f"write [{prefix}{name}]", path=str(path)
        )
    for key in table if known is not None else ():
        if key not in known:  # type: ignore[operator]  # not None here
            raise ConfigError(
                f"unknown key {key!r} in {path} [{prefix}{name}]",
                hint=f"known: {', '.join(sorted(known))}",  # type: ignore[arg-type]  # not None here
                path=str(path),
                key=f"{prefix}{name}.{key}",
            )
    # As os.path.join: an absolute path stays what it is.
    return {
        key: str(path.parent / value) if key in _PATHS and isinstance(value, str) else value
        for key, value in table.items()
    }


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
        raw = read_named_file(path, "password file", limit=_MAX_PASSWORD, private=True, hint=_PATH_HINT)
        text = raw.decode().rstrip("\r\n")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "does not exist"
        raise ConfigError(f"the password file {path} {reason}", hint=_PATH_HINT, path=path) from error
    if not text or "\n" in text:
        raise ConfigError(
            f"the password file {path} is not one line", hint="write the password as its only line", path=path
        )
    return Secret(text)
