"""Registers the jobs of a plan, and writes tickets for the workers on the other host."""

from pathlib import Path

from jobwire.certs.authority import CertificateAuthority
from jobwire.jobs.record import JobRecord
from jobwire.jobs.ticket import encode_ticket, ticket_for
from jobwire.registry.queue import JobQueue
from jobwire.registry.spec import JobSpec
from jobwire.registry.store import RecordStore
from tests.faults.storm.drivers import Job
from tests.faults.storm.hosts import REGISTRY_ADDRESS, Hosts
from tests.faults.storm.plan import Plan
from tests.faults.storm.services import Broker


def register(plan: Plan, *, home: Path, broker: Broker, hosts: Hosts | None) -> list[Job]:
    """Register every job of the plan and return them in its order."""
    # The other host's disk: it shares nothing with the registry.
    tickets = home.parent / "workers"
    tickets.mkdir(mode=0o700)
    jobs = []
    job_queue = JobQueue(RecordStore(home), warn=lambda _: None)
    for job in plan.jobs:
        record = job_queue.register(JobSpec(title=f"job {job.number} of seed {plan.seed}")).record
        ticket = None
        if job.voice.remote:
            ticket = tickets / f"{record.job_id}.ticket"
            write_ticket(ticket, record, broker, hosts)
        jobs.append(Job(job, record.job_id, ticket))
    job_queue.close()
    return jobs


def write_ticket(path: Path, record: JobRecord, broker: Broker, hosts: Hosts | None) -> None:
    """Write a ticket with a certificate for this job alone."""
    issued = CertificateAuthority(broker.home / "certs").issue_job(record.job_id)
    settings: dict[str, str | int] = {
        "broker": REGISTRY_ADDRESS if hosts is not None else broker.host,
        "port": broker.mtls_port,
        "tls": "on",
        "protocol": "5",
        "ca_certs_pem": broker.ca_certs.read_text(),
        "certfile_pem": issued.certfile.read_text(),
        "keyfile_pem": issued.keyfile.read_text(),
    }
    path.touch(mode=0o600)
    path.write_bytes(encode_ticket(ticket_for(record, broker=settings, topic_root=broker.topic_root)))
