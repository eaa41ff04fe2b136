"""Purging: retained messages of finished jobs are cleared, old finished jobs removed, each by its age.

On MQTT 5 the broker drops retained messages by itself (message expiry); a 3.1.1 broker would keep
them for ever. The ages stand in the table `[registry]` of jobwire.toml, under the command line.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import NotFoundError, StorageError
from jobwire.core.setting_tables import TABLES, check_value
from jobwire.core.topics import Topics
from jobwire.jobs.fact import Fact
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import encode_snapshot
from jobwire.journal.retention import RetentionPolicy
from jobwire.registry.pending import CLEARED
from jobwire.registry.queue import JobQueue
from jobwire.registry.telling import last_facts, leave_facts
from jobwire.storage.failures import storage_failure
from jobwire.storage.settings_file import read_settings
from jobwire.storage.user import user_name

_DAY = 86400.0
_MIB = 1 << 20
_NO_LIMIT = 1 << 62
_SETTINGS = {setting.name: setting for setting in TABLES["registry"]}
_PAGE = 200
# Nobody needs a finished job's lock for longer.
_LOCK_SECONDS = 1.0
_log = logging.getLogger("jobwire.registry")

Clear = Callable[[str], None]
Send = Callable[[str, bytes], None]


class RetentionRules(NamedTuple):
    """Ages in seconds since a job finished; None keeps for ever. And what the journal keeps."""

    retained_seconds: float | None = 7 * _DAY
    record_seconds: float | None = 90 * _DAY
    journal: RetentionPolicy = RetentionPolicy()


class Purged(NamedTuple):
    """How many jobs' retained messages were cleared, and how many jobs were removed."""

    cleared: int
    removed: int


class Purge:
    """Purges one home. `clear(topic)` publishes the empty retained message (MQTT 5, 3.3.1.3).

    `send(topic, payload)` publishes what nobody needs later: the state that says that the job was removed.
    """

    def __init__(
        self,
        *,
        queue: JobQueue,
        topics: Topics,
        clear: Clear,
        rules: RetentionRules,
        send: Send = lambda _topic, _payload: None,
        by: str = "",
    ) -> None:
        self._queue = queue
        self._store = queue.store
        self._topics = topics
        self._clear = clear
        self._send = send
        self._rules = rules
        self._by = by or user_name()

    def run(self, stop: Callable[[], bool] = lambda: False) -> Purged:
        """Purge everything that is due. Raises TransportError where the broker does not answer.

        A removed job is cleared and told of first: a crash or an absent broker leaves it for the next time.
        """
        cleared = self._each(self._rules.retained_seconds, self._clear_retained, stop, cleared=False)
        removed = self._each(self._rules.record_seconds, self._remove, stop, cleared=True)
        return Purged(cleared, removed)

    def _each(
        self,
        age_seconds: float | None,
        action: Callable[[str], bool],
        stop: Callable[[], bool],
        *,
        cleared: bool,
    ) -> int:
        if age_seconds is None:
            return 0
        before = utc_timestamp(self._store.clock.now() - age_seconds)
        done = 0
        after = ""
        while not stop():
            with self._queue.index() as index:
                page = index.finished_before(before, after=after, limit=_PAGE, cleared=cleared)
            if not page:
                break
            after = page[-1]
            done += sum(self._one(action, job_id) for job_id in page if not stop())
        return done

    def _one(self, action: Callable[[str], bool], job_id: str) -> bool:
        """Do it, or leave a job that is locked or cannot be read for the next time."""
        try:
            return action(job_id)
        except StorageError as error:
            _log.warning("job %s is not purged: %s", job_id, error)
            return False

    def _clear_retained(self, job_id: str) -> bool:
        """Clear the job's topics and note it in the record, so that it is done once."""
        record = self._read(job_id)
        if record is None or not record.terminal:
            return False
        topics = [self._topics.events(job_id), self._topics.state(job_id)]
        if record.answers_n:
            topics.append(self._topics.answer(job_id))
        for topic in topics:
            self._clear(topic)
        with (
            contextlib.suppress(NotFoundError),
            self._store.locked(job_id, deadline_seconds=_LOCK_SECONDS) as locked,
        ):
            extra = {**locked.record.extra, CLEARED: True}
            locked.replace(locked.record._replace(extra=extra), cause="purge")
            self._store.touch(job_id)
        return True

    def _remove(self, job_id: str) -> bool:
        """Remove the job: history and outbox first, the record last, so that a crash is repeated."""
        record = self._read(job_id)
        if record is None or not record.terminal:
            return False
        if not record.extra.get(CLEARED):
            self._clear_retained(job_id)
        store = self._store
        try:
            with store.locked(job_id, deadline_seconds=_LOCK_SECONDS) as locked:
                facts = last_facts(store, locked.record, by=self._by)
                self._tell(locked.record, facts)
                leave_facts(store, facts)
                folder = store.log_dir(job_id)
                while os.path.lexists(folder):
                    # Somebody else removes a file of it meanwhile: the others are still to go.
                    with contextlib.suppress(FileNotFoundError):
                        shutil.rmtree(folder)
                old = store.outbox_path(job_id)
                for path in (store.sent_path(job_id), old, f"{old}.damaged"):
                    store.files.unlink(path)
                store.touch(job_id)
                store.files.unlink(store.record_path(job_id))
                store.touch(job_id)
                # Whoever waits for this lock notices that its file is gone (locks.try_acquire).
                for name in (job_id, f"{job_id}.send"):
                    store.files.unlink(store.lock_path(name))
        except NotFoundError:
            return False
        except OSError as error:
            raise storage_failure("purge", store.record_path(job_id), error) from error
        return True

    def _tell(self, record: JobRecord, facts: Sequence[Fact]) -> None:
        """Send the job's last state. What a person typed is not in it: that was told, paths cut, before."""
        said = [fact._replace(cause="") for fact in facts]
        payload = encode_snapshot(record._replace(detail=""), confirmed_seq=record.confirmed_seq, facts=said)
        self._send(self._topics.state(record.job_id), payload)

    def _read(self, job_id: str) -> JobRecord | None:
        try:
            return self._store.get(job_id)
        except NotFoundError:
            return None


