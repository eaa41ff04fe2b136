"""Agents and their conversations on the page: a real browser, a real server, a real store."""

from collections.abc import Callable, Iterator

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobwire.coordination import agents
from jobwire.coordination.agents import Beat, Joining
from jobwire.coordination.boards.boards import Boards
from jobwire.coordination.boards.statements import NewBoard
from jobwire.coordination.home_key import home_key
from jobwire.coordination.locks.changes import LockRequest
from jobwire.coordination.locks.file_locks import Locks
from jobwire.coordination.message import Artifact, NewMessage
from jobwire.coordination.reading import messages_of
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.tasks.new_task import NewTask
from jobwire.coordination.tasks.tasks import Tasks
from jobwire.coordination.work import ThreadWork
from jobwire.storage.user import user_name
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.waiting import wait_for

from .conftest import Browser

pytestmark = pytest.mark.browser
Serve = Callable[..., DashboardProcess]
HOSTILE = "<img src=x onerror=alert(1)>"
BODY = "one\u202etwo\x1b[2J\n" + "word " * 8000


@pytest.fixture
def store(writer: FleetWriter) -> Iterator[CoordinationStore]:
    """Give the store of the writer's home."""
    made = CoordinationStore(str(writer.home))
    yield made
    made.close()


def open_view(browser: Browser, server: DashboardProcess, path: str) -> None:
    """Open a view and wait until it is live."""
    browser.driver.get(server.url + path)
    wait_for(lambda: browser.texts("#live") == ["live"], what="a live page")


def looks_well(browser: Browser, server: DashboardProcess, path: str, name: str, selector: str) -> None:
    """See the view on a phone in the dark and on a desk: nothing hangs over the edge."""
    for width, dark in ((420, True), (1280, False)):
        browser.look(width, dark=dark)
        open_view(browser, server, path)
        wait_for(lambda: browser.texts(selector), what=selector)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True, (name, width)
        browser.keep(f"{name}-{width}-{'dark' if dark else 'light'}")
    browser.look()


def nodes(browser: Browser) -> object:
    """Return the texts of the graph's nodes."""
    found = "document.querySelectorAll('.graph .node text:first-of-type')"
    return browser.run(f"return [...{found}].map((node) => node.textContent)")


def test_a_person_follows_a_conversation_and_answers(
    browser: Browser, writer: FleetWriter, serve: Serve, store: CoordinationStore
) -> None:
    """Blocked ones first, live, hostile texts as text; a reply by keys is the answer, and is said once."""
    for number in range(60):
        send(store, NewMessage("lead", ("ben",), summary=f"note {number}"))
    task = NewMessage(
        "lead", ("ann",), kind="task", summary=f"Parse {HOSTILE}", body=BODY,
        acceptance=("tests pass",), artifacts=(Artifact("src/a.py"),), priority="high",
    )  # fmt: skip
    thread = send(store, task).thread_id
    work = ThreadWork(store, "ann", environ={})
    token = str(work.claim(thread).token)
    server = serve("--allow-actions")
    open_view(browser, server, "conversations")
    wait_for(lambda: len(browser.texts("tbody tr")) == 50, what="a page of conversations")
    question = NewMessage("ann", thread_id=thread, kind="question", summary="Which grammar?")
    work.update(question, "blocked", token=token)
    wait_for(lambda: browser.texts("tbody tr:nth-child(1) .badge") == ["blocked"], what="the blocked one")
    assert browser.texts("h1") == ["1 conversation is blocked"]
    browser.driver.find_element(By.CSS_SELECTOR, ".more").click()
    wait_for(lambda: len(browser.texts("tbody tr")) == 61, what="the older ones")
    looks_well(browser, server, "conversations", "conversations", "tbody tr")

    body = browser.driver.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: browser.texts(".message .summary")[-1:] == ["Which grammar?"], what="the question")
    assert HOSTILE in browser.texts("h1")[0]
    shown = browser.texts(".message .body")[0]
    assert shown.startswith("one\ufffdtwo\ufffd[2J")
    assert "All of it (40" in "".join(browser.texts(".message"))
    assert browser.texts(".artifacts code") == ["src/a.py"]
    browser.driver.find_element(By.TAG_NAME, "body").send_keys("r")
    browser.driver.switch_to.active_element.send_keys(f"the old one {HOSTILE}", Keys.CONTROL, Keys.ENTER)
    wait_for(lambda: browser.texts("#said") == ["Sent"])
    wait_for(lambda: len(browser.texts(".message")) == 3, what="the reply in its place")
    said = messages_of(store, thread)[-1]
    assert (said.from_agent, said.kind, said.body) == (user_name(), "answer", f"the old one {HOSTILE}")
    send(store, NewMessage("ann", ("lead",), thread_id=thread, summary="thanks"))
    wait_for(lambda: browser.texts(".message .summary")[-1:] == ["thanks"], what="a live message")
    looks_well(browser, server, f"conversations?thread={thread}", "conversation", ".message")

    open_view(browser, server, "search")
    browser.driver.switch_to.active_element.send_keys("gramm*", Keys.ENTER)
    wait_for(lambda: browser.texts(".found .title") == ["Which grammar?"], what="what was found")


