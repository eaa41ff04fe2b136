"""Accounts and access list of a folder, held against the table of who may do what."""

from collections.abc import Iterator

from jobwire.broker.access_table import ALLOWED, MEANING, Action, Identity
from jobwire.broker.acl import AccessList, Right
from jobwire.broker.files import read_text
from jobwire.broker.home import BrokerFiles, rendered_root
from jobwire.broker.passwd import MACHINE_ITERATIONS, PasswordFile
from jobwire.certs.values import Finding, Level
from jobwire.core.roles import Role
from jobwire.core.topics import Topics, agent_identity

# Two jobs and two agents that stand for all: the identity's own, and another's.
_OWN, _OTHER = "aaaaaaaa", "bbbbbbbb"
_AGENT, _OTHER_AGENT = "A", "B"


def examine_access(files: BrokerFiles) -> Iterator[Finding]:
    """Yield what is wrong with accounts and rights; raises ConfigError for a file that cannot be read."""
    users, access = PasswordFile.load(files.passwd), AccessList.load(files.acl)
    yield from examine_accounts(users, access)
    root = rendered_root(read_text(files.acl, "access list"))
    if root is not None:
        yield from examine_rights(users, access, root)
        return
    text = "the rights of the roles were not examined: the line that names the topic root is gone"
    yield Finding(Level.NOTE, "acl", text, "keep the line `# Rendered by jobwire for the topic root ...`")


def examine_accounts(users: PasswordFile, access: AccessList) -> Iterator[Finding]:
    """Yield weak hashes, accounts without rights, and rights of nobody."""
    for name, entry in users.entries.items():
        if entry.iterations < MACHINE_ITERATIONS:
            text = f"the hash of {name} has only {entry.iterations} iterations"
            yield Finding(Level.WARNING, "passwd", text, f"jobwire broker passwd add {name} --replace")
        if name not in access.users:
            hint = f"add `user {name}` and topics to the acl"
            yield Finding(Level.NOTE, "acl", f"no rights for user {name}", hint)
    if access.anonymous:
        text = f"line {access.anonymous[0].line} gives rights to anonymous clients"
        yield Finding(Level.ERROR, "acl", text, "move it below a `user` line")


def examine_rights(users: PasswordFile, access: AccessList, topic_root: str) -> Iterator[Finding]:
    """Yield where a role or a job has other rights than docs/security.md says.

    A right too many is an error; one too few keeps its owner from its work and is a warning.
    """
    known = [(str(role), str(role), Identity(role.value)) for role in Role if role in users.entries]
    certified = [
        ("a job", _OWN, Identity.JOB_A),
        ("an agent", agent_identity(_AGENT), Identity.AGENT_A),
    ]
    for who, user, identity in [*certified, *known]:
        for action, (right, topic) in _attempts(Topics(topic_root)).items():
            wanted, happens = action in ALLOWED[identity], access.allowed(user, user, right, topic)
            if happens and not wanted:
                text = f"{who} may {action.value}: {MEANING[action]}"
                hint = "take the line out that gives this right; `jobwire broker access-table` shows all"
                yield Finding(Level.ERROR, "acl", text, hint)
            elif wanted and not happens:
                text = f"{who} may not {action.value}: {MEANING[action]}"
                hint = f"compare with a fresh rendering for the topic root {topic_root}"
                yield Finding(Level.WARNING, "acl", text, hint)


def _attempts(topics: Topics) -> dict[Action, tuple[Right, str]]:
    """Return what the access list alone decides about, as questions to it."""
    return {
        Action.PUBLISH_OWN: (Right.PUBLISH, topics.events(_OWN)),
        Action.PUBLISH_OTHERS: (Right.PUBLISH, topics.events(_OTHER)),
        Action.PUBLISH_STATE: (Right.PUBLISH, topics.state(_OWN)),
        Action.SUBSCRIBE_OWN: (Right.RECEIVE, topics.state(_OWN)),
        Action.SUBSCRIBE_EVENTS: (Right.RECEIVE, topics.events(_OTHER)),
        Action.SUBSCRIBE_ALL: (Right.RECEIVE, "elsewhere"),
        Action.SUBSCRIBE_SYS: (Right.RECEIVE, "$SYS/broker/uptime"),
        Action.PUBLISH_OUTBOX: (Right.PUBLISH, topics.agent(_AGENT, "outbox")),
        Action.PUBLISH_OTHERS_OUTBOX: (Right.PUBLISH, topics.agent(_OTHER_AGENT, "outbox")),
        Action.PUBLISH_INBOX: (Right.PUBLISH, topics.agent(_OTHER_AGENT, "inbox")),
        Action.WILL_PRESENCE: (Right.PUBLISH, topics.agent(_AGENT, "presence")),
        Action.SUBSCRIBE_INBOX: (Right.RECEIVE, topics.agent(_AGENT, "inbox")),
        Action.SUBSCRIBE_OTHERS_INBOX: (Right.RECEIVE, topics.agent(_OTHER_AGENT, "inbox")),
        Action.SUBSCRIBE_OUTBOX: (Right.RECEIVE, topics.agent(_OTHER_AGENT, "outbox")),
        Action.SUBSCRIBE_PRESENCE: (Right.RECEIVE, topics.agent(_OTHER_AGENT, "presence")),
    }
