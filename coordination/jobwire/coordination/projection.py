"""What jobs say of their threads: the store is brought up to the records, and crashes between are mended.

A change that crosses both stores is (a) a row that is `prepared` and invisible, (b) the record's change with
the row's op id in its line of the history, (c) one transaction that publishes the row; all under the record's
lock. Whoever takes that lock next finds a row that was left, and finishes: published where its line is there,
else dropped.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.handling.tries import Handled, end_try
from jobwire.coordination.lease_file import LeaseToken
from jobwire.coordination.marks import boot, looked_in, marked, unmark
from jobwire.coordination.message import STORE_AGENT, Artifact, NewMessage, check_message, digest_of
from jobwire.coordination.reading import find_thread, thread_of_job
from jobwire.coordination.routing.route import copied, route_end
from jobwire.coordination.sending import Bulk, Posted, move, write
from jobwire.coordination.thread import ENDED, InboxThread, ThreadStatus, status_of
from jobwire.coordination.thread_requests import tell_requests
from jobwire.core.errors import InvalidInputError, JobwireError, NotFoundError
from jobwire.core.topics import check_agent, is_job_id
from jobwire.jobs import fold
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import thread_of
from jobwire.registry.store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobwire.coordination.store import CoordinationStore, Transaction
    from jobwire.jobs.record import JobRecord
    from jobwire.registry.store import LockedRecord

_BUSY_SECONDS = 1.0
_LOOKS = 3


class Prepared(NamedTuple):
    """A message that waits for its job's change."""

    op_id: str
    thread_id: str
    history: int
    new: NewMessage
    large: Bulk
    digest: str
    cancels: bool
    handled: Handled | None = None


def _on_stderr(text: str) -> None:
    sys.stderr.write(f"jobwire: warning: {text}\n")


