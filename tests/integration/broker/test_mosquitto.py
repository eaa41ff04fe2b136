"""Mosquitto under the rendered configuration: rotation, revocation, reload, rollover, and what is checked."""

import re
import shutil
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from jobwire.broker.check import check_deployment
from jobwire.broker.mosquitto import Listening
from jobwire.broker.passwd import PasswordFile
from jobwire.broker.render import Deployment, render_deployment
from jobwire.certs import rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Level
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError, NotFoundError
from jobwire.core.topics import DEFAULT_ROOT, Topics
from jobwire.testing import ManualClock, MosquittoServer, require, wait_for
from jobwire.testing.raw_mqtt import (
    LEVEL_5,
    ConnectionClosedError,
    ConnectRefusedError,
    RawClient,
    client_context,
)

A = "aaaaaaaa"
EVENTS = Topics().events(A)
DAY = 86_400.0
WARN_SECONDS = 30 * DAY
NOT_AUTHORIZED = 0x87


def client(server: MosquittoServer, role: str, client_id: str = "", *, level: int = 4) -> RawClient:
    """Return a connected client of a role."""
    connection = RawClient(server.host, server.port, client_context(server.ca_certs))
    password = (server.home / "passwords" / role).read_text().strip()
    return connection.connect(client_id, username=role, password=password, level=level)


def job(server: MosquittoServer, certfile: Path, keyfile: Path) -> RawClient:
    """Return a client that is connected with a certificate."""
    context = client_context(server.ca_certs, certfile, keyfile)
    return RawClient(server.host, server.mtls_port, context).connect("any")


def serial(connection: RawClient) -> object:
    """Return the serial of the server's certificate."""
    assert isinstance(connection.socket, ssl.SSLSocket)
    certificate = connection.socket.getpeercert()
    assert certificate is not None
    return certificate["serialNumber"]


@pytest.fixture
def rendered(tmp_path: Path) -> Path:
    """Render a deployment for this host."""
    require("mosquitto")
    render_deployment(tmp_path / "home", tmp_path / "out", deployment(tmp_path / "out"))
    return tmp_path / "out"


def deployment(out: Path, *names: str) -> Deployment:
    """Return a deployment with cheap hashes."""
    return Deployment(
        server_names=names or ("localhost", "127.0.0.1"),
        listening=Listening("0.0.0.0", 8883, 8884),  # noqa: S104 - a server's
        topic_root=DEFAULT_ROOT,
        user="mosquitto",
        installed_at=out,
        iterations=1_000,
    )


def problems(directory: Path) -> list[tuple[Level, str]]:
    """Return level and subject of each finding."""
    return [(found.level, found.subject) for found in check_deployment(directory, warn_seconds=WARN_SECONDS)]


def test_a_renewed_server_certificate_disturbs_nobody(fresh_mosquitto: MosquittoServer) -> None:
    """After SIGHUP new handshakes see the new certificate, and running subscribers go on."""
    with client(fresh_mosquitto, "hermes") as running:
        running.subscribe(EVENTS)
        CertificateAuthority(fresh_mosquitto.home / "certs").renew("server", new_key=True)
        fresh_mosquitto.reload()

        def renewed() -> bool:
            with client(fresh_mosquitto, "claude-worker") as fresh:
                return serial(fresh) != serial(running)

        wait_for(renewed, what="the new certificate")
        with client(fresh_mosquitto, "claude-worker") as worker:
            worker.publish(EVENTS, b"still here")
        assert running.next_message().payload == b"still here"


def test_a_changed_password_counts_after_reload(fresh_mosquitto: MosquittoServer) -> None:
    """After SIGHUP the old password is refused and the new one accepted."""
    with PasswordFile.edit(fresh_mosquitto.home / "broker" / "passwd") as users:
        users.set("hermes", "another", iterations=101)
    fresh_mosquitto.reload()

    def refused() -> bool:
        try:
            client(fresh_mosquitto, "hermes").drop()
        except ConnectRefusedError:
            return True
        except ConnectionClosedError:
            return False  # a handshake in the moment of the reload is reset
        return False

    wait_for(refused, what="the old password's refusal")
    connection = RawClient(
        fresh_mosquitto.host, fresh_mosquitto.port, client_context(fresh_mosquitto.ca_certs)
    )
    with connection.connect(username="hermes", password="another"):
        pass


def test_a_revoked_certificate_is_refused_after_restart(fresh_mosquitto: MosquittoServer) -> None:
    """A revoked job certificate is refused once the broker has loaded the list; others work."""
    authority = CertificateAuthority(fresh_mosquitto.home / "certs")
    revoked, other = authority.issue_job(A), authority.issue_job("bbbbbbbb")
    job(fresh_mosquitto, revoked.certfile, revoked.keyfile).drop()
    authority.revoke(A)
    fresh_mosquitto.restart()
    with pytest.raises(ConnectionClosedError):
        job(fresh_mosquitto, revoked.certfile, revoked.keyfile)
    job(fresh_mosquitto, other.certfile, other.keyfile).drop()


