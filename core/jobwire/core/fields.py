"""What a field may hold: each rule said once, as a check, as words and as JSON Schema.

A NamedTuple whose fields carry a rule (`title: Annotated[str, text(200)]`) is the one definition of what
is read and written of it: decoders, encoders, pydantic's models and `jobwire schema` are made from that
(docs/adr/0003). A rule's `read` returns the value, or raises ValueError.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from jobwire.core.bounds import MAX_SECONDS, seconds_fit
from jobwire.core.canonical import MAX_INTEGER
from jobwire.core.topics import JOB_ID_PATTERN

# [0-9], not \d, which takes every script's digits.
_STAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?Z"
)
_JOB_ID = re.compile(r"[0-9a-f]{8}")
_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY, _LEAP_DAY = 2, 29


class Rule(NamedTuple):
    """What one field may hold. `says` completes the sentence "it is not ..."."""

    read: Callable[[Any], Any]
    says: str
    schema: Mapping[str, object]

    def described(self, text: str) -> "Rule":
        """Return the rule with a description for the published schema."""
        return self._replace(schema={**self.schema, "description": text})


Rules = Mapping[str, Rule]


def rules_of(kind: type) -> dict[str, Rule]:
    """Return the rules of a NamedTuple's fields, for those that have one, in their order."""
    hints = kind.__annotations__.items()
    return {name: hint.__metadata__[0] for name, hint in hints if hasattr(hint, "__metadata__")}


def misfit(body: Mapping[str, object], rules: Rules) -> str:
    """Say which field of `body` is missing, unknown or not as its rule has it; "" where all fit.

    Its value is not repeated: a forger chooses that.
    """
    for name, rule in rules.items():
        try:
            rule.read(body[name])
        except KeyError:
            return f"{name}: missing"
        except ValueError:
            return f"{name}: not {rule.says}"
    return "an unknown key" if len(body) > len(rules) else ""


def read_fields(
    body: Mapping[str, Any],
    rules: Rules,
    refuse: Callable[[str, str], Exception],
    *,
    optional: Container[str],
) -> dict[str, Any]:
    """Return what each rule reads; raises what `refuse(field, cause)` returns. `optional` may be missing."""
    fields: dict[str, Any] = {}
    for name, rule in rules.items():
        if name in body:
            try:
                fields[name] = rule.read(body[name])
            except ValueError as error:
                raise refuse(name, f"is not {rule.says}") from error
        elif name not in optional:
            raise refuse(name, "is missing")
    return fields


def text(limit: int | None = None, *, least: int = 0, cut: bool = False) -> Rule:
    """Take a text of `least` to `limit` characters; with `cut` a longer one is shortened."""
    most = MAX_INTEGER if limit is None else limit

    def read(value: object) -> str:
        if not isinstance(value, str) or len(value) < least or (len(value) > most and not cut):
            raise ValueError
        return value[:limit] if cut else value

    schema: dict[str, object] = {"type": "string"}
    if least:
        schema["minLength"] = least
    if limit is not None:
        schema["maxLength"] = limit
    bounds = [f"{word} {number}" for word, number in (("at least", least), ("at most", limit)) if number]
    return Rule(read, f"a text of {' and '.join(bounds)} characters" if bounds else "a text", schema)


def pattern(fullmatch: Callable[[str], object], published: str, says: str) -> Rule:
    """Take a text that `fullmatch` matches; `published` is the same pattern, for other languages."""

    def read(value: object) -> str:
        if type(value) is not str or fullmatch(value) is None:
            raise ValueError
        return value

    return Rule(read, says, {"type": "string", "pattern": published})


def count(first: int) -> Rule:
    """Take a whole number from `first` on that every language can hold."""

    def read(value: object) -> int:
        if type(value) is not int or not first <= value <= MAX_INTEGER:
            raise ValueError
        return value

    schema = {"type": "integer", "minimum": first, "maximum": MAX_INTEGER}
    return Rule(read, f"a whole number from {first} to {MAX_INTEGER}", schema)


def constant(number: int) -> Rule:
    """Take this number only."""

    def read(value: object) -> int:
        if type(value) is not int or value != number:
            raise ValueError
        return value

    return Rule(read, str(number), {"const": number, "type": "integer"})


