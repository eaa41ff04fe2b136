"""SQL in files: where a statement ends, and what a query is called."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.storage.sqlite.sql_text import NamedQueries, SqlFormatError, statements

TRIGGER = "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET b = ';'; DELETE FROM a; END;"
# Letters that could mislead whoever looks for the end of a statement by himself.
TRICKY = st.text(alphabet="a;'\"-/*\n[]` ", max_size=20)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@given(st.lists(st.tuples(TRICKY, TRICKY), max_size=6))
def test_a_script_falls_into_its_statements(parts: list[tuple[str, str]]) -> None:
    """Whatever stands in strings and comments, each statement comes back once, whole and in order."""
    written = [f"SELECT {_literal(text)} AS x;" for text, _ in parts]
    comments = ["-- " + comment.replace("\n", " ") + "\n" for _, comment in parts]
    script = "".join(comment + one for comment, one in zip(comments, written, strict=True))
    found = statements(script)
    assert len(found) == len(written)
    connection = sqlite3.connect(":memory:")
    assert [connection.execute(one).fetchone()[0] for one in found] == [text for text, _ in parts]
    connection.close()


def test_a_trigger_is_one_statement() -> None:
    """The semicolons inside a trigger end nothing, and a comment alone is no statement."""
    assert statements(f"-- a;\n{TRIGGER}\n/* b; */\nSELECT 1;\n-- end;") == [
        f"-- a;\n{TRIGGER}",
        "/* b; */\nSELECT 1;",
    ]
    assert statements("-- nothing;\n;\n") == []


@pytest.mark.parametrize("script", ["SELECT 1", "SELECT 1; SELECT 2", "SELECT 'a;"])
def test_what_does_not_end_is_refused(script: str) -> None:
    """A statement without its semicolon is an error and not left out."""
    with pytest.raises(SqlFormatError):
        statements(script)


NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(st.dictionaries(NAMES, st.tuples(TRICKY, TRICKY), max_size=5))
def test_queries_come_back_by_name(written: dict[str, tuple[str, str]]) -> None:
    """Each block gives one query under its name, whatever its sentence and its strings hold."""
    text = "-- What this is.\n" + "".join(
        f"-- name: {name}\n-- {sentence!r}\nSELECT {_literal(value)};\n"
        for name, (sentence, value) in written.items()
    )
    assert NamedQueries(text).all() == {
        name: f"SELECT {_literal(value)}" for name, (_, value) in written.items()
    }


def test_columns_are_listed_once() -> None:
    """What queries share is written in one place, alone, with the table's name, as parameters."""
    text = (
        "-- columns: pair\n-- Two.\na,\nb\n"
        "-- name: plain\n-- As they are.\nSELECT {pair} FROM t;\n"
        "-- name: of\n-- Of a table.\nSELECT {t.pair}, c FROM u JOIN t;\n"
        "-- name: put\n-- With parameters.\nINSERT INTO t ({pair}) VALUES ({:pair});\n"
    )
    assert NamedQueries(text).all() == {
        "plain": "SELECT a, b FROM t",
        "of": "SELECT t.a, t.b, c FROM u JOIN t",
        "put": "INSERT INTO t (a, b) VALUES (:a, :b)",
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT 1;\n-- name: a\n-- One.\nSELECT 1;", "before"),
        ("-- name: a\n-- One.\nSELECT 1;\n-- name: a\n-- Two.\nSELECT 2;", "twice"),
        ("-- name: a\nSELECT 1;", "sentence"),
        ("-- name: a\n-- One.\n", "0 statements"),
        ("-- name: a\n-- One.\nSELECT 1; SELECT 2;", "2 statements"),
        ("-- columns: c\n-- One.\na, b\n-- columns: c\n-- Two.\na\n", "columns c stands there twice"),
        ("-- columns: c\na, b\n-- name: a\n-- One.\nSELECT {c};", "sentence"),
        ("-- name: a\n-- One.\nSELECT {c};", "no columns 'c'"),
    ],
)
def test_another_form_is_refused(text: str, word: str) -> None:
    """A file in any other form is an error that says what is wrong with it."""
    with pytest.raises(SqlFormatError, match=word):
        NamedQueries(text).all()
