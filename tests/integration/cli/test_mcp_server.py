"""`jobwire mcp`: the package's own client, a real process, and a home that both work on."""

import json
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobwire.api.home import Home
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.phases import BoardTurn
from jobwire.coordination.home_key import home_key
from jobwire.coordination.store import CoordinationStore
from jobwire.core.errors import InvalidInputError
from jobwire.jobs.requests import Answer
from jobwire.registry.layout import HomeLayout
from jobwire.registry.queue import JobQueue
from jobwire.registry.requests import give_answer, open_in
from jobwire.registry.store import RecordStore
from jobwire.storage.wake import wait_until

mcp = pytest.importorskip("mcp")

Tool = Callable[..., Any]
SECONDS = 120.0


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home with a thread for the builder."""
    place = tmp_path / ".hermes"
    HomeLayout(str(place)).make_layout()
    return place


def visit(home: Path, walk: Callable[[Tool], Any], *words: str) -> None:
    """Let a client walk through the tools of a server of its own."""

    async def go() -> None:
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "jobwire.cli.main", "mcp", "--home", str(home), *words],
            env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
            cwd=home.parent,
        )
        with anyio.fail_after(SECONDS):
            async with mcp.Client(server) as client:

                async def use(name: str, **args: object) -> dict[str, Any]:
                    result = await client.call_tool(name, args)
                    said: dict[str, Any] = json.loads(result.content[0].text)
                    assert said["ok"] is not result.is_error, said
                    assert said == result.structured_content
                    return said

                use.tools = (await client.list_tools()).tools  # type: ignore[attr-defined]
                assert (client.server_info.name, client.server_info.version) == (
                    "jobwire",
                    version("jobwire"),
                )
                await walk(use)

    anyio.run(go)


def answer_yes(home: Path) -> None:
    """Wait for a question, and answer it as a person does."""
    queue = JobQueue(RecordStore(home), warn=pytest.fail)
    asked = wait_until(
        lambda: next(iter(open_in(queue)), None), home=str(home), names=["requests"], seconds=SECONDS
    )
    assert asked is not None
    give_answer(queue, asked.request.id, Answer("yes", "someone", "test"))


def test_a_worker_works_with_tools_alone(home: Path) -> None:
    """Every tool, from the work that waits to its result: a person and a lead answer on the way."""
    lead = Home(home).inbox("lead")
    thread = lead.send("builder", subject="fix the parser", body="it breaks on empty files").thread_id
    person = threading.Thread(target=answer_yes, args=(home,))

    async def walk(use: Tool) -> None:
        offered = {tool.name for tool in use.tools}  # type: ignore[attr-defined]
        assert {"report", "ask", "fetch", "claim", "update", "reply", "done", "fail", "search"} <= offered
        assert all(tool.description for tool in use.tools)  # type: ignore[attr-defined]
        assert [one["thread_id"] for one in (await use("fetch"))["threads"]] == [thread]
        assert (await use("show", thread=thread))["messages"][0]["body"] == "it breaks on empty files"
        job = (await use("claim", thread=thread))["thread"]["job_id"]
        person.start()
        assert (await use("ask", job=job, text="push?", choices=["yes", "no"]))["answer"] == "yes"
        assert (await use("update", thread=thread, summary="begun"))["thread"]["status"] == "in_progress"
        assert (await use("report", job=job, detail="half"))["job_id"] == job
        await use("update", thread=thread, summary="which branch?", blocked=True)
        lead.reply(thread, "main")
        heard = await use("wait_reply", thread=thread)
        assert (heard["message"]["summary"], heard["woke"]) == ("main", True)
        assert heard["next_event_id"] == heard["message"]["seq"] <= heard["event_id"]
        assert (await use("lock_acquire", paths=["a.py"]))["locks"][0]["agent"] == "builder"
        assert await holds_and_waits(use)
        await use("reply", thread=thread, summary="soon there")
        found = await use("search", words="soon")
        assert (bool(found["messages"]), found["event_id"] > 0) == (True, True)
        assert (await use("done", thread=thread, summary="fixed"))["thread"]["status"] == "done"
        other = (await use("send", to=["builder"], subject="more"))["thread_id"]
        await use("claim", thread=other)
        assert (await use("fail", thread=other, summary="no network"))["thread"]["status"] == "failed"
        assert isinstance((await use("agents"))["agents"], list)

    visit(home, walk, "--agent", "builder")
    person.join(SECONDS)
    lead.close()


def test_what_a_tool_showed_is_read(home: Path) -> None:
    """A thread that an agent was shown is no longer unread to it; no list is longer than one may be."""
    from jobwire.cli.mcp_server import AgentTools  # noqa: PLC0415 - where the package is

    lead, tools = Home(home).inbox("lead"), AgentTools(str(home), "builder")
    thread = lead.send("builder", subject="fix the parser", body="it breaks on empty files").thread_id
    lead.close()
    assert [one["thread_id"] for one in tools.fetch(unread=True)["threads"]] == [thread]
    assert tools.show(thread)["messages"]
    assert tools.fetch(unread=True)["threads"] == []
    with pytest.raises(InvalidInputError, match="limit"):
        tools.fetch(limit=1001)


async def holds_and_waits(use: Tool) -> bool:
    """Use each tool for locks; the builder holds a.py."""
    assert [one["path"] for one in (await use("lock_list"))["locks"]] == ["a.py"]
    assert (await use("lock_renew", paths=["a.py"], token=999))["error"]["code"] == "lease_lost"
    assert (await use("lock_renew"))["locks"]
    assert (await use("lock_check", paths=["a.py"]))["locks"] == []
    assert (await use("lock_deadlocks"))["deadlocks"] == []
    assert (await use("lock_wait", paths=["a.py"]))["woke"] is True
    return len((await use("lock_release"))["locks"]) == 1


def test_a_member_decides_with_tools_alone(home: Path) -> None:
    """Every tool for boards, from the question to the resolution; a turn of another phase is an error."""

    async def walk(use: Tool) -> None:
        board = (await use("board_open", checkpoint="PLAN", proposal="do it", members=["builder", "other"]))[
            "board_id"
        ]
        boards = Boards(CoordinationStore(str(home)), key=home_key(str(home)))
        assert [one["board_id"] for one in (await use("board_list", open=True))["boards"]] == [board]
        assert (await use("board_vote", board=board, verdict="APPROVE"))["error"]["code"] == "board_phase"
        await use("board_assess", board=board, verdict="CONCERNS", score=6, concerns=["no way back"])
        assert (await use("board_show", board=board))["board"]["missing"] == ["other"]
        boards.say(board, "other", BoardTurn.ASSESS, {"verdict": "APPROVE"})
        assert (await use("board_wait", board=board, phase="DISCUSSING"))["woke"] is True
        await use("board_discuss", board=board, message="who can undo it?", to="other", type="QUESTION")
        boards.say(board, "other", BoardTurn.PASS, {})
        for _ in range(2):
            await use("board_pass", board=board)
            boards.say(board, "other", BoardTurn.PASS, {})
        assert len((await use("board_messages", board=board))["messages"]) == 8
        error = (await use("board_wait", board=board, timeout_seconds=0.1))["error"]
        assert error["code"] == "timeout"
        await use("board_vote", board=board, verdict="APPROVE", confidence=0.8, conditions=["a canary"])
        assert (await use("board_resolve", board=board))["error"]["code"] == "board_phase"
        boards.say(board, "other", BoardTurn.VOTE, {"final_verdict": "APPROVE"})
        assert (await use("board_resolve", board=board))["resolution"]["verdict"] == "APPROVED"

    visit(home, walk, "--agent", "builder")


def test_what_goes_wrong_is_a_tools_error(home: Path) -> None:
    """It has a code and a hint, and the server goes on; a client that leaves in a wait leaves no process."""
    lead = Home(home).inbox("lead")
    thread = lead.send("other", subject="not yours").thread_id

    async def walk(use: Tool) -> None:
        error = (await use("claim", thread="t-nowhere"))["error"]
        assert (error["code"], error["exit_code"]) == ("thread_not_found", 40)
        assert error["hint"]
        assert (await use("lock_acquire", paths=["../outside"]))["error"]["code"] == "invalid_input"
        assert (await use("search", words="x", limit=-1))["error"]["code"] == "invalid_input"
        assert (await use("wait_reply", thread=thread, timeout_seconds=0.1))["error"]["code"] == "timeout"
        assert (await use("update", thread=thread, summary="x"))["error"]["exit_code"] == 20
        with anyio.move_on_after(0.5):
            await use("lock_acquire", paths=["a.py"], wait_seconds=0)
            await use("wait_reply", thread=thread, timeout_seconds=3600)

    visit(home, walk, "--agent", "builder")
    lead.close()
