"""The command that stands above the figures in the document."""

from pathlib import Path

import pytest

from tests.faults.storm.report import BEGIN, END, around_section
from tests.faults.storm.run import parser, told_command


def test_the_document_names_what_defines_the_storm() -> None:
    """Whoever repeats the command gets the same storms; where its files went is nobody's business."""
    where = ["--json", "/tmp/x.json", "--keep", "/tmp/kept", "--write", "docs/x.md", "--limit", "60"]
    args = parser().parse_args(["--jobs", "200", "--events", "4000", "--seeds", "10", *where])
    told = told_command(args, range(77, 87))
    assert told == (
        "python tests/faults/storm/run.py --jobs 200 --events 4000 --slots 8 --seed 77 --seeds 10"
    )
    again = parser().parse_args(told.split()[2:])
    assert told_command(again, range(again.seed, again.seed + again.seeds)) == told


def test_one_host_is_said() -> None:
    """A storm without namespaces is another one: the command says so."""
    args = parser().parse_args(["--seed", "5", "--one-host"])
    assert told_command(args, [5]).endswith("--seed 5 --seeds 1 --one-host")


def test_a_run_that_was_ended_early_tells_of_what_there_was() -> None:
    """The document does not promise ten storms where three have run."""
    args = parser().parse_args(["--seed", "5", "--seeds", "10"])
    assert "--seed 5 --seeds 3" in told_command(args, [5, 6, 7])


def test_a_document_without_a_place_is_known_before(tmp_path: Path) -> None:
    """Where the figures cannot go is said before the storms, not after an hour of them."""
    document = tmp_path / "page.md"
    with pytest.raises(ValueError, match="cannot be read"):
        around_section(document)
    document.write_text("no marks")
    with pytest.raises(ValueError, match="no place"):
        around_section(document)
    document.write_text(f"before {BEGIN} figures {END} after")
    assert around_section(document) == ("before ", " after")
