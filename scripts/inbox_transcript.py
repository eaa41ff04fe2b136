#!/usr/bin/env python3
"""Make the transcript in docs/inbox.md: run its commands in an empty folder and write what they print.

    python scripts/inbox_transcript.py [--check]

Ids of threads and messages keep the form in which they stand there; times and job ids are not compared.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "inbox.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ID = re.compile(r"\b[tm]-[0-9a-f]{16,20}\b")
_VARYING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b[0-9a-f]{8}\b")
_INBOX = str(Path(sys.executable).parent / "inbox")


def made(block: str) -> str:
    """Return the block with what its commands print now."""
    shown = list(dict.fromkeys(_ID.findall(block)))
    known: dict[str, str] = {}  # as it is there -> as it is now
    lines: list[str] = []
    environ = {name: value for name, value in os.environ.items() if not name.startswith("JOBWIRE_")}
    with tempfile.TemporaryDirectory() as folder:
        for text in re.findall(r"^\$ inbox (.*)$", block, re.MULTILINE):
            words = shlex.split(_ID.sub(lambda match: known.get(match[0], match[0]), text))
            done = subprocess.run(
                [sys.executable, _INBOX, *words],
                cwd=folder,
                env={**environ, "COLUMNS": "80"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            for new in _ID.findall(done.stdout):
                if new not in known.values():
                    old = next((one for one in shown if one[0] == new[0] and one not in known), new)
                    known[old] = new
            output = done.stdout
            for old, new in known.items():
                output = output.replace(new, old)
            lines += [f"$ inbox {text}", *output.splitlines()]
    return "\n".join(lines) + "\n"


def comparable(block: str) -> str:
    """Return a block without what differs from run to run, and with each run of blanks as one."""
    return re.sub(r" +", " ", _VARYING.sub("X", block))


def main() -> int:
    """Write the page, or with --check tell whether it is as it would be written."""
    page = PAGE.read_text()
    block = _BLOCK.search(page)
    if block is None:
        print(f"{PAGE} has no console block")
        return 1
    now = made(block[1])
    if "--check" in sys.argv[1:]:
        same = comparable(now) == comparable(block[1])
        print("as it is there" if same else now)
        return 0 if same else 1
    PAGE.write_text(page.replace(block[1], now))
    return 0


if __name__ == "__main__":
    sys.exit(main())
