"""The doctor on real brokers, well and ill."""

from collections.abc import Mapping
from pathlib import Path

from jobwire.broker.doctor import Doctor, verdict
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Finding, Level
from jobwire.core.clock import Clock, SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.testing import EmbeddedServer, ManualClock, MosquittoServer
from jobwire.testing.process import BrokerProcess


def examine(
    home: Path, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None
) -> list[Finding]:
    """Return all findings about one home."""
    return list(Doctor(home=home, environ=environ or {}, clock=clock or SystemClock()).examine())


def failing(findings: list[Finding]) -> dict[str, str]:
    """Return subject and message of what fails."""
    return {finding.subject: finding.message for finding in findings if finding.level is Level.ERROR}


def levels(findings: list[Finding]) -> dict[str, Level]:
    """Return the level of each subject."""
    return {finding.subject: finding.level for finding in findings}


def test_a_good_broker_is_well(fresh_broker: BrokerProcess) -> None:
    """In a prepared home nothing fails, on both brokers, and it is said what each role may do."""
    findings = examine(fresh_broker.home)
    assert failing(findings) == {}
    assert verdict(findings) is ExitCode.OK
    said = levels(findings)
    for subject in ("TLS", "TLS 1.2", "anonymous", "protocol", "hermes reads events", "queueing", "clock"):
        assert said[subject] is Level.WELL, subject


def test_a_file_that_goes_while_it_is_looked_at(tmp_path: Path) -> None:
    """What others rename and remove meanwhile is passed over: the clock is judged by the rest."""
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    now = (tmp_path / "dangling").lstat().st_mtime
    (tmp_path / "jobwire.toml").write_text("[broker]\nusername = 'hermes'\nport = 1\n")
    found = examine(tmp_path, clock=ManualClock(now=now))
    assert levels(found)["clock"] is Level.WELL


def test_a_wrong_password_is_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """The role whose password does not fit is named, with the command that mends it; the others are well."""
    (fresh_embedded_broker.home / "passwords" / "metrics").write_text("wrong\n")
    findings = examine(fresh_embedded_broker.home)
    (metrics,) = (finding for finding in findings if finding.level is Level.ERROR)
    assert metrics.subject == "metrics"
    assert "refused user 'metrics'" in metrics.message
    assert "jobwire broker passwd add metrics --replace" in metrics.hint
    assert verdict(findings) is ExitCode.REFUSED


def test_the_first_roles_password_says_nothing_about_others(fresh_broker: BrokerProcess) -> None:
    """A wrong password of the role that is asked first is no missing protocol and no missing queue."""
    (fresh_broker.home / "passwords" / "hermes").write_text("wrong\n")
    findings = examine(fresh_broker.home)
    assert set(failing(findings)) == {"hermes"}
    assert verdict(findings) is ExitCode.REFUSED


def test_a_wrong_line_is_said_once(embedded_broker: EmbeddedServer) -> None:
    """What every role meets is one finding that names them all."""
    (subject,) = failing(examine(embedded_broker.home, environ={"MQTT_PORT": "abc"}))
    assert subject == "settings of hermes, claude-worker, registry, metrics, dashboard"


def test_the_port_for_certificates(fresh_mosquitto: MosquittoServer) -> None:
    """Where it is another port it must be there and hear nobody without a certificate."""
    settings = fresh_mosquitto.home / "jobwire.toml"
    assert levels(examine(fresh_mosquitto.home))["certificates"] is Level.WELL
    place = f"port = {fresh_mosquitto.mtls_port}"
    assert settings.read_text().count(place) == 1
    settings.write_text(settings.read_text().replace(place, "port = 1"))
    findings = examine(fresh_mosquitto.home)
    assert "nothing listens at" in failing(findings)["certificates"]
    assert verdict(findings) is ExitCode.UNREACHABLE


def test_a_port_for_certificates_that_hears_everybody(fresh_mosquitto: MosquittoServer) -> None:
    """A second port that answers clients without a certificate is ill."""
    settings = fresh_mosquitto.home / "jobwire.toml"
    ports = fresh_mosquitto.port, fresh_mosquitto.mtls_port
    swapped = settings.read_text().replace(f"[mtls]\nport = {ports[1]}", f"[mtls]\nport = {ports[0]}")
    settings.write_text(swapped.replace(f"port = {ports[0]}", f"port = {ports[1]}", 1))
    assert "hears clients without a certificate" in failing(examine(fresh_mosquitto.home))["certificates"]


def test_a_certificate_is_examined_as_whom_it_names(fresh_broker: BrokerProcess) -> None:
    """With a job's certificate in the environment that job is examined, once, and no role."""
    issued = CertificateAuthority(fresh_broker.home / "certs").issue_job("0a1b2c3d")
    environ = {
        "MQTT_CERTFILE": str(issued.certfile),
        "MQTT_KEYFILE": str(issued.keyfile),
        "MQTT_PORT": str(fresh_broker.mtls_port),
    }
    findings = examine(fresh_broker.home, environ=environ)
    assert failing(findings) == {}
    assert next(finding.message for finding in findings if finding.subject == "0a1b2c3d") == "authenticated"
    assert "hermes" not in levels(findings)


