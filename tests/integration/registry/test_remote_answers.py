"""A worker with a ticket asks, and hears the answer from a real broker and a real registry process."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobwire.certs.authority import CertificateAuthority
from jobwire.core.errors import RefusedError, StoppedError
from jobwire.core.lease import LeaseGrant
from jobwire.jobs.record import JobRecord
from jobwire.jobs.requests import Answer, RequestState, find
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.publisher import Publisher
from jobwire.registry.requests import give_answer, open_in
from jobwire.testing import BrokerProcess, wait_for
from jobwire.testing.raw_mqtt import RawClient, client_context
from jobwire.testing.watching import bare_environment

from .conftest import Site


def ticket(site: Site, broker: BrokerProcess, job: JobRecord, folder: Path) -> Path:
    """Write a ticket with a certificate of the job's own."""
    issued = CertificateAuthority(broker.home / "certs").issue_job(job.job_id)
    settings: dict[str, str | int] = {
        "protocol": broker.settings("registry").protocol,
        "broker": broker.host,
        "port": broker.mtls_port,
        "ca_certs": str(broker.ca_certs),
        "certfile": str(issued.certfile),
        "keyfile": str(issued.keyfile),
    }
    path = folder / "job.ticket"
    path.write_bytes(encode_ticket(ticket_for(job, broker=settings, topic_root=site.topics.root)))
    path.chmod(0o600)
    return path


def test_a_remote_worker_asks_and_hears_its_answer(
    real_site: Site, fresh_broker: BrokerProcess, tmp_path: Path
) -> None:
    """It hears it, says so, and the retained answer goes; what others may see of it is nothing."""
    site = real_site
    job = site.queue.claim(site.register().job_id, LeaseGrant("remote", 600))
    with site.serving(), ThreadPoolExecutor(1) as pool:
        path = ticket(site, fresh_broker, job, tmp_path)
        with Publisher(ticket=path, environ=bare_environment()) as worker:
            worker.started()
            future = pool.submit(worker.ask, "Which?", request="which", choices=["red", "blue"])
            wait_for(lambda: open_in(site.queue), what="the question")
            worker.progress("another thread goes on")
            assert open_in(site.queue), "another event closes nothing"
            give_answer(site.queue, "which", Answer("blue", "ann", "page"))
            given = future.result(60)
            assert (given.text, given.by, given.through) == ("blue", "ann", "page")
            wait_for(lambda: _state(site, job) is RequestState.APPLIED)
        # Another connection under its certificate would have ended the worker's.
        wait_for(lambda: not _retained(site, fresh_broker, job), what="no answer")
        with Publisher(ticket=path, environ=bare_environment()) as worker:
            future = pool.submit(worker.ask, "And now?")
            wait_for(lambda: open_in(site.queue), what="the next question")
            site.queue.cancel(job.job_id)
            with pytest.raises(StoppedError):
                future.result(60)


def test_a_role_account_cannot_ask(real_site: Site, fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Its ticket has a password: 70 at once, with the remedy, and nothing is asked."""
    job = real_site.register()
    path = tmp_path / "role.ticket"
    settings: dict[str, str | int] = {
        "broker": fresh_broker.host,
        "port": fresh_broker.port,
        "ca_certs": str(fresh_broker.ca_certs),
        "username": "claude-worker",
        "password_file": str(fresh_broker.home / "passwords" / "claude-worker"),
    }
    path.write_bytes(encode_ticket(ticket_for(job, broker=settings, topic_root=real_site.topics.root)))
    path.chmod(0o600)
    worker = Publisher(ticket=path, environ=bare_environment())
    with pytest.raises(RefusedError, match="claude-worker") as caught:
        worker.ask("Which?")
    assert "--certificate" in caught.value.hint
    assert not (tmp_path / "role.ticket.outbox").exists()


def _state(site: Site, job: JobRecord) -> RequestState | None:
    found = find(site.store.get(job.job_id).requests, "which")
    return found.state if found else None


def _retained(site: Site, broker: BrokerProcess, job: JobRecord) -> bool:
    """Tell whether the broker keeps answers, as the job's own certificate sees it."""
    folder = broker.home / "certs"
    issued = CertificateAuthority(folder).issue_job(job.job_id, force=True)
    context = client_context(broker.ca_certs, issued.certfile, issued.keyfile)
    with RawClient(broker.host, broker.mtls_port, context).connect(job.job_id) as client:
        client.subscribe(site.topics.answer(job.job_id))
        return bool([message for message in client.settle() if message.payload])
