"""Every table and key of jobwire.toml: what it takes, its default, and one line for people. Pure.

All components' in one list: whoever reads the file must know a misspelt table from another component's.
On the path of `publish_event`: imports stay light.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from jobwire.core.bounds import MAX_PORT, MAX_SECONDS, MAX_SETTING, PROTOCOLS
from jobwire.core.errors import ConfigError
from jobwire.core.roles import Role
from jobwire.core.topics import DEFAULT_ROOT

ON = frozenset({"on", "true", "1", "yes"})
OFF = frozenset({"off", "false", "0", "no"})
# MQTT 5, 3.1.3.6: two bytes of length.
MAX_PASSWORD = 64 * 1024
_MAX_DAYS = MAX_SECONDS / 86400
_MAX_MIB = float(1 << 42)
_MAX_ITEMS = 1024
# Of directives in receipts: what each role or kind of agent may ask for, and tasks of theirs open in a run.
DIRECTIVES_ALLOWED = ("lead: *", "*: question, review, test, fix, info, alert")
DIRECTIVES_OPEN = 100
_ALLOWED = re.compile(r"\A[A-Za-z0-9_.*-]{1,128}+: ?[A-Za-z0-9_.*, -]{1,1000}+")
_HEAP = re.compile(r"[1-9][0-9]{0,8}[kmgt]?b?", re.IGNORECASE)
_LOCAL = re.compile(r"(local(\[[0-9*]{1,4}\])?)?")


class Values(NamedTuple):
    """What a setting takes: in words, and as a test."""

    words: str
    fit: Callable[[object], bool]


class Setting(NamedTuple):
    """One key. `default` is a value, or words in brackets where it is worked out.

    `file`: a path, in a file relative to it. `own`: what the user's own file takes besides; such a setting
    runs code of others, or gives something away, and no home may ask for that.
    """

    name: str
    values: Values
    default: object
    help: str
    variable: str = ""
    file: bool = False
    secret: bool = False
    own: Values | None = None


def _is_switch(value: object) -> bool:
    return str(value).lower() in ON | OFF


def _is_port(value: object) -> bool:
    text = str(value)
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PORT)) and 0 < int(text) <= MAX_PORT


def check_value(setting: Setting, value: object, where: str, *, own: bool = False) -> None:
    """Raise ConfigError where the setting does not take the value; `own`: as the user's own file may."""
    values = setting.own if own and setting.own is not None else setting.values
    if not values.fit(value):
        shown = "not usable" if setting.secret else f"{value!r:.80}"
        raise ConfigError(f"{setting.name} in {where} is {shown}", hint=f"it takes {values.words}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names for a hint, the nearest to `name` first of all."""
    import difflib  # noqa: PLC0415 - for errors only

    names = sorted(known)
    near = difflib.get_close_matches(name[:64], names, n=1)
    return f"{f'did you mean {near[0]}? ' if near else ''}known: {', '.join(names)}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value) <= MAX_SETTING


def _is_password(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value) <= MAX_PASSWORD


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _one_of(words: str, *known: str) -> Values:
    # Known ones in a tuple: to ask a set for a list or table is an error.
    return Values(words, lambda value: value in known)


def _number(least: float, most: float, unit: str) -> Values:
    # Not isinstance: true is not a number.
    return Values(
        f"a number from {least:g} to {most:.0f} ({unit})",
        lambda value: type(value) in (int, float) and least <= value <= most,  # type: ignore[operator]
    )


def _whole(least: int, most: int, unit: str = "") -> Values:
    return Values(
        f"a whole number from {least} to {most}{unit}",
        lambda value: type(value) is int and least <= value <= most,
    )


_TEXT = Values(f"a text of at most {MAX_SETTING} characters", _is_text)
_PASSWORD = Values("a text", _is_password)
_TEXTS = Values(
    f"a list of 1 to {_MAX_ITEMS} texts",
    lambda value: isinstance(value, list) and 0 < len(value) <= _MAX_ITEMS and all(map(_is_text, value)),
)
# A tool, or a tool and a pattern (`hooks.policy` reads them).
_RULE = re.compile(r"[A-Za-z0-9_.*?\[\]-]{1,100}(\(.{0,900}\))?", re.DOTALL)
_RULES = Values(
    'a list of at most 256 rules like "Edit" or "Bash(git status*)"',
    lambda value: (
        isinstance(value, list)
        and len(value) <= 256  # noqa: PLR2004 - said in the words
        and all(isinstance(one, str) and _RULE.fullmatch(one) is not None for one in value)
    ),
)
_SWITCH = Values('"on" or "off"', _is_switch)
_VERDICTS = _one_of('"ask", "allow" or "deny"', "ask", "allow", "deny")
_TURN_ENDS = _one_of('"ask" or "complete"', "ask", "complete")
# As many as a record keeps of settled requests, and some: `hooks.turn_end` counts them there.
_RETRIES = _whole(0, 20)
_RETRY_SECONDS = _number(1, 900, "seconds")
_TRUTH = Values("true or false", lambda value: isinstance(value, bool))
_PORT = Values(f"a number from 1 to {MAX_PORT}", _is_port)
_PROTOCOL = _one_of(f"one of {', '.join(PROTOCOLS)}", *PROTOCOLS)
_ROWS = _whole(1, 10**9)
_DAYS = _number(0, _MAX_DAYS, "days; 0 keeps for ever")
_SECONDS = _number(0, 86400, "seconds")
_MIB = _whole(1, 1024, " (MiB)")
_SHARDS = _whole(1, 64)


def _granting(name: str, values: Values, default: object, text: str) -> Setting:
    nowhere = Values("nothing in a home, because it grants something", lambda _: False)
    return Setting(name, nowhere, default, text, own=values)


def _running(name: str, text: str) -> Setting:
    nowhere = Values("nothing in a home, because it runs a command", lambda _: False)
    return Setting(name, nowhere, "(none)", text, own=_TEXTS)


_BROKER = (
    Setting("broker", _TEXT, "localhost", "host name or address of the broker", "MQTT_BROKER"),
    Setting("port", _PORT, "(8883, without TLS 1883)", "its port", "MQTT_PORT"),
    Setting("tls", _SWITCH, "on", '"off" sends in the clear', "MQTT_TLS"),
    Setting(
        "ca_certs", _TEXT, "(the system's)", "the CA of the broker's certificate", "MQTT_CA_CERTS", file=True
    ),
    Setting("certfile", _TEXT, "(none)", "client certificate", "MQTT_CERTFILE", file=True),
    Setting("keyfile", _TEXT, "(none)", "its key", "MQTT_KEYFILE", file=True),
    Setting("username", _TEXT, "(none)", "account at the broker", "MQTT_USERNAME"),
    Setting("password", _PASSWORD, "(none)", "its password; a file is better", "MQTT_PASSWORD", secret=True),
    Setting(
        "password_file",
        _TEXT,
        "(none)",
        "0600 file with the password",
        "MQTT_PASSWORD_FILE",
        file=True,
    ),
    Setting("topic_root", _TEXT, DEFAULT_ROOT, "what all topics begin with", "MQTT_TOPIC_ROOT"),
    Setting("protocol", _PROTOCOL, "auto", "what the broker speaks; auto is 5", "MQTT_PROTOCOL"),
)
_OF_A_ROLE = frozenset({"username", "password_file", "certfile", "keyfile"})
_ROLE = tuple(setting._replace(variable="") for setting in _BROKER if setting.name in _OF_A_ROLE)

_METRICS = (
    Setting(
        "journals", _TEXTS, "(HOME/journal)", "directories of the journals, one for each shard", file=True
    ),
    Setting(
        "sink",
        _TEXT,
        "(HOME/metrics/metrics.db)",
        "the tables: a SQLite file, or postgresql://...",
        "JOBWIRE_METRICS_SINK",
        file=True,
        secret=True,
    ),
    Setting(
        "history",
        _TEXT,
        "(HOME/metrics/history)",
        'the sealed journal as Parquet files: a folder or a URI such as s3://bucket/folder; "" for none',
        file=True,
    ),
    Setting("topic_root", _TEXT, "([broker] topic_root)", "what the topics in the journal begin with"),
    Setting(
        "master",
        Values('"local" or "local[N]"; a cluster only in your own file, or as --master', _matches(_LOCAL)),
        "local[2]",
        "where Spark runs",
        own=_TEXT,
    ),
    Setting("memory", Values('a size like "512m" or "2g"', _matches(_HEAP)), "1g", "heap of Spark's driver"),
    Setting("trigger_seconds", _SECONDS, 0.4, "shortest time between two batches"),
    Setting(
        "history_seconds", _SECONDS, 3600.0, "time until the journal's growing segment is sealed as well"
    ),
    Setting("shards", _SHARDS, 1, "tasks that fold the jobs, each its own, into tables of its own"),
    Setting("max_rows", _ROWS, 100_000, "rows that a batch reads at most"),
    Setting("max_mib", _MIB, 64, "about how much of a journal a batch reads at most"),
    Setting("keep_10s_days", _DAYS, 7, "windows of 10 s stay in the tables for so long"),
    Setting("keep_60s_days", _DAYS, 90, "windows of 60 s stay in the tables for so long"),
    Setting(
        "keep_hours_days", _DAYS, 0, "windows of an hour, tokens and cost stay in the tables for so long"
    ),
    Setting("keep_jobs_days", _DAYS, 0, "jobs that have ended stay in the tables for so long"),
    Setting("verify", _TRUTH, False, "check signatures with the keys in $JOBWIRE_KEYS_FILE"),
    Setting("inline", _TRUTH, False, "send the bytes to executors that do not see the journal"),
    Setting("ingest", _TRUTH, False, "start the recorder as well, if none is running"),
    Setting("share_group", _TEXT, "", "recorders of this MQTT 5 group each get a part of the messages"),
    Setting("allow_data_loss", _TRUTH, False, "go on where rows are gone from the journal"),
    Setting("consumer", _TEXT, "metrics", 'name under which the journal keeps our place; "" for none'),
)

# A role's table overrides [broker] for that role.
ROLE_TABLES = {f"roles.{role}": _ROLE for role in Role}
# By the name in the file.
TABLES: Mapping[str, tuple[Setting, ...]] = {
    "broker": _BROKER,
    "mtls": (
        Setting("port", _PORT, "(none)", "the broker's port for clients with a certificate of their own"),
    ),
    **ROLE_TABLES,
    "registry": (
        Setting("keep_retained_days", _DAYS, 7, "a finished job's messages stay at the broker for so long"),
        Setting("keep_records_days", _DAYS, 90, "its record and logs stay for so long"),
        Setting("keep_journal_days", _DAYS, 7, "what every consumer has read stays in the journal"),
        Setting(
            "keep_journal_mib",
            _number(0, _MAX_MIB, "MiB; 0 sets no limit"),
            8192,
            "size beyond which the journal keeps less",
        ),
        Setting("keep_unread_days", _DAYS, 30, "so long the journal waits for a consumer that does not read"),
        Setting(
            "keep_unread_mib",
            _number(0, _MAX_MIB, "MiB; 0 sets no limit"),
            32768,
            "size beyond which it no longer waits",
        ),
        _running(
            "on_attention", "command, a list of words, that `jobwire serve` runs once for each new request"
        ),
    ),
    "directives": (
        _granting(
            "allow",
            Values(
                'a list of texts like "tester: review, fix"',
                lambda value: _TEXTS.fit(value) and all(map(_matches(_ALLOWED), value)),  # type: ignore[call-overload]  # a list by now
            ),
            f"({'; '.join(DIRECTIVES_ALLOWED)})",
            'intents that a role or kind may ask for by `::bus-send`; rows like "tester: review, fix"',
        ),
        _granting(
            "max_open",
            _whole(0, 100_000),
            DIRECTIVES_OPEN,
            "tasks that such lines made may be open in a run",
        ),
    ),
    "sessions": (
        _running(
            "agents",
            'agents of your own, a line each: "NAME | DELIVERY | COMMAND | QUIT | RESUME | INTERRUPT" '
            "(docs/sessions.md)",
        ),
    ),
    "autopilot": (
        _granting(
            "verify",
            _TEXTS,
            "(none)",
            "acceptance lines that `--verify` may run though no plan holds them; `*` stands for anything",
        ),
    ),
    "metrics": _METRICS,
    "agents.policy": (
        _granting("deny", _RULES, "(none)", "tools that an agent may not use"),
        _granting("ask", _RULES, "(none)", "tools about which a person is asked"),
        _granting("allow", _RULES, "(none)", "tools that an agent may use unasked"),
        _granting(
            "default", _VERDICTS, "ask", "what holds for a tool that an agent asks about, and no rule names"
        ),
        _granting(
            "turn_end",
            _TURN_ENDS,
            "ask",
            "a turn that ends without a verdict: ask a person, or take it as complete",
        ),
        _granting(
            "retries",
            _RETRIES,
            3,
            "how often within six hours an agent is told to go on after its model's service failed",
        ),
        _granting(
            "retry_seconds",
            _RETRY_SECONDS,
            30.0,
            "how long the first of these waits, each next one twice as long, at most a quarter of an hour",
        ),
    ),
}
# Those of [broker], of a record's `broker` overrides and of the command line, by name.
BROKER = {setting.name: setting for setting in _BROKER}
