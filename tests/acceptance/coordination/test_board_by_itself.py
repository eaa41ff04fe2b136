"""A board that runs by itself: five stand-ins, of whom one never answers."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobwire.cli.main import main
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.statements import NewBoard
from jobwire.coordination.home_key import home_key
from jobwire.coordination.store import CoordinationStore
from jobwire.registry.store import RecordStore
from jobwire.testing import new_home

# Speaks in each phase as members do; CXO says nothing when it is asked to vote.
MEMBER = """\
#!/bin/sh
set -eu
case $JOBWIRE_PHASE in
  ASSESSING) jobwire board assess "$JOBWIRE_BOARD" --verdict APPROVE --score 8 ;;
  DISCUSSING) jobwire board pass "$JOBWIRE_BOARD" ;;
  VOTING)
    grep -q "launch it" "$JOBWIRE_MESSAGE"
    if [ "$JOBWIRE_AGENT" = CXO ]; then exec sleep 600; fi
    if [ "$JOBWIRE_AGENT" = CSO ]; then verdict=REJECT; else verdict=APPROVE; fi
    jobwire board vote "$JOBWIRE_BOARD" --verdict $verdict --condition "with a canary" ;;
esac
"""
# A slow machine must be able to start five commands within a phase.
DEADLINE_SECONDS = 40.0
# Four phases, each of which may last until its deadline, and the commands around them.
pytestmark = pytest.mark.timeout(300)


def test_one_that_never_answers(tmp_path: Path) -> None:
    """Each phase ends when all have spoken, the last one at its deadline: the silent member abstains.

    Its command is ended, the others' jobs are completed, and the resolution is genuine.
    """
    home = str(new_home(tmp_path / ".hermes"))
    member = tmp_path / "member.sh"
    member.write_text(MEMBER.replace("jobwire board", f"{sys.executable} -m jobwire.cli.main board"))
    member.chmod(stat.S_IRWXU)
    boards = Boards(CoordinationStore(home), key=home_key(home))
    new = NewBoard("lead", "PRE_LAUNCH", "launch it", rounds=1, deadline_seconds=DEADLINE_SECONDS)
    board_id = boards.open(new).board.board_id
    environ = {**os.environ, "JOBWIRE_HOME": home}
    command = [
        sys.executable,
        "-m",
        "jobwire.cli.main",
        "board",
        "ask-all",
        "--json",
        board_id,
        "--",
        str(member),
    ]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    said: dict[str, Any] = json.loads(done.stdout)
    view = boards.view(board_id)
    assert view.resolution is not None
    assert (view.resolution["verdict"], view.resolution["abstentions"]) == ("APPROVED_WITH_REVIEW", ["CXO"])
    assert view.resolution["absent"] == {"VOTING": ["CXO"]}
    assert view.resolution["dissent"] == ["REJECT: with a canary (CSO)"]
    silent = [job["job_id"] for job in said["jobs"] if (job["member"], job["phase"]) == ("CXO", "VOTING")]
    states = {job["job_id"]: str(RecordStore(home).get(job["job_id"]).status) for job in said["jobs"]}
    assert [states.pop(job_id) for job_id in silent] == ["cancelled"]
    assert (len(states), set(states.values())) == (14, {"completed"})
    sealed = tmp_path / "resolution.json"
    sealed.write_text(str(view.board.resolution))
    assert main(["board", "verify", str(sealed), "--home", home]) == 0
