"""Differences of items, parameters, models and code between snapshots, and replayed cuts.

Cuts are replayed with the steps themselves. A cut that needs more than scores, chunks of the request, types and tokens
(`mmr`, `abstain`, a plugin's) cannot be replayed.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ctxbench.datasets.queries import group_pairs
from ctxbench.gate.comparability import items_without_scope, scopes_of
from ctxbench.gate.snapshots import (
    NONE,
    FlatStep,
    Identity,
    ItemFact,
    SelectorSnapshot,
    first_few,
    first_ids,
    flat_steps,
    short_hash,
    shown_value,
)
from ctxbench.io.documents import dump_json
from ctxbench.io.errors import Message, UserError
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, IntArray
from ctxbench.model.candidates import BEYOND_CHUNKS, Candidates, Mode, Origin, Rule, place_among
from ctxbench.model.items import ItemKey
from ctxbench.model.selection import concatenated
from ctxbench.selectors.definitions import definition, shipped

NAME_FIELDS = ("_id", "name", "server", "title")  # fields in which an item and its renamed successor may differ
_HASHES = {"definition_sha256", "sha256"}  # what readers of sources note of what an item was made from
_VALUE_FIELDS = ("enabled", "include", "type", "server")  # fields shown with their values
_DEFAULTS = {"enabled": True, "include": "agent"}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names whose values differ between two mappings, or that only one of them has."""
    return [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]


def edited_fields(before: ItemFact, after: ItemFact) -> tuple[str, ...]:
    """The fields in which an item differs, sorted; none where the texts of either side are kept out."""
    if before.row is None or after.row is None:
        return ()
    fields = {*differing(before.row, after.row)} - {"_id"}
    if fields - {"metadata"} and {*_metadata_keys(before.row, after.row)} <= _HASHES:
        fields -= {"metadata"}
    return tuple(sorted(fields - {"title"} if "name" in fields else fields))


def _metadata_keys(*rows: Mapping[str, Any]) -> list[str]:
    return differing(*(row.get("metadata") or {} for row in rows))


_EDITS: dict[tuple[str, ...], str] = {
    ("description",): "causes.description-edited",
    ("text",): "causes.text-edited",
    ("schema",): "causes.schema-edited",
    ("metadata",): "causes.metadata-edited",
}


def edit_text(before: ItemFact | None, after: ItemFact | None) -> Message:
    """How an item was edited: `text and metadata (owner) edited`, `renamed from tool:a, enabled true -> false`.

    Without texts it is only known that the content differs.
    """
    if before is None or after is None or before.row is None or after.row is None:
        return Message("causes.content-changed")
    renamed = before.id != after.id
    fields = [name for name in edited_fields(before, after) if not (renamed and name in NAME_FIELDS)]
    keys = _metadata_keys(before.row, after.row)
    metadata = f"metadata ({first_few([key for key in keys if key not in _HASHES] or keys)})"
    texts = [metadata if name == "metadata" else name for name in fields if name not in _VALUE_FIELDS]
    parts = [f"renamed from {before.id}"] * renamed
    parts += [
        f"{name} {' -> '.join(shown_value(row.get(name, _DEFAULTS.get(name))) for row in (before.row, after.row))}"
        for name in fields
        if name in _VALUE_FIELDS
    ]
    parts += [f"{' and '.join(filter(None, [', '.join(texts[:-1]), texts[-1]]))} edited"] if texts else []
    key = "causes.item-edited" if renamed else _EDITS.get(tuple(fields), "causes.item-edited")
    return Message(key, changes=", ".join(parts) or "edited")


