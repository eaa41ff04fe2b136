"""The house stands as ARCHITECTURE.md says: folders, packaging and imports agree."""

import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMPONENTS = sorted(path for path in ROOT.glob("*/jobwire/*/") if (path / "__init__.py").exists())
FOLDERS = {path.relative_to(ROOT).parts[0] for path in COMPONENTS}

NAMES = {path.name: path.relative_to(ROOT).parts[0] for path in COMPONENTS}
# What is installed: doubles and rehearsals stay with the source.
PRODUCT = set(NAMES) - {"testing"}


def named(text: str) -> set[str]:
    """Return the components that a sentence names; "everything" is the whole product."""
    return PRODUCT if "everything" in text else set(re.findall(r"\w+", text)) & set(NAMES)


_HOUSE = (ROOT / "ARCHITECTURE.md").read_text().partition("## Components")[2].partition("\n## ")[0]
_CELLS = dict(re.findall(r"^\| `([\w-]+)/` \|.*\| ([^|]+) \|$", _HOUSE, re.MULTILINE))
# Component -> what it may import of jobwire: the last column of ARCHITECTURE.md's table.
MAY_IMPORT = {name: named(_CELLS[folder]) for name, folder in NAMES.items()}
# Library -> the only components that may know it.
ONLY_IN = {
    "paho": {"transport"},
    "amqtt": {"broker", "testing"},
    "pyspark": {"metrics"},
    "cryptography": {"certs", "testing"},
    "uvicorn": {"dashboard"},
    "starlette": {"dashboard"},
    "textual": {"dashboard"},
}
# What takes longer to start or to load than a hundred rules take to check.
NOT_IN_UNIT = {"subprocess", "multiprocessing", "pyspark", "pyarrow", "numpy", "pandas", "amqtt"}
_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import ([\w, ]*)|import ([\w., ]+))", re.MULTILINE)


@cache
def modules() -> list[tuple[str, Path]]:
    """Return (component, file) of every module of the product."""
    return [(path.name, file) for path in COMPONENTS for file in path.rglob("*.py")]


@cache
def imports(file: Path) -> set[str]:
    """Return the full names of everything that `file` imports, also inside functions.

    By lines, not by syntax: a parser takes ten times as long. What stands in brackets over several
    lines is left out, its module is not.
    """
    names: set[str] = set()
    for module, aliases, plain in _IMPORT.findall(file.read_text()):
        words = [word.split()[0] for word in (aliases or plain).split(",") if word.strip()]
        names |= {module} | {f"{module}.{word}" for word in words} if module else set(words)
    return names


def test_every_component_is_packaged_checked_and_measured() -> None:
    """The wheel holds the product; the editable install, mypy and coverage each component."""
    hatch = PROJECT["tool"]["hatch"]["build"]
    mypy = PROJECT["tool"]["mypy"]
    paths = {part.removeprefix("$MYPY_CONFIG_FILE_DIR/") for part in mypy["mypy_path"].split(":")}
    assert set(hatch["dev-mode-dirs"]) >= FOLDERS
    packed = {name.split("/")[0] for name in hatch["targets"]["wheel"]["packages"]}
    assert packed == {NAMES[name] for name in PRODUCT}
    assert set(mypy["files"]) >= FOLDERS
    assert paths >= FOLDERS
    assert set(PROJECT["tool"]["coverage"]["run"]["source"]) >= FOLDERS


def test_no_component_hides_the_others() -> None:
    """One root has an __init__.py, which takes in the others; every component is typed, and so is jobwire."""
    assert list(ROOT.glob("*/jobwire/__init__.py")) == [ROOT / "api" / "jobwire" / "__init__.py"]
    assert [path for path in COMPONENTS if not (path / "py.typed").exists()] == []
    assert (ROOT / "api" / "jobwire" / "py.typed").exists()


def test_every_component_says_what_it_is() -> None:
    """Each component's folder has a README of at most 40 lines."""
    for folder in FOLDERS:
        readme = ROOT / folder / "README.md"
        assert readme.exists(), f"{folder} has no README.md"
        assert len(readme.read_text().splitlines()) <= 40, f"{folder}/README.md is too long"


@pytest.mark.parametrize("component", sorted(NAMES))
def test_arrows_point_one_way(component: str) -> None:
    """A component imports what ARCHITECTURE.md allows it, and is allowed nothing that it does not need."""
    used: set[str] = set()
    for file in (file for name, file in modules() if name == component):
        found = {
            parts[1]
            for parts in (item.split(".") for item in imports(file))
            if parts[0] == "jobwire" and parts[1:]
        } - {component}
        assert found <= MAY_IMPORT[component], f"{file.relative_to(ROOT)} imports {found}"
        used |= found
    assert used == MAY_IMPORT[component] or MAY_IMPORT[component] == PRODUCT


@pytest.mark.parametrize("component", sorted(NAMES))
def test_a_readme_says_what_its_component_may_import(component: str) -> None:
    """The line `May import: ...` of a component's README names what ARCHITECTURE.md does."""
    text = (ROOT / NAMES[component] / "README.md").read_text()
    lines = re.findall(r"May import: ([^.]+)\.", text)
    assert [named(line) for line in lines] == [MAY_IMPORT[component]]


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_each_library_has_one_place(library: str) -> None:
    """A library that could spread is known to its own components only."""
    for component, file in modules():
        if component not in ONLY_IN[library]:
            known = {name for name in imports(file) if name.split(".")[0] == library}
            assert not known, f"{file.relative_to(ROOT)} imports {library}"


def test_no_handler_does_work() -> None:
    """Signals are heard through the pipe of storage.signals: a handler that takes a lock may hang."""
    # The demo's handler raises KeyboardInterrupt, as Python's own does. The terminal's takes no lock: to be
    # suspended the default must be back for a moment, and only the main thread sets handlers.
    terminal = "runner/jobwire/runner/terminal.py"
    # And this one sets what a command starts with back to the default.
    allowed = {"storage/jobwire/storage/signals.py", "cli/jobwire/cli/demo.py", terminal}
    allowed.add("runner/jobwire/runner/pseudo_terminal.py")
    found = {str(file.relative_to(ROOT)) for _, file in modules() if "signal.signal(" in file.read_text()}
    assert found <= allowed


def test_core_is_pure() -> None:
    """The rules import the standard library, pydantic and rfc8785, and nothing that does I/O."""
    # typing_extensions is for type checkers only (core/override.py).
    allowed = {"jobwire", "pydantic", "rfc8785", "typing_extensions"} | set(sys.stdlib_module_names)
    allowed.add("_sha2")  # Python's own from 3.12 on (core/digest.py)
    forbidden = {
        "socket",
        "ssl",
        "subprocess",
        "fcntl",
        "asyncio",
        "threading",
        "sqlite3",
        "shutil",
        "tempfile",
    }
    for component, file in modules():
        if component == "core":
            roots = {name.split(".")[0] for name in imports(file)}
            assert roots <= allowed - forbidden, f"{file.relative_to(ROOT)}: {sorted(roots)}"


def test_unit_tests_start_nothing() -> None:
    """A unit test imports no process and no engine: these are for the other rings."""
    for file in (ROOT / "tests" / "unit").rglob("*.py"):
        roots = {name.split(".")[0] for name in imports(file)}
        assert not roots & NOT_IN_UNIT, f"{file.relative_to(ROOT)}: {sorted(roots & NOT_IN_UNIT)}"
