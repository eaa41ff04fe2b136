"""What a job asks of a person: requests, their answers, and which of both may follow. Pure.

    open ──► answered ──► applied        its answer, and the worker's word that it has it
      ├────► resolved                    settled where the worker runs (`data.resolved`)
      ├────► expired                     nobody answered in time
      └────► void   ◄── answered         the job, or the attempt that asked, ended

Several may be open at once; each is closed by its own resolution only. A `permission_required` without a
request is one that nobody can answer from here: the job's next event closes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from jobwire.core.bounds import MAX_NAME, check_line, check_text
from jobwire.core.clock import epoch, utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError, NotFoundError
from jobwire.core.fields import FLAG, STAMP, count, one_of, optional, pattern, text, texts
from jobwire.jobs.event import Event
from jobwire.jobs.request_form import (
    ID_PATTERN,
    MAX_ANSWER,
    MAX_PREVIEW,
    MAX_REQUESTS,
    MAX_TEXT,
    REQUEST,
    REQUEST_ID,
    UNNAMED,
    RequestKind,
    misfit_of,
    presentable,
    resolved_ids,
)

# Settled ones that a record keeps, so that whoever asks again gets the same answer: the latest.
KEPT_SETTLED = 32


class RequestState(StrEnum):
    """How far a request is."""

    OPEN = "open"
    ANSWERED = "answered"
    APPLIED = "applied"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    VOID = "void"


_UNSETTLED = frozenset({RequestState.OPEN, RequestState.ANSWERED})


class Request(NamedTuple):
    """One request as the record holds it; its texts are masked and harmless to show.

    `seq` and `attempt` are of the event that asked. `expires_at`: nobody can answer it later. `scope` is
    what an answer for always stands for.
    """

    id: Annotated[str, pattern(REQUEST_ID.fullmatch, ID_PATTERN, "a request's id")]
    kind: Annotated[RequestKind, one_of(RequestKind, RequestKind)]
    text: Annotated[str, text(MAX_TEXT)]
    seq: Annotated[int, count(1)]
    attempt: Annotated[int, count(1)]
    asked_at: Annotated[str, STAMP]
    state: Annotated[RequestState, one_of(RequestState, RequestState)] = RequestState.OPEN
    choices: Annotated[tuple[str, ...], texts()] = ()
    default: Annotated[str | None, optional(text(MAX_ANSWER))] = None
    scope: Annotated[str | None, optional(text(MAX_TEXT))] = None
    tool: Annotated[str | None, optional(text(MAX_NAME))] = None
    digest: Annotated[str | None, optional(text(MAX_NAME))] = None
    preview: Annotated[str | None, optional(text(MAX_PREVIEW))] = None
    expires_at: Annotated[str | None, optional(STAMP)] = None
    answer: Annotated[str | None, optional(text(MAX_ANSWER))] = None
    always: Annotated[bool, FLAG] = False
    answered_by: Annotated[str | None, optional(text(MAX_NAME))] = None
    answered_through: Annotated[str | None, optional(text(MAX_NAME))] = None
    answered_at: Annotated[str | None, optional(STAMP)] = None
    settled_at: Annotated[str | None, optional(STAMP)] = None

    @property
    def named(self) -> bool:
        """Tell whether an answer reaches whoever asked; else only the job's next event closes it."""
        return not self.id.startswith(UNNAMED)

    @property
    def settled(self) -> bool:
        """Tell whether nothing becomes of it any more."""
        return self.state not in _UNSETTLED


class Answer(NamedTuple):
    """What somebody says to a request: `always` for its whole scope; `by` whom, `through` what."""

    text: str
    by: str
    through: str
    always: bool = False


Requests = tuple[Request, ...]


def is_open(requests: Iterable[Request]) -> bool:
    """Tell whether somebody is waited for: the record's `attention`."""
    return any(one.state is RequestState.OPEN for one in requests)


def open_requests(requests: Iterable[Request]) -> list[Request]:
    """Return those that wait for somebody, in the order in which they were asked."""
    return [one for one in requests if one.state is RequestState.OPEN]


