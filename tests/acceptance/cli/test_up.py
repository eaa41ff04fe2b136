"""`jobwire up` and `jobwire down` as a person runs them: everything on this host by one command."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from jobwire.broker.home import prepare_home
from jobwire.cli.host import HostLocks
from jobwire.core.clock import SystemClock
from jobwire.testing import free_port, require, wait_for
from jobwire.testing.watching import bare_environment

JOBWIRE = str(Path(sys.executable).with_name("jobwire"))
SECONDS = 60
PARTS = ("broker", "serve", "page")


def jobwire(*words: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [JOBWIRE, *words],
        cwd=folder,
        env=bare_environment(**environ),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class Up:
    """A running `jobwire up --json` in `folder`; a context manager that leaves nothing behind."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.home = folder / ".hermes"
        self.errors = folder / "errors"
        ports = ["--port", str(free_port()), "--page-port", str(free_port())] if "--port" not in words else []
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [JOBWIRE, "up", "--json", *ports, *words],
                cwd=folder,
                env=bare_environment(),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        self.facts: dict[str, Any] = json.loads(line)

    def state(self) -> dict[str, Any]:
        """Return what `up.json` says of the parts."""
        body: dict[str, Any] = json.loads((self.home / "up" / "up.json").read_text())["parts"]
        return body

    def wait_until_back(self, name: str, pid: int) -> None:
        """Wait until the part runs again as another process."""
        wait_for(
            lambda: self.state()[name]["state"] == "ready" and self.state()[name]["pid"] != pid,
            deadline_seconds=SECONDS,
            what=f"{name} again",
        )

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()
        if self.process.stdout is not None:
            self.process.stdout.close()
        locks = HostLocks(self.home, clock=SystemClock())
        wait_for(locks.free, deadline_seconds=SECONDS, what="the end of everything")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Run everything for a fresh home."""
    with Up(tmp_path) as running:
        yield running


def running(folder: Path) -> list[str]:
    """Return the command lines of processes that work on a home below `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


def page_answers(url: str) -> bool:
    """Tell whether somebody answers there, be it with a login form."""
    try:
        urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - http, as we printed it
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def test_the_whole_life(up: Up, tmp_path: Path) -> None:
    """A home, a broker, the registry process and a page; a job runs; `down` from elsewhere ends all."""
    assert set(PARTS) <= set(up.facts)
    assert up.facts["home"] == str(up.home)
    assert (up.home / "up" / "up.json").stat().st_mode & 0o777 == 0o600
    assert page_answers(up.facts["page"]["url"])
    doctor = jobwire("doctor", folder=tmp_path).stdout
    for name in ("broker", "page"):
        assert f"{name}: runs at {up.state()[name]['address']}\n" in doctor
    assert "token=" not in doctor
    assert jobwire("run", "--", "true", folder=tmp_path).returncode == 0
    assert jobwire("registry", "health", folder=tmp_path).returncode == 0
    (tmp_path / "elsewhere").mkdir()
    down = jobwire("--home", str(up.home), "down", "--json", folder=tmp_path / "elsewhere")
    assert (down.returncode, json.loads(down.stdout)) == (0, {"stopped": up.facts["pid"]})
    assert up.process.wait(SECONDS) == 0
    assert running(tmp_path) == []
    assert not (up.home / "up" / "up.json").exists()
    ended = [line.split()[1] for line in up.errors.read_text().splitlines() if line.endswith(" ended")]
    assert ended == ["page", "serve", "broker"]


def test_down_where_nothing_runs(up: Up, tmp_path: Path) -> None:
    """`down` is content where nothing runs, also a second time; without a home it is 40."""
    assert jobwire("down", folder=tmp_path).stdout == "all is down for .hermes\n"
    again = jobwire("down", folder=tmp_path)
    assert (again.returncode, again.stdout) == (0, "nothing runs for .hermes\n")
    assert jobwire("--home", str(tmp_path / "none"), "down", folder=tmp_path).returncode == 40


@pytest.mark.parametrize("name", PARTS)
def test_a_killed_part_comes_back(up: Up, tmp_path: Path, name: str) -> None:
    """Kill -9 of any part: it is started again, and a job of that moment is confirmed afterwards."""
    pid = up.facts[name]["pid"]
    os.kill(pid, signal.SIGKILL)
    ran = jobwire("run", "--", "true", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    up.wait_until_back(name, pid)
    wait_for(
        lambda: not [path for path in (up.home / "outbox").glob("*.ndjson") if path.stat().st_size],
        deadline_seconds=SECONDS,
        what="the confirmation of the job's events",
    )
    said = up.errors.read_text()
    assert f"{name:<9}ended by SIGKILL; starts again in 1 s" in said
    assert f"{name:<9}runs again" in said
    if name == "page":
        assert page_answers(up.facts["page"]["url"])


def test_a_killed_supervisor_takes_its_parts_along(up: Up, tmp_path: Path) -> None:
    """Kill -9 of the supervisor: its parts end, and the next `up` starts at once and cleanly."""
    up.process.kill()
    up.process.wait()
    with Up(tmp_path, "--port", str(up.facts["broker"]["port"])) as again:
        assert not {again.facts[name]["pid"] for name in PARTS} & {up.facts[name]["pid"] for name in PARTS}
        assert jobwire("run", "--", "true", folder=tmp_path).returncode == 0


def test_twice_is_refused(up: Up, tmp_path: Path) -> None:
    """A second `up` names the first and how to look at it and stop it; the first goes on."""
    said = jobwire("up", folder=tmp_path)
    assert said.returncode == 20
    assert f"process {up.facts['pid']} already runs `jobwire up`" in said.stderr
    assert "jobwire down" in said.stderr
    assert jobwire("run", "--", "true", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(("option", "part", "code"), [("--port", "broker", 60), ("--page-port", "page", 30)])
def test_a_taken_port_ends_everything(tmp_path: Path, option: str, part: str, code: int) -> None:
    """A part that cannot start the first time ends `up` with its own words and exit code."""
    ports = {"--port": free_port(), "--page-port": free_port()}
    words = [str(word) for pair in ports.items() for word in pair]
    with socket.create_server(("127.0.0.1", ports[option])):
        said = jobwire("up", *words, folder=tmp_path)
    assert said.returncode == code, said.stderr
    assert f"port {ports[option]}" in said.stderr
    assert part not in said.stdout.split()
    assert running(tmp_path) == []
    # Its settings would name the port that another has.
    assert (tmp_path / ".hermes").exists() == (part != "broker")


def test_a_new_home_takes_a_free_port_and_keeps_it(tmp_path: Path) -> None:
    """Without --port a new home gets a broker's port that is free, and its settings name it from then on."""
    with Up(tmp_path, "--no-page", "--page-port", "1", "--port", str(free_port())) as first:
        port = first.facts["broker"]["port"]
        assert "page" not in first.facts
    other = tmp_path / "other"
    other.mkdir()
    with socket.create_server(("127.0.0.1", port)):
        prepared = jobwire("up", folder=tmp_path)
        assert prepared.returncode == 60, "the settings of the home name that port"
    refused = jobwire("up", "--port", str(free_port()), folder=tmp_path)
    assert refused.returncode == 30
    assert f"port = {port}" in refused.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("[broker\n", "not valid TOML"),
        ("[broker]\nportt = 1\n", "unknown key 'portt'"),
        ('[broker]\nbroker = "mqtt.example.org"\n', "--no-broker"),
    ],
)
def test_settings_that_cannot_be_used_start_nothing(tmp_path: Path, settings: str, said: str) -> None:
    """Broken settings, and those that lead to another host's broker, end with 30 and the remedy."""
    home = tmp_path / ".hermes"
    prepare_home(home, port=free_port(), topic_root="a/b", iterations=101)
    (home / "jobwire.toml").write_text(settings)
    answer = jobwire("up", folder=tmp_path)
    assert answer.returncode == 30
    assert said in answer.stderr
    assert not (home / "up").exists()


def test_a_home_above_is_used_and_named(up: Up, tmp_path: Path) -> None:
    """In a directory below a home `up` works on that one and says which."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert up.end() == 0
    with socket.create_server(("127.0.0.1", up.facts["broker"]["port"])):
        said = jobwire("up", folder=below)
    assert f"home     {up.home}\n" in said.stdout
    assert not (below / ".hermes").exists()


def test_in_the_background(tmp_path: Path) -> None:
    """With --detach it returns when all is up and says the same; `down` ends it."""
    ports = ("--port", str(free_port()), "--page-port", str(free_port()))
    said = jobwire("up", "--detach", *ports, folder=tmp_path)
    try:
        assert said.returncode == 0, said.stderr
        assert [line.split()[0] for line in said.stdout.splitlines()] == ["home", *PARTS, "logs", "up"]
        assert jobwire("run", "--", "true", folder=tmp_path).returncode == 0
    finally:
        down = jobwire("down", folder=tmp_path)
    assert (down.returncode, down.stdout) == (0, "all is down for .hermes\n")
    assert running(tmp_path) == []


def test_in_the_background_an_error_is_said_in_front(tmp_path: Path) -> None:
    """With --detach what keeps a part from starting is the command's own error and exit code."""
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        said = jobwire("up", "--detach", "--port", str(port), folder=tmp_path)
    assert said.returncode == 60
    assert str(port) in said.stderr
    assert running(tmp_path) == []


def test_metrics_without_java_are_refused_before_anything_starts(tmp_path: Path) -> None:
    """--with-metrics on a host without Java is 30 with the remedy, and no home is made."""
    said = jobwire("up", "--with-metrics", folder=tmp_path, PATH="/nonexistent", JAVA_HOME="")
    assert said.returncode == 30
    assert "install Java" in said.stderr
    assert not (tmp_path / ".hermes").exists()


def test_a_shells_own_broker_is_not_ours(tmp_path: Path) -> None:
    """What starts here uses the home's broker, whatever MQTT_BROKER says, and the shell's owner is told."""
    ports = ("--port", str(free_port()), "--page-port", str(free_port()))
    said = jobwire("up", "--detach", *ports, folder=tmp_path, MQTT_BROKER="192.0.2.1")
    jobwire("down", folder=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "MQTT_BROKER of this shell" in said.stderr


def test_the_pages_address_and_what_it_may_do_are_passed_on(tmp_path: Path) -> None:
    """Address, token file and actions reach the page of a host in the background as well."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("a token that is long enough\n")
    page = ("--host", "127.0.0.2", "--token-file", str(token), "--allow-actions")
    ports = ("--port", str(free_port()), "--page-port", str(free_port()))
    said = jobwire("up", "--detach", "--json", *ports, *page, folder=tmp_path)
    try:
        assert said.returncode == 0, said.stderr
        url = json.loads(said.stdout)["page"]["url"]
        assert url == f"http://127.0.0.2:{ports[-1]}/"
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
        asked = urllib.request.Request(url, headers=headers)  # noqa: S310 - http, as we printed it
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:  # noqa: S310
            assert b'data-actions="yes"' in answer.read()
    finally:
        jobwire("down", folder=tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "192.0.2.1"), "with TLS only"),
        (("--host", "192.0.2.1", "--certfile", "a", "--keyfile", "b"), "--token-file"),
        (("--certfile", "a"), "--keyfile"),
    ],
)
def test_a_page_that_others_could_reach_unguarded_starts_nothing(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Beyond loopback `up` demands what `jobwire dashboard` demands, before anything is made."""
    answer = jobwire("up", *words, folder=tmp_path)
    assert answer.returncode == 30
    assert said in answer.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_during_the_start_ends_what_was_started(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C or a closed terminal while the parts come up: those that were started end, exit code 0."""
    ports = ["--port", str(free_port()), "--page-port", str(free_port())]
    with subprocess.Popen(
        [JOBWIRE, "up", *ports], cwd=tmp_path, env=bare_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("broker"):
            assert process.poll() is None
        process.send_signal(number)
        output = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, output
    assert "broker   ended" in output
    assert running(tmp_path) == []


def test_a_closed_terminal_ends_everything(tmp_path: Path, tmux_server: str) -> None:
    """Nobody is there to be told any more, and everything ends all the same."""
    tmux = [require("tmux"), "-L", tmux_server, "-f", "/dev/null"]
    command = [JOBWIRE, "up", "--port", str(free_port()), "--page-port", str(free_port())]
    subprocess.run([*tmux, "new-session", "-d", "-c", tmp_path, *command], check=True)
    state = tmp_path / ".hermes" / "up" / "up.json"
    wait_for(
        lambda: (
            state.exists()
            and {part["state"] for part in json.loads(state.read_text())["parts"].values()} == {"ready"}
        ),
        deadline_seconds=SECONDS,
        what="everything to run",
    )
    subprocess.run([*tmux, "kill-server"], check=True)
    locks = HostLocks(tmp_path / ".hermes", clock=SystemClock())
    wait_for(locks.free, deadline_seconds=SECONDS, what="the end of everything")
    assert not state.exists()


def test_ctrl_c_at_a_terminal(tmp_path: Path, tmux_server: str) -> None:
    """The screen says what runs where, how to end it, and after Ctrl-C that it ended, in order."""
    tmux = [require("tmux"), "-L", tmux_server, "-f", "/dev/null"]

    def screen() -> str:
        return subprocess.run(
            [*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True
        ).stdout

    ports = f"--port {free_port()} --page-port {free_port()}"
    shell = ["env", f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}", "PS1=$ ", "bash", "--norc"]
    subprocess.run([*tmux, "new-session", "-d", "-x", "100", "-y", "30", "-c", tmp_path, *shell], check=True)
    # What is typed before the shell reads its terminal is echoed twice.
    wait_for(lambda: screen().startswith("$"), what="the shell's prompt")
    subprocess.run([*tmux, "send-keys", f"jobwire up {ports}; echo code $?", "Enter"], check=True)
    wait_for(lambda: "all runs" in screen(), deadline_seconds=SECONDS, what="everything to run")
    subprocess.run([*tmux, "send-keys", "C-c"], check=True)
    wait_for(lambda: "\ncode 0" in screen(), deadline_seconds=SECONDS, what="the end")
    lines = [line for line in screen().splitlines() if line]
    words = [line.split()[1 if re.match(r"\d\d:\d\d:", line) else 0] for line in lines]
    begin, end = ["$", "home", *PARTS, "logs", "up"], ["up", "page", "serve", "broker", "up"]
    assert words == [*begin, "^C", *end, "code", "$"], screen()
    assert all(len(line) <= 100 for line in lines)
