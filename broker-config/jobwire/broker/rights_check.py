"""Accounts and access list of a folder, held against the table of who may do what."""

from collections.abc import Iterator

from jobwire.broker.access_table import ALLOWED, MEANING, Action, Identity
from jobwire.broker.acl import AccessList
from jobwire.broker.acl import Action as Access
from jobwire.broker.passwd import MACHINE_ITERATIONS, PasswordFile
from jobwire.certs import Finding, Level
from jobwire.core.roles import Role
from jobwire.core.topics import Topics

# Two jobs that stand for all: the identity's own, and another's.
_OWN, _OTHER = "aaaaaaaa", "bbbbbbbb"
_ELSEWHERE, _SYS = "elsewhere", "$SYS/broker/uptime"


def examine_accounts(users: PasswordFile, access: AccessList) -> Iterator[Finding]:
    """Yield weak hashes, accounts without rights, and rights of nobody."""
    for name in users.names:
        entry = users.entry(name)
        if entry is not None and entry.iterations < MACHINE_ITERATIONS:
            yield Finding(
                Level.WARNING,
                "passwd",
                f"the hash of {name} has only {entry.iterations} iterations",
                f"jobwire broker passwd add {name} --replace",
            )
        if name not in access.users:
            yield Finding(
                Level.NOTE, "acl", f"no rights for user {name}", f"add `user {name}` and topics to the acl"
            )
    if access.anonymous:
        line = access.anonymous[0].line
        yield Finding(
            Level.ERROR,
            "acl",
            f"line {line} gives rights to anonymous clients",
            "move it below a `user` line",
        )


def examine_rights(users: PasswordFile, access: AccessList, topic_root: str) -> Iterator[Finding]:
    """Yield where a role or a job has other rights than docs/security.md says.

    A right too many is an error; one too few keeps its owner from its work and is a warning.
    """
    yield from _rights_of("a job", _OWN, Identity.JOB_A, access, topic_root)
    for role in Role:
        if role in users.names:
            yield from _rights_of(str(role), role, Identity(role.value), access, topic_root)


def _rights_of(
    who: str, user: str, identity: Identity, access: AccessList, topic_root: str
) -> Iterator[Finding]:
    for action, (verb, topic) in _attempts(Topics(topic_root)).items():
        wanted, happens = action in ALLOWED[identity], access.allowed(user, user, verb, topic)
        if happens and not wanted:
            yield Finding(
                Level.ERROR,
                "acl",
                f"{who} may {action.value}: {MEANING[action]}",
                "take the line out that gives this right; `jobwire broker access-table` shows all",
            )
        elif wanted and not happens:
            yield Finding(
                Level.WARNING,
                "acl",
                f"{who} may not {action.value}: {MEANING[action]}",
                f"compare with a fresh rendering for the topic root {topic_root}",
            )


def _attempts(topics: Topics) -> dict[Action, tuple[Access, str]]:
    """Return what the access list alone decides about, as questions to it."""
    return {
        Action.PUBLISH_OWN: (Access.PUBLISH, topics.events(_OWN)),
        Action.PUBLISH_OTHERS: (Access.PUBLISH, topics.events(_OTHER)),
        Action.PUBLISH_STATE: (Access.PUBLISH, topics.state(_OWN)),
        Action.SUBSCRIBE_OWN: (Access.RECEIVE, topics.state(_OWN)),
        Action.SUBSCRIBE_EVENTS: (Access.RECEIVE, topics.events(_OTHER)),
        Action.SUBSCRIBE_ALL: (Access.RECEIVE, _ELSEWHERE),
        Action.SUBSCRIBE_SYS: (Access.RECEIVE, _SYS),
    }
