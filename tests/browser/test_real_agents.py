"""Real agents ask, and a person answers by the button on the page: what nobody allowed at the pane runs."""

from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from jobwire.hooks.scripted_agents import claude_environment, codex_environment
from jobwire.hooks.scripted_model import Calls, Says, ScriptedModel, Turn
from jobwire.testing.agent_programs import require_agent
from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.delegated_agent import DEADLINE, Delegated
from jobwire.testing.waiting import wait_for

from .conftest import Browser

pytestmark = [pytest.mark.browser, pytest.mark.alone]


def answer_on_the_page(browser: Browser, at_work: Delegated, choice: str) -> None:
    """Open the feed as a person does, and press the button once the agent's question stands there."""
    with DashboardProcess(at_work.home, "--allow-actions") as server:
        browser.driver.get(server.link)
        browser.driver.get(f"{server.url}feed")
        wait_for(
            lambda: browser.texts(".request pre") == ["touch made.txt"],
            what="the request on the page",
            deadline_seconds=DEADLINE,
        )
        assert not (at_work.work / "made.txt").exists()
        buttons = browser.driver.find_elements(By.CSS_SELECTOR, ".request button.choice")
        next(one for one in buttons if one.text == choice).click()
        wait_for(lambda: browser.texts(".request") == [], what="a feed without it", deadline_seconds=DEADLINE)
        assert at_work.ends() == ("completed", "it went as you said")
        browser.driver.get("about:blank")


@pytest.mark.parametrize("choice", ["allow", "deny"])
def test_claudes_question_is_answered_by_a_button(
    browser: Browser, tmux_server: str, tmp_path: Path, choice: str
) -> None:
    """Allowed, the command runs; denied, it does not, and the agent goes on with that."""
    program = require_agent("claude")
    at_work = Delegated(tmux_server, tmp_path)
    script: list[Turn] = [
        Calls("Bash", {"command": "touch made.txt", "description": "Make a file"}),
        Says("It is as it is."),
        Says("completed: it went as you said"),
    ]
    with ScriptedModel(*script) as model:
        at_work.start("claude", program, claude_environment(at_work.user, at_work.work, model.url))
        answer_on_the_page(browser, at_work, choice)
        assert model.said("A person denied this.") is (choice == "deny")
    assert (at_work.work / "made.txt").exists() is (choice == "allow")


def test_codexs_question_is_answered_by_a_button(browser: Browser, tmux_server: str, tmp_path: Path) -> None:
    """With --approve-remotely the page lets its command run, which its sandbox did not."""
    program = require_agent("codex")
    at_work = Delegated(tmux_server, tmp_path)
    call = {"cmd": "touch made.txt", "sandbox_permissions": "require_escalated", "justification": "Make it?"}
    script: list[Turn] = [
        Calls("exec_command", call),
        Says("It is as it is."),
        Says("completed: it went as you said"),
    ]
    with ScriptedModel(*script) as model:
        environ = codex_environment(at_work.user, at_work.work, model.url)
        at_work.start("codex", program, environ, "--approve-remotely")
        answer_on_the_page(browser, at_work, "allow")
    assert (at_work.work / "made.txt").exists()
