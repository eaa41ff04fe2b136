"""`data.request` and `data.resolved` of an event: how a job's request is written, and what no reader takes.

Pure.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from jobwire.core.bounds import MAX_SECONDS, check_text, seconds_fit
from jobwire.core.errors import InvalidInputError
from jobwire.core.terminal_text import disarmed, head_and_tail
from jobwire.core.topics import is_job_id
from jobwire.jobs.event import MAX_PAYLOAD

# Reserved in an event's data; ill-formed they are data like any other.
REQUEST, RESOLVED = "request", "resolved"
MAX_REQUESTS = 256
MAX_TEXT = 1024
MAX_PREVIEW = 2048
MAX_CHOICES = 16
MAX_CHOICE = 128
MAX_ANSWER = 4096
ID_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
REQUEST_ID = re.compile(ID_PATTERN[1:-1])
# Of a request that came without an id.
UNNAMED = "event-"


class RequestKind(StrEnum):
    """Why a person is asked."""

    PERMISSION = "permission"
    QUESTION = "question"
    TURN_END = "turn_end"
    IDLE = "idle"
    ERROR = "error"


def check_request_id(request_id: str) -> str:
    """Return the id of a request that one may make; raises InvalidInputError."""
    if REQUEST_ID.fullmatch(request_id) is None or request_id.startswith(UNNAMED) or is_job_id(request_id):
        raise InvalidInputError(
            f"not a request's id: {request_id[:80]!r}",
            hint=f"1 to 64 of A-Z a-z 0-9 _ . : -, not {UNNAMED}… and not the form of a job's id",
        )
    return request_id


def request_body(
    request_id: str,
    text_: str,
    *,
    kind: str = RequestKind.QUESTION,
    choices: Sequence[str] = (),
    default: str | None = None,
    scope: str | None = None,
    tool: str | None = None,
    digest: str | None = None,
    preview: str | None = None,
    timeout_seconds: float | None = None,
) -> dict[str, object]:
    """Return `data.request` of the event that asks; raises InvalidInputError for what no reader takes."""
    check_request_id(request_id)
    check_text("request", text_, MAX_PAYLOAD)
    check_text("preview", preview or "", MAX_PAYLOAD)
    if not text_.strip():
        raise InvalidInputError("the request is empty", hint="say what is asked")
    if default is not None and choices and default not in choices:
        # Only whoever asks is refused: readers take a request of another program as it is.
        raise InvalidInputError(
            f"the default {default[:80]!r} is none of the choices",
            hint=f"one of {', '.join(choices[:MAX_CHOICES])}, or no choices",
            code="invalid_input",
        )
    body: dict[str, object] = {
        "id": request_id,
        "kind": str(kind),
        "text": presentable(text_, MAX_TEXT),
        "choices": list(choices),
    }
    beside = {"default": default, "scope": scope, "tool": tool, "digest": digest}
    body |= {name: value for name, value in beside.items() if value is not None}
    if preview is not None:
        body["preview"] = presentable(preview, MAX_PREVIEW)
    if timeout_seconds is not None:
        body["timeout_seconds"] = timeout_seconds
    wrong = misfit_of(body)
    if wrong:
        raise InvalidInputError(f"the request's {wrong}", hint="`jobwire ask --help` says what it takes")
    return body


def presentable(text_: str, limit: int) -> str:
    """Return a stranger's text as people may be shown it: masked, disarmed, cut with head and tail."""
    from jobwire.core.redaction import Redactor  # noqa: PLC0415 - only where somebody asks

    # Masked before it is cut: half a secret would not be known as one.
    return head_and_tail(disarmed(Redactor({}).mask_secrets(text_)), limit)


def resolved_ids(data: Mapping[str, object]) -> frozenset[str]:
    """Return the ids in `data.resolved`, if it is a list of ids."""
    named = data.get(RESOLVED)
    if not isinstance(named, list) or len(named) > MAX_REQUESTS:
        return frozenset()
    if not all(isinstance(one, str) and REQUEST_ID.fullmatch(one) for one in named):
        return frozenset()
    return frozenset(named)


def misfit_of(body: Mapping[str, Any]) -> str:
    """Say what makes this no request; "" for one."""
    try:
        check_request_id(body.get("id", ""))
    except (InvalidInputError, TypeError):
        return "id is not one"
    if not isinstance(body.get("kind"), str) or body["kind"] not in frozenset(RequestKind):
        return f"kind is not one of {', '.join(RequestKind)}"
    if not isinstance(body.get("text"), str):
        return "text is missing"
    for name in ("default", "scope", "tool", "digest", "preview"):
        if not isinstance(body.get(name, ""), str):
            return f"{name} is not a text"
    if len(body.get("default", "")) > MAX_ANSWER:
        return f"default has more than {MAX_ANSWER} characters"
    if body.get("timeout_seconds") is not None and not seconds_fit(body["timeout_seconds"]):
        return f"timeout is not a positive number of seconds up to {MAX_SECONDS:.0f}"
    return _misfit_choices(body.get("choices", []))


def _misfit_choices(choices: object) -> str:
    if not isinstance(choices, list) or len(choices) > MAX_CHOICES:
        return f"choices are not a list of at most {MAX_CHOICES}"
    if not all(isinstance(one, str) and 0 < len(one) <= MAX_CHOICE for one in choices) or any(
        disarmed(one) != one for one in choices
    ):
        return f"choices are not printable texts of at most {MAX_CHOICE} characters"
    if any("\n" in one for one in choices) or len(set(choices)) < len(choices):
        return "choices are not different, each on one line"
    return ""
