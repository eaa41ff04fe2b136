"""Chromium as people use it, driven by its own driver; screenshots are kept in tests/artifacts."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from jobwire.testing.dashboard_process import DashboardProcess
from jobwire.testing.fleet_writer import FleetWriter
from jobwire.testing.requirements import require

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


class Browser:
    """One window. `driver` is Selenium's."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def run(self, script: str, *values: object) -> object:
        """Return what a script in the page returns."""
        return self.driver.execute_script(script, *values)

    def texts(self, selector: str) -> list[str]:
        """Return the visible texts of all matching elements, read in one step."""
        found = self.run(
            "const seen = (node) => node.getClientRects().length;"
            "const found = [...document.querySelectorAll(arguments[0])].filter(seen);"
            "return found.map((node) => node.innerText.trim())",
            selector,
        )
        assert isinstance(found, list)
        return [str(text) for text in found]

    def look(self, width: int = 1280, *, height: int = 900, dark: bool = False) -> None:
        """Show the page at this size and theme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        theme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", theme)

    def keep(self, name: str) -> None:
        """Keep a screenshot."""
        ARTIFACTS.mkdir(exist_ok=True)
        self.driver.save_screenshot(str(ARTIFACTS / f"{name}.png"))

    def complaints(self, *, but: str = "\0") -> list[str]:
        """Return what the console complains of (errors, refused content), but for what names `but`."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # Selenium's
        return [str(entry["message"]) for entry in entries if but not in entry["message"]]


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    """Share one Chromium with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="jobwire-chromium-") as profile:
        options = Options()
        options.binary_location = require("chromium")
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(require("chromedriver")))
        yield driver
        driver.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[Browser]:
    """Give an empty window whose console is clean; a complaint that a test leaves there fails it."""
    made = Browser(chromium)
    made.look()
    made.complaints()
    yield made
    left = made.complaints()
    assert left == []


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[FleetWriter]:
    """Give a home directory that jobs can be written into."""
    made = FleetWriter(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def serve(writer: FleetWriter, chromium: webdriver.Chrome) -> Iterator[Callable[..., DashboardProcess]]:
    """Give a function that starts a server for the home directory."""
    servers: list[DashboardProcess] = []

    def start(*options: str) -> DashboardProcess:
        server = DashboardProcess(writer.home, *options)
        servers.append(server)
        server.start()
        if server.token:
            chromium.get(server.link)
        return server

    yield start
    # First the page, then its server: a page that is left alone complains, rightly.
    chromium.get("about:blank")
    for server in servers:
        server.__exit__(None, None, None)
