"""The one lease rule: granted, extended by what was granted, renewed, lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core import lease
from jobwire.core.clock import utc_timestamp
from jobwire.core.errors import ConflictError, InvalidInputError
from jobwire.core.lease import Lease, LeaseGrant

NOW = 1_767_323_045.0


@given(st.floats(0.001, 3e9), st.floats(0, 1e6))
def test_a_sign_of_life_extends_by_what_was_granted(seconds: float, later: float) -> None:
    """An extended lease ends the granted seconds after the sign of life, and never sooner than before."""
    held = lease.grant(LeaseGrant("me", seconds), NOW)
    after = lease.extend(held, NOW + later)
    assert after == Lease("me", utc_timestamp(NOW + later + seconds), seconds)
    assert lease.extend(after, NOW) == after


def test_the_holder_may_take_it_again() -> None:
    """Taking a lease that one holds grants it anew, for what is asked for now."""
    held = lease.grant(LeaseGrant("me", 60), NOW)
    assert lease.take(held, LeaseGrant("me", 30), NOW + 1) == lease.grant(LeaseGrant("me", 30), NOW + 1)


def test_others_learn_the_holder_and_the_end() -> None:
    """While a lease is held, others get a conflict that names its holder and its end."""
    held = lease.grant(LeaseGrant("me", 60), NOW)
    with pytest.raises(ConflictError, match="me") as caught:
        lease.take(held, LeaseGrant("you", 60), NOW + 59)
    assert caught.value.facts == {"holder": "me", "until": held.expires_at}


def test_a_lease_that_ran_out_is_free() -> None:
    """At its end, not before, a lease has expired and anybody may take it."""
    held = lease.grant(LeaseGrant("me", 60), NOW)
    assert not lease.expired(held, NOW + 59.9)
    assert lease.expired(held, NOW + 60)
    assert lease.take(held, LeaseGrant("you", 5), NOW + 60).owner == "you"


def test_only_the_holder_holds() -> None:
    """A lease is held by the owner it was granted to and by nobody else; no lease by nobody."""
    held = lease.grant(LeaseGrant("me"), NOW)
    assert lease.holds(held, "me")
    assert not lease.holds(held, "you")
    assert not lease.holds(None, "me")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e12, 1e300, True])
def test_no_lease_without_a_sound_length(seconds: float) -> None:
    """Seconds that no record could hold are refused, by name."""
    with pytest.raises(InvalidInputError, match="lease"):
        lease.grant(LeaseGrant("me", seconds), NOW)


@pytest.mark.parametrize("owner", ["", "a\nb", "x" * 129, "\udcff"])
def test_no_lease_without_a_sound_owner(owner: str) -> None:
    """An owner is one printable line of at most 128 characters."""
    with pytest.raises(InvalidInputError, match="owner"):
        lease.grant(LeaseGrant(owner), NOW)
