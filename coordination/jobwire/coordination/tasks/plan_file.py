"""Plans as people write them: Markdown with an objective, numbered acceptance and a table; YAML; JSON. Pure.

All of a file or nothing: what cannot be understood is refused with its line.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from jobwire.coordination.message import split_words
from jobwire.coordination.tasks.new_task import MAX_ADDED, REVIEWS, NewTask, check_new_task
from jobwire.core.errors import ConfigError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DEEPEST = 16
_NUMBERED = re.compile(r"(\d{1,6})[.)]\s+(.+)")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_FENCES = ("```", "~~~")
_SECTIONS = ("objective", "acceptance", "tasks")
_LEVELS = 6
_DIGITS = 6
# What a column may be called, beside its name in JSON.
_NAMES = (
    *("task_id", "title", "owner", "depends_on", "acceptance", "review", "reviewers", "intent", "risk"),
    *("priority", "text", "max_attempts", "retry_delays", "on_failed_dependency"),
)
_COLUMNS = {
    **{name: name for name in _NAMES},
    **dict.fromkeys(("id", "task", "#"), "task_id"),
    **dict.fromkeys(("what", "description"), "title"),
    **dict.fromkeys(("who", "role"), "owner"),
    **dict.fromkeys(("depends", "needs", "after"), "depends_on"),
    "accept": "acceptance",
    "details": "text",
    "attempts": "max_attempts",
    "on_failure": "on_failed_dependency",
}
_NOTHING = frozenset({"", "-", "\u2013", "\u2014", "none"})


def tasks_in(text: str, run_id: str, form: str) -> list[NewTask]:
    """Return the tasks of a plan in `form`: markdown, yaml or json. Raises InvalidInputError."""
    read: dict[str, Callable[[str], list[tuple[str, NewTask]]]] = {
        "markdown": _markdown,
        "json": lambda text: _structured(_json(text)),
        "yaml": lambda text: _structured(_yaml(text)),
    }
    found = read[form](text)
    if not found:
        raise InvalidInputError(
            "the plan has no tasks", hint="a table with the columns ID, Title, Depends on ..."
        )
    if len(found) > MAX_ADDED:
        raise InvalidInputError(f"the plan has {len(found)} tasks, {MAX_ADDED} are allowed", code="too_large")
    checked: list[NewTask] = []
    places: dict[str, str] = {}
    for place, new in found:
        try:
            checked.append(check_new_task(new._replace(run_id=run_id)))
        except InvalidInputError as error:
            raise _at(place, error.message, error.hint) from error
        if new.task_id in places:
            raise _at(place, f"task {new.task_id} is there twice", f"first at {places[new.task_id]}")
        places[new.task_id] = place
    return checked


def _at(place: str, message: str, hint: str = "") -> InvalidInputError:
    return InvalidInputError(f"{place}: {message}", hint=hint, place=place)


# Markdown.


def _markdown(text: str) -> list[tuple[str, NewTask]]:
    sections = _sections(text)
    objective = "\n".join(line for _, line in sections.get("objective", ())).strip()
    accepted = _accepted(sections.get("acceptance", ()))
    if "tasks" not in sections:
        raise InvalidInputError(
            "the plan has no section Tasks",
            hint="## Tasks, and below it a table: | ID | Title | Depends on |",
        )
    return _table(sections["tasks"], objective, accepted)


def _sections(text: str) -> dict[str, list[tuple[int, str]]]:
    """Return the lines of objective, acceptance and tasks with their numbers; a fence holds no headings."""
    sections: dict[str, list[tuple[int, str]]] = {}
    name, fence = "", ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = line.lstrip()[:3]
        if mark in _FENCES:
            fence = "" if fence == mark else fence or mark
        heading = "" if fence else _heading(line)
        if heading:
            word = heading.lower().rstrip(":").split(" ")[0]
            name = word if word in _SECTIONS else ""
            if name in sections:
                raise _at(f"line {number}", f"there is a second section {heading!r}", "put them together")
            if name:
                sections[name] = []
        elif name:
            sections[name].append((number, line))
    return sections


def _heading(line: str) -> str:
    """Return what a line says as a heading, "" where it is none (CommonMark, ATX headings)."""
    words = line.lstrip("#")
    if not 0 < len(line) - len(words) <= _LEVELS or not words.startswith((" ", "\t")):
        return ""
    return words.strip().rstrip("#").strip()


def _accepted(lines: Sequence[tuple[int, str]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for number, line in lines:
        one = _NUMBERED.fullmatch(line.strip())
        if one is not None:
            if int(one[1]) in found:
                raise _at(f"line {number}", f"there is a second acceptance {one[1]}", "number them 1, 2, 3")
            found[int(one[1])] = _unquoted(one[2].strip())
        elif line.strip():
            raise _at(f"line {number}", "an acceptance line without its number", "1. what must hold")
    return found


def _table(
    lines: Sequence[tuple[int, str]], objective: str, accepted: Mapping[int, str]
) -> list[tuple[str, NewTask]]:
    rows = [(number, line.strip()) for number, line in lines if line.strip().startswith("|")]
    if len(rows) < 2 or not all(map(_is_rule, _cells(rows[1][1]))):  # noqa: PLR2004 - head and rule
        raise InvalidInputError(
            "the section Tasks has no table", hint="| ID | Title |, and below it |---|---|"
        )
    columns = _columns(rows[0])
    if len(_cells(rows[1][1])) != len(columns):
        raise _at(f"line {rows[1][0]}", "the rule below the head has another number of columns")
    found: list[tuple[str, NewTask]] = []
    for number, line in rows[2:]:
        cells, place = _cells(line), f"line {number}"
        if len(cells) != len(columns):
            raise _at(place, f"{len(cells)} columns, and {len(columns)} in the head", "- stands for nothing")
        said = {name: cell for name, cell in zip(columns, cells, strict=True) if cell.lower() not in _NOTHING}
        for name in ("task_id", "title"):
            if name not in said:
                raise _at(place, f"a task without its {'id' if name == 'task_id' else name}")
        found.append((place, _of_row(said, place, objective, accepted)))
    return found


def _is_rule(cell: str) -> bool:
    return "-" in cell and not cell.removeprefix(":").removesuffix(":").strip("-")


def _columns(head: tuple[int, str]) -> list[str]:
    number, line = head
    columns: list[str] = []
    for cell in _cells(line):
        word = cell.lower().replace(" ", "_").replace("-", "_")
        if word not in _COLUMNS:
            raise _at(f"line {number}", f"there is no column {cell!r}", f"one of {', '.join(_COLUMNS)}")
        columns.append(_COLUMNS[word])
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise _at(f"line {number}", f"two columns mean {twice[0]}")
    for name in ("task_id", "title"):
        if name not in columns:
            raise _at(f"line {number}", f"there is no column {'ID' if name == 'task_id' else 'Title'}")
    return columns


def _cells(line: str) -> list[str]:
    """Return the cells of a row: a bar behind a backslash is text (GFM, tables)."""
    inner = line.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _of_row(said: Mapping[str, str], place: str, objective: str, accepted: Mapping[int, str]) -> NewTask:
    text = _BREAK.sub("\n", said.get("text", ""))
    review = said.get("review", "none")
    reviewers = split_words(said.get("reviewers", ""))
    if review.lower() in {"yes", *REVIEWS}:
        review = "none" if review.lower() == "none" else "required"
    else:
        # Who is named there is asked.
        reviewers, review = (*reviewers, *split_words(review)), "required"
    return NewTask(
        title=said["title"],
        task_id=said["task_id"].strip("`"),
        text=f"Objective: {objective}\n\n{text}".strip() if objective else text,
        owner=said.get("owner", ""),
        intent=said.get("intent", ""),
        risk=said.get("risk", ""),
        priority=said.get("priority", "normal").lower(),
        acceptance=_lines_of(said.get("acceptance", ""), place, accepted),
        needs=tuple(one.strip("`") for one in split_words(said.get("depends_on", ""))),
        review=review,
        reviewers=reviewers,
        **_limits(said, place),  # type: ignore[arg-type]  # what is not said keeps its default
    )


def _lines_of(cell: str, place: str, accepted: Mapping[int, str]) -> tuple[str, ...]:
    """Return acceptance lines: by their numbers, or as they are, parted by <br>."""
    words = cell.replace(";", ",").split(",")
    if all(word.strip().isdecimal() and len(word.strip()) <= _DIGITS for word in words):
        numbers = [int(word) for word in words]
        for one in numbers:
            if one not in accepted:
                raise _at(place, f"there is no acceptance {one}", "number the lines below Acceptance")
        return tuple(accepted[one] for one in numbers)
    return tuple(_unquoted(one.strip()) for one in _BREAK.split(cell) if one.strip())


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    return inner if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in inner else text  # noqa: PLR2004 - two quotes


def _limits(said: Mapping[str, str], place: str) -> dict[str, object]:
    found: dict[str, object] = {}
    if "max_attempts" in said:
        if not said["max_attempts"].isdecimal() or len(said["max_attempts"]) > 4:  # noqa: PLR2004 - at most 1000
            raise _at(place, f"attempts are {said['max_attempts']!r}", "a whole number")
        found["max_attempts"] = int(said["max_attempts"])
    if "retry_delays" in said:
        try:
            found["retry_delays"] = tuple(float(one) for one in split_words(said["retry_delays"]))
        except ValueError as error:
            raise _at(place, f"retry delays are {said['retry_delays']!r}", "seconds: 30, 120, 600") from error
    if "on_failed_dependency" in said:
        found["on_failed_dependency"] = said["on_failed_dependency"].lower()
    return found


# YAML and JSON.


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the plan is not JSON: {error}") from error


def _yaml(text: str) -> object:
    try:
        import yaml  # noqa: PLC0415 - few plans are YAML
    except ModuleNotFoundError as error:
        raise ConfigError(
            "plans in YAML need PyYAML", hint="pip install pyyaml, or write the plan as Markdown or JSON"
        ) from error
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            # A few bytes of aliases can stand for more than fits into memory.
            if isinstance(event, yaml.AliasEvent):
                raise InvalidInputError("the plan uses YAML's aliases", hint="write out what * stands for")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            # PyYAML's time grows with the square of the depth; a plan is a list of maps of lists.
            if depth > _DEEPEST:
                raise InvalidInputError(f"the plan is nested deeper than {_DEEPEST}", hint="tasks: [...]")
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        words = " ".join(str(error).split())
        raise InvalidInputError(f"the plan is not YAML: {words[:300]}") from error


def _structured(value: object) -> list[tuple[str, NewTask]]:
    """Return the tasks of {objective, acceptance, tasks: [...]}, or of a list of tasks."""
    plan = {"tasks": value} if isinstance(value, list) else value
    if not isinstance(plan, dict) or not isinstance(plan.get("tasks"), list):
        raise InvalidInputError("the plan has no list `tasks`", hint="tasks: [{id: T1, title: ...}]")
    if unknown := [key for key in plan if key not in {"objective", "acceptance", "tasks", "title"}]:
        raise InvalidInputError(f"the plan has an unknown key {unknown[0]!r}")
    objective = _text(plan.get("objective", ""), "objective")
    accepted = dict(enumerate(_texts(plan.get("acceptance", []), "acceptance"), 1))
    return [
        (f"task {number}", _of_item(item, f"task {number}", objective, accepted))
        for number, item in enumerate(plan["tasks"], 1)
    ]


def _of_item(item: object, place: str, objective: str, accepted: Mapping[int, str]) -> NewTask:
    if not isinstance(item, dict):
        raise _at(place, "is no object", "{id: T1, title: ...}")
    said: dict[str, str] = {}
    acceptance: tuple[str, ...] = ()
    for key, value in item.items():
        name = _COLUMNS.get(str(key).lower())
        if name is None:
            raise _at(place, f"there is no field {str(key)[:80]!r}", f"one of {', '.join(_COLUMNS)}")
        if value is None:
            continue
        if name == "acceptance" and isinstance(value, list):
            acceptance = tuple(
                accepted[one] if isinstance(one, int) and one in accepted else _text(one, f"{place}: {key}")
                for one in value
            )
        elif isinstance(value, list):
            said[name] = ",".join(_texts(value, f"{place}: {key}"))
        else:
            said[name] = _text(value, f"{place}: {key}")
    for name in ("task_id", "title"):
        if not said.get(name):
            raise _at(place, f"has no {'id' if name == 'task_id' else name}")
    new = _of_row(said, place, objective, accepted)
    return new._replace(acceptance=acceptance) if acceptance else new


def _text(value: object, field: str) -> str:
    # YAML reads 1.1 as a number, and yes as true.
    if isinstance(value, bool):
        return "required" if value else "none"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidInputError(f"{field} is no text", hint="quote it")


def _texts(value: object, field: str) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInputError(f"{field} is no list")
    return [_text(one, field) for one in value]
