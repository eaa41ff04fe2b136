"""`jobwire metrics query`: any question, no change, and an end in time."""

import json
import time
from pathlib import Path

import pytest

from jobwire.cli.main import main
from jobwire.core.errors import InvalidInputError
from jobwire.core.exit_codes import ExitCode
from jobwire.metrics.query import answer
from jobwire.testing import new_home
from jobwire.testing.metric_tables import write_tables

NOW = int(time.time())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a home with figures."""
    made = new_home(tmp_path / "home")
    write_tables(made, NOW - 600)
    return made


@pytest.fixture
def sink(home: Path) -> str:
    """Give its tables."""
    return str(home / "metrics" / "metrics.db")


def test_a_question_is_answered(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table for people, as columns and rows for programs."""
    words = ["--home", str(home), "metrics", "query", "SELECT outcome, COUNT(*) AS n FROM jobs GROUP BY 1"]
    assert main(words) == ExitCode.OK
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["outcome", "n"]
    assert main([*words, "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "columns": ["outcome", "n"],
        "rows": [["completed", 2], ["error", 1], ["open", 1]],
        "truncated": False,
    }


def test_every_view_is_explained(sink: str) -> None:
    """docs/metrics.md names each view and each of its columns."""
    views = answer(sink, "SELECT name FROM sqlite_master WHERE type = 'view'", limit=100, seconds=60.0)
    text = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    explained = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    for (view,) in views.rows:
        columns = answer(sink, f"SELECT * FROM {view}", limit=1, seconds=60.0).columns  # noqa: S608 - ours
        missing = [name for name in columns if f"`{name}`" not in explained[view]]
        assert not missing or view == "job_states", f"{view}: {missing}"


def test_a_row_too_many_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No answer grows without bound, and a cut one says so."""
    code = main(["--home", str(home), "metrics", "query", "SELECT job_id FROM jobs", "--limit", "2"])
    assert (code, "first 2 rows" in capsys.readouterr().err) == (ExitCode.OK, True)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM job_totals",
        "INSERT INTO metrics_schema VALUES (9)",
        "DROP VIEW jobs",
        "CREATE TEMP TABLE t (a)",
        "ATTACH 'other.db' AS other",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA table_info(job_totals)",
        "VACUUM INTO 'copy.db'",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM job_totals",
        "SELECT zeroblob(1000000000)",
        "WITH t(a) AS (SELECT 1 UNION ALL SELECT a || a FROM t) SELECT SUM(length(a)) FROM t",
        "SELEC",
        "SELECT nothing FROM nowhere",
        "",
        "SELECT '\ud800'",
        "SELECT '" + "x" * (2 << 20) + "'",
    ],
)
def test_what_is_no_question_changes_nothing(sql: str, sink: str, tmp_path: Path) -> None:
    """Whatever would write, open another file or fill the memory is refused, with what can be asked."""
    before = Path(sink).read_bytes()
    with pytest.raises(InvalidInputError) as refused:
        answer(sink, sql, limit=10, seconds=5.0)
    assert refused.value.hint
    assert Path(sink).read_bytes() == before
    assert not (tmp_path / "copy.db").exists()


def test_a_long_question_ends(sink: str) -> None:
    """A join without an end is stopped when its time is over, and the way on is told."""
    endless = "WITH RECURSIVE t(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM t) SELECT COUNT(*) FROM t"
    with pytest.raises(InvalidInputError, match="too long") as late:
        answer(sink, endless, limit=10, seconds=0.2)
    assert "--seconds" in late.value.hint


def test_hostile_texts_move_no_cursor(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value of any bytes is shown as text that a terminal does not obey."""
    main(["--home", str(home), "metrics", "query", "SELECT char(27) || '[2J' AS a, x'00ff' AS b"])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "00ff" in shown
