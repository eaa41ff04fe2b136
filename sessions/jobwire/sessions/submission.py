"""Work handed to the agent of a session: the job registered, the pane opened or reused, the text handed over.

Each step is noted in the session's row before it is taken: whoever finds this process killed knows how far it
came. Nothing is handed over twice, and what may not have arrived ends its job with that reason.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jobwire.coordination.sessions.inventory import freed
from jobwire.coordination.sessions.stored import HANDED, HANDING, OPENING, SessionRow
from jobwire.core.clock import SystemClock
from jobwire.core.errors import ConflictError, InvalidInputError, JobwireError
from jobwire.core.lease import LeaseGrant
from jobwire.core.override import override
from jobwire.core.signature import new_token
from jobwire.jobs.fold import claim
from jobwire.publisher import Publisher
from jobwire.registry.spec import check_spec, new_record
from jobwire.registry.store import RecordStore
from jobwire.runner.output_log import OUTPUT_FILE
from jobwire.runner.tmux import Pane, Tmux, note_pane
from jobwire.sessions.freeing import free_session
from jobwire.sessions.job_of_session import owner_of
from jobwire.sessions.known_agents import InstructionsBy
from jobwire.sessions.launching import check_directory
from jobwire.sessions.opening import agent_of
from jobwire.sessions.panes import NotNow, find_pane, look_closely, pane_held, reads_keys
from jobwire.sessions.sending import CONFIRMED, DEFERRED, SENT, Sender, TextSent, clean
from jobwire.sessions.taking import INSTRUCTIONS, MOST_PASTED, NewWork, Submission, job_spec, pointer
from jobwire.storage.durable import replace_durably
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Callable

_READY_SECONDS = 60.0
# What takes pasted text reads its terminal key by key; a program that does not is given so long to begin.
_PATIENT_SECONDS = 10.0
_LOOK_SECONDS = 0.05


def submission(home: str, work: NewWork) -> Submission:
    """Return the work on its way, in the way of its agent. Raises InvalidInputError."""
    agent = work.session.agent
    if agent.delivery is InstructionsBy.NONE:
        raise InvalidInputError(
            f"{agent.name} takes no instructions", hint="name an agent, or --deliver line"
        )
    if not work.instructions.strip():
        raise InvalidInputError("there are no instructions", hint="write them, or --file FILE, - for stdin")
    check_spec(job_spec(work))
    check_directory(work.session.directory)
    if agent.lives_on:
        return ToLiving(home, work)
    from jobwire.sessions.once_a_job import OnceAJob  # noqa: PLC0415 - brings the worker of `jobwire run`

    return OnceAJob(home, work)


class ToLiving(Submission):
    """Work for an agent that lives on in its pane: its text is pasted, and it says itself when it is done."""

    @override
    def register(self) -> None:
        """Take the session and write the job as running already: nobody else may pick it."""
        row = self.take()
        try:
            store = RecordStore(self.home)
            now = store.clock.now()
            record = new_record(job_spec(self.work), self.job_id, new_token(), now)
            store.create(claim(record, LeaseGrant(owner_of(self.name)), now), cause="submitted")
            text = self.text_for(row)
            replace_durably(self._path, text.encode(), files=SystemFiles())
        except BaseException:
            self.inventory.change(self.name, freed)
            raise
        self._row = row
        self._text = text

    @property
    def _path(self) -> Path:
        return Path(RecordStore(self.home).log_dir(self.job_id)).resolve() / INSTRUCTIONS

    @override
    def start(self, watched: Callable[[], object]) -> None:
        """Open the pane where it is not there, and hand the instructions over."""
        try:
            row = self._opened(watched)
            self._note_pane(row)
            self._watch_over()
            publisher = Publisher(self.job_id, home=self.home, attempt=1)
            # Before the text: what its agent says first is not the first event.
            publisher.keep("started", f"{row.agent} in session {self.name}, pane {row.pane}")
            sent = self._hand_over(row)
        except JobwireError as error:
            self._fail(f"its instructions were not handed over: {error.message}")
            raise
        if sent.word not in {CONFIRMED, SENT}:
            self._fail(f"its instructions were not handed over: {sent.detail}")
            raise ConflictError(
                f"the instructions were not handed over: {sent.detail}",
                hint=f"`jobwire sessions attach {self.name}` shows the pane",
                code="not_expected",
            )
        with suppress(JobwireError):  # without a broker it stands in the record, and is sent with the next
            publisher.send()
        publisher.close()

    @override
    def close(self) -> None:
        """Note that the job has ended: the session is free."""
        self.leave()
        row = self.inventory.find(self.name)
        if row is not None and row.job_id == self.job_id:
            free_session(self.home, row, self._note_free)

    def _note_free(self, said: str) -> bool:
        done = False

        def edit(row: SessionRow) -> SessionRow:
            nonlocal done
            done = row.job_id == self.job_id
            return freed(row) if done else row

        self.inventory.change(self.name, edit, said=f"session {self.name}: {said}")
        return done

    def _opened(self, watched: Callable[[], object]) -> SessionRow:
        row = self._row
        if row.pane and not isinstance(find_pane(Tmux.at(row.socket), row), NotNow):
            watched()
            return row
        words = agent_of(row).resumed(row.conversation) if row.conversation else []
        return self._opener.start(row, words or row.words, self.work.session.socket, first=watched)

    def _note_pane(self, row: SessionRow) -> None:
        pane = Pane(row.socket, self.name, row.pane, row.pid)
        store = RecordStore(self.home)
        note_pane(store, self.job_id, pane)
        Tmux.at(row.socket).record(row.pane, Path(store.log_dir(self.job_id)) / OUTPUT_FILE)

    def _hand_over(self, row: SessionRow) -> TextSent:
        tmux, sender, clock = Tmux.at(row.socket), Sender(self.home), SystemClock()
        until, patient = clock.monotonic() + _READY_SECONDS, clock.monotonic() + _PATIENT_SECONDS
        is_prompt = agent_of(row).delivery is InstructionsBy.PASTE
        before: list[str] = []
        while True:
            with pane_held(self.home, row):
                seen, shown = look_closely(tmux, row)
                # A screen that changes is drawn still: what is pasted into that is lost.
                still = shown == before and any(map(str.strip, shown))
                # Nor does it take keys while it says only how it begins.
                listens = clock.monotonic() > patient or (
                    not isinstance(seen, NotNow) and (not is_prompt or reads_keys(seen.pid))
                )
                if not isinstance(seen, NotNow) and still and listens:
                    self.inventory.change(self.name, lambda found: found._replace(handing=HANDING))
                    sent = sender.write(row, self._words(seen.brackets))
                    if sent.word != DEFERRED:
                        self.inventory.change(
                            self.name, lambda found: found._replace(handing=HANDED, opener="")
                        )
                        return sent
                    self.inventory.change(self.name, lambda found: found._replace(handing=OPENING))
                before = shown
            if isinstance(seen, NotNow) and seen.gone:
                return TextSent(DEFERRED, seen.words)
            if clock.monotonic() > until:
                return TextSent(
                    DEFERRED, seen.words if isinstance(seen, NotNow) else "its screen changes all the time"
                )
            clock.sleep(_LOOK_SECONDS)

    def _words(self, brackets: bool | None) -> str:
        pasted = self.work.session.agent.delivery is InstructionsBy.PASTE and brackets is not False
        text = (
            self._text if pasted and len(self._text) <= MOST_PASTED else pointer(str(self._path), self.job_id)
        )
        return clean(text)
