"""systemd units: each process gets one that a careful operator would have written."""

from pathlib import Path

import pytest

from jobwire.cli.unit import SERVICES, unit
from jobwire.core.errors import InvalidInputError

PROGRAM, HOME = Path("/opt/jobwire/bin/jobwire"), Path("/srv/jobwire")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_each_process_has_a_confined_unit(name: str) -> None:
    """It starts the command, as the user, may write its home only, and comes back after a failure."""
    lines = unit(name, program=PROGRAM, home=HOME, user="jobwire").splitlines()
    assert f"ExecStart={PROGRAM} --home {HOME} {SERVICES[name].words}" in lines
    wanted = {"User=jobwire", f"ReadWritePaths={HOME}", "ProtectSystem=strict", "Restart=on-failure"}
    assert wanted <= set(lines)
    assert ("MemoryDenyWriteExecute=true" in lines) == (name != "metrics")


@pytest.mark.parametrize("home", ["/srv/two words", "/srv/%h", "/srv/a;b", "/srv/$X", '/srv/"', "/srv/\n"])
def test_what_a_unit_would_read_otherwise_is_refused(home: str) -> None:
    """No blank, quote, specifier or variable gets into a unit by way of a path."""
    with pytest.raises(InvalidInputError, match="home"):
        unit("registry", program=PROGRAM, home=Path(home), user="jobwire")


def test_more_words_come_last() -> None:
    """Options of the process are added to its command line."""
    text = unit("dashboard", program=PROGRAM, home=HOME, user="jobwire", arguments="--port 8081")
    assert f"ExecStart={PROGRAM} --home {HOME} dashboard --port 8081\n" in text
