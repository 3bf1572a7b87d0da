"""Finds what differs between two snapshots besides their answers: items, parameters, model, code."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ctxbench.core.items import ItemKey
from ctxbench.gate.description_differences import description_differences, without_server_files
from ctxbench.gate.flat_steps import FlatStep, flat_steps
from ctxbench.gate.item_edit_texts import NAME_FIELDS, differing, edited_fields
from ctxbench.gate.questions import items_without_scope, scopes_of
from ctxbench.gate.setting_differences import SettingDifference, differing_values, told_together
from ctxbench.gate.snapshots import Identity, SelectorSnapshot
from ctxbench.gate.value_texts import NONE, short_hash, shown_value

ORDER = "refine"  # the path of the order of steps
_CODE_DIGITS = 7  # of a hash of code that are shown


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
        return self.text()

    def text(self, *, same: bool = False) -> str:
        """All differences on one line; `same`: the answers do not differ, so that files need not be told apart."""
        counts = ((self.edited, "edited"), (self.new, "new"), (self.gone, "gone"), (self.renamed, "renamed"))
        parts = [f"{len(held)} {what}" for held, what in counts if held]
        if parts:
            first, what = next((len(held), what) for held, what in counts if held)
            parts[0] = f"{first} item{'' if first == 1 else 's'} {what}{self._edited_alone()}"
        named = [one for one in (self.embedder, self.tokens) if one is not None]
        outside = told_together(self.outside) if same else self.outside
        own = [one for one in (*self.settings, *outside) if not one.code]
        return ", ".join([*parts, *dict.fromkeys(map(str, [*named, *own, *self.code]))]) or "nothing"

    def _edited_alone(self) -> str:
        """That nothing but metadata was edited, which search passes over as a rule; empty where more was."""
        return " (metadata alone)" if self.edited and {*self.edited.values()} == {("metadata",)} else ""


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
        **_identity_differences(base.identity, head.identity, head.server_files),
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
    absent = head.absent_servers.get(server_of(item))
    return "no longer in the catalog" if absent is None else absent.why


def server_of(item: str) -> str:
    """The server of a tool, by its id; empty for other items."""
    return ItemKey.parse(item).server or ""


def _identity_differences(base: Identity, head: Identity, server_files: Collection[str]) -> dict[str, Any]:
    before, after = flat_steps(base.selector), flat_steps(head.selector)
    found: dict[str, Any] = {}
    if before is not None and after is not None:
        named = _with_user_names([*_step_settings(before, after)], base.values, head.values)
        found["settings"] = (*named, *_resource_differences(base.selector, head.selector))
    else:
        own = "outside" if base.outside or head.outside else "settings"
        was, now = (without_server_files(side.selector, server_files) for side in (base, head))
        found[own] = tuple(description_differences(was, now))
    if base.embedder != head.embedder:
        found["embedder"] = SettingDifference(
            name="model", path="embedder", was=base.embedder or NONE, now=head.embedder or NONE
        )
    if base.tokens != head.tokens:
        found["tokens"] = SettingDifference(
            name="tokens", path="tokens", was=base.tokens, now=head.tokens, scoring=False
        )
    found["versions"] = tuple(_version_differences(base.versions, head.versions))
    return found


def _version_differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[SettingDifference]:
    """What differs in versions; the code of ctxbench only where its version is the same, which else says enough."""
    names = differing(before, after)
    for name in names:
        was, now = before.get(name, NONE), after.get(name, NONE)
        if name != "code":
            yield SettingDifference(name=name, path=f"versions.{name}", was=was, now=now, code=True)
        elif "ctxbench" not in names:
            own = f"another edit of ctxbench {after.get('ctxbench', '')}".rstrip()
            words = f"{own} ({was[:_CODE_DIGITS]} -> {now[:_CODE_DIGITS]})"
            yield SettingDifference(name="ctxbench", path="versions.code", was=was, now=now, code=True, words=words)


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
            found = {name: differing_values(older.get(name), newer.get(name)) for name in differing(older, newer)}
            for name, (keys, was, now) in ((name, one) for name, several in found.items() for one in several):
                where = ".".join((path, name, *keys))
                yield SettingDifference(
                    name=where,
                    path=where,
                    was=short_hash(was),
                    now=short_hash(now),
                    scoring=new.scores,
                    code=not own and name != "content",  # what stands in a file that a step reads is the user's own
                    step=path,
                    parameter=name if own else "",
                    keys=keys if own else (),
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
        last = (one.keys[-1].rpartition(".")[2] if one.keys else one.parameter).lower()
        alike = [name for name, values in changed.items() if last and values == (one.was, one.now)]
        suited = [name for name in alike if name.lower().endswith(last)] or (alike if len(alike) == 1 else [])
        if len(suited) > 1:  # two domains may have the same change of the same parameter
            domain = one.step.lower().replace("*", "rules")
            suited = [name for name in suited if name.lower().removesuffix(last).rstrip("s") in domain] or suited
        name = suited[0] if suited and not one.code else one.step if one.words else one.path
        yield replace(one, name=name)


def _step_text(step: FlatStep) -> str:
    """A step as text: its parameters that are not empty."""
    held = [f"{name}={shown_value(value)}" for name, value in step.values.items() if value not in (None, "", [], {})]
    return f"({', '.join(held)})" if held else "there"
