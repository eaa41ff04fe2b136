"""`jobwire dashboard`, `jobwire top`, `jobwire status`. Each loads its heavy libraries when it runs."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from jobwire.core.argument_types import number, whole
from jobwire.core.bounds import MAX_PORT, MAX_SECONDS

if TYPE_CHECKING:
    import argparse

    from jobwire.dashboard.fleet import Thresholds
    from jobwire.dashboard.model import FleetModel

DEFAULT_PORT = 8470
_SECONDS = number(MAX_SECONDS, zero=False)
_PORT = whole(0, MAX_PORT)


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the three commands to the umbrella's parser."""
    _add_dashboard(subparsers)
    _add_top(subparsers)
    _add_status(subparsers)


def _add_dashboard(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "dashboard",
        description="Serve the fleet on a live page (/) and for Prometheus (/metrics), until stopped.",
        epilog="example:\n  jobwire dashboard --allow-actions\n"
        "The printed address opens the page: whoever has it may look. Elsewhere the page asks for the token.",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (127.0.0.1)")
    add("--port", type=_PORT, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0 takes any free one")
    add(
        "--certfile",
        metavar="FILE",
        help="TLS certificate (see jobwire certs issue-server); needed beyond loopback",
    )
    add("--keyfile", metavar="FILE", help="its private key")
    add(
        "--token-file",
        metavar="FILE",
        help="your own token or password, mode 0600; needed beyond loopback (default: a new one each time)",
    )
    add("--link", action="store_true", help="show the address of each page that runs for this home, and exit")
    add(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name that the page may be called by (a proxy's)",
    )
    add("--allow-actions", action="store_true", help="let the page cancel jobs and answer them")
    add("--metrics-db", metavar="FILE|URL", help="the metric tables (default: those below --home)")
    add("--poll", action="store_true", help="look through the records every second (network file systems)")
    _add_limits(parser)
    add("--json", action="store_true", help="print the ready line as JSON")
    parser.set_defaults(run=run_dashboard)


def _add_top(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "top",
        description="Show the fleet live in the terminal, problems first. Keys are listed at the bottom.",
        epilog="example:\n  jobwire top --session backend",
    )
    add = parser.add_argument
    add("--session", default="", metavar="NAME", help="only jobs of this session")
    add("--text", default="", help="only jobs whose id, title or detail has this text")
    add("--once", action="store_true", help="print the fleet once, as text, and end")
    add("--poll", action="store_true", help="for records on a network file system")
    _add_limits(parser)
    add("--json", action="store_true", help="print the fleet once, one JSON object a job")
    parser.set_defaults(run=run_top)


def _add_status(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "status",
        description="Say how the fleet is doing; --line, for a status bar: running, waiting for you, failed.",
        epilog="example (tmux.conf):\n  set -g status-right '#(jobwire --home ~/work/.hermes status --line)'",
    )
    parser.add_argument("--line", action="store_true", help="one short line")
    _add_limits(parser)
    parser.add_argument("--json", action="store_true", help="the figures as a JSON object")
    parser.set_defaults(run=run_status)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    for name, seconds, what in (
        ("--stuck-after", 300, "silence after which a job without an idle timeout counts as stuck"),
        ("--late-after", 600, "waiting after which a job that nobody picked counts as late"),
        ("--failed-for", 86_400, "how long a failure counts as a problem"),
    ):
        parser.add_argument(
            name, type=_SECONDS, default=float(seconds), metavar="SECONDS", help=f"{what} ({seconds})"
        )


def _limits(args: argparse.Namespace) -> Thresholds:
    """Return the limits that were given."""
    from jobwire.dashboard.fleet import Thresholds  # noqa: PLC0415 - not for `status --line`

    return Thresholds(args.stuck_after, args.late_after, args.failed_for)


def _model(args: argparse.Namespace, *, poll: bool) -> FleetModel:
    """Return the fleet of the home directory, not started."""
    from jobwire.dashboard.model import FleetModel  # noqa: PLC0415 - not for `status --line`
    from jobwire.registry.store import RecordStore  # noqa: PLC0415 - as above

    return FleetModel(RecordStore(args.home), limits=_limits(args), poll=poll)


def run_dashboard(args: argparse.Namespace) -> int:
    """Serve until stopped, or show where it is served."""
    if args.link:
        return _show_links(args)
    from pathlib import Path  # noqa: PLC0415 - not for `status --line`, as what follows

    from jobwire.dashboard import serve  # noqa: PLC0415
    from jobwire.dashboard.auth import Bind  # noqa: PLC0415
    from jobwire.dashboard.open_pages import OpenPage, only_ours  # noqa: PLC0415

    bind = Bind(
        host=args.host,
        port=args.port,
        certfile=args.certfile,
        keyfile=args.keyfile,
        token_file=args.token_file,
        allowed_hosts=tuple(args.allowed_host),
    )
    settings = serve.Settings(
        home=Path(args.home),
        bind=bind,
        limits=_limits(args),
        allow_actions=args.allow_actions,
        poll=args.poll,
        metrics_database=args.metrics_db,
    )

    def announce(page: OpenPage) -> None:
        private = not page.token or only_ours(os.fstat(sys.stdout.fileno()))
        url = page.link if private else page.url
        body = {"ready": True, "url": url, "pid": page.pid, "home": str(settings.home.absolute())}
        shown = json.dumps(body) if args.json else f"jobwire dashboard: {url} shows {settings.home}"
        print(shown, flush=True)
        if not private:
            hint = "others can read this: jobwire dashboard --link shows the address with its token"
            print(f"jobwire dashboard: {hint}", file=sys.stderr, flush=True)

    serve.run(settings, announce=announce)
    return 0


def _show_links(args: argparse.Namespace) -> int:
    from pathlib import Path  # noqa: PLC0415 - not for `status --line`, as what follows

    from jobwire.core.errors import NotFoundError  # noqa: PLC0415
    from jobwire.dashboard.open_pages import OpenPages  # noqa: PLC0415

    pages = OpenPages(Path(args.home)).find()
    if args.json:
        print(json.dumps({"pages": [{"url": page.link, "pid": page.pid} for page in pages]}))
    elif not pages:
        raise NotFoundError(f"no page runs for {args.home}", hint="start one: jobwire dashboard")
    else:
        print(*(page.link for page in pages), sep="\n")
    return 0


def run_top(args: argparse.Namespace) -> int:
    """Show the fleet until a key ends it, or once."""
    from jobwire.dashboard import fleet, top_once  # noqa: PLC0415 - not for `status --line`

    query = fleet.Query(session=args.session, text=args.text)
    model = _model(args, poll=args.poll)
    if args.json or args.once or not sys.stdout.isatty():
        print(top_once.render(model, query, as_json=args.json), end="")
        top_once.require_all(model)
        return 0
    from jobwire.dashboard import top  # noqa: PLC0415

    return top.show(model, query)


def run_status(args: argparse.Namespace) -> int:
    """Print the fleet's state."""
    from jobwire.dashboard import status  # noqa: PLC0415 - as above

    if args.line or args.json:
        line = status.line_of(args.home, failed_seconds=args.failed_for)
        print(status.render_json(line) if args.json else status.render_line(line))
        return 0
    from jobwire.dashboard import fleet, top_once  # noqa: PLC0415 - as above

    model = _model(args, poll=True)
    model.start()
    model.close()
    if model.rows or not model.source.unread:
        print(status.render_table(fleet.arrange(model.rows.values()), time.time()))
    top_once.require_all(model)
    return 0
