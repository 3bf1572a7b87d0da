"""What a setting that differs is, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctxbench.gate.value_texts import first_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """One setting that differs.

    Attributes:
        name: as the user knows it: of the selector's parameter where one has the same two values, else the path.
        path: `refine.standard.topN`; a step as a whole where it was added or taken out; `ORDER` where steps moved.
        step, parameter: the path of its step, and which parameter of that it is; empty where it is of none.
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
