"""The real brokers as test servers: started, broken and gone afterwards."""

import socket
from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError
from jobwire.testing import BrokerProcess, EmbeddedServer, wait_for
from jobwire.transport import PahoTransport


def accepts(server: BrokerProcess) -> bool:
    """Tell whether somebody listens on the server's port."""
    try:
        socket.create_connection((server.host, server.port), timeout=1).close()
    except OSError:
        return False
    return True


def can_publish(server: BrokerProcess) -> bool:
    """Publish one message as the registry."""
    settings = server.settings("registry")
    transport = PahoTransport(settings, client_id="probe", clean_session=True)
    try:
        transport.connect(10)
        topic = f"{settings.topic_root}/deadbeef/state"
        transport.publish(topic, b"", retain=False, deadline_seconds=10)
    finally:
        transport.close()
    return True


def test_settings_of_every_role_are_there(broker: BrokerProcess) -> None:
    """Each role has its own account on the server's address."""
    for role in ("hermes", "claude-worker", "registry", "metrics", "dashboard"):
        settings = broker.settings(role)
        assert (settings.host, settings.port, settings.username) == (broker.host, broker.port, role)
        assert settings.password is not None
        assert settings.tls


def test_stop_kill_and_restart(fresh_broker: BrokerProcess) -> None:
    """Each returns when it is a fact, and the address stays."""
    assert can_publish(fresh_broker)
    first = fresh_broker.pid
    fresh_broker.restart()
    assert fresh_broker.pid != first
    assert can_publish(fresh_broker)
    fresh_broker.kill()
    assert not accepts(fresh_broker)
    fresh_broker.start()
    assert can_publish(fresh_broker)
    fresh_broker.stop()
    fresh_broker.stop()
    assert not accepts(fresh_broker)


def test_a_temporary_home_is_removed() -> None:
    """Without a home of its own nothing of a server is left."""
    with EmbeddedServer() as server:
        home = server.home
        assert home.is_dir()
    assert not home.exists()


def test_a_given_home_is_kept(tmp_path: Path) -> None:
    """A home that the test gave stays, with the log."""
    with EmbeddedServer(tmp_path / "home") as server:
        wait_for(server.log_file.exists, what="the log")
    assert (tmp_path / "home" / "jobwire.toml").exists()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A broken home is an error with the reason in it, not a wait for the deadline."""
    with EmbeddedServer(tmp_path / "home") as server:
        server.stop()
        (server.home / "broker" / "acl").write_text("nonsense\n")
        with pytest.raises((RuntimeError, ConfigError), match="nonsense"):
            server.start()
