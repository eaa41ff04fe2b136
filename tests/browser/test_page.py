"""The page in a real browser, on a real server, over real records."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobwire.core.lease import LeaseGrant
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.metric_tables import speak, write_tables
from jobwire.testing.waiting import wait_for

from .conftest import Browser

pytestmark = pytest.mark.browser
Serve = Callable[..., DashboardProcess]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "'\"><svg/onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "line one\nline two\r\n\ndata: {}\n\n",
    "\u202egnp.exe \u2066hidden\u2069 \u0000\u0007\u001b[31mred",
    "{{constructor.constructor('window.hacked=1')()}} ${window.hacked=1}",
    "w" * 1024,
    "😀" * 500,
]


def open_fleet(browser: Browser, server: DashboardProcess, path: str = "") -> None:
    """Open the page and wait until it is live."""
    browser.driver.get(server.url + path)
    wait_for(lambda: browser.texts("#live") == ["live"], what="a live page")


def log_in(browser: Browser, token: str) -> None:
    """Type a token into the login form."""
    wait_for(lambda: browser.texts("form[action^='/login'] label") != [], what="the login form")
    browser.driver.find_element(By.NAME, "secret").send_keys(token, Keys.ENTER)


def test_login_form(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """Without the token there is the form, at every width and theme; it leads to the view that was wanted."""
    writer.say(writer.start("broken one"), "error", "tests fail")
    writer.start("running one")
    server = serve()
    browser.driver.delete_all_cookies()
    browser.driver.get(f"{server.url}?state=failed")
    for width in (1280, 420):
        for dark in (False, True):
            browser.look(width, dark=dark)
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True
            browser.keep(f"login-{width}-{'dark' if dark else 'light'}")
    assert "jobwire dashboard --link" in browser.texts(".login .hint")[0]
    log_in(browser, "not the token")
    wait_for(lambda: browser.texts(".wrong") == ["That was not it."])
    browser.keep("login-wrong")
    log_in(browser, server.token)
    wait_for(lambda: browser.texts("a.title") == ["broken one"])
    assert browser.driver.current_url == f"{server.url}?state=failed"
    browser.driver.find_element(By.ID, "logout").click()
    wait_for(lambda: browser.driver.current_url == f"{server.url}login")
    browser.driver.get(f"{server.url}charts")
    assert browser.driver.current_url == f"{server.url}login?next=/charts"


def test_token_leaves_the_address(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """The printed address opens the page, and neither address bar nor history nor scripts keep its token."""
    writer.start("one")
    server = serve()
    browser.driver.delete_all_cookies()
    browser.driver.get(server.link)
    wait_for(lambda: browser.texts("a.title") == ["one"])
    assert browser.driver.current_url == server.url
    assert browser.run("return document.cookie") == ""
    assert browser.run("return document.referrer + JSON.stringify(localStorage)") == "{}"
    assert server.token not in browser.driver.page_source


def test_link_on_another_site_opens_the_page(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """A link from another site comes without the strict cookie: the form finds it, and leads on."""
    job = writer.start("linked")
    server = serve()
    browser.driver.get(f"data:text/html,<a href='{server.url}jobs/{job}'>a chat</a>")
    browser.driver.find_element(By.TAG_NAME, "a").click()
    wait_for(lambda: browser.texts("h1.job-title") == ["linked"])
    assert browser.driver.current_url == f"{server.url}jobs/{job}"


def test_restart_with_a_new_token_asks_for_it(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """An open page whose server was started anew leads to the form, and from there back to its view."""
    job = writer.start("kept job")
    server = serve()
    open_fleet(browser, server, f"jobs/{job}")
    server.stop()
    server.start()
    wait_for(lambda: "/login" in browser.driver.current_url, what="the login form")
    log_in(browser, server.token)
    wait_for(lambda: browser.texts("h1.job-title") == ["kept job"])
    left = browser.complaints(but="net::ERR_")
    assert [line for line in left if "401" not in line] == []


def test_who_needs_me_is_on_top(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """One sentence names the problems; who waits for you is on top, a failure hides no job that runs."""
    for number in range(6):
        writer.say(writer.start(f"running {number}", agent_session="docs"), "progress", "works", percent=30)
    writer.say(writer.start("broken one"), "error", "tests fail")
    writer.say(writer.start("asking one"), "permission_required", "May I delete the old table?")
    open_fleet(browser, serve())
    assert browser.texts("h1") == ["1 job waits for you · 1 failed"]
    assert browser.texts("tbody tr a.title")[::7] == ["asking one", "broken one"]
    assert browser.texts("tbody tr:first-child .detail") == ["May I delete the old table?"]
    assert browser.driver.title == "(1) jobwire"


def test_event_shows_within_a_second(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """From an event in the journal, or in the record, to the screen: less than a second, twenty times."""
    jobs = [writer.start(f"job {number}") for number in range(20)]
    writer.journal(jobs[0], b"x", verdict="malformed")
    open_fleet(browser, serve())
    slow = []
    for number, job in enumerate(jobs):
        detail = f"event number {number}"
        _, payload = writer.next_event(job, "progress", detail)
        begun = time.monotonic()
        if number % 2:
            writer.journal(job, payload)
        else:
            writer.say(job, "progress", detail)
        wait_for(lambda d=detail: d in browser.texts(".detail"), what=detail)  # type: ignore[misc]  # a default binds it
        if time.monotonic() - begun > 1.0:
            slow.append((detail, time.monotonic() - begun))
    assert slow == []


def test_filter_is_kept_in_the_address(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """State, session and text narrow the rows, stand in the address, and survive a reload and a visit."""
    for number in range(4):
        writer.start(f"docs job {number}", agent_session="docs")
    writer.say(writer.start("infra job", agent_session="infra"), "error", "broken pipe")
    server = serve()
    open_fleet(browser, server)
    browser.driver.find_element(By.CSS_SELECTOR, ".chip[data-group=failed]").click()
    assert browser.texts("a.title") == ["infra job"]
    assert browser.driver.current_url.endswith("/?state=failed")
    browser.driver.find_element(By.CSS_SELECTOR, ".chip[data-group='']").click()
    browser.driver.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys("JOB 3")
    assert browser.texts("a.title") == ["docs job 3"]
    browser.driver.refresh()
    wait_for(lambda: browser.texts("a.title") == ["docs job 3"])
    browser.driver.find_element(By.CSS_SELECTOR, "a.title").click()
    wait_for(lambda: browser.texts("h1.job-title") == ["docs job 3"])
    browser.driver.back()
    wait_for(lambda: browser.texts("a.title") == ["docs job 3"])
    open_fleet(browser, server, "?session=infra")
    wait_for(lambda: browser.texts("a.title") == ["infra job"])
    open_fleet(browser, server, "?q=nothing-like-this")
    wait_for(lambda: browser.texts("p.empty") == ["No job matches. Show all jobs"])
    browser.driver.find_element(By.CSS_SELECTOR, "p.empty button").click()
    assert len(browser.texts("a.title")) == 5


def test_job_view(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """A job's page: what it says, its history with refusals and durations, attempts, commands, record."""
    job = writer.register("the job", agent_session="docs", max_attempts=3, instructions="do it well")
    writer.queue.pick(LeaseGrant(owner="worker"), agent_session="docs")
    writer.say(job, "started", "begins")
    writer.say(job, "progress", "half way", percent=50, files=12)
    writer.say(job, "permission_required", "May I?")
    open_fleet(browser, serve(), f"jobs/{job}")
    wait_for(lambda: len(browser.texts(".entry")) == 5)
    assert browser.texts("h1.job-title") == ["the job"]
    assert browser.texts(".word") == ["May I?"]
    assert browser.texts(".entry b") == [
        "permission required",
        "progress",
        "started",
        "pending → running",
        "pending",
    ]
    assert all(text.startswith("+") for text in browser.texts(".entry .since")[:-1])
    commands = browser.texts(".commands code")
    assert f"job_subscriber --job {job} --home {writer.home}" in commands
    assert any(text.endswith(f"logs/{job}/events.ndjson") for text in commands)
    assert browser.texts(".attempts td")[0] == "1"
    writer.say(job, "progress", "goes on")
    wait_for(lambda: browser.texts(".entry .text")[0] == "goes on")
    record = browser.run("return document.querySelector('aside details:last-of-type pre').textContent")
    assert writer.store.get(job).auth_token not in str(record)
    assert json.loads(str(record))["title"] == "the job"
    assert browser.driver.title == "the job · jobwire"
    assert browser.texts("button.danger") == []  # read-only unless it was started otherwise
    writer.queue.release(job, owner="worker", reason="no compiler here")
    wait_for(lambda: browser.texts(".divide") == ["↑ attempt 2 · attempt 1 ↓"])
    assert [text.split()[0] for text in browser.texts(".attempts tbody tr")] == ["2", "1"]


