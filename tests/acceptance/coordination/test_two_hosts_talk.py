"""Two agents, the worker on another host: a question that a person answers on the page, and a result.

The worker's host is another network namespace, and sees nothing of the home's disk: it has its ticket.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobwire.testing import require, wait_for
from tests.faults.storm import hosts as two_hosts
from tests.faults.storm.hosts import REGISTRY_ADDRESS, Hosts

BIN = Path(sys.executable).parent
_HIDE = 'mount -t tmpfs none "$0" && exec "$@"'
# What the page's own script does with a button: a request of its own origin, with the page's token.
_BUTTON = """
import json, sys, urllib.request
url, token, job, request, text = sys.argv[1:]
body = json.dumps({"request": request, "text": text}).encode()
head = {"Authorization": "Bearer " + token, "Origin": url, "Content-Type": "application/json"}
asked = urllib.request.Request(f"{url}/api/jobs/{job}/answer", body, head)
print(urllib.request.urlopen(asked, timeout=60).status)
"""


class TwoHosts:
    """The home's host with broker, registry process and page; and the worker's host."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.home = folder / "home"
        self.elsewhere = folder / "elsewhere"
        self.home.mkdir(mode=0o700)
        self.elsewhere.mkdir()
        self.ticket = self.elsewhere / "builder.ticket"
        self._started: list[subprocess.Popen[bytes]] = []

    def open(self) -> None:
        """Start everything on the home's host, and write the worker's ticket."""
        self.here("init")
        names = [word for name in ("127.0.0.1", REGISTRY_ADDRESS) for word in ("--server-name", name)]
        self.here("certs", "init", *names)
        # In a namespace of our own, whose only cable leads to the worker.
        self._start("broker", "up", "--mosquitto", "--host", "0.0.0.0")  # noqa: S104 - see above
        wait_for((self.home / "jobwire.toml").exists, deadline_seconds=60, what="the broker")
        self._start("serve")
        self._start("dashboard", "--port", "0", "--allow-actions")
        self.page()
        broker = ("--broker", f"broker={REGISTRY_ADDRESS}")
        self.here("agent", "ticket", "builder", "--out", str(self.ticket), *broker)

    def page(self) -> dict[str, Any]:
        """Return address and token of the page, once it is there."""

        def found() -> list[Path]:
            return list(self.home.glob("dashboard/*.json"))

        wait_for(found, deadline_seconds=60, what="the page")
        opened: dict[str, Any] = json.loads(found()[0].read_text())
        return opened

    def here(self, *words: str) -> str:
        """Run `jobwire` on the home's host."""
        return self._run(["ip", "netns", "exec", self.hosts.registry, str(BIN / "jobwire"), *words])

    def there(self, *words: str) -> dict[str, Any]:
        """Run `inbox` by the ticket on the worker's host, where the home is hidden."""
        command = [str(BIN / "inbox"), *words, "--json", "--ticket", str(self.ticket)]
        hidden = ["unshare", "-m", "sh", "-c", _HIDE, str(self.home), *command]
        said: dict[str, Any] = json.loads(self._run(self.hosts.on_workers(hidden)))
        return said

    def press(self, job: str, request: str, text: str) -> None:
        """Answer on the page."""
        opened = self.page()
        url = opened["url"].split("/?")[0].rstrip("/")
        button = [sys.executable, "-c", _BUTTON, url, opened["token"], job, request, text]
        assert self._run(["ip", "netns", "exec", self.hosts.registry, *button]).strip() == "200"

    def close(self) -> None:
        """End what was started."""
        for process in reversed(self._started):
            process.terminate()
            process.wait(60)

    def _start(self, *words: str) -> None:
        command = ["ip", "netns", "exec", self.hosts.registry, str(BIN / "jobwire"), *words]
        with (self.home / f"{words[0]}.out").open("wb") as output:
            started = subprocess.Popen(command, env=self._environ(), stdout=output, stderr=output)
        self._started.append(started)

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, env=self._environ(), capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done
        return done.stdout

    def _environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBWIRE_")}
        return {**kept, "JOBWIRE_HOME": str(self.home)}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[TwoHosts]:
    """Give the two hosts, at work."""
    if missing := two_hosts.available():
        pytest.skip(missing)
    require("mosquitto")
    hosts = two_hosts.create()
    one = TwoHosts(hosts, tmp_path)
    try:
        one.open()
        yield one
    finally:
        one.close()
        two_hosts.remove(hosts)


@pytest.mark.timeout(300)
def test_an_agent_on_another_host_asks_a_person_and_hands_in_its_result(site: TwoHosts) -> None:
    """The lead sends work, the worker claims it there and asks; the page answers; the result comes back."""
    words = ("--agent", "lead", "--to", "builder", "--subject", "fix the parser", "--body", "empty files")
    thread = json.loads(site.here("inbox", "send", "--json", *words))["thread_id"]
    on = ("--thread", thread)
    assert [one["thread_id"] for one in site.there("fetch")["threads"]] == [thread]
    assert site.there("claim", *on)["thread"]["status"] == "claimed"
    asked = site.there("update", *on, "--status", "blocked", "--summary", "push to main?")
    heard: list[dict[str, Any]] = []
    after = ("--after-event", str(asked["event_id"]), "--timeout-seconds", "90")
    waiting = threading.Thread(target=lambda: heard.append(site.there("wait-reply", *on, *after)))
    waiting.start()
    (waits,) = json.loads(site.here("feed", "--json"))["requests"]
    assert (waits["text"], waits["job_id"]) == ("push to main?", asked["thread"]["job_id"])
    site.press(waits["job_id"], waits["id"], "to a branch")
    waiting.join(120)
    assert (heard[0]["message"]["kind"], heard[0]["message"]["summary"]) == ("answer", "to a branch")
    assert site.there("done", *on, "--summary", "fixed, on a branch")["thread"]["status"] == "done"
    shown = json.loads(site.here("inbox", "show", "--json", *on))
    said = [(one["from_agent"], one["kind"]) for one in shown["messages"]]
    assert (said[0], said[1], said[-1]) == (("lead", "task"), ("builder", "question"), ("builder", "result"))
    assert [kind for _, kind in said] == ["task", "question", "answer", "result"]
    record = json.loads(site.here("registry", "show", "--json", waits["job_id"]))
    assert (record["status"], record["requests"][0]["answered_through"]) == ("completed", "page")
