"""What must not leave the host is found, shortened or masked, whatever the text, in linear time."""

import re
from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.core.redaction import ENVIRONMENT, MASK, PATH, SECRET, Redactor
from jobwire.testing.growth import grows_faster_than_its_input

ENVIRON = {"DEPLOY_TOKEN": "s3cr3tvalue", "LANG": "leaked", "A_SECRET": "abcdef"}
SECRETS = [
    "password=hunter2",
    "API_KEY: abcdef",
    "my_token='abc def'",
    'password: "not closed anywhere',
    "--client-secret = abc",
    '{"password": "hunter2"}',
    "Authorization: Bearer abcdefgh12345678",
    "AKIAABCDEFGHIJKLMNOP",
    "ghp_abcdefghijklmnop0123",
    "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln",
    "x-eyJ-eyJhbGciOiJI.eyJzdWIiOiIx.",
    "https://user:pass@host/x",
    "redis://:pass@host/0",
    "https://user:p@ss@host/x",
    "the value s3cr3tvalue there",
]
PATHS = {
    "wrote /home/me/result.txt": "wrote …/result.txt",
    "see /etc": "see …/etc",
    "in /srv/work/": "in …/work",
    "~/notes.md": "…/notes.md",
    "~user/x": "…/x",
    "~/ is full": "… is full",
    "C:\\Users\\me": "…/me",
    "file:///srv/x": "…/x",
    '"/a b" and (/usr/bin/python3)': '"/a b" and (…/python3)',
}
ORDINARY = [
    "3/4 done",
    "src/core/event.py",
    "5 MB /s",
    "and/or",
    "http://x.test/a/b",
    "50% of 1/2",
    "token bucket",
    "…/x.py",
    "",
]
# The rules as one would write them: right, and slow on long texts, which is why the product's differ.
PLAIN: tuple[tuple[str, str], ...] = (
    (PATH, r"(?<![\w:/.~…-])~?/(?:[\w.@+-]{2,}|[\w.@+-]+/[\w.@+-]+)(?:/[\w.@+-]*)*"),
    (PATH, r"(?<!\w)~[\w-]*/[^\s'\"]*"),
    (PATH, r"(?<!\w)file://[^\s'\"]+"),
    (PATH, r"(?<!\w)[A-Za-z]:\\[^\s'\"]*"),
    (
        SECRET,
        (
            r"(?i)\b[\w-]*(?:password|passwd|secret|token|api[_-]?key|credential)[\w-]*[\"']?\s*[=:]\s*"
            r"(?:\"[^\"]*\"|'[^']*'|[\"'][^\n]+|[^\s,;]+)"
        ),
    ),
    (SECRET, r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/_.=-]{8,}"),
    (SECRET, r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (SECRET, r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-)[A-Za-z0-9_-]{16,}"),
    (SECRET, r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    (SECRET, r"(?<=://)[^\s/@:]*:[^\s/]+(?=@)"),
    (SECRET, r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END .*?-----|.*)"),
)
FRAGMENTS = st.sampled_from(
    [
        *("/", "//", "~", "a", "bc", ".", "-", "_", ":", "=", " ", "  ", "\n", '"', "'", ",", "@", "\\", "…"),
        *("é", "K", "password", "Token", "api-key", "secret", "credential", "bearer ", "Basic ", "abcdef"),
        *("abcdefgh", "eyJ", "eyJabcdefgh", "AKIA", "ABCDEFGHIJKLMNOP", "ghp_", "sk-", "abcdefghijklmnop"),
        *(
            "://",
            "file://",
            "C:\\",
            "-----BEGIN ",
            "RSA PRIVATE KEY-----",
            "-----END ",
            "-----",
            "s3cr3tvalue",
        ),
    ]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=24).map("".join))


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_masked_for_good(text: str) -> None:
    """What is called a secret, looks like one or is a secret variable's value is replaced by the mask."""
    redactor = Redactor(ENVIRON)
    assert {leak.kind for leak in redactor.find(text)} & {SECRET, ENVIRONMENT}
    for clean in (redactor.redact(text), redactor.mask_secrets(text)):
        assert MASK in clean
        for word in ("hunter2", "abc", "not closed", "sdWIi", "pass@", "ss@", "s3cr3t"):
            assert word not in clean
        assert redactor.find_secrets(clean) == []


@pytest.mark.parametrize(("text", "short"), PATHS.items())
def test_paths_are_cut_to_their_last_part(text: str, short: str) -> None:
    """A path keeps its last part, which tells a reader what is meant, and no folder."""
    redactor = Redactor(ENVIRON)
    assert {leak.kind for leak in redactor.find(text)} <= {PATH}
    assert redactor.redact(text) == short
    assert redactor.find(short) == []
    assert redactor.mask_secrets(text) == text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_pass(text: str) -> None:
    """Fractions, relative paths, URLs and plain words are not leaks."""
    assert Redactor({}).find(text) == []
    assert Redactor({}).redact(text) == text


def test_a_private_key_goes_whole() -> None:
    """Not only the first line of a PEM key is masked; one without an end is masked to the text's end."""
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"
    assert Redactor({}).redact(f"it is {key} now") == f"it is {MASK} now"
    assert Redactor({}).redact(f"it is {key[:40]}") == f"it is {MASK}"


def test_the_longest_of_several_values_is_masked() -> None:
    """Where one variable's value begins like another's, all of the longer one goes."""
    environ = {"A_KEY": "abcdef", "B_KEY": "abcdef-ghijkl", "C_KEY": "abcdef-zz", "D_KEY": "abcdef-ghi-mm"}
    for value in environ.values():
        assert Redactor(environ).redact(f"<{value}>") == f"<{MASK}>"
    assert Redactor(environ).redact("<abcdef-other>") == f"<{MASK}other>"
    assert Redactor(environ).find("abcde") == []


def test_a_long_value_is_masked_whole() -> None:
    """Also a value of many kilobytes leaves nothing of itself."""
    value = "".join(f"{number:05d}" for number in range(20_000))
    assert Redactor({"API_KEY": value}).redact(f"see {value} there") == f"see {MASK} there"


@given(TEXTS)
def test_the_same_is_found_as_by_the_plain_rules(text: str) -> None:
    """What the plain patterns and the variables' values cover is covered, and nothing else."""
    found = {(leak.kind, place) for leak in Redactor(ENVIRON).find(text) for place in range(*leak[1:])}
    assert found == _plainly_found(text, {"DEPLOY_TOKEN": "s3cr3tvalue", "A_SECRET": "abcdef"})


@given(TEXTS)
def test_what_was_redacted_holds_no_leak(text: str) -> None:
    """Redaction reaches a fixed point, and leaves what it does not replace as it was."""
    redactor = Redactor(ENVIRON)
    clean = redactor.redact(text)
    assert redactor.find(clean) == []
    assert redactor.find_secrets(redactor.mask_secrets(text)) == []
    if not redactor.find(text):
        assert clean == text


HOSTILE = {
    **{fragment: fragment for fragment in ("a-", "deadbeef ", "QUJDREVG", "secret-", "token: ", "password ")},
    **{
        fragment: fragment for fragment in ("eyJabcdefgh-", "eyJabcdefgh.", "x:y@://", "://a:", "-----BEGIN ")
    },
    **{fragment: fragment for fragment in ("-----BEGIN PRIVATE KEY-----", "~a", "~/", "/a", "//", " /a/b")},
    **{fragment: fragment for fragment in ("file://", "C:\\", "bearer ", "ghp_", 'token="', "token='", '"')},
    **{fragment: fragment for fragment in ("AKIA", "=", ": ", "s3cr3t", "s3cr3tvalue", "password=x ", "---")},
}


@pytest.mark.parametrize("fragment", HOSTILE.values(), ids=HOSTILE)
def test_the_time_is_linear_in_the_text(fragment: str) -> None:
    """A text of twice the length takes about twice the time, whatever a stranger repeats in it."""
    redactor = Redactor(ENVIRON)

    def hostile(size: int) -> str:
        return (fragment * (size // len(fragment) + 1))[:size]

    for end in ("", "!", "\n", '"'):
        assert not grows_faster_than_its_input(hostile, partial(_redact_with, redactor, end))


@pytest.mark.parametrize("alike", ["{0}", "secret-value-{0}", "{0:x>40}", "same-head-{0:0>300}"])
def test_the_time_is_linear_in_the_environment(alike: str) -> None:
    """Twice the secret-looking variables take about twice the time, also where all of them begin alike."""
    text = alike.format("")[:20] * 200

    def environ(size: int) -> Mapping[str, str]:
        return {f"TOKEN_{number}": alike.format(10**6 + number) for number in range(size)}

    assert not grows_faster_than_its_input(environ, lambda variables: Redactor(variables).redact(text))


def _redact_with(redactor: Redactor, end: str, text: str) -> str:
    return redactor.redact(text + end)


def _plainly_found(text: str, environ: Mapping[str, str]) -> set[tuple[str, int]]:
    found = {
        (kind, place)
        for kind, pattern in PLAIN
        for match in re.finditer(pattern, text)
        for place in range(*match.span())
    }
    for value in environ.values():
        starts = [start for start in range(len(text)) if text.startswith(value, start)]
        found |= {(ENVIRONMENT, start + step) for start in starts for step in range(len(value))}
    return found