def load_rules(home: Path, *, retained_days: float | None, record_days: float | None) -> RetentionRules:
    """Return the rules; days that are given go before the table. Raises ConfigError naming the key.

    0 keeps for ever, or without a limit.
    """
    given = {"keep_retained_days": retained_days, "keep_records_days": record_days}
    said = {key: value for key, value in given.items() if value is not None}
    for key, value in said.items():
        check_value(_SETTINGS[key], value, "the command line")
    table = {**read_settings(home).tables.get("registry", {}), **said}
    numbers = {key: float(str(value)) for key, value in table.items()}
    rules = RetentionRules()
    if (days := numbers.get("keep_retained_days")) is not None:
        rules = rules._replace(retained_seconds=days * _DAY or None)
    if (days := numbers.get("keep_records_days")) is not None:
        rules = rules._replace(record_seconds=days * _DAY or None)
    return rules._replace(journal=_journal_limits(numbers))


def _journal_limits(numbers: dict[str, float]) -> RetentionPolicy:
    """Return how much of the journal is kept of what every consumer has read, and of what not."""
    limits = RetentionPolicy()
    if (days := numbers.get("keep_journal_days")) is not None:
        limits = limits._replace(keep_seconds=days * _DAY or float("inf"))
    if (mib := numbers.get("keep_journal_mib")) is not None:
        limits = limits._replace(keep_bytes=int(mib * _MIB) or _NO_LIMIT)
    if (days := numbers.get("keep_unread_days")) is not None:
        limits = limits._replace(lag_seconds=days * _DAY or float("inf"))
    if (mib := numbers.get("keep_unread_mib")) is not None:
        limits = limits._replace(lag_bytes=int(mib * _MIB) or _NO_LIMIT)
    return limits
