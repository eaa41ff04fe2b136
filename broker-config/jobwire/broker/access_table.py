"""Who may do what: the one table behind the tests of both brokers and docs/security.md.

A cell says what happens in the end: a refused publish reaches nobody, a refused subscription brings
nothing. How a broker says no (CONNACK, SUBACK 0x80, silence) differs and is not part of the promise.
"""

import enum
from importlib.resources import files


class Action(enum.Enum):
    """What is tried; job A and agent A are the identity's own, job B and agent B another's."""

    CONNECT = "connect"
    PUBLISH_OWN = "publish own"
    PUBLISH_OTHERS = "publish other's"
    PUBLISH_STATE = "publish state"
    PUBLISH_RETAINED = "publish retained"
    WILL_TO_OTHERS = "Will to other's"
    SUBSCRIBE_OWN = "subscribe own"
    SUBSCRIBE_EVENTS = "subscribe events"
    SUBSCRIBE_ALL = "subscribe `#`"
    SUBSCRIBE_SYS = "subscribe `$SYS/#`"
    RECEIVE_RETAINED = "receive retained"
    PUBLISH_ANSWER = "publish answer"
    RECEIVE_ANSWER = "receive own answers"
    RECEIVE_OTHERS_ANSWER = "receive other's answers"
    PUBLISH_OUTBOX = "publish own outbox"
    PUBLISH_OTHERS_OUTBOX = "publish other's outbox"
    PUBLISH_INBOX = "publish inbox"
    WILL_PRESENCE = "Will to own presence"
    SUBSCRIBE_INBOX = "subscribe own inbox"
    SUBSCRIBE_OTHERS_INBOX = "subscribe other's inbox"
    SUBSCRIBE_OUTBOX = "subscribe outboxes"
    SUBSCRIBE_PRESENCE = "subscribe presence"


MEANING = {
    Action.CONNECT: "CONNACK 0",
    Action.PUBLISH_OWN: "an event to `<root>/A/events` reaches a subscriber",
    Action.PUBLISH_OTHERS: "an event to `<root>/B/events` reaches a subscriber",
    Action.PUBLISH_STATE: "a message to `<root>/A/state` reaches a subscriber",
    Action.PUBLISH_RETAINED: "an event to `<root>/A/events` with the retain flag is kept for later",
    Action.WILL_TO_OTHERS: "a Will to `<root>/B/events` reaches a subscriber after the client has vanished",
    Action.SUBSCRIBE_OWN: "a message to `<root>/A/state` arrives",
    Action.SUBSCRIBE_EVENTS: "with the filter `<root>/+/events` an event of job B arrives",
    Action.SUBSCRIBE_ALL: "with the filter `#` a message outside the topic root arrives",
    Action.SUBSCRIBE_SYS: "the broker's own figures arrive",
    Action.RECEIVE_RETAINED: "the retained state of job A arrives on subscription",
    Action.PUBLISH_ANSWER: "a message to `<root>/A/answer` reaches a subscriber",
    Action.RECEIVE_ANSWER: "the retained answers of job A arrive on subscription",
    Action.RECEIVE_OTHERS_ANSWER: "the retained answers of job B arrive on subscription",
    Action.PUBLISH_OUTBOX: "a message to `<agents>/agent.A/outbox` reaches a subscriber",
    Action.PUBLISH_OTHERS_OUTBOX: "a message to `<agents>/agent.B/outbox` reaches a subscriber",
    Action.PUBLISH_INBOX: "a message to `<agents>/agent.B/inbox` reaches a subscriber",
    Action.WILL_PRESENCE: "a Will to `<agents>/agent.A/presence` reaches a subscriber",
    Action.SUBSCRIBE_INBOX: "a message to `<agents>/agent.A/inbox` arrives",
    Action.SUBSCRIBE_OTHERS_INBOX: "a message to `<agents>/agent.B/inbox` arrives",
    Action.SUBSCRIBE_OUTBOX: "with the filter `<agents>/+/outbox` a message of agent B arrives",
    Action.SUBSCRIBE_PRESENCE: "with the filter `<agents>/+/presence` that of agent B arrives",
}

