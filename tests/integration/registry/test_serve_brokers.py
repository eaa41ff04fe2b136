"""The registry process over real brokers, which stop, die and lose their disk."""

import shutil
from typing import TYPE_CHECKING, Any

from jobwire.core.ports import Message
from jobwire.jobs.lifecycle import Status
from jobwire.jobs.record import JobRecord
from jobwire.jobs.snapshot import Snapshot, decode_snapshot
from jobwire.registry.purge import Purge, RetentionRules
from jobwire.testing import MosquittoServer, wait_for

if TYPE_CHECKING:
    Site = Any  # conftest.Site: test folders are no packages


def _state(site: "Site", job: JobRecord) -> Snapshot | None:
    """Return the retained state as a fresh connection reads it."""
    transport = site.transport("hermes", "reader")
    try:
        transport.connect(10)
        transport.subscribe([site.topics.state(job.job_id)])
        for item in [one for _ in range(3) for one in transport.receive_many(10, 0.2)]:
            if isinstance(item, Message) and item.payload:
                return decode_snapshot(item.payload, job_id=job.job_id, token=job.auth_token)
    finally:
        transport.close()
    return None


def _await_completed(site: "Site", job: JobRecord) -> Snapshot:
    def found() -> Snapshot | None:
        state = _state(site, job)
        return state if state is not None and state.status is Status.COMPLETED else None

    state = wait_for(found, what="the retained state")
    assert state is not None
    return state


def test_job_over_a_real_broker(real_site: "Site") -> None:
    """Events are confirmed, the state is retained, and a purge clears it."""
    site = real_site
    job = site.register()
    with site.serving(), site.worker() as publish:
        publish(site.say(job, 1, "started"))
        publish(site.say(job, 2, "completed", "done"))
        site.confirmed(job, 2)
        state = _await_completed(site, job)
        assert (state.last_seq, state.detail) == (2, "done")
        sender = site.transport("registry", "purger")
        sender.connect(10)
        purge = Purge(
            queue=site.queue,
            topics=site.topics,
            clear=lambda topic: sender.publish(topic, b"", retain=True, deadline_seconds=10),
            rules=RetentionRules(0.0, None),
        )
        assert purge.run().cleared == 1
        sender.close()
        assert _state(site, job) is None


def test_broker_dies_and_comes_back(real_site: "Site") -> None:
    """A broker that is killed and loses its disk costs no event that its worker still holds."""
    site = real_site
    job = site.register()
    with site.serving():
        with site.worker() as publish:
            publish(site.say(job, 1, "started"))
            site.confirmed(job, 1)
        site.broker.kill()
        shutil.rmtree(site.broker.home / "broker" / "data", ignore_errors=True)
        (site.broker.home / "broker" / "data").mkdir(mode=0o700, exist_ok=True)
        site.keep(job, site.say(job, 2, "progress"))
        site.keep(job, site.say(job, 3, "completed"))
        site.broker.start()
        site.confirmed(job, 3)
        assert _await_completed(site, job).last_seq == 3
    assert site.history(job) == [("accepted", 1), ("accepted", 2), ("accepted", 3)]


def test_broker_comes_back_with_an_older_save(real_site: "Site") -> None:
    """Where a killed broker has our session from its last save but no later state, that is sent again."""
    site = real_site
    job = site.register()
    with site.serving():
        with site.worker() as publish:
            publish(site.say(job, 1, "started"))
            site.confirmed(job, 1)
            if isinstance(site.broker, MosquittoServer):
                site.broker.save()
            publish(site.say(job, 2, "completed"))
            site.confirmed(job, 2)
        _await_completed(site, job)
        site.broker.kill()
        site.broker.start()
        assert _await_completed(site, job).last_seq == 2
