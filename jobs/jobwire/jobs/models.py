"""Strict pydantic models of what comes from outside; their JSON Schema is what `jobwire schema` prints."""

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from jobwire.core.bounds import MAX_INSTRUCTIONS, MAX_KEY, MAX_NAME, MAX_SECONDS, MAX_TITLE
from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.lease import DEFAULT_LEASE_SECONDS
from jobwire.core.signature import SIGNATURE_FIELD
from jobwire.core.topics import JOB_ID_PATTERN
from jobwire.jobs.event import MAX_DETAIL, Event

# [0-9], not \d: the pattern engine's \d takes every script's digits.
_TIMESTAMP_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$"


def _calendar(value: str) -> str:
    dt.datetime.fromisoformat(value[:19])
    return value


JobId = Annotated[str, Field(pattern=JOB_ID_PATTERN, description="8 lower-case hex characters")]
Seq = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Count = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Timestamp = Annotated[
    str,
    Field(pattern=_TIMESTAMP_PATTERN, description="UTC, ISO 8601, ends in Z; advisory"),
    AfterValidator(_calendar),
]
Detail = Annotated[str, Field(max_length=MAX_DETAIL)]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]


class EventModel(BaseModel):
    """One event on the wire, schema_version 1."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, title="event")

    schema_version: Literal[1]
    seq: Annotated[int, Field(ge=1, le=MAX_INTEGER, description="1 for the first event, then rising")]
    job_id: JobId
    event: Literal["started", "progress", "permission_required", "completed", "error"]
    timestamp: Timestamp
    detail: Detail
    data: Annotated[dict[str, Any], Field(description="free metrics; data.hmac_sig holds the signature")]

    def to_event(self) -> Event:
        """Return the event without its signature."""
        data = {key: value for key, value in self.data.items() if key != SIGNATURE_FIELD}
        return Event(self.seq, self.job_id, self.event, self.timestamp, self.detail, data)


class StateModel(BaseModel):
    """The retained, signed snapshot of a job's record."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, title="state")

    job_id: JobId
    status: Literal["pending", "running", "completed", "error", "cancelled"]
    last_seq: Seq
    attempt: Count
    updated_at: Timestamp
    attention: bool
    detail: Detail
    timeout: Annotated[
        Literal["idle", "wall", "pending"] | None,
        Field(description="the limit by which the registry ended it"),
    ] = None
    hmac_sig: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="under the present attempt's token")]
    superseded: Annotated[
        list[str],
        Field(description="signatures under the tokens of earlier attempts, oldest first"),
    ] = []


class LeaseModel(BaseModel):
    """Who works on the job, and until when that is believed without a sign of life."""

    model_config = ConfigDict(strict=True, title="lease")

    owner: Annotated[str, Field(max_length=MAX_NAME)]
    expires_at: Timestamp
    seconds: Annotated[Seconds, Field(description="granted: each event extends it by so much")] = (
        DEFAULT_LEASE_SECONDS
    )


class TimeoutsModel(BaseModel):
    """Limits in seconds; null is no limit."""

    model_config = ConfigDict(strict=True, title="timeouts")

    idle_seconds: Seconds | None = None
    wall_seconds: Seconds | None = None
    pending_seconds: Seconds | None = None


class RecordModel(BaseModel):
    """One job's record on disk; fields it does not know survive a rewrite."""

    model_config = ConfigDict(strict=True, extra="allow", title="record")

    schema_version: Literal[1]
    job_id: JobId
    status: Literal["pending", "running", "completed", "error", "cancelled"]
    attempt: Count
    agent_session: Annotated[str, Field(max_length=MAX_NAME)] | None
    title: Annotated[str, Field(max_length=MAX_TITLE)]
    instructions: Annotated[str, Field(max_length=MAX_INSTRUCTIONS)]
    created_at: Timestamp
    updated_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None
    last_seq: Seq
    attention: bool
    detail: Detail
    result: dict[str, Any] | None
    auth_token: Annotated[str, Field(min_length=32)]
    lease: LeaseModel | None
    timeouts: TimeoutsModel
    priority: Literal["high", "normal", "low"]
    idempotency_key: Annotated[str, Field(max_length=MAX_KEY)] | None
    broker: dict[str, str | int]
    attempt_seq: Annotated[Seq, Field(description="last_seq when the present attempt began")] = 0
    confirmed_seq: Annotated[
        Seq, Field(description="highest seq that the registry process has journaled")
    ] = 0
    max_attempts: Count | None = None
    previous_tokens: Annotated[
        list[str], Field(description="tokens of the latest earlier attempts, oldest first")
    ] = []
    idle_since: Annotated[
        Timestamp | None, Field(description="last claim or event, or end of the last attempt; no renewal")
    ] = None
    not_before: Annotated[
        Timestamp | None, Field(description="a pending job that lost its lease is not picked earlier")
    ] = None


MODELS: dict[str, type[BaseModel]] = {"event": EventModel, "record": RecordModel, "state": StateModel}
