"""File locks: conflicts, order, and no starvation."""

from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.locks.queue import HeldTarget, LockMode, LockTable, WantedTargets, and_above

EXCLUSIVE, SHARED = LockMode.EXCLUSIVE, LockMode.SHARED
TARGETS = st.sampled_from([".", "a", "a/b", "a/b/c", "ab", "name:a", "name:a/b", "./name:a"])
MODES = st.sampled_from(LockMode)
OWNERS = st.sampled_from("xyz")
HOLDS = st.lists(st.builds(HeldTarget, OWNERS, TARGETS, MODES), max_size=4)
WANTED = st.builds(WantedTargets, OWNERS, st.lists(TARGETS, min_size=1, max_size=2).map(tuple), MODES)


def overlap(one: str, other: str) -> bool:
    """Tell whether two targets have a file in common, by their texts."""
    if one == other:
        return True
    if one.startswith("name:") or other.startswith("name:"):
        return False
    parts = [[] if target == "." else target.removeprefix("./").split("/") for target in (one, other)]
    short, long = sorted(parts, key=len)
    return long[: len(short)] == short


@given(TARGETS, TARGETS)
def test_what_overlaps(one: str, other: str) -> None:
    """A folder covers what is below it, a name itself alone; the table finds that and nothing else."""
    assert (one in and_above(other) or other in and_above(one)) == overlap(one, other)
    table = LockTable([HeldTarget("x", one, EXCLUSIVE)])
    assert bool(table.holders(WantedTargets("y", (other,), SHARED))) == overlap(one, other)


def test_readers_do_not_starve_a_writer() -> None:
    """Who wants to read after a writer began to wait waits behind it."""
    writer = WantedTargets("y", ("a",), EXCLUSIVE, 1)
    table = LockTable([HeldTarget("x", "a", SHARED)], [writer])
    assert table.blockers(writer) == ["x"]
    assert table.blockers(WantedTargets("z", ("a/b",), SHARED)) == ["y"]
    assert table.blockers(WantedTargets("z", ("b",), SHARED)) == []
    assert (table.waits_for("y"), table.waits_for("z"), table.is_blocked(writer)) == (["x"], [], True)


def test_what_one_holds_one_need_not_wait_for() -> None:
    """The holder of a folder gets a file below it, and a waiter that waits for him is not before him."""
    waiter = WantedTargets("y", ("a/b",), EXCLUSIVE, 1)
    assert (
        LockTable([HeldTarget("x", "a", EXCLUSIVE)], [waiter]).blockers(
            WantedTargets("x", ("a/b",), EXCLUSIVE)
        )
        == []
    )
    upgrade = WantedTargets("x", ("a",), EXCLUSIVE)
    assert LockTable([HeldTarget("x", "a", SHARED)], [waiter]).blockers(upgrade) == []
    two = [HeldTarget("x", "a", SHARED), HeldTarget("z", "a", SHARED)]
    assert LockTable(two, [waiter]).blockers(upgrade) == ["z"]


def numbered(waits: list[WantedTargets]) -> list[WantedTargets]:
    """Return the requests in the order in which they came."""
    return [wanted._replace(number=number) for number, wanted in enumerate(waits, 1)]


@given(HOLDS, st.lists(WANTED, max_size=3).map(numbered), WANTED)
def test_what_is_granted_conflicts_with_nobody(
    holds: list[HeldTarget], waits: list[WantedTargets], wanted: WantedTargets
) -> None:
    """Whatever is granted, no two owners hold overlapping targets anew unless both share."""
    if LockTable(holds, waits).blockers(wanted):
        return
    own = [hold for hold in holds if hold.owner == wanted.owner]
    for target in wanted.targets:
        held = any(hold.target in and_above(target) and hold.mode in {wanted.mode, EXCLUSIVE} for hold in own)
        for hold in holds:
            if hold.owner != wanted.owner and overlap(target, hold.target):
                assert held or hold.mode is wanted.mode is SHARED


@given(HOLDS, st.lists(WANTED, max_size=5).map(numbered), st.permutations("xyz"))
def test_a_search_leaves_nobody_out(
    holds: list[HeldTarget], waits: list[WantedTargets], order: list[str]
) -> None:
    """Whoever was met is not named again; everybody else is, whatever was dropped before."""
    table, plain = LockTable(holds, waits), LockTable(holds, waits)
    gone: set[str] = set()
    for owner in order:
        whole = {one for wanted in waits if wanted.owner == owner for one in plain.blockers(wanted)}
        assert whole - gone <= set(table.waits_for(owner, gone)) <= whole
        gone.add(owner)


@given(st.lists(WANTED, min_size=1, max_size=4).map(numbered))
def test_the_queue_moves(waits: list[WantedTargets]) -> None:
    """Where nobody holds anything, the first in the queue waits for nobody."""
    assert LockTable([], waits).blockers(waits[0]) == []
