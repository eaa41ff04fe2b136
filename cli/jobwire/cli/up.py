"""`jobwire up` and `jobwire down`: broker, registry process and page of one home, under one supervisor."""

import argparse
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from jobwire.broker.home import BrokerPaths
from jobwire.cli.host import Host, HostLocks
from jobwire.cli.live_part import make_room
from jobwire.cli.parts import BROKER, PAGE, SERVE, Part, has_page, parts_of, passed_on
from jobwire.core.clock import SystemClock
from jobwire.core.errors import StorageError
from jobwire.core.exit_codes import ExitCode
from jobwire.dashboard.open_pages import only_ours
from jobwire.registry.layout import HomeLayout
from jobwire.storage.home import is_home
from jobwire.storage.process import Lifeline, ManagedProcess
from jobwire.storage.process_life import ended_within, send_to
from jobwire.storage.running_parts import FOLDER

# All parts, one after the other.
_DETACHED_SECONDS = 360.0
_DOWN_SECONDS = 180.0
_POLL_SECONDS = 0.05
_MQTT = "MQTT_"
# What a supervisor in the background is told as well.
_SWITCHES = ("mosquitto", "no-broker", "no-page", "with-metrics", "allow-actions")
_VALUES = ("port", "page-port", "host", "certfile", "keyfile", "token-file")
_HIDDEN = "others can read this: `jobwire dashboard --link` shows the page's address with its token"


def run_up(args: argparse.Namespace) -> int:
    """Run everything; returns when it was told to end. With --detach, when everything is up."""
    home = Path(args.home)
    environ = _environment(os.environ, own_broker=not args.no_broker)
    page = not args.no_page and has_page()
    parts = parts_of(home, args, environ, page=page)
    made = not is_home(args.home)
    HomeLayout(home).make_layout()
    bulletin = Bulletin(home, as_json=args.json)
    bulletin.say("home", f"{home} (made now)" if made else str(home))
    if args.detach:
        return _detached(args, home, bulletin)
    if not args.no_page and not page:
        bulletin.say(PAGE, "left out: pip install 'jobwire[dashboard]' brings what it needs")
    Host(home, parts, environ=environ, clock=SystemClock(), say=bulletin.note).run(
        on_part=bulletin.part, on_ready=bulletin.ready, on_stop=bulletin.stopping
    )
    bulletin.note("up", "all is down")
    return ExitCode.OK


def _environment(environ: Mapping[str, str], *, own_broker: bool) -> dict[str, str]:
    """Return the parts' environment: a broker that this shell is configured for is not the one we start."""
    left_out = [name for name in environ if own_broker and name.startswith(_MQTT)]
    if left_out:
        print(
            f"jobwire: warning: {', '.join(sorted(left_out))} of this shell do not hold for what `up` starts;"
            " commands in this shell go where they lead",
            file=sys.stderr,
        )
    return {name: value for name, value in environ.items() if name not in left_out}


