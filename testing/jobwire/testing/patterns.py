"""The regular expressions of a module, and texts that are hostile to them.

A pattern is hostile to itself: the texts are made of beginnings of what it matches, repeated, with
characters that it knows between them and one that it does not at the end.
"""

import ast
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the parsed form has no public name
from re import _parser  # type: ignore[attr-defined]  # as above
from typing import Any, NamedTuple

from jobwire.testing.growth import FROM_SHORT, grows_faster_than_its_input

# Under another name: this one is given its pattern at run time.
_build = re.compile
_FUNCTIONS = frozenset({"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
_MOST_BEGINNINGS = 10
_MOST_CHARACTERS = 12
_REPEATED = 2
_STRANGE = "\x00"
_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_NOT_WORD: "-",
}


class Use(NamedTuple):
    """A pattern, where it stands, and the methods that are called on it."""

    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


def uses_in(file: Path, module: str) -> list[Use]:
    """Return every pattern that `file`, the source of `module`, gives to `re`.

    Raises ValueError for one that can only be known at run time: such a pattern cannot be judged.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    uses = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if not isinstance(node.func.value, ast.Name) or node.func.value.id != "re":
            continue
        name = node.func.attr
        if name == "compile" or name in _FUNCTIONS:
            place = f"{file.name}:{node.lineno}"
            methods = {name} if name != "compile" else _methods(tree, node, parents)
            uses.append(Use(place, _pattern(node, module, place), tuple(sorted(methods))))
    return uses


def is_slow(pattern: re.Pattern[Any], methods: tuple[str, ...]) -> str | None:
    """Return a text whose repetition takes the pattern more than linear time, or None."""
    for beginning, repeated, end in hostile_texts(pattern):
        make = _maker(pattern, beginning, repeated, end)
        for method in methods:
            if grows_faster_than_its_input(make, _runner(pattern, method), lengths=FROM_SHORT):
                return f"{beginning!r} + {repeated!r} * n + {end!r} with {method}"
    return None


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """Give (beginning, what is repeated, end) of texts."""
    source = pattern.pattern
    tree = _parser.parse(source if isinstance(source, str) else source.decode("latin-1"), _flags(pattern))
    characters = list(dict.fromkeys([*_characters(tree), " ", "a", "0", "-"]))[:_MOST_CHARACTERS]
    for beginning in _beginnings(tree):
        for character in ["", *characters]:
            for end in ("", _STRANGE):
                yield "", beginning + character, end
                if character:
                    yield beginning, character, end


def _flags(pattern: re.Pattern[Any]) -> int:
    return pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags


def _maker(pattern: re.Pattern[Any], beginning: str, repeated: str, end: str) -> Callable[[int], str | bytes]:
    def make(length: int) -> str | bytes:
        text = beginning + (repeated * (length // len(repeated) + 1))[:length] + end
        return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")

    return make


def _runner(pattern: re.Pattern[Any], method: str) -> Callable[[Any], object]:
    if method in {"match", "fullmatch", "search", "split"}:
        return getattr(pattern, method)  # type: ignore[no-any-return]  # a method of one text
    return lambda text: sum(1 for _ in pattern.finditer(text))


def _pattern(call: ast.Call, module: str, place: str) -> re.Pattern[Any]:
    """Evaluate the pattern: a literal, or a constant of the module."""
    names = {name.id for name in ast.walk(call.args[0]) if isinstance(name, ast.Name)}
    namespace = vars(import_module(module)) if names else {}
    if not all(isinstance(namespace.get(name), str) for name in names):
        raise ValueError(f"{place}: write the pattern as a constant, so that its speed can be judged")
    # The arguments after the pattern of all but `compile` are texts and counts.
    arguments = (
        call.args if isinstance(call.func, ast.Attribute) and call.func.attr == "compile" else call.args[:1]
    )
    values = [eval(ast.unparse(argument), {**namespace, "re": re}) for argument in arguments]  # noqa: S307 - ours
    return _build(*values)


def _methods(tree: ast.Module, call: ast.Call, parents: dict[ast.AST, ast.AST]) -> set[str]:
    """Return what is called on a compiled pattern in its module; all ways where that cannot be seen."""
    parent = parents[call]
    if isinstance(parent, ast.Attribute):
        return {parent.attr}
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names
    }
    return found & _FUNCTIONS or {"search", "finditer"}


def _beginnings(tree: Any) -> list[str]:
    """Return beginnings of texts that match, the whole ones first."""
    found: dict[str, None] = {}
    for sample in _samples(tree):
        found[sample] = None
    for sample in list(found):
        for length in range(len(sample) - 1, 0, -1):
            found[sample[:length]] = None
    ranked = [text for text in found if text]
    step = max(1, len(ranked) // _MOST_BEGINNINGS)
    return ranked[::step] or ["a"]


def _samples(tree: Any) -> list[str]:
    """Return some texts that match: one for each first-level choice."""
    samples = [""]
    for code, argument in tree:
        parts = _parts(code, argument)
        samples = [sample + part for sample in samples for part in parts][:_MOST_BEGINNINGS]
    return samples


def _parts(code: Any, argument: Any) -> list[str]:
    if code is codes.LITERAL:
        return [chr(argument)]
    if code in {codes.ANY, codes.NOT_LITERAL, codes.IN, codes.CATEGORY}:
        return [next(iter(_characters([(code, argument)])), "a")]
    if code in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
        least, most, item = argument
        times = min(max(least, _REPEATED), most)
        return [part * times for part in _samples(item)]
    if code is codes.SUBPATTERN:
        return _samples(argument[3])
    if code is codes.ATOMIC_GROUP:
        return _samples(argument)
    if code is codes.ASSERT:
        return _samples(argument[1])
    if code is codes.BRANCH:
        return [part for branch in argument[1] for part in _samples(branch)]
    return [""]


def _characters(tree: Any) -> list[str]:
    """Return characters that the pattern speaks of: literals, ends of ranges, one of each category."""
    found: list[str] = []
    for code, argument in tree:
        if code in {codes.LITERAL, codes.NOT_LITERAL}:
            found.append(chr(argument) if code is codes.LITERAL else "a")
        elif code is codes.RANGE:
            found += [chr(argument[0]), chr(argument[1])]
        elif code is codes.CATEGORY:
            found.append(_OF_CATEGORY[argument])
        elif code is codes.IN:
            found += ["a"] if argument[0][0] is codes.NEGATE else _characters(argument)
        elif code is codes.ANY:
            found.append("a")
        else:
            for inner in _inside(code, argument):
                found += _characters(inner)
    return found


def _inside(code: Any, argument: Any) -> list[Any]:
    if code in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
        return [argument[2]]
    if code is codes.SUBPATTERN:
        return [argument[3]]
    if code is codes.ATOMIC_GROUP:
        return [argument]
    if code in {codes.ASSERT, codes.ASSERT_NOT}:
        return [argument[1]]
    return list(argument[1]) if code is codes.BRANCH else []
