"""Settings that differ between two snapshots, and their texts."""

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
        before, after: values as text; `none` where there is none.
        scoring: whether it decides scores; else what is kept of them.
        code: whether it is no setting of the user's, but the version or the code of something.
        words: how it is said where the values say less than words do (hashes of files); empty elsewhere.
        files: the source files of a command that it is about; none elsewhere.
        adjacent: whether none of them is known to be used by the command: they are only in its folder, or `source`
            names other files now.
    """

    name: str
    path: str
    before: str
    after: str
    scoring: bool = True
    code: bool = False
    words: str = ""
    step: str = ""
    parameter: str = ""
    keys: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    adjacent: bool = False

    def __str__(self) -> str:
        return self.words or f"{self.name} {self.before} -> {self.after}"


def in_words(
    name: str, path: str, words: str, *, files: tuple[str, ...] = (), adjacent: bool = False
) -> SettingDifference:
    """A difference that has a text instead of values."""
    return SettingDifference(name=name, path=path, before="", after="", words=words, files=files, adjacent=adjacent)


def merge_file_differences(settings: Sequence[SettingDifference]) -> tuple[SettingDifference, ...]:
    """The settings with several source files as one, for where the answers are the same."""
    about = [setting for setting in settings if setting.files]
    files = [name for setting in about for name in setting.files]
    if len(files) < 2:
        return tuple(settings)
    words = f"{len(files)} source files edited ({first_ids(files)}); the answers are the same"
    together = in_words(files[0], about[0].path, words, files=tuple(files))
    return (*(setting for setting in settings if not setting.files), together)


def differing_values(old: Any, new: Any) -> list[tuple[tuple[str, ...], Any, Any]]:
    """What differs in the values of one setting: the keys that lead to it, and the two values there.

    Of two mappings each key that differs is told by itself, None where a side lacks it, and mappings in them likewise.
    Of anything else, and of mappings that differ in more than `_MOST_KEYS` keys, there is one difference without keys,
    of mappings only of the keys that differ.
    """
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return [((), old, new)]
    names = differing(old, new)
    differences = [
        ((name, *keys), before, after)
        for name in names
        for keys, before, after in differing_values(old.get(name), new.get(name))
    ]
    if len(differences) > _MOST_KEYS:
        before, after = ({name: side[name] for name in names if name in side} for side in (old, new))
        return [((), before, after)]
    return differences or [((), old, new)]  # a key without a value is told as it stands


def with_value_of(value: Any, source: Any, keys: Sequence[str]) -> Any:
    """A setting's value with what some keys lead to taken from another value of it; without it where that has none."""
    if not keys:
        return source
    key, *inner = keys
    rest = {name: entry for name, entry in value.items() if name != key}
    return {**value, key: with_value_of(value.get(key), source[key], inner)} if key in source else rest
