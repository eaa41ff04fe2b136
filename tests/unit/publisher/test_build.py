"""Wiring: which job, which attempt and which broker a worker's words are for."""

from pathlib import Path

import pytest

from jobwire.core.errors import InvalidInputError, StoppedError
from jobwire.delivery.outbox import EXPIRY_SECONDS
from jobwire.delivery.signing import Draft
from jobwire.publisher.build import open_event_log, open_route
from jobwire.registry.event_log import HomeEventLog
from jobwire.registry.store import RecordStore
from jobwire.testing import ManualClock

JOB = "0a1b2c3d"


@pytest.mark.parametrize(
    ("environ", "attempt", "stopped"),
    [
        ({}, None, False),
        ({"JOBWIRE_ATTEMPT": "1"}, None, False),
        ({"JOBWIRE_ATTEMPT": "2"}, None, True),
        ({"JOBWIRE_ATTEMPT": "2", "JOBWIRE_JOB": JOB}, None, True),
        ({"JOBWIRE_ATTEMPT": "2", "JOBWIRE_JOB": "ffffffff"}, None, False),
        ({"JOBWIRE_ATTEMPT": "2"}, 1, False),
        ({}, 2, True),
    ],
)
def test_the_attempt_is_pinned(
    store: RecordStore, clock: ManualClock, environ: dict[str, str], attempt: int | None, *, stopped: bool
) -> None:
    """The environment pins the attempt of its own job only; the caller's word outranks it."""
    events = open_event_log(
        job_id=JOB, ticket=None, home=store.home, attempt=attempt, clock=clock, environ=environ
    )
    if stopped:
        with pytest.raises(StoppedError):
            events.append(Draft("started"))
    else:
        assert events.append(Draft("started")).seq == 1


@pytest.mark.parametrize("text", ["one", "-1", "1.0", "²", "9" * 30])
def test_an_attempt_that_is_no_number_is_refused(store: RecordStore, clock: ManualClock, text: str) -> None:
    """A damaged environment is named, not ignored."""
    with pytest.raises(InvalidInputError) as refused:
        open_event_log(
            job_id=JOB,
            ticket=None,
            home=store.home,
            attempt=None,
            clock=clock,
            environ={"JOBWIRE_ATTEMPT": text},
        )
    assert "JOBWIRE_ATTEMPT" in refused.value.message


@pytest.mark.parametrize(
    ("environ", "option", "expiry"),
    [
        ({}, None, EXPIRY_SECONDS),
        ({"JOBWIRE_EXPIRY_SECONDS": "60"}, None, 60),
        ({"JOBWIRE_EXPIRY_SECONDS": "60"}, 5, 5),
        ({"JOBWIRE_EXPIRY_SECONDS": "0"}, None, None),
        ({}, 0, None),
    ],
)
def test_the_expiry_is_a_setting(
    events: HomeEventLog, clock: ManualClock, environ: dict[str, str], option: int | None, expiry: int | None
) -> None:
    """Command line, then environment, then a week; zero keeps retained events for ever."""
    route = open_route(events, command_line={}, environ=environ, clock=clock, expiry_seconds=option)
    assert route.expiry_seconds == expiry


def test_settings_follow_the_hierarchy(store: RecordStore, events: HomeEventLog, clock: ManualClock) -> None:
    """Command line, record, environment, file: the highest that names a setting wins."""
    Path(store.home, "jobwire.toml").write_text(
        '[broker]\nbroker = "file.example"\nport = 1\ntopic_root = "file"\ntls = "on"\n'
    )
    with store.locked(JOB) as locked:
        locked.replace(locked.record._replace(broker={"port": 2}), cause="the test")
    environ = {"MQTT_BROKER": "environment.example", "MQTT_PORT": "3"}
    route = open_route(events, command_line={}, environ=environ, clock=clock)
    assert (route.address, route.topic_root) == ("environment.example:2", "file")
    route = open_route(events, command_line={"broker": "line.example"}, environ=environ, clock=clock)
    assert route.address == "line.example:2"
