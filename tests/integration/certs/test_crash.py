"""kill -9 at every durable step of every operation: nothing half-written, and the way on is open."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from jobwire.certs import rollover
from jobwire.certs.authority import CertificateAuthority
from jobwire.certs.values import Level
from jobwire.core.errors import ConflictError

Operation = Callable[[CertificateAuthority], object]
_KILLED = 9
_STEPS = ("fsync", "rename", "replace", "link", "unlink", "rmdir")
_MANY = 200


def run_until(step: int, operation: Operation, directory: Path) -> bool:
    """Run the operation in a child that dies before its `step`-th durable call; True if it came through."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _arm(step)
            operation(CertificateAuthority(directory))
            status = 0
        finally:
            os._exit(status)  # neither clean-up code nor pytest may run in the child
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, _KILLED), f"the operation failed by itself at step {step}"
    return code == 0


def _arm(step: int) -> None:
    left = [step]

    def deadly(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os._exit(_KILLED)
            return real(*args, **kwargs)

        return call

    for name in _STEPS:
        setattr(os, name, deadly(getattr(os, name)))


def errors(authority: CertificateAuthority) -> list[str]:
    """Return the messages of the errors that the check-up finds."""
    return [finding.message for finding in authority.check() if finding.level is Level.ERROR]


def _prepare(authority: CertificateAuthority) -> None:
    authority.init()
    authority.issue("hermes")


def _begun(authority: CertificateAuthority) -> None:
    _prepare(authority)
    rollover.begin(authority)


def _switched(authority: CertificateAuthority) -> None:
    _begun(authority)
    rollover.switch(authority)


def _issue(authority: CertificateAuthority) -> object:
    return authority.issue("metrics")


def _issue_server(authority: CertificateAuthority) -> object:
    return authority.issue_server("page", ["localhost"])


def _renew_server(authority: CertificateAuthority) -> object:
    return authority.renew("server")


def _new_server_key(authority: CertificateAuthority) -> object:
    return authority.renew("server", new_key=True)


def _revoke(authority: CertificateAuthority) -> object:
    return authority.revoke("hermes")


def _begin(authority: CertificateAuthority) -> None:
    rollover.begin(authority)


def _switch(authority: CertificateAuthority) -> object:
    return rollover.switch(authority)


def _finish(authority: CertificateAuthority) -> None:
    rollover.finish(authority)


def _cancel(authority: CertificateAuthority) -> None:
    rollover.cancel(authority)


@pytest.mark.parametrize(
    ("prepare", "operation", "passing"),
    [
        (_prepare, _issue, ""),
        (_prepare, _issue_server, ""),
        (_prepare, _renew_server, ""),
        # Two names cannot change in one rename: the check-up says so and `renew` repairs it.
        (_prepare, _new_server_key, "do not belong together"),
        # The index knows before the list: the check-up says so and repeating repairs it.
        (_prepare, _revoke, "revoked but not in the list"),
        (_prepare, _begin, ""),
        (_begun, _switch, ""),
        (_begun, _cancel, ""),
        (_switched, _finish, ""),
    ],
)
def test_killed_at_any_step(tmp_path: Path, prepare: Operation, operation: Operation, passing: str) -> None:
    """After a kill at any step the files are whole, and doing it again brings everything in order."""
    for step in range(_MANY):
        authority = CertificateAuthority(tmp_path / str(step) / "certs")
        prepare(authority)
        finished = run_until(step, operation, authority.directory)
        assert all(passing and passing in message for message in errors(authority)), step
        with suppress(ConflictError):  # it had come far enough
            operation(authority)
        assert errors(authority) == [], step
        if finished:
            return
    pytest.fail("the operation never came to its end")


def test_init_killed_at_any_step(tmp_path: Path) -> None:
    """An interrupted `init` leaves no authority or a whole one, and the next `init` needs no force."""
    for step in range(_MANY):
        authority = CertificateAuthority(tmp_path / str(step) / "certs")
        finished = run_until(step, lambda mine: mine.init(), authority.directory)
        if not authority.exists():
            assert not authority.directory.exists()
            authority.init()
        assert authority.check() == []
        assert [path.name for path in authority.directory.parent.iterdir()] == ["certs"]
        if finished:
            return
    pytest.fail("init never came to its end")
