"""A hook that waits for a person: the first answer wins, wherever it is given.

While it waits the question stands at the agent's pane as well. Nobody tells the hook that it was answered
there: the agent's next hook does, by closing the request, and where it has none the agent's own listing of
its state. A hook whose agent is gone takes its request back.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobwire.core.errors import NoWorkError, StoppedError
from jobwire.hooks.signs import NOTHING, Answered, line_of, shown
from jobwire.hooks.turn_end import HOW_TO_END, UNKNOWN, failure_of, next_retry
from jobwire.hooks.voice import ours
from jobwire.jobs.request_form import RequestKind
from jobwire.jobs.requests import choice_in
from jobwire.publisher.asking import NOBODY, new_request_id
from jobwire.publisher.publisher import Publisher
from jobwire.storage.signals import delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobwire.hooks.desk import Desk
    from jobwire.hooks.signs import Said
    from jobwire.hooks.turn_end import Retry
    from jobwire.jobs.requests import Answer

ALLOW, DENY = "allow", "deny"
RETRY = "retry"
AFTER_ERROR = "An error of the model's service ended your turn, and may be over: go on with the work."
# Below the time that the launch gives our hooks: what nobody answered in a day is not carried out later.
WAIT_SECONDS = 86_000.0
_LOOK_SECONDS = 0.5


def request_id_of(desk: Desk, said: Said) -> str:
    """Return the id of the request about a call that the agent has a name for."""
    digest = hashlib.sha256(f"{said.conversation}\0{said.call}".encode()).hexdigest()
    return f"{desk.voice.job_id}.{digest[:10]}"


def ask_person(desk: Desk, said: Said, settled: Callable[[], bool] | None = None) -> Answered:
    """Ask whether the tool may run, or what the agent's questions are answered; NOTHING where nobody did.

    `settled` tells that it was answered at the pane, where the agent's program says so.
    """
    with _watched(desk, said, settled) as stop:
        if said.questions:
            return _ask_questions(desk, said, stop)
        scope = "the same for the rest of this conversation" if said.suggestions else None
        given = _ask(
            desk,
            said,
            stop,
            line_of(said.tool, said.given),
            kind=RequestKind.PERMISSION,
            choices=(ALLOW, DENY),
            scope=scope,
            preview=shown(said.given),
        )
    if given is None:
        return NOTHING
    choice, words = choice_in(given.text, (ALLOW, DENY))
    if choice == ALLOW:
        return Answered(ALLOW, always=given.always)
    return Answered(DENY, words=words or "A person denied this.")


def ask_verdict(desk: Desk, said: Said) -> Answered:
    """Ask what the end of a turn means; the job ends as the answer says, or the agent goes on with it."""
    with _watched(desk, said) as stop:
        given = _ask(
            desk,
            said,
            stop,
            f"{desk.kind.name} ended its turn and gave no verdict: {said.text or 'it said nothing'}",
            kind=RequestKind.TURN_END,
            choices=("completed", "error"),
        )
    if given is None:
        return NOTHING
    choice, words = choice_in(given.text, ("completed", "error"))
    if choice:
        desk.voice.say(choice, words or f"a person called it {choice}")
        return NOTHING
    return Answered(go_on=words)


def ask_after_error(desk: Desk, said: Said) -> Answered:
    """Ask what becomes of a turn that its model's service ended; by policy it is tried again by itself."""
    retry = next_retry(said.kind or UNKNOWN, desk.voice.record().requests, desk.policy, desk.clock.now())
    again = f"; tried again in {retry.seconds:g} s ({retry.number} of {retry.limit})" if retry else ""
    with _watched(desk, said) as stop:
        found = _ask(
            desk,
            said,
            stop,
            f"{failure_of(said)}{again}",
            kind=RequestKind.ERROR,
            choices=(RETRY, "error"),
            retry=retry,
        )
    if found is None:
        return NOTHING
    choice, words = choice_in(found.text, (RETRY, "error"))
    if choice == "error":
        desk.voice.say(choice, words or failure_of(said))
        return NOTHING
    if retry and found.by == NOBODY:
        data = {"policy": {"retry": retry.number, "retries": retry.limit}}
        desk.voice.say("progress", f"tried again by policy ({retry.number} of {retry.limit})", data)
    return Answered(go_on=f"{words or AFTER_ERROR} {HOW_TO_END}")


def _ask_questions(desk: Desk, said: Said, stop: threading.Event) -> Answered:
    replies = {}
    for question in said.questions:
        given = _ask(
            desk, said, stop, question.text, kind=RequestKind.QUESTION, choices=_fitting(question.choices)
        )
        if given is None:
            return NOTHING
        replies[question.text] = given.text
    return Answered(ALLOW, replies=replies)


def _ask(
    desk: Desk,
    said: Said,
    stop: threading.Event,
    text: str,
    *,
    kind: str,
    choices: Sequence[str],
    scope: str | None = None,
    preview: str | None = None,
    retry: Retry | None = None,
) -> Answer | None:
    """Return the answer, by nobody where it is the policy's; None where it was settled elsewhere."""
    publisher = Publisher(desk.voice.job_id, home=desk.home, environ=desk.environ, clock=desk.clock)
    plain = kind == RequestKind.PERMISSION and said.call
    name = request_id_of(desk, said) if plain else new_request_id(desk.voice.job_id)
    try:
        return publisher.ask(
            text,
            kind=kind,
            choices=choices,
            scope=scope,
            tool=said.tool or None,
            digest=said.digest if said.tool else None,
            preview=preview,
            default=RETRY if retry else None,
            timeout_seconds=retry.seconds if retry else WAIT_SECONDS,
            request=name,
            stop=stop,
        )
    except NoWorkError:
        return None
    except StoppedError:
        if stop.is_set():
            open_ones = [one for one in ours(desk.voice.record()) if one.id == name]
            desk.voice.close_requests(open_ones, "settled at the pane")
        return None


def _fitting(choices: Sequence[str]) -> tuple[str, ...]:
    from jobwire.core.terminal_text import disarmed  # noqa: PLC0415 - of questions only
    from jobwire.jobs.request_form import MAX_CHOICE, MAX_CHOICES  # noqa: PLC0415 - as above

    plain = (" ".join(disarmed(one).split())[:MAX_CHOICE] for one in choices)
    return tuple(dict.fromkeys(one for one in plain if one))[:MAX_CHOICES]


@contextmanager
def _watched(desk: Desk, said: Said, settled: Callable[[], bool] | None = None) -> Iterator[threading.Event]:
    """Give an event that is set once nobody waits for the answer any more."""
    stop, done = threading.Event(), threading.Event()
    gone = [*_looks(desk, said), *([settled] if settled else [])]

    def watch() -> None:
        while not done.wait(_LOOK_SECONDS):
            if any(look() for look in gone):
                stop.set()
                return

    watcher = threading.Thread(target=watch, name="agent-watch", daemon=True)
    watcher.start()
    try:
        if threading.current_thread() is threading.main_thread():
            with delivered(dict.fromkeys((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), stop.set)):
                yield stop
        else:
            yield stop
    finally:
        done.set()
        watcher.join()


def _looks(desk: Desk, said: Said) -> list[Callable[[], bool]]:
    """Return what tells that the agent waits no more."""
    parent = os.getppid()
    found: list[Callable[[], bool]] = [lambda: os.getppid() != parent]
    if desk.kind.name == "claude":
        from jobwire.hooks.claude_state import SettledAtPane  # noqa: PLC0415 - of this agent only

        found.append(SettledAtPane(said.conversation, parent, desk.environ))
    return found
