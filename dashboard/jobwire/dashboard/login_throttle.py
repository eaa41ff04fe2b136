"""When a wrong token is answered: later with each one from the same peer. Pure.

A right token is let in at once, whoever fails beside it: on loopback and behind a proxy all peers have one
address, so nothing may be held back for an address. What the wait slows is whoever waits for the answers;
who does not is held off by the token's length alone, which is why tokens should be made, not thought up.
"""

import ipaddress

# One wrong answer of a peer after the other, and none later than a stopping server waits.
SPACING_SECONDS = 0.5
LONGEST_SECONDS = 4.0
_MAX_PEERS = 1024
# Answers that wait at a time, of all peers: each holds a connection.
_MAX_WAITING = 256
_NETWORK_BITS = 64


class LoginThrottle:
    """Says for each wrong answer how long it has to wait. Used inside one event loop."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._waiting = 0

    def begin(self, peer: str, now: float) -> float | None:
        """Return for how many seconds to wait, or None where too many wait already; then refuse at once.

        `now` is on the monotonic clock. Whoever waits calls `end` afterwards.
        """
        if self._waiting >= _MAX_WAITING:
            return None
        self._forget(now)
        due = max(self._next.get(peer, now), now) + SPACING_SECONDS
        self._next[peer] = min(due, now + LONGEST_SECONDS)
        self._waiting += 1
        return self._next[peer] - now

    def end(self) -> None:
        """Note that an answer waits no longer."""
        self._waiting -= 1

    def _forget(self, now: float) -> None:
        if len(self._next) >= _MAX_PEERS:
            self._next = {peer: due for peer, due in self._next.items() if due > now}
        while len(self._next) >= _MAX_PEERS:
            del self._next[min(self._next, key=self._next.__getitem__)]


def peer_of(address: str) -> str:
    """Return who counts as one peer: an IPv4 address, or an IPv6 network of 64 bits, which one host has."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:  # noqa: PLR2004 - IPv4
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK_BITS), strict=False))
