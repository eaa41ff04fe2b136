"""Accounts and access list, held against the table."""

from pathlib import Path

import pytest

from jobwire.broker.acl import parse_access_list
from jobwire.broker.check import examine_accounts, examine_rights
from jobwire.broker.home import rendered_access_list
from jobwire.broker.passwd import PasswordFile, hash_password, parse_passwords
from jobwire.certs.values import Level
from jobwire.core.roles import Role
from jobwire.core.topics import DEFAULT_ROOT

ACL = rendered_access_list(DEFAULT_ROOT)
EVENTS = f"{DEFAULT_ROOT}/+/events"


def users(*names: str, iterations: int = 1_000) -> PasswordFile:
    """Return accounts that all have one password."""
    line = str(hash_password("x", iterations=iterations))
    text = [f"{name}:{line}" for name in names]
    return PasswordFile(Path("passwd"), parse_passwords(text, "passwd"))


def judged(acl: str) -> list[tuple[Level, str]]:
    """Return level and message of each finding about the rights in `acl`."""
    access = parse_access_list(acl.splitlines(), "acl")
    return [(found.level, found.message) for found in examine_rights(users(*Role), access, DEFAULT_ROOT)]


def test_the_rendered_rights_are_those_of_the_table() -> None:
    """The packaged access list gives every role and job exactly what docs/security.md says."""
    assert judged(ACL) == []


@pytest.mark.parametrize(
    ("line", "who"),
    [
        (f"user hermes\ntopic readwrite {EVENTS}", "hermes may publish own"),
        ("user claude-worker\ntopic read #", "claude-worker may subscribe `#`"),
        ("user metrics\ntopic read $SYS/#", "metrics may subscribe `$SYS/#`"),
        (f"user dashboard\ntopic write {DEFAULT_ROOT}/+/state", "dashboard may publish state"),
        (f"pattern write {DEFAULT_ROOT}/%u/state", "a job may publish state"),
    ],
)
def test_a_right_too_many_is_an_error(line: str, who: str) -> None:
    """An added line that gives a role or a job more than its rights is an error that says what it may."""
    assert any(level is Level.ERROR and text.startswith(who) for level, text in judged(f"{ACL}\n{line}\n"))


def test_a_right_too_few_is_a_warning() -> None:
    """A role that cannot do its work is a warning, as are jobs without their patterns."""
    found = judged(ACL.replace(f"topic write {EVENTS}", "topic write nowhere").replace("pattern write", "# "))
    assert {level for level, _ in found} == {Level.WARNING}
    assert any(text.startswith("claude-worker may not publish own") for _, text in found)
    assert any(text.startswith("a job may not publish own") for _, text in found)


def test_weak_hashes_and_accounts_without_rights() -> None:
    """A cheap hash is a warning, an account without rights a note, rights of nobody an error."""
    access = parse_access_list(["topic read x", "user alice", "topic read y"], "acl")
    found = [finding.level for finding in examine_accounts(users("alice", "bob", iterations=101), access)]
    assert sorted(found) == [Level.ERROR, Level.NOTE, Level.WARNING, Level.WARNING]
