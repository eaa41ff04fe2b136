"""What is known of agents: a line each, own lines first, and an unknown program is nobody's."""

import pytest

from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.sessions.known_agents import InstructionsBy, choose, known, read_line
from jobwire.sessions.taking import compose, pointer


def test_every_line_of_the_table_is_read() -> None:
    """The agents of the table are there, each with what starts it."""
    agents = known()
    assert {"claude", "codex", "opencode", "gemini", "aider", "shell"} <= agents.keys()
    assert agents["claude"].resumed("c-1") == ["claude", "--resume", "c-1"]
    assert agents["claude"].resumed("") == []
    assert agents["aider"].resumed("") == ["aider", "--restore-chat-history"]
    assert agents["shell"].quit_keys == ["C-d"]
    assert agents["claude"].quit_keys == []


def test_own_lines_go_before() -> None:
    """A user's line adds an agent, or replaces one of the table."""
    agents = known(["mine | line | mine --chat 'a b' | /bye | mine -r {conversation}", "claude | line | c"])
    assert agents["mine"].resumed("7") == ["mine", "-r", "7"]
    assert agents["claude"].delivery is InstructionsBy.LINE
    agent, words = choose(agents, "mine", [], delivery=None, otherwise=InstructionsBy.STDIN)
    assert (agent.name, words) == ("mine", ["mine", "--chat", "a b"])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "x | shout | y",
        "a b | line | y",
        "x | line | 'y",
        "x | line | y | | 'z",
        "x|line|y||||",
        "x|line|y|||rm",
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: str) -> None:
    """A wrong line is refused with its form, or with what of it is wrong."""
    with pytest.raises(ConfigError):
        read_line(line)


def test_which_agent_a_command_is() -> None:
    """By its name, by the first word of the command, else by what the caller does with unknown ones."""
    agents = known()
    agent, words = choose(agents, None, ["/opt/claude", "-x"], delivery=None, otherwise=InstructionsBy.STDIN)
    assert (agent.name, agent.delivery, words) == ("claude", InstructionsBy.PASTE, ["/opt/claude", "-x"])
    agent, _ = choose(agents, None, ["./mine.py"], delivery=None, otherwise=InstructionsBy.STDIN)
    assert (agent.name, agent.delivery, agent.lives_on) == ("mine.py", InstructionsBy.STDIN, False)
    agent, _ = choose(agents, None, ["./mine.py"], delivery="line", otherwise=InstructionsBy.STDIN)
    assert agent.lives_on
    with pytest.raises(InvalidInputError, match="no agent"):
        choose(agents, "nobody", [], delivery=None, otherwise=InstructionsBy.STDIN)
    with pytest.raises(InvalidInputError, match="which agent"):
        choose(agents, "shell", [], delivery=None, otherwise=InstructionsBy.STDIN)


def test_the_header_says_who_what_and_how() -> None:
    """Job, name and the commands stand before the instructions, which are the last."""
    text = compose("Fix it.\n", job_id="0000abcd", title="parser", agent="builder", delegator="root@host")
    assert text.endswith("\n\nFix it.\n")
    for words in ("job 0000abcd (parser)", "You are builder", "publish_event --job 0000abcd", "jobwire ask"):
        assert words in text
    assert "\n" not in pointer("/x/y", "0000abcd")


def test_the_keys_that_interrupt() -> None:
    """One, and perhaps one that empties the prompt then; no third."""
    assert read_line("x | line | y | | | Escape C-u").interrupt_keys == ("Escape", "C-u")
    assert read_line("x | line | y | | | C-c").interrupt_keys == ("C-c", "")
    assert read_line("x | line | y").interrupt_keys == ("", "")
    for keys in ("Escape C-u C-u", "Escape rm"):
        with pytest.raises(ConfigError, match="not a key"):
            read_line(f"x | line | y | | | {keys}")
