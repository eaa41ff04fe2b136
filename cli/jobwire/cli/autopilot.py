"""`jobwire autopilot`: a command handles the messages of agents, each as a job."""

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from jobwire.coordination.bus.session_folder import INBOX
from jobwire.coordination.command import coordination_command
from jobwire.coordination.handling.tries import Tries, check_tries
from jobwire.coordination.message import split_words
from jobwire.coordination.places import open_store, open_to_read
from jobwire.coordination.store import CoordinationStore
from jobwire.core.bounds import fits_a_path
from jobwire.core.errors import InvalidInputError
from jobwire.core.terminal_text import safe
from jobwire.core.topics import check_agent
from jobwire.jobs.record import Timeouts
from jobwire.runner.autopilot import Autopilot, AutopilotEvent, AutopilotPlan, open_work
from jobwire.storage.settings_file import read_own_settings
from jobwire.storage.signals import delivered

_MOST_AGENTS = 256
# Of one line about one message; the rest is in the thread.
_WIDEST = 240
_WORDS = {
    "began": "handles",
    "done": "done",
    "again": "failed, again later",
    "dead": "dead",
    "failed": "failed",
    "cancelled": "cancelled",
    "given_back": "given back",
}


def run(args: argparse.Namespace) -> int:
    """Work until a signal; return 0."""
    return coordination_command(_run)(args)


def _run(args: argparse.Namespace) -> int:
    plan = _plan(args)
    if args.dry_run:
        return _show(args, open_to_read(args), plan)
    store = open_store(args)
    said = threading.Lock()

    def tell(event: AutopilotEvent) -> None:
        with said:
            if args.json:
                print(json.dumps(event._asdict(), ensure_ascii=False), flush=True)
            else:
                words = f"{event.agent}: {event.job_id} {_WORDS[event.event]}: "
                print(safe(words + (event.detail or event.summary))[:_WIDEST], flush=True)

    def warn(text: str) -> None:
        sys.stderr.write(f"jobwire: warning: {safe(text)}\n")

    autopilot = Autopilot(store, plan, tell=tell, warn=warn, environ=dict(os.environ), directory=Path.cwd())
    if not args.json:
        print(f"jobwire: autopilot for {', '.join(plan.agents)}; Ctrl-C ends it", file=sys.stderr)
    with delivered(dict.fromkeys((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), autopilot.stop)):
        autopilot.run()
    store.close()
    if args.json:
        print(json.dumps({"ok": True, "command": "autopilot", "ended": dict(autopilot.ended)}))
    return 0


def _plan(args: argparse.Namespace) -> AutopilotPlan:
    if args.ticket or os.environ.get("JOBWIRE_TICKET"):
        raise InvalidInputError(
            "an autopilot works on the home's own disk", hint="run it there, without a ticket"
        )
    named = [*split_words(args.agents), *([args.agent] if args.agent else [])]
    names = list(dict.fromkeys(named or filter(None, [os.environ.get("JOBWIRE_AGENT", "")])))
    if not names:
        raise InvalidInputError("for which agent?", hint="--agent NAME, or --agents A,B,C")
    if len(names) > _MOST_AGENTS:
        raise InvalidInputError(f"{len(names)} agents", hint=f"at most {_MOST_AGENTS}")
    for name in names:
        check_agent(name)
    allowed = read_own_settings(os.environ).get("autopilot", "verify") if args.verify else None
    return AutopilotPlan(
        names,
        args.command,
        serial=args.serial,
        most=args.max_in_flight,
        per_run=args.per_run_cap,
        tries=check_tries(Tries(args.max_tries, args.retry_delays)),
        timeouts=Timeouts(idle_seconds=args.idle_timeout, wall_seconds=args.wall_timeout),
        verify=args.verify,
        verify_seconds=args.verify_timeout,
        allowed=allowed if isinstance(allowed, list) else (),
        answer_stdin=args.answer_stdin,
        lease_seconds=args.lease,
        until_idle=args.until_idle,
        open_work=args.open_work,
        bus=_folder(args.bus),
    )


def _folder(path: str) -> str:
    if not path:
        return ""
    if not fits_a_path(path) or not Path(path, INBOX).is_dir():
        raise InvalidInputError(
            f"{path!r:.200} is no session folder",
            hint=f"one has a folder {INBOX} in it: mkdir -p {path:.200}/{INBOX}",
        )
    return str(Path(path).resolve())


def _show(args: argparse.Namespace, store: CoordinationStore, plan: AutopilotPlan) -> int:
    """Show what the agents could take now."""
    found = open_work(store, plan.agents)
    if args.json:
        rows = [{"agent": agent, **message.to_json()} for agent, message in found]
        print(json.dumps({"ok": True, "command": "autopilot", "dry_run": True, "would_handle": rows}))
        return 0
    for agent, message in found:
        print(safe(f"{agent}: {message.kind} {message.id} from {message.from_agent}: {message.summary}"))
    if not found:
        print("nothing to handle")
    return 0
