"""What an agent may be called, and what it is called on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.errors import InvalidInputError
from jobwire.core.topics import AgentAddress, Topics, agent_identity, check_agent, is_job_id

NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", fullmatch=True).filter(
    lambda name: not is_job_id(name)
)


@given(NAMES, st.sampled_from(["inbox", "outbox", "presence"]))
def test_every_name_survives_its_topic(name: str, kind: str) -> None:
    """Whoever reads an agent's topic finds the name and the kind that it was made of."""
    topics = Topics()
    assert topics.parse_agent(topics.agent(check_agent(name), kind)) == AgentAddress(name, kind)
    assert agent_identity(name) == f"agent.{name}"


@pytest.mark.parametrize("name", ["", ".a", "-a", "a b", "a/b", "a+", "a" * 65, "0a1b2c3d", "ä", "a\n"])
def test_other_names_are_refused(name: str) -> None:
    """What could be mistaken for a job, a path or a topic filter is no agent's name."""
    with pytest.raises(InvalidInputError):
        check_agent(name)


@pytest.mark.parametrize(
    "topic",
    [
        "python/mqtt/agents/builder/inbox",
        "python/mqtt/agents/agent.a/b/inbox",
        "python/mqtt/agents/agent.0a1b2c3d/inbox",
        "python/mqtt/agents/agent./inbox",
        "python/mqtt/agents/agent.a/other",
        "python/mqtt/jobs/agent.a/inbox",
    ],
)
def test_topics_of_nobody_are_nobodys(topic: str) -> None:
    """A topic that no agent has is not taken for one's."""
    assert Topics().parse_agent(topic) is None


@pytest.mark.parametrize(
    ("root", "agents"),
    [
        ("python/mqtt/jobs", "python/mqtt/agents"),
        ("jobs", "agents"),
        ("acme", "acme/agents"),
        ("x/myjobs", "x/myjobs/agents"),
    ],
)
def test_agents_stand_beside_or_below_the_jobs(root: str, agents: str) -> None:
    """Two roots of jobs never share the topics of agents."""
    assert Topics(root).agent("a", "inbox") == f"{agents}/agent.a/inbox"
    assert Topics(root).agent("+", "outbox") == f"{agents}/+/outbox"