def test_a_person_sees_agents_tasks_and_locks_and_votes(
    browser: Browser, writer: FleetWriter, serve: Serve, store: CoordinationStore
) -> None:
    """Who is blocked first; what waits for what as a graph; a member's turn on a board, and the decision."""
    with store.changing() as change:
        for name in ("ann", "ben"):
            agents.join(change, name, Joining())
        agents.beat(change, "ben", Beat("blocked", f"waits {HOSTILE}"))
    locks = Locks(store, job_ended=lambda _: False)
    locks.acquire(LockRequest("ann", ("src/a.py",)))
    locks.begin(LockRequest("ben", ("src",)))
    plan = [
        NewTask("lexer", "lexer", owner="ann"),
        NewTask("parser", "parser", owner="ben", needs=("lexer",)),
    ]
    Tasks(store, "lead", environ={}).add_all(plan)
    new = NewBoard("lead", "RELEASE", f"Ship it {HOSTILE}", ("ann", user_name()), quick=True)
    board = Boards(store, key=home_key(store.home)).open(new).board.board_id
    server = serve("--allow-actions")
    looks_well(browser, server, "agents", "agents", "tbody tr")
    assert browser.texts("tbody tr .title")[:2] == ["ben", "ann"]
    assert browser.texts("tbody tr:nth-child(1) .detail") == [f"waits {HOSTILE}"]
    looks_well(browser, server, "locks", "locks", "tbody tr")
    wait_for(lambda: nodes(browser) == ["ben", "ann"], what="the graph")
    looks_well(browser, server, "tasks", "tasks", "tbody tr")
    wait_for(lambda: nodes(browser) == ["lexer lexer", "parser parser"], what="the graph")
    assert browser.texts("tbody tr .badge") == ["ready", "pending"]
    looks_well(browser, server, f"boards?board={board}", "board", ".reply button")
    assert HOSTILE in browser.texts(".proposal")[0]
    browser.driver.find_element(By.CSS_SELECTOR, ".reply button.choice").click()
    wait_for(lambda: browser.texts(".reply button") == [], what="that the turn is over")
    assert "approve, 5/10" in browser.texts(".attempts")[0]


def test_a_page_without_actions_has_no_reply_box(
    browser: Browser, writer: FleetWriter, serve: Serve, store: CoordinationStore
) -> None:
    """Read-only: what is said is there, and nothing to be pressed; a thread that is not there is said."""
    thread = send(store, NewMessage("lead", ("ann",), summary="hello")).thread_id
    server = serve()
    open_view(browser, server, f"conversations?thread={thread}")
    wait_for(lambda: browser.texts(".message .summary") == ["hello"])
    assert browser.texts(".reply, .danger") == []
    browser.driver.get(server.url + "conversations?thread=nothing")
    wait_for(lambda: "there is no thread" in "".join(browser.texts(".empty")), what="the sentence")
    assert browser.complaints(but="\0") != []


def test_the_way_back_to_the_fleet_keeps_its_filter(
    browser: Browser, writer: FleetWriter, serve: Serve, store: CoordinationStore
) -> None:
    """A filter of another view is not taken for the fleet's; each view has its key."""
    writer.start("one")
    send(store, NewMessage("lead", ("ann",), summary="hello"))
    server = serve()
    open_view(browser, server, "?state=running")
    walk = {"c": "/conversations", "3": "/conversations?state=failed", "f": "/?state=running", "a": "/agents",
            "p": "/tasks", "l": "/locks", "b": "/boards", "e": "/sessions"}  # fmt: skip
    for key, path in (*walk.items(), ("f", walk["f"])):
        browser.driver.find_element(By.TAG_NAME, "body").send_keys(key)
        wait_for(lambda path=path: browser.driver.current_url.endswith(path), what=path)  # type: ignore[misc]
