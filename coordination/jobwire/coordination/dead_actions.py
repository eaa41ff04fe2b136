"""What `inbox dead` does: list, show, redrive and drop what was given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobwire.coordination import dead_letters, present, taking
from jobwire.coordination.command import say, who_am_i
from jobwire.coordination.dead_letters import Buried, Chosen, Raised
from jobwire.coordination.message import DEFAULT_RUN
from jobwire.coordination.places import open_store, open_to_read
from jobwire.coordination.reading import message_json
from jobwire.coordination.stored import delivery_json
from jobwire.coordination.tasks.stored import view_of
from jobwire.core.errors import InvalidInputError, NoWorkError
from jobwire.core.terminal_text import safe, table
from jobwire.core.told import at_most

if TYPE_CHECKING:
    from argparse import Namespace

    from jobwire.coordination.store import CoordinationStore
    from jobwire.coordination.taking import Taken
    from jobwire.coordination.tasks.states import Task


def dead(args: Namespace) -> int:
    """List, show, redrive or drop what was given up."""
    if sum(map(bool, (args.message, args.task, args.all))) > 1:
        raise InvalidInputError("MESSAGE, --task and --all: one of them says what is meant")
    if args.action == "list":
        return _list(args, open_to_read(args))
    if args.action == "show":
        return _show(args, open_to_read(args))
    by = who_am_i(args)
    store = open_store(args)
    drop = args.action == "drop"
    if args.all:
        raised = dead_letters.raise_all(store, _chosen(args), by=by, drop=drop, force=args.force)
    elif args.task:
        run_id = args.run_id or DEFAULT_RUN
        task = dead_letters.raise_task(store, args.task, run_id, by=by, drop=drop, force=args.force)
        raised = Raised([], [task], [])
    elif drop:
        raised = Raised(taking.drop(store, _named(args), args.recipient, by=by), [], [])
    else:
        moved = taking.redrive(store, _named(args), args.recipient, by=by, force=args.force)
        raised = Raised(moved, [], [])
    return _say_raised(args, store, raised)


def _list(args: Namespace, store: CoordinationStore) -> int:
    messages, tasks = dead_letters.buried(store, _chosen(args)._replace(limit=args.limit + 1))
    found = Buried(at_most(args, messages), at_most(args, tasks))
    bodies = [{**delivery_json(one.delivery), "message": one.message.to_json()} for one in found.messages]
    body = {"dead": bodies, "tasks": _tasks_json(store, found.tasks), "event_id": store.latest_event()}
    say(args, body, lambda: _lines(found))
    return 0


def _show(args: Namespace, store: CoordinationStore) -> int:
    if args.task:
        task = dead_letters.failed_task(store, args.task, args.run_id or DEFAULT_RUN)
        body = {"task": _tasks_json(store, [task])[0], "event_id": store.latest_event()}
        say(args, body, lambda: _lines(Buried([], [task])))
        return 0
    found = taking.dead_deliveries_of(store, _named(args))
    message = message_json(store, found[0].message)
    body = {
        "message": message,
        "deliveries": [delivery_json(one.delivery) for one in found],
        "event_id": store.latest_event(),
    }
    say(args, body, f"{present.message(message)}\n\n{present.dead(_pairs(found))}")
    return 0


def _say_raised(args: Namespace, store: CoordinationStore, raised: Raised) -> int:
    bodies = [delivery_json(one) for one in raised.deliveries]
    body: dict[str, object] = {
        "deliveries": bodies,
        "tasks": _tasks_json(store, raised.tasks),
        "refused": [{"id": name, "why": why} for name, why in raised.refused],
        "event_id": store.latest_event(),
    }
    if len(bodies) == 1:
        body["delivery"] = bodies[0]
    lines = [f"message {one.seq} is {one.state} for {one.agent_id}" for one in raised.deliveries]
    lines += [
        f"task {one.task_id} is {'dropped' if one.dropped else one.status.value}" for one in raised.tasks
    ]
    lines += [f"{name} stays: {why}" for name, why in raised.refused]
    if not lines:
        raise NoWorkError("nothing of that is dead", hint="`inbox dead list` shows what is", response=body)
    say(args, body, "\n".join(map(safe, lines)))
    return 0


def _lines(found: Buried) -> str:
    if not found.tasks:
        return present.dead(_pairs(found.messages))
    rows = [
        (
            one.task_id,
            one.run_id,
            one.worker or one.owner,
            str(one.failures),
            str(one.redriven),
            one.reason,
            one.title,
        )
        for one in found.tasks
    ]
    drawn = table([("TASK", "RUN", "BY", "RUNS", "RETRIED", "WHY", "TITLE"), *rows], None)
    parts = [present.dead(_pairs(found.messages))] if found.messages else []
    return "\n\n".join([*parts, "\n".join(drawn)])


def _pairs(found: list[Taken]) -> list[tuple[dict[str, object], dict[str, object]]]:
    return [(delivery_json(one.delivery), one.message.to_json()) for one in found]


def _tasks_json(store: CoordinationStore, tasks: list[Task]) -> list[dict[str, object]]:
    now_ms = store.now_ms
    return [view_of(store, one).to_json(now_ms) for one in tasks]


def _chosen(args: Namespace) -> Chosen:
    return Chosen(args.recipient, args.run_id, args.reason, args.older_than, args.limit)


def _named(args: Namespace) -> str:
    if args.message is None:
        raise InvalidInputError(f"which message? inbox dead {args.action} MESSAGE, or --task ID, or --all")
    return str(args.message)
