"""Sessions on a real tmux server: opened, written to, ended, brought back; and nothing else touched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobwire.coordination.sessions.states import EndedBy
from jobwire.core.errors import ConfigError, ConflictError, InvalidInputError
from jobwire.runner.tmux import Tmux
from jobwire.sessions import sending
from jobwire.sessions.listing import Sessions
from jobwire.sessions.opening import Opener
from jobwire.sessions.sending import CONFIRMED, DEFERRED, UNAVAILABLE
from jobwire.sessions.stopping import StopHow
from jobwire.storage.process_life import life_of
from jobwire.testing import new_home, wait_for
from jobwire.testing.session_house import SessionHouse, settle


def test_an_agent_lives_in_its_pane(house: SessionHouse) -> None:
    """It works in its directory, knows session, home and name, and no job of its opener; nothing in argv."""
    agent = house.agent._replace(name="env")
    says = ["sh", "-c", "pwd; env | grep ^JOBWIRE_; cat"]
    Opener(house.home, environ={**os.environ, "JOBWIRE_JOB": "0000abcd", "SECRET": "hush"}).create(
        house.new()._replace(agent=agent, command=says, agent_id="builder")
    )
    wait_for(lambda: "JOBWIRE_SESSION=work" in house.screen(), what="its environment")
    shown = house.screen()
    assert str(house.folder) in shown
    assert "JOBWIRE_AGENT=builder" in shown
    assert "JOBWIRE_JOB" not in shown
    row = house.inventory.get("work")
    assert life_of(row.pid) == row.life
    assert "hush" not in Path(f"/proc/{row.pid}/cmdline").read_text()
    assert "hush" not in house.tmux("list-panes", "-a", "-F", "#{pane_start_command}")
    assert not list(Path(house.home, "sessions", "work").glob("launch-*"))
    log = Path(house.home, "sessions", "work", "output.log")
    wait_for(lambda: "JOBWIRE_SESSION=work" in log.read_text(), what="the pane's output")


def test_a_text_arrives_once_and_is_confirmed(house: SessionHouse) -> None:
    """What is sent is heard as it was written, with formats, substitutions and quotes of no meaning."""
    house.open()
    text = "do $(touch pwned) `id` #{pid} #(id) 'a' \"b\" ünï; %d"
    assert house.sender.send("work", text) == (CONFIRMED, "")
    wait_for(lambda: f"heard {text}" in house.screen(), what="the text")
    assert house.screen().count("heard") == 1
    assert not (house.folder / "pwned").exists()


def test_controls_are_spelled_out(house: SessionHouse) -> None:
    """An escape that would end the brackets of a paste, or move the cursor, is shown as text."""
    house.open()
    assert house.sender.send("work", "a\x1b[201~b\x03c\td").word == CONFIRMED
    wait_for(lambda: "heard a\\x1b[201~b\\x03c    d" in house.screen(), what="the spelled text")


@pytest.mark.parametrize("text", ["", " \n", "x" * (64 * 1024 + 1)])
def test_nothing_and_too_much_are_refused(house: SessionHouse, text: str) -> None:
    """An empty text, and one that is no message any more."""
    with pytest.raises(InvalidInputError):
        house.sender.send("work", text)


def test_a_half_typed_line_is_left_alone(house: SessionHouse) -> None:
    """Where a person has begun to type, nothing is pasted; later it is."""
    house.open()
    house.tmux("send-keys", "-t", "work", "-l", "half a li")
    wait_for(lambda: "half a li" in house.screen(), what="what was typed")
    assert house.sender.send("work", "hello").word == DEFERRED
    house.tmux("send-keys", "-t", "work", "Enter")
    wait_for(lambda: "heard half a li" in house.screen(), what="the person's line")
    assert house.sender.send("work", "hello").word == CONFIRMED


def test_a_pane_that_shows_something_else_is_left_alone(house: SessionHouse) -> None:
    """While another program has the terminal, or somebody scrolls, nothing is pasted."""
    house.opener.create(
        house.new()._replace(agent=house.agent._replace(name="shell"), command=["bash", "--norc", "-i"])
    )
    wait_for(lambda: house.screen().strip(), what="a prompt")
    house.tmux("send-keys", "-t", "work", "cat", "Enter")
    wait_for(lambda: house.sender.send("work", "x").word == DEFERRED, what="cat to have the terminal")
    house.tmux("send-keys", "-t", "work", "C-d")
    house.tmux("copy-mode", "-t", "work")
    wait_for(lambda: "scrolls" in house.sender.send("work", "x").detail, what="cat to end")
    house.tmux("send-keys", "-t", "work", "-X", "cancel")
    assert house.sender.send("work", "echo $((20 + 22))").word == CONFIRMED


def test_a_person_may_split_and_rename(house: SessionHouse) -> None:
    """The pane is found by its id whatever stands beside it, and what the session is called by then."""
    house.open()
    house.tmux("split-window", "-t", "work", "cat")
    house.tmux("rename-session", "-t", "work", "mine")
    assert house.sender.send("work", "hello").word == CONFIRMED
    wait_for(lambda: "heard hello" in house.screen(), what="the text")
    house.stopping.stop("work")
    assert "cat" in house.tmux("list-panes", "-a", "-F", "#{pane_current_command}")


def test_a_pane_that_was_closed_or_given_away(house: SessionHouse) -> None:
    """A closed pane is gone; one in which another process runs belongs to that."""
    house.open()
    pane = house.inventory.get("work").pane
    house.tmux("split-window", "-t", "work", "cat")
    house.tmux("respawn-pane", "-k", "-t", pane, "cat")
    sent = house.sender.send("work", "hello")
    assert (sent.word, "something else" in sent.detail) == (UNAVAILABLE, True)
    house.stopping.stop("work", StopHow.HARD)
    assert house.tmux("list-panes", "-a", "-F", "#{pane_id}").split()[0] == pane
    house.tmux("kill-server")
    assert house.sender.send("work", "hello").word == UNAVAILABLE


def test_stopping_in_good_order(house: SessionHouse) -> None:
    """The agent gets its own words to end by; the conversation is kept, the pane is gone."""
    house.open()
    pid, life = house.inventory.get("work")[10:12]
    house.inventory.note_conversation("work", "c-1")
    row = house.stopping.stop("work")
    assert (row.state, row.ended_by, row.conversation) == ("stopped", "stop", "c-1")
    assert life_of(pid) != life
    log = Path(house.home, "sessions", "work", "output.log")
    wait_for(lambda: "bye" in log.read_text(), what="the pane's output")


def test_an_agent_that_does_not_end_is_said_so(house: SessionHouse) -> None:
    """Where neither its words nor SIGTERM end it, it stays running; --hard kills what it is made of."""
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); signal.signal(1, signal.SIG_IGN)\n"
    house.opener.create(
        house.new()._replace(
            agent=house.agent._replace(name="deaf"),
            command=[sys.executable, "-c", script + "print('up', flush=True); time.sleep(300)"],
        )
    )
    wait_for(lambda: "up" in house.screen(), what="the agent")
    row = house.inventory.get("work")
    with pytest.raises(ConflictError, match="did not end"):
        house.stopping.stop("work", quit_seconds=0.1)
    assert house.inventory.get("work").state == "running"
    assert house.stopping.stop("work", StopHow.HARD).state == "terminated"
    assert life_of(row.pid) != row.life


def test_soft_leaves_it_alive_and_resume_puts_it_back(house: SessionHouse) -> None:
    """An archived session goes on off the list; resume takes it back on, with the same pane."""
    house.open()
    before = house.inventory.get("work")
    assert house.stopping.stop("work", StopHow.SOFT).state == "archived"
    assert Sessions(house.home).list() == []
    assert life_of(before.pid) == before.life
    assert house.opener.resume("work").pane == before.pane
    assert [view.alive for view in Sessions(house.home).list()] == [True]


def test_resume_goes_on_with_the_conversation(house: SessionHouse, tmp_path: Path) -> None:
    """A stopped session comes back in its directory by its resume command, with its conversation's id."""
    settle(tmp_path, "echo | line | | bye | sh -c 'echo back in $1; cat' sh {conversation}")
    house.open()
    house.inventory.note_conversation("work", "c-17")
    house.stopping.stop("work")
    row = house.opener.resume("work")
    assert row.state == "running"
    wait_for(lambda: "back in c-17" in house.screen(), what="the conversation")