_READ = frozenset({Action.SUBSCRIBE_OWN, Action.SUBSCRIBE_EVENTS, Action.RECEIVE_RETAINED})
_WRITE_EVENTS = frozenset(
    {Action.PUBLISH_OWN, Action.PUBLISH_OTHERS, Action.PUBLISH_RETAINED, Action.WILL_TO_OTHERS}
)
_OWN_JOB = frozenset(
    {
        Action.PUBLISH_OWN,
        Action.PUBLISH_RETAINED,
        Action.SUBSCRIBE_OWN,
        Action.RECEIVE_RETAINED,
        Action.RECEIVE_ANSWER,
    }
)
_SERVE_JOBS = frozenset({Action.PUBLISH_STATE, Action.PUBLISH_ANSWER})
_OWN_AGENT = frozenset({Action.PUBLISH_OUTBOX, Action.WILL_PRESENCE, Action.SUBSCRIBE_INBOX})
_SERVE_AGENTS = frozenset(
    {Action.PUBLISH_INBOX, Action.WILL_PRESENCE, Action.SUBSCRIBE_OUTBOX, Action.SUBSCRIBE_PRESENCE}
)
_CONNECT = frozenset({Action.CONNECT})
_NOTHING: frozenset[Action] = frozenset()


class Identity(enum.Enum):
    """Who tries it."""

    ANONYMOUS = "anonymous"
    WRONG_PASSWORD = "wrong password"  # noqa: S105 - a row's name
    HERMES = "hermes"
    CLAUDE_WORKER = "claude-worker"
    REGISTRY = "registry"
    METRICS = "metrics"
    DASHBOARD = "dashboard"
    JOB_A = "job A's certificate"
    JOB_A_AS_B = "job A's certificate, job B's client id"
    AGENT_A = "agent A's certificate"
    EXPIRED = "expired certificate"
    REVOKED = "revoked certificate"
    SERVER = "certificate of a server"
    FOREIGN_CA = "certificate of a foreign CA"
    SELF_SIGNED = "self-signed certificate"


ALLOWED: dict[Identity, frozenset[Action]] = {
    Identity.ANONYMOUS: _NOTHING,
    Identity.WRONG_PASSWORD: _NOTHING,
    Identity.HERMES: _CONNECT | _READ,
    Identity.CLAUDE_WORKER: _CONNECT | _WRITE_EVENTS,
    Identity.REGISTRY: _CONNECT | _READ | _WRITE_EVENTS | _SERVE_JOBS | _SERVE_AGENTS,
    Identity.METRICS: _CONNECT | _READ,
    Identity.DASHBOARD: _CONNECT | _READ,
    Identity.JOB_A: _CONNECT | _OWN_JOB,
    Identity.JOB_A_AS_B: _CONNECT | _OWN_JOB,
    Identity.AGENT_A: _CONNECT | _OWN_AGENT,
    Identity.EXPIRED: _NOTHING,
    Identity.REVOKED: _NOTHING,
    Identity.SERVER: _NOTHING,
    Identity.FOREIGN_CA: _NOTHING,
    Identity.SELF_SIGNED: _NOTHING,
}


def as_rows() -> list[dict[str, str]]:
    """Return the table as one mapping a row, for JSON."""
    return [
        {"identity": identity.value}
        | {action.value: "allowed" if action in allowed else "refused" for action in Action}
        for identity, allowed in ALLOWED.items()
    ]


def as_markdown() -> str:
    """Return the text of docs/security.md."""
    source = files("jobwire.broker").joinpath("templates", "security.md").read_text(encoding="utf-8")
    return source.replace("@TABLE@", _table()).replace("@MEANING@", _meaning())


def _table() -> str:
    head = ["identity", *(action.value for action in Action)]
    lines = [_line(head), _line(["---"] * len(head))]
    for row in as_rows():
        name, *cells = row.values()
        lines.append(_line([name, *("**allowed**" if cell == "allowed" else "refused" for cell in cells)]))
    return "\n".join(lines)


def _meaning() -> str:
    return "\n".join(f"- *{action.value}*: {MEANING[action]}" for action in Action)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
