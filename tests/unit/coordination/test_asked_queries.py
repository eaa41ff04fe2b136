"""What the code asks of the store, the store knows: a name that a merge lost is found here."""

import ast
from pathlib import Path

import jobwire.coordination
from jobwire.coordination.tables import TABLES

_CALLS = {"rows", "row", "execute", "execute_many"}


def test_every_query_that_is_asked_for_exists() -> None:
    """Each name in a call of rows, row, execute or execute_many stands in queries.sql."""
    folder = Path(str(jobwire.coordination.__file__)).parent
    asked = {
        str(node.args[0].value)
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CALLS
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
    assert asked - TABLES.queries.all().keys() == set()
