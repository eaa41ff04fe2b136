"""What a worker wants to say, checked and cleaned before it becomes an event."""

from collections.abc import Mapping
from typing import NamedTuple

from jobwire.core.canonical import canonical_json
from jobwire.core.errors import InvalidInputError
from jobwire.core.redaction import ENVIRONMENT, MASK, PATH, SECRET, Redactor, names_secret
from jobwire.delivery.signing import Draft
from jobwire.jobs.event import MAX_DETAIL, MAX_PAYLOAD, check_detail

_NOT_UTF8 = "encoding"
_WORDS = {
    PATH: "a path",
    SECRET: "a secret",
    ENVIRONMENT: "the value of a secret-looking variable",
    _NOT_UTF8: "bytes that are not UTF-8",
}


class Cleaned(NamedTuple):
    """A draft that may leave the host, and the kinds of what was replaced in it, for its author."""

    draft: Draft
    in_detail: tuple[str, ...] = ()
    in_data: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """Return what to tell the author: a sentence each for detail and data, without what was found."""
        said = []
        if self.in_detail:
            said.append(f"the detail held {_words(self.in_detail)}: it is sent as {self.draft.detail!r}")
        if self.in_data:
            said.append(f"the data held {_words(self.in_data)}: {MASK} is sent instead")
        return said


def clean(draft: Draft, redactor: Redactor) -> Cleaned:
    """Return `draft` without paths and secrets in its detail, and without secrets in its data.

    A path in the detail is cut to its last part, a secret is replaced by MASK. Texts in the data, at any
    depth, may hold paths (a result's place is a figure like any other); one with a secret in it is
    replaced whole, since programs read it, and so is a text under a name such as `password`. Keys count
    as texts. Raises InvalidInputError for what no event can carry.
    """
    check_detail(draft.detail)
    _check_data(draft.data)
    detail, in_detail = _clean_detail(draft.detail, redactor)
    found: set[str] = set()
    data = _clean_object(draft.data, redactor, found)
    return Cleaned(Draft(draft.event, detail, data), in_detail, tuple(sorted(found)))


def refuse_unclean(cleaned: Cleaned) -> None:
    """Raise InvalidInputError naming the kinds of what was replaced, where anything was."""
    for where, kinds in (("detail", cleaned.in_detail), ("data", cleaned.in_data)):
        if kinds:
            raise InvalidInputError(
                f"the {where} holds what must not be published: {_words(kinds)}",
                hint="leave it out; without --strict it is replaced",
                kinds=list(kinds),
            )


def _words(kinds: tuple[str, ...]) -> str:
    return " and ".join(_WORDS[kind] for kind in kinds)


def _check_data(data: Mapping[str, object]) -> None:
    """Refuse what is no JSON or too large, before anybody walks through it."""
    size = len(canonical_json(dict(data)))
    if size > MAX_PAYLOAD:
        raise InvalidInputError(
            f"the data has {size} bytes, {MAX_PAYLOAD} are allowed for the whole event",
            hint="keep bulk results in files and put their summary into --data",
        )


def _clean_detail(detail: str, redactor: Redactor) -> tuple[str, tuple[str, ...]]:
    # What is no character in UTF-16 is none in UTF-8: the halves of a pair are joined, others replaced.
    text = detail
    if not detail.isascii():
        text = detail.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    kinds = {leak.kind for leak in redactor.find(text)}
    if text != detail:
        kinds.add(_NOT_UTF8)
    # A mask may be longer than what it stands for.
    return redactor.redact(text)[:MAX_DETAIL], tuple(sorted(kinds))


def _clean_object(data: Mapping[str, object], redactor: Redactor, found: set[str]) -> dict[str, object]:
    clean_data: dict[str, object] = {}
    for key, value in data.items():
        name = _clean_text(key, redactor, found)
        if name in clean_data:
            name = f"{name} {len(clean_data)}"
        if isinstance(value, str) and value not in {"", MASK} and names_secret(key):
            found.add(SECRET)
            clean_data[name] = MASK
        else:
            clean_data[name] = _clean_value(value, redactor, found)
    return clean_data


def _clean_value(value: object, redactor: Redactor, found: set[str]) -> object:
    if isinstance(value, str):
        return _clean_text(value, redactor, found)
    if isinstance(value, Mapping):
        return _clean_object(value, redactor, found)
    if isinstance(value, (list, tuple)):
        return [_clean_value(item, redactor, found) for item in value]
    return value


def _clean_text(text: str, redactor: Redactor, found: set[str]) -> str:
    kinds = {leak.kind for leak in redactor.find_secrets(text)}
    found |= kinds
    return MASK if kinds else text
