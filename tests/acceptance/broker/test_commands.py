"""The broker commands as processes, with foreign clients."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.broker.home import prepare_home
from jobwire.certs.authority import CertificateAuthority
from jobwire.core.topics import Topics
from jobwire.testing import free_port, new_home, require, wait_for
from jobwire.testing.raw_mqtt import ConnectRefusedError, RawClient, client_context

EVENTS = Topics().events("aaaaaaaa")
SECONDS = 60


def jobwire(home: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    line = [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), *words]
    return subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False)


class Up(NamedTuple):
    """A running `jobwire broker up`."""

    process: subprocess.Popen[str]
    home: Path
    port: int
    ready: dict[str, object]


@pytest.fixture(params=["embedded", "mosquitto"])
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    """Run each kind of broker by its command."""
    kind = ["--mosquitto", "--mtls-port", str(free_port())] if request.param == "mosquitto" else []
    if kind:
        require("mosquitto")
    home, port = tmp_path / "home", free_port()
    line = [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), "broker", "up", "--json"]
    log = (tmp_path / "log").open("w")
    with (
        log,
        subprocess.Popen(
            [*line, "--port", str(port), *kind], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        yield Up(process, home, port, json.loads(process.stdout.readline()))
        process.terminate()
        process.wait(SECONDS)


def credentials(up: Up, role: str) -> list[str]:
    """Return mosquitto_pub's and mosquitto_sub's options for a role."""
    password = (up.home / "passwords" / role).read_text().strip()
    where = ["-h", "127.0.0.1", "-p", str(up.port), "--cafile", str(up.ready["ca_certs"])]
    return [*where, "--tls-version", "tlsv1.3", "-V", "mqttv311", "-q", "1", "-u", role, "-P", password]


def test_foreign_clients_talk_through_it(up: Up) -> None:
    """mosquitto_pub and mosquitto_sub exchange a retained event by their roles; SIGTERM ends it with 0."""
    require("mosquitto_pub")
    assert (up.ready["ready"], up.ready["host"], up.ready["port"]) == (True, "127.0.0.1", up.port)
    publish = ["mosquitto_pub", *credentials(up, "claude-worker"), "-t", EVENTS, "-m", "done", "-r"]
    subprocess.run(publish, timeout=SECONDS, check=True)
    subscribe = ["mosquitto_sub", *credentials(up, "hermes"), "-t", EVENTS, "-C", "1", "-W", "10"]
    found = subprocess.run(subscribe, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert found.stdout == "done\n"
    wrong = list(publish)
    wrong[wrong.index("-P") + 1] = "wrong"
    assert subprocess.run(wrong, capture_output=True, timeout=SECONDS, check=False).returncode == 5
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(SECONDS) == 0


def test_an_account_added_while_it_runs(up: Up) -> None:
    """Passwd add and reload let a new account in, remove and reload keep it out, without a restart."""
    context = client_context(up.home / "certs" / "ca.pem")

    def connects() -> bool:
        try:
            RawClient("127.0.0.1", up.port, context).connect(username="alice", password="s3cret").disconnect()
        except ConnectRefusedError:
            return False
        return True

    assert not connects()
    added = jobwire(
        up.home,
        "broker",
        "passwd",
        "add",
        "alice",
        "--password-file",
        "-",
        "--iterations",
        "1000",
        stdin="s3cret\n",
    )
    assert added.returncode == 0, added.stderr
    assert "s3cret" not in added.stdout + added.stderr
    assert jobwire(up.home, "broker", "reload").returncode == 0
    wait_for(connects, what="the new account")
    assert jobwire(up.home, "broker", "passwd", "add", "alice").returncode == 20
    assert jobwire(up.home, "broker", "passwd", "remove", "alice").returncode == 0
    assert jobwire(up.home, "broker", "reload").returncode == 0
    wait_for(lambda: not connects(), what="the removed account's refusal")
    names = [row["name"] for row in json.loads(jobwire(up.home, "broker", "passwd", "list", "--json").stdout)]
    assert names == ["hermes", "claude-worker", "registry", "metrics", "dashboard"]


def test_the_doctor_agrees(up: Up) -> None:
    """What `broker up` made is well by `doctor`, which ends with 0."""
    said = jobwire(up.home, "doctor")
    assert said.returncode == 0, said.stdout
    assert said.stdout.endswith("all is well\n")


def test_a_second_broker_on_the_port_is_told(up: Up) -> None:
    """A port that is taken is a clear message and exit code 60."""
    said = jobwire(up.home, "broker", "up", "--port", str(up.port))
    assert said.returncode == 60
    assert str(up.port) in said.stderr
    assert "Traceback" not in said.stderr
    assert jobwire(up.home, "broker", "reload").returncode == 0, "the running one can still be reloaded"


@pytest.mark.parametrize("name", ["a/b", "a+b", "a#b", "%u", "a b", "a\tb", "", "deadbeef"])
def test_unusable_names_are_refused(tmp_path: Path, name: str) -> None:
    """Names that could become topics, patterns or jobs are refused with 30, and nothing is written."""
    (new_home(tmp_path) / "broker").mkdir()
    (tmp_path / "broker" / "passwd").write_text("")
    said = jobwire(tmp_path, "broker", "passwd", "add", name)
    assert said.returncode == 30
    assert (tmp_path / "broker" / "passwd").read_text() == ""
    assert not (tmp_path / "passwords").exists()


def test_render_and_check(tmp_path: Path) -> None:
    """Render makes a folder that check finds fit; a wrong line makes it unfit, with 30."""
    require("mosquitto")
    out = tmp_path / "out"
    words = (
        "broker",
        "render",
        "--out",
        str(out),
        "--server-name",
        "mqtt.example.org",
        "--iterations",
        "1000",
    )
    rendered = jobwire(new_home(tmp_path / "home"), *words)
    assert rendered.returncode == 0, rendered.stderr
    checked = jobwire(tmp_path / "home", "broker", "check", str(out), "--json")
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout) == {"ok": True, "findings": []}
    warned = ("broker", "check", str(out), "--warn-days", "36500")
    CertificateAuthority(tmp_path / "home" / "certs", backdate_seconds=7_000).renew(
        "server", lifetime_seconds=7_200
    )
    shutil.copy(tmp_path / "home" / "certs" / "server.pem", out / "certs" / "server.pem")
    assert jobwire(tmp_path / "home", *warned).returncode == 0
    assert jobwire(tmp_path / "home", *warned, "--strict").returncode == 30
    (out / "acl").write_text("topics read x\n")
    unfit = jobwire(tmp_path / "home", "broker", "check", str(out))
    assert unfit.returncode == 30
    assert "line 1" in unfit.stdout


def test_a_malformed_file_names_its_line(tmp_path: Path) -> None:
    """The embedded broker refuses to start on a malformed access list and names the line."""
    home, port = tmp_path / "home", free_port()
    assert jobwire(home, "broker", "passwd", "list").returncode == 40
    started = jobwire(
        new_home(home), "broker", "render", "--out", str(tmp_path / "out"), "--iterations", "1000"
    )
    assert started.returncode == 0
    (home / "broker" / "acl").write_text("# mine\nuser hermes\ntopic reed x/y\n")
    said = jobwire(home, "broker", "up", "--port", str(port))
    assert said.returncode == 30
    assert "line 3: unknown access 'reed'" in said.stderr


@pytest.mark.parametrize("kind", [[], ["--mosquitto"]])
def test_certificates_outside_their_validity(tmp_path: Path, kind: list[str]) -> None:
    """A server certificate past its end keeps the broker from starting, with the command that renews it."""
    if kind:
        require("mosquitto")
    authority = CertificateAuthority(tmp_path / "certs")
    authority.init()
    CertificateAuthority(authority.directory, backdate_seconds=7_200).renew("server", lifetime_seconds=60)
    said = jobwire(tmp_path, "broker", "up", "--port", str(free_port()), *kind)
    assert said.returncode == 30
    assert "expired" in said.stderr
    assert "jobwire certs renew server" in said.stderr


@pytest.mark.parametrize("kind", [[], ["--mosquitto"]])
def test_keys_that_others_can_read(tmp_path: Path, kind: list[str]) -> None:
    """A server key open to others keeps the broker from starting, with the command that closes it."""
    if kind:
        require("mosquitto")
    CertificateAuthority(tmp_path / "certs").init()
    (tmp_path / "certs" / "server.key").chmod(0o644)
    said = jobwire(tmp_path, "broker", "up", "--port", str(free_port()), *kind)
    assert said.returncode == 30
    assert "chmod 600" in said.stderr


def test_reload_without_a_broker(tmp_path: Path) -> None:
    """Nothing to reload is 40 with the command that starts one."""
    said = jobwire(new_home(tmp_path), "broker", "reload")
    assert said.returncode == 40
    assert "jobwire broker up" in said.stderr


def test_reload_signals_nobody_else(tmp_path: Path) -> None:
    """The id that a crashed broker left behind may be another program's now, which is left alone."""
    (tmp_path / "broker" / "data").mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as innocent:
        (tmp_path / "broker" / "data" / "broker.pid").write_text(f"{innocent.pid}\n")
        said = jobwire(new_home(tmp_path), "broker", "reload")
        assert innocent.poll() is None
        innocent.kill()
    assert said.returncode == 40
    assert f"names {innocent.pid}, which is not a running broker" in said.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--host", "192.0.2.1"),
        ("--mosquitto", "--port", "8883", "--mtls-port", "8883"),
        ("--mosquitto", "--mtls-port", "99999"),
        ("--mosquitto", "--host", "127.0.0.1 ::"),
        ("--port", "0"),
        ("--topic-root", "a/#"),
    ],
)
def test_what_cannot_start_writes_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A broker that is refused by its options leaves no home behind."""
    if "--mosquitto" in words:
        require("mosquitto")
    said = jobwire(tmp_path / "home", "broker", "up", *words)
    assert said.returncode == 30
    assert not (tmp_path / "home").exists()


def test_settings_that_lead_elsewhere_are_warned_of(tmp_path: Path) -> None:
    """A home made for another broker, version and topic root says so when the embedded one starts on it."""
    home, port = tmp_path / "home", free_port()
    prepare_home(home, port=1234, mtls_port=1235, topic_root="other", protocol="5", iterations=101)
    with subprocess.Popen(
        [sys.executable, "-m", "jobwire.cli.main", "--home", str(home), "broker", "up", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    for line in (
        'protocol = "5"',
        "port = 1234 in [broker]",
        "port = 1235 in [mtls]",
        'topic_root = "other"',
    ):
        assert line in said


def test_the_page_is_printed() -> None:
    """`access-table --markdown` prints docs/security.md."""
    page = Path(__file__).parents[3] / "docs" / "security.md"
    assert jobwire(Path(os.devnull), "broker", "access-table", "--markdown").stdout == page.read_text()
