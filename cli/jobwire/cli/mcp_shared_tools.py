"""Tools of `jobwire mcp` for what agents share: file locks, and boards that decide together."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from jobwire.core.bounds import check_seconds
from jobwire.core.errors import NoWorkError

Said = dict[str, Any]


class SharedTools(ABC):
    """The tools of one agent; their signatures and docstrings are what the agent is shown.

    How they reach the store, here or elsewhere, is said by `call`, `wait` and `targets`.
    """

    # How often a wait looks whether its caller went away.
    look_seconds = 1.0

    def __init__(self) -> None:
        # Set when nobody is there any more.
        self._gone = threading.Event()

    @abstractmethod
    def call(self, verb: str, **args: object) -> Said:
        """Do one verb of agents."""

    @abstractmethod
    def wait(self, verb: str, args: Said, seconds: float) -> Said:
        """Return what the verb says once it woke, or after so long."""

    @abstractmethod
    def targets(self, paths: list[str]) -> list[str]:
        """Return what locks on these paths are on."""

    def shared(self) -> list[Callable[..., Said]]:
        """Return these tools."""
        return [
            *(self.lock_acquire, self.lock_renew, self.lock_release, self.lock_list, self.lock_check),
            *(self.lock_wait, self.lock_deadlocks),
            *(self.board_list, self.board_show, self.board_messages, self.board_assess, self.board_discuss),
            *(self.board_pass, self.board_vote, self.board_wait, self.board_resolve, self.board_open),
        ]

    def lock_acquire(
        self, paths: list[str], wait_seconds: float = 0.0, ttl_seconds: float = 1800.0, shared: bool = False
    ) -> Said:
        """Keep others from files that you will change: all or none. error.code locked tells who has them."""
        wanted: Said = {"paths": self.targets(paths), "ttl": ttl_seconds, "shared": shared}
        wanted["job_id"] = os.environ.get("JOBWIRE_JOB", "")
        if wait_seconds <= 0:
            return self.call("lock-acquire", **wanted)
        check_seconds("wait_seconds", wait_seconds)
        found = self.wait("lock-acquire", {**wanted, "wait": True}, wait_seconds)
        if not found["woke"]:
            if "waiting" in found:
                self.call("lock-leave", waiting=found["waiting"])
            raise NoWorkError(f"no lock within {wait_seconds:g} s", hint="wait again", code="timeout")
        return found

    def lock_renew(self, paths: list[str] | None = None, token: int | None = None) -> Said:
        """Keep locks for as long again; without `paths` all of yours. lease_lost: stop writing there."""
        return self._on("lock-renew", paths or [], token=token)

    def lock_release(self, paths: list[str] | None = None, token: int | None = None) -> Said:
        """Give locks back; without `paths` all of yours."""
        return self._on("lock-release", paths or [], token=token)

    def lock_list(self) -> Said:
        """Tell what is held by whom until when, and who waits for what."""
        return self.call("lock-list")

    def lock_check(self, paths: list[str], shared: bool = False) -> Said:
        """Tell whether somebody else holds one of the files: error.code locked, with the locks."""
        return self._on("lock-check", paths, shared=shared)

    def lock_wait(self, paths: list[str], timeout_seconds: float = 600.0) -> Said:
        """Wait until nobody else holds the files, taking nothing; `woke` false: somebody still does."""
        return self.patiently("lock-free", {"paths": self.targets(paths)}, timeout_seconds)

    def lock_deadlocks(self) -> Said:
        """List circles of agents of whom each waits for the next one."""
        return self.call("lock-deadlocks")

    def board_list(self, open: bool = False, limit: int = 20) -> Said:  # noqa: A002 - as the option is called
        """List the boards that you are on, or opened, newest first; `open`: those that have not decided."""
        return self.call("board-list", open=open, limit=limit)

    def board_show(self, board: str) -> Said:
        """Tell in which phase a board is, until when, who is missing, and what was decided."""
        return self.call("board-show", board=board)

    def board_messages(self, board: str) -> Said:
        """Return all that was said on a board, in order."""
        return self.call("board-messages", board=board)

    def board_assess(
        self,
        board: str,
        verdict: str,
        score: float = 5,
        concerns: list[str] | None = None,
        recommendations: list[str] | None = None,
    ) -> Said:
        """Say what you think of the proposal: APPROVE, CONCERNS or REJECT, and a score from 1 to 10."""
        said = {"concerns": concerns or [], "recommendations": recommendations or []}
        return self.call("board-assess", board=board, verdict=verdict, score=score, **said)

    def board_discuss(
        self,
        board: str,
        message: str,
        to: str = "ALL",
        type: str = "CLARIFY",  # noqa: A002 - the field's name
        changes_my_verdict: bool = False,
    ) -> Said:
        """Say something to one member or to ALL: CHALLENGE, AGREE, QUESTION or CLARIFY. Once a round."""
        said = {"message": message, "to": to, "type": type, "changes_my_verdict": changes_my_verdict}
        return self.call("board-discuss", board=board, **said)

    def board_pass(self, board: str) -> Said:
        """Say nothing in this round: nobody waits for you then."""
        return self.call("board-pass", board=board)

    def board_vote(
        self, board: str, verdict: str, confidence: float = 0.5, conditions: list[str] | None = None
    ) -> Said:
        """Vote APPROVE, REJECT or ABSTAIN, with a confidence from 0 to 1 and your conditions."""
        said = {"verdict": verdict, "confidence": confidence, "conditions": conditions or []}
        return self.call("board-vote", board=board, **said)

    def board_wait(self, board: str, phase: str = "COMPLETE", timeout_seconds: float = 600.0) -> Said:
        """Wait until a board is in a phase (DISCUSSING, VOTING, COMPLETE), or beyond it."""
        found = self.patiently("board-wait", {"board": board, "phase": phase}, timeout_seconds)
        if not found["woke"]:
            raise NoWorkError(
                f"board {board} is {found['board']['phase']}", hint="wait again", code="timeout"
            )
        return found

    def board_resolve(self, board: str) -> Said:
        """Return the resolution of a board that has decided: votes, conditions, dissent."""
        return self.call("board-resolve", board=board)

    def board_open(
        self,
        checkpoint: str,
        proposal: str,
        members: list[str],
        quick: bool = False,
        deadline_seconds: float = 1800.0,
    ) -> Said:
        """Ask other agents to decide on a proposal (its whole text); `quick`: their assessments decide."""
        return self.call(
            "board-open",
            checkpoint=checkpoint,
            proposal=proposal,
            members=members,
            quick=quick,
            deadline_seconds=deadline_seconds,
        )

    def _on(self, verb: str, paths: list[str], **more: object) -> Said:
        given = {name: value for name, value in more.items() if value is not None}
        return self.call(verb, paths=self.targets(paths), **given)

    def patiently(self, verb: str, args: Said, seconds: float) -> Said:
        """Return what the verb says once it woke, the time is over, or nobody is there."""
        check_seconds("timeout_seconds", seconds)
        left = seconds
        while True:
            found = self.wait(verb, args, min(left, self.look_seconds))
            left -= self.look_seconds
            if found["woke"] or left <= 0 or self._gone.is_set():
                return found
