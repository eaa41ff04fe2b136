"""How a command hears of signals: through a pipe and a thread, never inside a handler.

Python runs a handler in the main thread between any two of its steps, also while it holds a lock.
`Event.set` in a handler waits for ever where the main thread was inside `Event.wait` on that event, and
so does everything else that takes a lock. So the handlers here do nothing; the C part of the interpreter
writes the number into a pipe (signal.set_wakeup_fd), and a thread that may wait reads it.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

_MANY = 512


@contextmanager
def delivered(actions: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Call the action of each signal that comes during the block, on one thread, in order.

    Main thread only. The earlier handlers are back at the end, and every signal of the block has had its
    action then. An action may take locks and wait, and must not raise.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    # A pipe that is full holds more of the same: nothing to warn of.
    earlier_end = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    by_number = {int(number): action for number, action in actions.items()}
    teller = threading.Thread(
        target=_tell, args=(read_end, by_number, earlier_end), name="signals", daemon=True
    )
    teller.start()
    earlier = {number: signal.signal(number, _leave_it_to_the_pipe) for number in actions}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            # None: a handler that was not set from Python, which cannot be named again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(earlier_end)
        os.close(write_end)
        teller.join()
        os.close(read_end)


@contextmanager
def stop_event(*numbers: signal.Signals) -> Iterator[threading.Event]:
    """Give an event that each of these signals sets during the block (default: SIGTERM, SIGINT)."""
    stop = threading.Event()
    chosen = numbers or (signal.SIGTERM, signal.SIGINT)
    with delivered(dict.fromkeys(chosen, stop.set)):
        yield stop


def _tell(read_end: int, actions: Mapping[int, Callable[[], None]], earlier_end: int) -> None:
    while numbers := os.read(read_end, _MANY):
        for number in numbers:
            if action := actions.get(number):
                action()
            elif earlier_end >= 0:
                # A signal of the block around this one.
                with suppress(BlockingIOError):
                    os.write(earlier_end, bytes([number]))


def _leave_it_to_the_pipe(_number: int, _frame: object) -> None:
    """Keep the signal from its default, which is to end the process."""
