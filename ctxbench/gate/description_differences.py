"""Compares the descriptions of two external selectors: files, commands, options."""

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
    old_kind, new_kind = (next((kind for kind in _KINDS if kind in side), "") for side in (before, after))
    if old_kind and new_kind and old_kind != new_kind:
        yield in_words(
            new_kind, f"{path}{new_kind}", f"{_kind_text(before, old_kind)} -> {_kind_text(after, new_kind)}"
        )
        return
    if old_kind and old_kind != "pipeline":
        yield from _file_differences(before, after, old_kind, path)
    for key in dict.fromkeys([*before, *after]):
        old_value, new_value, where = before.get(key), after.get(key), f"{path}{key}"
        if key == "identities" or (old_kind and key in _FILE_KEYS) or dump_json(old_value) == dump_json(new_value):
            continue
        if key == old_kind and old_kind != "pipeline":
            yield in_words(
                key, where, f"{key}: {' -> '.join(_distinct_texts(_command_line(old_value), _command_line(new_value)))}"
            )
        elif isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
            yield from description_differences(old_value, new_value, f"{where}.")
        else:
            yield SettingDifference(name=where, path=where, before=short_hash(old_value), after=short_hash(new_value))


def without_server_files(description: Mapping[str, Any], server_files: Collection[str]) -> dict[str, Any]:
    """A description without files of MCP servers in the selector's folder: they make tools, not answers.

    One that the selector is known to import, or that its `source` names, stays.
    """
    result: dict[str, Any] = {
        key: without_server_files(value, server_files) if isinstance(value, Mapping) else value
        for key, value in description.items()
    }
    files, direct = _hashes(result, "files"), _names(result, "own")
    if {*files} & {*server_files} and not result.get("source"):
        followed = {*direct} if {*direct} != {*files} else set()  # all are where the command names no source code
        result["files"] = {
            name: digest for name, digest in files.items() if name in followed or name not in server_files
        }
        result["own"] = [name for name in direct if name in result["files"]]
    return result


def _file_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], kind: str, path: str
) -> Iterator[SettingDifference]:
    """The files of an external selector that were edited; for another command or file, its name alone."""
    files = [
        str(side[kind]).rpartition(":")[0] if kind == "callable" else _command_line(side[kind])
        for side in (before, after)
    ]
    if files[0] == files[1] and before.get("sha256") != after.get("sha256"):
        where = f"{path}sha256" if kind == "answers" else f"{path}{kind}.sha256"
        yield in_words(files[0], where, f"{files[0]} was edited")
    if (
        before[kind] == after[kind]
        and {"unnamed"} & {*before, *after}
        and before.get("unnamed") != after.get("unnamed")
    ):
        reason = "cannot be told from another version of itself: name a function as module:function"
        yield in_words(files[0], f"{path}unnamed", f"callable {before[kind]} {reason}")
    yield from _module_differences(before, after, kind, path)
    yield from _source_differences(before, after, kind, path)


def _module_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], kind: str, path: str
) -> Iterator[SettingDifference]:
    """The modules of a callable that differ; of another callable, those that both sides have."""
    old_hashes, new_hashes = _hashes(before, "modules"), _hashes(after, "modules")
    for name in _differing_files(old_hashes, new_hashes, same_selector=before[kind] == after[kind]):
        done = "is new" if name not in old_hashes else "is no longer used" if name not in new_hashes else "was edited"
        yield in_words(name, f"{path}modules.{name}", f"module {name} {done}")


def _source_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], kind: str, path: str
) -> Iterator[SettingDifference]:
    """The files of a command that differ: those it uses one by one, others in its folder as one.

    Of another command, or where `source` says otherwise what is followed, they differ where both sides have them: a
    file that is no longer followed, or is for the first time, was not edited.
    """
    old_hashes, new_hashes = _hashes(before, "files"), _hashes(after, "files")
    program = before[kind][0] if kind == "command" and isinstance(before[kind], list) and before[kind] else None
    direct = {*_names(before, "own"), *_names(after, "own")} or {*old_hashes, *new_hashes}
    renamed = before.get("source") != after.get("source")
    if renamed and old_hashes.keys() != new_hashes.keys():
        yield in_words("source", f"{path}source", "source: names other files now", adjacent=True)
    adjacent = []
    for name in _differing_files(old_hashes, new_hashes, same_selector=before[kind] == after[kind] and not renamed):
        if name not in direct:
            adjacent.append(name)
            continue
        done = "is new" if name not in old_hashes else "is gone" if name not in new_hashes else "was edited"
        if name == program and done == "was edited":
            yield in_words(name, f"{path}files.{name}", f"{name} is another program")
        else:
            yield in_words(name, f"{path}files.{name}", f"{name} {done}", files=(name,))
    if adjacent:
        subject = f"{len(adjacent)} source files" if len(adjacent) > 1 else "1 source file"
        words = f"{subject} beside its own changed ({first_ids(adjacent)})"
        yield in_words(adjacent[0], f"{path}files.{adjacent[0]}", words, files=tuple(adjacent), adjacent=True)


def _differing_files(old_hashes: Mapping[str, Any], new_hashes: Mapping[str, Any], *, same_selector: bool) -> list[str]:
    """The names of which the hashes differ; unless the selector is the same, of those on both sides."""
    names = [
        name
        for name in dict.fromkeys([*old_hashes, *new_hashes])
        if same_selector or (name in old_hashes and name in new_hashes)
    ]
    return [name for name in names if old_hashes.get(name) != new_hashes.get(name)]


def _hashes(description: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = description.get(key)
    return value if isinstance(value, Mapping) else {}


def _names(description: Mapping[str, Any], key: str) -> list[str]:
    value = description.get(key)
    return [str(name) for name in value] if isinstance(value, list | tuple) else []


def _kind_text(description: Mapping[str, Any], kind: str) -> str:
    return "a pipeline of ctxbench" if kind == "pipeline" else f"{kind} {shown_value(_command_line(description[kind]))}"


def _command_line(value: Any) -> str:
    """A command as it is typed; any other text as it is."""
    if isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    return value if isinstance(value, str) else dump_json(value)


def _distinct_texts(before: str, after: str) -> tuple[str, str]:
    """Two texts, shortened so that their difference shows."""
    if shown_value(before) == shown_value(after):
        alike = next((at for at, pair in enumerate(zip(before, after, strict=False)) if len({*pair}) > 1), 0)
        first = before.rfind(" ", 0, alike) + 1 or max(alike - 20, 0)
        before, after = (f"...{text[first:]}" for text in (before, after))
    return shown_value(before), shown_value(after)
