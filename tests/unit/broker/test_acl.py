"""Mosquitto's acl_file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.broker.acl import AccessList, Right, is_topic_filter, parse_access_list
from jobwire.broker.home import rendered_access_list
from jobwire.core.errors import ConfigError
from jobwire.core.topics import filter_matches

ROOT = "python/mqtt/jobs"
A, B = "aaaaaaaa", "bbbbbbbb"


def packaged() -> AccessList:
    """Return the access list that jobwire installs."""
    return parse_access_list(rendered_access_list(ROOT).splitlines(), "acl")


RIGHTS: list[tuple[str | None, Right, str, bool]] = [
    ("hermes", Right.SUBSCRIBE, f"{ROOT}/+/events", True),
    ("hermes", Right.SUBSCRIBE, f"{ROOT}/{A}/events", True),
    ("hermes", Right.SUBSCRIBE, f"{ROOT}/{A}/state", True),
    ("hermes", Right.SUBSCRIBE, f"{ROOT}/#", False),
    ("hermes", Right.SUBSCRIBE, "#", False),
    ("hermes", Right.SUBSCRIBE, "$SYS/#", False),
    ("hermes", Right.RECEIVE, f"{ROOT}/{A}/events", True),
    ("hermes", Right.PUBLISH, f"{ROOT}/{A}/events", False),
    ("claude-worker", Right.PUBLISH, f"{ROOT}/{A}/events", True),
    ("claude-worker", Right.PUBLISH, f"{ROOT}/{A}/state", False),
    ("claude-worker", Right.PUBLISH, f"{ROOT}/{A}/x/events", False),
    ("claude-worker", Right.RECEIVE, f"{ROOT}/{A}/events", False),
    ("registry", Right.PUBLISH, f"{ROOT}/{A}/state", True),
    ("registry", Right.PUBLISH, f"{ROOT}/{A}/events", True),
    ("metrics", Right.PUBLISH, f"{ROOT}/{A}/events", False),
    ("dashboard", Right.PUBLISH, f"{ROOT}/{A}/state", False),
    (A, Right.PUBLISH, f"{ROOT}/{A}/events", True),
    (A, Right.PUBLISH, f"{ROOT}/{B}/events", False),
    (A, Right.PUBLISH, f"{ROOT}/{A}/state", False),
    (A, Right.RECEIVE, f"{ROOT}/{A}/state", True),
    (A, Right.SUBSCRIBE, f"{ROOT}/{A}/state", True),
    (A, Right.SUBSCRIBE, f"{ROOT}/+/state", False),
    (A, Right.SUBSCRIBE, "#", False),
    ("+", Right.PUBLISH, f"{ROOT}/+/events", False),
    ("a/b", Right.PUBLISH, f"{ROOT}/a/b/events", False),
    ("agent.a", Right.PUBLISH, "python/mqtt/agents/agent.a/outbox", True),
    ("agent.a", Right.RECEIVE, "python/mqtt/agents/agent.b/inbox", False),
    (None, Right.PUBLISH, f"{ROOT}/{A}/events", False),
    (None, Right.SUBSCRIBE, "#", False),
    ("hermes", Right.PUBLISH, "$SYS/x", False),
]


def test_the_packaged_rights() -> None:
    """Each role may do what its comment says and nothing else."""
    rights = packaged()
    for user, action, topic, expected in RIGHTS:
        assert rights.allowed(user, "client", action, topic) is expected, (user, action, topic)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("user", "without a name"),
        ("grant all", "unknown keyword"),
        ("topic readonly a/b", "unknown access"),
        ("topic read a/#/b", "not a topic filter"),
        ("topic read a/b#", "not a topic filter"),
        ("topic", "not a topic filter"),
        ("pattern write a/b", "hold for everybody"),
        ("pattern write a/x%u/b", "only text of their level"),
    ],
)
def test_a_malformed_line_is_named(line: str, reason: str) -> None:
    """A line that cannot be used raises ConfigError with the file and the line number."""
    with pytest.raises(ConfigError, match="acl, line 2: ") as caught:
        parse_access_list(["# comment", line], "acl")
    assert reason in caught.value.message


@pytest.mark.parametrize("sign", ["\v", "\f", "\x1c", "\x85", "\u2028"])
def test_a_line_ends_where_it_does_for_mosquitto(tmp_path: Path, sign: str) -> None:
    """What only Unicode calls the end of a line hides no right in a comment."""
    (tmp_path / "acl").write_text(f"# note{sign}user hermes{sign}topic readwrite #\nuser metrics\ntopic x\n")
    found = AccessList.load(tmp_path / "acl")
    assert set(found.users) == {"metrics"}


def test_deny_wins_over_any_grant() -> None:
    """A deny line refuses what another line grants, wherever it stands."""
    acl = parse_access_list(["user u", "topic a/#", "topic deny a/secret"], "acl")
    assert acl.allowed("u", "c", Right.PUBLISH, "a/open")
    assert not acl.allowed("u", "c", Right.PUBLISH, "a/secret")
    assert not acl.allowed("u", "c", Right.RECEIVE, "a/secret")


def test_client_id_patterns_are_filled_in() -> None:
    """%c stands for the client id, and one with a wildcard matches nothing."""
    acl = parse_access_list(["pattern readwrite box/%c"], "acl")
    assert acl.allowed("u", "c1", Right.PUBLISH, "box/c1")
    assert not acl.allowed("u", "#", Right.SUBSCRIBE, "box/#")


LEVELS = st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=4)
FILTER_LEVELS = st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), min_size=1, max_size=4)
FILTERS = st.builds(
    lambda levels, last: "/".join([*levels, *last]), FILTER_LEVELS, st.sampled_from([[], ["#"]])
)


@given(FILTERS, FILTERS, LEVELS)
def test_a_covered_filter_matches_nothing_beyond(wide: str, narrow: str, levels: list[str]) -> None:
    """Whatever a covered subscription matches, the granting rule matches as well."""
    topic = "/".join(levels)
    if filter_matches(wide, narrow) and filter_matches(narrow, topic):
        assert filter_matches(wide, topic)


@given(FILTERS)
def test_a_filter_matches_itself(text: str) -> None:
    """Subscribing to exactly what is granted is granted."""
    if is_topic_filter(text) and not text.startswith("$"):
        assert filter_matches(text, text)
