"""Topics, identities, settings, exit codes and retry schedule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.backoff import retry_delay
from jobwire.core.errors import ConfigError, InvalidInputError
from jobwire.core.exit_codes import MEANINGS, ExitCode, help_table
from jobwire.core.settings import Secret, from_environment, resolve_broker
from jobwire.core.topics import TopicAddress, Topics, check_identity, check_job_id, filter_matches


@pytest.mark.parametrize("name", ["", "a/b", "a+b", "a#", "%u", "a b", "a\0", "a\n", "é", "x" * 65, ".."])
def test_unsafe_names_never_become_topics_or_files(name: str) -> None:
    """An identity is letters, digits, _ and -, nothing that a topic, path or pattern could read."""
    with pytest.raises(InvalidInputError):
        check_identity(name)


@pytest.mark.parametrize("job_id", ["", "0000abc", "0000ABCD", "0000abcd\n", "0000abcg", "../etc/p"])
def test_a_job_id_is_eight_lower_case_hex(job_id: str) -> None:
    """Nothing else is a job id, a trailing line break included."""
    with pytest.raises(InvalidInputError):
        check_job_id(job_id)


def test_topics_round_trip() -> None:
    """What is built is parsed back, and nothing else parses."""
    topics = Topics("a/b")
    assert topics.parse(topics.events("0000abcd")) == TopicAddress("0000abcd", "events")
    assert topics.parse(topics.state("0000abcd")) == TopicAddress("0000abcd", "state")
    for stranger in (
        "a/b/0000abcd",
        "a/b/0000abcd/events/x",
        "a/b/+/events",
        "x/0000abcd/events",
        "a/b/0000abcd/other",
    ):
        assert topics.parse(stranger) is None


@pytest.mark.parametrize("root", ["", "/a", "a/", "a/+", "#", "$SYS", "a/%u", "a\0"])
def test_unusable_roots_are_refused(root: str) -> None:
    """A root with a wildcard or pattern would open every topic."""
    with pytest.raises(InvalidInputError):
        Topics(root)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [
        ("a/+/c", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/+", "a/b/c", False),
        ("a/b", "a/b/c", False),
        ("a/b/c", "a/b", False),
        ("+", "a", True),
        ("a/+", "a/", True),
    ],
)
def test_filters_match_as_mqtt_says(topic_filter: str, topic: str, matches: bool) -> None:
    """MQTT 3.1.1 section 4.7, $-topics included."""
    assert filter_matches(topic_filter, topic) is matches


def test_settings_follow_the_hierarchy() -> None:
    """The highest layer that names a setting wins, key by key."""
    settings = resolve_broker(
        [
            ("command line", {"port": 1}),
            ("record", {"port": 2, "broker": "h"}),
            ("environment", from_environment({"MQTT_USERNAME": "u", "MQTT_PORT": "3"})),
        ]
    )
    assert (settings.host, settings.port, settings.username, settings.tls) == ("h", 1, "u", True)


@pytest.mark.parametrize(
    "layer",
    [
        {"port": "0"},
        {"port": "70000"},
        {"port": "x"},
        {"tls": "maybe"},
        {"protocol": "4"},
        {"certfile": "a"},
        {"colour": "red"},
        {"username": 5},
    ],
)
def test_bad_settings_name_layer_and_key(layer: dict[str, object]) -> None:
    """An unusable setting is refused before anything connects."""
    with pytest.raises(ConfigError):
        resolve_broker([("environment", layer)])


def test_plaintext_must_be_asked_for() -> None:
    """Off this host nothing is sent in the clear unless MQTT_TLS=off was said; TLS is the default."""
    assert resolve_broker([]).tls
    spoken = resolve_broker([("environment", {"broker": "example.test", "tls": "off"})])
    assert (spoken.tls, spoken.port) == (False, 1883)


def test_a_secret_does_not_print_itself() -> None:
    """A password in settings survives no repr, str or format."""
    settings = resolve_broker([("environment", {"password": "hunter2"})])
    assert "hunter2" not in f"{settings!r} {settings} {Secret('hunter2')}"
    assert settings.password is not None
    assert settings.password.reveal() == "hunter2"


@given(st.integers(1, 10**6), st.floats(0, 0.999))
def test_retry_delay_is_bounded(attempt: int, jitter: float) -> None:
    """A delay is never above the cap and never below half of its step."""
    full = min(0.5 * 2 ** min(attempt - 1, 30), 8.0)
    assert full / 2 <= retry_delay(attempt, jitter) <= full


def test_every_exit_code_is_explained() -> None:
    """Each code stands once in the table that --help prints."""
    assert set(MEANINGS) == set(ExitCode)
    assert all(f"{int(code):>3}  {MEANINGS[code]}" in help_table() for code in ExitCode)
