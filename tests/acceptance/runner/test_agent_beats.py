"""`jobwire run` under an agent's name: the others see that it works, and on what."""

import sys
from pathlib import Path

from jobwire.coordination import agents
from jobwire.coordination.agents import Joining
from jobwire.coordination.store import CoordinationStore
from jobwire.registry.store import RecordStore
from jobwire.testing.run_command import newest_record, run_to_its_end

# Waits in the command until somebody has seen the beat, and prints it.
SEEN = """
import sys, time
from jobwire.coordination.agents import find
from jobwire.coordination.store import CoordinationStore
view = None
while view is None or not view.current_task:
    time.sleep(0.02)
    view = find(CoordinationStore(sys.argv[1]), "builder")
print("SEEN", view.status, view.current_task, view.kind)
"""


def test_a_command_beats_for_its_agent(tmp_path: Path) -> None:
    """While the command runs its agent works on the job, and stays what it joined as."""
    home = tmp_path / ".hermes"
    RecordStore(home).make_layout()
    store = CoordinationStore(str(home))
    with store.changing() as change:
        agents.join(change, "builder", Joining(kind="lead"))
    done = run_to_its_end(home, "--", sys.executable, "-c", SEEN, str(home), JOBWIRE_AGENT="builder")
    assert done.returncode == 0, done.stderr
    assert f"SEEN working {newest_record(home).job_id} lead" in done.stdout
    assert agents.find(store, "builder").status == "idle"
    store.close()
