"""Finds what differs between two snapshots besides their answers: items, parameters, model, code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ctxbench.core.items import ItemKey
from ctxbench.gate.flat_steps import FlatStep, flat_steps
from ctxbench.gate.item_edit_texts import NAME_FIELDS, differing, edited_fields
from ctxbench.gate.questions import items_without_scope, scopes_of
from ctxbench.gate.snapshots import Identity, SelectorSnapshot
from ctxbench.gate.value_texts import NONE, shown_value
from ctxbench.io.json_files import dump_json

ORDER = "refine"  # the path of the order of steps


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

    def __str__(self) -> str:
        return self.words or f"{self.name} {self.was} -> {self.now}"


@dataclass(frozen=True, eq=False, kw_only=True)
class InputDifferences:
    """What differs between two snapshots besides their answers.

    Attributes:
        edited: by item id, the fields that differ; none where texts are kept out.
        new, gone: item ids, in catalog order; gone is also what is in no scope any more (see
            `questions.items_without_scope`).
        renamed: the new id by the old one.
        settings: of the selector, in the order of its steps.
        outside: what a selector of the user's says of itself.
        embedder, tokens: the model, the counter; None where they are the same.
        versions: of ctxbench, its code, Python and libraries.
    """

    edited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[SettingDifference, ...] = ()
    outside: tuple[SettingDifference, ...] = ()
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
        own = tuple(one for one in self.settings if one.scoring and not one.code)
        return (*model, *own, *self.outside, *(one for one in self.settings if one.scoring and one.code))

    @property
    def cutting(self) -> tuple[SettingDifference, ...]:
        """The user's settings of cuts, which decide what is kept after scoring."""
        return tuple(one for one in self.settings if not one.scoring and not one.code)

    @property
    def code(self) -> tuple[SettingDifference, ...]:
        """The differences that are no settings: versions and code of steps, of ctxbench, Python and libraries."""
        return (*(one for one in self.settings if one.code), *self.versions)

    def __bool__(self) -> bool:
        return bool(self.catalog or self.settings or self.outside or self.embedder or self.tokens or self.versions)

    def __str__(self) -> str:
        """All differences on one line: `2 items edited, 1 new, contextTopN 5 -> 3`; `nothing` where nothing differs."""
        counts = ((self.edited, "edited"), (self.new, "new"), (self.gone, "gone"), (self.renamed, "renamed"))
        parts = [f"{len(held)} {what}" for held, what in counts if held]
        if parts:
            first, what = next((len(held), what) for held, what in counts if held)
            parts[0] = f"{first} item{'' if first == 1 else 's'} {what}"
        named = [one for one in (self.embedder, self.tokens) if one is not None]
        own = [one for one in (*self.settings, *self.outside) if not one.code]
        return ", ".join([*parts, *dict.fromkeys(map(str, [*named, *own, *self.code]))]) or "nothing"


def input_differences(base: SelectorSnapshot, head: SelectorSnapshot, renamed: Mapping[str, str]) -> InputDifferences:
    """Find what differs between two snapshots of a selector on a dataset; answers are not looked at.

    Args:
        base, head: before and after.
        renamed: the id at the head by the id at the base.
    """
    edited: dict[str, tuple[str, ...]] = {}
    for name, item in base.items.items():
        other = head.items.get(renamed.get(name, name))
        if other is None or item.hash == other.hash:
            continue
        fields = edited_fields(item, other)
        if name not in renamed:
            edited[name] = fields
        elif set(fields) - set(NAME_FIELDS):
            edited[renamed[name]] = tuple(one for one in fields if one not in NAME_FIELDS)
    edited |= _disabled_differences(base, head)
    came = set(renamed.values())
    here = {name: new for name, new in renamed.items() if name in base.items and new in head.items}
    out = items_without_scope(base, scopes_of(head), here)
    return InputDifferences(
        edited=edited,
        new=tuple(name for name in head.items if name not in base.items and name not in came),
        gone=tuple(name for name in base.items if name in out or (name not in head.items and name not in here)),
        renamed=here,
        **_identity_differences(base.identity, head.identity),
    )


