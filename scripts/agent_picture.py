#!/usr/bin/env python3
"""Write docs/images/agent.png: a real Claude Code asks in its pane, and the page answers.

    python scripts/agent_picture.py [FILE]

The program is the real one (scripts/agent-programs), in a tmux pane, under `jobwire run --agent claude`; its
model is a script on loopback. The button on the page is pressed by Chromium.
"""

import html
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from readme_picture import chromium
from selenium import webdriver
from selenium.webdriver.common.by import By

from jobwire.hooks.scripted_agents import claude_environment
from jobwire.hooks.scripted_model import Calls, Says, ScriptedModel, Turn
from jobwire.testing.agent_programs import require_agent
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.delegated_agent import DEADLINE, Delegated
from jobwire.testing.waiting import wait_for

TARGET = Path(__file__).resolve().parents[1] / "docs" / "images" / "agent.png"
WIDTH, HEIGHT = 1280, 800
PROMPT = "Fix the flaky checkout test"
SCRIPT: list[Turn] = [
    Calls("Bash", {"command": "mkdir -p reports && touch reports/flaky.txt", "description": "Make a report"}),
    Says("The test waited for a clock; it waits for the event now."),
    Says("completed: 100 runs, no failure"),
]
_STYLE = """
body { margin: 0; padding: 24px; background: #e8eaee; font: 15px system-ui, sans-serif; color: #333 }
.row { display: flex; gap: 24px; align-items: flex-start }
figure { margin: 0 } figcaption { margin: 0 0 8px; font-weight: 600 }
pre { margin: 0; padding: 14px; background: #16181d; color: #d8dbe2; border-radius: 8px;
      font: 11.5px/1.35 "DejaVu Sans Mono", monospace; width: 590px; overflow: hidden }
img { border-radius: 8px; display: block; width: 590px }
"""


def shown(screen: str) -> str:
    """Return what the agent shows of itself in its pane, without what is empty around it."""
    lines = [line.rstrip()[:86] for line in screen.splitlines()]
    begins = next((number for number, line in enumerate(lines) if "Claude Code v" in line), 0)
    # The font has no sign that hangs from the line above.
    return html.escape("\n".join(lines[begins:]).strip("\n")).replace("\u23bf", "\u2514")


def compose(asks: str, page: str, after: str, answered: str) -> str:
    """Return a page that shows the four: the agent's pane and our page, before the button and after it."""

    def row(pane: str, picture: str, words: tuple[str, str]) -> str:
        image = f'<img src="data:image/png;base64,{picture}">'
        return (
            f'<div class="row"><figure><figcaption>{words[0]}</figcaption><pre>{shown(pane)}</pre></figure>'
            f"<figure><figcaption>{words[1]}</figcaption>{image}</figure></div><br>"
        )

    before = row(asks, page, ("Claude Code, in its pane, asks", "jobwire dashboard has the button"))
    return (
        f"<meta charset=utf-8><style>{_STYLE}</style>"
        f"{before}{row(after, answered, ('Pressed there, the command runs', 'and the job comes to its end'))}"
    )


def picture(target: Path) -> None:
    """Let the agent ask, press the button, and write what was seen."""
    program = require_agent("claude")
    server = f"jobwire-picture-{uuid.uuid4().hex[:8]}"
    with (
        # The agent may write there still.
        tempfile.TemporaryDirectory(prefix="jobwire-picture-", ignore_cleanup_errors=True) as folder,
        ScriptedModel(*SCRIPT) as model,
    ):
        at_work = Delegated(server, Path(folder))
        try:
            environ = claude_environment(at_work.user, at_work.work, model.url)
            at_work.start("claude", program, environ, "--title", PROMPT, prompt=(PROMPT,))
            with (
                DashboardProcess(at_work.home, "--allow-actions") as page,
                chromium(Path(folder) / "profile") as driver,
            ):
                driver.get(page.link)
                write(target, driver, at_work, page.url)
        finally:
            subprocess.run(["tmux", "-L", server, "kill-server"], capture_output=True, check=False)


def write(target: Path, driver: webdriver.Chrome, at_work: Delegated, url: str) -> None:
    """Press the button in the feed once the question stands in both places; write the picture."""
    driver.get(f"{url}feed")
    wait_for(
        lambda: driver.find_elements(By.CSS_SELECTOR, ".request button.choice"),
        what="the request on the page",
        deadline_seconds=DEADLINE,
    )
    at_work.shows("Do you want to proceed?")
    size(driver, 720, 460)
    asks, page = at_work.screen, driver.get_screenshot_as_base64()
    driver.find_element(By.CSS_SELECTOR, ".request button.choice").click()
    at_work.ends()
    at_work.shows("completed: 100 runs")
    after = at_work.screen
    driver.get(f"{url}jobs/{next(iter(at_work.queue.store.job_ids()))}")
    live = "return document.getElementById('live').innerText"
    wait_for(lambda: driver.execute_script(live) == "live", what="a live page", deadline_seconds=DEADLINE)
    made = at_work.user / "picture.html"
    made.write_text(compose(asks, page, after, driver.get_screenshot_as_base64()))
    driver.get(made.as_uri())
    size(driver, WIDTH, HEIGHT)
    height = driver.execute_script("return Math.ceil(document.body.scrollHeight)")
    size(driver, WIDTH, int(height))
    target.parent.mkdir(parents=True, exist_ok=True)
    driver.save_screenshot(str(target))


def size(driver: webdriver.Chrome, width: int, height: int) -> None:
    """Show the page at this size."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def main() -> int:
    """Write the picture; return 0."""
    target = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else TARGET
    picture(target)
    print(f"wrote {target.name}, {target.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
