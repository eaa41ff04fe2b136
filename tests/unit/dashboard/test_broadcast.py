"""The stream of changes: exactly what was missed, or everything."""

import asyncio
import json
from collections.abc import AsyncIterator

from jobwire.core.clock import utc_timestamp
from jobwire.dashboard.broadcast import Broadcaster, FollowerStatus
from jobwire.dashboard.fleet import JobFacts, Row, Thresholds, judge, row_of
from jobwire.dashboard.model import Changes
from jobwire.jobs.record import JobRecord

T0 = 1_767_225_600.0
NOW = FollowerStatus(T0, 7)


def row(job_id: str, detail: str = "") -> Row:
    """Return a pending job's row."""
    stamp = utc_timestamp(T0)
    facts = JobFacts(JobRecord(job_id, "t" * 43, stamp, stamp, detail=detail), None)
    return row_of(facts, judge(facts, T0, Thresholds()), Thresholds())


def broadcaster() -> Broadcaster:
    """Return one that knows a single job."""
    made = Broadcaster(start_id="aa")
    made.begin({"00000001": row("00000001")}, NOW)
    return made


def parse(chunk: bytes) -> list[tuple[str, str, dict[str, object]]]:
    """Return (id, event, data) of each message."""
    found = []
    for block in chunk.decode().strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((lines["id"], lines["event"], json.loads(lines["data"])))
    return found


async def read(stream: AsyncIterator[bytes]) -> list[tuple[str, str, dict[str, object]]]:
    """Return the next messages."""
    return parse(await asyncio.wait_for(anext(stream), 5))


def test_new_page_gets_the_fleet_then_changes() -> None:
    """A page that knows nothing gets all rows, then each change once, with rising ids."""

    async def play() -> None:
        hub = broadcaster()
        stream = hub.stream("")
        [(first_id, kind, body)] = await read(stream)
        assert (kind, [item["id"] for item in body["rows"]]) == ("fleet", ["00000001"])  # type: ignore[attr-defined]
        hub.publish(Changes((row("00000002"),), ("00000001",)), NOW)
        [(next_id, kind, body)] = await read(stream)
        assert (kind, body["gone"], body["rows"][0]["id"]) == ("update", ["00000001"], "00000002")  # type: ignore[index]
        assert first_id == "aa.1.7"
        assert next_id == "aa.2.7"

    asyncio.run(play())


def test_returning_page_gets_exactly_what_it_missed() -> None:
    """After a break the stream goes on behind the last id: nothing lost, nothing twice."""

    async def play() -> None:
        hub = broadcaster()
        for number in range(5):
            hub.publish(Changes((row("00000001", str(number)),)), NOW)
        messages = await read(hub.stream("aa.3.7"))
        assert [item[2]["rows"][0]["detail"] for item in messages] == ["2", "3", "4"]  # type: ignore[index]

    asyncio.run(play())


def test_page_of_an_earlier_server_gets_everything() -> None:
    """Another start of the server, or an id that is none, is answered with the whole fleet."""

    async def play() -> None:
        for last_id in ("bb.1.7", "nonsense", "aa.x.7", "aa.-1.7", "aa.999.7", "aa.0.7"):
            [(_, kind, _)] = await read(broadcaster().stream(last_id))
            assert kind == "fleet", last_id

    asyncio.run(play())


def test_page_that_was_away_too_long_gets_everything() -> None:
    """Where the kept messages do not reach back, the whole fleet is sent instead of a gap."""

    async def play() -> None:
        hub = broadcaster()
        for number in range(1300):
            hub.publish(Changes((row("00000001", str(number)),)), NOW)
        [(_, kind, _)] = await read(hub.stream("aa.2.7"))
        assert kind == "fleet"
        assert len(hub._kept) == 1200

    asyncio.run(play())


def test_trouble_begins_anew_for_everybody() -> None:
    """After trouble every page gets the whole fleet: nobody knows what was missed."""

    async def play() -> None:
        hub = broadcaster()
        stream = hub.stream("")
        await read(stream)
        hub.publish(Changes(), FollowerStatus(T0, 7, "disk gone"))
        [(_, _, body)] = await read(stream)
        assert body["trouble"] == "disk gone"
        hub.begin({}, NOW)
        [(_, kind, body)] = await read(stream)
        assert (kind, body["rows"]) == ("fleet", [])

    asyncio.run(play())


def test_slow_page_gets_several_changes_at_once() -> None:
    """A page that reads slowly does not hold up the others and misses nothing."""

    async def play() -> None:
        hub = broadcaster()
        slow, quick = hub.stream(""), hub.stream("")
        await read(slow)
        await read(quick)
        for number in range(3):
            hub.publish(Changes((row("00000001", str(number)),)), NOW)
            assert len(await read(quick)) == 1
        assert len(await read(slow)) == 3

    asyncio.run(play())


def test_hostile_text_cannot_end_a_message() -> None:
    """Line breaks of every kind in a detail stay inside the JSON."""

    async def play() -> None:
        hostile = "a\n\nevent: fleet\rdata: {}\u2028\u0085\0 </script>"
        hub = Broadcaster(start_id="aa")
        hub.begin({"00000001": row("00000001", hostile)}, NOW)
        chunk = await anext(hub.stream(""))
        assert chunk.isascii()
        assert parse(chunk)[0][2]["rows"][0]["detail"] == hostile  # type: ignore[index]

    asyncio.run(play())


def test_closing_ends_every_stream() -> None:
    """A stopping server ends its streams at once."""

    async def play() -> None:
        hub = broadcaster()
        stream = hub.stream("")
        await read(stream)
        hub.close()
        assert [chunk async for chunk in stream] == []

    asyncio.run(play())