def _disabled_differences(base: SelectorSnapshot, head: SelectorSnapshot) -> dict[str, tuple[str, ...]]:
    """Disabled items that differ, with the fields: how rare a word is may depend on them."""
    found: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys([*base.disabled, *head.disabled]):
        before, after = base.disabled.get(name), head.disabled.get(name)
        if not (name in base.items or name in head.items or (before and after and before.hash == after.hash)):
            found[name] = () if before is None or after is None else edited_fields(before, after)
    return found


def absence_text(item: str, head: SelectorSnapshot) -> str:
    """Say why the head cannot offer an item that the base could."""
    if item in head.items:
        return "in no scope any more"
    if item in head.disabled:
        return "disabled"
    server = server_of(item)
    config = head.disabled_servers.get(server)
    return "no longer in the catalog" if config is None else f"disabled with server {server} in {config}"


def server_of(item: str) -> str:
    """The server of a tool, by its id; empty for other items."""
    return ItemKey.parse(item).server or ""


def _identity_differences(base: Identity, head: Identity) -> dict[str, Any]:
    before, after = flat_steps(base.selector), flat_steps(head.selector)
    found: dict[str, Any] = {}
    if before is not None and after is not None:
        named = _with_user_names([*_step_settings(before, after)], base.values, head.values)
        found["settings"] = (*named, *_resource_differences(base.selector, head.selector))
    else:
        own = "outside" if base.outside or head.outside else "settings"
        found[own] = tuple(_description_differences(base.selector, head.selector))
    if base.embedder != head.embedder:
        found["embedder"] = SettingDifference(
            name="model", path="embedder", was=base.embedder or NONE, now=head.embedder or NONE
        )
    if base.tokens != head.tokens:
        found["tokens"] = SettingDifference(
            name="tokens", path="tokens", was=base.tokens, now=head.tokens, scoring=False
        )
    found["versions"] = tuple(
        SettingDifference(
            name="code of ctxbench" if name == "code" else name,
            path=f"versions.{name}",
            was=base.versions.get(name, NONE),
            now=head.versions.get(name, NONE),
            code=True,
        )
        for name in differing(base.versions, head.versions)
    )
    return found


def _resource_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """The resources of plugins that both sides use and that differ; model and counter are found elsewhere."""
    was, now = (side["identities"] if isinstance(side.get("identities"), Mapping) else {} for side in (before, after))
    for name in was:
        if name not in ("embedder", "tokens") and name in now and was[name] != now[name]:
            yield SettingDifference(name=name, path=f"identities.{name}", was=str(was[name]), now=str(now[name]))


def _step_settings(before: Sequence[FlatStep], after: Sequence[FlatStep]) -> Iterator[SettingDifference]:
    """The settings that differ, by the path of their step; a step on one side only is one setting."""
    olds, news = {one.path: one for one in before}, {one.path: one for one in after}
    for path in dict.fromkeys([*olds, *news]):
        old, new = olds.get(path), news.get(path)
        if old is None or new is None:
            was, now = (NONE if one is None else _step_text(one) for one in (old, new))
            scores = any(one is not None and one.scores for one in (old, new))
            yield SettingDifference(name=path, path=path, step=path, was=was, now=now, scoring=scores)
            continue
        for older, newer, own in ((old.values, new.values, True), (old.source, new.source, False)):
            for name in differing(older, newer):
                yield SettingDifference(
                    name=f"{path}.{name}",
                    path=f"{path}.{name}",
                    was=_short_hash(older.get(name)),
                    now=_short_hash(newer.get(name)),
                    scoring=new.scores,
                    code=not own and name != "content",  # what stands in a file that a step reads is the user's own
                    step=path,
                    parameter=name if own else "",
                    words=f"the file that {path} reads is another" if not own and name == "content" else "",
                )
    kept = [path for path in olds if path in news]
    moved = [path for path in news if path in olds]
    if kept != moved:
        orders = [", ".join(news[path].label for path in paths) for paths in (kept, moved)]
        yield SettingDifference(name="order of steps", path=ORDER, was=orders[0], now=orders[1], scoring=False)