def test_unknown_job_is_told(browser: Browser, serve: Serve) -> None:
    """An address of a job that does not exist says so and leads back."""
    browser.driver.get(serve().url + "jobs/ffffffff")
    wait_for(lambda: any("ffffffff" in text for text in browser.texts("p.empty")))
    assert browser.complaints(but="404") == []


def test_restart_under_an_open_page(
    browser: Browser, writer: FleetWriter, serve: Serve, tmp_path: Path
) -> None:
    """With a token file the page survives a restart of the server: it lost and doubled nothing."""
    job = writer.start("kept job")
    password = tmp_path / "password"
    password.write_text("correct horse battery")
    password.chmod(0o600)
    server = serve("--token-file", str(password))
    browser.driver.get(server.url)
    log_in(browser, "correct horse battery")
    # Another page that is asked for at once would end the form's request before its cookie is here.
    wait_for(lambda: browser.texts("a.title") == ["kept job"])
    open_fleet(browser, server, f"jobs/{job}")
    writer.say(job, "progress", "before")
    wait_for(lambda: len(browser.texts(".entry")) == 3)
    server.stop()
    wait_for(lambda: browser.texts("#live") == ["reconnecting …"])
    for number in range(5):
        writer.say(job, "progress", f"meanwhile {number}")
    server.start()
    writer.say(job, "progress", "after")
    wait_for(lambda: "after" in browser.texts(".entry .text"), what="the page to come back")
    said = browser.texts(".entry[data-kind=progress] .text")
    assert said == ["after", *(f"meanwhile {number}" for number in (4, 3, 2, 1, 0)), "before"]
    browser.driver.find_element(By.CSS_SELECTOR, ".crumbs a").click()
    wait_for(lambda: browser.texts(".detail") == ["after"])
    server.stop()
    wait_for(lambda: browser.texts("#live") == ["reconnecting …"])
    wait_for(lambda: any("No answer from the server" in text for text in browser.texts("#lost")))
    browser.keep("connection-lost")
    writer.start("new while away")
    server.start()
    wait_for(lambda: len(browser.texts("a.title")) == 2, what="the fleet to come back")
    assert browser.texts("#lost") == []
    assert browser.complaints(but="net::ERR_") == []