def test_wrong_rights_are_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """A right too many and a right too few are both found."""
    acl = fresh_embedded_broker.home / "broker" / "acl"
    events = "python/mqtt/jobs/+/events"
    text = acl.read_text().replace(f"topic read {events}", f"topic readwrite {events}", 1)
    acl.write_text(text.replace(f"topic write {events}", "topic write nowhere"))
    fresh_embedded_broker.restart()
    findings = examine(fresh_embedded_broker.home)
    assert set(failing(findings)) == {"hermes writes events", "claude-worker writes events"}
    assert levels(findings)["queueing"] is Level.WELL, "tried with roles that are well"


def test_a_stopped_broker_is_unreachable(fresh_embedded_broker: EmbeddedServer) -> None:
    """Nothing listening is said so, and the roles are not examined."""
    fresh_embedded_broker.stop()
    findings = examine(fresh_embedded_broker.home)
    assert set(failing(findings)) == {"TCP"}
    assert verdict(findings) is ExitCode.UNREACHABLE
    assert levels(findings)["roles"] is Level.NOTE


def test_a_foreign_ca_is_named(fresh_embedded_broker: EmbeddedServer, tmp_path: Path) -> None:
    """A broker signed by another CA is refused with the setting to check."""
    CertificateAuthority(tmp_path / "other").init()
    findings = examine(
        fresh_embedded_broker.home, environ={"MQTT_CA_CERTS": str(tmp_path / "other" / "ca.pem")}
    )
    assert set(failing(findings)) == {"TLS"}
    hints = [finding.hint for finding in findings if finding.subject == "TLS"]
    assert "MQTT_CA_CERTS" in hints[0]


def test_an_expired_certificate_is_named(fresh_mosquitto: MosquittoServer) -> None:
    """A server certificate past its end is told apart from a wrong CA."""
    CertificateAuthority(fresh_mosquitto.home / "certs", backdate_seconds=7_200).renew(
        "server", lifetime_seconds=60
    )
    fresh_mosquitto.restart()
    assert "expired" in failing(examine(fresh_mosquitto.home))["TLS"]


def test_a_name_that_is_not_in_the_certificate(fresh_embedded_broker: EmbeddedServer) -> None:
    """A certificate for another name is refused, with the commands that mend it."""
    CertificateAuthority(fresh_embedded_broker.home / "certs").renew("server", server_names=["localhost"])
    fresh_embedded_broker.restart()
    findings = examine(fresh_embedded_broker.home)
    assert set(failing(findings)) == {"TLS"}
    assert "127.0.0.1" in failing(findings)["TLS"]
    assert "jobwire certs renew server" in next(
        finding.hint for finding in findings if finding.subject == "TLS"
    )


def test_a_name_that_does_not_resolve(fresh_embedded_broker: EmbeddedServer) -> None:
    """An unknown host name is said so."""
    findings = examine(fresh_embedded_broker.home, environ={"MQTT_BROKER": "no-such-host.invalid"})
    assert set(failing(findings)) == {"name"}


def test_a_version_the_broker_does_not_speak(fresh_embedded_broker: EmbeddedServer) -> None:
    """Version 5 in the settings against the embedded broker is ill, with the line to change."""
    findings = examine(fresh_embedded_broker.home, environ={"MQTT_PROTOCOL": "5"})
    assert set(failing(findings)) == {"protocol"}
    assert any("MQTT_PROTOCOL=3.1.1" in finding.hint for finding in findings)


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
    findings = examine(tmp_path / "home", clock=clock)
    assert set(failing(findings)) == {"home"}
    assert levels(findings)["clock"] is Level.WARNING


def test_a_user_named_by_the_environment_is_examined_once(embedded_broker: EmbeddedServer) -> None:
    """Where MQTT_USERNAME names a role, that one is examined and no other."""
    password = embedded_broker.home / "passwords" / "metrics"
    findings = examine(
        embedded_broker.home, environ={"MQTT_USERNAME": "metrics", "MQTT_PASSWORD_FILE": str(password)}
    )
    assert failing(findings) == {}
    assert levels(findings)["metrics reads events"] is Level.WELL
    assert "hermes" not in levels(findings)


def test_loose_password_files_are_named(fresh_embedded_broker: EmbeddedServer) -> None:
    """A password that others can read is ill before anything is sent."""
    (fresh_embedded_broker.home / "passwords" / "hermes").chmod(0o644)
    assert "settings of hermes" in failing(examine(fresh_embedded_broker.home))
