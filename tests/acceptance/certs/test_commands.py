"""The `jobwire certs` commands as an operator runs them: real processes, exit codes, both streams."""

import json
import os
import subprocess
import sys
from pathlib import Path

from jobwire.core.exit_codes import ExitCode
from jobwire.testing import new_home


def jobwire(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `jobwire certs ...` on a home of its own."""
    program = str(Path(sys.executable).with_name("jobwire"))
    return subprocess.run(
        [program, "certs", *arguments],
        env={**os.environ, "JOBWIRE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_from_nothing_to_a_revoked_certificate(tmp_path: Path) -> None:
    """init, issue, issue-job, show, revoke, check: each says what it did and exits 0."""
    home = new_home(tmp_path / ".hermes")
    for command in (
        ["init"],
        ["issue", "hermes"],
        ["issue-job", "deadbeef"],
        ["show"],
        ["revoke", "deadbeef"],
        ["renew", "server"],
        ["crl"],
        ["check", "--strict"],
    ):
        done = jobwire(home, *command)
        assert (done.returncode, done.stderr) == (ExitCode.OK, ""), command
        assert done.stdout
    shown = json.loads(jobwire(home, "show", "--json").stdout)
    assert {item["name"]: item["revoked"] for item in shown}["deadbeef"] is True
    assert home.stat().st_mode & 0o777 == 0o700


def test_refusals_name_cause_and_remedy(tmp_path: Path) -> None:
    """Nothing there, nothing overwritten, bad names, exposed keys: documented codes, no traceback."""
    home = new_home(tmp_path / ".hermes")
    assert jobwire(home, "issue", "hermes").returncode == ExitCode.NOT_FOUND
    assert jobwire(home, "init").returncode == ExitCode.OK
    key = home / "certs" / "ca.key"
    cases = [
        (["init"], ExitCode.CONFLICT, "--force"),
        (["issue", "deadbeef"], ExitCode.INVALID, "issue-job"),
        (["issue", "a/b"], ExitCode.INVALID, "use 1 to 64 of"),
        (["issue-job", "XYZ"], ExitCode.INVALID, "8 lower-case hex"),
        (["revoke", "nobody"], ExitCode.NOT_FOUND, "certs show"),
        (["nonsense"], ExitCode.INVALID, "invalid choice"),
    ]
    for command, code, remedy in cases:
        done = jobwire(home, *command)
        assert done.returncode == code, command
        assert remedy in done.stderr
        assert "Traceback" not in done.stderr
    key.chmod(0o644)
    done = jobwire(home, "issue", "hermes")
    assert done.returncode == ExitCode.INVALID
    assert f"chmod 600 {key}" in done.stderr
