"""What may be said: no secret and no path in the detail, no secret in the data, nothing echoed."""

from collections.abc import Mapping

import pytest

from jobwire.core.errors import InvalidInputError
from jobwire.core.redaction import MASK, Redactor
from jobwire.delivery.signing import Draft
from jobwire.publisher.cleaning import Cleaned, clean, refuse_unclean
from jobwire.testing.growth import grows_faster_than_its_input

REDACTOR = Redactor({"DEPLOY_TOKEN": "zq81-very-hidden", "LANG": "C.UTF-8"})


@pytest.mark.parametrize(
    ("draft", "sent"),
    [
        (Draft("progress", "see /home/someone/notes.txt"), Draft("progress", "see …/notes.txt")),
        (Draft("progress", "used zq81-very-hidden"), Draft("progress", f"used {MASK}")),
        (Draft("progress", "password=hunter2hunter2"), Draft("progress", MASK)),
        (
            Draft("progress", "", {"a": {"b": ["x", "its zq81-very-hidden"]}}),
            Draft("progress", "", {"a": {"b": ["x", MASK]}}),
        ),
        (
            Draft("progress", "", {"header": "Bearer abcdefghijklmnop"}),
            Draft("progress", "", {"header": MASK}),
        ),
        (Draft("progress", "", {"db_password": "hunter2"}), Draft("progress", "", {"db_password": MASK})),
        (
            Draft("progress", "", {"zq81-very-hidden": 1, "x": {"zq81-very-hidden!": 2}}),
            Draft("progress", "", {MASK: 1, "x": {MASK: 2}}),
        ),
        (Draft("progress", "caf\udce9 \ud83d\ude00"), Draft("progress", "caf\ufffd \U0001f600")),
    ],
)
def test_a_leak_is_replaced_or_refused_and_never_echoed(draft: Draft, sent: Draft) -> None:
    """What must not leave the host is replaced with a warning; strictly it is refused; neither repeats it."""
    cleaned = clean(draft, REDACTOR)
    assert cleaned.draft == sent
    with pytest.raises(InvalidInputError) as refused:
        refuse_unclean(cleaned)
    warnings = cleaned.warnings()
    assert len(warnings) == 1
    for secret in ("hidden", "hunter2", "someone", "abcdefgh"):
        assert secret not in f"{refused.value} {warnings}"
    assert clean(sent, REDACTOR) == Cleaned(sent)


def test_two_keys_that_are_secrets_stay_two() -> None:
    """Masked keys of one object do not take each other's place."""
    data = {"a zq81-very-hidden": 1, "b zq81-very-hidden": 2}
    assert list(clean(Draft("progress", "", data), REDACTOR).draft.data.values()) == [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        {"report": "/srv/out/report.html", "files": [1, None, True]},
        {"input_tokens": 1200, "token": None, "password": ""},
    ],
)
def test_figures_and_places_may_be_said(data: Mapping[str, object]) -> None:
    """A place in the data is a figure like any other, and so is a number under a name like a secret's."""
    cleaned = clean(Draft("completed", "done", data), REDACTOR)
    assert cleaned == Cleaned(Draft("completed", "done", data))
    refuse_unclean(cleaned)
    assert cleaned.warnings() == []


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("detail", "data"),
    [
        ("x" * 1025, {}),
        ("", {"a": _nested(10_000)}),
        ("", {"a": "x" * 70_000}),
        ("", {"a": "\udcff"}),
        ("", {"a\udcff": 1}),
        ("", {"a": float("nan")}),
        ("", {"a": 2**53}),
        ("", {"a": {1, 2}}),
    ],
)
def test_what_no_event_can_carry_is_refused_before_it_is_looked_through(
    detail: str, data: Mapping[str, object]
) -> None:
    """Length, depth, size and kind are checked first: a recursion or a long search is not started."""
    with pytest.raises(InvalidInputError):
        clean(Draft("progress", detail, data), REDACTOR)


def test_a_mask_never_makes_a_detail_too_long() -> None:
    """A detail that fits goes out, also where what replaces its parts is longer than they were."""
    detail = "/aa " * 256
    sent = clean(Draft("progress", detail), REDACTOR).draft.detail
    assert (len(detail), len(sent)) == (1024, 1024)


def test_many_small_texts_are_cleaned_in_linear_time() -> None:
    """The data's texts and the secret-looking variables do not multiply."""

    def growing(size: int) -> tuple[Draft, Redactor]:
        environ = {f"TOKEN_{number}": f"secret-value-{number}" for number in range(size)}
        return Draft("progress", "", {"rows": [f"secret-{n}" for n in range(size)]}), Redactor(environ)

    assert not grows_faster_than_its_input(growing, lambda given: clean(*given))
