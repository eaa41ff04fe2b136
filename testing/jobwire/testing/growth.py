"""How the time of a piece of code grows with its input, told without a stopwatch's number.

Times are of this thread's processor and only compared with each other, the best of several runs each, at
lengths four times apart: what is linear takes four times as long, what is quadratic sixteen times. The
lengths rise step by step, so that code which is worse than quadratic is told before it takes for ever;
FROM_SHORT is for what may be exponential.
"""

import time
from collections.abc import Callable
from typing import TypeVar

_Input = TypeVar("_Input")

FROM_SHORT = (4, 16, 64, 256, 1024, 4096)
_LENGTHS = FROM_SHORT[3:]
# Between 4 and 16. What is set up at each call makes a growth look smaller, never larger.
_TOO_MUCH = 8.0
_RUNS = 3
# Before it is said, the growth is measured again, this often: something else may have been in the way.
_TRIES = 4
_SHORTEST_SECONDS = 20e-6
# What else runs does not make so long a time several times longer: the best of several would be no other.
_LONG_SECONDS = 0.05


def grows_faster_than_its_input(
    make: Callable[[int], _Input], run: Callable[[_Input], object], *, lengths: tuple[int, ...] = _LENGTHS
) -> bool:
    """Tell whether `run` takes much more than four times as long for an input of four times the length.

    `make` gives an input of a length; what it costs is not counted. `lengths` are each four times the last.
    """
    inputs = [make(length) for length in lengths]
    shorter = _best(run, inputs[0], runs=1)
    for given, before in zip(inputs[1:], inputs, strict=False):
        longer = _best(run, given, runs=1)
        if _jumps(shorter, longer) and _confirmed(run, before, given):
            return True
        shorter = longer
    return False


def _confirmed(run: Callable[[_Input], object], before: _Input, given: _Input) -> bool:
    return all(_jumps(_best(run, before), _best(run, given)) for _ in range(_TRIES))


def _jumps(shorter: float, longer: float) -> bool:
    # So short a time is the clock's and the call's own.
    return longer > _SHORTEST_SECONDS and longer > _TOO_MUCH * shorter


def _best(run: Callable[[_Input], object], given: _Input, *, runs: int = _RUNS) -> float:
    times = []
    for _ in range(runs):
        start = time.thread_time()
        run(given)
        times.append(time.thread_time() - start)
        if times[-1] > _LONG_SECONDS:
            break
    return min(times)
