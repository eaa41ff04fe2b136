"""The order of PUBACKs: first received, first acknowledged (MQTT-4.6.0-2)."""

from collections import deque
from collections.abc import Iterable
from itertools import count


class AckLedger:
    """Hands out tokens for received messages and releases packet ids in the order of receipt.

    `request` may be called from any thread; everything else belongs to the network thread. Tokens
    only rise, so one of a lost connection or a second request for the same message is recognised
    although the broker uses its packet ids again.
    """

    def __init__(self) -> None:
        self._next = count(1).__next__
        self._open: deque[tuple[int, int]] = deque()
        self._early: set[int] = set()
        self._requests: deque[int] = deque()

    def received(self, packet_id: int) -> int:
        """Return the token of a new message."""
        token = self._next()
        self._open.append((token, packet_id))
        return token

    def request(self, tokens: Iterable[int]) -> None:
        """Ask for the acknowledgement of messages."""
        self._requests.extend(tokens)

    def release(self) -> list[int]:
        """Return the packet ids that are due, in order."""
        due: list[int] = []
        waiting, requests, early = self._open, self._requests, self._early
        while requests:
            token = requests.popleft()
            if not waiting or token < waiting[0][0]:
                continue
            if token != waiting[0][0]:
                early.add(token)
                continue
            due.append(waiting.popleft()[1])
            while early and waiting and waiting[0][0] in early:
                early.remove(waiting[0][0])
                due.append(waiting.popleft()[1])
        return due

    def connection_lost(self) -> None:
        """Forget what was received: the broker sends it again."""
        self._open.clear()
        self._early.clear()
