"""Labels of a job: what its delegator wants figures by, as `team=docs`."""

import re
from collections.abc import Mapping

from jobwire.core.errors import InvalidInputError
from jobwire.core.fields import Rule

MAX_LABELS = 16
MAX_LABEL_VALUE = 64
# Such a name is a column's, a Prometheus label's, and needs no quoting anywhere.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_UNPRINTABLE = "[\x00-\x1f\x7f-\x9f\ud800-\udfff]"


def _fits(value: object) -> bool:
    """Tell whether `value` is a label's value: one printable line, not empty."""
    return type(value) is str and 0 < len(value) <= MAX_LABEL_VALUE and not re.search(_UNPRINTABLE, value)


def _read(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MAX_LABELS:
        raise ValueError
    for name, text in value.items():
        if type(name) is not str or _NAME.fullmatch(name) is None or not _fits(text):
            raise ValueError
    return value


LABELS = Rule(
    _read,
    f"an object of at most {MAX_LABELS} labels",
    {
        "type": "object",
        "maxProperties": MAX_LABELS,
        "propertyNames": {"pattern": f"^{_NAME.pattern}$"},
        "additionalProperties": {"type": "string", "minLength": 1, "maxLength": MAX_LABEL_VALUE},
    },
)


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise InvalidInputError, saying which label is not acceptable and why."""
    if len(labels) > MAX_LABELS:
        raise InvalidInputError(f"{len(labels)} labels, {MAX_LABELS} are allowed", hint="leave some out")
    for name, value in labels.items():
        if type(name) is not str or _NAME.fullmatch(name) is None:
            raise InvalidInputError(
                f"not a label's name: {str(name)[:40]!r}",
                hint="a lower-case letter, then up to 31 of a-z 0-9 _",
            )
        if not _fits(value):
            raise InvalidInputError(
                f"the label {name} is not 1 to {MAX_LABEL_VALUE} printable characters",
                hint="shorten it; leave out line breaks and control characters",
            )


def label_pairs(pairs: list[str]) -> dict[str, str]:
    """Return the labels in NAME=VALUE texts; raises InvalidInputError, also for a name given twice."""
    labels: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or name in labels:
            raise InvalidInputError(
                f"not NAME=VALUE: {pair[:40]!r}"
                if not separator
                else f"the label {name[:40]!r} is given twice",
                hint="for example --label team=docs",
            )
        labels[name] = value
    return labels