def test_the_authority_can_be_replaced(fresh_mosquitto: MosquittoServer) -> None:
    """A rollover lets old and new certificates in while it runs, and only new ones at its end."""
    authority = CertificateAuthority(fresh_mosquitto.home / "certs")
    before = authority.issue_job(A)
    kept = [Path(shutil.copy(path, fresh_mosquitto.home)) for path in (before.certfile, before.keyfile)]
    rollover.begin(authority)
    fresh_mosquitto.restart()
    job(fresh_mosquitto, kept[0], kept[1]).drop()
    rollover.switch(authority)
    fresh_mosquitto.restart()
    job(fresh_mosquitto, kept[0], kept[1]).drop()
    after = authority.issue_job(A, force=True)
    job(fresh_mosquitto, after.certfile, after.keyfile).drop()
    rollover.finish(authority, force=True)
    fresh_mosquitto.restart()
    job(fresh_mosquitto, after.certfile, after.keyfile).drop()
    with pytest.raises(ConnectionClosedError):
        job(fresh_mosquitto, kept[0], kept[1])


def test_version_5_hears_of_the_refusal(fresh_mosquitto: MosquittoServer) -> None:
    """A version 5 publish without the right is answered with reason 0x87."""
    with client(fresh_mosquitto, "hermes", level=LEVEL_5) as reader:
        assert reader.publish(EVENTS, b"x") == NOT_AUTHORIZED
    with client(fresh_mosquitto, "claude-worker", level=LEVEL_5) as worker:
        assert worker.publish(EVENTS, b"x") in {0, 0x10}


def test_passwords_do_not_protect_a_session(fresh_mosquitto: MosquittoServer) -> None:
    """The documented difference: here a password account can take another's client id."""
    with client(fresh_mosquitto, "hermes", "victim") as victim:
        client(fresh_mosquitto, "claude-worker", "victim").drop()
        assert victim.closed_by_broker()


def test_a_rendered_folder_is_fit(rendered: Path) -> None:
    """What render writes passes the check: Mosquitto starts on it and refuses whom it must."""
    assert problems(rendered) == []
    assert not (rendered / "certs" / "ca.key").exists()
    assert not (rendered / "passwords").exists()
    assert (rendered / "passwd").stat().st_mode & 0o777 == 0o600


def test_render_does_not_overwrite(rendered: Path, tmp_path: Path) -> None:
    """A folder that holds something is left alone unless forced; added users survive a forced rendering."""
    with pytest.raises(ConflictError, match="not empty"):
        render_deployment(tmp_path / "home", rendered, deployment(rendered))
    with PasswordFile.edit(rendered / "passwd") as users:
        users.set("alice", "x", iterations=1_000)
    render_deployment(tmp_path / "home", rendered, deployment(rendered), force=True)
    assert "alice" in PasswordFile.load(rendered / "passwd").entries


@pytest.mark.parametrize(
    ("name", "line", "finding"),
    [
        ("mosquitto.conf", "allow_anonymous true", (Level.ERROR, "mosquitto.conf")),
        ("mosquitto.conf", "per_listener_settings true", (Level.ERROR, "mosquitto.conf")),
        ("mosquitto.conf", "no_such_setting 1", (Level.ERROR, "mosquitto.conf")),
        ("mosquitto.conf", "log_type nonsense", (Level.ERROR, "mosquitto")),
        ("mosquitto.conf", "port 1883", (Level.ERROR, "mosquitto.conf")),
        ("mosquitto.conf", "listener 1883", (Level.ERROR, "mosquitto.conf")),
        ("acl", "topics read x", (Level.ERROR, "acl")),
        ("acl", "user hermes\ntopic readwrite #", (Level.ERROR, "acl")),
        ("passwd", "hermes:plain", (Level.ERROR, "passwd")),
    ],
)
def test_check_finds_bad_lines(rendered: Path, name: str, line: str, finding: tuple[Level, str]) -> None:
    """A bad line in any file is an error that names the file."""
    path = rendered / name
    path.write_text(path.read_text() + line + "\n")
    assert finding in problems(rendered)


@pytest.mark.parametrize(
    "line", ["acl_file", "password_file", "crlfile", "tls_version", "require_certificate"]
)
def test_check_finds_lines_that_are_gone(rendered: Path, line: str) -> None:
    """Without one of the lines that keep people out a folder is not fit, though Mosquitto starts on it."""
    path = rendered / "mosquitto.conf"
    path.write_text(re.sub(rf"^{line} .*\n", "", path.read_text(), count=1, flags=re.MULTILINE))
    assert (Level.ERROR, "mosquitto.conf") in problems(rendered)


