#!/usr/bin/env python3
"""Make README.md's transcripts: run every command in it and write what it prints, or with --check compare.

    python scripts/readme_transcripts.py [--check]

Each ```console block is one terminal of 80 columns in the same empty folder, with a real broker; each
```python block is a program there. Job ids, clock times, lengths of time, process ids, ports and tokens are
not compared, and what two writers say on one terminal may change places. A job id in a Python block stands
for a fresh job.
"""

import contextlib
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.testing.process import free_port
from jobwire.testing.waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
COLUMNS = 80
SECONDS = 60.0
PORT, PAGE_PORT, ACTING_PORT = "8883", "8470", "8471"
# Commands that go on while the next blocks are typed elsewhere, and what they say when they are ready.
LEFT_RUNNING = {
    "jobwire up": "all runs",
    "job_subscriber": "watching ",
    "jobwire dashboard --allow-actions": "token=",
    "jobwire submit --agent-session builder --deliver": " permission ",
    "jobwire submit --agent-session builder ": " progress ",
}
# Those of them that do not end by themselves.
FOR_EVER = ("jobwire up", "jobwire dashboard --allow-actions")
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_JOB = re.compile(r"\b[0-9a-f]{8}\b")
# Jobs, threads, messages, and what an update of a thread asks.
_ID = re.compile(r"\b(?:[atm]-[0-9a-f]{16,20}|inbox-[0-9a-f]{20}|[0-9a-f]{8})\b")
_VARYING = (
    (_ID, "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b\d+s ago\b"), "N ago"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b(after|pid) [\d.]+( min \d+)?"), r"\1 N"),
    (re.compile(r"\btoken=[\w-]+"), "token=TOKEN"),
    (re.compile(r"\banswered by \S+"), "answered by N"),
    # Where the machine is slow, the record is faster than the wire, and its mark takes a title's room.
    (re.compile(r" [^…\n]*…( \(from the record\))?$", re.MULTILINE), " ..."),
    (re.compile(r" \(from the record\)"), ""),
)
_MARK, _END = "\x01", "\x02"


class Command(NamedTuple):
    """One line that somebody types, and what it prints."""

    text: str
    output: str


def parse(block: str) -> list[Command]:
    """Return the commands of a console block; a line that ends in a backslash goes on in the next."""
    texts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    found = []
    for text in texts:
        lines = text.splitlines(keepends=True)
        length = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        found.append(Command("".join(lines[:length]).rstrip("\n"), "".join(lines[length:])))
    return found


def render(commands: list[Command]) -> str:
    """Return the console block of commands."""
    return "".join(f"$ {command.text}\n{command.output}" for command in commands)


