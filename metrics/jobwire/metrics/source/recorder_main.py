"""The embedded recorder's process: broker to journal, without keys, until standard input ends."""

import contextlib
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from jobwire.core.clock import SystemClock
from jobwire.core.errors import JobwireError
from jobwire.core.ports import SessionLost, SessionStarted
from jobwire.core.settings import DEFAULT_HOME
from jobwire.core.topics import Topics
from jobwire.journal.admission import unverified
from jobwire.journal.errors import JournalLocked
from jobwire.journal.recorder import Recorder
from jobwire.journal.writer import JournalWriter
from jobwire.transport import PahoTransport, load_settings

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
# MQTT 3.1.1 brokers need not take longer client ids (3.1.3.1).
_LONGEST_NAME = 23
_log = logging.getLogger("jobwire.recorder")


def main(argv: list[str]) -> int:
    """Record until told to stop; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    try:
        _record(json.loads(argv[0]), stop)
    except JournalLocked as error:
        _log.info("%s: reading what it records", error.message)
    except JobwireError as error:
        # Cause and remedy, without a stack: it is an expected failure.
        _log.error("%s%s", error.message, f" ({error.hint})" if error.hint else "")
        return int(error.exit_code)
    return 0


def _record(words: dict[str, Any], stop: threading.Event) -> None:
    clock = SystemClock()
    journal = Path(words["journal"])
    home = Path(words["home"] or os.environ.get("JOBWIRE_HOME") or DEFAULT_HOME)
    settings = load_settings(
        home=home, role="metrics", command_line=words["broker"], record={}, environ=os.environ
    )
    filters = words["topics"] or [Topics(words["topic_root"]).events("+")]
    if words["share_group"]:
        # MQTT 5, 4.8.2: the broker deals the messages out among the recorders of the group.
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
                on_session=_say,
            )
            recorder.run(stop.is_set)
        finally:
            transport.close()


def _say(session: SessionStarted | SessionLost) -> None:
    """Log each connection; the first is told on standard output, which the query waits for."""
    if isinstance(session, SessionStarted):
        _log.info("connected and subscribed")
        with contextlib.suppress(OSError):  # the query ended meanwhile
            os.write(1, b"recording\n")
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
