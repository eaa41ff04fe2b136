"""`jobwire`: finds the component that owns a command and runs it."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from jobwire.core.boundary import end_program, missing_library, run_command
from jobwire.core.commands import CommandParser, NameOnly, body_of
from jobwire.core.errors import InvalidInputError
from jobwire.core.override import override
from jobwire.storage import home as homes

PROG = "jobwire"


class Subcommand(NamedTuple):
    """Where a command lives, what it is for, and which extra brings its libraries."""

    module: str
    help: str
    extra: str = ""


_OWN, _WORK = "jobwire.cli.arguments", "jobwire.cli.work_arguments"
_REGISTRY = "jobwire.registry.cli"
# Only the chosen component is imported: `jobwire status --line` must not pay for Spark.
COMMANDS: dict[str, Subcommand] = {
    "init": Subcommand(f"{_OWN}:add_init", "make a home: the directory that keeps jobs, events and settings"),
    "up": Subcommand(
        f"{_OWN}:add_up", "everything on this host: broker, registry process and page", "broker"
    ),
    "down": Subcommand(f"{_OWN}:add_down", "end what `jobwire up` started", "broker"),
    "run": Subcommand(f"{_WORK}:add_run", "run a command as a job and watch it to its exit code"),
    "demo": Subcommand(f"{_OWN}:add_demo", "three real jobs through a real broker, watched live", "broker"),
    "publish": Subcommand("jobwire.publisher.options", "say what happens to a job (also: publish_event)"),
    "watch": Subcommand("jobwire.subscriber.cli", "watch jobs to their verdict (also: job_subscriber)"),
    "logs": Subcommand(f"{_OWN}:add_logs", "print the output of a job's command"),
    "attach": Subcommand(f"{_OWN}:add_attach", "join a job: its tmux pane, or its output and events"),
    "feed": Subcommand(f"{_REGISTRY}:FEED", "all that waits for you"),
    "answer": Subcommand(f"{_REGISTRY}:ANSWER", "answer what a job asks"),
    "ask": Subcommand("jobwire.publisher.ask_options", "ask a person, and wait for the answer"),
    "list": Subcommand(f"{_REGISTRY}:LIST", "the jobs, newest first"),
    "cancel": Subcommand(f"{_REGISTRY}:CANCEL", "cancel a job"),
    "dismiss": Subcommand(f"{_REGISTRY}:DISMISS", "take failed jobs out of the failures that are counted"),
    "serve": Subcommand("jobwire.cli.serve", "the registry process: journal, records, states"),
    "registry": Subcommand(
        "jobwire.cli.serve", "the durable record of every job: register, pick, list, cancel ..."
    ),
    "agent": Subcommand("jobwire.coordination.agent_cli:AGENT", "who takes part: join, beat, list, leave"),
    "wait": Subcommand(
        "jobwire.coordination.agent_cli:add_wait", "wait for an event of the coordination by its name"
    ),
    "notify": Subcommand(
        "jobwire.coordination.agent_cli:add_notify", "be told once when an agent or a job rests"
    ),
    "inbox": Subcommand(
        "jobwire.coordination.cli:INBOX",
        "messages between agents: send, fetch, claim, reply, done ... (also: inbox)",
    ),
    "board": Subcommand(
        "jobwire.cli.board:TABLE", "a decision that several agents take: open, assess, vote ..."
    ),
    "autopilot": Subcommand(f"{_WORK}:add_autopilot", "let a command handle the messages of agents, as jobs"),
    "tasks": Subcommand(
        "jobwire.coordination.tasks.cli:TASKS",
        "a plan of tasks that wait for each other: add, claim, review ...",
    ),
    "lock": Subcommand(
        "jobwire.coordination.locks.cli:LOCK", "file locks between agents: acquire, release, list, run ..."
    ),
    "submit": Subcommand(f"{_WORK}:add_submit", "give work to an agent in a tmux session, and watch it"),
    "sessions": Subcommand(
        "jobwire.sessions.cli:SESSIONS",
        "tmux sessions in which agents live: create, list, send, stop, resume ...",
    ),
    "bus": Subcommand(
        "jobwire.coordination.bus.cli:BUS", "the folders of other systems: export to them, import from them"
    ),
    "hook": Subcommand("jobwire.hooks.cli", "what a coding agent's own hooks call"),
    "skill": Subcommand(f"{_OWN}:add_skill", "print the text that tells an agent how to take part"),
    "mcp": Subcommand(
        f"{_OWN}:add_mcp", "the same as tools for agents, by the Model Context Protocol", "mcp"
    ),
    "broker": Subcommand("jobwire.broker.cli", "run, render, check and administer a broker", "broker"),
    "certs": Subcommand("jobwire.certs.cli", "a private certificate authority", "broker"),
    "journal": Subcommand("jobwire.journal.cli", "read and check what crossed the wire"),
    "metrics": Subcommand("jobwire.metrics.cli", "figures about the fleet, computed by Spark", "metrics"),
    "dashboard": Subcommand(
        "jobwire.dashboard.cli", "the fleet on a live page, and for Prometheus", "dashboard"
    ),
    "top": Subcommand("jobwire.dashboard.cli", "the fleet in the terminal", "dashboard"),
    "status": Subcommand("jobwire.dashboard.cli", "one line for a status bar"),
    "doctor": Subcommand("jobwire.broker.cli", "say in plain words what works and what does not", "broker"),
    "unit": Subcommand(f"{_OWN}:add_unit", "print a systemd unit for broker, registry, metrics or dashboard"),
    "settings": Subcommand(f"{_OWN}:add_settings", "every setting in force, and where it comes from"),
    "schema": Subcommand(f"{_OWN}:add_schema", "print the JSON Schema of event, record or state"),
}

# The options that take a value, of commands that run another: what follows the last one is somebody else's.
RUN_VALUES = frozenset(
    {"--title", "--agent", "--agent-session", "--idle-timeout", "--wall-timeout", "--tmux", "--tmux-socket"}
)
AUTOPILOT_VALUES = frozenset(
    {"--agent", "--agents", "--from", "--db", "--ticket", "--max-in-flight", "--per-run-cap", "--max-tries"}
    | {"--bus", "--retry-delays", "--verify-timeout", "--idle-timeout", "--wall-timeout", "--lease"}
)
VALUES = {"run": RUN_VALUES, "autopilot": AUTOPILOT_VALUES}

EPILOG = """\
start here:
  jobwire up                     a home, a broker and a page here, TLS and all
  jobwire run -- make -j2 world  in a second terminal: a command as a job"""


class _Version(argparse.Action):
    """Prints the version; looking it up costs a third of a short command's time, so only when asked."""

    @override
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - see above

        print(f"jobwire {version('jobwire')}")
        parser.exit(0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `jobwire`; return the exit code of SPEC section 6."""
    words, option = _take_home(list(sys.argv[1:] if argv is None else argv))
    as_json = "--json" in words[: _end_of_ours(words)]
    args = argparse.Namespace()
    return end_program(
        lambda: run_command(lambda _: _dispatch(words, option), args, prog=PROG, as_json=as_json), argv
    )


def _dispatch(words: list[str], option: str | None) -> int:
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        import difflib  # noqa: PLC0415  only a typo needs it

        near = difflib.get_close_matches(words[0], COMMANDS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "`jobwire --help` lists the commands"
        raise InvalidInputError(f"there is no command {words[0]!r}", hint=hint)
    parser = _parser(words[0] if words else "")
    args = parser.parse_args(words)
    if not hasattr(args, "run"):
        parser.print_help()
        return 0
    args.home = option
    try:
        if getattr(args, "told", False):
            from jobwire.core.told import told_failures  # noqa: PLC0415 - few commands tell so

            return told_failures(words[0], _run, args)
        return _run(args)
    except ModuleNotFoundError as error:
        # What is heavy is imported where it is used.
        raise missing_library(error, COMMANDS[words[0]].extra) from error


def _run(args: argparse.Namespace) -> int:
    homes.settle_home(args, os.environ)
    return int(body_of(args.run)(args))


def _parser(chosen: str) -> CommandParser:
    parser = CommandParser(PROG, description="The event bus for delegated jobs.", epilog=EPILOG)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument(
        "--home",
        metavar="DIR",
        help=f"{homes.HELP}; accepted by every command",
    )
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        parser_class=CommandParser if chosen in COMMANDS else NameOnly,
    )
    if chosen in COMMANDS:
        _adder(COMMANDS[chosen])(commands)
    else:
        for name, command in COMMANDS.items():
            commands.add_parser(name, help=command.help)
    return parser


def _adder(command: Subcommand) -> Callable[..., None]:
    """Return what adds the command's parser: the function or the row that is named, else `add_commands`."""
    place, _, name = command.module.partition(":")
    try:
        found = getattr(importlib.import_module(place), name or "add_commands")
    except ModuleNotFoundError as error:
        raise missing_library(error, command.extra) from error
    add: Callable[..., None] = getattr(found, "add_to", found)
    return add


def _take_home(words: list[str]) -> tuple[list[str], str | None]:
    """Take `--home DIR` from anywhere in our words, so that it works on both sides of a command's name."""
    home = None
    end = _end_of_ours(words)
    kept: list[str] = []
    position = 0
    while position < end:
        word = words[position]
        if word.startswith("--home="):
            home = word.removeprefix("--home=")
        elif word == "--home" and position + 1 < end:
            position += 1
            home = words[position]
        else:
            kept.append(word)
        position += 1
    return kept + words[end:], home


def _end_of_ours(words: list[str]) -> int:
    """Return how many words are ours: up to `--`, and up to the command that `run` runs."""
    position, command = 0, ""
    while position < len(words) and words[position] != "--":
        word = words[position]
        if word.startswith("-"):
            position += 1 if word != "--home" and word not in VALUES.get(command, RUN_VALUES) else 2
        elif command in VALUES:
            return position
        else:
            command = command or word
            position += 1
    return min(position, len(words))


if __name__ == "__main__":
    sys.exit(main())
