"""Following the records and the journal for the page: looked at in threads, told in the event loop."""

import asyncio
import traceback
from collections.abc import Callable

from jobwire.core.clock import Clock
from jobwire.core.errors import JobwireError
from jobwire.dashboard.broadcast import Broadcaster, FollowerStatus
from jobwire.dashboard.model import Changes, FleetModel

# What no watch tells of is looked for so often.
LOOK_SECONDS = 0.1
# While much changes, looks take a fifth of the time, each for all that changed; at most fifty a second.
_REST_SECONDS, _REST_TIMES = 0.02, 4.0
SIGN_OF_LIFE_SECONDS = 3.0
_LONGEST_PAUSE_SECONDS = 5.0


async def follow(
    model: FleetModel, broadcaster: Broadcaster, *, clock: Clock, warn: Callable[[str], None]
) -> None:
    """Tell `broadcaster` the rows of `model` and every change, until it is closed.

    Whatever fails is told as trouble and tried again: the page stays up and says so.
    """

    def status(trouble: str = "") -> FollowerStatus:
        return FollowerStatus(clock.now(), model.journal.offset, trouble)

    async def look() -> None:
        quiet_until = clock.monotonic() + SIGN_OF_LIFE_SECONDS
        rest = 0.0
        while not broadcaster.closed:
            if rest:
                await asyncio.sleep(rest)
            else:
                await asyncio.to_thread(model.wait, LOOK_SECONDS)
            begun = clock.monotonic()
            changes = await asyncio.to_thread(model.refresh)
            if changes or begun >= quiet_until:
                broadcaster.publish(changes, status())
                quiet_until = begun + SIGN_OF_LIFE_SECONDS
            taken = clock.monotonic() - begun
            rest = min(max(_REST_SECONDS, _REST_TIMES * taken), LOOK_SECONDS) if changes else 0.0

    pause = LOOK_SECONDS
    while not broadcaster.closed:
        try:
            await asyncio.to_thread(model.start)
            broadcaster.begin(model.rows, status())
            pause = LOOK_SECONDS
            await look()
        except (JobwireError, OSError) as error:
            warn(str(error))
            broadcaster.publish(Changes(), status(str(error)))
            await broadcaster.changed(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        except Exception as error:
            # A defect of ours ends the following: a page that stands still must say so.
            warn(traceback.format_exc())
            broadcaster.publish(Changes(), status(f"{type(error).__name__}: restart jobwire dashboard"))
            raise
        finally:
            await asyncio.to_thread(model.close)
