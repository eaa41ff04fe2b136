"""A recorder without keys, broker to journal: embedded in a query, or `jobwire metrics record`."""

import contextlib
import json
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from jobwire.core.clock import Clock, SystemClock
from jobwire.core.errors import ConfigError, JobwireError
from jobwire.core.ports import SessionLost, SessionStarted
from jobwire.core.roles import Role
from jobwire.core.topics import Topics
from jobwire.journal.admission import unverified
from jobwire.journal.recorder import Recorder
from jobwire.journal.writer import JournalWriter
from jobwire.storage.file_lock import AlreadyRunningError
from jobwire.storage.home import any_home
from jobwire.storage.signals import stop_event
from jobwire.transport import PahoTransport, load_settings

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
# MQTT 3.1.1 brokers need not take longer client ids (3.1.3.1).
_LONGEST_NAME = 23
_SYSTEM_CLOCK = SystemClock()
_log = logging.getLogger("jobwire.recorder")


def main(argv: list[str]) -> int:
    """Record until told to stop, or until standard input ends; return the exit code."""
    log_to_stderr()
    try:
        with stop_event() as stop:
            threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
            record(json.loads(argv[0]), stop, on_ready=_tell_the_query)
    except AlreadyRunningError as error:
        _log.info("%s: reading what it records", error.message)
    except JobwireError as error:
        # Cause and remedy, without a stack: it is an expected failure.
        _log.error("%s%s", error.message, f" ({error.hint})" if error.hint else "")
        return int(error.exit_code)
    return 0


def log_to_stderr() -> None:
    """Let a recorder say on standard error what happens to its connection."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def record(
    words: dict[str, Any],
    stop: threading.Event,
    *,
    on_ready: Callable[[], None],
    clock: Clock = _SYSTEM_CLOCK,
) -> None:
    """Record into one journal until `stop` is set; `on_ready` is called at each subscription.

    Raises AlreadyRunningError and the transport's errors.
    `words`: journal, home, topics, topic_root, broker (settings above all others), share_group.
    """
    journal = Path(words["journal"])
    home = any_home(words["home"] or None, os.environ)
    settings = load_settings(
        home=Path(home) if home else None,
        role=Role.METRICS,
        command_line=words["broker"],
        record={},
        environ=os.environ,
    )
    topics = Topics(words["topic_root"])
    # States say what the registry decided.
    filters = words["topics"] or [topics.events("+"), topics.state("+")]
    if words["share_group"]:
        # MQTT 5, 4.8.2: the broker deals the messages out among the recorders of the group.
        if settings.protocol == "3.1.1":
            raise ConfigError(
                "shared subscriptions need MQTT 5, and this broker is spoken to in 3.1.1",
                hint='one recorder and one journal, or Mosquitto with protocol = "5" in jobwire.toml',
            )
        filters = [f"$share/{words['share_group']}/{topic_filter}" for topic_filter in filters]
    with JournalWriter(journal, clock=clock) as writer:
        transport = PahoTransport(
            settings, client_id=_client_id(writer.identity), clean_session=False, clock=clock
        )
        try:
            recorder = Recorder(
                transport=transport,
                writer=writer,
                admit=unverified,
                filters=filters,
                clock=clock,
                on_session=partial(_say, on_ready),
            )
            recorder.run(stop.is_set)
        finally:
            transport.close()


def _tell_the_query() -> None:
    with contextlib.suppress(OSError):  # the query ended meanwhile
        os.write(1, b"recording\n")


def _say(on_ready: Callable[[], None], session: SessionStarted | SessionLost) -> None:
    if isinstance(session, SessionStarted):
        _log.info("connected and subscribed")
        on_ready()
    else:
        _log.warning("connection lost: %s", session.reason)


def _client_id(identity: str) -> str:
    """Return a name that is this journal's own: the broker's session belongs to it."""
    host = _UNSAFE.sub("", socket.gethostname())[:6]
    return f"jw-{host}-{identity.replace('-', '')}"[:_LONGEST_NAME]


def _stop_at_end_of_input(stop: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