class Bulletin:
    """What a person, or a program that asked for JSON, sees of a host."""

    def __init__(self, home: Path, *, as_json: bool) -> None:
        self._home = home
        self._as_json = as_json
        self._private = only_ours(os.fstat(sys.stdout.fileno()))
        self._facts: dict[str, object] = {"ready": True, "pid": os.getpid(), "home": str(home.resolve())}

    def say(self, name: str, text: str) -> None:
        """Print one line, for people only."""
        if not self._as_json:
            _print(f"{name:<9}{text}")

    def note(self, name: str, text: str) -> None:
        """Print one line about something that happened, with the time of day."""
        line = f"{datetime.now().astimezone():%H:%M:%S} {name:<9}{text}"
        _print(line, to_stderr=self._as_json)

    def part(self, part: Part, line: Mapping[str, object]) -> None:
        """Tell where a part is, as its ready line says."""
        facts = {key: value for key, value in line.items() if key not in {"ready", "home", "kind"}}
        if "url" in facts and not self._private:
            facts["url"] = str(facts["url"]).partition("?")[0]
        self._facts[part.name] = facts | {"log": str((self._home / FOLDER / f"{part.name}.log").resolve())}
        self.say(part.name, self._where(part.name, facts))

    def _where(self, name: str, facts: Mapping[str, object]) -> str:
        if name == BROKER:
            ca = BrokerPaths(self._home).ca
            return f"{facts['host']}:{facts['port']} (TLS 1.3, CA {ca})"
        if name == SERVE:
            return f"keeps journal and records, broker {facts['broker']}; jobwire registry health"
        if name == PAGE:
            return str(facts["url"])
        return f"Spark {facts['spark']}; jobwire metrics show"

    def ready(self) -> None:
        """Tell that everything is up, and how to look."""
        if self._as_json:
            _print(json.dumps(self._facts))
        else:
            self.closing(os.getpid(), "Ctrl-C or `jobwire down`")

    def stopping(self) -> None:
        """Tell that the end begins, on a line of its own: the terminal shows ^C."""
        if sys.stdout.isatty():
            _print("")
        self.note("up", "ends everything; a second Ctrl-C hurries it")

    def closing(self, pid: int, how: str) -> None:
        """Print the last lines of a start."""
        self.say("logs", f"{self._home / FOLDER}/")
        self.say("up", f"all runs (pid {pid}); {how} ends it")
        if PAGE in self._facts and not self._private:
            _print(f"jobwire: {_HIDDEN}", to_stderr=True)


def _print(line: str, *, to_stderr: bool = False) -> None:
    stream = sys.stderr if to_stderr else sys.stdout
    try:
        print(line, file=stream, flush=True)
    except OSError:
        # The terminal is gone, and what it held back is not to fail again at our end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _detached(args: argparse.Namespace, home: Path, bulletin: Bulletin) -> int:
    """Start the supervisor as a process that goes on without us; end it where it does not come up."""
    words = [sys.executable, "-m", "jobwire.cli.main", "--home", str(home.resolve()), "up", "--json"]
    words += passed_on(args, _SWITCHES, _VALUES)
    log = home / FOLDER / "up.log"
    make_room(log)
    process = ManagedProcess(words, log=log, lifeline=Lifeline.NONE, grace_seconds=_DOWN_SECONDS)
    try:
        line = process.start().ready_line(_DETACHED_SECONDS)
    except BaseException:
        process.stop()
        raise
    if args.json:
        _print(json.dumps(line))
        return ExitCode.OK
    for name, facts in line.items():
        if isinstance(facts, dict):
            bulletin.part(Part(name, ()), facts)
    bulletin.closing(process.pid, "`jobwire down`")
    return ExitCode.OK


def run_down(args: argparse.Namespace) -> int:
    """End the home's supervisor and wait until everything is down."""
    home, clock = Path(args.home), SystemClock()
    locks = HostLocks(home, clock=clock)
    found = locks.supervisor()
    if found is not None:
        _stop(home, *found)
    until = clock.monotonic() + _DOWN_SECONDS
    while not locks.free() and clock.monotonic() < until:
        clock.sleep(_POLL_SECONDS)
    if args.json:
        print(json.dumps({"stopped": found.pid if found is not None else None}))
    else:
        print(f"all is down for {home}" if found is not None else f"nothing runs for {home}")
    return ExitCode.OK


def _stop(home: Path, pid: int, life: str) -> None:
    """Send SIGTERM to the supervisor and wait for its end."""
    send_to(pid, life, signal.SIGTERM)
    if not ended_within(pid, life, _DOWN_SECONDS):
        again = f"jobwire --home {shlex.quote(str(home))} down"
        raise StorageError(
            f"`jobwire up` (pid {pid}) did not end within {_DOWN_SECONDS:.0f} s",
            hint=f"`{again}` again hurries it; its logs stand in {home / FOLDER}",
        )
