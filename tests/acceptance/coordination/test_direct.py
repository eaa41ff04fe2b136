"""`inbox ... --direct`: the job's event is sent at once, and kept where no broker is there."""

import json
import subprocess
import sys
from typing import Any

from jobwire.testing import EmbeddedServer
from jobwire.testing.watching import bare_environment


def test_a_result_is_sent_at_once_or_kept() -> None:
    """Without a registry process the event goes out; without a broker exit 60 says that it waits."""
    with EmbeddedServer() as server:

        def inbox(*words: str, code: int = 0) -> dict[str, Any]:
            command = [sys.executable, "-m", "jobwire.cli.main", "inbox", *words, "--json"]
            done = subprocess.run(
                [*command, "--home", str(server.home)],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
                env=bare_environment(),
            )
            assert done.returncode == code, done
            said: dict[str, Any] = json.loads(done.stdout)
            return said

        thread = inbox("send", "--agent", "lead", "--to", "builder", "--subject", "fix it")["thread_id"]
        me = ("--agent", "builder", "--thread", thread)
        inbox("claim", *me)
        assert inbox("update", *me, "--summary", "half", "--direct")["delivered"] is True
        server.kill()
        assert inbox("done", *me, "--summary", "it works", "--direct", code=60)["ok"] is False
        assert inbox("show", "--thread", thread)["thread"]["status"] == "done"
