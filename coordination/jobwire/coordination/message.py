"""A message: what a sender says, its bounds, and what tells the same message from another. Pure."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from jobwire.core.bounds import check_line, check_text
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_agent

KINDS = ("task", "progress", "question", "answer", "result", "control", "event")
PRIORITIES = ("high", "normal", "low")
CLASSES = ("turn", "interrupt")
EVERYBODY = "*"
# Who tells of what the store did by itself, and looks where nobody in particular does.
STORE_AGENT = "jobwire"
DEFAULT_RUN = "default"
MAX_ID = 64
MAX_SUMMARY = 1024
MAX_SUBJECT = 200
MAX_TYPE = 128
MAX_REFERENCE = 256
MAX_PATH = 4096
MAX_LIST = 1000
MAX_HOP = 8
# Of body and of payload, each: in the row, and at all.
MAX_INLINE = 4096
MAX_BULK = 16 * 1024 * 1024
# A signed 64 bit integer, and still a four-digit year.
MAX_MILLISECONDS = 253_402_300_799_999
_DEEPEST = 100


class Artifact(NamedTuple):
    """A file that a message names: where it is, what it is, and what it held."""

    path: str
    kind: str = "file"
    metadata: str = "{}"
    sha256: str | None = None


class NewMessage(NamedTuple):
    """What a sender says; the store adds number, time and place. `payload` is JSON text."""

    from_agent: str
    to: tuple[str, ...] = ()
    kind: str = "event"
    type: str = ""
    summary: str = ""
    body: str = ""
    payload: str | None = None
    id: str = ""
    thread_id: str | None = None
    subject: str = ""
    run_id: str = DEFAULT_RUN
    task_id: str | None = None
    in_reply_to: str | None = None
    correlation_id: str | None = None
    acceptance: tuple[str, ...] = ()
    risk: str = ""
    priority: str = "normal"
    artifacts: tuple[Artifact, ...] = ()
    message_class: str = "turn"
    expires_at_ms: int | None = None
    hop: int = 0


def check_message(new: NewMessage) -> NewMessage:
    """Return the message with its derived fields filled in; raises InvalidInputError naming the bad one."""
    check_agent(new.from_agent)
    for name in new.to:
        if name != EVERYBODY:
            check_agent(name)
    check_word("kind", new.kind, KINDS)
    check_word("priority", new.priority, PRIORITIES)
    check_word("class", new.message_class, CLASSES)
    check_line("type", new.type, MAX_TYPE, empty=True)
    check_line("risk", new.risk, MAX_TYPE, empty=True)
    check_line("id", new.id, MAX_ID, empty=True)
    check_line("run", new.run_id, MAX_REFERENCE)
    for field, value in (("task", new.task_id), ("correlation id", new.correlation_id)):
        if value is not None:
            check_line(field, value, MAX_REFERENCE)
    for field, value in (("thread", new.thread_id), ("message", new.in_reply_to)):
        if value is not None:
            check_line(field, value, MAX_ID)
    check_line("subject", new.subject, MAX_SUBJECT, empty=True)
    check_line("summary", new.summary, MAX_SUMMARY, empty=True)
    check_bulk("body", new.body)
    _check_lists(new)
    if not 0 <= new.hop <= MAX_HOP:
        raise InvalidInputError(f"hop is {new.hop}", hint=f"at most {MAX_HOP}: does it go round in circles?")
    if new.expires_at_ms is not None and not 0 < new.expires_at_ms <= MAX_MILLISECONDS:
        raise InvalidInputError(f"expiry is {new.expires_at_ms}", hint="milliseconds since 1970")
    if new.payload is not None:
        new = new._replace(payload=checked_payload(new.payload))
    summary = new.summary or first_line(new.subject or new.body)
    return new._replace(to=tuple(dict.fromkeys(new.to)), type=new.type or new.kind, summary=summary)


def _check_lists(new: NewMessage) -> None:
    for field, items in (
        ("recipients", new.to),
        ("acceptance", new.acceptance),
        ("artifacts", new.artifacts),
    ):
        if len(items) > MAX_LIST:
            raise InvalidInputError(f"{len(items)} {field}, {MAX_LIST} are allowed", code="too_large")
    for text in new.acceptance:
        check_text("acceptance", text, MAX_INLINE)
    for artifact in new.artifacts:
        check_line("path of the artifact", artifact.path, MAX_PATH)
        check_line("kind of the artifact", artifact.kind, MAX_TYPE)


def checked_payload(text: str) -> str:
    """Return JSON text in its short form; raises InvalidInputError for what is none."""
    check_bulk("payload", text)
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        short = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        short.encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the payload is not JSON: {error}", hint="quote it as one argument"
        ) from error
    if _depth(value) > _DEEPEST:
        raise InvalidInputError(f"the payload is nested deeper than {_DEEPEST}")
    return short


def check_bulk(field: str, text: str) -> None:
    """Refuse a body or payload beyond MAX_BULK bytes, and what UTF-8 cannot carry."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"the {field} is not valid UTF-8") from error
    if size > MAX_BULK:
        raise InvalidInputError(
            f"the {field} has {size} bytes, {MAX_BULK} are allowed",
            hint="put it into a file and name that with --artifact",
            code="too_large",
        )
    if "\0" in text:
        raise InvalidInputError(f"the {field} holds a NUL character", hint="is it a text?")


def first_line(text: str) -> str:
    """Return the first line that says something, without control characters, as a summary."""
    start = text[: 4 * MAX_SUMMARY]
    line = next((line.strip() for line in start.splitlines() if line.strip()), "")
    return "".join(char for char in line if char >= " " and not "\x7f" <= char <= "\x9f")[:MAX_SUMMARY]


def digest_of(new: NewMessage) -> str:
    """Return what two messages share that say the same: their id does not count, nor does their time."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and most messages get their id here

    said = new._replace(id="", artifacts=tuple(map(tuple, new.artifacts)))  # type: ignore[arg-type]  # for JSON
    return hashlib.sha256(json.dumps(said, ensure_ascii=False).encode()).hexdigest()


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a list: commas and bars part them."""
    return tuple(word.strip() for word in text.replace("|", ",").split(",") if word.strip())


def check_word(field: str, value: str, words: Iterable[str]) -> None:
    """Refuse what is none of the words (an enumeration's, too); raises InvalidInputError with them."""
    known = tuple(words)
    if value not in known:
        raise InvalidInputError(f"{field} is {value!r:.80}", hint=f"one of {', '.join(known)}")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            item
            for one in level
            if isinstance(one, (dict, list))
            for item in (one.values() if isinstance(one, dict) else one)
        ]
    return depth
