"""What a board decided, as an object that can be sealed and a page that is good to read. Pure."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from jobwire.coordination.boards.phases import BoardTurn, Progress, Terms
from jobwire.coordination.boards.tally import Assessment, Decision, Vote, decide, decide_quickly
from jobwire.core.canonical import canonical_json
from jobwire.core.clock import utc_timestamp

RESOLUTION_VERSION = 1


class Statement(NamedTuple):
    """What a member said at its turn, its content as JSON; `number` is that of its entry in the store."""

    member: str
    turn: BoardTurn
    at_ms: int
    content: Mapping[str, object] = {}
    number: int = 0

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all of it, in hex."""
        body = [self.number, self.member, self.turn.value, self.at_ms, dict(self.content)]
        return sha256(canonical_json(body)).hexdigest()

    def to_json(self) -> dict[str, object]:
        """Return it as commands print it."""
        return {
            "number": self.number,
            "member": self.member,
            "turn": self.turn.value,
            "at": utc_timestamp(self.at_ms / 1000),
            "content": dict(self.content),
        }


def resolve(terms: Terms, said: Sequence[Statement], state: Progress, resolved_at: str) -> dict[str, object]:
    """Return the resolution of a board whose last phase is over, with the digests of all that it rests on.

    Of revisions the last one of a member in its phase counts. `dissent` are the words of those who were
    against what was decided, `conditions` those of the votes for it, each with its member's name.
    """
    last = {(one.member, one.turn): one for one in said}
    members = sorted(terms.members)
    turn = BoardTurn.ASSESS if terms.quick else BoardTurn.VOTE
    votes = {member: _choice(last.get((member, turn)), quick=terms.quick) for member in members}
    decision, consensus = _decide(terms, list(votes.values()))
    against = {"REJECT"} if decision is not Decision.REJECTED else {"APPROVE", "CONCERNS"}
    cast = {member: last[member, turn] for member in members if (member, turn) in last}
    return {
        "schema_version": RESOLUTION_VERSION,
        "board_id": terms.board_id,
        "checkpoint": terms.checkpoint,
        "quick": terms.quick,
        "verdict": decision.value,
        **({"consensus": consensus} if terms.quick else {}),
        "members": members,
        "vote_summary": votes,
        "conditions": [
            f"{text} ({member})"
            for member, one in cast.items()
            if votes[member] != "REJECT"
            for text in _texts(one, "conditions")
        ],
        "dissent": [
            f"{votes[member]}: {_reason(last, member)} ({member})"
            for member in members
            if decision is not Decision.ESCALATE and votes[member] in against
        ],
        "abstentions": [member for member in members if votes[member] == Vote.ABSTAIN.value],
        "absent": {phase.value: sorted(names) for phase, names in state.absent.items()},
        "inputs": {
            "proposal": sha256(terms.proposal.encode()).hexdigest(),
            **{str(one.number): one.digest for one in said},
        },
        "resolved_at": resolved_at,
    }


def page(terms: Terms, resolution: Mapping[str, object], said: Sequence[Statement]) -> str:
    """Return the resolution as Markdown: what was decided first, then why."""
    votes = resolution["vote_summary"]
    assert isinstance(votes, dict)  # noqa: S101 - narrows the type
    confidence = {one.member: one.content.get("confidence") for one in said if one.turn is BoardTurn.VOTE}
    lines = [
        f"# {resolution['verdict']}: {terms.checkpoint}",
        "",
        f"Board `{terms.board_id}`, resolved {resolution['resolved_at']}.",
        "",
        "| member | vote | confidence |",
        "|---|---|---|",
        *(f"| {member} | {vote} | {_number(confidence.get(member))} |" for member, vote in votes.items()),
        "",
    ]
    for title, key in (("Conditions", "conditions"), ("Dissent", "dissent"), ("Abstained", "abstentions")):
        found = resolution[key]
        if isinstance(found, list) and found:
            lines += [f"## {title}", "", *(f"- {_line(text)}" for text in found), ""]
    talk = [one for one in said if one.turn is BoardTurn.DISCUSS]
    if talk:
        lines += ["## Discussion", "", *(f"- {_said(one)}" for one in talk), ""]
    return "\n".join([*lines, "## Proposal", "", terms.proposal.strip(), ""])


def _decide(terms: Terms, votes: Sequence[str]) -> tuple[Decision, bool]:
    members = len(terms.members)
    if terms.quick:
        said = [Assessment(vote) for vote in votes if vote != Vote.ABSTAIN.value]
        return decide_quickly(said, members=members)
    return decide([Vote(vote) for vote in votes], members=members, quorum=terms.quorum), False


def _choice(one: Statement | None, *, quick: bool) -> str:
    if one is None:
        return Vote.ABSTAIN.value
    return str(one.content["verdict" if quick else "final_verdict"])


def _reason(last: Mapping[tuple[str, BoardTurn], Statement], member: str) -> str:
    vote, assessment = last.get((member, BoardTurn.VOTE)), last.get((member, BoardTurn.ASSESS))
    words = [
        *(_texts(vote, "conditions") if vote else []),
        *(_texts(assessment, "concerns") if assessment else []),
    ]
    return "; ".join(dict.fromkeys(words)) or "no reason given"


def _texts(one: Statement | None, key: str) -> list[str]:
    found = one.content.get(key) if one is not None else None
    return [str(text) for text in found] if isinstance(found, list) else []


def _said(one: Statement) -> str:
    changed = ", changes its verdict" if one.content.get("changes_my_verdict") else ""
    return f"{one.member} to {one.content.get('to')} ({one.content.get('type')}{changed}): " + _line(
        one.content.get("message")
    )


def _line(text: object) -> str:
    return " ".join(str(text).split())


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else ""
