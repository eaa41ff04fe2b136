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


def test_the_first_roles_password_says_nothing_about_others(fresh_broker: BrokerProcess) -> None:
    """A wrong password of the role that is asked first is no missing protocol and no missing queue."""
    (fresh_broker.home / "passwords" / "hermes").write_text("wrong\n")
    reports = examine(fresh_broker.home)
    assert set(ill(reports)) == {"hermes"}
    assert verdict(reports) is ExitCode.REFUSED


def test_a_wrong_line_is_said_once(embedded_broker: EmbeddedServer) -> None:
    """What every role meets is one report that names them all."""
    (subject,) = ill(examine(embedded_broker.home, environ={"MQTT_PORT": "abc"}))
    assert subject == "settings of hermes, claude-worker, registry, metrics, dashboard"


def test_the_port_for_certificates(fresh_mosquitto: MosquittoServer) -> None:
    """Where it is another port it must be there and hear nobody without a certificate."""
    settings = fresh_mosquitto.home / "jobwire.toml"
    assert states(examine(fresh_mosquitto.home))["certificates"] is State.WELL
    place = f"port = {fresh_mosquitto.mtls_port}"
    assert settings.read_text().count(place) == 1
    settings.write_text(settings.read_text().replace(place, "port = 1"))
    reports = examine(fresh_mosquitto.home)
    assert "nothing accepts connections" in ill(reports)["certificates"]
    assert verdict(reports) is ExitCode.UNREACHABLE


def test_a_port_for_certificates_that_hears_everybody(fresh_mosquitto: MosquittoServer) -> None:
    """A second port that answers clients without a certificate is ill."""
    settings = fresh_mosquitto.home / "jobwire.toml"
    ports = fresh_mosquitto.port, fresh_mosquitto.mtls_port
    swapped = settings.read_text().replace(f"[mtls]\nport = {ports[1]}", f"[mtls]\nport = {ports[0]}")
    settings.write_text(swapped.replace(f"port = {ports[0]}", f"port = {ports[1]}", 1))
    assert "hears clients without a certificate" in ill(examine(fresh_mosquitto.home))["certificates"]


def test_a_certificate_is_examined_as_whom_it_names(fresh_broker: BrokerProcess) -> None:
    """With a job's certificate in the environment that job is examined, once, and no role."""
    issued = CertificateAuthority(fresh_broker.home / "certs").issue_job("0a1b2c3d")
    environ = {
        "MQTT_CERTFILE": str(issued.certfile),
        "MQTT_KEYFILE": str(issued.keyfile),
        "MQTT_PORT": str(fresh_broker.mtls_port),
    }
    reports = examine(fresh_broker.home, environ=environ)
    assert ill(reports) == {}
    assert next(report.message for report in reports if report.subject == "0a1b2c3d") == "authenticated"
    assert "hermes" not in states(reports)


def test_wrong_rights_are_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """A right too many and a right too few are both found."""
    acl = fresh_embedded_broker.home / "broker" / "acl"
    events = "python/mqtt/jobs/+/events"
    text = acl.read_text().replace(f"topic read {events}", f"topic readwrite {events}", 1)
    acl.write_text(text.replace(f"topic write {events}", "topic write nowhere"))
    fresh_embedded_broker.restart()
    reports = examine(fresh_embedded_broker.home)
    assert set(ill(reports)) == {"hermes writes events", "claude-worker writes events"}
    assert states(reports)["queueing"] is State.WELL, "tried with roles that are well"


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
    CertificateAuthority(fresh_mosquitto.home / "certs").renew(
        "server", lifetime_seconds=60, backdate_seconds=7_200
    )
    fresh_mosquitto.restart()
    assert "expired" in ill(examine(fresh_mosquitto.home))["TLS"]


def test_a_name_that_is_not_in_the_certificate(fresh_embedded_broker: EmbeddedServer) -> None:
    """A certificate for another name is refused, with the commands that mend it."""
    CertificateAuthority(fresh_embedded_broker.home / "certs").renew("server", server_names=["localhost"])
    fresh_embedded_broker.restart()
    reports = examine(fresh_embedded_broker.home)
    assert set(ill(reports)) == {"TLS"}
    assert "127.0.0.1" in ill(reports)["TLS"]
    assert "jobwire certs renew server" in next(report.hint for report in reports if report.subject == "TLS")


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
