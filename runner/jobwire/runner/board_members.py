"""A board that runs by itself: for each member that is asked, a command as a job.

The command learns from its environment who it is and what it is asked, and speaks as members do, with
`jobwire board assess` and the like. A command that says nothing is its member's silence: the phase ends at
its deadline, and so does whatever still runs for it.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.resolution import page
from jobwire.coordination.command import split_command
from jobwire.coordination.home_key import home_key
from jobwire.coordination.places import open_store
from jobwire.core.errors import JobwireError, NoWorkError
from jobwire.core.terminal_text import safe
from jobwire.core.told import say
from jobwire.jobs.record import Timeouts
from jobwire.registry.store import RecordStore
from jobwire.runner.delegation import Delegation, Plan
from jobwire.storage import wake
from jobwire.storage.durable import replace_durably
from jobwire.storage.signals import stop_event

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from jobwire.coordination.boards.stored import BoardView

ASK_FILE = "asked.json"
_LOOK_SECONDS = 1.0
# The board's next phase begins a moment after the last one's end.
_LEAST_SECONDS = 0.05


class MemberJob(NamedTuple):
    """That a member was asked in a phase, by which job, and how its command ended."""

    member: str
    phase: str
    round: int
    job_id: str
    ending: str

    @property
    def line(self) -> str:
        """Return it as people read it."""
        turn = f" round {self.round}" if self.round else ""
        return f"{self.phase}{turn}: {self.member}, job {self.job_id}: {self.ending}"


class AskedMembers:
    """The members of one board and the command that each runs; `at_once` of them at a time."""

    def __init__(
        self,
        boards: Boards,
        board_id: str,
        command: Sequence[str],
        *,
        records: RecordStore,
        at_once: int,
        tell: Callable[[MemberJob], None],
    ) -> None:
        self._boards = boards
        self._board_id = board_id
        self._command = list(command)
        self._records = records
        self._places = threading.Semaphore(at_once)
        self._tell = tell
        self._stop = threading.Event()
        self.jobs: list[MemberJob] = []

    def ask(self, stop: threading.Event) -> BoardView:
        """Ask until the board has decided, and return it then; as it is where `stop` came first."""
        members = self._boards.view(self._board_id).board.names
        failures: list[JobwireError] = []
        threads = [
            threading.Thread(target=self._guarded, args=(name, failures), name=f"member-{name}")
            for name in members
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if stop.wait(_LOOK_SECONDS) or failures:
                self._stop.set()
        if failures:
            raise failures[0]
        return self._boards.view(self._board_id)

    def _guarded(self, member: str, failures: list[JobwireError]) -> None:
        try:
            self._ask_one(member)
        except JobwireError as error:
            failures.append(error)
        finally:
            self._boards.close()

    def _ask_one(self, member: str) -> None:
        asked: set[tuple[str, int]] = set()
        while (view := self._its_turn(member, asked)) is not None:
            asked.add((view.phase.value, view.progress.round))
            with self._places:
                self._run(member, view)

    def _its_turn(self, member: str, asked: set[tuple[str, int]]) -> BoardView | None:
        """Wait until the member is asked something new; None once the board has decided, or we stop."""

        def look() -> BoardView | None:
            view = self._boards.view(self._board_id)
            turn = (view.phase.value, view.progress.round)
            is_asked = member in view.progress.missing and turn not in asked
            return view if self._stop.is_set() or view.resolution is not None or is_asked else None

        while True:
            thread = self._boards.view(self._board_id).board.thread_id
            view = wake.wait_until(
                look, home=self._records.home, names=[f"thread:{thread}"], seconds=_LOOK_SECONDS
            )
            if view is not None:
                return None if self._stop.is_set() or view.resolution is not None else view

    def _run(self, member: str, view: BoardView) -> None:
        left = view.progress.until_ms / 1000 - self._records.clock.now()
        if left < _LEAST_SECONDS or self._stop.is_set():
            return
        phase, number = view.phase.value, view.progress.round
        job = Delegation(
            self._records,
            Plan(
                self._command,
                title=f"board {self._board_id}: {member}, {phase}",
                timeouts=Timeouts(wall_seconds=left),
            ),
        )
        environ = {
            **os.environ,
            "JOBWIRE_AGENT": member,
            "JOBWIRE_BOARD": self._board_id,
            "JOBWIRE_PHASE": phase,
            "JOBWIRE_ROUND": str(number),
            "JOBWIRE_MESSAGE": self._asked(job, member, view),
        }
        job.start(environ=environ, directory=Path.cwd(), quiet=True)
        give_up = self._records.clock.monotonic() + left
        while not job.wait(min(_LOOK_SECONDS, max(0.0, give_up - self._records.clock.monotonic()))):
            if self._stop.is_set() or self._records.clock.monotonic() >= give_up:
                job.cancel("the board's phase is over" if not self._stop.is_set() else "nobody asks any more")
                break
        ending = job.close()
        done = MemberJob(member, phase, number, job.job_id, ending.sentence if ending else "no last word")
        self.jobs.append(done)
        self._tell(done)

    def _asked(self, job: Delegation, member: str, view: BoardView) -> str:
        """Write what the member is asked beside the job's output, and return where."""
        path = f"{job.log_directory}/{ASK_FILE}"
        asked = {
            "board": view.to_json(),
            "member": member,
            "proposal": view.board.proposal,
            "messages": [one.to_json() for one in view.said],
        }
        replace_durably(path, json.dumps(asked, ensure_ascii=False).encode(), files=self._records.files)
        return path


def ask_all(args: Namespace) -> int:
    """Ask until the board has decided; 10 where it was stopped before."""
    store = open_store(args)
    (board_id,), command = split_command(args.words, "jobwire board ask-all BOARD -- COMMAND", most=1)
    boards = Boards(store, key=home_key(store.home))

    def tell(done: MemberJob) -> None:
        if not args.json:
            print(done.line, flush=True)

    members = AskedMembers(
        boards,
        board_id,
        command,
        records=RecordStore(store.home, clock=store.clock),
        at_once=args.at_once,
        tell=tell,
    )
    with stop_event() as stop:
        view = members.ask(stop)
    jobs = [one._asdict() for one in members.jobs]
    if view.resolution is None:
        raise NoWorkError(
            f"board {board_id} has not decided",
            hint="`jobwire board ask-all` again asks those who are missing",
            code="timeout",
            response={"board": view.to_json(), "jobs": jobs},
        )
    with suppress(BrokenPipeError):
        text = page(view.board.terms, view.resolution, view.said)
        body = {"jobs": jobs, "board": view.to_json(), "board_id": board_id}
        say(args, body, lambda: "\n".join(map(safe, text.splitlines())))
    return 0
