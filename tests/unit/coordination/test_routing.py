"""Receipts: who is told, which directives are followed, and that each is followed once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jobwire.coordination import agents, projection, reading, replying, sending, taking
from jobwire.coordination.agents import Joining
from jobwire.coordination.message import MAX_HOP, NewMessage
from jobwire.coordination.projection import settle
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.stored import InboxMessage
from jobwire.coordination.work import ThreadWork
from jobwire.core.setting_tables import TABLES, check_value

TASK = NewMessage("boss", ("builder",), kind="task", subject="fix the parser", body="it breaks")
REVIEW = '::bus-send{to="reviewer" intent="review" risk="low" message="see the diff" accept="make test"}'
IMPLEMENT = '::bus-send{to="builder" intent="implement" message="more"}'
Say = Callable[..., str]


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests out of them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def run(store: CoordinationStore) -> CoordinationStore:
    """Give a run with a lead and two workers."""
    with store.changing() as change:
        agents.join(change, "boss", Joining(kind="lead", incarnation="1"))
        agents.join(change, "builder", Joining(incarnation="1"))
        agents.join(change, "reviewer", Joining(incarnation="1"))
    return store


def done(store: CoordinationStore, body: str, *, agent: str = "builder", task: NewMessage = TASK) -> str:
    """Have an agent do a task, with this receipt; return the thread."""
    thread_id = sending.send(store, task._replace(to=(agent,))).thread_id
    work = ThreadWork(store, agent, environ={})
    work.claim(thread_id)
    work.done(NewMessage(agent, thread_id=thread_id, summary="it works", body=body))
    return thread_id


def sent_to(store: CoordinationStore, agent: str, *, type_: str) -> list[InboxMessage]:
    """Return an agent's messages of a type."""
    found = []
    while taking.may_take(store, agent):
        taken = taking.take(store, agent)
        taking.ack(store, agent, taken.message.id, token=taken.token)
        if taken.message.type == type_:
            found.append(taken.message)
    return found


def test_a_receipt_goes_to_requester_and_lead(run: CoordinationStore) -> None:
    """Whoever asked and the run's leads get the receipt, each once."""
    thread = done(run, "", task=TASK._replace(from_agent="reviewer"))
    assert reading.messages_of(run, thread)[-1].to == ("reviewer", "boss")
    thread = done(run, "")
    assert reading.messages_of(run, thread)[-1].to == ("boss",)


def test_a_directive_becomes_a_message_of_the_receipts_writer(run: CoordinationStore) -> None:
    """Sender, run and task are the receipt's; the message begins a thread of work."""
    thread = done(run, f"all green\n{REVIEW}", task=TASK._replace(task_id="T1"))
    (found,) = sent_to(run, "reviewer", type_="review")
    assert (found.from_agent, found.kind, found.body, found.risk) == (
        "builder",
        "task",
        "see the diff",
        "low",
    )
    assert (found.acceptance, found.task_id, found.hop) == ('["make test"]', "T1", 1)
    began = reading.thread_of(run, found.thread_id)
    assert (began.work, began.assigned_to, began.created_by, began.task_id) == (1, "reviewer", "builder", "")
    assert began.thread_id != thread


def test_only_a_lead_asks_for_implementation(run: CoordinationStore) -> None:
    """A worker's implement is an alert to the lead and nothing else; a lead's is sent."""
    done(run, IMPLEMENT.replace("builder", "reviewer"))
    assert sent_to(run, "reviewer", type_="implement") == []
    (alert,) = sent_to(run, "boss", type_="alert")
    assert "builder may not ask for implement" in alert.summary
    assert alert.body.startswith("::bus-send{")
    done(run, IMPLEMENT, agent="boss", task=TASK._replace(from_agent="reviewer"))
    assert [one.from_agent for one in sent_to(run, "builder", type_="implement")] == ["boss"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('::bus-send{to="nobody" intent="review" message="m"}', "there is no agent nobody"),
        ('::bus-send{to="reviewer" intent="review" task="T99" message="m"}', "has no task T99"),
        ('::bus-send{to="reviewer" intent="review" risk="low', "cannot be read"),
    ],
)
def test_what_is_refused_is_told_to_the_lead(run: CoordinationStore, line: str, why: str) -> None:
    """An unknown target, an unknown task and a broken line are alerts; the others of the receipt are sent."""
    done(run, f"{line}\n{REVIEW}")
    (alert,) = sent_to(run, "boss", type_="alert")
    assert why in alert.summary
    assert len(sent_to(run, "reviewer", type_="review")) == 1


def test_everybody_else_is_everybody_but_the_sender(run: CoordinationStore) -> None:
    """`all` sends to the run's agents without the receipt's writer."""
    done(run, '::bus-send{to="all" intent="info" message="it is green"}')
    assert len(sent_to(run, "reviewer", type_="info")) == 1
    assert len(sent_to(run, "boss", type_="info")) == 1
    assert sent_to(run, "builder", type_="info") == []


def test_a_relay_ends_after_so_many_hops(run: CoordinationStore) -> None:
    """Each directive is one hop further than its receipt; beyond the limit it is an alert."""
    body = '::bus-send{to="builder" intent="fix" message="again"}'
    done(run, body)
    for hop in range(1, MAX_HOP + 1):
        taken = taking.take(run, "builder")
        assert (taken.message.type, taken.message.hop) == ("fix", hop)
        work = ThreadWork(run, "builder", environ={})
        work.claim(taken.message.thread_id)
        work.done(NewMessage("builder", thread_id=taken.message.thread_id, summary="did it again", body=body))
    assert not taking.may_take(run, "builder")
    assert "hops" in sent_to(run, "boss", type_="alert")[0].summary