def unapplied(requests: Iterable[Request]) -> list[Request]:
    """Return those that are answered and whose worker has not said that it has the answer."""
    return [one for one in requests if one.state is RequestState.ANSWERED]


def find(requests: Iterable[Request], request_id: str) -> Request | None:
    """Return the request of this id."""
    return next((one for one in requests if one.id == request_id), None)


def after_event(requests: Requests, event: Event, *, attempt: int, now: float) -> Requests:
    """Return the requests after one accepted event, which is not terminal; `now` is epoch seconds."""
    asks = event.event == "permission_required"
    if not requests and not asks:
        return requests
    stamp = utc_timestamp(now)
    done = resolved_ids(event.data)
    kept = tuple(_closed(one, stamp) if one.id in done else one for one in requests if one.named)
    asked = _asked(event, attempt, now) if asks else None
    if asked is not None:
        # Of an earlier attempt nobody waits; of this one a request is asked once.
        kept = tuple(one for one in kept if one.id != asked.id or one.attempt == attempt)
        if find(kept, asked.id) is None and sum(not one.settled for one in kept) < MAX_REQUESTS:
            kept = (*kept, asked)
    return _bounded(kept)


def answered(requests: Requests, request_id: str, answer: Answer, now: float) -> Requests:
    """Return the requests with an answer to one: the first answer is the answer.

    Raises ConflictError with what became of the request where it is not open, NotFoundError, and
    InvalidInputError for what it does not take.
    """
    asked = find(requests, request_id)
    if asked is None:
        raise NotFoundError(
            f"no request {request_id[:80]!r}",
            hint="`jobwire feed` shows what is open",
            code="request_not_found",
        )
    _check_open(asked, now)
    _check_answer(asked, answer)
    stamp = utc_timestamp(now)
    new = asked._replace(
        state=RequestState.ANSWERED,
        answer=answer.text,
        always=answer.always,
        answered_by=answer.by,
        answered_through=answer.through,
        answered_at=stamp,
    )
    return tuple(new if one is asked else one for one in requests)


def expired(requests: Requests, until: float, now: float) -> Requests:
    """Return the requests, those expired that nobody answered by `until`; the same ones for none."""
    late = [one.id for one in requests if one.state is RequestState.OPEN and _is_late(one, until)]
    if not late:
        return requests
    stamp = utc_timestamp(now)
    return _bounded(
        tuple(
            one._replace(state=RequestState.EXPIRED, settled_at=stamp) if one.id in late else one
            for one in requests
        )
    )


def next_expiry(requests: Iterable[Request]) -> float | None:
    """Return the epoch second at which the first open request expires."""
    ends = [one.expires_at for one in requests if one.state is RequestState.OPEN and one.expires_at]
    return min((_epoch(end) for end in ends), default=None)


def voided(requests: Requests, now: float) -> Requests:
    """Return the requests after the end of the job or of the attempt that asked."""
    stamp = utc_timestamp(now)
    return _bounded(
        tuple(
            one if one.settled else one._replace(state=RequestState.VOID, settled_at=stamp)
            for one in requests
            if one.named
        )
    )


def seconds_to_answer(request: Request) -> float | None:
    """Return for how long the answer was waited for; None where there is none."""
    if request.answered_at is None:
        return None
    return max(0.0, _epoch(request.answered_at) - _epoch(request.asked_at))


def _closed(one: Request, stamp: str) -> Request:
    if one.state is RequestState.OPEN:
        late = one.expires_at is not None and one.expires_at <= stamp
        state = RequestState.EXPIRED if late else RequestState.RESOLVED
    elif one.state is RequestState.ANSWERED:
        state = RequestState.APPLIED
    else:
        return one
    return one._replace(state=state, settled_at=stamp)


