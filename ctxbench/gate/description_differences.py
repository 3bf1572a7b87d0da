"""Finds what differs between what two selectors of a user's say of themselves: files, commands, options."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ctxbench.gate.setting_differences import SettingDifference, in_words
from ctxbench.gate.value_texts import first_ids, short_hash, shown_value
from ctxbench.io.json_files import dump_json

_KINDS = ("answers", "callable", "command", "url", "pipeline")  # what a selector's description says that it is
_FILE_KEYS = ("sha256", "modules", "files", "own", "source", "unnamed")  # said in words


def description_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str = ""
) -> Iterator[SettingDifference]:
    """The differences of two descriptions that are no pipelines, without the identities of models."""
    one, other = (next((way for way in _KINDS if way in side), "") for side in (before, after))
    if one and other and one != other:
        yield in_words(other, f"{path}{other}", f"{_kind_text(before, one)} -> {_kind_text(after, other)}")
        return
    if one and one != "pipeline":
        yield from _file_differences(before, after, one, path)
    for key in dict.fromkeys([*before, *after]):
        was, now, where = before.get(key), after.get(key), f"{path}{key}"
        if key == "identities" or (one and key in _FILE_KEYS) or dump_json(was) == dump_json(now):
            continue
        if key == one and one != "pipeline":
            yield in_words(key, where, f"{key}: {' -> '.join(_distinct_texts(_command_line(was), _command_line(now)))}")
        elif isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from description_differences(was, now, f"{where}.")
        else:
            yield SettingDifference(name=where, path=where, was=short_hash(was), now=short_hash(now))


def without_server_files(description: Mapping[str, Any], server_files: Collection[str]) -> dict[str, Any]:
    """A description without the files of MCP servers that only lie beside a selector: they make tools, not answers.

    One that the selector is known to import, or that its `source` names, stays.
    """
    kept: dict[str, Any] = {
        key: without_server_files(value, server_files) if isinstance(value, Mapping) else value
        for key, value in description.items()
    }
    files, own = _hashes(kept, "files"), _names(kept, "own")
    if {*files} & {*server_files} and not kept.get("source"):
        known = {*own} if {*own} != {*files} else set()  # all are where the command names no source code
        kept["files"] = {name: digest for name, digest in files.items() if name in known or name not in server_files}
        kept["own"] = [name for name in own if name in kept["files"]]
    return kept


def _file_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], way: str, path: str
) -> Iterator[SettingDifference]:
    """The files of a user's selector that were edited; for another command or file, its name alone."""
    files = [
        str(side[way]).rpartition(":")[0] if way == "callable" else _command_line(side[way]) for side in (before, after)
    ]
    if files[0] == files[1] and before.get("sha256") != after.get("sha256"):
        where = f"{path}sha256" if way == "answers" else f"{path}{way}.sha256"
        yield in_words(files[0], where, f"{files[0]} was edited")
    if before[way] == after[way] and {"unnamed"} & {*before, *after} and before.get("unnamed") != after.get("unnamed"):
        what = "cannot be told from another version of itself: name a function as module:function"
        yield in_words(files[0], f"{path}unnamed", f"callable {before[way]} {what}")
    yield from _module_differences(before, after, way, path)
    yield from _source_differences(before, after, way, path)


def _module_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], way: str, path: str
) -> Iterator[SettingDifference]:
    """The modules of a callable that differ; of another callable, those that both sides have."""
    was, now = _hashes(before, "modules"), _hashes(after, "modules")
    for name in _differing_files(was, now, same=before[way] == after[way]):
        done = "is new" if name not in was else "is no longer used" if name not in now else "was edited"
        yield in_words(name, f"{path}modules.{name}", f"module {name} {done}")


def _source_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], way: str, path: str
) -> Iterator[SettingDifference]:
    """The files of a command that differ: its own one by one, those that only lie beside them as one.

    Of another command, or where `source` says otherwise what is followed, they differ where both sides have them: a
    file that is no longer followed, or is for the first time, was not edited.
    """
    was, now = _hashes(before, "files"), _hashes(after, "files")
    program = before[way][0] if way == "command" and isinstance(before[way], list) and before[way] else None
    own = {*_names(before, "own"), *_names(after, "own")} or {*was, *now}
    renamed = before.get("source") != after.get("source")
    if renamed and was.keys() != now.keys():
        yield in_words("source", f"{path}source", "source: names other files now", beside=True)
    beside = []
    for name in _differing_files(was, now, same=before[way] == after[way] and not renamed):
        if name not in own:
            beside.append(name)
            continue
        done = "is new" if name not in was else "is gone" if name not in now else "was edited"
        if name == program and done == "was edited":
            yield in_words(name, f"{path}files.{name}", f"{name} is another program")
        else:
            yield in_words(name, f"{path}files.{name}", f"{name} {done}", files=(name,))
    if beside:
        what = f"{len(beside)} source files" if len(beside) > 1 else "1 source file"
        words = f"{what} beside its own changed ({first_ids(beside)})"
        yield in_words(beside[0], f"{path}files.{beside[0]}", words, files=tuple(beside), beside=True)


def _differing_files(was: Mapping[str, Any], now: Mapping[str, Any], *, same: bool) -> list[str]:
    """The names of which the hashes differ; unless the selector is the same, of those on both sides."""
    names = [name for name in dict.fromkeys([*was, *now]) if same or (name in was and name in now)]
    return [name for name in names if was.get(name) != now.get(name)]


def _hashes(description: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = description.get(key)
    return value if isinstance(value, Mapping) else {}


def _names(description: Mapping[str, Any], key: str) -> list[str]:
    value = description.get(key)
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def _kind_text(description: Mapping[str, Any], way: str) -> str:
    return "a pipeline of ctxbench" if way == "pipeline" else f"{way} {shown_value(_command_line(description[way]))}"


def _command_line(value: Any) -> str:
    """A command as it is typed; any other text as it is."""
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    return value if isinstance(value, str) else dump_json(value)


def _distinct_texts(was: str, now: str) -> tuple[str, str]:
    """Two texts, shortened so that their difference shows."""
    if shown_value(was) == shown_value(now):
        alike = next((at for at, pair in enumerate(zip(was, now, strict=False)) if len({*pair}) > 1), 0)
        first = was.rfind(" ", 0, alike) + 1 or max(alike - 20, 0)
        was, now = (f"...{text[first:]}" for text in (was, now))
    return shown_value(was), shown_value(now)
