"""A board's resolution: what counts, what is kept, and that nothing can be changed afterwards."""

from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.boards.phases import BoardTurn, Terms, progress
from jobwire.coordination.boards.resolution import Statement, page, resolve
from jobwire.core.envelope import open_sealed, seal

MEMBERS = ("CA", "CPO", "CSO")
TERMS = Terms(frozenset(MEMBERS), 0, 60.0, board_id="board-1", checkpoint="PRE_LAUNCH", proposal="Ship it.\n")


def vote(number: int, member: str, verdict: str, *conditions: str, confidence: float = 0.5) -> Statement:
    """Return a vote."""
    content = {"final_verdict": verdict, "confidence": confidence, "conditions": list(conditions)}
    return Statement(member, BoardTurn.VOTE, number, content, number)


def assess(number: int, member: str, verdict: str, *concerns: str) -> Statement:
    """Return an assessment."""
    return Statement(
        member, BoardTurn.ASSESS, number, {"verdict": verdict, "concerns": list(concerns)}, number
    )


def resolution(*said: Statement, terms: Terms = TERMS) -> dict[str, object]:
    """Return what this board decided."""
    return resolve(terms, said, progress(terms, said, 10**9), "2026-01-01T00:00:00.000Z")


def test_what_counts() -> None:
    """The last vote of a member counts; conditions and dissent carry names; who is silent abstains."""
    found = resolution(
        assess(1, "CSO", "CONCERNS", "no rollback"),
        vote(2, "CA", "REJECT"),
        vote(3, "CA", "APPROVE", "with a canary"),
        vote(4, "CSO", "REJECT"),
    )
    assert found["vote_summary"] == {"CA": "APPROVE", "CPO": "ABSTAIN", "CSO": "REJECT"}
    assert (found["verdict"], found["abstentions"]) == ("ESCALATE", ["CPO"])
    assert found["conditions"] == ["with a canary (CA)"]
    found = resolution(
        assess(1, "CSO", "CONCERNS", "no rollback"),
        vote(2, "CA", "APPROVE"),
        vote(3, "CPO", "APPROVE"),
        vote(4, "CSO", "REJECT"),
    )
    assert found["verdict"] == "APPROVED_WITH_REVIEW"
    assert found["dissent"] == ["REJECT: no rollback (CSO)"]
    text = page(TERMS, found, [])
    assert text.startswith("# APPROVED_WITH_REVIEW: PRE_LAUNCH\n")
    assert "- REJECT: no rollback (CSO)\n" in text


def test_a_quick_review() -> None:
    """A quick review decides by its assessments, and says whether they are a consensus."""
    said = [
        assess(1, "CA", "APPROVE"),
        assess(2, "CPO", "CONCERNS", "late"),
        assess(3, "CSO", "REJECT", "leaks"),
    ]
    found = resolution(*said, terms=TERMS._replace(quick=True))
    assert (found["verdict"], found["consensus"]) == ("APPROVED", False)
    assert found["dissent"] == ["REJECT: leaks (CSO)"]


@given(st.data())
def test_nothing_can_be_changed_afterwards(data: st.DataObject) -> None:
    """A sealed resolution is believed only as it was, and a statement that was changed has another digest."""
    said = [vote(n, member, "APPROVE") for n, member in enumerate(MEMBERS, 1)]
    found = resolution(*said)
    sealed = seal(found, "key")
    envelope = open_sealed(sealed, "key", about={"board_id": "board-1"})
    assert envelope is not None
    assert envelope.body == found
    assert open_sealed(seal({**found, "verdict": "REJECTED"}, "other"), "key", about={}) is None
    one = data.draw(st.sampled_from(said))
    rejected = one._replace(content={"final_verdict": "REJECT"})
    changed = data.draw(st.sampled_from([one._replace(member="XX"), one._replace(at_ms=99), rejected]))
    inputs = found["inputs"]
    assert isinstance(inputs, dict)
    assert changed.digest not in inputs.values()
