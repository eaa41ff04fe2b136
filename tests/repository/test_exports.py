"""What `import jobwire` exports: the list and the modules agree, and nothing is loaded before its time."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import jobwire

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", jobwire.__all__)
def test_every_name_is_there_and_explained(name: str) -> None:
    """Each exported name is a documented class."""
    exported = getattr(jobwire, name)
    assert isinstance(exported, type)
    assert (exported.__doc__ or "").strip()


def test_type_checkers_and_python_see_the_same() -> None:
    """The imports for type checkers name what is exported, from where it is defined."""
    tree = ast.parse((ROOT / "api" / "jobwire" / "__init__.py").read_text())
    found = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(found) == sorted(jobwire.__all__)
    assert {name: getattr(jobwire, name).__module__ for name in found} == found


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt import fails as in any module; `dir` shows what there is."""
    with pytest.raises(AttributeError, match="Hme"):
        _ = jobwire.Hme  # type: ignore[attr-defined]  # the point of it
    assert set(jobwire.__all__) <= set(dir(jobwire))


def test_importing_jobwire_loads_nothing() -> None:
    """`publish_event` passes through `jobwire` at each start: nothing else comes with it."""
    script = "import sys; old = set(sys.modules); import jobwire; print(*sorted(set(sys.modules) - old))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["jobwire"]


def test_a_home_needs_no_asyncio() -> None:
    """Who does not use asyncio does not load it."""
    script = "import sys; from jobwire import Home; print('asyncio' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False"]
