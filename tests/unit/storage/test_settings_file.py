"""jobwire.toml: every table and key is known and fits, whoever asks; and where a value comes from."""

from contextlib import suppress
from pathlib import Path

import pytest

from jobwire.coordination.routing.route import DEFAULT_GUARD
from jobwire.core.errors import ConfigError
from jobwire.core.setting_tables import TABLES, check_value
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import DEFAULT_ROOT
from jobwire.hooks.policy import Policy
from jobwire.metrics.settings import MetricsSettings, load_metrics_settings
from jobwire.registry.purge import load_rules
from jobwire.storage.settings_file import in_force, mtls_port, read_own_settings, read_settings
from jobwire.transport import load_settings


def write(folder: Path, text: str) -> Path:
    """Write the settings of a home."""
    path = folder / "jobwire.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("# hello\n[brokr]\nport = 1\n", "'brokr' in HOME:2", "did you mean broker?"),
        ("[metrics]\n\nmax_row = 1\n", "'max_row' in HOME:3 [metrics]", "did you mean max_rows?"),
        ("[roles.hermse]\nusername='x'\n", "'roles.hermse' in HOME:1", "did you mean roles.hermes?"),
        ("brokr.port = 1\n", "'brokr'", "did you mean broker?"),
        ("port = 1\n", "port", "known: agents.policy, autopilot, broker"),
        ("[mtls]\nport = 70000\n", "port in HOME:2 [mtls] is 70000", "a number from 1 to 65535"),
        ("[broker]\nprotocol = '4'\n", "protocol in HOME:2", "one of auto, 5, 3.1.1"),
        ("[broker]\ntls = 'maybe'\n", "tls in HOME:2", '"on" or "off"'),
        ("[metrics]\nmax_rows = true\n", "max_rows in HOME:2", "a whole number from 1 to 1000000000"),
        ("[metrics]\nverify = 'off'\n", "verify in HOME:2", "true or false"),
        ("[metrics]\nmemory = 'lots'\n", "memory in HOME:2", 'like "512m"'),
        ("[metrics]\njournals = []\n", "journals in HOME:2", "a list of 1 to"),
        ("[metrics]\ntrigger_seconds = nan\n", "trigger_seconds in HOME:2", "a number from 0 to 86400"),
        ("[registry]\nkeep_records_days = inf\n", "keep_records_days in HOME:2", "keeps for ever"),
        ("[broker]\nbroker = ['x']\n", "broker in HOME:2", "a text"),
        ("[[broker]]\nport = 1\n", "broker in HOME", "write [broker]"),
        (f"[mtls]\nport = {'1' * 5000}\n", "HOME is not valid TOML", "correct the line"),
        ("roles = 1\n", "roles in HOME:1 is not a table", "write [roles]"),
        ("[broker]\npassword = 5\n", "password in HOME:2 [broker] is not usable", "a text"),
    ],
)
def test_whoever_reads_a_wrong_file_is_told_where_and_what_is_right(
    tmp_path: Path, text: str, said: str, hint: str
) -> None:
    """A mistake in any table stops every reader, with file, line, the nearest name, and what is allowed."""
    path = write(tmp_path, text)
    readers = (
        lambda: load_settings(home=tmp_path, role="hermes", command_line={}, record={}, environ={}),
        lambda: load_rules(tmp_path, retained_days=None, record_days=None),
        lambda: load_metrics_settings(tmp_path, {}, {}),
        lambda: mtls_port(tmp_path),
    )
    for read in readers:
        with pytest.raises(ConfigError) as caught:
            read()
        assert said.replace("HOME", str(path)) in caught.value.message
        assert hint in caught.value.hint


def test_a_hostile_file_cannot_fill_the_screen(tmp_path: Path) -> None:
    """A name of any length, with anything in it, becomes one short harmless line."""
    write(tmp_path, f'["\\u001b[2J{"x" * 100_000}"]\na = 1\n')
    with pytest.raises(ConfigError) as caught:
        read_settings(tmp_path)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_deep_nesting_is_a_wrong_file(tmp_path: Path) -> None:
    """A file that no parser can follow is refused like any other that is no TOML."""
    write(tmp_path, f"a = {'[' * 5000}{']' * 5000}\n")
    with pytest.raises(ConfigError, match=r"jobwire\.toml"):
        read_settings(tmp_path)


def test_a_cluster_is_named_in_the_users_own_file_only(tmp_path: Path) -> None:
    """What Spark's driver connects to may run code in it: a home can choose local cores and no host."""
    home, config = tmp_path / "home", tmp_path / "config"
    environ = {"XDG_CONFIG_HOME": str(config)}
    write(home, '[metrics]\nmaster = "spark://elsewhere:7077"\n')
    with pytest.raises(ConfigError, match="master") as caught:
        load_metrics_settings(home, {}, environ)
    assert "your own file" in caught.value.hint
    write(home, "")
    write(config / "jobwire", '[metrics]\nmaster = "spark://elsewhere:7077"\n')
    assert load_metrics_settings(home, {}, environ).master == "spark://elsewhere:7077"
    write(home, '[metrics]\nmaster = "local[4]"\n')
    assert load_metrics_settings(home, {}, environ).master == "local[4]"


