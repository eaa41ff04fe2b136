"""The event bus for delegated jobs. What Python programs use of it is exported here.

    from jobwire import Home

Nothing is loaded before it is asked for: `publish_event` passes through here at each start.
"""

import os
import sys

TYPE_CHECKING = False  # for type checkers it is True; `typing` itself need not be loaded
if TYPE_CHECKING:
    from jobwire.api.aio import AsyncClaimedJob, AsyncHome, AsyncPublisher, AsyncSubscriber
    from jobwire.api.aio_inbox import AsyncAgentInbox, AsyncTakenMessage
    from jobwire.api.aio_lock import AsyncHeldLock
    from jobwire.api.home import Home
    from jobwire.api.inbox import AgentInbox, TakenMessage
    from jobwire.api.work import ClaimedJob
    from jobwire.coordination.locks.held_lock import HeldLock
    from jobwire.core.errors import (
        ConfigError,
        ConflictError,
        InvalidInputError,
        JobwireError,
        NotFoundError,
        NoWorkError,
        RefusedError,
        StoppedError,
        StorageError,
        TransitionError,
        TransportError,
        UnreachableError,
    )
    from jobwire.delivery.publishing import Published
    from jobwire.jobs.event import Event
    from jobwire.jobs.lifecycle import Status
    from jobwire.jobs.record import JobRecord, Priority, Timeouts
    from jobwire.publisher.publisher import Publisher
    from jobwire.registry.queue import Registered
    from jobwire.subscriber.fleet import Mode
    from jobwire.subscriber.outcome import Outcome, Verdict, Verdicts
    from jobwire.subscriber.subscriber import Subscriber

__all__ = [
    "AgentInbox",
    "AsyncAgentInbox",
    "AsyncClaimedJob",
    "AsyncHeldLock",
    "AsyncHome",
    "AsyncPublisher",
    "AsyncSubscriber",
    "AsyncTakenMessage",
    "ClaimedJob",
    "ConfigError",
    "ConflictError",
    "Event",
    "HeldLock",
    "Home",
    "InvalidInputError",
    "JobRecord",
    "JobwireError",
    "Mode",
    "NoWorkError",
    "NotFoundError",
    "Outcome",
    "Priority",
    "Published",
    "Publisher",
    "RefusedError",
    "Registered",
    "Status",
    "StoppedError",
    "StorageError",
    "Subscriber",
    "TakenMessage",
    "Timeouts",
    "TransitionError",
    "TransportError",
    "UnreachableError",
    "Verdict",
    "Verdicts",
]

_MODULES = {
    "jobwire.api.aio": ("AsyncClaimedJob", "AsyncHome", "AsyncPublisher", "AsyncSubscriber"),
    "jobwire.api.aio_inbox": ("AsyncAgentInbox", "AsyncTakenMessage"),
    "jobwire.api.aio_lock": ("AsyncHeldLock",),
    "jobwire.api.home": ("Home",),
    "jobwire.api.inbox": ("AgentInbox", "TakenMessage"),
    "jobwire.api.work": ("ClaimedJob",),
    "jobwire.coordination.locks.held_lock": ("HeldLock",),
    "jobwire.delivery.publishing": ("Published",),
    "jobwire.jobs.event": ("Event",),
    "jobwire.jobs.lifecycle": ("Status",),
    "jobwire.jobs.record": ("JobRecord", "Priority", "Timeouts"),
    "jobwire.publisher.publisher": ("Publisher",),
    "jobwire.registry.queue": ("Registered",),
    "jobwire.subscriber.fleet": ("Mode",),
    "jobwire.subscriber.outcome": ("Outcome", "Verdict", "Verdicts"),
    "jobwire.subscriber.subscriber": ("Subscriber",),
}
_ERRORS = "jobwire.core.errors"

# In the source each component is a folder of its own with its part of this package (docs/adr/0007).
for _root in sys.path:
    _part = f"{_root}/jobwire"
    if _part not in __path__ and os.path.isdir(_part):  # noqa: PTH112 - at each start of each command
        __path__.append(_part)


if not TYPE_CHECKING:  # a misspelt name is an error of the type checker

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'jobwire' has no attribute {name!r}")
        import importlib  # noqa: PLC0415 - see the first lines

        module = next((module for module, names in _MODULES.items() if name in names), _ERRORS)
        value = globals()[name] = getattr(importlib.import_module(module), name)
        return value

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
