"""Plans as people write them: all of a file is understood, or it is refused with its line."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobwire.coordination.tasks.plan_file import tasks_in
from jobwire.core.errors import InvalidInputError

PLAN = """\
# Parser

## Objective
It takes all samples.

```
## Tasks
```

## Acceptance
1. `make test`
2) it is fast

## Tasks
Some words.

| ID | Title | Owner | Depends on | Accept | Review | On failure |
|:---|-------|:-----:|-----------:|--------|--------|---|
| T1 | write it \\| now | builder | - | 1 | ann, bob | skip |
| `T2` | measure | | T1 | 1, 2 | none | - |
| 1.1 | ship | ann | T1, T2 | `make x`<br>looks good | required | fail |
"""


def test_a_plan_in_markdown_is_read_whole() -> None:
    """Objective, numbered acceptance and table become tasks; fences hold no headings."""
    first, second, third = tasks_in(PLAN, "r", "markdown")
    assert (first.task_id, first.title, first.owner, first.run_id) == ("T1", "write it | now", "builder", "r")
    assert (first.acceptance, first.review, first.reviewers) == (("make test",), "required", ("ann", "bob"))
    assert first.on_failed_dependency == "skip"
    assert first.text.startswith("Objective: It takes all samples.")
    assert (second.task_id, second.owner, second.needs, second.review) == ("T2", "", ("T1",), "none")
    assert second.acceptance == ("make test", "it is fast")
    assert (third.task_id, third.needs, third.acceptance) == ("1.1", ("T1", "T2"), ("make x", "looks good"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("| 1 | ann, bob | skip |", "| 1 |", "line 19: 5 columns, and 7 in the head"),
        ("| ID | Title", "| ID | Colour", "line 17: there is no column 'Colour'"),
        ("| ID | Title", "| ID | Owner", "line 17: two columns mean owner"),
        ("| ID | Title", "| Details | Title", "line 17: there is no column ID"),
        ("|:---|", "|xx|", "no table"),
        ("| 1.1 |", "| - |", "line 21: a task without its id"),
        ("| ship |", "|  |", "line 21: a task without its title"),
        ("| 1.1 |", "| a b |", "line 21: not a task's id"),
        ("| 1.1 |", "| T1 |", "line 21: task T1 is there twice"),
        ("| 1, 2 |", "| 1, 9 |", "line 20: there is no acceptance 9"),
        ("2) it", "1) it", "line 12: there is a second acceptance 1"),
        ("2) it", "it", "line 12: an acceptance line without its number"),
        ("| fail |", "| explode |", "line 21: on_failed_dependency is 'explode'"),
        ("## Tasks\nSome", "## Acceptance\nSome", "line 14: there is a second section"),
        ("## Tasks\nSome", "## Todo\nSome", "no section Tasks"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_line(old: str, new: str, words: str) -> None:
    """Half a table is no plan: the line is named."""
    assert old in PLAN
    with pytest.raises(InvalidInputError) as caught:
        tasks_in(PLAN.replace(old, new), "r", "markdown")
    assert words in caught.value.message


def test_yaml_and_json_say_the_same() -> None:
    """Numbers and truth values of YAML are read as what they stand for."""
    text = """
objective: All samples
acceptance: [make test, it is fast]
tasks:
  - {id: T1, title: write, owner: builder, acceptance: [1, it works], review: true}
  - {id: 1.1, title: ship, depends_on: [T1], priority: high, attempts: 2}
"""
    first, second = tasks_in(text, "r", "yaml")
    assert (first.acceptance, first.review) == (("make test", "it works"), "required")
    assert (second.task_id, second.needs, second.priority, second.max_attempts) == ("1.1", ("T1",), "high", 2)
    plan = {"tasks": [{"id": "T1", "title": "write", "depends_on": "T2"}]}
    assert tasks_in(json.dumps(plan), "r", "json")[0].needs == ("T2",)


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        ("json", "{", "not JSON"),
        ("json", "[" * 100_000, "not JSON"),
        ("json", "3", "no list `tasks`"),
        ("json", "[]", "no tasks"),
        ("json", '[{"id": "a"}]', "task 1: has no title"),
        ("json", '[{"id": "a", "title": "b", "colour": 1}]', "no field 'colour'"),
        ("json", '[{"id": "a", "title": {"b": 1}}]', "task 1: title is no text"),
        ("json", '[{"id": "a", "title": "b\\nc"}]', "task 1: the title is not one printable line"),
        ("yaml", "a: &x [1]\nb: *x", "aliases"),
        ("yaml", "a: [", "not YAML"),
        ("yaml", "- !!python/object:os.system {}", "not YAML"),
        ("yaml", "[" * 100_000, "nested deeper"),
    ],
)
def test_structured_plans_are_checked(form: str, text: str, words: str) -> None:
    """Neither depth, nor aliases, nor objects of a language pass."""
    with pytest.raises(InvalidInputError) as caught:
        tasks_in(text, "r", form)
    assert words in caught.value.message


@given(st.text(alphabet="#| -:`~1.aT\n\\<br>2", max_size=200), st.sampled_from(["markdown", "json", "yaml"]))
def test_any_text_is_a_plan_or_refused(text: str, form: str) -> None:
    """Nothing but the promised error comes out."""
    with contextlib.suppress(InvalidInputError):
        assert tasks_in(f"## Tasks\n{text}" if form == "markdown" else text, "r", form)