def bring_up(
    store: CoordinationStore,
    tell: Callable[[str], object] = _on_stderr,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the threads up to the jobs that were marked, and to all after a start of the machine.

    What cannot be read is told, and looked at again by the next, as is the rest where `stop` says so.
    """
    jobs = set(filter(is_job_id, marked(store)))
    jobs.update(row[0] for row in store.rows("prepared_jobs"))
    this_boot = boot()
    if anew := this_boot != looked_in(store):
        jobs.update(row[0] for row in store.rows("working_jobs"))
    records = RecordStore(store.home, clock=store.clock)
    for job_id in sorted(jobs):
        if stop():
            return
        try:
            _bring_up(store, records, job_id)
        except NotFoundError:
            continue  # purged
        except JobwireError as error:
            records.mark_thread(job_id)
            tell(f"job {job_id} is looked at later: {error.message}")
    if anew:
        with store.changing() as change:
            change.execute("set_boot", {"boot": this_boot})


def _bring_up(store: CoordinationStore, records: RecordStore, job_id: str) -> None:
    unmark(store, job_id)
    for _ in range(_LOOKS):
        if store.rows("prepared_of_job", {"job_id": job_id}):
            with records.locked(job_id, deadline_seconds=_BUSY_SECONDS) as locked:
                settle(store, locked)
                with store.changing() as change:
                    project(change, locked.record)
                unmark(store, job_id)
            return
        record = records.get(job_id)
        with store.changing() as change:
            # Whoever changes the record prepares first: here that is seen, if it came before our look.
            waits = change.row("prepared_of_job", {"job_id": job_id}) is not None
            thread = None if waits else project(change, record)
        if not waits:
            if thread is not None and not record.terminal and is_planned(store, thread):
                _end_unwanted(store, records, job_id)
            return


def _end_unwanted(store: CoordinationStore, records: RecordStore, job_id: str) -> None:
    with records.locked(job_id, deadline_seconds=_BUSY_SECONDS) as locked:
        end_unwanted(store, locked)
        unmark(store, job_id)


def end_unwanted(store: CoordinationStore, locked: LockedRecord) -> str:
    """Cancel a job whose task had ended before the task knew of it; return why, "" for any other job."""
    from jobwire.coordination.tasks.following import unwanted  # noqa: PLC0415 - as in `project`

    thread = thread_of_job(store, locked.record.job_id)
    why = unwanted(store, thread) if thread is not None else ""
    if why and not locked.record.terminal:
        locked.replace(fold.cancel(locked.record, store.clock.now(), why), cause=why)
        with store.changing() as change:
            project(change, locked.record)
    return why


def cross(
    store: CoordinationStore,
    locked: LockedRecord,
    new: NewMessage,
    large: Bulk,
    change_record: Callable[[], object],
    *,
    also: Callable[[Transaction, Posted], object] = lambda _change, _posted: None,
    cancels: bool = False,
    digest: str = "",
    handled: Handled | None = None,
) -> Posted:
    """Say a message, which has an id, with what `change_record` does: steps (a) to (c); both or neither.

    `digest` is of what its sender said, where `new` says more; `also` belongs to the last transaction. The
    caller holds the record's lock and has settled it.
    """
    audit = RecordStore(store.home).audit(locked.record.job_id)
    history = os.path.getsize(audit.events_path) if os.path.exists(audit.events_path) else 0
    prepared = Prepared(
        new.id, new.thread_id or "", history, new, large, digest or digest_of(new), cancels, handled
    )
    short = new._replace(body=large.body, payload=large.payload)
    said = {
        "new": short._asdict(),
        "body_ref": large.body_ref,
        "payload_ref": large.payload_ref,
        "digest": prepared.digest,
        "cancels": cancels,
        "handled": handled,
    }
    with store.changing() as change:
        change.execute(
            "prepare",
            {
                "op_id": new.id,
                "job_id": locked.record.job_id,
                "thread_id": prepared.thread_id,
                "history": history,
                "message": json.dumps(said, ensure_ascii=False),
                "now_ms": change.now_ms,
            },
        )
    try:
        change_record()
    except JobwireError:
        settle(store, locked)
        raise
    with store.changing() as change:
        posted = _publish(change, prepared, locked.record)
        also(change, posted)
    unmark(store, locked.record.job_id)
    return posted


def _publish(change: Transaction, prepared: Prepared, record: JobRecord) -> Posted:
    """Step (c): what was prepared is said, and the thread is as its job."""
    thread = thread_of_job(change, record.job_id) or _adopted(change, record)
    if thread is not None:
        tell_requests(change, thread, record, coming=prepared.new)
    new = prepared.new if thread is None else copied(change, prepared.new, thread)
    posted = write(change, new, prepared.large, prepared.digest)
    again = False
    if prepared.handled is not None:
        # The runs of a task are counted there, and it is sent anew.
        planned = thread is not None and is_planned(change, thread)
        good = planned or record.status is Status.COMPLETED
        again = end_try(change, prepared.handled, good=good, reason=new.summary)
    after = project(change, record, told=True, again=again)
    # A thread that was opened again for another try has not said its last word.
    route_end(change, posted, new, prepared.large, final=after is not None and after.ended)
    change.execute("remove_prepared", {"op_id": prepared.op_id})
    return posted


def settle(store: CoordinationStore, locked: LockedRecord) -> None:
    """Finish what a crash left of this job; the caller holds its record's lock."""
    for row in store.rows("prepared_of_job", {"job_id": locked.record.job_id}):
        prepared = _prepared(store, row)
        cause = _cause(store, locked.record.job_id, prepared)
        if cause is not None and prepared.cancels and not locked.record.terminal:
            # Its line is there, and the record is behind it.
            after = fold.cancel(locked.record, store.clock.now(), cause)
            locked.replace(after, cause=cause, op=prepared.op_id)
        with store.changing() as change:
            if cause is not None:
                _publish(change, prepared, locked.record)
            else:
                change.execute("remove_prepared", {"op_id": prepared.op_id})


def project(
    change: Transaction,
    record: JobRecord,
    *,
    incarnation: str = "",
    told: bool = False,
    again: bool = False,
) -> InboxThread | None:
    """Show the job's thread as its record says; None where it has none, or has another job by now.

    The end of a job gets its receipt, unless the worker has `told` of it. Where its work is to be tried
    `again`, the thread waits for its next job instead of having failed.
    """
    found = thread_of_job(change, record.job_id) or _adopted(change, record)
    if found is None:
        return None
    status = ThreadStatus.PENDING if again else status_of(record)
    owner = record.lease.owner if record.lease is not None else None
    assigned = found.assigned_to
    if status == ThreadStatus.PENDING:
        assigned = found.addressed_to
    elif owner is not None and _is_agent(owner):
        assigned = owner
    _put_lease(change, found, record, incarnation)
    tell_requests(change, found._replace(assigned_to=assigned), record)
    if (status, assigned, record.job_id) == (found.status, found.assigned_to, found.job_id):
        return found
    if status in ENDED and found.status not in ENDED and not told:
        _tell_end(change, found, record)
    # What a task's job does is said of the job; of the task its own events tell.
    planned = is_planned(change, found)
    about = {"job_id": record.job_id, "attempt": record.attempt, "seq": record.last_seq, "plan": planned}
    number = change.event(
        f"thread_{status}",
        source=owner or STORE_AGENT,
        thread_id=found.thread_id,
        run_id=found.run_id,
        task_id=found.task_id,
        summary=record.detail[:1024],
        payload=about,
    )
    change.agents.update(filter(None, {found.created_by, assigned, found.assigned_to}))
    moved = found._replace(
        status=status,
        assigned_to=assigned,
        job_id=None if again else record.job_id,
        jobs=max(found.jobs, 1) if found.job_id is not None else found.jobs + 1,
        work=1,
        updated_at=change.at,
        changed=number,
    )
    move(change, moved)
    if not planned:
        return moved
    from jobwire.coordination.tasks.following import follow  # noqa: PLC0415 - most threads are no task's

    return follow(change, moved, record)


def job_key(reader: CoordinationStore | Transaction, thread: InboxThread) -> str:
    """Return the idempotency key of the thread's next job."""
    if is_planned(reader, thread):
        return f"task:{thread.run_id}:{thread.task_id}:{thread.jobs + 1}"
    return f"thread:{thread.thread_id}:{thread.jobs + 1}"


def is_planned(reader: CoordinationStore | Transaction, thread: InboxThread) -> bool:
    """Tell whether the thread works on a task of a plan."""
    values = {"run_id": thread.run_id, "task_id": thread.task_id, "thread_id": thread.thread_id}
    return bool(thread.task_id and reader.rows("is_planned", values))


def _adopted(change: Transaction, record: JobRecord) -> InboxThread | None:
    """Return the thread for which the job was made, where a crash came before the thread knew of it."""
    thread_id = thread_of(record)
    found = find_thread(change, thread_id) if thread_id is not None else None
    if found is None or found.job_id is not None:
        return None
    return found if record.idempotency_key == job_key(change, found) else None


def _put_lease(change: Transaction, thread: InboxThread, record: JobRecord, incarnation: str) -> None:
    if record.lease is None:
        change.execute("end_lease", {"thread_id": thread.thread_id, "at": change.at})
        return
    change.execute(
        "put_lease",
        {
            "thread_id": thread.thread_id,
            "agent_id": record.lease.owner,
            "lease_token": str(LeaseToken(record.job_id, record.attempt)),
            "claimed_at": change.at,
            "expires_at": record.lease.expires_at,
            "incarnation": incarnation,
        },
    )


def _tell_end(change: Transaction, thread: InboxThread, record: JobRecord) -> None:
    """Write the receipt of a job that ended elsewhere than in the inbox: there once for each end."""
    message_id = f"r-{record.job_id}-{record.attempt}-{record.last_seq}"
    data = (record.result or {}).get("data")
    op_id = data.get("op") if isinstance(data, dict) else None
    if any(change.row("message", {"id": one}) for one in (message_id, op_id) if isinstance(one, str)):
        return
    worker = thread.assigned_to or STORE_AGENT
    new = check_message(
        NewMessage(
            worker,
            (thread.created_by,) if thread.created_by not in {worker, STORE_AGENT} else (),
            kind="result",
            type="receipt",
            id=message_id,
            summary=record.detail[:1024] or f"job {record.job_id} is {record.status}",
            payload=json.dumps({"job_id": record.job_id, "status": str(record.status)}),
            thread_id=thread.thread_id,
        )
    )
    write(change, copied(change, new, thread), Bulk.inline(new), digest_of(new))


def _cause(store: CoordinationStore, job_id: str, prepared: Prepared) -> str | None:
    """Return what the history says where the change was made, None where it was not."""
    for line, _ in RecordStore(store.home).audit(job_id).since(prepared.history):
        event = line.get("event")
        data = event.get("data") if isinstance(event, dict) else None
        said = data.get("op") if isinstance(data, dict) else line.get("op")
        if said == prepared.op_id and line.get("verdict", "accepted") == "accepted":
            return str(line.get("cause", ""))
    return None


def _prepared(store: CoordinationStore, row: tuple[str, str, int, str]) -> Prepared:
    op_id, thread_id, history, text = row
    said = json.loads(text)
    fields = said["new"]
    for name in ("to", "acceptance"):
        fields[name] = tuple(fields[name])
    fields["artifacts"] = tuple(Artifact(*one) for one in fields["artifacts"])
    new = NewMessage(**fields)
    large = Bulk(new.body, said["body_ref"], new.payload, said["payload_ref"], BlobFolder(store.home))
    kept = said.get("handled")
    handled = None if kept is None else Handled.of_json(kept)
    return Prepared(op_id, thread_id, history, new, large, said["digest"], said["cancels"], handled)


def _is_agent(name: str) -> bool:
    try:
        check_agent(name)
    except InvalidInputError:
        return False
    return True
