"""Settings from jobwire.toml, password files and the layers above."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError
from jobwire.core.settings import BrokerSettings, Secret
from jobwire.transport import load_settings

_TOML = """
[broker]
broker = "mqtt.example.org"
port = 8900
tls = true
ca_certs = "certs/ca.pem"
topic_root = "a/b"
protocol = "3.1.1"

[roles.hermes]
username = "hermes"
password_file = "passwords/hermes"

[registry]
keep_records_days = 1
"""


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    """Write a file with its mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home with settings and one role's password."""
    write(tmp_path / "jobwire.toml", _TOML, 0o644)
    write(tmp_path / "passwords" / "hermes", "s3cret\n")
    return tmp_path


def load(
    home: Path,
    role: str = "hermes",
    command_line: Mapping[str, object] | None = None,
    record: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> BrokerSettings:
    """Load with empty layers where none is given."""
    return load_settings(
        home=home, role=role, command_line=command_line or {}, record=record or {}, environ=environ or {}
    )


def test_the_file_and_the_role_are_read(home: Path) -> None:
    """Everything of the two tables arrives, paths relative to the file."""
    assert load(home) == BrokerSettings(
        host="mqtt.example.org",
        port=8900,
        tls=True,
        ca_certs=str(home / "certs/ca.pem"),
        username="hermes",
        password=Secret("s3cret"),
        password_file=str(home / "passwords/hermes"),
        topic_root="a/b",
        protocol="3.1.1",
    )


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    """No jobwire.toml is no error."""
    assert load(tmp_path) == BrokerSettings()


def test_the_layers_rank_as_documented(home: Path) -> None:
    """Command line beats record beats environment beats file."""
    environ = {"MQTT_BROKER": "env", "MQTT_PORT": "1", "MQTT_TOPIC_ROOT": "env"}
    record: dict[str, object] = {"broker": "record", "port": 2}
    settings = load(home, command_line={"broker": "line"}, record=record, environ=environ)
    assert (settings.host, settings.port, settings.topic_root) == ("line", 2, "env")
    assert settings.protocol == "3.1.1"


@pytest.mark.parametrize("key", ["username", "certfile"])
def test_a_role_is_used_only_when_nobody_is_named(home: Path, key: str) -> None:
    """A user or certificate from a higher layer never travels with the role's password."""
    line: dict[str, object] = {"username": "bob"} if key == "username" else {"certfile": "c", "keyfile": "k"}
    settings = load(home, command_line=line)
    assert settings.password is None
    assert settings.username == line.get("username")


def test_a_password_stays_with_its_user(home: Path) -> None:
    """[broker]'s password is not sent for a user that the environment names."""
    write(home / "other", "others\n")
    text = '[broker]\nusername = "alice"\npassword_file = "other"\n'
    write(home / "jobwire.toml", text)
    assert load(home).password == Secret("others")
    assert load(home, environ={"MQTT_USERNAME": "bob"}).password is None
    assert load(home, environ={"MQTT_USERNAME": "alice"}).password == Secret("others")


def test_a_higher_password_replaces_the_lower_file(home: Path) -> None:
    """MQTT_PASSWORD beats the role's file, and a file on the command line beats MQTT_PASSWORD."""
    assert load(home, environ={"MQTT_PASSWORD": "direct"}).password == Secret("direct")
    given = write(home / "given", "from file")
    settings = load(home, command_line={"password_file": str(given)}, environ={"MQTT_PASSWORD": "direct"})
    assert settings.password == Secret("from file")


def test_two_passwords_in_one_layer_are_refused(home: Path) -> None:
    """A layer that gives a password and a file cannot be understood."""
    with pytest.raises(ConfigError):
        load(home, environ={"MQTT_PASSWORD": "a", "MQTT_PASSWORD_FILE": "b"})


def test_absolute_paths_stay(home: Path) -> None:
    """An absolute path in the file is used as it is."""
    write(home / "jobwire.toml", '[broker]\nca_certs = "/etc/ca.pem"\n')
    assert load(home).ca_certs == "/etc/ca.pem"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_an_open_password_file_is_refused(home: Path, mode: int) -> None:
    """A password that others may read is not used; the remedy is named."""
    path = write(home / "passwords" / "hermes", "s3cret\n", mode)
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert caught.value.facts["mode"] == mode
    assert str(path) in caught.value.hint


@pytest.mark.parametrize("content", ["", "\n", "two\nlines\n"])
def test_a_password_is_one_line(home: Path, content: str) -> None:
    """An empty or longer file is a mistake, not a password."""
    write(home / "passwords" / "hermes", content)
    with pytest.raises(ConfigError):
        load(home)


def test_a_missing_password_file_is_named(home: Path) -> None:
    """The error carries the path."""
    (home / "passwords" / "hermes").unlink()
    with pytest.raises(ConfigError) as caught:
        load(home)
    assert caught.value.facts["path"] == str(home / "passwords" / "hermes")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[broker]\nhots = "x"\n', "hots"),
        ('[roles.hermes]\npassword = "x"\n', "password"),
        ("broker = 1\n", "broker"),
        ("[roles]\nhermes = 1\n", "roles.hermes"),
        ('[broker]\nport = "x"\n', "port"),
        ("[broker]\nbroker = 5\n", "broker"),
        ("[broker\n", "jobwire.toml"),
        ("[broker]\nport = 1\nport = 2\n", "jobwire.toml"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, named: str) -> None:
    """Every mistake names the file and the key."""
    write(tmp_path / "jobwire.toml", text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert named in caught.value.message
    assert "jobwire.toml" in caught.value.message


def test_invalid_utf_8_is_explained(tmp_path: Path) -> None:
    """A file that is not text is a matter of configuration."""
    (tmp_path / "jobwire.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError):
        load(tmp_path)


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(home: Path) -> None:
    """Neither settings nor a password are waited for."""
    (home / "passwords" / "hermes").unlink()
    for path in (home / "passwords" / "hermes", home / "jobwire.toml"):
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        with pytest.raises(ConfigError, match="is a pipe"):
            load(home)


def test_a_settings_file_with_a_password_must_be_private(tmp_path: Path) -> None:
    """A password may stand in jobwire.toml only if the file is the owner's alone."""
    path = write(tmp_path / "jobwire.toml", '[broker]\nusername = "a"\npassword = "p"\n', 0o644)
    with pytest.raises(ConfigError):
        load(tmp_path)
    path.chmod(0o600)
    assert load(tmp_path).password == Secret("p")


def test_plaintext_beyond_loopback_must_be_asked_for(home: Path) -> None:
    """MQTT_TLS=off is how one asks for plaintext explicitly."""
    assert not load(home, environ={"MQTT_TLS": "off"}).tls
