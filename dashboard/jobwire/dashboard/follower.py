"""The thread that follows the records and the journal, and reports to the event loop."""

import threading
from collections.abc import Callable

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.dashboard.broadcast import FollowerStatus
from jobwire.dashboard.model import Changes, FleetModel

# What no watch tells of is looked for so often.
LOOK_SECONDS = 0.1
# While much changes, looks take a fifth of the time, each for all that changed; at most fifty a second.
_REST_SECONDS, _REST_TIMES = 0.02, 4.0
SIGN_OF_LIFE_SECONDS = 3.0
_LONGEST_PAUSE_SECONDS = 5.0


class Follower:
    """Runs a model until stopped. `begin` gets the model's rows, `publish` what changed since.

    Both are called in this thread. Whatever fails is reported as trouble and tried again: the page
    stays up and says so.
    """

    def __init__(
        self,
        *,
        model: FleetModel,
        clock: Clock,
        begin: Callable[[FleetModel, FollowerStatus], None],
        publish: Callable[[Changes, FollowerStatus], None],
        warn: Callable[[str], None],
    ) -> None:
        self._model = model
        self._clock = clock
        self._begin = begin
        self._publish = publish
        self._warn = warn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobwire-follower", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        pause = LOOK_SECONDS
        while not self._stop.is_set():
            try:
                self._model.start()
                self._begin(self._model, self._moment())
                pause = LOOK_SECONDS
                self._follow()
            except (JobwireError, OSError) as error:
                self._warn(str(error))
                self._publish(Changes(), self._moment(str(error)))
                self._stop.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            except Exception as error:
                # A defect of ours ends the thread: a page that stands still must say so.
                self._publish(Changes(), self._moment(f"{type(error).__name__}: restart jobwire dashboard"))
                raise
            finally:
                self._model.close()

    def _follow(self) -> None:
        quiet_until = self._clock.monotonic() + SIGN_OF_LIFE_SECONDS
        rest = 0.0
        while not self._stop.wait(rest):
            if not rest and not self._model.wait(LOOK_SECONDS):
                self._stop.wait(LOOK_SECONDS)
            begun = self._clock.monotonic()
            changes = self._model.refresh()
            if changes or begun >= quiet_until:
                self._publish(changes, self._moment())
                quiet_until = begun + SIGN_OF_LIFE_SECONDS
            taken = self._clock.monotonic() - begun
            rest = min(max(_REST_SECONDS, _REST_TIMES * taken), LOOK_SECONDS) if changes else 0.0

    def _moment(self, trouble: str = "") -> FollowerStatus:
        return FollowerStatus(self._clock.now(), self._model.journal.offset, trouble)
