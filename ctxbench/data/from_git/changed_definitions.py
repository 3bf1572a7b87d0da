"""Which definitions of a file a change was made in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from ctxbench.index.code.code_records import CodeDefinition


def changed_definitions(old: str, new: str, definitions: Sequence[CodeDefinition]) -> tuple[str, ...]:
    """The names of the definitions that hold changed lines.

    A line that was changed or taken away is in the innermost definition around it. Lines that were only added are in
    the one around their position; at the end of one also where they are indented as its body is. Empty lines count only
    where nothing else changed.

    Args:
        old, new: the file before and after.
        definitions: of `old`.

    Returns:
        Each name once, by position; an empty one for lines outside of all definitions. Nothing changed: none.
    """
    before, after = old.split("\n"), new.split("\n")
    names: dict[str, None] = {}
    for first, last, added in _hunks(before, after):
        lines = [number for number in range(first, last) if before[number].strip()] or list(range(first, last))
        for number in lines:
            names[_around(definitions, number + 1, number + 1)] = None
        if not lines:
            names[_around_position(definitions, before, first, added)] = None
    return tuple(names)


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, Sequence[str]]]:
    """Parts that differ: lines [first, last) of the old text, and those that replace them.

    What is equal at both ends is passed over first, since comparing takes time that grows by the square.
    """
    shortest, head, tail = min(len(before), len(after)), 0, 0
    while head < shortest and before[head] == after[head]:
        head += 1
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    for tag, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield head + first, head + last, new[new_first:new_last]


def _around(definitions: Sequence[CodeDefinition], first: int, last: int) -> str:
    """The innermost definition that holds lines, from 1; empty if none does."""
    around = [
        definition for definition in definitions if definition.first_line <= first and last <= definition.last_line
    ]
    return min(around, key=lambda definition: definition.end - definition.start).name if around else ""


def _around_position(
    definitions: Sequence[CodeDefinition], before: Sequence[str], position: int, added: Sequence[str]
) -> str:
    """The innermost definition that lines are added in, after the first `position` lines."""
    depth = min((_indent(line) for line in added if line.strip()), default=0)
    inside = [
        definition
        for definition in definitions
        if definition.first_line <= position < definition.last_line
        or (
            definition.last_line <= position
            and depth > _indent(before[definition.first_line - 1])
            and not any(line.strip() for line in before[definition.last_line : position])
        )
    ]
    return min(inside, key=lambda definition: definition.end - definition.start).name if inside else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
