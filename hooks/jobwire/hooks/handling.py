"""What each sign of an agent becomes: events and requests of its job, and the answer to its hook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jobwire.hooks.desk import ENV_SESSION, has_store, note_conversation, open_desk, place_of
from jobwire.hooks.signs import IDLE, NOTHING, Answered, Said, Sign, last_line, line_of, shown
from jobwire.hooks.voice import ours
from jobwire.jobs.requests import is_open

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobwire.hooks.desk import Desk
    from jobwire.hooks.kinds import HookKind
    from jobwire.hooks.policy import Ruled
    from jobwire.jobs.record import JobRecord

# With which an agent is told what others say (`handing.CLASSES`).
_TOLD = frozenset({Sign.BEGUN, Sign.PROMPTED, Sign.TOOL_AFTER, Sign.TURN_END})
# What an agent does is said at most so often: a tool a second would be an event a second.
QUIET_SECONDS = 3.0
# As `hooks.policy` has them, which most signs need not.
ALLOW, DENY, ASK = "allow", "deny", "ask"


def respond(kind: HookKind, said: Said, environ: Mapping[str, str], *, home: str | None = None) -> str:
    """Do a hook's work, and return what it prints: JSON in the agent's form, "" for nothing.

    May wait for a person. Raises JobwireError where it cannot be kept: the agent goes its own way then.
    """
    if said.sign is Sign.BEGUN and environ.get(ENV_SESSION) and not said.within:
        note_conversation(environ, said, home=home)
    desk = open_desk(kind, environ, home=home)
    place = place_of(environ, home=home)
    if place is not None and said.sign is Sign.PROMPTED and not said.within:
        place.end_waiting()
    if desk is not None:
        answered = handle(desk, said)
    else:
        answered = told_by_others(place.home, place.agent, said) if place is not None else NOTHING
    answer = kind.write(said, answered) if answered else None
    return json.dumps(answer) if answer is not None else ""


def handle(desk: Desk, said: Said) -> Answered:
    """Take note of what a hook says, and return what it is answered; may wait for a person.

    Raises JobwireError where it cannot be kept: the agent goes its own way then.
    """
    record = desk.voice.record()
    if record.terminal:
        return told_by_others(desk.home, desk.agent, said)
    if said.within and said.sign not in {Sign.PERMISSION, Sign.TOOL_BEFORE, Sign.TOOL_AFTER}:
        return NOTHING
    return _HANDLERS[said.sign](desk, said, record)


def _begun(desk: Desk, said: Said, record: JobRecord) -> Answered:
    data = {"agent": desk.kind.name, "conversation": said.conversation}
    first = record.last_seq == record.attempt_seq
    if first and not desk.begins_the_job:
        return NOTHING
    desk.voice.close_requests(ours(record), "a conversation began")
    how = "goes on with its conversation" if said.kind == "resume" else "began a conversation"
    desk.voice.say("started" if first else "progress", f"{desk.kind.name} {how}", data)
    return _with_messages(desk, said)


def _prompted(desk: Desk, said: Said, record: JobRecord) -> Answered:
    if record.last_seq == record.attempt_seq and desk.begins_the_job:
        desk.voice.say("started", f"{desk.kind.name} was given its work", {"agent": desk.kind.name})
    elif record.attention:
        # Whatever was open: somebody is at the pane.
        open_ones = ours(record)
        if open_ones:
            desk.voice.close_requests(open_ones, "settled at the pane")
        else:
            desk.voice.say("progress", "a turn begins")
    elif desk.voice.seconds_silent(record) >= QUIET_SECONDS:
        desk.voice.say("progress", "a turn begins")
    return _with_messages(desk, said)


def _before_tool(desk: Desk, said: Said, _: JobRecord) -> Answered:
    ruled = desk.policy.denies(said.tool, _judged(said))
    if ruled is not None:
        return _by_policy(desk, said, ruled)
    if said.paths and desk.agent and has_store(desk.home):
        from jobwire.hooks.guard import holder_of  # noqa: PLC0415 - only edits of files need the store

        held = holder_of(desk, said)
        if held:
            desk.voice.say("progress", f"held back: {held.short}", {"lock": {"path": held.path}})
            return Answered("deny", words=held.words)
    return NOTHING


def _permission(desk: Desk, said: Said, _: JobRecord) -> Answered:
    if not said.questions:
        ruled = desk.policy.judge(said.tool, _judged(said))
        if ruled.verdict != ASK:
            return _by_policy(desk, said, ruled)
    if desk.is_served:
        return NOTHING
    if not desk.waits:
        desk.voice.say("permission_required", f"at its pane: {line_of(said.tool, said.given)}")
        return NOTHING
    from jobwire.hooks.asking import ask_person  # noqa: PLC0415 - only who waits needs it

    return ask_person(desk, said)


def _after_tool(desk: Desk, said: Said, record: JobRecord) -> Answered:
    settled = ours(record, said.digest)
    line = line_of(said.tool, said.given) + (" (failed)" if said.failed else "")
    if settled:
        # Of calls that are alike each has its own.
        desk.voice.close_requests(settled[:1], f"settled at the pane: {line}")
    elif _unnamed(record) or desk.voice.seconds_silent(record) >= QUIET_SECONDS:
        desk.voice.say("progress", line)
    return _with_messages(desk, said)


def _notified(desk: Desk, said: Said, record: JobRecord) -> Answered:
    if said.kind == IDLE and not is_open(record.requests):
        # No end of a turn came before it: the turn was interrupted at the keyboard.
        desk.voice.say("permission_required", f"{desk.kind.name} waits at its prompt")
    return NOTHING


def _turn_ended(desk: Desk, said: Said, record: JobRecord) -> Answered:
    _settle_before(desk, record)
    from jobwire.hooks.turn_end import ASKED, AfterTurn, judge_end  # noqa: PLC0415 - once a turn
    from jobwire.hooks.usage import used_since  # noqa: PLC0415 - as above

    used = used_since(desk, said)
    if desk.ends_with_its_turn:
        desk.voice.say("progress", last_line(said.text) or "the turn ended", used)
        return NOTHING
    end = judge_end(said, desk.policy)
    if end.ending in {AfterTurn.VERDICT, AfterTurn.POLICY}:
        data = {
            **used,
            **({"policy": {"turn_end": desk.policy.turn_end}} if end.ending is AfterTurn.POLICY else {}),
        }
        desk.voice.say(end.event, end.detail, data)
        return NOTHING
    if end.ending is AfterTurn.BUSY:
        desk.voice.say("progress", f"{said.background} tasks go on in the background", used)
        return NOTHING
    if end.ending is AfterTurn.PERSON:
        if used:
            desk.voice.say("progress", last_line(said.text) or "the turn ended", used)
        if not desk.wakes:
            desk.voice.say("permission_required", "the turn ended without a verdict: go on at the pane")
        return _with_messages(desk, said)
    desk.voice.say("progress", "the turn ended: asked for a verdict", used)
    return _with_messages(desk, said, Answered(go_on=ASKED))


def _failed(desk: Desk, said: Said, record: JobRecord) -> Answered:
    _settle_before(desk, record)
    from jobwire.hooks.turn_end import RETRYABLE, UNKNOWN, failure_of  # noqa: PLC0415 - rare

    # What wakes the agent asks about it; how a process that ends with its turn ends is the verdict.
    asked = desk.wakes or desk.ends_with_its_turn
    error = said.kind or UNKNOWN
    data = {"error": error, "retryable": error in RETRYABLE}
    desk.voice.say("progress" if asked else "permission_required", failure_of(said), data)
    return NOTHING


def _settled(desk: Desk, said: Said, record: JobRecord) -> Answered:
    from jobwire.hooks.asking import request_id_of  # noqa: PLC0415 - as above

    name = request_id_of(desk, said) if said.call else ""
    found = [one for one in ours(record) if one.id == name or (said.tool and one.digest == said.digest)]
    desk.voice.close_requests(found[:1], "settled at the pane")
    return NOTHING


def _ended(desk: Desk, said: Said, record: JobRecord) -> Answered:
    desk.voice.close_requests(ours(record), "the conversation ended")
    desk.voice.say(
        "progress", f"{desk.kind.name} ended its conversation: {said.kind or said.text or 'no reason'}"
    )
    return NOTHING


_HANDLERS: dict[Sign, Callable[[Desk, Said, JobRecord], Answered]] = {
    Sign.BEGUN: _begun,
    Sign.PROMPTED: _prompted,
    Sign.TOOL_BEFORE: _before_tool,
    Sign.PERMISSION: _permission,
    Sign.TOOL_AFTER: _after_tool,
    Sign.NOTIFIED: _notified,
    Sign.TURN_END: _turn_ended,
    Sign.FAILED: _failed,
    Sign.SETTLED: _settled,
    Sign.ENDED: _ended,
}


def _settle_before(desk: Desk, record: JobRecord) -> None:
    """Settle what the turn asked; what is asked about its end is the other hook's, which runs beside us."""
    open_ones = [one for one in ours(record) if one.digest is not None]
    desk.voice.close_requests(open_ones, "settled at the pane")