def comparable(text: str) -> list[str]:
    """Return the lines of a transcript without what differs from run to run."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return sorted(text.splitlines())


class Terminal:
    """One console block being typed: a shell on a terminal of its own."""

    def __init__(self, *, folder: Path, environ: dict[str, str]) -> None:
        self._read = b""
        self._typed = 0
        script, self._script = os.pipe()
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.set_inheritable(script, True)
            # Read line by line, as from a keyboard; the terminal is the commands' alone.
            os.execve("/bin/bash", ["bash", f"/dev/fd/{script}"], environ)  # noqa: S606 - the reader's shell
        os.close(script)
        self._status: int | None = None
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()
        self._say(f"stty cols {COLUMNS} rows 24 -echo; said=0")

    def type(self, command: str, *, until: str | None = None) -> None:
        """Type a command and wait until it ended, or printed `until`; AssertionError after a minute."""
        self._typed += 1
        self._say(f"printf '{_MARK}'; (exit $said)\n{command}\nsaid=$?; printf '{_END}'")
        self._wait_for(lambda: (until or _END) in self.outputs()[-1] or self._ended(), command)

    def finish(self) -> None:
        """Close the keyboard and wait until the last command ended."""
        os.close(self._script)
        self._script = -1
        self._wait_for(self._ended, "the end")

    def outputs(self) -> list[str]:
        """Return what each command printed so far."""
        # Two returns: a line of ours while the terminal has its modes back already.
        parts = re.sub("\r+\n", "\n", self._read.decode(errors="replace")).split(_MARK)[1:]
        return [*parts, *[""] * (self._typed - len(parts))]

    def close(self) -> None:
        """Press Ctrl-C where something still runs, and wait for its end."""
        if self._script >= 0:
            os.close(self._script)
            self._script = -1
        for press in (lambda: os.write(self._master, b"\x03"), lambda: os.killpg(self._pid, signal.SIGKILL)):
            if not self._ended():
                press()
                with contextlib.suppress(AssertionError):
                    self._wait_for(self._ended, "the end")
        os.close(self._master)

    def _say(self, line: str) -> None:
        os.write(self._script, f"{line}\n".encode())

    def _wait_for(self, fact: Callable[[], bool], what: str) -> None:
        try:
            wait_for(fact, deadline_seconds=SECONDS, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the terminal shows:\n{self._read.decode()}") from None

    def _copy(self) -> None:
        # EIO: the last process on the terminal has gone (pty(7)).
        with contextlib.suppress(OSError):
            while piece := os.read(self._master, 65536):
                self._read += piece

    def _ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._thread.join(SECONDS)
                self._status = status
        return self._status is not None


class Reader:
    """Somebody who follows the README: an empty folder, and the ids that the jobs got there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._page_port, self._acting_port = (str(free_port()) for _ in range(3))
        self._ids: dict[str, str] = {}
        self._open: dict[int, Terminal] = {}
        (folder / ".venv").symlink_to(ROOT / ".venv" if (ROOT / ".venv").exists() else sys.prefix)
        (folder / "examples").symlink_to(ROOT / "examples")
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MQTT_", "JOBWIRE_", "TMUX"))
        }
        path = f"{Path(sys.executable).parent}:{own['PATH']}"
        self._environ = own | {"PATH": path, "NO_COLOR": "1", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        # A tmux server of the reader's own.
        self._environ["TMUX_TMPDIR"] = str(folder)

    def console(self, number: int, commands: list[Command]) -> None:
        """Type a block into a new terminal, up to its end or until its last command is ready."""
        terminal = Terminal(folder=self._folder, environ=self._environ)
        self._open[number] = terminal
        for command in commands:
            until = next(
                (ready for start, ready in LEFT_RUNNING.items() if command.text.startswith(start)), None
            )
            terminal.type(self._typed(command.text), until=until)
            self._learn(command.output, terminal.outputs()[-1])

    def python(self, program: str) -> None:
        """Run a program with a fresh job for each id in it; raises CalledProcessError where it fails."""
        for job_id in dict.fromkeys(_JOB.findall(program)):
            made = self._run("jobwire", "registry", "register")
            program = program.replace(job_id, _JOB.findall(made)[0])
        self._run(sys.executable, "-c", program)

    def finish(self, blocks: Mapping[int, list[Command]]) -> dict[int, str]:
        """Wait for the watchers, end what would run for ever, and return the blocks as they are now."""
        made = {}
        for number, terminal in self._open.items():
            if not blocks[number][-1].text.startswith(FOR_EVER):
                terminal.finish()
            outputs = [self._plain(output) for output in terminal.outputs()]
            made[number] = render(
                [c._replace(output=o) for c, o in zip(blocks[number], outputs, strict=True)]
            )
        return made

    def close(self) -> None:
        """End everything, in the order opposite to that of the README."""
        for terminal in reversed(self._open.values()):
            terminal.close()
        subprocess.run(["tmux", "kill-server"], env=self._environ, check=False, capture_output=True)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise AssertionError(
                f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def _typed(self, text: str) -> str:
        for shown, real in self._ids.items():
            text = text.replace(shown, real)
        text = text.replace(ACTING_PORT, self._acting_port)
        ports = f"--port {self._port} --page-port {self._page_port}"
        return re.sub(r"^jobwire up", f"jobwire up {ports}", text)

    def _learn(self, expected: str, output: str) -> None:
        """Match the ids that were printed with those that the README shows, in the order of appearance."""
        shown = [one for one in _ids(expected) if one not in self._ids]
        real = [one for one in _ids(output) if one not in self._ids.values()]
        for place, one in enumerate(real):
            self._ids[shown[place] if place < len(shown) else one] = one

    def _plain(self, output: str) -> str:
        """Return an output with the README's ids, its port, and no place of this machine."""
        for shown, real in self._ids.items():
            output = output.replace(real, shown)
        ports = {self._port: PORT, self._page_port: PAGE_PORT, self._acting_port: ACTING_PORT}
        for own, shown in ports.items():
            output = output.replace(f":{own}", f":{shown}")
        return output.replace(f"{self._folder}/", "").replace(_END, "")


def _ids(text: str) -> list[str]:
    return list(dict.fromkeys(_ID.findall(text)))


def follow(text: str) -> dict[int, str]:
    """Run everything in the README; return the console blocks that print something else, by place."""
    blocks = list(_BLOCK.finditer(text))
    parsed = {number: parse(block[2]) for number, block in enumerate(blocks) if block[1] == "console"}
    with tempfile.TemporaryDirectory(prefix="jobwire-readme-") as folder:
        reader = Reader(Path(folder).resolve())
        try:
            for number, block in enumerate(blocks):
                if number in parsed:
                    reader.console(number, parsed[number])
                else:
                    reader.python(block[2])
            made = reader.finish(parsed)
        finally:
            reader.close()
    return {n: block for n, block in made.items() if comparable(block) != comparable(blocks[n][2])}


def replaced(text: str, changed: dict[int, str]) -> str:
    """Return the README with these blocks."""
    for number, block in reversed(list(enumerate(_BLOCK.finditer(text)))):
        if number in changed:
            text = text[: block.start(2)] + changed[number] + text[block.end(2) :]
    return text


def main() -> int:
    """Write README.md, or with --check show what differs and return 1."""
    text = README.read_text()
    changed = follow(text)
    if "--check" not in sys.argv[1:]:
        README.write_text(replaced(text, changed))
        print(f"{len(changed)} transcripts written")
        return 0
    for made in changed.values():
        print(f"the README says something else (scripts/readme_transcripts.py writes it anew):\n{made}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
