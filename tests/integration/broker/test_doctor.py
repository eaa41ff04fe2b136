"""The doctor on real brokers, well and ill."""

from collections.abc import Mapping
from pathlib import Path

from jobwire.broker.doctor import Doctor
from jobwire.broker.reports import Report, State, verdict
from jobwire.certs import CertificateAuthority
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.testing import EmbeddedServer, ManualClock, MosquittoServer
from jobwire.testing.process import BrokerProcess


def examine(
    home: Path, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None
) -> list[Report]:
    """Return all reports about one home."""
    return list(Doctor(home=home, environ=environ or {}, clock=clock or SystemClock()).examine())


def ill(reports: list[Report]) -> dict[str, str]:
    """Return subject and message of what is ill."""
    return {report.subject: report.message for report in reports if report.state is State.ILL}


def states(reports: list[Report]) -> dict[str, State]:
    """Return the state of each subject."""
    return {report.subject: report.state for report in reports}


def test_a_good_broker_is_well(fresh_broker: BrokerProcess) -> None:
    """A prepared home with its broker has nothing ill, on both brokers, and says what each role may do."""
    reports = examine(fresh_broker.home)
    assert ill(reports) == {}
    assert verdict(reports) is ExitCode.OK
    said = states(reports)
    for subject in ("TLS", "TLS 1.2", "anonymous", "protocol", "hermes reads events", "queueing", "clock"):
        assert said[subject] is State.WELL, subject


def test_a_wrong_password_is_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """The role whose password does not fit is named, with the command that mends it; the others are well."""
    (fresh_embedded_broker.home / "passwords" / "metrics").write_text("wrong\n")
    reports = examine(fresh_embedded_broker.home)
    assert ill(reports) == {"metrics": "refused at CONNECT with code 5"}
    assert verdict(reports) is ExitCode.REFUSED


def test_wrong_rights_are_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """A right too many and a right too few are both found."""
    acl = fresh_embedded_broker.home / "broker" / "acl"
    events = "python/mqtt/jobs/+/events"
    text = acl.read_text().replace(f"topic read {events}", f"topic readwrite {events}", 1)
    acl.write_text(text.replace(f"topic write {events}", "topic write nowhere"))
    fresh_embedded_broker.restart()
    found = ill(examine(fresh_embedded_broker.home))
    # The queue is tried with the first role that should write, here the one without its right.
    assert set(found) == {"hermes writes events", "claude-worker writes events", "queueing"}


def test_a_stopped_broker_is_unreachable(fresh_embedded_broker: EmbeddedServer) -> None:
    """Nothing listening is said so, and the roles are not examined."""
    fresh_embedded_broker.stop()
    reports = examine(fresh_embedded_broker.home)
    assert set(ill(reports)) == {"TCP"}
    assert verdict(reports) is ExitCode.UNREACHABLE
    assert states(reports)["roles"] is State.SKIPPED


def test_a_foreign_ca_is_named(fresh_embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """A broker signed by another CA is refused with the setting to check."""
    CertificateAuthority(tmp_path / "other").init()
    reports = examine(
        fresh_embedded_broker.home, environ={"MQTT_CA_CERTS": str(tmp_path / "other" / "ca.pem")}
    )
    assert set(ill(reports)) == {"TLS"}
    hints = [report.hint for report in reports if report.subject == "TLS"]
    assert "ca_certs" in hints[0]


def test_an_expired_certificate_is_named(fresh_mosquitto: MosquittoServer) -> None:
    """A server certificate past its end is told apart from a wrong CA."""
    CertificateAuthority(fresh_mosquitto.home / "certs").renew_server(
        lifetime_seconds=60, backdate_seconds=7_200
    )
    fresh_mosquitto.restart()
    assert "expired" in ill(examine(fresh_mosquitto.home))["TLS"]


def test_a_name_that_is_not_in_the_certificate(fresh_embedded_broker: EmbeddedServer) -> None:
    """Another address of the same broker is refused by its name."""
    reports = examine(fresh_embedded_broker.home, environ={"MQTT_BROKER": "127.0.0.2"})
    assert set(ill(reports)) <= {"TCP", "TLS"}
    assert ill(reports)


def test_a_name_that_does_not_resolve(fresh_embedded_broker: EmbeddedServer) -> None:
    """An unknown host name is said so."""
    reports = examine(fresh_embedded_broker.home, environ={"MQTT_BROKER": "no-such-host.invalid"})
    assert set(ill(reports)) == {"name"}


def test_a_version_the_broker_does_not_speak(fresh_embedded_broker: EmbeddedServer) -> None:
    """Version 5 in the settings against the embedded broker is ill, with the line to change."""
    reports = examine(fresh_embedded_broker.home, environ={"MQTT_PROTOCOL": "5"})
    assert set(ill(reports)) == {"protocol"}
    assert any('protocol = "3.1.1"' in report.hint for report in reports)


def test_open_directories_and_a_clock_set_back(embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """A folder that others can read is ill; files from the future are a warning."""
    (tmp_path / "home" / "jobs").mkdir(parents=True)
    (tmp_path / "home").chmod(0o755)
    (tmp_path / "home" / "jobs").chmod(0o700)
    settings = (embedded_broker.home / "jobwire.toml").read_text()
    settings = settings.replace('"certs/', f'"{embedded_broker.home}/certs/')
    settings = settings.replace('"passwords/', f'"{embedded_broker.home}/passwords/')
    (tmp_path / "home" / "jobwire.toml").write_text(settings)
    clock = ManualClock(now=SystemClock().now() - 200)
    reports = examine(tmp_path / "home", clock=clock)
    assert set(ill(reports)) == {"home"}
    assert states(reports)["clock"] is State.WARNING


def test_a_user_named_by_the_environment_is_examined_once(embedded_broker: EmbeddedServer) -> None:
    """Where MQTT_USERNAME names a role, that one is examined and no other."""
    password = embedded_broker.home / "passwords" / "metrics"
    reports = examine(
        embedded_broker.home, environ={"MQTT_USERNAME": "metrics", "MQTT_PASSWORD_FILE": str(password)}
    )
    assert ill(reports) == {}
    assert states(reports)["metrics reads events"] is State.WELL
    assert "hermes" not in states(reports)


def test_loose_password_files_are_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """A password that others can read is ill before anything is sent."""
    (fresh_embedded_broker.home / "passwords" / "hermes").chmod(0o644)
    assert "settings of hermes" in ill(examine(fresh_embedded_broker.home))
