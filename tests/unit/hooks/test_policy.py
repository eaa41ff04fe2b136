"""The user's rules: which fit, and which goes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import InvalidInputError
from jobwire.hooks.policy import ALLOW, ASK, DENY, Policy, rule
from jobwire.hooks.signs import Said, Sign
from jobwire.hooks.turn_end import AfterTurn, judge_end, verdict_in


def policy(*rules: tuple[str, str], default: str = ASK, turn_end: str = ASK) -> Policy:
    """Return a policy of these rules."""
    return Policy(tuple(rule(*one) for one in rules), default, turn_end)


def test_a_denial_goes_first_and_what_no_rule_names_is_asked() -> None:
    """Deny before ask before allow; the default else."""
    held = policy((ALLOW, "Bash(git *)"), (DENY, "Bash(git push*)"), (ASK, "Bash(git reset*)"))
    assert held.judge("Bash", "git status").verdict == ALLOW
    assert held.judge("Bash", "git push origin") == (DENY, "Bash(git push*)")
    assert held.judge("Bash", "git reset --hard").verdict == ASK
    assert held.judge("Bash", "make").verdict == ASK
    assert held.judge("Edit", "a.py").verdict == ASK
    assert policy(default=DENY).judge("Edit", "a.py") == (DENY, "")


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf x",
        "git status && rm x",
        "git log | sh",
        "git log $(rm x)",
        "git log `rm x`",
        "git a\nrm x",
        "git log > f",
    ],
)
def test_an_allowed_beginning_allows_no_second_command(command: str) -> None:
    """A pattern with a star says nothing about what is strung behind."""
    assert policy((ALLOW, "Bash(git *)")).judge("Bash", command).verdict == ASK
    assert policy((ALLOW, f"Bash({command})")).judge("Bash", command).verdict in {ALLOW, ASK}


def test_a_denied_command_is_denied_behind_another_one() -> None:
    """A denial looks at each command of a line."""
    held = policy((DENY, "Bash(rm *)"))
    for command in ("rm x", "cd a && rm x", "cd a; rm x", "(rm x)", "echo `rm x`"):
        assert held.judge("Bash", command).verdict == DENY, command


@pytest.mark.parametrize("text", ["", "(x)", "Bash(x", "a b", "x" * 2000])
def test_what_is_no_rule_is_refused(text: str) -> None:
    """A rule that cannot be read never holds silently."""
    with pytest.raises(InvalidInputError):
        rule(ALLOW, text)


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_denial_of_all_fits_everything(tool: str, given_: str) -> None:
    """`*` names each tool whatever it is given."""
    assert policy((DENY, "*"), (ALLOW, "*")).judge(tool, given_).verdict == DENY


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("All done.\n\ncompleted: the test passes", ("completed", "the test passes")),
        ("**Error: no compiler here**", ("error", "no compiler here")),
        ("`completed:` x\nThanks!", ("completed", "x")),
        ("completed: \n", ("completed", "")),
        ("I completed: nothing", None),
        ("completed: x\n1\n2\n3\n4\n5\n6", None),
        ("", None),
    ],
)
def test_a_verdict_is_a_line_of_its_own(text: str, found: tuple[str, str] | None) -> None:
    """Among the last lines, with what people write around it."""
    assert verdict_in(text) == found


def test_what_follows_from_the_end_of_a_turn() -> None:
    """Busy, asked once, its verdict, then the policy or a person."""
    ended = Said(Sign.TURN_END, "Stop", text="completed: x")
    assert judge_end(ended._replace(background=2), policy()).ending is AfterTurn.BUSY
    assert judge_end(ended, policy()).ending is AfterTurn.ASKED
    again = ended._replace(asked_again=True)
    assert judge_end(again, policy()) == (AfterTurn.VERDICT, "completed", "x")
    silent = again._replace(text="one\nlast words\n")
    assert judge_end(silent, policy()).ending is AfterTurn.PERSON
    assert judge_end(silent, policy(turn_end="complete")) == (AfterTurn.POLICY, "completed", "last words")
