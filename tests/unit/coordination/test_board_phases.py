"""The phases of a board: everybody spoke, or the deadline passed."""

from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.boards.phases import BoardPhase, BoardTurn, Terms, phase_of, progress
from jobwire.coordination.boards.resolution import Statement

MEMBERS = frozenset({"a", "b", "c"})
TERMS = Terms(MEMBERS, 0, 10.0)
ORDER = list(BoardPhase)


def everybody(turn: BoardTurn, at_ms: int) -> list[Statement]:
    """Return that turn of all members."""
    return [Statement(member, turn, at_ms) for member in sorted(MEMBERS)]


def test_a_board_on_which_all_speak() -> None:
    """Each phase ends with its last member, and the discussion after three rounds."""
    said = everybody(BoardTurn.ASSESS, 1)
    assert progress(TERMS, said[:2], 5).missing == {"c"}
    assert progress(TERMS, said, 5)[:2] == (BoardPhase.DISCUSSING, 1)
    said += everybody(BoardTurn.DISCUSS, 2)
    assert progress(TERMS, said, 5)[:2] == (BoardPhase.DISCUSSING, 2)
    said += everybody(BoardTurn.PASS, 3) + everybody(BoardTurn.PASS, 3)
    assert progress(TERMS, said, 5)[:2] == (BoardPhase.VOTING, 0)
    said += everybody(BoardTurn.VOTE, 4)
    assert progress(TERMS, said, 5).phase is BoardPhase.RESOLVING
    assert progress(TERMS, said, 10**9).absent == {}


def test_a_board_on_which_nobody_speaks() -> None:
    """Each phase ends at its own deadline, and says who was absent."""
    phases = [progress(TERMS, [], now).phase for now in (9_999, 10_000, 20_000, 30_000)]
    assert phases == [BoardPhase.ASSESSING, BoardPhase.DISCUSSING, BoardPhase.VOTING, BoardPhase.RESOLVING]
    absent = progress(TERMS, [], 30_000).absent
    assert absent == dict.fromkeys((BoardPhase.ASSESSING, BoardPhase.DISCUSSING, BoardPhase.VOTING), MEMBERS)


def test_a_quick_review() -> None:
    """A quick board has its assessments and nothing else."""
    assert (
        progress(TERMS._replace(quick=True), everybody(BoardTurn.ASSESS, 1), 2).phase is BoardPhase.RESOLVING
    )


def test_a_revision_ends_no_round_twice() -> None:
    """Who speaks twice counts once."""
    said = [
        Statement("a", BoardTurn.ASSESS, 1),
        Statement("a", BoardTurn.ASSESS, 2),
        Statement("b", BoardTurn.ASSESS, 3),
    ]
    assert progress(TERMS, said, 5).missing == {"c"}


TURNS = st.builds(Statement, st.sampled_from("abcd"), st.sampled_from(BoardTurn), st.integers(0, 50_000))


@given(st.lists(TURNS, max_size=20).map(lambda said: sorted(said, key=lambda one: one.at_ms)))
def test_phases_only_go_on(said: list[Statement]) -> None:
    """However members speak, in and out of turn, a board never goes back, and ends by its deadlines."""
    states = [progress(TERMS, said[:n], said[n - 1].at_ms) for n in range(1, len(said) + 1)]
    places = [(ORDER.index(state.phase), state.round) for state in states]
    assert places == sorted(places)
    assert all(state.missing <= MEMBERS for state in states)
    assert progress(TERMS, said, 10**9).phase is BoardPhase.RESOLVING
    assert {phase_of(turn) for turn in BoardTurn} == set(ORDER[:3])
