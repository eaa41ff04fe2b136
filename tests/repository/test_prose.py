"""What README and docs name exists: commands, make targets, files."""

import re
from pathlib import Path

import pytest

from jobwire.cli.main import COMMANDS
from jobwire.delivery.outbox import RESEND_SECONDS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "*/README.md", "*/*/README.md")
    for path in ROOT.glob(pattern)
    if not {".venv", ".pytest_cache", "var"} & set(path.relative_to(ROOT).parts)
)
# The others tell of what was.
OF_TODAY = [path for path in DOCUMENTS if path.name != "CHANGELOG.md" and "adr" not in path.parts]
FILES = [
    path.relative_to(ROOT).as_posix()
    for top in ROOT.iterdir()
    if not top.name.startswith(".") and top.name != "var"
    for path in (top.rglob("*") if top.is_dir() else [top])
    if path.is_file() and "__pycache__" not in path.parts
]
SOURCES = (".py", ".toml", ".sql", ".html", ".js", ".yaml", "Makefile")
OPTIONS = {
    option
    for name in FILES
    if name.endswith(SOURCES) or name.startswith(("scripts/", "tests/docker/"))
    if not name.startswith("tests/repository/")
    for option in re.findall(r"--[a-z][a-z-]+", (ROOT / name).read_text(encoding="utf-8"))
}
# Options of others' commands: of Codex, apt-get, install, docker, pip and spark-submit.
OTHERS_OPTIONS = {
    *("--output-last-message", "--message-file", "--yes", "--archive", "--chown", "--no-cache-dir", "--name"),
    *(
        "--py-files",
        "--archives",
        "--deploy-mode",
        "--num-executors",
        "--executor-cores",
        "--executor-memory",
    ),
}
# Examples of what stands in a user's directories.
OTHERS_FILES = re.compile(r"bus/(in|out)box/|deploy/jobwire\.toml|src/app\.py")
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_what_exists(document: Path) -> None:
    """Every `jobwire` command, `make` target and relative link in a document is real."""
    text = document.read_text()
    commands = set(re.findall(r"(?:^\$ |`)jobwire ([a-z]+)", text, re.MULTILINE))
    targets = set(re.findall(r"(?:^\s*|`)make ([a-z]+)", text, re.MULTILINE)) - {"sure"}
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)}
    assert commands <= set(COMMANDS)
    assert targets <= TARGETS
    assert [
        link for link in links if link and "://" not in link and not (document.parent / link).exists()
    ] == []


@pytest.mark.parametrize("document", OF_TODAY, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_options_and_files_that_are_there(document: Path) -> None:
    """Every option in a document stands in the source, and every file of ours that it names is there."""
    text = document.read_text(encoding="utf-8")
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    quoted = re.findall(r"`([^`\n]+)`", text)
    files = set(re.findall(r"(?<![\w/.<-])[\w.-]+(?:/[\w.-]+)+\.(?:py|sql|md|toml)\b", " ".join(quoted)))
    assert options - OPTIONS - OTHERS_OPTIONS == set()
    assert {
        name
        for name in files
        if not OTHERS_FILES.match(name) and not any(f"/{path}".endswith(f"/{name}") for path in FILES)
    } == set()


def test_the_readme_of_delivery_has_the_codes_figures() -> None:
    """When unconfirmed events are sent again is the same in README and code."""
    times = ", ".join(f"{RESEND_SECONDS * 2**repeats:g} s" for repeats in range(3))
    assert f"sent again after {times} ..." in (ROOT / "delivery" / "README.md").read_text()


def test_every_command_is_explained() -> None:
    """README or a component's README mentions each command."""
    text = "".join(document.read_text() for document in DOCUMENTS)
    assert [name for name in COMMANDS if f"jobwire {name}" not in text] == []
