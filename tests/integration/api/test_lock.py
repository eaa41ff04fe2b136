"""`home.lock` in Python: nobody else has the files during the block, and a loser knows."""

from pathlib import Path

import pytest

from jobwire import ConflictError, HeldLock, Home
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.store import CoordinationStore
from jobwire.testing import wait_for


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Give a home; the working directory is what its agents work on."""
    monkeypatch.chdir(tmp_path)
    for name in ("JOBWIRE_AGENT", "JOBWIRE_JOB"):
        monkeypatch.delenv(name, raising=False)
    return Home.make(tmp_path / ".hermes")


def locks_of(home: Home) -> Locks:
    """Return the locks as everybody sees them."""
    return Locks(CoordinationStore(str(home.path)), job_ended=lambda _: False)


def test_nobody_else_has_it_during_the_block(home: Home) -> None:
    """Another agent is refused inside of the block and served behind it, also after an exception."""

    def in_vain() -> None:
        with pytest.raises(ConflictError) as caught:
            home.lock("src", agent="b")
        assert caught.value.facts["code"] == "locked"

    with home.lock(Path("src/app.py"), "name:deploy", agent="a") as held:
        assert held.paths == ("src/app.py", "name:deploy")
        in_vain()
        with pytest.raises(ConflictError):
            home.lock("src/app.py", agent="b", shared=True)
    with pytest.raises(RuntimeError), home.lock("src/app.py", agent="a"):
        raise RuntimeError
    with home.lock("src", agent="b", wait=60) as next_one:
        assert next_one.token > held.token
    next_one.release()


def test_it_is_renewed_and_a_loser_knows(home: Home) -> None:
    """A short lease lasts as long as the block; who had it broken learns that while the block runs."""
    told: list[HeldLock] = []
    with home.lock("x", agent="a", ttl=6.0) as held:
        held.when_lost(lambda: told.append(held))
        until = locks_of(home).state().locks[0].lease_until_ms
        wait_for(
            lambda: locks_of(home).state().locks[0].lease_until_ms > until,
            what="a renewal",
        )
        locks_of(home).ask_to_break("b", "x", run_id="default", reason="it hangs")
        locks_of(home).confirm_break("c", "x", run_id="default")
        wait_for(lambda: held.lost, what="the loss")
    assert told == [held]


def test_who_asks(home: Home) -> None:
    """The environment says who asks where nobody is named; nobody at all is refused."""
    named = Home(home.path, environ={"JOBWIRE_AGENT": "builder"})
    with named.lock("x"):
        assert locks_of(named).state().locks[0].agent_id == "builder"
    with pytest.raises(Exception, match="agent"):
        home.lock("x")
