"""What a turn used, where the agent's transcript tells: the keys of `data` that the metrics add up."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from jobwire.core.errors import StorageError
from jobwire.storage.durable import replace_atomically
from jobwire.storage.files import SystemFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobwire.hooks.desk import Desk
    from jobwire.hooks.signs import Said

# Of a transcript that grew by more than this since the last turn, its end.
_MOST = 8 * 1024 * 1024
_MAX_TOKENS = 10**9
_MARK = "usage.json"


def used_since(desk: Desk, said: Said) -> dict[str, object]:
    """Return what was used since it was asked last; {} where nothing tells.

    How far the transcript was read is kept by the conversation: beside the job's output, or in the session's
    folder, where one job follows another in it.
    """
    if not said.transcript:
        return {}
    mark = os.path.join(desk.folder, _MARK)  # noqa: PTH118 - start-up
    places = _places(mark)
    try:
        lines, end = _lines_from(said.transcript, places.get(said.conversation, 0))
    except OSError:
        return {}
    used = usage_in(lines, desk.kind.name)
    if used:
        _keep(mark, {**places, said.conversation: end})
    return used


def usage_in(lines: Iterable[bytes], agent: str) -> dict[str, object]:
    """Return tokens and model in the lines of a transcript; each message counts once. Pure."""
    counted: dict[str, tuple[int, int]] = {}
    model = ""
    for number, line in enumerate(lines):
        entry = _object(line)
        if agent == "codex":
            found = _codex(entry)
            name = str(number)
        else:
            message = entry.get("message")
            message = message if isinstance(message, dict) else {}
            found = _claude(message)
            # A message is written once for each of its parts.
            name = str(message.get("id") or number)
            if isinstance(message.get("model"), str) and not message["model"].startswith("<"):
                model = message["model"][:64]
        if found is not None:
            counted[name] = found
    if not counted:
        return {}
    used: dict[str, object] = {
        "tokens_in": min(sum(one for one, _ in counted.values()), _MAX_TOKENS),
        "tokens_out": min(sum(one for _, one in counted.values()), _MAX_TOKENS),
    }
    return {**used, "model": model} if model else used


def _claude(message: Mapping[str, object]) -> tuple[int, int] | None:
    usage = message.get("usage")
    if message.get("role") != "assistant" or not isinstance(usage, dict):
        return None
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_count(usage, name) for name in names), _count(usage, "output_tokens")


def _codex(entry: Mapping[str, object]) -> tuple[int, int] | None:
    payload = entry.get("payload")
    info = payload.get("info") if isinstance(payload, dict) and payload.get("type") == "token_count" else None
    usage = info.get("last_token_usage") if isinstance(info, dict) else None
    if not isinstance(usage, dict):
        return None
    return _count(usage, "input_tokens"), _count(usage, "output_tokens")


def _count(usage: Mapping[str, object], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else 0


def _object(line: bytes) -> dict[str, object]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _lines_from(path: str, start: int) -> tuple[list[bytes], int]:
    """Return the whole lines behind `start`, and where the last of them ends. Raises OSError."""
    # Never blocked by what is no file.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return [], start
        size = found.st_size
        begin = max(start if start <= size else 0, size - _MOST)
        file.seek(begin)
        raw = file.read(size - begin)
    end = raw.rfind(b"\n") + 1
    lines = raw[:end].splitlines()
    return lines[1:] if begin > start else lines, begin + end


def _places(mark: str) -> dict[str, int]:
    try:
        with open(mark, "rb") as file:  # noqa: PTH123 - start-up
            places = json.loads(file.read(64 * 1024))
    except (OSError, ValueError):
        return {}
    if not isinstance(places, dict):
        return {}
    return {name: place for name, place in places.items() if type(place) is int and place >= 0}


def _keep(mark: str, places: Mapping[str, int]) -> None:
    """Write how far it was read: lost with the machine's power, a turn counts twice."""
    latest = json.dumps(dict(list(places.items())[-64:])).encode()
    with suppress(StorageError):
        replace_atomically([(mark, latest)], files=SystemFiles())