def _with_user_names(
    settings: Sequence[SettingDifference], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[SettingDifference]:
    """Settings under the names of the selector's parameters, where one was changed between the same two values."""
    changed = {name: (shown_value(before.get(name)), shown_value(after.get(name))) for name in differing(before, after)}
    for one in settings:
        last = one.parameter.lower()
        alike = [name for name, values in changed.items() if last and values == (one.was, one.now)]
        suited = [name for name in alike if name.lower().endswith(last)] or (alike if len(alike) == 1 else [])
        if len(suited) > 1:  # two domains may have the same change of the same parameter
            domain = one.step.lower().replace("*", "rules")
            suited = [name for name in suited if name.lower().removesuffix(last).rstrip("s") in domain] or suited
        name = suited[0] if suited and not one.code else one.step if one.words else one.path
        yield replace(one, name=name)


_KINDS = ("answers", "callable", "command", "url", "pipeline")  # what a selector's description says that it is
_FILE_KEYS = ("sha256", "modules", "files", "unnamed")  # said in words


def _description_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str = ""
) -> Iterator[SettingDifference]:
    """The differences of two descriptions that are no pipelines, without the identities of models."""
    one, other = (next((way for way in _KINDS if way in side), "") for side in (before, after))
    if one and other and one != other:
        yield _in_words(other, f"{path}{other}", f"{_kind_text(before, one)} -> {_kind_text(after, other)}")
        return
    if one and one != "pipeline":
        yield from _file_differences(before, after, one, path)
    for key in dict.fromkeys([*before, *after]):
        was, now, where = before.get(key), after.get(key), f"{path}{key}"
        if key == "identities" or (one and key in _FILE_KEYS) or dump_json(was) == dump_json(now):
            continue
        if key == one and one != "pipeline":
            yield _in_words(
                key, where, f"{key}: {' -> '.join(_distinct_texts(_command_line(was), _command_line(now)))}"
            )
        elif isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from _description_differences(was, now, f"{where}.")
        else:
            yield SettingDifference(name=where, path=where, was=_short_hash(was), now=_short_hash(now))


def _file_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], way: str, path: str
) -> Iterator[SettingDifference]:
    """The files of a user's selector that were edited; for another command or file, its name alone."""
    files = [
        str(side[way]).rpartition(":")[0] if way == "callable" else _command_line(side[way]) for side in (before, after)
    ]
    if files[0] == files[1] and before.get("sha256") != after.get("sha256"):
        where = f"{path}sha256" if way == "answers" else f"{path}{way}.sha256"
        yield _in_words(files[0], where, f"{files[0]} was edited")
    if before[way] == after[way] and {"unnamed"} & {*before, *after} and before.get("unnamed") != after.get("unnamed"):
        what = "cannot be told from another version of itself: name a function as module:function"
        yield _in_words(files[0], f"{path}unnamed", f"callable {before[way]} {what}")
    program = before[way][0] if way == "command" and isinstance(before[way], list) and before[way] else None
    for key, kind in (("modules", "module "), ("files", "")):
        was, now = (side[key] if isinstance(side.get(key), Mapping) else {} for side in (before, after))
        for name in dict.fromkeys([*was, *now]):
            if name in was and name in now:
                done = "" if was[name] == now[name] else "is another program" if name == program else "was edited"
            elif before[way] != after[way]:
                done = ""
            else:
                done = "is new" if name in now else "is no longer used" if key == "modules" else "is gone"
            if done:
                yield _in_words(name, f"{path}{key}.{name}", f"{kind}{name} {done}")


def _in_words(name: str, path: str, words: str) -> SettingDifference:
    return SettingDifference(name=name, path=path, was="", now="", words=words)


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


def _short_hash(value: Any) -> str:
    """As `shown_value`; a hash by its first eight digits."""
    return value[:8] if isinstance(value, str) and re.fullmatch("[0-9a-f]{40,64}", value) else shown_value(value)


def _step_text(step: FlatStep) -> str:
    """A step as text: its parameters that are not empty."""
    held = [f"{name}={shown_value(value)}" for name, value in step.values.items() if value not in (None, "", [], {})]
    return f"({', '.join(held)})" if held else "there"
