"""How long a wrong token waits for its answer."""

import pytest

from jobwire.dashboard.login_throttle import LONGEST_SECONDS, SPACING_SECONDS, LoginThrottle, peer_of


def test_wrong_answers_of_a_peer_come_one_after_the_other() -> None:
    """Each waits longer than the one before, up to what a stopping server waits."""
    throttle = LoginThrottle()
    waits = [throttle.begin("a", 100.0) for _ in range(40)]
    assert waits[:3] == [SPACING_SECONDS, 2 * SPACING_SECONDS, 3 * SPACING_SECONDS]
    assert waits[-1] == LONGEST_SECONDS


def test_peers_do_not_wait_for_each_other() -> None:
    """Somebody else's failures make nobody's answer later."""
    throttle = LoginThrottle()
    for _ in range(40):
        throttle.begin("a", 100.0)
    assert throttle.begin("b", 100.0) == SPACING_SECONDS


def test_wait_is_forgotten_with_time() -> None:
    """Who was wrong long ago begins anew."""
    throttle = LoginThrottle()
    for _ in range(40):
        throttle.begin("a", 100.0)
    assert throttle.begin("a", 100.0 + LONGEST_SECONDS) == SPACING_SECONDS


def test_waiting_answers_are_bounded() -> None:
    """Beyond 256 that wait, all peers together, a wrong token is refused at once; who ends gives a place."""
    throttle = LoginThrottle()
    waits = [throttle.begin(str(number), 100.0) for number in range(300)]
    assert waits.count(None) == 300 - 256
    throttle.end()
    assert throttle.begin("one more", 100.0) == SPACING_SECONDS


def test_memory_is_bounded() -> None:
    """A million addresses are not remembered, whether their waits are over or not."""
    throttle = LoginThrottle()
    for number in range(1500):
        throttle.begin(str(number), 100.0)
        throttle.end()
    assert len(vars(throttle)["_next"]) <= 1024


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a socket", "a socket"),
    ],
)
def test_peer(address: str, peer: str) -> None:
    """An IPv4 address is a peer, and so is an IPv6 network that one host commonly has to itself."""
    assert peer_of(address) == peer
