"""An agent's inbox from Python: what is taken is done once, or comes again."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from jobwire import AsyncHome, Home, InvalidInputError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Give a new home."""
    return Home.make(tmp_path / "home")


def test_a_message_is_taken_answered_and_done(home: Home) -> None:
    """What one sends the other takes; coming back for the next acknowledges it."""
    lead, builder = home.inbox("lead"), home.inbox("builder")
    posted = lead.send("builder", "build it", body="all of it", payload={"files": 3})
    for message in builder.take(wait_seconds=0):
        assert (message.body, message.payload, message.from_agent) == ("all of it", {"files": 3}, "lead")
        builder.reply(message, "on it")
    assert list(builder.take(wait_seconds=0)) == []
    reply = lead.wait_reply(posted.thread_id, seconds=5, after=posted.event_id)
    assert reply is not None
    assert (reply.summary, reply.from_agent, reply.in_reply_to) == ("on it", "builder", posted.message_id)
    assert [one.id for one in lead.search("build")] == [posted.message_id]


def test_a_handler_that_fails_gives_its_message_back(home: Home) -> None:
    """An exception that leaves the loop is a failed try: the message comes again, with its reason."""
    home.inbox("lead").send("builder", "build it")
    builder = home.inbox("builder")
    with contextlib.suppress(ZeroDivisionError):
        for _ in builder.take(wait_seconds=0):
            raise ZeroDivisionError
    for again in builder.take(wait_seconds=30):
        assert again.delivery.attempts == 2
        again.ack("done now", body="as asked")
        break
    receipts = [(one.type, one.summary, one.body) for one in home.inbox("lead").take(wait_seconds=0)]
    assert receipts == [("receipt", "done now", "as asked")]


def test_a_lease_is_renewed_while_the_handler_works(home: Home) -> None:
    """A handler that takes longer than the lease keeps its message."""
    home.inbox("lead").send("builder", "build it")
    first, second = home.inbox("builder"), home.inbox("builder")
    for message in first.take(wait_seconds=0, lease_seconds=0.5):
        assert list(second.take(wait_seconds=1.5)) == []
        message.ack()


def test_threads_are_worked_on_from_python(home: Home) -> None:
    """Claim, update and done are the job's, as from the command line."""
    posted = home.inbox("lead").send("builder", "build it")
    builder = home.inbox("builder")
    claimed = builder.claim(posted.thread_id)
    builder.update(posted.thread_id, "half")
    builder.done(posted.thread_id, "all", payload={"files": 3})
    assert home.job(claimed.token.job_id).status == "completed"
    assert [one.kind for one in builder.messages(posted.thread_id)] == ["task", "progress", "result"]
    with pytest.raises(InvalidInputError):
        home.inbox("no name")


def test_asyncio_agents_talk(tmp_path: Path) -> None:
    """Two coroutines have a conversation: a question, its answer, and an exception that gives back."""

    async def conversation() -> list[str]:
        home = AsyncHome(Home.make(tmp_path / "home").path)
        said: list[str] = []

        async def builder() -> None:
            mine = home.inbox("builder")
            async for message in mine.take(wait_seconds=20):
                async with message:
                    said.append(message.taken.summary)
                    await mine.reply(message.taken, "main")
                    return

        worker = asyncio.create_task(builder())
        answer = await home.inbox("lead").ask("builder", "which branch?", seconds=20)
        await worker
        said.append(answer.summary if answer is not None else "")
        return said

    assert asyncio.run(conversation()) == ["which branch?", "main"]
