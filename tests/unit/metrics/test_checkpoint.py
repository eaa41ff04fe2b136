"""Judging Spark's checkpoint before Spark does."""

import json
from pathlib import Path

import pytest

from jobwire.metrics.checkpoint import reconcile, set_aside

JOURNAL = "aaaa"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Give a checkpoint of three batches of 100 rows; the last is planned and not finished."""
    directory = tmp_path / "checkpoint"
    for folder in ("offsets", "commits"):
        (directory / folder).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"x"}')
    for number in range(3):
        place = json.dumps({"journal": JOURNAL, "offset": 100 * (number + 1)})
        (directory / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{place}')
        if number < 2:
            (directory / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return directory


@pytest.mark.parametrize("next_offset", [200, 250, 300])
def test_a_checkpoint_that_fits_is_left_alone(checkpoint: Path, next_offset: int) -> None:
    """The tables may be anywhere between the last finished and the last planned batch."""
    assert reconcile(checkpoint, {JOURNAL: next_offset}, [JOURNAL]) == ""
    assert checkpoint.exists()


@pytest.mark.parametrize(
    ("tables", "journals", "words"),
    [
        ({JOURNAL: 150}, [JOURNAL], "ahead of the tables"),
        ({}, [JOURNAL], "ahead of the tables"),
        ({JOURNAL: 301}, [JOURNAL], "behind the tables"),
        ({"bbbb": 5}, ["bbbb"], "other journals"),
        ({JOURNAL: 200}, [JOURNAL, "bbbb"], "1 journals, not 2"),
    ],
)
def test_one_that_disagrees_is_set_aside(
    checkpoint: Path, tables: dict[str, int], journals: list[str], words: str
) -> None:
    """The tables' offsets lead; the message says why."""
    assert words in reconcile(checkpoint, tables, journals)
    assert not checkpoint.exists()
    assert checkpoint.with_name("checkpoint.set-aside").exists()


@pytest.mark.parametrize("name", ["offsets/2", "offsets/1", "commits/1", "metadata"])
@pytest.mark.parametrize("content", [b"", b"v1", b'v1\n{"batch', b"\xff\x00"])
def test_torn_files_are_found(checkpoint: Path, name: str, content: bytes) -> None:
    """Whatever a power cut leaves of the last files, the query starts without them."""
    (checkpoint / name).write_bytes(content)
    done = reconcile(checkpoint, {JOURNAL: 250}, [JOURNAL])
    fits = name == "commits/1" and content == b'v1\n{"batch'
    assert ("damaged" in done) != fits


def test_commits_without_offsets_are_damage(checkpoint: Path) -> None:
    """A finished batch that was never planned is not believed."""
    (checkpoint / "offsets" / "2").unlink()
    (checkpoint / "offsets" / "1").unlink()
    assert "never planned" in reconcile(checkpoint, {JOURNAL: 100}, [JOURNAL])


def test_nothing_there_is_fine(tmp_path: Path) -> None:
    """The first start has no checkpoint; an empty folder is one too."""
    assert reconcile(tmp_path / "checkpoint", {}, [JOURNAL]) == ""
    (tmp_path / "checkpoint").mkdir()
    assert reconcile(tmp_path / "checkpoint", {JOURNAL: 5}, [JOURNAL]) == ""


def test_only_the_latest_copy_is_kept(checkpoint: Path) -> None:
    """Setting aside again replaces the earlier copy, so that they do not pile up."""
    set_aside(checkpoint)
    checkpoint.mkdir()
    (checkpoint / "new").touch()
    set_aside(checkpoint)
    set_aside(checkpoint)
    kept = checkpoint.with_name("checkpoint.set-aside")
    assert [path.name for path in kept.iterdir()] == ["new"]