def test_hostile_texts_stay_texts(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """Markup, scripts, control and direction characters and long words are shown, and do nothing."""
    for number, text in enumerate(HOSTILE):
        plain = text[:60] if text.isprintable() else f"job {number}"
        job = writer.start(plain, agent_session=plain[:40])
        writer.say(job, "permission_required", text, note={text[:30]: [text[:30]]})
    open_fleet(browser, server := serve())
    wait_for(lambda: len(browser.texts("tbody tr")) == len(HOSTILE))
    shown = browser.run("return [...document.querySelectorAll('.detail')].map((node) => node.textContent)")
    # Invisible characters are shown as such: they could make a question read as another.
    expected = [re.sub("[\u0000-\u0008\u001b\u202e\u2066\u2069]", "\ufffd", text) for text in HOSTILE]
    assert sorted(shown) == sorted(expected)  # type: ignore[call-overload]  # texts
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True
    browser.keep("hostile-fleet")
    for job in browser.run("return [...document.querySelectorAll('tbody tr')].map((row) => row.dataset.id)"):  # type: ignore[attr-defined]  # a list of ids
        open_fleet(browser, server, f"jobs/{job}")
        wait_for(lambda: len(browser.texts(".entry")) == 3)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True
        assert browser.run("return window.hacked ?? null") is None
    browser.keep("hostile-job")
    assert browser.run("return document.scripts.length") == 2


def test_thousand_jobs_on_screen(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """A thousand rows are drawn quickly and stay quick: filtering answers within a blink."""
    fill = FleetWriter(writer.home, durable=False)
    for number in range(1000):
        fill.register(f"job number {number}", agent_session=f"s{number % 7}")
    fill.close()
    server = serve()
    begun = time.monotonic()
    browser.driver.get(server.url)
    wait_for(
        lambda: browser.run("return document.querySelectorAll('tbody tr').length") == 1000,
        deadline_seconds=60,
    )
    # Bounds that only drawing in quadratic time would miss, also on a busy machine.
    assert time.monotonic() - begun < 20
    taken = browser.run(
        "const box = document.querySelector('input[type=search]'); const begun = performance.now();"
        "box.value = 'number 77'; box.dispatchEvent(new Event('input')); document.body.offsetHeight;"
        "return performance.now() - begun"
    )
    assert float(str(taken)) < 2000
    assert len(browser.texts("tbody tr")) == 11
    browser.keep("thousand-filtered")


def test_keyboard_is_enough(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """Everything can be reached without a mouse: filters, search, rows, a job, back, help, theme."""
    for number in range(3):
        writer.start(f"job {number}")
    writer.say(writer.start("asks"), "permission_required", "May I?")
    open_fleet(browser, serve())
    body = browser.driver.find_element(By.TAG_NAME, "body")
    body.send_keys("1")
    wait_for(lambda: browser.texts("a.title") == ["asks"])
    body.send_keys(Keys.ESCAPE)
    wait_for(lambda: len(browser.texts("a.title")) == 4)
    body.send_keys("j")
    browser.driver.switch_to.active_element.send_keys("j")
    second = browser.texts("a.title")[1]
    assert browser.driver.switch_to.active_element.text == second
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: browser.texts("h1.job-title") == [second])
    browser.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    wait_for(lambda: len(browser.texts("a.title")) == 4)
    browser.driver.find_element(By.TAG_NAME, "body").send_keys("/")
    browser.driver.switch_to.active_element.send_keys("job 2")
    wait_for(lambda: browser.texts("a.title") == ["job 2"])
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.driver.find_element(By.TAG_NAME, "body").send_keys("?")
    assert browser.run("return document.querySelector('#help').open") is True
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.driver.find_element(By.TAG_NAME, "body").send_keys("t")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.driver.find_element(By.TAG_NAME, "body").send_keys("t")
    browser.run("localStorage.clear()")


def test_cancel_needs_a_confirmation(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """With --allow-actions a job can be cancelled, after a question that can be answered with no."""
    job = writer.start("unwanted")
    open_fleet(browser, serve("--allow-actions"), f"jobs/{job}")
    wait_for(lambda: browser.texts(".job-head .danger") == ["Cancel the job …"])
    browser.driver.find_element(By.CSS_SELECTOR, ".job-head .danger").click()
    browser.driver.find_element(By.XPATH, "//dialog//button[text()='Keep it']").click()
    assert writer.store.get(job).status == "running"
    browser.driver.find_element(By.CSS_SELECTOR, ".job-head .danger").click()
    browser.driver.find_element(By.CSS_SELECTOR, "dialog.confirm input").send_keys("no longer needed")
    browser.keep("cancel")
    browser.driver.find_element(By.XPATH, "//dialog//button[text()='Cancel the job']").click()
    wait_for(lambda: writer.store.get(job).status == "cancelled")
    wait_for(lambda: browser.texts(".job-head .badge") == ["cancelled"])
    assert writer.store.get(job).detail.startswith("no longer needed (by ")
    assert browser.texts(".job-head .danger") == []


def test_empty_fleet_says_how_to_begin(browser: Browser, serve: Serve) -> None:
    """Without jobs the page tells how to start one, and shows the first when it comes."""
    open_fleet(browser, serve())
    assert re.search(r"jobwire --home /\S+ run -- make test", browser.texts("p.empty")[0])
    browser.keep("empty")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 420])
def test_every_view_fits(browser: Browser, writer: FleetWriter, serve: Serve, width: int, dark: bool) -> None:
    """Fleet, job and metrics are readable at both widths and in both themes; nothing is cut sideways."""
    for number, event in enumerate(["permission_required", "error", "progress", "progress", "completed"]):
        job = writer.start(f"Migrate table {number}", agent_session="backend")
        writer.say(job, event, "a detail of ordinary length that a worker says", percent=20 * number)
    writer.register("Later")
    server = serve("--allow-actions")
    browser.look(width, dark=dark)
    theme = "dark" if dark else "light"
    for name, path in (("fleet", ""), ("job", f"jobs/{job}"), ("metrics", "charts")):
        open_fleet(browser, server, path)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth") is True
        browser.keep(f"{name}-{width}-{theme}")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(16, 21, 28)" if dark else "rgb(246, 247, 249)"
    )


