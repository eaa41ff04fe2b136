"""Messages, threads and deliveries as the store gives them back, and as JSON."""

import json
from typing import TYPE_CHECKING, NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import NotFoundError

if TYPE_CHECKING:
    from jobwire.coordination.blobs import BlobFolder
    from jobwire.coordination.delivery import InboxDelivery
    from jobwire.coordination.thread import InboxThread


class InboxMessage(NamedTuple):
    """One message, in the order of the queries' columns."""

    seq: int
    id: str
    ts_ms: int
    from_agent: str
    to_agent: str | None
    type: str
    correlation_id: str | None
    in_reply_to: str | None
    payload: str | None
    payload_ref: str | None
    thread_id: str
    run_id: str
    task_id: str | None
    kind: str
    summary: str
    body: str
    body_ref: str | None
    acceptance: str
    risk: str
    priority: str
    message_class: str
    expires_at_ms: int | None
    hop: int
    recipients: str
    digest: str | None

    @property
    def to(self) -> tuple[str, ...]:
        """Return whom it was sent to."""
        return tuple(json.loads(self.recipients))

    def full_body(self, blobs: "BlobFolder") -> str:
        """Return the body, from its blob where it is large. Raises as `BlobFolder.get`."""
        return self.body if self.body_ref is None else blobs.get(self.body_ref).decode()

    def full_payload(self, blobs: "BlobFolder") -> str | None:
        """Return the payload's text, from its blob where it is large. Raises as `BlobFolder.get`."""
        return self.payload if self.payload_ref is None else blobs.get(self.payload_ref).decode()

    def to_json(
        self, blobs: "BlobFolder | None" = None, artifacts: list[dict[str, object]] | None = None
    ) -> dict[str, object]:
        """Return it as commands print it; with `blobs` the large parts as well, else their references."""
        body, payload = self.body, self.payload
        if blobs is not None:
            body, payload = self.full_body(blobs), self.full_payload(blobs)
        value: dict[str, object] = {
            "message_id": self.id,
            "id": self.id,
            "seq": self.seq,
            "ts_ms": self.ts_ms,
            "created_at": utc_timestamp(self.ts_ms / 1000),
            "from_agent": self.from_agent,
            "to_agent": self.to_agent or "",
            "recipients": list(self.to),
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "task_id": self.task_id or "",
            "in_reply_to": self.in_reply_to,
            "correlation_id": self.correlation_id,
            "kind": self.kind,
            "type": self.type,
            "summary": self.summary,
            "body": body,
            "payload": json_or_text(payload),
            "acceptance": json_or_text(self.acceptance),
            "risk": self.risk,
            "priority": self.priority,
            "class": self.message_class,
            "expires_at_ms": self.expires_at_ms,
            "hop": self.hop,
            "artifacts": artifacts or [],
        }
        if blobs is None:
            value |= {
                f"{name}_ref": ref
                for name, ref in (("body", self.body_ref), ("payload", self.payload_ref))
                if ref
            }
        return value


def thread_json(thread: "InboxThread") -> dict[str, object]:
    """Return a thread as commands print it."""
    value = thread._asdict()
    for name in ("jobs", "position", "changed", "addressed_to"):
        del value[name]
    return {**value, "work": bool(thread.work)}


def delivery_json(delivery: "InboxDelivery") -> dict[str, object]:
    """Return a delivery as commands print it."""
    return {**delivery._asdict(), "state": str(delivery.state)}


def thread_not_found(thread_id: str) -> NotFoundError:
    """Return the error for a thread that is not there."""
    return NotFoundError(
        f"there is no thread {thread_id!r}", hint="`inbox list` shows the threads", code="thread_not_found"
    )


def message_not_found(name: object) -> NotFoundError:
    """Return the error for a message that is not there."""
    return NotFoundError(
        f"there is no message {name!r}", hint="`inbox show --thread ID` shows them", code="message_not_found"
    )


def json_or_text(text: str | None) -> object:
    """Return what a JSON text says; other programs may have written any text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
