"""The port of a job's own log: where its events are numbered, signed and kept, and how far they are.

Two exist: `registry.event_log.HomeEventLog`, where the registry's directory is on this disk, and
`TicketEventLog`, where all there is of the job is a ticket file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from jobwire.core.ports import Message
    from jobwire.core.settings import BrokerSettings
    from jobwire.delivery.outbox import Outbox, Position, SignedEvent
    from jobwire.delivery.signing import Draft


class EventLog(Protocol):
    """One job as its worker sees it. Methods may be called from any thread and any process."""

    @property
    def job_id(self) -> str:
        """Return the job's id."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Return where the job's events wait."""
        ...

    def pin(self) -> None:
        """Hold on to the present attempt: from now on a later one stops this worker. Raises NotFoundError."""
        ...

    def settings(self, command_line: Mapping[str, object], environ: Mapping[str, str]) -> BrokerSettings:
        """Return the broker settings for this job; raises ConfigError."""
        ...

    def append(self, draft: Draft) -> SignedEvent:
        """Give one event its number and signature and keep it durably: from then on it is the job's.

        Raises StoppedError (cancelled, or another attempt holds the job), ConflictError (finished),
        TransitionError (does not fit here), NotFoundError, InvalidInputError, StorageError: then
        nothing was kept.
        """
        ...

    def recover(self) -> Position:
        """Bring the record up to what a crash left in the log, and set aside what is damaged in it.

        Raises StoppedError where the job is another attempt's.
        """
        ...

    def position(self) -> Position:
        """Return how far the job is, read afresh."""
        ...

    def is_attended(self) -> bool:
        """Tell whether a registry process may be running that confirms what arrives: waiting makes sense."""
        ...

    def trim(self, through_seq: int) -> None:
        """Let go of the events up to `through_seq`, where that is worth the writing. Takes the job's lock."""
        ...

    def sending(self, *, deadline_seconds: float) -> AbstractContextManager[None]:
        """Hold the job's send lock for the block; raises LockTimeoutError."""
        ...

    def filters(self, topic_root: Callable[[], str]) -> list[str]:
        """Return the topics from which the registry's word is heard; none where the record tells it.

        The root is asked for where it is needed: it stands in the settings, and reading them may fail.
        """
        ...

    def hear(self, message: Message) -> None:
        """Take in a message of those topics; what is not the registry's word is ignored."""
        ...

    def check_stopped(self) -> None:
        """Raise StoppedError or ConflictError if the registry's word, heard so far, ends this worker."""
        ...
