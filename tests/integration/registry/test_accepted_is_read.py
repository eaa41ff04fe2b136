"""What a writer accepts, every reader accepts: each option that goes into a record, at its limits."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobwire.cli.main import main
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.models import RecordModel
from jobwire.jobs.record import Priority, decode_record
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from jobwire.testing.memory import memory_directory

NUMBERS = [
    "0", "-1", "-0.0", "1e-320", "1e-9", "0.5", "1", "1_0", "\u0663", "", " ", "0x10", "inf", "nan",
    "500", "999999999", "3155760000", "3155760001", "1e10", "1e12", "1e300", "1e400",
    "1000", "1001", "9007199254740991", "9007199254740992", "9" * 5000,
]  # fmt: skip
TEXTS = ["", " ", "a\nb", "\x1b[31m", "\x85", "\udcff", "\ud800", "a\0b", "\u202e", "日本語", "=", "-"]
TEXTS += ["x" * size for size in (128, 129, 200, 201, 256, 257, 512, 513, 256 * 1024, 256 * 1024 + 1)]
TEXTS += ["\U0001f600" * size for size in (128, 129, 500)]
_KEYS = ("broker", "port", "tls", "ca_certs", "username", "password", "protocol", "topic_root", "colour")
_VALUES = ("", "1", "\u00b2", "70000", "9" * 5000, "x" * 4097, "\udcff", "a\nb", "a\0b")
BROKER = [f"{key}={value}" for key in _KEYS for value in _VALUES] + ["", "=", "port", "certfile=x"]


class Case(NamedTuple):
    """A command, an option, what to try, what a refusal names. JOB is a running job, NEW a pending one."""

    command: str
    option: str
    values: list[str]
    name: str


CASES = [
    Case("register", "--title", TEXTS, "title"),
    Case("register", "--instructions", TEXTS, "instructions"),
    Case("register", "--agent-session", TEXTS, "session"),
    Case("register", "--idempotency-key", TEXTS, "key"),
    Case("register", "--idle-timeout", NUMBERS, "idle"),
    Case("register", "--wall-timeout", NUMBERS, "wall"),
    Case("register", "--pending-timeout", NUMBERS, "pending"),
    Case("register", "--max-attempts", NUMBERS, "attempts"),
    Case("register", "--priority", ["", "urgent", "low"], "priority"),
    Case("register", "--broker", BROKER, "broker"),
    Case("pick", "--owner", TEXTS, "owner"),
    Case("pick", "--lease", NUMBERS, "lease"),
    Case("pick --any-session", "--agent-session", TEXTS, "session"),
    Case("pick --any-session", "--wait", NUMBERS, "wait"),
    Case("renew JOB --owner me", "--lease", NUMBERS, "lease"),
    Case("renew JOB", "--owner", TEXTS, "owner"),
    Case("renew JOB", "--for-attempt", NUMBERS, "attempt"),
    Case("release JOB --owner me", "--reason", TEXTS, "reason"),
    Case("release JOB", "--owner", TEXTS, "owner"),
    Case("cancel NEW", "--reason", TEXTS, "reason"),
    Case("cancel JOB", "--reason", TEXTS, "reason"),
    Case("update NEW", "--title", TEXTS, "title"),
    Case("update NEW", "--agent-session", TEXTS, "session"),
    Case("update NEW", "--idle-timeout", NUMBERS, "idle"),
    Case("update JOB", "--wall-timeout", NUMBERS, "wall"),
    Case("update NEW", "--pending-timeout", NUMBERS, "pending"),
    Case("update NEW", "--max-attempts", NUMBERS, "attempts"),
    Case("update NEW", "--reason", TEXTS, "reason"),
    Case("update JOB --status pending", "--reason", TEXTS, "reason"),
    Case("update JOB --status error", "--reason", TEXTS, "reason"),
    Case("update JOB --status cancelled", "--reason", TEXTS, "reason"),
    Case("update JOB", "--expect-seq", NUMBERS, "seq"),
    Case("ticket NEW", "--lease", NUMBERS, "lease"),
    Case("ticket NEW", "--owner", TEXTS, "owner"),
    Case("list", "--agent-session", TEXTS, "session"),
    Case("list", "--limit", NUMBERS, "limit"),
    Case("show JOB", "--history", NUMBERS, "history"),
]
# Accepted; or refused for what is not the value's fault: held by another, nothing to pick, not as expected.
_FINE = {0, 3, 10, 20}


@pytest.fixture
def home() -> Iterator[Path]:
    """Give a home in memory: many records, and no promise about a disk."""
    with tempfile.TemporaryDirectory(dir=memory_directory()) as folder:
        (Path(folder) / ".hermes").mkdir(mode=0o700)
        yield Path(folder) / ".hermes"


class Shell:
    """Runs commands in this process, on one home."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr; anything else a command raises is a failure of the test."""
        try:
            code = main(["--home", str(self.home), "registry", *words])
        except SystemExit as exit_:
            code = int(str(exit_.code))
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.command} {case.option}")
def test_accepted_is_read(home: Path, capsys: pytest.CaptureFixture[str], case: Case) -> None:
    """A value is refused with exit code 30 and the name of its field, or both readers read the record."""
    shell = Shell(home, capsys)
    queue = JobQueue(RecordStore(home), warn=pytest.fail)
    accepted = 0
    for value in case.values:
        names = {"NEW": queue.register(JobSpec()).record.job_id}
        if "JOB" in case.command:
            queue.register(JobSpec(priority=Priority.HIGH))
            names["JOB"] = queue.pick(LeaseGrant("me")).job_id
        words = [names.get(word, word) for word in case.command.split()]
        if case.command.startswith("ticket"):
            words += ["--out", str(home / "ticket")]
        shown = value if len(value) < 40 else f"{value[:20]}... ({len(value)})"
        code, _, err = shell(*words, f"{case.option}={value}")
        assert code in {30, *_FINE}, (shown, err[-2000:])
        if code == 30:
            key = value.partition("=")[0] if case.option == "--broker" else case.name
            assert case.name in err or key in err, (shown, err[:2000])
        accepted += code in _FINE
        for path in (home / "jobs").glob("*.json"):
            raw = path.read_bytes()
            decode_record(raw)
            RecordModel.model_validate_json(raw)
            path.unlink()
        queue.reindex()
    assert accepted
    assert not list((home / "jobs" / "quarantine").glob("*.json"))