def _unnamed(record: JobRecord) -> bool:
    """Tell whether something is open that the next event closes."""
    return any(not one.named and not one.settled for one in record.requests)


def _judged(said: Said) -> str:
    """Return what patterns are matched with: all of it, whatever is shown to people."""
    command = said.given.get("command")
    if isinstance(command, str):
        return command
    return said.paths[0] if said.paths else shown(said.given)


def _by_policy(desk: Desk, said: Said, ruled: Ruled) -> Answered:
    """Take the user's rule for the answer; it is said as such."""
    verdict = "denied" if ruled.verdict == DENY else "allowed"
    by = f"rule {ruled.rule}" if ruled.rule else "default"
    desk.voice.say(
        "progress",
        f"{verdict} by policy ({by}): {line_of(said.tool, said.given)}",
        {"policy": {"verdict": ruled.verdict, "rule": ruled.rule, "tool": said.tool, "digest": said.digest}},
    )
    if ruled.verdict == ALLOW:
        return Answered("allow")
    return Answered("deny", words=f"The user's policy denies this ({by}). Do it another way, or leave it.")


def _with_messages(desk: Desk, said: Said, answered: Answered = NOTHING) -> Answered:
    """Return the answer with what other agents have to say, where there is anything."""
    if said.within or not desk.agent or not has_store(desk.home):
        return answered
    from jobwire.coordination.locks.guards import note_guard  # noqa: PLC0415 - only agents with a name have locks

    note_guard(desk.home, desk.agent, desk.voice.job_id)
    return told_by_others(desk.home, desk.agent, said, answered)


def told_by_others(home: str, agent: str, said: Said, answered: Answered = NOTHING) -> Answered:
    """Return what other agents have to say, with `answered`; one that has no job now is told only that."""
    if said.within or said.sign not in _TOLD or not agent or not has_store(home):
        return answered
    from jobwire.hooks.handing import messages_for  # noqa: PLC0415 - only agents with a name have messages

    text = messages_for(home, agent, said)
    if not text:
        return answered
    if said.sign is Sign.TURN_END:
        return answered._replace(go_on=f"{text}\n\n{answered.go_on}".strip())
    return answered._replace(context=text)
