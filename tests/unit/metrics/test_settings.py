"""Settings of a run: where they come from, and what must not stand where."""

import os
from pathlib import Path

import pytest

from jobwire.core.errors import ConfigError
from jobwire.metrics.database import open_database, public_url
from jobwire.metrics.errors import JavaMissingError
from jobwire.metrics.java import find_java, java_version
from jobwire.metrics.session import SparkSettings, configuration
from jobwire.metrics.settings import SINK_VARIABLE, MetricsSettings, load_metrics_settings
from jobwire.metrics.statements import queries, schema


def test_defaults_live_below_the_home(tmp_path: Path) -> None:
    """Without any word everything is in HOME/metrics, and the journal in HOME/journal."""
    settings = load_metrics_settings(tmp_path, {}, {})
    assert settings.journals == (tmp_path / "journal",)
    assert settings.sink == str(tmp_path / "metrics" / "metrics.db")
    assert settings.history == str(tmp_path / "metrics" / "history")


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    """jobwire.toml gives what the command line does not; its paths are relative to it."""
    (tmp_path / "jobwire.toml").write_text(
        '[broker]\ntopic_root = "a/b"\n[metrics]\nsink = "x/tables.db"\nmax_rows = 5\nhistory = ""\n'
        'journals = ["j1", "j2"]\n'
    )
    settings = load_metrics_settings(tmp_path, {"max_rows": 7, "memory": None}, {})
    assert (settings.max_rows, settings.memory, settings.history) == (7, "1g", None)
    assert settings.sink == str(tmp_path / "x" / "tables.db")
    assert settings.journals == (tmp_path / "j1", tmp_path / "j2")
    assert settings.topic_root == "a/b"


def test_settings_travel_to_the_driver_without_the_sink(tmp_path: Path) -> None:
    """What stands in the child's argv holds no password."""
    url = "postgresql://me:geheim@db/x"
    settings = load_metrics_settings(tmp_path, {}, {SINK_VARIABLE: url})
    text = settings.to_json()
    assert "geheim" not in text
    assert MetricsSettings.from_json(text, {SINK_VARIABLE: url}) == settings


def test_passwords_are_refused_where_others_can_read_them(tmp_path: Path) -> None:
    """Neither argv nor a readable file may hold one."""
    url = "postgresql://me:geheim@db/x"
    with pytest.raises(ConfigError, match="command line"):
        load_metrics_settings(tmp_path, {"sink": url}, {})
    file = tmp_path / "jobwire.toml"
    file.write_text(f'[metrics]\nsink = "{url}"\n')
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="open to other users"):
        load_metrics_settings(tmp_path, {}, {})
    file.chmod(0o600)
    assert load_metrics_settings(tmp_path, {}, {}).sink == url
    assert public_url(url) == "postgresql://me@db/x"


def test_unknown_keys_and_databases_are_named(tmp_path: Path) -> None:
    """A misspelt key or an unknown database is an error with the remedy."""
    (tmp_path / "jobwire.toml").write_text("[metrics]\nsinc = 1\n")
    with pytest.raises(ConfigError, match="sinc"):
        load_metrics_settings(tmp_path, {}, {})
    with pytest.raises(ConfigError, match="mysql"):
        open_database("mysql://x/y")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.21" 2026-10-20', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_java_versions(text: str, version: int | None) -> None:
    """Both ways of counting Java's versions are understood."""
    assert java_version(text) == version


def test_java_home_goes_first(tmp_path: Path) -> None:
    """JAVA_HOME without a java is an error, as Spark's launcher would not look further."""
    with pytest.raises(JavaMissingError, match="JAVA_HOME"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    with pytest.raises(JavaMissingError, match="needs Java"):
        find_java({"PATH": str(tmp_path)})


def test_spark_stays_on_loopback_and_small() -> None:
    """A local session binds to loopback, opens no web page, and takes the memory it was given."""
    options = configuration(SparkSettings(memory="512m", log_file=Path("/x/spark.log")))
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.driver.memory"] == "512m"
    assert "spark.master" not in configuration(SparkSettings(master=""))


def test_the_sql_files_are_complete() -> None:
    """Every named query has a body, and the schema is a list of statements."""
    assert all(text and not text.startswith("--") for text in queries().values())
    assert sum(text.startswith("CREATE TABLE") for text in schema()) == 12
