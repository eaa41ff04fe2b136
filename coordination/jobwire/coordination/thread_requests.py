"""What a job asks is said in its thread, and so is its answer, whichever way either came.

`inbox update --status blocked` asks a request whose message is there already; `jobwire ask`, a hook or a
worker on another host change the record alone, and the messages follow as a projection: their ids are made of
the request, so each is there once. A message tells its request by its correlation id.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from jobwire.coordination.message import MAX_SUMMARY, STORE_AGENT, NewMessage, first_line
from jobwire.coordination.sending import post
from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import check_agent
from jobwire.jobs.request_form import REQUEST, RESOLVED, RequestKind, request_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobwire.coordination.store import Transaction
    from jobwire.coordination.thread import InboxThread
    from jobwire.core.redaction import Redactor
    from jobwire.jobs.record import JobRecord
    from jobwire.jobs.requests import Request, Requests

QUESTION, ANSWER = "question", "answer"
# In the id of a request that an update of the thread asks: the next update settles it.
_OF_UPDATE = "inbox-"
_DIGITS = 20


def request_id_of(job_id: str, message_id: str) -> str:
    """Return the id of the request that this message of the job's thread asks."""
    return f"{job_id}.{_OF_UPDATE}{hashlib.sha256(message_id.encode()).hexdigest()[:_DIGITS]}"


def asking(
    record: JobRecord, new: NewMessage, redactor: Redactor, choices: Sequence[str] = ()
) -> dict[str, object]:
    """Return the data of the event by which an update asks what its message says."""
    text = new.summary or first_line(new.body)
    body = request_body(
        request_id_of(record.job_id, new.id),
        redactor.mask_secrets(text),
        kind=RequestKind.QUESTION,
        choices=choices,
        preview=redactor.mask_secrets(new.body) if new.body and new.body != text else None,
    )
    return {REQUEST: body, **settling(record)}


def settling(record: JobRecord) -> dict[str, object]:
    """Return the data that closes what earlier updates asked: whoever goes on needs it no more."""
    prefix = f"{record.job_id}.{_OF_UPDATE}"
    ids = [one.id for one in record.requests if one.id.startswith(prefix) and not one.settled]
    return {RESOLVED: ids} if ids else {}


def tell_requests(
    change: Transaction, thread: InboxThread, record: JobRecord, *, coming: NewMessage | None = None
) -> None:
    """Write what the job asks, and what it was answered, into its thread, unless it stands there.

    `coming` is the message that says one of it in this transaction: what came before is told before it.
    """
    requests: Requests = record.requests
    for request in requests:
        if not request.named:
            continue
        rows = change.rows("messages_about", {"correlation_id": request.id, "thread_id": thread.thread_id})
        said: dict[str, str] = dict(reversed(rows))
        if coming is not None and coming.correlation_id == request.id:
            said[coming.kind] = coming.id
        if QUESTION not in said:
            said[QUESTION] = _say(change, thread, request, QUESTION)
        if request.answered_by and ANSWER not in said:
            _say(change, thread, request, ANSWER, in_reply_to=said[QUESTION])


def _say(
    change: Transaction, thread: InboxThread, request: Request, kind: str, *, in_reply_to: str | None = None
) -> str:
    asks = kind == QUESTION
    worker = thread.assigned_to or STORE_AGENT
    sender = worker if asks else _agent(request.answered_by)
    to = (thread.created_by,) if asks else (worker,)
    text = request.text if asks else request.answer or ""
    digest = hashlib.sha256(f"{request.id}\0{request.attempt}".encode()).hexdigest()[:_DIGITS]
    new = NewMessage(
        sender,
        tuple(name for name in to if name not in {sender, STORE_AGENT}),
        kind=kind,
        id=f"{kind[0]}-{digest}",
        thread_id=thread.thread_id,
        run_id=thread.run_id,
        in_reply_to=in_reply_to,
        correlation_id=request.id,
        summary=first_line(text),
        body="" if text == first_line(text)[:MAX_SUMMARY] else text,
        payload=_asked(request) if asks else None,
    )
    return post(change, new).message_id


def _asked(request: Request) -> str:
    """Return what programs are told of a question; of an answer they need its words alone."""
    facts = {
        "request": request.id,
        "kind": str(request.kind),
        "choices": list(request.choices),
        "preview": request.preview,
        "tool": request.tool,
        "default": request.default,
    }
    return json.dumps({name: value for name, value in facts.items() if value}, ensure_ascii=False)


def _agent(name: str | None) -> str:
    """Return who answered as an agent's name: a user's name need not be one."""
    try:
        return check_agent(name or STORE_AGENT)
    except InvalidInputError:
        return STORE_AGENT
