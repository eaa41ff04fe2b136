"""Eight processes of senders, takers and waiters on one store: none lost, none doubled, every waiter woken.

One taker is killed in the middle. JOBWIRE_FAULTS=long runs it for a minute.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from jobwire.coordination.store import CoordinationStore

MESSAGES = 1500 if os.environ.get("JOBWIRE_FAULTS") == "long" else 25
SENDERS = 3
BEGIN = """
import json, sys
from jobwire.coordination.message import NewMessage
from jobwire.coordination.sending import send
from jobwire.coordination.store import CoordinationStore
from jobwire.coordination.taking import ack, take
from jobwire.coordination.waiting import wait_reply, watch
from jobwire.core.errors import ConflictError, NoWorkError
home, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = CoordinationStore(home)
"""
# Sends to every taker, and asks the answerer something that it waits for.
SENDER = """
waits = 0
for number in range(count):
    for taker in ("taker0", "taker1"):
        send(store, NewMessage(name, (taker,), "task", summary="work", id=f"{name}-{taker}-{number}"))
    if number % 5 == 0:
        asked = send(store, NewMessage(name, ("answerer",), "question", summary="?"))
        waited = wait_reply(store, agent=name, thread_id=asked.thread_id, seconds=300)
        waits += waited.found is not None
print(json.dumps({"waits": waits}))
"""
ANSWERER = """
answered, wanted = 0, 3 * ((count + 4) // 5)
while answered < wanted:
    watch(store, agent=name, seconds=300)
    try:
        taken = take(store, name)
    except NoWorkError:
        continue
    said = taken.message
    send(store, NewMessage(name, (said.from_agent,), "answer", summary="!", thread_id=said.thread_id))
    ack(store, name, said.id, token=taken.token)
    answered += 1
print(json.dumps({"answered": answered}))
"""
# Two processes of each taker's name: what one takes the other does not.
TAKER = """
import os
while True:
    over = os.path.exists(home + "/over")
    try:
        taken = take(store, name, seconds=2.0, max_tries=50)
        ack(store, name, taken.message.id, token=taken.token)
    except ConflictError:
        continue
    except NoWorkError:
        if over and store.rows("first_open", {"agent_id": name})[0][0] > store.latest_event():
            break
        watch(store, agent=name, seconds=0.5)
        continue
    print(taken.message.id, flush=True)
"""


def _start(home: Path, script: str, name: str) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", BEGIN + script, str(home), name, str(MESSAGES)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_nothing_is_lost_or_doubled_and_everybody_is_woken(tmp_path: Path) -> None:
    """Each message is done once though a taker is killed, and each question gets its answer to who waits."""
    store = CoordinationStore(str(tmp_path))
    store.latest_event()
    takers = [_start(tmp_path, TAKER, f"taker{number % 2}") for number in range(4)]
    answerer = _start(tmp_path, ANSWERER, "answerer")
    senders = [_start(tmp_path, SENDER, f"sender{number}") for number in range(SENDERS)]
    killed = takers[0]
    assert killed.stdout is not None
    early = [killed.stdout.readline().strip() for _ in range(3)]
    killed.send_signal(signal.SIGKILL)
    early += killed.communicate()[0].split()
    said = [json.loads(sender.communicate(timeout=600)[0]) for sender in senders]
    questions = (MESSAGES + 4) // 5
    assert [one["waits"] for one in said] == [questions] * SENDERS
    assert json.loads(answerer.communicate(timeout=600)[0])["answered"] == questions * SENDERS
    (tmp_path / "over").touch()
    done = Counter(early)
    for taker in takers[1:]:
        done.update(taker.communicate(timeout=600)[0].split())
        assert taker.returncode == 0
    expected = {
        f"sender{sender}-taker{taker}-{number}"
        for sender in range(SENDERS)
        for taker in range(2)
        for number in range(MESSAGES)
    }
    assert max(done.values()) == 1
    # Who was killed may have acknowledged one that it could not tell of any more.
    assert len(expected - done.keys()) <= 1
    rows = store.rows("messages_after", {"after": 0, "limit": -1})
    assert Counter(row[1] for row in rows if row[1] in expected) == Counter(expected)
    for name in ("taker0", "taker1"):
        assert store.rows("first_open", {"agent_id": name})[0][0] > store.latest_event()
    store.close()