def test_check_tries_the_listeners(rendered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no line shows is tried, and is an error: a Mosquitto that speaks TLS 1.2 or lets strangers in."""
    path = rendered / "mosquitto.conf"
    text = path.read_text().replace("tls_version tlsv1.3", "tls_version tlsv1.2")
    path.write_text(text.replace("allow_anonymous false", "allow_anonymous true"))
    monkeypatch.setattr("jobwire.broker.check.differences", lambda _text, _files: iter(()))
    assert problems(rendered) == [(Level.ERROR, "TLS 1.2"), (Level.ERROR, "anonymous")]


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("passwd", 0o640),
        ("certs/server.key", 0o644),
        ("acl", 0o666),
        ("certs", 0o777),
        ("data", 0o770),
        ("", 0o777),
    ],
)
def test_check_finds_loose_permissions(rendered: Path, name: str, mode: int) -> None:
    """Passwords and keys that others can read, and files or folders that they can change, are errors."""
    (rendered / name).chmod(mode)
    assert (Level.ERROR, (rendered / name).name) in problems(rendered)


@pytest.mark.parametrize(
    "name", ["mosquitto.conf", "acl", "passwd", "certs/crl.pem", "certs/server.key", "data"]
)
def test_check_names_what_is_missing(rendered: Path, name: str) -> None:
    """A file that is gone is named once, with the command that brings it back."""
    path = rendered / name
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    assert problems(rendered) == [(Level.ERROR, path.name)]


def test_check_needs_a_folder(tmp_path: Path) -> None:
    """A folder that is not there is said so, with the command that makes it."""
    with pytest.raises(NotFoundError, match="no folder"):
        check_deployment(tmp_path / "nowhere", warn_seconds=WARN_SECONDS)


def test_check_looks_at_a_homes_own_broker(fresh_mosquitto: MosquittoServer) -> None:
    """The folder that `broker up --mosquitto` runs on can be checked in place."""
    assert not [level for level, _ in problems(fresh_mosquitto.home / "broker") if level is Level.ERROR]


def test_check_finds_storage_that_cannot_be_written(rendered: Path) -> None:
    """A persistence folder that cannot be written is an error: Mosquitto would keep nothing, silently."""
    (rendered / "data").rmdir()
    (rendered / "data").write_text("a file, not a folder")
    assert (Level.ERROR, "data") in problems(rendered)


def test_check_warns_before_an_expiry(rendered: Path, tmp_path: Path) -> None:
    """A server certificate near its end is a warning, one past it an error."""
    authority = CertificateAuthority(tmp_path / "home" / "certs")
    for lifetime, backdate, level in (
        (3 * DAY, 2.5 * DAY, Level.WARNING),
        (60.0, 7_200.0, Level.ERROR),
    ):
        CertificateAuthority(authority.directory, backdate_seconds=backdate).renew(
            "server", lifetime_seconds=lifetime
        )
        shutil.copy(tmp_path / "home" / "certs" / "server.pem", rendered / "certs" / "server.pem")
        assert (level, "server jobwire broker") in problems(rendered)


def test_check_warns_before_the_revocation_list_runs_out(rendered: Path, tmp_path: Path) -> None:
    """A revocation list near its nextUpdate is reported: past it everybody is refused."""
    clock = ManualClock(now=time.time() - 2.5 * DAY)
    CertificateAuthority(tmp_path / "home" / "certs", clock=clock).refresh_crl(lifetime_seconds=3 * DAY)
    shutil.copy(tmp_path / "home" / "certs" / "crl.pem", rendered / "certs" / "crl.pem")
    assert (Level.WARNING, "crl.pem") in problems(rendered)


@pytest.mark.parametrize("path", ["/a\nallow_anonymous true", "/a\tb\x01"])
def test_paths_cannot_add_lines(tmp_path: Path, path: str) -> None:
    """A path with a line break is refused before anything is written."""
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match="control character"):
        render_deployment(tmp_path / "home", out, deployment(Path(path)))
    assert not out.exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"listening": Listening("127.0.0.1", 8883, 8883)}, "different ports"),
        ({"listening": Listening("127.0.0.1 ::1", 8883, 8884)}, "not a host name or address"),
        ({"listening": Listening("", 8883, 8884)}, "not a host name or address"),
        ({"iterations": 0}, "iteration count"),
        ({"topic_root": "a/#"}, "not a topic root"),
        ({"server_names": ("bad name",)}, "not a host name"),
        ({"user": "a b"}, "not a user name"),
        ({"installed_at": Path("relative")}, "cannot be written into a systemd unit"),
        ({"installed_at": Path("/with a blank")}, "cannot be written into a systemd unit"),
        ({"installed_at": Path("/with/%h")}, "cannot be written into a systemd unit"),
    ],
)
def test_unusable_values_write_nothing(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    """A value that no broker could have is refused before the home or the folder is touched."""
    with pytest.raises(InvalidInputError, match=message):
        render_deployment(tmp_path / "home", tmp_path / "out", deployment(tmp_path / "out")._replace(**wrong))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """Rendering onto a file says so, also by force."""
    (tmp_path / "out").touch()
    with pytest.raises(ConflictError, match="is not a folder"):
        render_deployment(tmp_path / "home", tmp_path / "out", deployment(tmp_path / "out"), force=True)
