"""`jobwire mcp`: an agent's commands as tools of the Model Context Protocol, over stdin and stdout.

Each tool is one call of the library; what it says is what the command of the same name prints with --json.
"""

import contextlib
import functools
import inspect
import json
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent

from jobwire.api.home import Home
from jobwire.api.inbox import AgentInbox
from jobwire.cli.task_tools import TaskTools
from jobwire.coordination.agent_port import LocalAgent, claim_next
from jobwire.coordination.agent_verbs import do_verb
from jobwire.coordination.command import who_am_i
from jobwire.coordination.locks.targets import targets_of
from jobwire.coordination.marks import catch_up
from jobwire.coordination.message import STORE_AGENT
from jobwire.core.bounds import DEFAULT_LEASE_SECONDS, check_count, check_seconds
from jobwire.core.errors import JobwireError, NoWorkError, StorageError
from jobwire.core.exit_codes import ExitCode
from jobwire.core.override import override
from jobwire.core.told import failure_json
from jobwire.publisher.publisher import Publisher

Said = dict[str, Any]
INSTRUCTIONS = (
    "Work that other agents send you, and people who answer you. The daily way: fetch, claim, update, ask,"
    " done. Begin only with what you claimed; end each claim with done or fail. A result with ok false names"
    " the cause (error.code) and what to do (error.hint)."
)
_MOST = 1000
_RUN = "default"


