"""The policy of the user's own settings: `[agents.policy]`, which no home may write."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from jobwire.hooks.policy import ALLOW, ASK, DENY, VERDICTS, Policy, rule
from jobwire.storage.settings_file import read_own_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLE = "agents.policy"


def own_policy(environ: Mapping[str, str]) -> Policy:
    """Return the user's policy; raises ConfigError where the file cannot be used."""
    table = read_own_settings(environ).tables.get(TABLE, {})
    rules = tuple(
        rule(verdict, text) for verdict in VERDICTS for text in cast("list[str]", table.get(verdict, []))
    )
    default = str(table.get("default", ASK))
    own = Policy(rules, default if default in {ALLOW, DENY} else ASK, str(table.get("turn_end", ASK)))
    retries, seconds = table.get("retries", own.retries), table.get("retry_seconds", own.retry_seconds)
    return own._replace(retries=cast("int", retries), retry_seconds=cast("float", seconds))
