"""What mosquitto.conf must say, read as Mosquitto reads it: general settings, and those of each listener."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from jobwire.certs import Finding, Level

SUBJECT = "mosquitto.conf"
LISTENERS = 2
_GENERAL = {"allow_anonymous": "false", "set_tcp_nodelay": "true", "persistence": "true"}
_OF_EACH_LISTENER = {"tls_version": "tlsv1.3"}
_OF_CERTIFICATES = {
    "require_certificate": "true",
    "use_identity_as_username": "true",
    "use_username_as_clientid": "true",
}
# Where each file lies in the folder: one that is named elsewhere would not be the one that is looked at.
_GENERAL_FILES = {"password_file": "passwd", "acl_file": "acl", "persistence_location": "data"}
_FILES_OF_EACH_LISTENER = {
    "cafile": "certs/ca.pem",
    "certfile": "certs/server.pem",
    "keyfile": "certs/server.key",
}
_FILES_OF_CERTIFICATES = {"crlfile": "certs/crl.pem"}
_FORBIDDEN = {
    "port": "opens a listener without TLS",
    "include_dir": "brings in settings that are not checked",
    "plugin": "decides beside the access list",
    "auth_plugin": "decides beside the access list",
}

Values = Mapping[str, set[str]]


class Configuration(NamedTuple):
    """The settings of one mosquitto.conf: what stands before the first listener, and under each."""

    general: dict[str, set[str]]
    listeners: list[dict[str, set[str]]]

    @property
    def everywhere(self) -> dict[str, set[str]]:
        """Return the settings with all their values, wherever they stand."""
        found: dict[str, set[str]] = {}
        for section in (self.general, *self.listeners):
            for name, values in section.items():
                found.setdefault(name, set()).update(values)
        return found

    def for_certificates(self) -> list[int]:
        """Return the indexes of the listeners that demand a client certificate."""
        return [
            number
            for number, section in enumerate(self.listeners)
            if "true" in section.get("require_certificate", ())
        ]


def read_configuration(text: str) -> Configuration:
    """Return the settings in `text`; a line of Mosquitto is a name, a blank and the value."""
    found = Configuration({}, [])
    section = found.general
    for line in text.splitlines():
        name, _, value = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if name == "listener":
            section = {}
            found.listeners.append(section)
        section.setdefault(name, set()).add(value.strip())
    return found


def examine_settings(text: str) -> Iterator[Finding]:
    """Yield what is missing from a configuration, or stands in it and must not."""
    found = read_configuration(text)
    everywhere = found.everywhere
    yield from _demanded("", everywhere, _GENERAL, _GENERAL_FILES)
    for name, reason in _FORBIDDEN.items():
        if name in everywhere:
            yield _error(f"{name} {reason}", f"remove the line `{name}`")
    # Only their being on does harm, and `false` is the default that may be written down.
    if everywhere.get("per_listener_settings", {"false"}) != {"false"}:
        yield _error("per_listener_settings is on", "remove it: it breaks the queueing for absent clients")
    yield from _listeners(found)


def _listeners(found: Configuration) -> Iterator[Finding]:
    if len(found.listeners) != LISTENERS:
        yield _error(
            f"it has {len(found.listeners)} listeners, not {LISTENERS}",
            "one for passwords, one for certificates: jobwire broker render --force",
        )
    certificates = found.for_certificates()
    if len(certificates) != 1:
        yield _error(
            f"{len(certificates)} listeners say `require_certificate true`, not 1",
            "set it on the listener for certificates and on no other",
        )
    for number, section in enumerate(found.listeners):
        where = f"listener {', '.join(section['listener'])}: "
        yield from _demanded(where, section, _OF_EACH_LISTENER, _FILES_OF_EACH_LISTENER)
        if number in certificates:
            yield from _demanded(where, section, _OF_CERTIFICATES, _FILES_OF_CERTIFICATES)
        else:
            yield from _without_identities(where, section)


def _without_identities(where: str, section: Values) -> Iterator[Finding]:
    for name in _OF_CERTIFICATES:
        if "true" in section.get(name, ()):
            yield _error(
                f"{where}{name} is on, for clients with a password",
                "remove it here: it belongs to the listener for certificates",
            )


def _demanded(
    where: str, present: Values, settings: Mapping[str, str], files: Mapping[str, str]
) -> Iterator[Finding]:
    for name, value in settings.items():
        if present.get(name) != {value}:
            yield _error(f"{where}{name} says {_said(present, name)}", f"set `{name} {value}`")
    for name, place in files.items():
        if not _is_place(present.get(name, set()), place):
            yield _error(
                f"{where}{name} says {_said(present, name)}, not this folder's {place}",
                f"set `{name} FOLDER/{place}`",
            )


def _is_place(values: set[str], place: str) -> bool:
    wanted = PurePosixPath(place).parts
    return len(values) == 1 and PurePosixPath(next(iter(values))).parts[-len(wanted) :] == wanted


def _said(present: Values, name: str) -> str:
    return ", ".join(sorted(present.get(name, ()))) or "nothing"


def _error(message: str, hint: str) -> Finding:
    return Finding(Level.ERROR, SUBJECT, message, hint)