def _asked(event: Event, attempt: int, now: float) -> Request:
    body = event.data.get(REQUEST)
    common: dict[str, Any] = {"seq": event.seq, "attempt": attempt, "asked_at": utc_timestamp(now)}
    if not isinstance(body, dict) or misfit_of(body):
        shown = presentable(event.detail, MAX_TEXT)
        return Request(f"{UNNAMED}{event.seq}", RequestKind.PERMISSION, shown, **common)
    seconds = body.get("timeout_seconds")
    return Request(
        body["id"],
        RequestKind(body["kind"]),
        presentable(body["text"], MAX_TEXT),
        choices=tuple(body.get("choices", ())),
        default=body.get("default"),
        scope=_shown(body, "scope", MAX_TEXT),
        tool=_shown(body, "tool", MAX_NAME),
        digest=_shown(body, "digest", MAX_NAME),
        preview=_shown(body, "preview", MAX_PREVIEW),
        expires_at=None if seconds is None else utc_timestamp(now + seconds),
        **common,
    )


def _shown(body: Mapping[str, Any], name: str, limit: int) -> str | None:
    value = body.get(name)
    return None if value is None else presentable(value, limit)


def _check_open(asked: Request, now: float) -> None:
    """Refuse what was settled, and whom no answer reaches."""
    if not asked.named:
        raise InvalidInputError(
            "whoever asked gave no id and waits for no answer from here",
            hint="answer where the job runs; its next event closes this",
        )
    state = RequestState.EXPIRED if asked.state is RequestState.OPEN and _is_late(asked, now) else asked.state
    if state is RequestState.OPEN:
        return
    who = f" by {asked.answered_by} at {asked.answered_at}" if asked.answered_by else ""
    words = "answered" if asked.answered_by else str(state)
    raise ConflictError(
        f"request {asked.id} is already {words}{who}",
        hint="the first answer is the answer; this one is not carried out",
        code="not_expected",
        request=asked.id,
        state=str(state),
        answered_by=asked.answered_by,
        answered_at=asked.answered_at,
    )


def _check_answer(asked: Request, answer: Answer) -> None:
    check_text("answer", answer.text, MAX_ANSWER)
    check_line("name of who answers", answer.by, MAX_NAME)
    check_line("way of the answer", answer.through, MAX_NAME)
    if not answer.text:
        raise InvalidInputError("the answer is empty", hint=_takes(asked))
    if (
        asked.kind is RequestKind.PERMISSION
        and asked.choices
        and choice_in(answer.text, asked.choices)[0] not in asked.choices
    ):
        raise InvalidInputError("the answer is none of the choices", hint=_takes(asked))
    if answer.always and asked.scope is None:
        raise InvalidInputError(
            f"request {asked.id} has no scope that an answer could be for always", hint="leave out --always"
        )


def choice_in(answer: str, choices: Sequence[str]) -> tuple[str, str]:
    """Return the choice that an answer makes, and the words that follow it: `deny: use the copy`."""
    if answer in choices:
        return answer, ""
    made = [one for one in choices if answer.startswith(f"{one}:")]
    choice = max(made, key=len, default="")
    return choice, answer[len(choice) + 1 :].strip() if choice else answer


def _takes(asked: Request) -> str:
    if not asked.choices:
        return "give a text"
    more = "; words for whoever asked follow a colon" if asked.kind is RequestKind.PERMISSION else ""
    return f"one of: {', '.join(asked.choices)}{more}"


def _is_late(one: Request, until: float) -> bool:
    return one.expires_at is not None and _epoch(one.expires_at) <= until


def _epoch(stamp: str) -> float:
    try:
        return epoch(stamp)
    except ValueError:
        return float("inf")


def _bounded(requests: Requests) -> Requests:
    """Leave out the oldest of the settled: at most MAX_REQUESTS stay, few of them settled."""
    settled = [one.id for one in requests if one.settled]
    room = min(KEPT_SETTLED, MAX_REQUESTS - (len(requests) - len(settled)))
    gone = frozenset(settled[: max(0, len(settled) - max(0, room))])
    return tuple(one for one in requests if one.id not in gone) if gone else requests