def test_a_reboot(house: SessionHouse) -> None:
    """With its server gone every session is gone; `resume --all` brings back those that nobody ended."""
    for name in ("one", "two", "three"):
        house.open(name)
    house.stopping.stop("three")
    house.tmux("kill-server")
    assert [view.alive for view in Sessions(house.home).list()] == [False, False]
    assert [row.name for row in house.opener.resume_all()] == ["one", "two"]
    assert [view.alive for view in Sessions(house.home).list()] == [True, True]
    assert house.inventory.get("three").state == "stopped"
    assert house.opener.resume_all() == []


def test_what_cannot_be_opened_leaves_nothing(house: SessionHouse) -> None:
    """No such command, no such directory: said, and the name is free again."""
    new = house.new()
    with pytest.raises(ConfigError, match="cannot be started"):
        house.opener.create(new._replace(command=["/no/such/agent"]))
    with pytest.raises(InvalidInputError, match="no directory"):
        house.opener.create(new._replace(directory="/no/such/directory"))
    row = house.inventory.get("work")
    assert (row.state, row.ended_by) == ("terminated", EndedBy.HARD)
    house.open()
    with pytest.raises(ConflictError, match="already"):
        house.opener.create(new)


def test_an_old_tmux_and_none_at_all(
    house: SessionHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tmux that is too old, or missing, is named before anything is written."""
    old = tmp_path / "bin"
    old.mkdir()
    (old / "tmux").write_text("#!/bin/sh\necho tmux 2.6\n")
    (old / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", str(old))
    with pytest.raises(ConfigError, match="too old"):
        house.opener.create(house.new())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="not installed"):
        house.opener.create(house.new())
    assert house.inventory.rows() == []


def test_an_odd_home_is_recorded_into(house: SessionHouse, tmp_path: Path) -> None:
    """A path that a shell, a format or a clock would expand is taken as it is."""
    home = new_home(tmp_path / "o'd #{pid} %H $(touch pwned)")
    Opener(str(home)).create(house.new())
    log = home / "sessions" / "work" / "output.log"
    wait_for(lambda: "you>" in log.read_text(), what="the pane's output")
    assert log.stat().st_mode & 0o777 == 0o600


def test_two_senders_take_turns(house: SessionHouse) -> None:
    """Two that send into one pane at once are both heard, whole."""
    house.open()
    script = (
        "import sys; from jobwire.sessions.sending import Sender\n"
        "print(Sender(sys.argv[1]).send('work', sys.argv[2] * 40).word)"
    )
    many = [
        subprocess.Popen(
            [sys.executable, "-c", script, house.home, letter], stdout=subprocess.PIPE, text=True
        )
        for letter in "abc"
    ]
    assert [one.communicate(timeout=60)[0].strip() for one in many] == [CONFIRMED] * 3
    wait_for(lambda: house.screen().count("heard") == 3, what="all three")
    assert all(f"heard {letter * 40}" in house.screen() for letter in "abc")


# Shows what is typed behind its cursor, and loses the first Enter, as agents do while they begin.
_LOSES_A_KEY = """\
import sys, tty
tty.setraw(0)
text, lost = "", False
print("> ", end="", flush=True)
while key := sys.stdin.buffer.raw.read(1).decode():
    if key != "\\r":
        text += key
    elif lost:
        print(f"\\r\\nheard {text}\\r\\n> ", end="", flush=True)
        text = ""
    else:
        lost = True
    print(f"\\r> {text}\\r> ", end="", flush=True)
"""


def test_a_key_that_a_beginning_agent_loses_is_pressed_again(house: SessionHouse) -> None:
    """The text stands there, not taken: Enter once more, and the agent has it once."""
    house.opener.create(house.new()._replace(command=[sys.executable, "-c", _LOSES_A_KEY]))
    wait_for(lambda: ">" in house.screen(), what="the prompt")
    assert house.sender.send("work", "do the first").word == CONFIRMED
    assert house.told() == ["heard do the first"]


def test_a_pane_that_does_not_show_it_is_said(house: SessionHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that shows nothing of what it reads: sent, and said that it was not seen."""
    monkeypatch.setattr(sending, "_ARRIVAL_SECONDS", 0.2)
    silent = [sys.executable, "-c", "import getpass; getpass.getpass('> '); input()"]
    house.opener.create(house.new()._replace(command=silent))
    wait_for(lambda: ">" in house.screen(), what="the prompt")
    assert house.sender.send("work", "hidden").word == sending.SENT


def test_a_servers_name_leads_to_its_folder(house: SessionHouse) -> None:
    """A socket in tmux' own folder goes by its name, so that the folder is made after a reboot."""
    house.open()
    socket = house.inventory.get("work").socket
    assert Tmux.at(socket)._words[-2:] == ["-L", house.server]
    assert Tmux.at("/elsewhere/socket")._words[-2:] == ["-S", "/elsewhere/socket"]
