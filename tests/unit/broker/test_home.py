"""What a broker needs under a home directory."""

import tomllib
from pathlib import Path

import pytest

from jobwire.broker.home import (
    ROLES,
    BrokerPaths,
    named_broker,
    prepare_home,
    read_password,
    settings_mismatch,
    write_access_list,
)
from jobwire.broker.passwd import PasswordFile
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.storage.settings_file import mtls_port


def prepare(home: Path, *, port: int = 8883, topic_root: str = DEFAULT_ROOT, mtls: int | None = None) -> None:
    """Prepare a home with cheap hashes."""
    prepare_home(home, port=port, topic_root=topic_root, iterations=1, mtls_port=mtls)


def snapshot(home: Path) -> dict[str, bytes]:
    """Return every file with its content."""
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_everything_is_made_and_private(tmp_path: Path) -> None:
    """Certificates, accounts, access list and settings exist, for their owner only."""
    home = tmp_path / "home"
    prepare(home)
    paths = BrokerPaths(home)
    users = PasswordFile.load(paths.passwd)
    assert tuple(users.entries) == ROLES
    assert all(users.verify(role, read_password(paths.password(role)).encode()) for role in ROLES)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (home, *home.rglob("*")))
    settings = tomllib.loads(paths.settings.read_text())
    assert settings["broker"]["port"] == 8883
    assert set(settings["roles"]) == set(ROLES)
    assert mtls_port(home) == 8883


def test_another_address_is_named_by_settings_and_certificate(tmp_path: Path) -> None:
    """Clients are sent to the address that was asked for, and the certificate holds there and on loopback."""
    prepare_home(tmp_path, port=8883, topic_root=DEFAULT_ROOT, iterations=1, host="10.0.0.5")
    assert named_broker(tmp_path) == "10.0.0.5"
    authority = CertificateAuthority(tmp_path / "certs")
    assert authority.inspect(authority.places.server).names == ("localhost", "127.0.0.1", "::1", "10.0.0.5")


@pytest.mark.parametrize("host", ["", "a b", "10.0.0.300"])
def test_an_address_that_no_certificate_can_name_is_refused(tmp_path: Path, host: str) -> None:
    """What clients could not verify is refused before anything is written."""
    with pytest.raises(InvalidInputError):
        prepare_home(tmp_path / "home", port=8883, topic_root=DEFAULT_ROOT, iterations=1, host=host)
    assert not (tmp_path / "home").exists()


def test_preparing_again_changes_nothing(tmp_path: Path) -> None:
    """A second call keeps every byte, also of accounts and rights that were added."""
    home = tmp_path / "home"
    prepare(home)
    with PasswordFile.edit(home / "broker" / "passwd") as users:
        users.set("alice", "x", iterations=1)
    acl = home / "broker" / "acl"
    acl.write_text(acl.read_text() + "user alice\ntopic read x\n")
    before = snapshot(home)
    prepare(home, port=1234)
    assert snapshot(home) == before
    assert settings_mismatch(home, {("mtls", "port"): (8883,), ("broker", "protocol"): ("5", "3.1.1")}) == []
    (said,) = settings_mismatch(home, {("broker", "port"): (1234,)})
    assert said.endswith("says port = 8883 in [broker], this broker has 1234")


def test_a_lost_password_is_made_again(tmp_path: Path) -> None:
    """A role whose plaintext password is gone gets a new one in both places; the others keep theirs."""
    home = tmp_path / "home"
    prepare(home)
    paths = BrokerPaths(home)
    kept = read_password(paths.password("metrics"))
    paths.password("hermes").unlink()
    prepare(home)
    users = PasswordFile.load(paths.passwd)
    assert users.verify("hermes", read_password(paths.password("hermes")).encode())
    assert users.verify("metrics", kept.encode())


def test_an_untouched_access_list_follows_the_topic_root(tmp_path: Path) -> None:
    """Another topic root rewrites the list that nobody changed, and only that."""
    acl = tmp_path / "acl"
    write_access_list(acl, "one/root")
    write_access_list(acl, "other/root")
    assert "other/root/+/events" in acl.read_text()
    acl.write_text(acl.read_text() + "# mine\n")
    mine = acl.read_text()
    write_access_list(acl, "third/root")
    assert acl.read_text() == mine


@pytest.mark.parametrize("topic_root", ["a/#", "a\nuser x", "/a", "a/+/b", "$SYS", "%u"])
def test_a_topic_root_cannot_add_rights(tmp_path: Path, topic_root: str) -> None:
    """A root with wildcards, patterns or line breaks is refused before anything is written."""
    with pytest.raises(InvalidInputError):
        prepare(tmp_path / "home", topic_root=topic_root)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_out_of_range_is_refused(tmp_path: Path, port: int) -> None:
    """A number that is no port is refused before anything is written."""
    with pytest.raises(InvalidInputError, match="port is"):
        prepare(tmp_path / "home", port=port)
    assert not (tmp_path / "home").exists()


def test_a_readable_password_is_refused(tmp_path: Path) -> None:
    """A password file that others can read is not used."""
    path = tmp_path / "password"
    path.write_text("x\n")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="open to other users"):
        read_password(path)


def test_the_certificate_port_is_named(tmp_path: Path) -> None:
    """Where certificates have a port of their own, the settings say so."""
    prepare(tmp_path / "home", mtls=8884)
    assert mtls_port(tmp_path / "home") == 8884
    assert mtls_port(tmp_path / "elsewhere") is None
