"""The graph of a run's tasks: what is unknown or goes round in circles, as text and as Mermaid. Pure."""

from __future__ import annotations

import contextlib
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from jobwire.core.terminal_text import fit, safe

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from jobwire.coordination.tasks.stored import TaskView

_MARKS = {
    "pending": "·",
    "ready": "○",
    "in_progress": "▶",
    "in_review": "◇",
    "approved": "◆",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "-",
}
# Mermaid's own classes of style: fill and line, readable on light and on dark pages.
_CLASSES = {
    "ready": "fill:#dbeafe,stroke:#1d4ed8,color:#111827",
    "in_progress": "fill:#fef3c7,stroke:#b45309,color:#111827",
    "in_review": "fill:#ede9fe,stroke:#6d28d9,color:#111827",
    "approved": "fill:#ede9fe,stroke:#6d28d9,color:#111827",
    "completed": "fill:#dcfce7,stroke:#15803d,color:#111827",
    "failed": "fill:#fee2e2,stroke:#b91c1c,color:#111827",
    "cancelled": "fill:#e5e7eb,stroke:#6b7280,color:#111827",
    "pending": "fill:#ffffff,stroke:#6b7280,color:#111827",
}
_TITLE = 60
# What would end a quoted label, or be read as markup in it (mermaid.js.org, entity codes).
_ESCAPES = str.maketrans({'"': "#quot;", "#": "#35;", "<": "#lt;", ">": "#gt;", "`": "#96;", "&": "#amp;"})


def unknown(needs: Mapping[str, Sequence[str]], known: Container[str]) -> list[tuple[str, str]]:
    """Return (task, dependency) for each dependency that is neither in the graph nor `known`."""
    return [
        (task, one)
        for task, others in needs.items()
        for one in others
        if one not in needs and one not in known
    ]


def cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tasks of a circle, each waiting for the next and the last for the first; empty: none."""
    try:
        TopologicalSorter(_inside(needs)).prepare()
    except CycleError as error:
        # Of graphlib each comes before the next, and the first stands at both ends.
        return list(error.args[1][:0:-1])
    return []


def layers(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the tasks in layers: each waits only for those of earlier ones. Circles are left out."""
    places = {task: place for place, task in enumerate(needs)}
    sorter = TopologicalSorter(_inside(needs))
    with contextlib.suppress(CycleError):
        sorter.prepare()
    found: list[list[str]] = []
    while layer := sorter.get_ready():
        found.append(sorted(layer, key=places.__getitem__))
        sorter.done(*layer)
    return found


def _inside(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {task: [one for one in others if one in needs] for task, others in needs.items()}


def text_graph(views: Sequence[TaskView], now_ms: int) -> str:
    """Return the tasks in layers, each after those that it waits for."""
    if not views:
        return "there are no tasks"
    by_id = {view.task.task_id: view for view in views}
    lines: list[str] = []
    for layer in layers({name: view.needs for name, view in by_id.items()}):
        lines += [""] * bool(lines)
        lines += [_line(by_id[name], now_ms) for name in layer]
    return "\n".join(lines)


def mermaid(views: Sequence[TaskView], now_ms: int) -> str:
    """Return the graph for Mermaid; nothing that a title says acts there."""
    nodes = {view.task.task_id: f"n{number}" for number, view in enumerate(views)}
    lines = ["flowchart LR"]
    for view in views:
        task = view.task
        label = f"{task.task_id}: {fit(safe(task.title), _TITLE)}".translate(_ESCAPES)
        lines.append(f'    {nodes[task.task_id]}["{label}"]:::{view.status(now_ms)}')
    for view in views:
        lines += [f"    {nodes[one]} --> {nodes[view.task.task_id]}" for one in view.needs if one in nodes]
    lines += [f"    classDef {name} {style}" for name, style in _CLASSES.items()]
    return "\n".join(lines)


def _line(view: TaskView, now_ms: int) -> str:
    task, status = view.task, view.status(now_ms)
    parts = [f"{_MARKS[status]} {task.task_id}", status, task.worker or task.owner or "anybody", task.title]
    if view.missing:
        parts.append(f"<- {', '.join(view.missing)}")
    if task.stuck:
        parts.append("STUCK: what it waits for failed")
    if task.reason and not task.ended:
        parts.append(f"({task.reason})")
    elif task.reason:
        parts.append(f"because {task.reason}")
    return safe("  ".join(parts))
