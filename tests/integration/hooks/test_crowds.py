"""Many questions at once, two agents in one directory, two answers at one moment: nothing is mixed up."""

import os
from pathlib import Path
from threading import Barrier, Thread

from jobwire.core.errors import ConflictError, NotFoundError
from jobwire.hooks.signs import Answered
from jobwire.jobs.requests import Answer, open_requests
from jobwire.registry.requests import give_answer
from jobwire.testing.hooked_agent import Aside, HookedAgent

# In one process two hundred hooks hold each other up: seconds as processes of their own, minutes as threads.
CROWD, AT_ONCE = 200 if os.environ.get("JOBWIRE_FAULTS") == "long" else 50, 10


def asks(agent: HookedAgent, command: str) -> Aside[Answered]:
    """Have the agent ask for a command, in a hook of its own."""
    return Aside(lambda: agent.hook("PermissionRequest", tool_name="Bash", tool_input={"command": command}))


def test_many_open_questions_have_each_their_own_answer(tmp_path: Path) -> None:
    """Parallel tools of one agent: answered in any order, and what one is told no other is."""
    agent = HookedAgent(tmp_path)
    hooks = {}
    for begin in range(0, CROWD, AT_ONCE):
        for number in range(begin, begin + AT_ONCE):
            hooks[f"make file{number:03}"] = asks(agent, f"make file{number:03}")
        found = agent.asked(begin + AT_ONCE)
    assert {one.preview for one in found} == set(hooks)
    for one in [*found[1::2], *reversed(found[::2])]:
        allowed = str(one.preview).endswith("0")
        agent.answer(one, "allow" if allowed else f"deny: not {one.preview}")
    for command, hook in hooks.items():
        answered = hook.result()
        if command.endswith("0"):
            assert answered.verdict == "allow"
        else:
            assert (answered.verdict, answered.words) == ("deny", f"not {command}")
    assert open_requests(agent.record.requests) == []


def test_two_agents_in_one_directory_are_told_apart(tmp_path: Path) -> None:
    """The same command of two jobs: one is allowed, the other denied, and a tool that ran closes its own."""
    first = HookedAgent(tmp_path, conversation="c-1")
    second = HookedAgent(tmp_path, conversation="c-2")
    one, other = asks(first, "make"), asks(second, "make")
    (asked,) = first.asked()
    (also_asked,) = second.asked()
    first.answer(asked, "allow")
    assert one.result().verdict == "allow"
    first.hook("PostToolUse", tool_name="Bash", tool_input={"command": "make"})
    assert [request.id for request in second.asked()] == [also_asked.id]
    second.answer(also_asked, "deny: the other one does it")
    assert other.result().words == "the other one does it"


def test_of_two_answers_at_one_moment_one_counts(tmp_path: Path) -> None:
    """Two persons press at once, one for yes and one for no: one is told that it was too late."""
    agent = HookedAgent(tmp_path)
    for number in range(10):
        hook = asks(agent, f"make {number}")
        (asked,) = agent.asked()
        told: dict[str, bool] = {}
        start = Barrier(2)

        def press(
            text: str, name: str = asked.id, told: dict[str, bool] = told, start: Barrier = start
        ) -> None:
            start.wait()
            try:
                give_answer(agent.queue, name, Answer(text, text, "test"))
            except (ConflictError, NotFoundError):
                told[text] = False
            else:
                told[text] = True

        persons = [Thread(target=press, args=(text,)) for text in ("allow", "deny")]
        for person in persons:
            person.start()
        for person in persons:
            person.join()
        (counted,) = [text for text, taken in told.items() if taken]
        assert hook.result().verdict == counted