_MOST_KEYS = 20  # of a mapping that are listed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """One setting that differs.

    Attributes:
        name: as the user knows it: of the selector's parameter where one has the same two values, else the path.
        path: `refine.standard.topN`, `refine.linear.weights.age` for a key of a mapping; a step as a whole where it was
            added or taken out; `ORDER` where steps moved.
        step, parameter: the path of its step, and which parameter of that it is; empty where it is of none.
        keys: where in the parameter's value, from the outer mapping inwards; none where it is about all of the value.
        chunk_limit: whether it limits chunk matches, so that another value cannot be replayed.
        before, after: values as text; `none` where there is none.
        scoring: whether it decides scores; else what is kept of them.
        code: whether it is a version or code, and no setting of the user.
        words: a text instead of the values, if these are hashes; else empty.
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
    chunk_limit: bool = False
    files: tuple[str, ...] = ()
    adjacent: bool = False

    def __str__(self) -> str:
        return self.words or f"{self.name} {self.before} -> {self.after}"


def in_words(
    name: str, path: str, words: str, *, files: tuple[str, ...] = (), adjacent: bool = False
) -> SettingDifference:
    """A difference that has a text instead of values."""
    return SettingDifference(name=name, path=path, before="", after="", words=words, files=files, adjacent=adjacent)


def differing_values(old: Any, new: Any) -> list[tuple[tuple[str, ...], Any, Any]]:
    """What differs in the values of one setting: the keys that lead to it, and the two values there.

    Of two mappings each key that differs is one difference, None where a side lacks it; so are mappings in them.
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
    return differences or [((), old, new)]  # a key without a value


def with_value_of(value: Any, source: Any, keys: Sequence[str]) -> Any:
    """A setting's value with what some keys lead to taken from another value of it; without it where that has none."""
    if not keys:
        return source
    key, *inner = keys
    rest = {name: entry for name, entry in value.items() if name != key}
    return {**value, key: with_value_of(value.get(key), source[key], inner)} if key in source else rest


