"""What `publish_event` accepts, every consumer accepts; what it refuses leaves no trace."""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import InvalidInputError
from jobwire.core.redaction import Redactor
from jobwire.core.topics import Topics
from jobwire.delivery.signing import Draft
from jobwire.jobs.admission import Accepted, JobView, admit
from jobwire.jobs.record import JobRecord
from jobwire.publisher.cleaning import clean
from jobwire.publisher.command import draft_in
from jobwire.publisher.options import add_options
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock

JOB, TOKEN = "0a1b2c3d", "t" * 43
# As argv gives them: any character but NUL, and bytes that are not UTF-8.
WORDS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60),
    st.binary(max_size=20).map(lambda raw: os.fsdecode(raw.replace(b"\0", b""))),
    st.sampled_from(["1e17", "-0.0", "1e21", "2e308", str(2**53), "1" * 5000, '"\\ud800"', "[" * 9999]),
    st.sampled_from(["x" * 1024, "/aa " * 256, "é" * 1025, "x" * 70_000, "/home/me/x", "password=x"]),
)
# Any code point, halves of surrogate pairs too.
TEXTS = st.text(st.characters(), max_size=20)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.binary(max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)


def _open_events(folder: Path) -> HomeEventLog:
    clock = ManualClock()
    store = RecordStore(folder / "home", clock=clock)
    now = utc_timestamp(clock.now())
    store.create(JobRecord(JOB, TOKEN, now, now))
    return HomeEventLog(store, JOB, attempt=1)


def _is_admitted(events: HomeEventLog, say: Callable[[], Draft]) -> bool:
    """Say it; return whether it was accepted, by the events and so by admission."""
    try:
        entry = events.append(say())
    except InvalidInputError:
        assert events.position().last_seq == 0
        assert events.outbox.last() is None
        return False
    topics = Topics()
    verdict = admit(topics, topics.events(JOB), entry.payload, retained=False, job=JobView(token=TOKEN))
    assert isinstance(verdict, Accepted), verdict
    return True


def _cleaned(detail: str, data: Mapping[str, object]) -> Draft:
    return clean(Draft("started", detail, data), Redactor({"A_TOKEN": "password"})).draft


@given(
    detail=WORDS,
    pairs=st.lists(st.tuples(WORDS, WORDS).map("=".join), max_size=4),
    file=st.none() | VALUES,
)
def test_what_the_command_accepts_is_admitted(
    make_folder: Callable[[], Path], detail: str, pairs: list[str], file: object
) -> None:
    """Words of any length, kind and encoding become an event that is admitted, or leave nothing behind."""
    folder = make_folder()
    parser = argparse.ArgumentParser()
    add_options(parser)
    words = ["--event=started", f"--detail={detail}", *(f"--data={pair}" for pair in pairs)]
    if file is not None:
        source = folder / "data.json"
        source.write_text(json.dumps({"file": file}, default=str))
        words.append(f"--data-json={source}")
    args = parser.parse_args(words)
    _is_admitted(_open_events(folder), lambda: draft_in(args, {"A_TOKEN": "password"}, print))


@given(detail=TEXTS, data=st.dictionaries(TEXTS, VALUES))
def test_what_the_object_accepts_is_admitted(
    make_folder: Callable[[], Path], detail: str, data: dict[str, Any]
) -> None:
    """The same for `Publisher`, whose data may be anything that Python has."""
    _is_admitted(_open_events(make_folder()), lambda: _cleaned(detail, data))


@pytest.mark.parametrize("depth", [29, 30, 31, 5000])
def test_the_limit_of_depth_is_admissions(make_folder: Callable[[], Path], depth: int) -> None:
    """The event itself and `data` are two of the 32 levels."""
    value: object = 1
    for _ in range(depth):
        value = [value]
    assert _is_admitted(_open_events(make_folder()), lambda: _cleaned("", {"a": value})) == (depth <= 30)


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 1 - 2**53, -(2**53)])
def test_the_limit_of_integers_is_admissions(make_folder: Callable[[], Path], number: int) -> None:
    """What a double cannot hold exactly is refused."""
    said = _is_admitted(_open_events(make_folder()), lambda: _cleaned("", {"a": [number]}))
    assert said == (abs(number) < 2**53)


@pytest.mark.parametrize("count", [3_000, 10_000])
def test_many_pairs_are_an_event_or_a_refusal(make_folder: Callable[[], Path], count: int) -> None:
    """The number of pairs is bounded by the payload's 64 KiB alone."""
    pairs = [f"k{number}={number}" for number in range(count)]
    args = argparse.Namespace(event="started", detail="", data=pairs, data_json=None, strict=False)
    assert _is_admitted(_open_events(make_folder()), lambda: draft_in(args, {}, print)) == (count == 3_000)