def test_the_users_own_file_says_nothing_else(tmp_path: Path) -> None:
    """Addresses and passwords belong to a home."""
    write(tmp_path / "jobwire", '[broker]\nbroker = "x"\n')
    with pytest.raises(ConfigError, match="belongs in a home"):
        read_own_settings({"XDG_CONFIG_HOME": str(tmp_path)})


def test_the_users_own_file_is_his_alone_to_write(tmp_path: Path) -> None:
    """A file that others may change is refused; a relative XDG_CONFIG_HOME counts as unset."""
    path = write(tmp_path / ".config" / "jobwire", "[metrics]\n")
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}
    assert read_own_settings(environ).path == str(path)
    path.chmod(0o620)
    with pytest.raises(ConfigError, match="not yours alone"):
        read_own_settings(environ)
    assert read_own_settings({}).tables == {}


def test_every_setting_says_where_it_comes_from(tmp_path: Path) -> None:
    """Environment before file before default; passwords are masked, also inside an URL."""
    path = write(
        tmp_path,
        '[broker]\nport = 1884\npassword = "geheim"\nusername = "me"\n[roles.hermes]\nusername = "hermes"\n'
        '[metrics]\nsink = "postgresql://me:geheim@db/x"\n',
    )
    settings = in_force(read_settings(tmp_path), read_own_settings({}), {"MQTT_BROKER": "mqtt.example"})
    found = {f"{one.table}.{one.key}": (one.value, one.source) for one in settings}
    assert found["broker.broker"] == ("mqtt.example", "$MQTT_BROKER")
    assert found["broker.port"] == (1884, f"{path}:2")
    assert found["broker.password"] == ("***", f"{path}:3")
    assert found["broker.protocol"] == ("auto", "default")
    assert found["roles.hermes.username"] == ("hermes", f"{path}:6")
    assert found["metrics.sink"] == ("postgresql://me:***@db/x", f"{path}:8")
    assert "roles.metrics.username" not in found
    assert "geheim" not in str(found)


def test_a_variable_that_cannot_be_is_told(tmp_path: Path) -> None:
    """The list of settings does not show as valid what every command refuses."""
    with pytest.raises(ConfigError, match="port in the environment"):
        in_force(read_settings(tmp_path), read_own_settings({}), {"MQTT_PORT": "x"})


def test_declared_defaults_are_those_in_force(tmp_path: Path) -> None:
    """What docs and `jobwire settings` call the default is what the readers do without a file."""
    declared = {(table, one.name): one.default for table, settings in TABLES.items() for one in settings}
    said = {key: value for key, value in declared.items() if not str(value).startswith("(")}
    metrics = MetricsSettings._field_defaults
    broker = {**BrokerSettings._field_defaults, "broker": BrokerSettings().host, "tls": "on"}
    kept = load_rules(tmp_path, retained_days=None, record_days=None)
    days = 86400.0
    registry = {
        "keep_retained_days": (kept.retained_seconds or 0) / days,
        "keep_records_days": (kept.record_seconds or 0) / days,
        "keep_journal_days": kept.journal.keep_seconds / days,
        "keep_journal_mib": kept.journal.keep_bytes / (1 << 20),
        "keep_unread_days": kept.journal.lag_seconds / days,
        "keep_unread_mib": kept.journal.lag_bytes / (1 << 20),
    }
    in_code = {
        "metrics": metrics,
        "broker": broker,
        "registry": registry,
        "directives": {"max_open": DEFAULT_GUARD.most_open},
        "agents.policy": Policy._field_defaults,
    }
    for (table, key), default in said.items():
        assert in_code[table][key] == default, key
    assert {key for table, key in declared if table == "metrics"} == set(MetricsSettings._fields) - {"home"}
    assert BrokerSettings().topic_root == DEFAULT_ROOT


def test_a_link_to_settings_is_followed_by_its_place(tmp_path: Path) -> None:
    """Paths in the file are relative to where it is found."""
    real = write(tmp_path / "real", '[broker]\nca_certs = "ca.pem"\n')
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "jobwire.toml").symlink_to(real)
    assert read_settings(tmp_path / "home").get("broker", "ca_certs") == str(tmp_path / "home" / "ca.pem")


@pytest.mark.parametrize(
    "value", ["", "x", 0, -1, 2**70, 0.5, float("nan"), True, [], ["x"], [1], [[]], {}, {"x": []}], ids=repr
)
def test_a_value_of_any_kind_is_taken_or_refused(value: object) -> None:
    """Whatever TOML can hold stands behind a key, its reader says what is right: nothing else happens."""
    for settings in TABLES.values():
        for setting in settings:
            for own in (False, True):
                with suppress(ConfigError):
                    check_value(setting, value, "a file", own=own)