_KINDS = ("answers", "callable", "command", "url", "pipeline")  # of selectors, in descriptions
_FILE_KEYS = ("sha256", "modules", "files", "direct_files", "source", "unnamed")  # described by texts


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
    files, direct = _hashes(result, "files"), _names(result, "direct_files")
    if {*files} & {*server_files} and not result.get("source"):
        followed = {*direct} if {*direct} != {*files} else set()  # all are where the command names no source code
        result["files"] = {
            name: digest for name, digest in files.items() if name in followed or name not in server_files
        }
        result["direct_files"] = [name for name in direct if name in result["files"]]
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
        yield in_words(
            files[0], f"{path}sha256" if kind == "answers" else f"{path}{kind}.sha256", f"{files[0]} was edited"
        )
    if (
        before[kind] == after[kind]
        and {"unnamed"} & {*before, *after}
        and before.get("unnamed") != after.get("unnamed")
    ):
        yield in_words(files[0], f"{path}unnamed", Message("gate.callable-without-source", callable=before[kind]))
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

    With another command, or another `source`, only files that both sides have are compared: a file that is no longer
    followed, or is followed for the first time, was not edited.
    """
    old_hashes, new_hashes = _hashes(before, "files"), _hashes(after, "files")
    program = before[kind][0] if kind == "command" and isinstance(before[kind], list) and before[kind] else None
    direct = {*_names(before, "direct_files"), *_names(after, "direct_files")} or {*old_hashes, *new_hashes}
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
        words = Message("gate.adjacent-files-changed", n=len(adjacent), names=first_ids(adjacent))
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
    """A command line; any other text unchanged."""
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


ORDER = "refine"  # the path of the order of steps
_CODE_DIGITS = 7  # of a hash of code that are shown


@dataclass(frozen=True, eq=False, kw_only=True)
class InputDifferences:
    """What differs between two snapshots besides their answers.

    Attributes:
        edited: by item id, the fields that differ; none where texts are kept out.
        new, gone: item ids, in catalog order; gone includes items without a scope now (see
            `ctxbench.gate.comparability.items_without_scope`).
        renamed: the new id by the old one.
        settings: of the selector, in the order of its steps.
        external: of an external selector's description.
        embedder, tokens: the model, the counter; None where they are the same.
        versions: of ctxbench, its code, Python and libraries.
    """

    edited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[SettingDifference, ...] = ()
    external: tuple[SettingDifference, ...] = ()
    embedder: SettingDifference | None = None
    tokens: SettingDifference | None = None
    versions: tuple[SettingDifference, ...] = ()

    @property
    def catalog(self) -> bool:
        """Whether any item differs."""
        return bool(self.edited or self.new or self.gone or self.renamed)

    @property
    def scoring(self) -> tuple[SettingDifference, ...]:
        """The settings that may have moved the score of an unchanged item, the likelier one first."""
        model = () if self.embedder is None else (self.embedder,)
        user_settings = tuple(difference for difference in self.settings if difference.scoring and not difference.code)
        return (
            *model,
            *user_settings,
            *self.external,
            *(difference for difference in self.settings if difference.scoring and difference.code),
        )

    @property
    def cutting(self) -> tuple[SettingDifference, ...]:
        """The settings of cuts, which decide what is kept after scoring."""
        return tuple(difference for difference in self.settings if not difference.scoring and not difference.code)

    @property
    def code(self) -> tuple[SettingDifference, ...]:
        """The differences that are no settings: versions and code of steps, of ctxbench, Python and libraries."""
        return (*(difference for difference in self.settings if difference.code), *self.versions)

    def __bool__(self) -> bool:
        return bool(self.catalog or self.settings or self.external or self.embedder or self.tokens or self.versions)

    def __str__(self) -> str:
        """All differences on one line: `2 items edited, 1 new, contextTopN 5 -> 3`; `nothing` where nothing differs."""
        counts = ((self.edited, "edited"), (self.new, "new"), (self.gone, "gone"), (self.renamed, "renamed"))
        if parts := [f"{len(items)} {state}" for items, state in counts if items]:
            first, state = next((len(items), state) for items, state in counts if items)
            # search passes over metadata as a rule
            alone = " (metadata alone)" if self.edited and {*self.edited.values()} == {("metadata",)} else ""
            parts[0] = f"{first} item{'' if first == 1 else 's'} {state}{alone}"
        named = [difference for difference in (self.embedder, self.tokens) if difference is not None]
        differences = [difference for difference in (*self.settings, *self.external) if not difference.code]
        return ", ".join([*parts, *dict.fromkeys(map(str, [*named, *differences, *self.code]))]) or "nothing"


def input_differences(base: SelectorSnapshot, head: SelectorSnapshot, renamed: Mapping[str, str]) -> InputDifferences:
    """Find what differs between two snapshots of a selector on a dataset; answers are not looked at.

    Args:
        base, head: before and after.
        renamed: the id at the head by the id at the base.
    """
    edited: dict[str, tuple[str, ...]] = {}
    for name, item in base.items.items():
        if (after := head.items.get(renamed.get(name, name))) is None or item.hash == after.hash:
            continue
        fields = edited_fields(item, after)
        if name not in renamed:
            edited[name] = fields
        elif set(fields) - set(NAME_FIELDS):
            edited[renamed[name]] = tuple(key for key in fields if key not in NAME_FIELDS)
    edited |= _disabled_differences(base, head)
    came = set(renamed.values())
    present = {name: new for name, new in renamed.items() if name in base.items and new in head.items}
    out = items_without_scope(base, scopes_of(head), present)
    return InputDifferences(
        edited=edited,
        new=tuple(name for name in head.items if name not in base.items and name not in came),
        gone=tuple(name for name in base.items if name in out or (name not in head.items and name not in present)),
        renamed=present,
        **_identity_differences(base.identity, head.identity, head.server_files),
    )


def _disabled_differences(base: SelectorSnapshot, head: SelectorSnapshot) -> dict[str, tuple[str, ...]]:
    """Disabled items that differ, with the fields: how rare a word is may depend on them."""
    differences: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys([*base.disabled, *head.disabled]):
        before, after = base.disabled.get(name), head.disabled.get(name)
        if not (name in base.items or name in head.items or (before and after and before.hash == after.hash)):
            differences[name] = () if before is None or after is None else edited_fields(before, after)
    return differences


def absence_text(item: str, head: SelectorSnapshot) -> Message:
    """Why the head cannot offer an item that the base could."""
    if item in head.items:
        return Message("causes.item-out-of-scope")
    if item in head.disabled:
        return Message("causes.item-disabled")
    absent = head.absent_servers.get(server_of(item))
    return Message("causes.item-removed") if absent is None else Message("causes.server-absent", why=absent.why)


def server_of(item: str) -> str:
    """The server of a tool, by its id; empty for other items."""
    return ItemKey.parse(item).server or ""


def _identity_differences(base: Identity, head: Identity, server_files: Collection[str]) -> dict[str, Any]:
    before, after = flat_steps(base.selector), flat_steps(head.selector)
    differences: dict[str, Any] = {}
    if before is not None and after is not None:
        changed = [*_step_settings(before, after)]
        steps = [difference for difference in changed if difference.path == difference.step]  # on one side only
        if len(steps) > 1:
            old, new = base.shipped or _steps_text(before), head.shipped or _steps_text(after)
            scoring = any(difference.scoring for difference in steps)
            selector = SettingDifference(name="selector", path="selector", before=old, after=new, scoring=scoring)
            changed = [selector, *(difference for difference in changed if difference not in steps)]
        named = _with_user_names(changed, base.values, head.values)
        differences["settings"] = (*named, *_resource_differences(base.selector, head.selector))
    else:
        key = "external" if base.external or head.external else "settings"
        old_description, new_description = (without_server_files(side.selector, server_files) for side in (base, head))
        differences[key] = tuple(description_differences(old_description, new_description))
    if base.embedder != head.embedder:
        differences["embedder"] = SettingDifference(
            name="model", path="embedder", before=base.embedder or NONE, after=head.embedder or NONE
        )
    if base.tokens != head.tokens:
        differences["tokens"] = SettingDifference(
            name="tokens", path="tokens", before=base.tokens, after=head.tokens, scoring=False
        )
    differences["versions"] = tuple(_version_differences(base.versions, head.versions))
    return differences


def _version_differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[SettingDifference]:
    """The versions that differ; the code of ctxbench only where its version is the same."""
    names = differing(before, after)
    for name in names:
        old, new = before.get(name, NONE), after.get(name, NONE)
        if name != "code":
            yield SettingDifference(name=name, path=f"versions.{name}", before=old, after=new, code=True)
        elif "ctxbench" not in names:
            versions = {"version": after.get("ctxbench", NONE), "old": old[:_CODE_DIGITS], "new": new[:_CODE_DIGITS]}
            words = Message("gate.ctxbench-code-changed", **versions)
            yield SettingDifference(
                name="ctxbench", path="versions.code", before=old, after=new, code=True, words=words
            )


def _resource_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """The resources of plugins that both sides use and that differ; model and counter are found elsewhere."""
    old_ids, new_ids = (
        side["identities"] if isinstance(side.get("identities"), Mapping) else {} for side in (before, after)
    )
    yield from (
        SettingDifference(name=name, path=f"identities.{name}", before=str(old_ids[name]), after=str(new_ids[name]))
        for name in old_ids
        if name not in ("embedder", "tokens") and name in new_ids and old_ids[name] != new_ids[name]
    )


def _step_settings(before: Sequence[FlatStep], after: Sequence[FlatStep]) -> Iterator[SettingDifference]:
    """The settings that differ, by the path of their step; a step on one side only is one setting."""
    olds, news = {step.path: step for step in before}, {step.path: step for step in after}
    for path in dict.fromkeys([*olds, *news]):
        old, new = olds.get(path), news.get(path)
        if old is None or new is None:
            old_value, new_value = (NONE if step is None else _step_text(step) for step in (old, new))
            yield SettingDifference(
                name=path,
                path=path,
                step=path,
                before=old_value,
                after=new_value,
                scoring=any(step is not None and step.scores for step in (old, new)),
            )
            continue
        for older, newer, is_parameter in ((old.values, new.values, True), (old.source, new.source, False)):
            changed = {name: differing_values(older.get(name), newer.get(name)) for name in differing(older, newer)}
            for name, (keys, old_value, new_value) in (
                (name, change) for name, several in changed.items() for change in several
            ):
                where = ".".join((path, name, *keys))
                yield SettingDifference(
                    name=where,
                    path=where,
                    before=short_hash(old_value),
                    after=short_hash(new_value),
                    scoring=new.scores,
                    code=not is_parameter and name != "content",  # the content of a file belongs to the user
                    step=path,
                    parameter=name if is_parameter else "",
                    keys=keys if is_parameter else (),
                    chunk_limit=is_parameter and name in new.built.declared("chunk_limits"),
                    words=Message("gate.step-file-changed", step=path)
                    if not is_parameter and name == "content"
                    else "",
                )
    remaining = [path for path in olds if path in news]
    moved = [path for path in news if path in olds]
    if remaining != moved:
        orders = [", ".join(news[path].label for path in paths) for paths in (remaining, moved)]
        yield SettingDifference(name="order of steps", path=ORDER, before=orders[0], after=orders[1], scoring=False)


def _with_user_names(
    settings: Sequence[SettingDifference], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[SettingDifference]:
    """Settings under the names of the selector's parameters, where one was changed between the same two values."""
    changed = {name: (shown_value(before.get(name)), shown_value(after.get(name))) for name in differing(before, after)}
    for difference in settings:
        last = (difference.keys[-1].rpartition(".")[2] if difference.keys else difference.parameter).lower()
        alike = [name for name, values in changed.items() if last and values == (difference.before, difference.after)]
        suited = [name for name in alike if name.lower().endswith(last)] or (alike if len(alike) == 1 else [])
        if len(suited) > 1:  # two domains may have the same change of the same parameter
            domain = difference.step.lower().replace("*", "rules")
            suited = [name for name in suited if name.lower().removesuffix(last).rstrip("s") in domain] or suited
        name = suited[0] if suited and not difference.code else difference.step if difference.words else difference.path
        yield replace(difference, name=name)


