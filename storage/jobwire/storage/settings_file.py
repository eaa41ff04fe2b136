"""The one reader of jobwire.toml: of a home, and of the user's own in ~/.config/jobwire.

Every table and key is checked, whoever asks: a misspelt one would be ignored otherwise. The user's own file
holds what no home may ask for: settings that run code of others or give something away.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.errors import ConfigError
from jobwire.core.setting_tables import ROLE_TABLES, TABLES, Setting, check_value, nearest
from jobwire.storage.named_files import check_named_file, read_named_file, rights_of_others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobwire.storage.files import StrPath

SETTINGS_FILE = "jobwire.toml"
MAX_SETTINGS = 1024 * 1024
# What holds tables of its own: their names in `TABLES` begin with it.
_HOLDERS = ("roles", "agents")


class SettingsFile(NamedTuple):
    """What stands in one file: its tables, `roles.NAME` among them, with paths made absolute."""

    path: str
    text: str
    tables: Mapping[str, Mapping[str, object]]

    def get(self, table: str, key: str) -> object:
        """Return the value; None where the file does not say it."""
        return self.tables.get(table, {}).get(key)

    def place(self, table: str, key: str = "") -> str:
        """Return the file, with the line of the table or of its key where that can be told."""
        line = _line_of(self.text, table, key)
        return self.path if line is None else f"{self.path}:{line}"


def read_settings(home: StrPath) -> SettingsFile:
    """Return the settings of a home; empty where it has no file. Raises ConfigError naming file and key."""
    return _read(os.path.join(os.fspath(home), SETTINGS_FILE), own=False)


def read_own_settings(environ: Mapping[str, str]) -> SettingsFile:
    """Return the user's own settings, in $XDG_CONFIG_HOME/jobwire or $HOME/.config/jobwire.

    Raises ConfigError as `read_settings`, and where somebody else could have written the file.
    """
    base = environ.get("XDG_CONFIG_HOME", "")
    # A relative path is invalid and to be ignored (XDG Base Directory Specification).
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME", ""), ".config")
    path = os.path.join(base, "jobwire", SETTINGS_FILE)
    if not os.path.isabs(path):
        return SettingsFile(path, "", {})  # whose home is not told has no file of his own
    try:
        found = os.stat(path)
    except OSError:
        pass  # absent, or its reader says why it cannot be read
    else:
        if found.st_uid != os.geteuid() or rights_of_others(found.st_mode, to_write=True):
            raise ConfigError(
                f"{path} is not yours alone (user {found.st_uid}, mode {found.st_mode & 0o7777:04o})",
                hint=f"it must belong to you; chmod go-w {path}",
                path=path,
            )
    return _read(path, own=True)


def mtls_port(home: StrPath) -> int | None:
    """Return where clients with a certificate connect (`[mtls] port`); None where the home names none."""
    port = read_settings(home).get("mtls", "port")
    return None if port is None else int(str(port))


def _read(path: str, *, own: bool) -> SettingsFile:
    import tomllib  # noqa: PLC0415 - many a home has no settings file

    try:
        text = read_named_file(path, "settings file", limit=MAX_SETTINGS).decode("utf-8")
        document = tomllib.loads(text)
    except FileNotFoundError:
        return SettingsFile(path, "", {})
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a number of thousands of digits
        raise ConfigError(
            f"{path} is not valid TOML: {error}", hint="correct the line named above", path=path
        ) from error
    file = SettingsFile(path, text, {})
    held = {
        f"{holder}.{name}": table
        for holder in _HOLDERS
        for name, table in _table(file, holder, document.pop(holder, {})).items()
    }
    tables = {**document, **held}
    return file._replace(tables={name: _checked(file, name, table, own) for name, table in tables.items()})


def _checked(file: SettingsFile, name: str, value: object, own: bool) -> dict[str, object]:
    if name not in TABLES:
        hint = nearest(name, TABLES)
        raise ConfigError(f"unknown table {name!r:.80} in {file.place(name)}", hint=hint, path=file.path)
    settings = {setting.name: setting for setting in TABLES[name]}
    table = _table(file, name, value)
    for key, given in table.items():
        where = f"{file.place(name, key)} [{name}]"
        if key not in settings:
            raise ConfigError(
                f"unknown key {key!r:.80} in {where}",
                hint=nearest(key, settings),
                path=file.path,
                key=f"{name}.{key}",
            )
        setting = settings[key]
        if own and setting.own is None:
            raise ConfigError(f"{key} in {where} belongs in a home's {SETTINGS_FILE}", path=file.path)
        check_value(setting, given, where, own=own)
        if setting.secret and _holds_password(key, str(given)):
            check_named_file(file.path, "settings file with a password in it", private=True)
        if setting.file:
            table[key] = _absolute(os.path.dirname(file.path), given)
    return table


def _table(file: SettingsFile, name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(
            f"{name} in {file.place(name)} is not a table", hint=f"write [{name}]", path=file.path
        )
    return value


def _holds_password(key: str, value: str) -> bool:
    if key == "password":
        return True
    from urllib.parse import urlsplit  # noqa: PLC0415 - of the metrics' tables only

    try:
        return "://" in value and urlsplit(value).password is not None
    except ValueError:
        return True  # whoever uses the URL says what is wrong with it


def _absolute(folder: str, value: object) -> object:
    if isinstance(value, list):
        return [_absolute(folder, item) for item in value]
    text = str(value)
    # "" is a path of its own kind: none. An absolute path stays what it is.
    return text if not text or "://" in text else os.path.join(folder, text)


def _line_of(text: str, table: str, key: str) -> int | None:
    """Return the line that names the table, or its key; None where it is written in another way."""
    present = ""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].strip()
        if words.startswith("["):
            present = words.strip("[] ").replace('"', "")
            named = present
        else:
            name = words.split("=")[0].strip(' "')
            named = f"{present}.{name}" if present else name
        if named == (f"{table}.{key}" if key else table):
            return number
    return None


def masked(setting: Setting, value: object) -> object:
    """Return the value as it may be shown: a password is not."""
    if not setting.secret or not _holds_password(setting.name, str(value)):
        return value
    head, at, rest = str(value).rpartition("@")
    return f"{head.rpartition(':')[0]}:***@{rest}" if at and setting.name != "password" else "***"


class InForce(NamedTuple):
    """One setting as it holds: passwords are masked; `source`: variable, file and line, or default.

    A default that is worked out is told in words in brackets.
    """

    table: str
    key: str
    value: object
    source: str


def in_force(home: SettingsFile, own: SettingsFile, environ: Mapping[str, str]) -> list[InForce]:
    """Return every setting with its value and where that comes from; of the roles' only what is said.

    The job's record and the command line, which go before, belong to a single command. Raises ConfigError
    for a variable that its setting does not take.
    """
    found = []
    for table, settings in TABLES.items():
        for setting in settings:
            if (said := _said(table, setting, home, own, environ)) is not None:
                found.append(InForce(table, setting.name, masked(setting, said[0]), said[1]))
            elif table not in ROLE_TABLES:
                found.append(InForce(table, setting.name, setting.default, "default"))
    return found


def _said(
    table: str, setting: Setting, home: SettingsFile, own: SettingsFile, environ: Mapping[str, str]
) -> tuple[object, str] | None:
    if said := environ.get(setting.variable):
        check_value(setting, said, "the environment")
        return said, f"${setting.variable}"
    for file in (home, own):
        if (given := file.get(table, setting.name)) is not None:
            return given, file.place(table, setting.name)
    return None
