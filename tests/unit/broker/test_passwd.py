"""Mosquitto's password file."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.broker.commands import _new_password
from jobwire.broker.passwd import PasswordFile, hash_password, parse_hash, parse_passwords
from jobwire.core.errors import ConfigError, InvalidInputError, NotFoundError

GOOD = str(hash_password("secret", iterations=101, salt=b"0123456789ab"))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_a_hash_survives_its_own_text(password: str) -> None:
    """Any password verifies against the parsed text of its hash, another one does not."""
    parsed = parse_hash(str(hash_password(password, iterations=1)))
    assert parsed.matches(password.encode())
    assert not parsed.matches(password.encode() + b"x")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hermes", "no colon"),
        ("her mes:" + GOOD, "not a usable name"),
        ("../hermes:" + GOOD, "not a usable name"),
        ("deadbeef:" + GOOD, "named like a job"),
        ("hermes:plain", "does not read"),
        ("hermes:$6$c2FsdA==$aGFzaA==", "old $6$"),
        ("hermes:$7$0$" + GOOD.split("$", 3)[3], "iteration count"),
        ("hermes:$7$x$" + GOOD.split("$", 3)[3], "iteration count"),
        ("hermes:$7$99999999$" + GOOD.split("$", 3)[3], "iteration count"),
        ("hermes:$7$101$%%%%$aGFzaA==", "not base64"),
        ("hermes:$7$101$c2FsdA==$aGFzaA==", "must be 12 bytes"),
    ],
)
def test_a_malformed_line_is_named(line: str, reason: str) -> None:
    """A line that cannot be used raises ConfigError with the file and the line number."""
    with pytest.raises(ConfigError, match=r"passwd, line 3") as caught:
        parse_passwords(["# comment", "", line], "passwd")
    assert reason in caught.value.message
    assert caught.value.facts["line"] == 3


def test_a_user_may_not_be_there_twice() -> None:
    """A second line for the same user is an error, not an override."""
    with pytest.raises(ConfigError, match="line 2: the user 'a' is there twice"):
        parse_passwords([f"a:{GOOD}", f"a:{GOOD}"], "passwd")


def test_verify_knows_users_and_passwords() -> None:
    """Only the right password of a known user passes."""
    users = PasswordFile(Path("passwd"), parse_passwords([f"hermes:{GOOD}"], "passwd"))
    assert users.verify("hermes", b"secret")
    assert not users.verify("hermes", b"Secret")
    assert not users.verify("nobody", b"secret")


@pytest.mark.parametrize("password", ["", "a\0b", "x" * 70_000])
def test_unusable_passwords_are_refused(password: str) -> None:
    """Empty, NUL-carrying and overlong passwords do not become users."""
    with pytest.raises(InvalidInputError):
        hash_password(password, iterations=1)


def test_a_password_from_a_pipe_is_text_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line is taken; what is no text is refused, and of what never ends only so much is read."""
    for lines in (b"one\ntwo\n", b"one\r\ntwo\r\n", b"one"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
        assert _new_password("-") == "one"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        _new_password("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 200_000)))
    with pytest.raises(InvalidInputError, match="too long"):
        hash_password(_new_password("-"), iterations=1)


def test_changes_are_written_privately_and_read_back(tmp_path: Path) -> None:
    """Set and remove round-trip through a 0600 file."""
    with PasswordFile.edit(tmp_path / "passwd", create=True) as users:
        users.set("hermes", "one", iterations=2)
        users.set("metrics", "two", iterations=2)
        users.remove("metrics")
    assert (tmp_path / "passwd").stat().st_mode & 0o777 == 0o600
    again = PasswordFile.load(tmp_path / "passwd")
    assert tuple(again.entries) == ("hermes",)
    assert again.verify("hermes", b"one")
    with pytest.raises(NotFoundError):
        again.remove("metrics")


def test_a_job_id_cannot_become_a_password_user(tmp_path: Path) -> None:
    """A user named like a job would be that job under the ACL's patterns."""
    with pytest.raises(InvalidInputError, match="named like a job"):
        PasswordFile(tmp_path / "passwd", {}).set("0badcafe", "x", iterations=1)


def test_editors_take_turns(tmp_path: Path) -> None:
    """Accounts that are added at the same time are all there at the end."""
    path = tmp_path / "passwd"
    with PasswordFile.edit(path, create=True):
        pass

    def add(name: str) -> None:
        with PasswordFile.edit(path) as users:
            users.set(name, "x", iterations=1)

    names = [f"user-{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(add, names))
    assert sorted(PasswordFile.load(path).entries) == names


def test_an_edit_that_fails_changes_nothing(tmp_path: Path) -> None:
    """What was changed before an error is not saved."""
    path = tmp_path / "passwd"
    path.touch()

    def change() -> None:
        with PasswordFile.edit(path) as users:
            users.set("alice", "x", iterations=1)
            users.set("deadbeef", "x", iterations=1)

    with pytest.raises(InvalidInputError):
        change()
    assert path.read_text() == ""
