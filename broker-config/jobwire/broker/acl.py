"""Mosquitto's acl_file: parsed once, asked purely.

The grammar is mosquitto.conf(5), "acl_file": `user NAME` opens the section of a user, `topic` lines
belong to the section above them (before any `user` line: to anonymous clients), `pattern` lines hold for
every named client, with %u and %c standing for its user name and client id. A deny line wins over any
grant. Mosquitto 2.0 lets every subscription through and checks each delivery; here a subscription must
also be covered as a whole by one readable line, so that a refusal is seen in the SUBACK.
"""

import enum
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jobwire.broker.files import read_text
from jobwire.core.errors import ConfigError
from jobwire.core.topics import filter_matches

_SUBSTITUTES = ("%u", "%c")
# What Mosquitto takes off a line's ends. Of more that Unicode calls blank, or a line's end, it knows nothing.
_BLANKS = " \t\r\v\f"


class Right(enum.Enum):
    """What a client wants to do with a topic."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    RECEIVE = "receive"


class AccessRule(NamedTuple):
    """One `topic` or `pattern` line."""

    line: int
    topic: str
    read: bool
    write: bool

    @property
    def deny(self) -> bool:
        """Tell whether the line takes rights away."""
        return not (self.read or self.write)

    def applies_to(self, user: str | None, client_id: str) -> "AccessRule | None":
        """Return this rule with %u and %c filled in, or None if they cannot be.

        A name with `/`, `+` or `#` could widen a pattern to other topics, so it matches none.
        """
        topic = self.topic
        for mark, value in zip(_SUBSTITUTES, (user, client_id), strict=True):
            if mark not in topic:
                continue
            if not value or any(sign in value for sign in "/+#"):
                return None
            levels = (value if level == mark else level for level in topic.split("/"))
            topic = "/".join(levels)
        return self._replace(topic=topic)


_ACCESS = {
    "read": (True, False),
    "write": (False, True),
    "readwrite": (True, True),
    "deny": (False, False),
}


class AccessList(NamedTuple):
    """The rights of one acl_file; `allowed` is pure."""

    users: dict[str, tuple[AccessRule, ...]]
    anonymous: tuple[AccessRule, ...]
    patterns: tuple[AccessRule, ...]

    @classmethod
    def load(cls, path: Path) -> "AccessList":
        """Read `path`; raises ConfigError naming the line that cannot be used."""
        text = read_text(path, "access list", hint="jobwire broker up or render creates it")
        return parse_access_list(text.split("\n"), str(path))

    def allowed(self, user: str | None, client_id: str, action: Right, topic: str) -> bool:
        """Tell whether the client may publish to or receive from `topic`, or subscribe to it as a filter."""
        rules = self._rules(user, client_id)
        if action is Right.PUBLISH:
            return _grants(rules, topic, write=True)
        if action is Right.RECEIVE:
            return _grants(rules, topic, write=False)
        return _may_subscribe(rules, topic)

    def _rules(self, user: str | None, client_id: str) -> list[AccessRule]:
        if user is None:
            return list(self.anonymous)
        patterns = (rule.applies_to(user, client_id) for rule in self.patterns)
        return [*self.users.get(user, ()), *(rule for rule in patterns if rule is not None)]


def is_topic_filter(text: str) -> bool:
    """Tell whether `text` is a well-formed topic filter (MQTT 3.1.1, 4.7.1 and 4.7.3)."""
    if not text or "\0" in text:
        return False
    levels = text.split("/")
    return (
        all(level in {"#", "+"} or not ("#" in level or "+" in level) for level in levels)
        and "#" not in levels[:-1]
    )


def parse_access_list(lines: Iterable[str], source: str) -> AccessList:
    """Return the rights that an acl_file's lines give; ConfigError names `source` and the line."""
    users: dict[str, list[AccessRule]] = {}
    anonymous: list[AccessRule] = []
    patterns: list[AccessRule] = []
    section = anonymous
    for number, raw in enumerate(lines, start=1):
        keyword, _, rest = raw.strip(_BLANKS).partition(" ")
        if not keyword or keyword.startswith("#"):
            continue
        try:
            if keyword == "user":
                section = users.setdefault(_user_name(rest.strip(_BLANKS)), [])
            else:
                rule = _rule(number, keyword, rest.strip(_BLANKS))
                (patterns if keyword == "pattern" else section).append(rule)
        except ValueError as error:
            raise ConfigError(
                f"{source}, line {number}: {error}",
                hint="lines read: user NAME | topic [read|write|readwrite|deny] TOPIC | pattern ...",
                path=source,
                line=number,
            ) from error
    return AccessList(
        users={name: tuple(rules) for name, rules in users.items()},
        anonymous=tuple(anonymous),
        patterns=tuple(patterns),
    )


def _user_name(text: str) -> str:
    if not text:
        raise ValueError("a user line without a name")
    return text


def _rule(number: int, keyword: str, rest: str) -> AccessRule:
    if keyword not in {"topic", "pattern"}:
        raise ValueError(f"unknown keyword {keyword!r}")
    first, _, remainder = rest.partition(" ")
    # "topic foo" without an access word means readwrite (mosquitto.conf(5)).
    access, topic = (first, remainder.strip()) if remainder.strip() else ("readwrite", first)
    if access not in _ACCESS:
        raise ValueError(f"unknown access {access!r}")
    if not is_topic_filter(topic):
        raise ValueError(f"not a topic filter: {topic!r}")
    if keyword == "pattern":
        _check_pattern(topic)
    return AccessRule(number, topic, *_ACCESS[access])


def _check_pattern(topic: str) -> None:
    levels = topic.split("/")
    if any(mark in level and level != mark for mark in _SUBSTITUTES for level in levels):
        raise ValueError("%u and %c must be the only text of their level")
    if not any(mark in levels for mark in _SUBSTITUTES):
        raise ValueError("a pattern without %u or %c as a whole level would hold for everybody")


def _grants(rules: Iterable[AccessRule], topic: str, *, write: bool) -> bool:
    matching = (rule for rule in rules if filter_matches(rule.topic, topic))
    # As in Mosquitto: a topic in $... needs a rule that says $... itself.
    special = topic.startswith("$")
    return _allows((rule for rule in matching if rule.topic.startswith("$") or not special), write=write)


def _may_subscribe(rules: Iterable[AccessRule], topic_filter: str) -> bool:
    # A narrower deny takes single messages out at delivery; one that covers all refuses the whole.
    covering = (rule for rule in rules if filter_matches(rule.topic, topic_filter))
    return is_topic_filter(topic_filter) and _allows(covering, write=False)


def _allows(rules: Iterable[AccessRule], *, write: bool) -> bool:
    granted = False
    for rule in rules:
        if rule.deny:
            return False
        granted = granted or (rule.write if write else rule.read)
    return granted
