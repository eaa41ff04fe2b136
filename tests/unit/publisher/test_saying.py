"""What may be said: no secret and no path in the detail, no secret in the data, nothing echoed."""

import pytest

from jobwire.core.errors import InvalidInputError
from jobwire.core.redaction import MASK
from jobwire.publisher.saying import Saying, redact_secrets, refuse_secrets

ENVIRON = {"DEPLOY_TOKEN": "zq81-very-hidden", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    "saying",
    [
        Saying("progress", "see /home/someone/notes.txt"),
        Saying("progress", "used zq81-very-hidden"),
        Saying("progress", "password=hunter2hunter2"),
        Saying("progress", "", {"a": {"b": ["x", "zq81-very-hidden"]}}),
        Saying("progress", "", {"header": "Bearer abcdefghijklmnop"}),
    ],
)
def test_a_leak_is_refused_and_never_echoed(saying: Saying) -> None:
    """What must not leave the host is named by its kind only, and --redact masks it."""
    with pytest.raises(InvalidInputError) as refused:
        refuse_secrets(saying, ENVIRON)
    for secret in ("hidden", "hunter2", "someone", "abcdefgh"):
        assert secret not in str(refused.value)
    masked = redact_secrets(saying, ENVIRON)
    assert refuse_secrets(masked, ENVIRON) == masked
    assert MASK in str(masked)


def test_data_may_hold_paths() -> None:
    """A place in the data is a figure like any other."""
    saying = Saying("completed", "done", {"report": "/srv/out/report.html", "files": [1, None, True]})
    assert refuse_secrets(saying, ENVIRON) == saying
    assert redact_secrets(saying, ENVIRON) == saying
