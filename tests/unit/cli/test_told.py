"""With --json the commands of agents print one object on stdout on every path, whoever refuses."""

import json
from pathlib import Path

import pytest

from jobwire.cli.main import main
from jobwire.testing import new_home


@pytest.mark.parametrize(
    "words",
    [
        ["ask"],
        ["ask", "push?"],
        ["answer", "0a1b2c3d", "yes"],
        ["feed"],
        ["feed", "--nope"],
        ["inbox", "fetch", "--agent", "builder"],
        ["inbox", "fetch", "--nope"],
        ["lock", "list"],
        ["board", "list"],
        ["submit"],
        ["submit", "--agent-session", "builder", "do it"],
        ["autopilot", "--agent", "builder"],
        ["skill", "nobody"],
    ],
)
def test_every_refusal_is_one_object_with_code_and_hint(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words that are wrong, and a home that is not there: code, message, hint and exit code."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "DB", "TICKET", "JOB"):
        monkeypatch.delenv(f"JOBWIRE_{name}", raising=False)
    try:
        code = main([*words, "--json"])
    except SystemExit as end:
        code = int(end.code or 0)
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["error"]["exit_code"]) == (False, code)
    assert code in {30, 40}
    assert said["error"]["code"] in {"invalid_input", "not_found"}
    assert said["error"]["message"]


def test_a_job_that_ended_asks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its end is the reason that programs are told, not a lease."""
    home = str(new_home(tmp_path))
    assert main(["registry", "register", "--home", home, "--json"]) == 0
    job = json.loads(capsys.readouterr().out)["job_id"]
    for event in ("started", "completed"):
        main(["publish", "--home", home, "--job", job, "--event", event, "--port", "1", "--attempts", "1"])
    capsys.readouterr()
    assert main(["ask", "push?", "--home", home, "--job", job, "--json"]) == 20
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "already_terminal"
