"""How a message reaches a command: as files that its environment names, never as a part of a command line.

JOBWIRE_MESSAGE       the message as a text to read, which is also the command's standard input
JOBWIRE_MESSAGE_JSON  the same with all its fields
JOBWIRE_RECEIPT       what the command writes there is its receipt; else the end of its output is
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobwire.coordination.blobs import BlobFolder
from jobwire.coordination.handling.assignment import Assignment
from jobwire.coordination.store import CoordinationStore
from jobwire.storage.durable import replace_atomically
from jobwire.storage.files import SystemFiles

RECEIPT = "JOBWIRE_RECEIPT"
_TEXT, _JSON, _RECEIPT = "message.md", "message.json", "receipt.md"


class MessageFiles(NamedTuple):
    """Where the message of a job lies, and where its receipt is looked for."""

    text: Path
    json: Path
    receipt: Path

    def environment(self) -> dict[str, str]:
        """Return the variables that name them."""
        return {
            "JOBWIRE_MESSAGE": str(self.text),
            "JOBWIRE_MESSAGE_JSON": str(self.json),
            RECEIPT: str(self.receipt),
        }


def write_message(folder: Path, text: str, fields: Mapping[str, object], *, attempt: int) -> MessageFiles:
    """Write a message into a job's folder, mode 0600. Each attempt has a receipt of its own."""
    folder = folder.resolve()
    files = MessageFiles(folder / _TEXT, folder / _JSON, folder / f"{attempt}.{_RECEIPT}")
    replace_atomically(
        [
            (str(files.text), text.encode()),
            (str(files.json), json.dumps(fields, ensure_ascii=False, indent=2).encode() + b"\n"),
        ],
        files=SystemFiles(),
    )
    return files


def text_of(store: CoordinationStore, one: Assignment) -> str:
    """Return an assignment as an agent reads it: what, from whom, and what counts as done."""
    message = one.message
    about = [f"from {message.from_agent}", f"kind {message.kind}"]
    if message.type != message.kind:
        about.append(message.type)
    if message.task_id:
        about.append(f"task {message.task_id}")
    if message.risk:
        about.append(f"risk {message.risk}")
    about += [f"thread {message.thread_id}", f"job {one.token.job_id}"]
    parts = [f"# {message.summary}", " · ".join(about)]
    if one.delivery.attempts > 1:
        said = one.delivery.last_error
        parts.append(f"This is try {one.delivery.attempts} of {one.handled.tries.most}. Before: {said}")
    body = message.full_body(BlobFolder(store.home)).strip("\n")
    if body and body != message.summary:
        parts.append(body)
    payload = message.full_payload(BlobFolder(store.home))
    if payload is not None:
        parts.append(f"Payload:\n\n    {payload}")
    accept = json.loads(message.acceptance)
    if accept:
        parts.append(
            "Accepted when:\n\n" + "\n".join(f"{n}. {line}" for n, line in enumerate(accept, start=1))
        )
    return "\n\n".join(parts) + "\n"
