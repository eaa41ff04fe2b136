"""Sessions on a tmux server of their own, with agents that are stand-ins."""

import shlex
import subprocess
import sys
from pathlib import Path

from jobwire.sessions.known_agents import InstructionsBy, KnownAgent
from jobwire.sessions.listing import Sessions
from jobwire.sessions.opening import NewSession, Opener
from jobwire.sessions.sending import Sender
from jobwire.sessions.stopping import Stopping
from jobwire.testing.waiting import wait_for

# Says what it is told, line by line; a line "bye" ends it.
ECHO = """\
import sys
while True:
    sys.stdout.write("you> ")
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line or line.strip() == "bye":
        sys.exit(0)
    print("heard", line.strip(), flush=True)
"""


# An agent that works: reads the file that a line names, reports, and asks or keeps silent where that says so.
WORKER = """\
import re, subprocess, sys
def say(*words):
    subprocess.run([sys.executable, "-m", "jobwire.publisher.cli", *words], stdout=subprocess.DEVNULL)
while True:
    sys.stdout.write("you> ")
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line or line.strip() == "bye":
        sys.exit(0)
    found = re.search(r"Read the file (.+) and do what it says: .* for job ([0-9a-f]{8})", line)
    if not found:
        print("heard", line.strip(), flush=True)
        continue
    path, job = found.groups()
    text = open(path, encoding="utf-8").read().split("\\n\\n", 1)[1].strip()
    print("works on", text[:40], flush=True)
    with open("given", "a", encoding="utf-8") as given:
        given.write(f"{job}\\n")
    if "silent" in text:
        continue
    say("--job", job, "--event", "progress", "--detail", "reading")
    if "ask" in text:
        ask = [sys.executable, "-m", "jobwire.cli.main", "ask", "--job", job, "Go on?"]
        answer = subprocess.run(ask, stdout=subprocess.PIPE, text=True).stdout.strip()
        say("--job", job, "--event", "completed", "--detail", f"told: {answer}")
    elif "hang" not in text:
        say("--job", job, "--event", "completed", "--detail", f"did: {text[:40]}")
"""


class SessionHouse:
    """A home, and sessions on a tmux server of their own."""

    def __init__(self, home: Path, server: str, folder: Path) -> None:
        self.home = str(home)
        self.server = server
        self.folder = folder
        self.opener = Opener(self.home)
        self.sender = Sender(self.home)
        self.stopping = Stopping(self.home)
        self.inventory = self.opener.inventory
        script = folder / "echo.py"
        script.write_text(ECHO)
        self.words = [sys.executable, str(script)]
        worker = folder / "worker.py"
        worker.write_text(WORKER)
        self.worker = [sys.executable, str(worker)]
        self.agent = KnownAgent("echo", InstructionsBy.LINE, "", "bye")

    def new(self, name: str = "work") -> NewSession:
        """Return a session of the agent that echoes."""
        return NewSession(name, self.agent, self.words, str(self.folder), socket=self.server)

    @property
    def worker_line(self) -> str:
        """Return the words of the agent that works, as a command line."""
        return shlex.join(self.worker)

    def open(self, name: str = "work") -> None:
        """Open it and wait until its agent listens."""
        self.opener.create(self.new(name))
        wait_for(lambda: "you>" in self.screen(name), what="the prompt")

    def screen(self, name: str = "work") -> str:
        """Return what the pane shows."""
        return "\n".join(Sessions(self.home).show(name, lines=100).lines)

    def tmux(self, *words: str) -> str:
        """Do something as a person does, by tmux' own commands."""
        answer = subprocess.run(
            ["tmux", "-L", self.server, *words], capture_output=True, text=True, check=True
        )
        return answer.stdout

    def told(self, name: str = "work") -> list[str]:
        """Return the lines that the stand-in heard."""
        return [line for line in self.screen(name).splitlines() if line.startswith("heard")]


def settle(folder: Path, *lines: str) -> Path:
    """Write the user's own settings with these agents; return the folder for $XDG_CONFIG_HOME."""
    config = folder / "config" / "jobwire"
    config.mkdir(parents=True, exist_ok=True)
    agents = ", ".join(f'"{line}"' for line in lines)
    (config / "jobwire.toml").write_text(f"[sessions]\nagents = [{agents}]\n")
    return config.parent
