"""An agent tried out: it really starts, with our hooks, in a home of its own and against a scripted model.

The model has it touch a file, which a policy denies. So the hook has to fire, to be trusted, to know the job
and the user's rules, and its answer has to hold. Nothing of the user's is read, and nothing leaves the host.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobwire.hooks.injection import injected
from jobwire.hooks.scripted_agents import ENVIRONMENTS
from jobwire.hooks.scripted_model import Calls, Says, ScriptedModel
from jobwire.jobs.lifecycle import Status
from jobwire.registry.layout import HomeLayout
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS = 120.0
_COMMAND = "touch jobwire-was-here"
_POLICY = '[agents.policy]\ndeny = ["Bash(touch *)", "bash(touch *)"]\n'
_PROMPT = "touch the file"
# What ends with its turn, and asks nobody.
_WORDS = {"claude": ["-p"], "codex": ["exec", "--skip-git-repo-check"], "opencode": ["run"]}
_TOOLS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "claude": ("Bash", {"command": _COMMAND, "description": "Touch a file"}),
    "codex": ("exec_command", {"cmd": _COMMAND}),
    "opencode": ("bash", {"command": _COMMAND, "description": "Touch a file"}),
}
# Of the user's own: where programs are, and how they speak.
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")


class TrialResult(NamedTuple):
    """How it went: whether all is as it should be, and in words."""

    sound: bool
    words: str


def try_out(agent: str, program: str, environ: Mapping[str, str]) -> TrialResult:
    """Start the agent, and say what became of its hook."""
    with (
        tempfile.TemporaryDirectory(prefix="jobwire-doctor-", ignore_cleanup_errors=True) as folder,
        ScriptedModel(Calls(*_TOOLS[agent]), Says("completed: tried")) as model,
    ):
        place = Path(folder)
        stage = _Stage(agent, place, {name: environ[name] for name in _KEPT if name in environ}, model.url)
        launch = injected(agent, [program, *_WORDS[agent], _PROMPT], stage.environment, place)
        said = _run(launch.command, launch.environment, stage.work)
        touched = (stage.work / _COMMAND.split()[1]).exists()
        return _judged(
            asked=bool(model.requests),
            fired=stage.job_began(),
            denied=model.said("policy denies") and not touched,
            said=said,
        )


class _Stage:
    """Where the agent is tried: a user, a folder to work in, and a home with a job."""

    def __init__(self, agent: str, place: Path, environ: Mapping[str, str], url: str) -> None:
        user, self.work = place / "user", place / "work"
        settings = user / ".config" / "jobwire" / "jobwire.toml"
        for folder in (settings.parent, self.work):
            folder.mkdir(parents=True)
        settings.write_text(_POLICY)
        home = place / ".hermes"
        HomeLayout(home).make_layout()
        self._queue = JobQueue(RecordStore(home), warn=lambda _: None)
        self._job_id = self._queue.register(JobSpec(title=f"doctor: {agent}")).record.job_id
        own = {"JOBWIRE_HOME": str(home), "JOBWIRE_JOB": self._job_id}
        self.environment = {**environ, **ENVIRONMENTS[agent](user, self.work, url), **own}

    def job_began(self) -> bool:
        """Tell whether a hook said so."""
        return self._queue.store.get(self._job_id).status is not Status.PENDING


def _run(command: list[str], environment: Mapping[str, str], work: Path) -> str:
    """Run it to its end, or end it and all that it started; return its last line, or why there is none."""
    try:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return str(error)
    with process:
        try:
            said, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"it did not end in {_SECONDS:.0f} s"
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else f"it said nothing, and ended with {process.returncode}"


def _judged(*, asked: bool, fired: bool, denied: bool, said: str) -> TrialResult:
    if fired and denied:
        return TrialResult(sound=True, words="started here, its hook fires, is trusted, and its answer holds")
    if fired:
        what = "its hook fires, but its answer is not taken"
    elif asked:
        what = "its hook does not fire: not trusted, or switched off for this host"
    else:
        what = "it did not come to its work"
    return TrialResult(sound=False, words=f"started here, {what}: {said}")
