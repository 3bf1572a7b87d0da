"""What a setting that differs is, and how it is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxbench.gate.item_edit_texts import differing
from ctxbench.gate.value_texts import first_ids

_MOST_KEYS = 20  # of a mapping that are told one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """One setting that differs.

    Attributes:
        name: as the user knows it: of the selector's parameter where one has the same two values, else the path.
        path: `refine.standard.topN`, `refine.linear.weights.age` for a key of a mapping; a step as a whole where it was
            added or taken out; `ORDER` where steps moved.
        step, parameter: the path of its step, and which parameter of that it is; empty where it is of none.
        keys: where in the parameter's value, from the outer mapping inwards; none where it is about all of the value.
        was, now: values as text; `none` where there is none.
        scoring: whether it decides scores; else what is kept of them.
        code: whether it is no setting of the user's, but the version or the code of something.
        words: how it is said where the values say less than words do (hashes of files); empty elsewhere.
        files: the source files of a command that it is about; none elsewhere.
        beside: whether it is known of none of them that it is the command's own: they only lie in its folder, or what
            is followed is told otherwise.
    """

    name: str
    path: str
    was: str
    now: str
    scoring: bool = True
    code: bool = False
    words: str = ""
    step: str = ""
    parameter: str = ""
    keys: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    beside: bool = False

    def __str__(self) -> str:
        return self.words or f"{self.name} {self.was} -> {self.now}"


def in_words(
    name: str, path: str, words: str, *, files: tuple[str, ...] = (), beside: bool = False
) -> SettingDifference:
    """A difference that is said in words."""
    return SettingDifference(name=name, path=path, was="", now="", words=words, files=files, beside=beside)


def told_together(settings: Sequence[SettingDifference]) -> tuple[SettingDifference, ...]:
    """The settings with several source files as one, for where the answers are the same."""
    about = [one for one in settings if one.files]
    files = [name for one in about for name in one.files]
    if len(files) < 2:
        return tuple(settings)
    words = f"{len(files)} source files edited ({first_ids(files)}); the answers are the same"
    together = in_words(files[0], about[0].path, words, files=tuple(files))
    return (*(one for one in settings if not one.files), together)


def differing_values(was: Any, now: Any) -> list[tuple[tuple[str, ...], Any, Any]]:
    """What differs in the values of one setting: the keys that lead to it, and the two values there.

    Of two mappings each key that differs is told by itself, None where a side lacks it, and mappings in them likewise.
    Of anything else, and of mappings that differ in more than `_MOST_KEYS` keys, there is one difference without keys,
    of mappings only of the keys that differ.
    """
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return [((), was, now)]
    names = differing(was, now)
    found = [
        ((name, *keys), before, after)
        for name in names
        for keys, before, after in differing_values(was.get(name), now.get(name))
    ]
    if len(found) > _MOST_KEYS:
        before, after = ({name: side[name] for name in names if name in side} for side in (was, now))
        return [((), before, after)]
    return found or [((), was, now)]  # a key without a value is told as it stands


def with_value_of(value: Any, other: Any, keys: Sequence[str]) -> Any:
    """A setting's value with what some keys lead to taken from another value of it; without it where that has none."""
    if not keys:
        return other
    key, *inner = keys
    rest = {name: held for name, held in value.items() if name != key}
    return {**value, key: with_value_of(value.get(key), other[key], inner)} if key in other else rest