def test_metrics_view(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """The figures of the tables are drawn for the chosen range; their age and a stopped query are seen."""
    now = time.time()
    write_tables(writer.home, int(now) // 30 * 30 - 600)
    speak(writer.home, updated_at=now)
    writer.start("one")
    server = serve("--metrics-db", str(writer.home / "metrics" / "metrics.db"))
    open_fleet(browser, server, "charts")
    wait_for(lambda: browser.texts(".tiles dd")[2:4] == ["3\n1 failed", "1m\np95 1m · p99 1m"])
    drawn = browser.run(
        "return [...document.querySelectorAll('.plot svg')].map((svg) => svg.getAttribute('aria-label'))"
    )
    assert any(str(label).startswith("Events per second, by type: ") for label in drawn)  # type: ignore[attr-defined]  # a list
    assert browser.texts(".card td") == ["docs", "1204"]
    assert browser.texts(".fresh")[0].startswith("live · figures")
    assert browser.texts(".missing")[0].startswith("1 job of this registry is missing in the metrics: ")
    browser.keep("metrics-figures")
    browser.driver.find_element(By.XPATH, "//button[text()='6 hours']").click()
    wait_for(lambda: browser.texts(".card td") == ["docs", "1200"])
    assert browser.driver.current_url.endswith("/charts?range=21600")
    speak(writer.home, updated_at=now - 60, next_offset=1)
    writer.journal(writer.start(), b"x", verdict="malformed")
    wait_for(lambda: browser.texts(".fresh[data-state=stopped]"), what="a stopped query")
    assert "is not counted" in browser.texts(".fresh")[0]
    browser.keep("metrics-stopped")


def test_leaving_pages_gives_their_connections_back(
    browser: Browser, writer: FleetWriter, serve: Serve
) -> None:
    """Browsers allow six connections to a server: ten loads one after the other must not wait for one."""
    job = writer.start("one")
    server = serve()
    begun = time.monotonic()
    for _ in range(5):
        open_fleet(browser, server)
        open_fleet(browser, server, f"jobs/{job}")
    assert time.monotonic() - begun < 30


def test_rows_do_not_jump(browser: Browser, writer: FleetWriter, serve: Serve) -> None:
    """Progress changes texts in place: no row moves and no layout shifts while jobs work."""
    jobs = [writer.start(f"job {number}") for number in range(8)]
    open_fleet(browser, serve())
    before = browser.texts("a.title")
    browser.run(
        "window.shift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries()) "
        "window.shift += entry.value; }).observe({type: 'layout-shift', buffered: false})"
    )
    for number in range(5):
        for job in jobs:
            writer.say(job, "progress", "x" * (number * 30), percent=number * 20)
    wait_for(lambda: browser.texts("tbody .percent") == ["80%"] * 8)
    assert browser.texts("a.title") == before
    assert float(str(browser.run("return window.shift"))) < 0.01