def test_open_tasks_of_directives_have_a_cap(
    run: CoordinationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the user's limit no directive makes another task; what asks for no work is sent."""
    config = tmp_path / "own" / "jobwire"
    config.mkdir(parents=True)
    (config / "jobwire.toml").write_text("[directives]\nmax_open = 2\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    done(run, "\n".join([REVIEW] * 4 + ['::bus-send{to="reviewer" intent="info" message="m"}']))
    assert len(sent_to(run, "boss", type_="alert")) == 2
    threads = [one for one in reading.threads(run) if one.thread_id.startswith("d-") and one.work]
    assert len(threads) == 2


def test_the_users_table_decides(
    run: CoordinationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the user's own settings replace the table; where they cannot be read nobody may anything."""
    config = tmp_path / "own" / "jobwire"
    config.mkdir(parents=True)
    (config / "jobwire.toml").write_text('[directives]\nallow = ["worker: implement"]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    done(run, f"{IMPLEMENT.replace('builder', 'reviewer')}\n{REVIEW}")
    assert len(sent_to(run, "boss", type_="alert")) == 1
    assert len(sent_to(run, "reviewer", type_="implement")) == 1
    (config / "jobwire.toml").write_text("[directives\n")
    done(run, IMPLEMENT.replace("builder", "reviewer"))
    assert sent_to(run, "reviewer", type_="implement") == []
    assert "not valid TOML" in sent_to(run, "boss", type_="alert")[0].summary


def test_no_home_grants_anything() -> None:
    """The guard's settings are refused in a home's own file, and taken in the user's."""
    for setting in TABLES["directives"]:
        good: object = 5 if setting.name == "max_open" else ["lead: *", "tester: review fix"]
        check_value(setting, good, "a file", own=True)
        assert not setting.values.fit(good)


def test_a_lead_answers_a_receipt_with_directives(run: CoordinationStore) -> None:
    """A lead's answer to a receipt is dispatched; a worker's reply asks for nothing."""
    thread = done(run, "please review")
    replying.reply(run, NewMessage("boss", kind="event", thread_id=thread, summary="go on", body=IMPLEMENT))
    assert [one.hop for one in sent_to(run, "builder", type_="implement")] == [2]
    replying.reply(run, NewMessage("builder", kind="event", thread_id=thread, summary="s", body=REVIEW))
    assert sent_to(run, "reviewer", type_="review") == []


def test_a_delivery_acknowledged_with_a_receipt_is_routed(run: CoordinationStore) -> None:
    """The receipt of `ack` is one: its directives are sent in its transaction, and not again."""
    sending.send(run, NewMessage("builder", ("boss",), kind="result", summary="ready", hop=2))
    taken = taking.take(run, "boss")
    receipt = NewMessage("boss", kind="result", type="receipt", summary="next", body=IMPLEMENT)
    taking.ack(run, "boss", taken.message.id, token=taken.token, receipt=receipt)
    taking.ack(run, "boss", taken.message.id, token=taken.token, receipt=receipt)
    assert [one.hop for one in sent_to(run, "builder", type_="implement")] == [4]


def test_a_crash_before_the_receipt_is_out_sends_each_directive_once(
    run: CoordinationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the job's end and the store's change: whoever opens the job next routes, once."""
    thread_id = sending.send(run, TASK).thread_id
    work = ThreadWork(run, "builder", environ={})
    job_id = work.claim(thread_id).token.job_id

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(projection, "_publish", killed)
        with pytest.raises(KeyboardInterrupt):
            work.done(
                NewMessage("builder", thread_id=thread_id, summary="it works", body=REVIEW + "x" * 9000)
            )
        patch.undo()
    for _ in range(2):
        with work.records.locked(job_id) as locked:
            settle(run, locked)
    assert "not sent" in sent_to(run, "boss", type_="alert")[0].summary
    thread_id = sending.send(run, TASK).thread_id
    job_id = work.claim(thread_id).token.job_id
    with monkeypatch.context() as patch:
        patch.setattr(projection, "_publish", killed)
        with pytest.raises(KeyboardInterrupt):
            work.done(
                NewMessage("builder", thread_id=thread_id, summary="it works", body=f"{'x' * 9000}\n{REVIEW}")
            )
    for _ in range(2):
        with work.records.locked(job_id) as locked:
            settle(run, locked)
    assert len(sent_to(run, "reviewer", type_="review")) == 1


def test_a_repeated_receipt_is_the_same_receipt(run: CoordinationStore) -> None:
    """The same id and words are no second receipt, though a lead joined in between."""
    thread_id = sending.send(run, TASK).thread_id
    work = ThreadWork(run, "builder", environ={})
    work.claim(thread_id)
    said = NewMessage("builder", thread_id=thread_id, summary="it works", body=REVIEW, id="r-1")
    work.done(said)
    with run.changing() as change:
        agents.join(change, "chief", Joining(kind="lead", incarnation="1"))
    assert work.done(said).posted.duplicate
    assert len(sent_to(run, "reviewer", type_="review")) == 1
