"""What `pip install jobwire` and `pip install 'jobwire[broker]'` give, in an environment with nothing else.

The wheel is built and installed for real. Its dependencies are linked from the running environment, and only
those that it declares: a library that is used without being declared is missing here as it is for users.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from jobwire.testing import free_port, wait_for
from jobwire.testing.requirements import skip_here
from jobwire.testing.watching import bare_environment

ROOT = Path(__file__).resolve().parents[3]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel."""
    if importlib.util.find_spec("hatchling") is None:
        skip_here("hatchling is not installed (make setup)")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--no-index", "--wheel-dir", folder, ROOT], check=True, timeout=120)
    return next(folder.glob("jobwire-*.whl"))


def needed(requirements: list[str], extra: str, found: set[str]) -> set[str]:
    """Return the names of all distributions that the requirements bring, with their own."""
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": extra}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in found:
            found.add(name)
            own = importlib.metadata.requires(name) or []
            for one in {"", *requirement.extras}:
                needed(own, one, found)
    return found


def install(wheel: Path, folder: Path, extra: str) -> Path:
    """Make an environment with the wheel and what it needs, and return its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True, timeout=120)
    packages = next(folder.glob("lib/python*/site-packages"))
    declared = next(packages.glob("jobwire-*.dist-info")) / "METADATA"
    lines = declared.read_text().split("\n\n")[0].splitlines()
    requirements = [
        line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist:")
    ]
    for name in sorted(needed(requirements, "", set()) | needed(requirements, extra, set())):
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            link = packages / top
            if top not in {"..", "__pycache__"} and not link.exists():
                link.symlink_to(Path(str(importlib.metadata.distribution(name).locate_file(top))))
    return folder / "bin"


def runner(programs: Path, place: Path) -> Run:
    """Return what runs an installed command in a folder that has nothing to do with the source."""
    place.mkdir()

    def run(name: str, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        environ = bare_environment(PATH=f"{programs}:{os.environ['PATH']}", **variables)
        return subprocess.run(
            [programs / name, *words],
            cwd=place,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install jobwire without extras."""
    return install(wheel, tmp_path_factory.mktemp("plain"), "")


@pytest.fixture(scope="module")
def with_broker(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install jobwire[broker]."""
    return install(wheel, tmp_path_factory.mktemp("broker"), "broker")


def test_nothing_for_tests_is_installed(wheel: Path) -> None:
    """The wheel holds the product, and no doubles, rehearsals or tests."""
    with zipfile.ZipFile(wheel) as archive:
        parts = {part for name in archive.namelist() for part in Path(name).parts[:2]}
    assert "jobwire" in parts
    assert not parts & {"testing", "tests"}


def test_queries_and_migrations_are_installed(wheel: Path) -> None:
    """Every .sql file of a component is in the wheel, at its place."""
    files = (file.relative_to(ROOT).parts for file in ROOT.glob("*/jobwire/**/*.sql"))
    ours = {"/".join(parts[1:]) for parts in files}
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if name.endswith(".sql")} == ours
    assert any(name.endswith("pending_sql/queries.sql") for name in ours)


def test_without_extras_jobs_are_registered_run_and_read(plain: Path, tmp_path: Path) -> None:
    """The plain installation delegates, records and shows jobs, with its commands and without the source."""
    run = runner(plain, tmp_path / "work")
    assert "commands:" in run("jobwire", "--help").stdout
    assert run("jobwire", "--version").stdout.startswith("jobwire ")
    assert run("jobwire", "init").returncode == 0
    done = run("jobwire", "run", "--", "echo", "hi", MQTT_PORT="1")
    assert (done.returncode, "hi\n" in done.stdout) == (0, True), done.stderr
    listed = json.loads(run("jobwire", "list", "--json").stdout)
    assert listed["status"] == "completed"
    assert run("jobwire", "logs", listed["job_id"]).stdout == "hi\n"
    assert run("jobwire", "status", "--line").returncode == 0
    for words in (("schema", "event"), ("unit", "registry"), ("run", "--help"), ("watch", "--help")):
        answer = run("jobwire", *words)
        assert answer.returncode == 0, answer.stderr
    for name in ("publish_event", "job_subscriber"):
        assert run(name, "--help").returncode == 0


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("broker", "up"), "broker"),
        (("certs", "show"), "broker"),
        (("doctor",), "broker"),
        (("metrics", "once"), "metrics"),
        (("demo",), "broker"),
        (("dashboard",), "dashboard"),
    ],
)
def test_a_missing_extra_is_named(plain: Path, tmp_path: Path, words: tuple[str, ...], extra: str) -> None:
    """A command whose libraries are not installed says which extra brings them."""
    run = runner(plain, tmp_path / "work")
    run("jobwire", "init")
    answer = run("jobwire", *words)
    assert answer.returncode == 30, answer.stderr
    assert f"pip install 'jobwire[{extra}]'" in answer.stderr


def test_certificates_without_their_library(plain: Path, tmp_path: Path) -> None:
    """A job that wants a certificate is not left behind where none can be issued."""
    run = runner(plain, tmp_path / "work")
    run("jobwire", "init")
    answer = run("jobwire", "run", "--mtls", "--", "true")
    assert "Traceback" not in answer.stderr
    assert json.loads(run("jobwire", "list", "--json").stdout)["status"] == "cancelled"


@pytest.fixture
def broker(with_broker: Path, tmp_path: Path) -> Iterator[Run]:
    """Give `jobwire broker up` in a folder of its own, and what runs commands there."""
    run = runner(with_broker, tmp_path / "work")
    log = tmp_path / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [with_broker / "jobwire", "broker", "up", "--port", str(free_port())],
            cwd=tmp_path / "work",
            env=bare_environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_for(lambda: "broker ready" in log.read_text(), deadline_seconds=60, what="the broker")
        yield run
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


def test_the_readmes_first_page(broker: Run) -> None:
    """With jobwire[broker]: a broker, a command as a job, a worker that speaks, and the watcher's verdict."""
    done = broker("jobwire", "run", "--", "sh", "-c", "echo hi; echo '::progress half 50%'; echo done")
    assert done.returncode == 0, done.stderr
    assert "=> completed" in done.stderr
    job = broker("jobwire", "registry", "register", "--title", "write the release notes").stdout.split()[1]
    for event in ("started", "progress", "completed"):
        said = broker("publish_event", "--job", job, "--event", event)
        assert json.loads(said.stdout)["delivered"], said.stderr
    watched = broker("job_subscriber", "--job", job, "--idle-timeout", "60")
    assert watched.returncode == 0, watched.stderr
    assert broker("publish_event", "--job", job, "--event", "progress").returncode == 20
    assert broker("jobwire", "certs", "show").returncode == 0
    assert broker("jobwire", "doctor").returncode == 0
