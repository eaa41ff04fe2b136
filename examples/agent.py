"""The smallest agent for a tmux session: it reads its work, reports, asks, and takes the next job.

    jobwire submit --agent-session builder --deliver line --agent-command "python examples/agent.py" "ask me"

Told to ask, it asks for a permission; told to wait, it waits until its pane is closed.
"""

import re
import subprocess
from pathlib import Path

_WORK = re.compile(r"Read the file (.+) and do what it says: .* for job ([0-9a-f]{8})")


def report(job: str, event: str, detail: str) -> None:
    """Say what happens to the job."""
    command = ["publish_event", "--job", job, "--event", event, "--detail", detail]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def ask(job: str, question: str) -> str:
    """Ask a person, and wait for the answer."""
    command = ["jobwire", "ask", "--job", job, "--kind", "permission", "--request", "tag"]
    command += ["--choice", "yes", "--choice", "no", question]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main() -> None:
    """Do one job after another, as they are written into the terminal."""
    while found := _WORK.search(input("> ")):
        path, job = found.groups()
        # The header tells how to report; the instructions follow it.
        work = Path(path).read_text(encoding="utf-8").split("\n\n", 1)[1].strip()
        report(job, "progress", "reading")
        if work.startswith("wait"):
            input("waiting ")
        answer = ask(job, "may I tag the release?") if work.startswith("ask") else "yes"
        report(job, "completed", f"the answer was {answer}")


if __name__ == "__main__":
    main()