def _steps_text(steps: Sequence[FlatStep]) -> str:
    """The shipped selector that has these steps, else the steps by name."""
    paths = [step.path for step in steps]
    for selector in map(definition, shipped()):
        if paths == [
            step.path for step in flat_steps({"pipeline": selector.pipeline(selector.with_defaults()).describe()}) or ()
        ]:
            return selector.name
    return " + ".join(step.label for step in steps if step.kind != "analyse")


def _step_text(step: FlatStep) -> str:
    """A step as text: its parameters that are not empty."""
    parameters = [
        f"{name}={shown_value(value)}" for name, value in step.values.items() if value not in (None, "", [], {})
    ]
    return f"({', '.join(parameters)})" if parameters else "there"


_ORIGINS = {"session": Origin.SESSION, "search": Origin.SEARCH, "expansion": Origin.EXPANSION}
_LAST_RANK = 1 << 40  # of a chunk beyond every limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate of one query.

    Attributes:
        id: of the item.
        position: in the catalog, for ties.
        score: None for what the session holds.
        origin: `session`, `search` or `expansion`.
        chunk: of the request that it was found by; -1 = none is known.
        tokens: of its prompt text.
        rule: what keeps it out; None = it is offered.
    """

    id: str
    position: int
    score: float | None
    origin: str = "search"
    chunk: int = -1
    tokens: int = 0
    rule: Rule | None = None

    @property
    def beyond_chunks(self) -> bool:
        """Whether it is excluded because it has no chunk among the best chunk matches."""
        return self.rule is not None and self.rule.code == BEYOND_CHUNKS

    @property
    def type(self) -> str:
        """The type of the item."""
        return self.id.partition(":")[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayCase:
    """The input of a replay: do the cuts keep an item among these rivals?

    Attributes:
        candidate: the item; None where it is no candidate, so that it is not kept.
        rivals: the other candidates, in any order.
        bar: items with a lower score have no chunk among the best chunk matches; of those with this very score, the
            ones that this rule excluded have none. How many chunks lie between two items is not stored.
    """

    candidate: Candidate | None
    rivals: Sequence[Candidate] = field(default_factory=tuple)
    bar: float = -np.inf


def can_replay(steps: Sequence[FlatStep] | None) -> bool:
    """Whether everything that these steps do after scoring can be replayed."""
    if steps is None:
        return False
    first = next((index for index, step in enumerate(steps) if step.kind == "expand"), len(steps))
    later_kinds = {step.kind for step in steps[first:]}
    several = any(step.kind == "expand" and step.built.declared("passes") > 1 for step in steps)
    # not stored: the scores that the cuts before a ranking saw, and which pass added an item, and passes are in order
    if "rank" in later_kinds or ("pack" in later_kinds and several):
        return False
    return all(step.built.declared("replay") for step in steps if not (step.scores or step.kind == "expand"))


def deciding_cut(steps: Sequence[FlatStep], row: Candidate) -> FlatStep | None:
    """The step that excludes an item: the first for its type with a parameter that its rule names."""
    values = () if row.rule is None else row.rule.values
    suited = (step for step in steps if step.kind in ("cut", "pack") and row.type in step.types)
    return next((step for step in suited if any((name, value) in step.values.items() for name, value in values)), None)


def replay_cuts(steps: Sequence[FlatStep], cases: Sequence[ReplayCase]) -> list[bool]:
    """Replay the cuts among `steps`: whether they keep the item of each case.

    Args:
        steps: of a pipeline, as `can_replay` wants them; what they do before the first cut is in the scores already.
        cases: each on its own.
    """
    by_rank = not any(step.built.declared("replay") == "all" for step in steps)
    offers = replay_offers(steps, [replace(case, rivals=_near_rivals(case, by_rank=by_rank)) for case in cases])
    return [
        case.candidate is not None and any(row.id == case.candidate.id for row in offered)
        for case, offered in zip(cases, offers, strict=True)
    ]


def replay_offers(steps: Sequence[FlatStep], cases: Sequence[ReplayCase]) -> list[list[Candidate]]:
    """Replay the cuts among `steps`: all candidates of each case that they keep, the order as in the catalog.

    Args:
        steps: as for `replay_cuts`.
        cases: each on its own; where `candidate` is None, all candidates are rivals.
    """
    rows = [(number, row) for number, case in enumerate(cases) for row in _in_catalog_order(case)]
    offers: list[list[Candidate]] = [[] for _ in cases]
    if not rows:
        return offers
    table, types = _table(len(cases), rows, np.array([case.bar for case in cases]))
    costs = np.array([row.tokens for _, row in rows], dtype=np.int64)
    for step in steps:
        if step.kind in ("cut", "pack") and step.built.declared("replay"):
            table = _apply_cut(table, step, types, costs)
    for index in np.sort(table.item[table.chosen]).tolist():
        number, row = rows[index]
        offers[number].append(row)
    return offers


def _near_rivals(case: ReplayCase, *, by_rank: bool) -> Sequence[Candidate]:
    """The rivals on which it depends whether the item is kept: with cuts by rank none of those that rank behind it."""
    if case.candidate is None:
        return ()
    if not by_rank or case.candidate.score is None:
        return case.rivals
    key = _rank_key(case.candidate)
    return [row for row in case.rivals if row.score is None or _rank_key(row) <= key]


def _rank_key(row: Candidate) -> tuple[int, float]:
    """The key that ranks candidates: session, search and expansion in this order, then by falling score."""
    return _ORIGINS[row.origin], -(row.score or 0.0)


def _in_catalog_order(case: ReplayCase) -> list[Candidate]:
    rows = {row.id: row for row in (*case.rivals, case.candidate) if row is not None}
    return sorted(rows.values(), key=lambda row: row.position)


def _table(n: int, rows: Sequence[tuple[int, Candidate]], bars: Any) -> tuple[Candidates, Any]:
    """All cases as one table, one request each; an item's number is its index among all rows."""
    score = [np.nan if row.origin == "session" else row.score or 0.0 for _, row in rows]
    table = Candidates.build(
        n,
        np.array([case for case, _ in rows], dtype=np.int64),
        np.arange(len(rows), dtype=np.int64),
        score=np.array(score, dtype=np.float64),
        origin=np.array([_ORIGINS[row.origin] for _, row in rows], dtype=np.int64),
        mode=np.full(len(rows), Mode.AGENT, dtype=np.int64),
        query_chunk=np.array([row.chunk for _, row in rows], dtype=np.int64),
    )
    ranked = table.ranked
    ranks = place_among(table, ranked)  # an item's best chunk has as many chunks before it as items, or more
    tied = np.array([row.beyond_chunks for _, row in rows])[table.item]
    bar = bars[table.request]
    beyond = ranked & ((table.score < bar) | (tied & (table.score == bar)))
    return table.reordered(chunk_rank=np.where(beyond, _LAST_RANK, ranks)), np.array([row.type for _, row in rows])


