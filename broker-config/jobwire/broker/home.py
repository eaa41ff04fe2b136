"""Everything a broker on this host needs under the home directory, created where it is missing."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from jobwire.broker.files import read_text, render_template, write_private
from jobwire.broker.passwd import MACHINE_ITERATIONS, PasswordFile
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.files import make_directory
from jobwire.certs.names import holds_for, parse_server_names
from jobwire.certs.values import DEFAULT_SERVER_NAMES, Finding, Level
from jobwire.core.bounds import MAX_PORT, PROTOCOLS, check_count
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.roles import Role
from jobwire.core.topics import Topics
from jobwire.storage.home_paths import HomePaths
from jobwire.storage.settings_file import SETTINGS_FILE, read_settings

ROLES = tuple(Role)
_PASSWORD_BYTES = 32
_GENERATED = "# Rendered by jobwire for the topic root "
# How findings about the broker's own certificates begin.
_OF_THE_BROKER = {"server", "authority", "ca.pem", "ca.key", "server.pem", "server.key", "crl.pem"}


class BrokerFiles:
    """Where a broker finds its files: its own in the folder `broker`, certificates in `certs`."""

    def __init__(self, broker: Path, certs: Path) -> None:
        self.broker = broker
        self.configuration = broker / "mosquitto.conf"
        self.acl = broker / "acl"
        self.passwd = broker / "passwd"
        self.data = broker / "data"
        self.pid = self.data / "broker.pid"
        self.certs = certs
        self.ca = certs / "ca.pem"
        self.crl = certs / "crl.pem"
        self.server_certificate = certs / "server.pem"
        self.server_key = certs / "server.key"

    @classmethod
    def of_folder(cls, directory: Path) -> "BrokerFiles":
        """Return the files of a rendered folder, or of a home's broker folder (certificates beside it)."""
        inside, beside = directory / "certs", directory.absolute().parent / "certs"
        return BrokerFiles(directory, beside if beside.is_dir() and not inside.exists() else inside)


class BrokerPaths(BrokerFiles):
    """Where the broker's files are under one home directory, with what its clients need."""

    def __init__(self, home: Path) -> None:
        paths = HomePaths(home)
        super().__init__(paths.broker, paths.certs)
        self.home = home
        self.passwords = paths.passwords
        self.settings = home / SETTINGS_FILE

    def password(self, role: str) -> Path:
        """Return where the plaintext password of `role` is kept."""
        return self.passwords / role


def prepare_home(
    home: Path,
    *,
    port: int,
    topic_root: str,
    protocol: str = "3.1.1",
    host: str = "127.0.0.1",
    iterations: int = MACHINE_ITERATIONS,
    mtls_port: int | None = None,
) -> None:
    """Create what a broker needs under `home`: certificates, acl, passwd, a password per role, settings.

    Idempotent: what exists is kept. `host` is what clients connect to, and a new certificate names it (an
    address by default: nothing to resolve on the path of a cold publish). `mtls_port` is where client
    certificates are accepted (default: `port`, as the embedded broker does). Blocks on the disk; raises
    ConfigError, InvalidInputError or StorageError.
    """
    check_count("port", port, MAX_PORT)
    if protocol not in PROTOCOLS:
        raise InvalidInputError(f"unknown MQTT protocol {protocol!r}", hint=f"one of {', '.join(PROTOCOLS)}")
    root = Topics(topic_root).root
    parse_server_names([host])
    paths = BrokerPaths(home)
    for directory in (home, paths.broker, paths.passwords, paths.data):
        make_directory(directory)
    authority = CertificateAuthority(paths.certs)
    if not authority.exists():
        more = () if holds_for(DEFAULT_SERVER_NAMES, host) else (host,)
        authority.init((*DEFAULT_SERVER_NAMES, *more))
    write_access_list(paths.acl, root)
    _prepare_passwords(paths, iterations)
    if not paths.settings.exists():
        # A JSON string is a TOML basic string.
        values = {"BROKER": json.dumps(host), "TOPIC_ROOT": json.dumps(root), "PROTOCOL": protocol}
        values |= {"PORT": str(port), "MTLS_PORT": str(mtls_port or port)}
        write_private(paths.settings, render_template(SETTINGS_FILE, values))


def write_access_list(path: Path, topic_root: str) -> None:
    """Write the acl of roles and jobs where there is none, or an untouched one for another topic root.

    A file that somebody changed is theirs: it is never rewritten.
    """
    text = rendered_access_list(topic_root)
    if path.exists():
        present = read_text(path, "access list")
        root = rendered_root(present)
        if root is None or root == topic_root or present != rendered_access_list(root):
            return
    write_private(path, text)


def rendered_access_list(topic_root: str) -> str:
    """Return the acl of roles, jobs and agents for a topic root."""
    return render_template("acl", {"TOPIC_ROOT": topic_root, "AGENTS_ROOT": Topics(topic_root).agents_root})


def rendered_root(access_list: str) -> str | None:
    """Return the topic root that an access list says it was rendered for; None if it does not say."""
    lines = access_list.splitlines()
    return next((line.removeprefix(_GENERATED) for line in lines if line.startswith(_GENERATED)), None)


def read_password(path: Path) -> str:
    """Return the one line of a password file that only its owner can read."""
    password = read_text(path, "password file", private=True).rstrip("\n")
    if not password or "\n" in password:
        raise ConfigError(f"{path} does not hold one line", hint="write the password as its only line")
    return password


def named_broker(home: Path) -> str | None:
    """Return what clients connect to, from `[broker]` in jobwire.toml; None if not named."""
    host = read_settings(home).get("broker", "broker")
    return None if host is None else str(host)


def _prepare_passwords(paths: BrokerPaths, iterations: int) -> None:
    with PasswordFile.edit(paths.passwd, create=True) as users:
        for role in ROLES:
            secret = paths.password(role)
            if not secret.exists():
                write_private(secret, secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
            elif role in users.entries:
                continue
            users.set(role, read_password(secret), iterations=iterations)


def require_usable_certificates(home: Path) -> None:
    """Raise ConfigError for the first thing in the certificates that would make a broker useless.

    Expired or not yet valid (also: a wrong clock), open to others, unreadable, not matching. What concerns
    single clients does not keep the broker from starting.
    """
    for finding in CertificateAuthority(BrokerPaths(home).certs).check():
        if finding.level is Level.ERROR and concerns_broker(finding):
            raise ConfigError(
                f"{finding.subject}: {finding.message}", hint=finding.hint, subject=finding.subject
            )


def concerns_broker(finding: Finding) -> bool:
    """Tell whether a finding about certificates is about the broker's own, not about a single client's."""
    return finding.subject.split()[0] in _OF_THE_BROKER


def settings_mismatch(home: Path, expected: Mapping[tuple[str, str], tuple[object, ...]]) -> list[str]:
    """Return in what the settings file leads clients elsewhere than to a broker.

    `expected` maps a table and key of the file to the values that fit the broker, the first being its own.
    """
    settings = read_settings(home)
    found = []
    for (table, key), fitting in expected.items():
        said = settings.get(table, key)
        if said is not None and said not in fitting:
            own = json.dumps(fitting[0])
            found.append(
                f"{settings.path} says {key} = {json.dumps(said)} in [{table}], this broker has {own}"
            )
    return found
