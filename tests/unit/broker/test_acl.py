"""Mosquitto's acl_file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.broker.acl import AccessList, Action, filter_covers, is_topic_filter, parse_access_list
from jobwire.broker.template import render_template
from jobwire.core.errors import ConfigError
from jobwire.core.topics import filter_matches

ROOT = "python/mqtt/jobs"
A, B = "aaaaaaaa", "bbbbbbbb"


def packaged() -> AccessList:
    """Return the access list that jobwire installs."""
    return parse_access_list(render_template("acl", {"TOPIC_ROOT": ROOT}).splitlines(), "acl")


RIGHTS: list[tuple[str | None, Action, str, bool]] = [
    ("hermes", Action.SUBSCRIBE, f"{ROOT}/+/events", True),
    ("hermes", Action.SUBSCRIBE, f"{ROOT}/{A}/events", True),
    ("hermes", Action.SUBSCRIBE, f"{ROOT}/{A}/state", True),
    ("hermes", Action.SUBSCRIBE, f"{ROOT}/#", False),
    ("hermes", Action.SUBSCRIBE, "#", False),
    ("hermes", Action.SUBSCRIBE, "$SYS/#", False),
    ("hermes", Action.RECEIVE, f"{ROOT}/{A}/events", True),
    ("hermes", Action.PUBLISH, f"{ROOT}/{A}/events", False),
    ("claude-worker", Action.PUBLISH, f"{ROOT}/{A}/events", True),
    ("claude-worker", Action.PUBLISH, f"{ROOT}/{A}/state", False),
    ("claude-worker", Action.PUBLISH, f"{ROOT}/{A}/x/events", False),
    ("claude-worker", Action.RECEIVE, f"{ROOT}/{A}/events", False),
    ("registry", Action.PUBLISH, f"{ROOT}/{A}/state", True),
    ("registry", Action.PUBLISH, f"{ROOT}/{A}/events", True),
    ("metrics", Action.PUBLISH, f"{ROOT}/{A}/events", False),
    ("dashboard", Action.PUBLISH, f"{ROOT}/{A}/state", False),
    (A, Action.PUBLISH, f"{ROOT}/{A}/events", True),
    (A, Action.PUBLISH, f"{ROOT}/{B}/events", False),
    (A, Action.PUBLISH, f"{ROOT}/{A}/state", False),
    (A, Action.RECEIVE, f"{ROOT}/{A}/state", True),
    (A, Action.SUBSCRIBE, f"{ROOT}/{A}/state", True),
    (A, Action.SUBSCRIBE, f"{ROOT}/+/state", False),
    (A, Action.SUBSCRIBE, "#", False),
    ("+", Action.PUBLISH, f"{ROOT}/+/events", False),
    ("a/b", Action.PUBLISH, f"{ROOT}/a/b/events", False),
    (None, Action.PUBLISH, f"{ROOT}/{A}/events", False),
    (None, Action.SUBSCRIBE, "#", False),
    ("hermes", Action.PUBLISH, "$SYS/x", False),
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


def test_deny_wins_over_any_grant() -> None:
    """A deny line refuses what another line grants, wherever it stands."""
    acl = parse_access_list(["user u", "topic a/#", "topic deny a/secret"], "acl")
    assert acl.allowed("u", "c", Action.PUBLISH, "a/open")
    assert not acl.allowed("u", "c", Action.PUBLISH, "a/secret")
    assert not acl.allowed("u", "c", Action.RECEIVE, "a/secret")


def test_client_id_patterns_are_filled_in() -> None:
    """%c stands for the client id, and one with a wildcard matches nothing."""
    acl = parse_access_list(["pattern readwrite box/%c"], "acl")
    assert acl.allowed("u", "c1", Action.PUBLISH, "box/c1")
    assert not acl.allowed("u", "#", Action.SUBSCRIBE, "box/#")


LEVELS = st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=4)
FILTER_LEVELS = st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), min_size=1, max_size=4)
FILTERS = st.builds(
    lambda levels, last: "/".join([*levels, *last]), FILTER_LEVELS, st.sampled_from([[], ["#"]])
)


@given(FILTERS, FILTERS, LEVELS)
def test_a_covered_filter_matches_nothing_beyond(wide: str, narrow: str, levels: list[str]) -> None:
    """Whatever a covered subscription matches, the granting rule matches as well."""
    topic = "/".join(levels)
    if filter_covers(wide, narrow) and filter_matches(narrow, topic):
        assert filter_matches(wide, topic)


@given(FILTERS)
def test_a_filter_covers_itself(text: str) -> None:
    """Subscribing to exactly what is granted is granted."""
    if is_topic_filter(text) and not text.startswith("$"):
        assert filter_covers(text, text)
