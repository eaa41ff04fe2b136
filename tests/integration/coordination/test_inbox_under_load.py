"""Eight processes that send, take and give back at once: nothing lost, nothing doubled."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

from jobwire.coordination.store import CoordinationStore
from jobwire.testing.homes import new_home
from jobwire.testing.waiting import wait_for

MESSAGES = 15
SENDER = f"""
import sys
from jobwire import Home
inbox = Home(sys.argv[1]).inbox(sys.argv[2])
for number in range({MESSAGES}):
    inbox.send(("b", "c"), f"{{sys.argv[2]}} {{number}}", id=f"{{sys.argv[2]}}-{{number}}", kind="event")
"""
TAKER = """
import sys
from jobwire import Home
for message in Home(sys.argv[1]).inbox(sys.argv[2]).take():
    if message.delivery.attempts == 1 and message.seq % 7 == 0:
        message.nack("not now")
"""


def test_each_message_is_done_once_for_each_recipient(tmp_path: Path) -> None:
    """Four senders and four takers: each message is acknowledged once by each recipient, retries included."""
    home = new_home(tmp_path / "home")
    store = CoordinationStore(str(home))
    store.latest_event()

    def start(program: str, agent: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", program, str(home), agent])

    def states() -> Counter[str]:
        numbers = range(1, store.latest_event() + 1)
        return Counter(row[3] for seq in numbers for row in store.rows("deliveries_of", {"seq": seq}))

    senders = [start(SENDER, name) for name in ("s1", "s2", "s3", "s4")]
    takers = [start(TAKER, agent) for agent in ("b", "b", "c", "c")]
    try:
        assert [one.wait(120) for one in senders] == [0] * 4
        wait_for(lambda: states() == {"done": 4 * MESSAGES * 2}, deadline_seconds=120, step_seconds=0.25)
        events = store.rows("events_after", {"after": 0, "thread_id": None, "limit": 10_000})
        receipts = Counter((row[4], row[6]) for row in events if row[5] == "receipt")
        assert set(receipts.values()) == {1}
        assert len(receipts) == 4 * MESSAGES * 2
    finally:
        for one in takers:
            one.kill()
            one.wait()
        store.close()
