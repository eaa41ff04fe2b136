"""systemd units: each process gets one that a careful operator would have written."""

from pathlib import Path

import pytest

from jobwire.cli.unit import SERVICES, unit
from jobwire.core.errors import InvalidInputError

# What goes on until it is told to end.
PROCESSES = sorted(SERVICES.keys() - {"sessions"})
PROGRAM, HOME = Path("/opt/jobwire/bin/jobwire"), Path("/srv/jobwire")


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_has_a_confined_unit(name: str) -> None:
    """It starts the command, as the user, may write its home only, and comes back after a failure."""
    lines = unit(name, program=PROGRAM, home=HOME, user="jobwire").splitlines()
    assert f"ExecStart={PROGRAM} --home {HOME} {SERVICES[name].words}" in lines
    wanted = {"User=jobwire", f"ReadWritePaths={HOME}", "ProtectSystem=strict", "Restart=on-failure"}
    assert wanted <= set(lines)
    assert ("MemoryDenyWriteExecute=true" in lines) == (name != "metrics")


@pytest.mark.parametrize("name", PROCESSES)
def test_a_users_own_unit_needs_no_rights(name: str) -> None:
    """The user's own target wants it, it names no user, and it asks for nothing that only root may forbid."""
    lines = unit(name, program=PROGRAM, home=HOME, user=None).splitlines()
    assert {f"ExecStart={PROGRAM} --home {HOME} {SERVICES[name].words}", "WantedBy=default.target"} <= set(
        lines
    )
    assert "NoNewPrivileges=true" in lines
    keys = {line.partition("=")[0] for line in lines}
    assert not keys & {"User", "ProtectSystem", "PrivateDevices", "CapabilityBoundingSet", "Wants"}
    assert not any("network-online" in line for line in lines)


def test_sessions_come_back_with_their_user() -> None:
    """The unit of a user opens what ran, once, and leaves tmux and its agents alone; the system has none."""
    lines = unit("sessions", program=PROGRAM, home=HOME, user=None).splitlines()
    wanted = {f"ExecStart={PROGRAM} --home {HOME} sessions resume --all", "Type=oneshot", "KillMode=process"}
    assert wanted <= set(lines)
    assert not any(line.startswith(("Restart", "NoNewPrivileges")) for line in lines)
    with pytest.raises(InvalidInputError, match="a user's own"):
        unit("sessions", program=PROGRAM, home=HOME, user="jobwire")


def test_the_broker_is_told_to_read_its_files_again() -> None:
    """`systemctl reload` sends the signal at which the broker reads passwords and certificates again."""
    for user in ("jobwire", None):
        text = unit("broker", program=PROGRAM, home=HOME, user=user)
        assert "ExecReload=/bin/kill -HUP $MAINPID\n" in text
    assert "ExecReload" not in unit("registry", program=PROGRAM, home=HOME, user=None)


@pytest.mark.parametrize("arguments", ["--port 1\nExecStartPre=/bin/x", "--x %h", "a;b", "$X"])
def test_words_cannot_become_lines(arguments: str) -> None:
    """Further words of a command line stay words."""
    with pytest.raises(InvalidInputError, match="arguments"):
        unit("dashboard", program=PROGRAM, home=HOME, user="jobwire", arguments=arguments)


@pytest.mark.parametrize("home", ["/srv/two words", "/srv/%h", "/srv/a;b", "/srv/$X", '/srv/"', "/srv/\n"])
def test_what_a_unit_would_read_otherwise_is_refused(home: str) -> None:
    """No blank, quote, specifier or variable gets into a unit by way of a path."""
    with pytest.raises(InvalidInputError, match="home"):
        unit("registry", program=PROGRAM, home=Path(home), user="jobwire")


def test_more_words_come_last() -> None:
    """Options of the process are added to its command line."""
    text = unit("dashboard", program=PROGRAM, home=HOME, user="jobwire", arguments="--port 8081")
    assert f"ExecStart={PROGRAM} --home {HOME} dashboard --port 8081\n" in text
