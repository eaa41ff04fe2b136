"""The examination after the storm: was every promise kept? Each breach is one sentence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from jobwire.jobs.admission import ACCEPTED, Reason
from jobwire.jobs.lifecycle import Status
from jobwire.registry.store import RecordStore
from tests.faults.storm.drivers import Job
from tests.faults.storm.ledger import Arrival, Ledger
from tests.faults.storm.plan import Fault
from tests.faults.storm.strikes import Struck
from tests.faults.storm.watchers import Watched

_OUTCOMES = {"completed": ("completed", 0), "error": ("error", 1), "cancelled": ("cancelled", 3)}


class Breaches(NamedTuple):
    """What was promised and not kept; all empty after a good storm."""

    lost: list[str]
    doubled: list[str]
    damaged: list[str]
    records: list[str]
    histories: list[str]
    verdicts: list[str]

    @property
    def any(self) -> bool:
        """Tell whether there is one."""
        return any(self)


def examine(
    jobs: Sequence[Job],
    *,
    acknowledged: Mapping[str, set[int]],
    ledger: Ledger,
    store: RecordStore,
    watched: Iterable[Watched],
) -> Breaches:
    """Compare what was acknowledged with journal, records, histories and verdicts."""
    breaches = Breaches([], [], [], [], [], [])
    for job in jobs:
        said = acknowledged.get(job.job_id, set())
        breaches.lost.extend(
            f"{job.job_id} ({job.plan.voice}) seq {seq} was acknowledged and is not in the journal"
            for seq in sorted(said - _in_journal(job, ledger))
        )
        breaches.doubled.extend(
            f"{job.job_id} seq {seq} was accepted {count} times"
            for seq, count in ledger.accepted[job.job_id].items()
            if count + (seq in ledger.late[job.job_id]) > 1
        )
        breaches.records.extend(_record(job, said, store))
        breaches.histories.extend(_history(job, said, store))
    breaches.damaged.extend(
        f"{a.job_id} seq {a.seq} is not what was said" for a in ledger.arrivals if not a.intact
    )
    endings = {job.job_id: job.plan for job in jobs}
    for watch in watched:
        breaches.verdicts.extend(_verdict(watch, endings[watch.job_id].ending, endings[watch.job_id].events))
    return breaches


def _in_journal(job: Job, ledger: Ledger) -> set[int]:
    # What a job said before it was cancelled may reach the registry process after that.
    after = ledger.after_end[job.job_id] if job.plan.ending == "cancelled" else set()
    return ledger.held(job.job_id) | after


def _record(job: Job, said: set[int], store: RecordStore) -> Iterator[str]:
    record = store.get(job.job_id)
    if record.status is not Status(job.plan.ending):
        yield f"the record of {job.job_id} is {record.status}, not {job.plan.ending}"
    if said != set(range(1, job.plan.events + 1)):
        yield f"{job.job_id} was to say {job.plan.events} events and said {len(said)}"
    if record.last_seq != job.plan.events and job.plan.ending != "cancelled":
        yield f"the record of {job.job_id} ends at seq {record.last_seq}, not at {job.plan.events}"


def _history(job: Job, said: set[int], store: RecordStore) -> Iterator[str]:
    lines = [line for line in store.audit(job.job_id).lines() if line["kind"] == "event"]
    applied = Counter(line["seq"] for line in lines if line["verdict"] in {ACCEPTED, Reason.LATE})
    for seq, count in applied.items():
        if count > 1:
            yield f"the history of {job.job_id} has seq {seq} applied {count} times"
    if job.plan.ending == "cancelled":
        return
    for seq in sorted(said - set(applied)):
        yield f"the history of {job.job_id} ({job.plan.voice}) does not have seq {seq}"


def _verdict(watch: Watched, ending: str, events: int) -> Iterator[str]:
    outcome, code = _OUTCOMES[ending]
    if watch.verdicts != (outcome,):
        yield f"a watcher of {watch.job_id} said {list(watch.verdicts)}, not [{outcome}]: {watch.errors}"
    if watch.exit_code != code or watch.verdict_codes != (code,):
        yield f"a watcher of {watch.job_id} ended with {watch.exit_code}, not with {code}: {watch.errors}"
    if len(set(watch.seqs)) != len(watch.seqs):
        yield f"a watcher of {watch.job_id} printed an event twice"
    if not set(watch.seqs) <= set(range(1, events + 1)):
        yield f"a watcher of {watch.job_id} printed events that nobody said"


def recoveries(struck: Iterable[Struck], arrivals: Sequence[Arrival]) -> dict[Fault, list[float]]:
    """Return, by fault, the seconds from each strike to the next journaled event that needed the thing.

    After an outage that is the first event received once the thing was back (what stood in a buffer when
    it went away does not count), after a killed publisher the next event of its job.
    """
    found: dict[Fault, list[float]] = {}
    for strike in struck:
        if strike.fault is Fault.SUBSCRIBER:
            continue
        after = (
            arrival.at
            for arrival in arrivals
            if arrival.at >= strike.until and strike.job_id in {"", arrival.job_id}
        )
        first = min(after, default=None)
        if first is not None:
            found.setdefault(strike.fault, []).append(first - strike.at)
    return found