class AgentTools(TaskTools):
    """The tools of one agent; their signatures and docstrings are what the agent is shown."""

    def __init__(self, home: str, agent: str) -> None:
        super().__init__()
        self._home, self._agent = home, agent

    def all(self) -> list[Callable[..., Said]]:
        """Return the tools: the public methods that say something."""
        return [
            *(self.report, self.ask, self.fetch, self.show, self.claim, self.update, self.done, self.fail),
            *(self.send, self.reply, self.wait_reply, self.search, self.agents),
            *self.shared(),
            *self.task_tools(),
        ]

    def close(self) -> None:
        """End all waits within a second: nobody is there any more."""
        self._gone.set()

    def report(self, detail: str, job: str = "") -> Said:
        """Say how far a running job is. Without `job` it is the one that you run in ($JOBWIRE_JOB)."""
        # No broker is waited for: the registry process sends what is kept, or the job's next event does.
        with contextlib.closing(Publisher(job or None, home=self._home)) as publisher:
            kept = publisher.keep("progress", detail)
        return {"job_id": kept.job_id, "seq": kept.seq}

    def ask(
        self, text: str, job: str = "", choices: list[str] | None = None, timeout_seconds: float = 600.0
    ) -> Said:
        """Ask a person and wait for the answer. `job` is the job_id of the thread that you claimed; without
        it, the job that you run in. Nobody answers in time: error.code timeout.
        """  # noqa: D205 - shown to agents as it is
        publisher = Publisher(job or None, home=self._home)
        given = publisher.ask(text, choices=choices or (), timeout_seconds=timeout_seconds, stop=self._gone)
        return {"answer": given.text, "by": given.by, "through": given.through, "job_id": publisher.job_id}

    def fetch(self, unread: bool = False, limit: int = 20) -> Said:
        """Show the threads that wait for you, the most urgent first. Changes nothing: claim what you take."""
        return self.call("fetch", unread=unread, limit=limit)

    def show(self, thread: str, limit: int = 20) -> Said:
        """Show a thread with its last messages."""
        return self.call("show", thread_id=thread, limit=limit, reader=self._agent)

    def claim(self, thread: str, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> Said:
        """Take a thread's work, for nobody but you. Each update extends the lease by as long again."""
        return self.leased("claim", {"thread_id": thread, "lease_seconds": lease_seconds})

    def update(self, thread: str, summary: str, body: str = "", blocked: bool = False) -> Said:
        """Say how the work goes; with `blocked` what it waits for: then wait_reply hears the answer."""
        status = "blocked" if blocked else "in_progress"
        return self.leased("update", {**_words(thread, summary, body), "status": status})

    def done(self, thread: str, summary: str, body: str = "") -> Said:
        """Hand in the result: what you did, where it is, how it was tested."""
        return self.leased("done", _words(thread, summary, body))

    def fail(self, thread: str, summary: str, body: str = "") -> Said:
        """Say that the work cannot be done, and why."""
        return self.leased("fail", _words(thread, summary, body))

    def send(self, to: list[str], subject: str, body: str = "", accept: list[str] | None = None) -> Said:
        """Give work to other agents, as a new thread; `accept`: what must hold in the end."""
        return self.call("send", to=to, kind="task", subject=subject, body=body, acceptance=accept or [])

    def reply(self, thread: str, summary: str, body: str = "") -> Said:
        """Say something in a thread, for example the answer to its question."""
        return self.call("reply", thread_id=thread, summary=summary, body=body)

    def wait_reply(self, thread: str, timeout_seconds: float = 600.0) -> Said:
        """Wait for what others say in a thread after your last question there."""
        check_seconds("timeout_seconds", timeout_seconds)
        with self._inbox() as inbox:
            left, message = timeout_seconds, None
            while message is None and left > 0 and not self._gone.is_set():
                message = inbox.wait_reply(thread, seconds=min(left, self.look_seconds))
                left -= self.look_seconds
            if message is None:
                raise no_reply(thread, timeout_seconds)
            # From where the next wait looks on, as every other wait says it.
            cursor = {"next_event_id": message.seq, "event_id": message.seq}
            return {"woke": True, **cursor, "message": message.to_json()}

    def search(self, words: str, limit: int = 20) -> Said:
        """Find messages that hold all the words, newest first; `word*` finds any ending."""
        check_count("limit", limit, _MOST)
        with self._inbox() as inbox:
            found = [one.to_json() for one in inbox.search(words, limit=limit)]
            return {"messages": found, "event_id": inbox.store.latest_event()}

    def agents(self) -> Said:
        """Tell who is there, what each does, and how long ago it was heard of."""
        return self.call("agents")

    def _inbox(self) -> AgentInbox:
        # Closed after each call: the threads that tools run in come and go.
        return Home(self._home).inbox(self._agent)

    @override
    def call(self, verb: str, **args: object) -> Said:
        """See `SharedTools`."""
        return self._done(self._agent, verb, args)

    @override
    def look(self, verb: str, **args: object) -> Said:
        """See `TaskTools`."""
        return self._done(STORE_AGENT, verb, args)

    @override
    def leased(self, verb: str, args: Said) -> Said:
        """See `TaskTools`: the lease lies in the home."""
        if verb == "task-claim" and "task_id" not in args:
            return claim_next(self.leased, self._agent, args)
        return self._done(self._agent, verb, args)

    @override
    def wait(self, verb: str, args: Said, seconds: float) -> Said:
        """See `SharedTools`."""
        with self._inbox() as inbox:
            return LocalAgent(inbox.store, self._agent).wait(verb, args, seconds)

    def _done(self, agent: str, verb: str, args: Said) -> Said:
        if "limit" in args:
            check_count("limit", args["limit"], _MOST)
        with self._inbox() as inbox:
            catch_up(inbox.store)
            return do_verb(inbox.store, agent, verb, args, keeps_leases=True)

    @override
    def targets(self, paths: list[str]) -> list[str]:
        """See `SharedTools`: relative to the folder that the run works on."""
        with self._inbox() as inbox:
            return targets_of(inbox.store, paths, run_id=_RUN)


def server_of(tools: AgentTools) -> MCPServer:
    """Return the server that offers them."""
    server = MCPServer("jobwire", instructions=INSTRUCTIONS, version=version("jobwire"))
    for tool in tools.all():
        text = " ".join(str(inspect.getdoc(tool)).split())
        server.add_tool(_told(tool), description=text, structured_output=False)
    return server


def _tools(args: Namespace) -> AgentTools:
    ticket = args.ticket or os.environ.get("JOBWIRE_TICKET")
    if not ticket:
        return AgentTools(args.home, who_am_i(args))
    from jobwire.cli.mcp_ticket import TicketTools  # noqa: PLC0415 - built on what stands here

    return TicketTools(ticket, args.agent or os.environ.get("JOBWIRE_AGENT"))


def run(args: Namespace) -> int:
    """Serve until stdin ends."""
    tools = _tools(args)
    server_of(tools).run("stdio")
    tools.close()
    # A wait for a lock may still be under way: the process leaves without it.
    raise SystemExit(int(ExitCode.OK))


def _told(tool: Callable[..., Said]) -> Callable[..., Awaitable[CallToolResult]]:
    """Return the tool as the server calls it: on a thread of its own, failures with code and hint."""

    @functools.wraps(tool)
    async def told(**args: object) -> CallToolResult:
        # Who went away is not waited for.
        said = await anyio.to_thread.run_sync(functools.partial(_said, tool, args), abandon_on_cancel=True)
        text = json.dumps(said, ensure_ascii=False, default=str)
        return CallToolResult(
            content=[TextContent(type="text", text=text)],
            structured_content=json.loads(text),
            is_error=not said["ok"],
        )

    return told


def _said(tool: Callable[..., Said], args: dict[str, object]) -> Said:
    try:
        return {"ok": True, "command": tool.__name__, **tool(**args)}
    except JobwireError as error:
        return failure_json(tool.__name__, error)
    except OSError as error:
        return failure_json(
            tool.__name__, StorageError(str(error), hint="see its owner and mode, and the disk")
        )


def _words(thread: str, summary: str, body: str) -> Said:
    return {"thread_id": thread, "summary": summary, "body": body}


def no_reply(thread: str, seconds: float) -> NoWorkError:
    """Return the error where nobody said anything in time."""
    return NoWorkError(f"no reply in thread {thread} within {seconds:g} s", hint="wait again", code="timeout")
