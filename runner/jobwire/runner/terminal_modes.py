"""Modes and sizes of terminals, as termios(3) has them."""

import contextlib
import fcntl
import termios

# What `termios.tcgetattr` returns: four words of flags, two speeds, the control characters.
Modes = list[int | list[bytes | int]]
_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6
_SIZE_BYTES = 8


def raw_modes(modes: Modes) -> Modes:
    """Return `modes` so that every byte passes as it is (cfmakeraw(3)). Pure."""
    iflag, oflag, cflag, lflag = (_word(modes, index) for index in (_IFLAG, _OFLAG, _CFLAG, _LFLAG))
    breaks = termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP
    lines = termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON
    local = termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN
    characters = modes[_CC]
    characters = list(characters) if isinstance(characters, list) else []
    characters[termios.VMIN] = 1
    characters[termios.VTIME] = 0
    return [
        iflag & ~(breaks | lines),
        oflag & ~termios.OPOST,
        cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8,
        lflag & ~local,
        *modes[4:_CC],
        characters,
    ]


def interrupt_key(descriptor: int) -> bytes:
    """Return the key that interrupts who has the terminal, empty where none does; raises termios.error."""
    modes = termios.tcgetattr(descriptor)
    return bytes(modes[_CC][termios.VINTR]) if _word(modes, _LFLAG) & termios.ISIG else b""


def same(one: Modes, other: Modes) -> bool:
    """Tell whether two modes agree in their flags."""
    return one[:4] == other[:4]


def copy_size(source: int, target: int) -> None:
    """Give the terminal `target` the size of `source`; whoever runs there is told (SIGWINCH)."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(_SIZE_BYTES))
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)


def _word(modes: Modes, index: int) -> int:
    word = modes[index]
    if not isinstance(word, int):
        raise TypeError("not the modes of a terminal")
    return word