def one_of(names: Iterable[str], make: Callable[[str], str] | None = None) -> Rule:
    """Take one of these texts, and return what `make` makes of it."""
    known = [str(name) for name in names]
    allowed = frozenset(known)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError
        return value if make is None else make(value)

    return Rule(read, f"one of {', '.join(known)}", {"enum": known, "type": "string"})


def optional(rule: Rule) -> Rule:
    """Take what `rule` takes, and null."""
    read, schema = rule.read, dict(rule.schema)
    said = {"description": schema.pop("description")} if "description" in schema else {}
    return Rule(
        lambda value: None if value is None else read(value),
        f"{rule.says}, or null",
        {"anyOf": [schema, {"type": "null"}], **said},
    )


def texts() -> Rule:
    """Take a list of texts."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise ValueError
        return tuple(value)

    return Rule(read, "a list of texts", {"type": "array", "items": {"type": "string"}})


def many(rule: Rule, most: int) -> Rule:
    """Take a list of up to `most` of what `rule` takes."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > most:
            raise ValueError
        return tuple([rule.read(item) for item in value])

    schema = {"type": "array", "items": dict(rule.schema), "maxItems": most}
    return Rule(read, f"a list of at most {most}, each {rule.says}", schema)


def settings(names: Iterable[str] | None = None) -> Rule:
    """Take an object of texts and whole numbers; with `names`, only under these keys."""
    allowed = None if names is None else frozenset(names)

    def read(value: object) -> dict[str, str | int]:
        for key, item in _object(value).items():
            if type(item) not in (str, int) or (allowed is not None and key not in allowed):
                raise ValueError
        return value  # type: ignore[return-value]  # an object of them by now

    items = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    return Rule(read, "an object of settings", {"type": "object", "additionalProperties": items})


def nested(kind: type, description: str) -> Rule:
    """Take an object with the fields of this NamedTuple; what it does not know is left out."""
    return object_of(rules_of(kind), kind._field_defaults, description, kind)  # type: ignore[attr-defined]  # a NamedTuple


def object_of(
    rules: Rules, defaults: Mapping[str, object], description: str, make: Callable[..., Any] = dict
) -> Rule:
    """Take an object with these fields, and return what `make` makes of them; `defaults` may be missing."""

    def read(value: object) -> Any:
        return make(**read_fields(_object(value), rules, _refused, optional=defaults))

    schema = {
        "type": "object",
        "description": description,
        "properties": {
            name: {**rule.schema, **({"default": defaults[name]} if name in defaults else {})}
            for name, rule in rules.items()
        },
        "required": [name for name in rules if name not in defaults],
    }
    return Rule(read, f"an object with {', '.join(rules)}", schema)


def _refused(name: str, cause: str) -> ValueError:
    return ValueError(f"{name} {cause}")


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - what every rule raises
    return value


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _seconds(value: object) -> float:
    if not seconds_fit(value):
        raise ValueError
    return value  # type: ignore[return-value]  # a number by now


def _stamp(value: object) -> str:
    if type(value) is not str or _STAMP.fullmatch(value) is None or not _on_the_calendar(value[:10]):
        raise ValueError
    return value


# Events of one day come in millions.
@lru_cache(maxsize=64)
def _on_the_calendar(day_text: str) -> bool:
    year, month, day = int(day_text[:4]), int(day_text[5:7]), int(day_text[8:])
    if not year or not 1 <= month < len(_DAYS) or not 1 <= day <= _DAYS[month]:
        return False
    # Every fourth year, of full centuries every fourth one (ISO 8601, Gregorian calendar).
    return not (month == _FEBRUARY and day == _LEAP_DAY and year % (4 if year % 100 else 400))


JOB_ID = pattern(_JOB_ID.fullmatch, JOB_ID_PATTERN, "8 lower-case hex characters").described(
    "8 lower-case hex characters"
)
FLAG = Rule(_flag, "true or false", {"type": "boolean"})
OBJECT = Rule(_object, "an object", {"type": "object", "additionalProperties": True})
SECONDS = Rule(
    _seconds,
    f"a positive number of seconds, at most {MAX_SECONDS:.0f}",
    {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS},
)
STAMP = Rule(
    _stamp,
    "a time in UTC, as in 2026-01-31T12:00:00Z",
    {"type": "string", "pattern": f"^{_STAMP.pattern}$", "description": "UTC, ISO 8601, ends in Z; advisory"},
)
