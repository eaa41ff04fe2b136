"""The command that stands above the figures in the document."""

from tests.faults.storm.run import parser, told_command


def test_the_document_names_what_defines_the_storm() -> None:
    """Whoever repeats the command gets the same storms; where its files went is nobody's business."""
    where = ["--json", "/tmp/x.json", "--keep", "/tmp/kept", "--write", "docs/x.md", "--limit", "60"]
    args = parser().parse_args(["--jobs", "200", "--events", "4000", "--seeds", "10", *where])
    told = told_command(args, 77)
    assert told == (
        "python tests/faults/storm/run.py --jobs 200 --events 4000 --slots 8 --seed 77 --seeds 10"
    )
    again = parser().parse_args(told.split()[2:])
    assert told_command(again, again.seed) == told


def test_one_host_is_said() -> None:
    """A storm without namespaces is another one: the command says so."""
    args = parser().parse_args(["--seed", "5", "--one-host"])
    assert told_command(args, 5).endswith("--seed 5 --seeds 1 --one-host")
