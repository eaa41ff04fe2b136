"""What `jobwire serve | health | purge` do."""

import argparse
import hashlib
import json
import logging
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from jobwire.core.backoff import retry_delay
from jobwire.core.broker_layer import command_line_layer
from jobwire.core.clock import SystemClock
from jobwire.core.exit_codes import ExitCode
from jobwire.core.ports import Transport
from jobwire.core.roles import Role
from jobwire.core.settings import BrokerSettings
from jobwire.core.topics import Topics
from jobwire.delivery.connection import BrokerConnection
from jobwire.journal.writer import JournalWriter
from jobwire.registry import health
from jobwire.registry.actions import say, warn
from jobwire.registry.assembly import Assembly, Connections
from jobwire.registry.call_service import Callee
from jobwire.registry.purge import Purge, Purged, load_rules
from jobwire.registry.queue import JobQueue
from jobwire.registry.serve import Companion, RegistryProcess
from jobwire.registry.store import RecordStore
from jobwire.storage.settings_file import read_own_settings
from jobwire.storage.signals import delivered
from jobwire.transport import PahoTransport, load_settings

# A thread that comes back from a system call waits so long for the interpreter while another one computes.
# The fold makes some twenty short calls a record: with Python's 5 ms, beside a recorder at work, 64
# records took twice to three times as long.
_SWITCH_SECONDS = 0.0005


Companions = Callable[[Path, BrokerSettings, JournalWriter], Sequence[Companion]]


def serve(
    args: argparse.Namespace,
    companions: Companions = lambda *_: (),
    callees: Callable[[Path], Mapping[str, Callee]] = lambda _: {},
) -> int:
    """Run the registry process in the foreground until SIGTERM or SIGINT.

    `companions` work in it as well, `callees` do what commands in the home have it do.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    home = Path(args.home)
    settings = _settings(args)
    store = RecordStore(home)
    process = RegistryProcess(
        store=store,
        assemble=partial(
            Assembly,
            store=store,
            connections=_connections(home, settings),
            rules=load_rules(home, retained_days=args.keep_retained, record_days=args.keep_records),
            on_attention=_on_attention(),
        ),
        on_ready=lambda: _say_ready(args, settings),
        companions=lambda writer: companions(home, settings, writer),
        callees=callees(home),
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    with delivered(dict.fromkeys((signal.SIGTERM, signal.SIGINT), process.stop)):
        process.run()
    return ExitCode.OK


def _on_attention() -> list[str]:
    """Return the command of the user's own settings; raises ConfigError."""
    words = read_own_settings(os.environ).get("registry", "on_attention")
    return [str(word) for word in words] if isinstance(words, list) else []


def show_health(args: argparse.Namespace) -> int:
    """Print how the registry process does; an error says what is wrong with it."""
    store = RecordStore(Path(args.home))
    found = health.read(store)
    wrong = health.verdict(found, store.clock)
    facts = {"healthy": wrong is None, "running": found.running, **found.facts}
    say(args, facts, "\n".join(_words(facts)))
    for job_id, why in health.put_off(found.facts).items():
        warn(f"job {job_id} is set aside, its events wait in the journal: {why}")
    for text in health.warnings_of(found.facts):
        warn(text)
    if wrong is not None:
        raise wrong
    return ExitCode.OK


def _words(facts: Mapping[str, object]) -> Iterator[str]:
    for name, value in facts.items():
        if name == "duties":
            for duty, report in health.duties_of(facts).items():
                yield f"{duty:<15}{report.get('doing') or 'resting'}, {report.get('seconds')} s"
        else:
            yield f"{name:<15}{json.dumps(value)}"


def purge(args: argparse.Namespace) -> int:
    """Purge once; connects to the broker only if something is to be cleared there."""
    home = Path(args.home)
    settings = _settings(args)
    clock = SystemClock()
    queue = JobQueue(RecordStore(home), warn=warn)
    sender = BrokerConnection(connect=lambda: _transport(settings, _random_id()), clock=clock)
    rules = load_rules(home, retained_days=args.keep_retained, record_days=args.keep_records)
    work = Purge(
        queue=queue,
        topics=Topics(settings.topic_root),
        clear=lambda topic: sender.publish(topic, b"", retain=True),
        send=lambda topic, payload: sender.publish(topic, payload, retain=False),
        rules=rules,
    )
    try:
        done = work.run() if queue.store.has_jobs() else Purged(0, 0)
    finally:
        sender.close()
    say(args, done._asdict(), f"cleared {done.cleared} jobs at the broker, removed {done.removed}")
    return ExitCode.OK


def _settings(args: argparse.Namespace) -> BrokerSettings:
    return load_settings(
        home=Path(args.home),
        role=Role.REGISTRY,
        command_line=command_line_layer(args),
        record={},
        environ=os.environ,
    )


def _connections(home: Path, settings: BrokerSettings) -> Connections:
    # The same after a restart, and another for another home at the same broker. 3.1.1 brokers need not
    # take more than 23 characters (MQTT-3.1.3-5).
    name = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
    return Connections(
        broker=settings,
        recording=lambda: _transport(settings, f"registry-{name}", clean_session=False),
        sending=lambda: _transport(settings, _random_id()),
        # A certificate is one identity and one session: a second connection ends the first (docs/adr/0103).
        shared=settings.certfile is not None,
    )


def _transport(settings: BrokerSettings, client_id: str, *, clean_session: bool = True) -> Transport:
    return PahoTransport(settings, client_id=client_id, clean_session=clean_session, backoff=_reconnect_delay)


def _reconnect_delay(attempt: int) -> float:
    # A broker that was killed knows nothing of our session until we are back, and forgets what it
    # acknowledges meanwhile. One process a home: nobody comes back together with us.
    return retry_delay(attempt, random.random(), base=0.1, cap=1.0)  # noqa: S311 - keeps no secret


def _random_id() -> str:
    return f"registry-{os.urandom(4).hex()}"


def _say_ready(args: argparse.Namespace, settings: BrokerSettings) -> None:
    body = {
        "ready": True,
        "pid": os.getpid(),
        "home": str(Path(args.home).absolute()),
        "broker": settings.address,
    }
    say(args, body, f"registry process {os.getpid()} looks after {args.home}; broker {settings.address}")
