"""Lines between the lines of a command: never in the middle of one, never into a drawn screen."""

import pytest

from jobwire.runner.screen import Screen


def shown(*chunks: bytes) -> bytes:
    """Return what is shown of one line after the command printed `chunks`."""
    screen = Screen()
    for chunk in chunks:
        screen.printed(chunk)
    screen.hold("line\n")
    return screen.ready()


@pytest.mark.parametrize(
    "chunks",
    [(), (b"one\r\n",), (b"one\r\n\x1b[0m",), (b"one\r\n\x1b[?2004h",), (b"\x1b[32mone\x1b[0m\r\n",)],
)
def test_between_lines(chunks: tuple[bytes, ...]) -> None:
    """At the beginning of a line ours is shown, with the carriage return that raw mode needs."""
    assert shown(*chunks) == b"line\r\n"


@pytest.mark.parametrize("chunks", [(b"Name: ",), (b"one\r\ntwo",), (b"50%\r",), (b"one\r\n", b"x")])
def test_within_a_line(chunks: tuple[bytes, ...]) -> None:
    """In a prompt or a progress bar nothing is shown; it comes with the next end of a line."""
    screen = Screen()
    for chunk in chunks:
        screen.printed(chunk)
    screen.hold("line\n")
    assert screen.ready() == b""
    screen.printed(b"\r\n")
    assert screen.ready() == b"line\r\n"
    assert screen.ready() == b""


@pytest.mark.parametrize("chunks", [(b"\x1b[?1049h\x1b[H",), (b"a\r\nb\r\n\x1b[2A",), (b"\x1b[", b"2Ax\r\n")])
def test_on_a_drawn_screen(chunks: tuple[bytes, ...]) -> None:
    """Who moves the cursor owns the screen to its end, also where a sequence came in two pieces."""
    screen = Screen()
    for chunk in chunks:
        screen.printed(chunk)
    screen.printed(b"\r\n")
    screen.hold("line\n")
    assert screen.ready() == b""
    assert screen.end() == b"line\r\n"


def test_the_last_lines_stand_by_themselves() -> None:
    """After output without a line break what follows begins on a line of its own."""
    screen = Screen()
    screen.printed(b"no end")
    screen.hold("one\ntwo\n")
    assert screen.end() == b"\r\none\r\ntwo\r\n"


def test_what_is_held_is_bounded() -> None:
    """Of a flood the last lines are kept, and how many were not."""
    screen = Screen()
    screen.printed(b"prompt> ")
    for number in range(1000):
        screen.hold(f"{number}\n")
    lines = screen.end().split(b"\r\n")
    assert lines[1] == b"(900 lines left out)"
    assert lines[-2] == b"999"
    assert len(lines) == 103


def test_after_the_end_lines_are_free() -> None:
    """Once the command has ended, lines are shown as they come, also after a drawn screen."""
    screen = Screen()
    screen.printed(b"\x1b[?1049hprompt")
    assert screen.end() == b"\r\n"
    screen.hold("line\n")
    assert screen.ready() == b"line\r\n"
    assert screen.end() == b""
