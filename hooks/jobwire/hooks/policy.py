"""What the user allows or denies an agent without being asked: rules by tool and pattern.

They stand in the user's own settings, `[agents.policy]`, which no home may write.

`Bash(git status*)` is a tool and a pattern of what it is given, `Edit` a tool whatever it is given, `*` all;
patterns are those of a shell (* ? [abc]), and must fit the whole. A denial goes before a question, a question
before an allowance; what no rule names is asked.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, cast

from jobwire.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

ALLOW, DENY, ASK = "allow", "deny", "ask"
VERDICTS = (DENY, ASK, ALLOW)
MAX_RULE = 1024
_RULE = re.compile(r"([A-Za-z0-9_.*?\[\]-]{1,100})(?:\((.*)\))?", re.DOTALL)
# A command that is more than one: an allowance of its first word says nothing about the rest.
_PARTS = re.compile(r"[;&|\n\r()`]+")
_MORE = re.compile(r"[;&|<>`\n\r]|\$\(|\$\{")


class PolicyRule(NamedTuple):
    """One rule, as it was written, and what it fits."""

    verdict: str
    text: str
    tool: str
    pattern: str | None


class Ruled(NamedTuple):
    """What the rules say; `rule` is the one that says it, "" where none does."""

    verdict: str
    rule: str = ""


class Policy(NamedTuple):
    """The user's rules, and what holds where none of them does."""

    rules: tuple[PolicyRule, ...] = ()
    default: str = ASK
    # Where a turn ends without a verdict: "ask" a person, or take it as "complete".
    turn_end: str = ASK
    # After an error of the model's service: how often the agent is told to go on, and after how long first.
    retries: int = 3
    retry_seconds: float = 30.0

    def judge(self, tool: str, given: str) -> Ruled:
        """Return what the rules say about a tool that is given this."""
        fitting = [rule for rule in self.rules if _fits(rule, tool, given)]
        for verdict in VERDICTS:
            for rule in fitting:
                if rule.verdict == verdict:
                    return Ruled(verdict, rule.text)
        return Ruled(self.default)

    def denies(self, tool: str, given: str) -> Ruled | None:
        """Return the denial, where there is one."""
        ruled = self.judge(tool, given) if any(rule.verdict == DENY for rule in self.rules) else None
        return ruled if ruled is not None and ruled.verdict == DENY and ruled.rule else None


def own_policy(environ: Mapping[str, str]) -> Policy:
    """Return the user's policy; raises ConfigError where the file cannot be used."""
    from jobwire.storage.settings_file import read_own_settings  # noqa: PLC0415 - rules are judged without it

    table = read_own_settings(environ).tables.get("agents.policy", {})
    rules = tuple(
        rule(verdict, text) for verdict in VERDICTS for text in cast("list[str]", table.get(verdict, []))
    )
    default = str(table.get("default", ASK))
    own = Policy(rules, default if default in {ALLOW, DENY} else ASK, str(table.get("turn_end", ASK)))
    retries, seconds = table.get("retries", own.retries), table.get("retry_seconds", own.retry_seconds)
    return own._replace(retries=cast("int", retries), retry_seconds=cast("float", seconds))


def rule(verdict: str, text: str) -> PolicyRule:
    """Return the rule that `text` says; raises InvalidInputError for none."""
    found = _RULE.fullmatch(text)
    if found is None or len(text) > MAX_RULE:
        raise InvalidInputError(
            f"not a rule: {text[:80]!r}", hint='a tool, or a tool and a pattern: "Edit", "Bash(git status*)"'
        )
    tool, pattern = found.groups()
    return PolicyRule(verdict, text, tool, pattern)


def _fits(one: PolicyRule, tool: str, given: str) -> bool:
    if not fnmatchcase(tool, one.tool):
        return False
    if one.pattern is None:
        return True
    if one.verdict == ALLOW:
        # What is more than one command is allowed word for word only.
        plain = one.text.endswith(f"({given})")
        return (plain or not _MORE.search(given)) and fnmatchcase(given, one.pattern)
    parts = [given, *(part.strip() for part in _PARTS.split(given))]
    return any(fnmatchcase(part, one.pattern) for part in parts)