def _apply_cut(table: Candidates, step: FlatStep, types: Any, costs: IntArray) -> Candidates:
    """Apply one cut to the candidates of its item types."""
    in_domain: BoolArray = np.isin(types[table.item], step.types)
    query: Any = SimpleNamespace(batch=SimpleNamespace(catalog=None))
    resources: Any = SimpleNamespace(tokens=lambda _catalog, _items=None: costs)
    return concatenated(
        [step.built.call(query, table.select_rows(in_domain), resources), table.select_rows(~in_domain)]
    )


def with_setting(
    steps: Sequence[FlatStep], source_steps: Sequence[FlatStep], setting: SettingDifference
) -> tuple[FlatStep, ...]:
    """Give steps one setting of the other side: a parameter or a key of it, a whole step, or the order of steps.

    Args:
        steps: changed.
        source_steps: where the setting is taken from.
        setting: which one.
    """
    theirs = {step.path: step for step in source_steps}
    order = {path: index for index, path in enumerate(theirs)}
    if setting.path == ORDER:
        return tuple(sorted(steps, key=lambda step: order.get(step.path, len(order))))
    ours = {step.path for step in steps}
    path, name = setting.step, setting.parameter
    if path in theirs and path not in ours:
        at = min([n for n, step in enumerate(steps) if order.get(step.path, -1) > order[path]], default=len(steps))
        return (*steps[:at], theirs[path], *steps[at:])
    if path in ours and path not in theirs:
        return tuple(step for step in steps if step.path != path)
    values = theirs[path].values if path in theirs else {}
    if name not in values:
        return tuple(steps)
    current = next(step.values.get(name) for step in steps if step.path == path)
    value = with_value_of(current, values[name], setting.keys)
    return tuple(with_values(step, {**step.values, name: value}) if step.path == path else step for step in steps)


def with_changes(steps: Sequence[FlatStep], changed: Sequence[tuple[str, str, Any]]) -> list[FlatStep]:
    """Steps with some parameters changed, each as the path of its step, its name there, and the value."""
    values = group_pairs((path, (name, value)) for path, name, value in changed)
    return [
        with_values(step, {**step.values, **dict(values[step.path])}) if step.path in values else step for step in steps
    ]


def with_values(step: FlatStep, values: Mapping[str, Any]) -> FlatStep:
    """The step with other values; unchanged where these are not valid together (an at_most below its at_least)."""
    try:
        registry.build(step.kind, step.name, values)
    except UserError:
        return step
    return replace(step, values=json.loads(json.dumps(values)))
