"""Requests on the page: answered in a real browser, on a real server, over real records."""

from collections.abc import Callable

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobwire.jobs.requests import find
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.waiting import wait_for

from .conftest import Browser

pytestmark = pytest.mark.browser
Serve = Callable[..., DashboardProcess]


def ask(writer: FleetWriter, job: str, request: str, text: str, **more: object) -> None:
    """Let the job's worker ask."""
    body = {"id": request, "kind": "question", "text": text, **more}
    writer.say(job, "permission_required", text[:100], request=body)


def answer_of(writer: FleetWriter, job: str, request: str) -> str | None:
    """Return what was answered."""
    found = find(writer.store.get(job).requests, request)
    return found.answer if found else None


def open_page(browser: Browser, server: DashboardProcess, path: str) -> None:
    """Open a view and wait until it is live."""
    browser.driver.get(server.url + path)
    wait_for(lambda: browser.texts("#live") == ["live"], what="a live page")


def test_a_person_answers_on_the_fleet_in_the_feed_and_on_the_jobs_page(
    browser: Browser, writer: FleetWriter, serve: Serve
) -> None:
    """By a button, by keys and by a typed text; what is answered goes from every view without a reload."""
    hostile = "Delete <b>all</b>?\u202eoops\x1b[2J password=hunter22"
    first, second = writer.start("clean up"), writer.start("release")
    ask(
        writer, first, "a", hostile, kind="permission", choices=["yes", "no"],
        preview="rm -rf build && " + "x" * 3000 + " # end", scope="rm -rf build",
    )  # fmt: skip
    ask(writer, second, "b", "Which name?", choices=["1.0", "2.0"])
    ask(writer, second, "c", "And when?")
    server = serve("--allow-actions")
    open_page(browser, server, "")
    assert browser.texts("h1") == ["2 jobs wait for you"]
    assert browser.texts("tbody tr:nth-child(1) .asks button") == ["yes", "no"]
    assert browser.texts("tbody tr:nth-child(2) .asks") == ["1.0\n2.0\nand 1 more"]
    browser.keep("requests-fleet")
    browser.driver.find_element(By.CSS_SELECTOR, "tbody tr:nth-child(2) .asks button").click()
    wait_for(lambda: answer_of(writer, second, "b") == "1.0")
    wait_for(lambda: browser.texts("tbody tr:nth-child(2) .detail") == ["And when?"])
    assert "/jobs/" not in browser.driver.current_url, "a button is not the row"

    for width, dark in ((1280, False), (420, True)):
        browser.look(width, dark=dark)
        open_page(browser, server, "feed")
        wait_for(lambda: len(browser.texts(".request")) == 2, what="two cards")
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True
        browser.keep(f"requests-feed-{width}-{'dark' if dark else 'light'}")
    browser.look()
    shown = browser.texts(".request")[0]
    assert "<b>all</b>" in shown
    assert not {"hunter22", "\u202e", "\x1b"} & set(shown.split())
    assert "# end" in shown
    assert browser.run("return document.querySelector('.request input[type=checkbox]').checked") is False
    body = browser.driver.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    assert browser.run("return document.activeElement.innerText") == "yes"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: answer_of(writer, first, "a") == "yes")
    wait_for(lambda: browser.texts(".request-text") == ["And when?"])
    # The card may go by the live update before the page has the answer to its own request.
    wait_for(lambda: browser.texts("#said") == ["Answered: yes"])
    wait_for(lambda: browser.run("return document.activeElement.type") == "text", what="the next one's field")

    open_page(browser, server, f"jobs/{second}")
    wait_for(lambda: browser.texts(".request-text") == ["And when?"])
    field = browser.driver.find_element(By.CSS_SELECTOR, ".request input[type=text]")
    field.send_keys("tomor")
    writer.say(second, "progress", "other threads go on")
    wait_for(lambda: browser.texts(".entry .text")[0] == "other threads go on")
    field.send_keys("row", Keys.ENTER)
    wait_for(lambda: answer_of(writer, second, "c") == "tomorrow")
    wait_for(lambda: browser.texts(".request") == [])
    wait_for(lambda: "answered tomorrow" in browser.texts(".entry[data-kind=request] .text")[0])
    browser.keep("requests-job")


def test_a_page_without_actions_shows_the_command_that_answers(
    browser: Browser, writer: FleetWriter, serve: Serve
) -> None:
    """Read-only: no button, no field, and the server refuses; the command is there to be copied."""
    job = writer.start("clean up")
    ask(writer, job, "a", "Which?", choices=["red", "blue"])
    open_page(browser, serve(), "feed")
    wait_for(lambda: browser.texts(".request-text") == ["Which?"])
    assert browser.texts(".request button") == ["Copy"]
    assert browser.texts(".request code")[0].endswith("answer a 'red'")
    status = browser.run(
        "return fetch(`/api/jobs/${arguments[0]}/answer`, {method: 'POST',"
        " headers: {'content-type': 'application/json'}, body: '{}'}).then((answer) => answer.status)",
        job,
    )
    assert status == 403
    assert browser.complaints(but="nothing") != []
