"""`jobwire skill`: the text that tells an agent how to take part."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

from jobwire.core.exit_codes import ExitCode

if TYPE_CHECKING:
    from argparse import Namespace


def run(args: Namespace) -> int:
    """Print the text for one role."""
    text = skill_text(args.role)
    if args.json:
        said = {"role": args.role, "text": text, "commands": commands_in(text)}
        text = json.dumps({"ok": True, "command": "skill", **said}) + "\n"
    print(text, end="")
    return int(ExitCode.OK)


def skill_text(role: str) -> str:
    """Return the text for a role."""
    return resources.files("jobwire.cli").joinpath("skills", f"{role}.md").read_text("utf-8")


def commands_in(text: str) -> list[str]:
    """Return the command lines that a text teaches, in its order."""
    blocks = text.split("```sh\n")[1:]
    return [line for block in blocks for line in block.partition("```")[0].splitlines() if line]
