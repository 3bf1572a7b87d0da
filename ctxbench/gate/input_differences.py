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
from ctxbench.gate.setting_differences import SettingDifference, differing_values, merge_file_differences
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
        user_settings = tuple(difference for difference in self.settings if difference.scoring and not difference.code)
        return (
            *model,
            *user_settings,
            *self.outside,
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
        return bool(self.catalog or self.settings or self.outside or self.embedder or self.tokens or self.versions)

    def __str__(self) -> str:
        """All differences on one line: `2 items edited, 1 new, contextTopN 5 -> 3`; `nothing` where nothing differs."""
        return self.text()

    def text(self, *, same_answers: bool = False) -> str:
        """All differences on one line; with `same_answers`, edited source files are one of them."""
        counts = ((self.edited, "edited"), (self.new, "new"), (self.gone, "gone"), (self.renamed, "renamed"))
        parts = [f"{len(items)} {state}" for items, state in counts if items]
        if parts:
            first, state = next((len(items), state) for items, state in counts if items)
            parts[0] = f"{first} item{'' if first == 1 else 's'} {state}{self._edited_alone()}"
        named = [difference for difference in (self.embedder, self.tokens) if difference is not None]
        outside = merge_file_differences(self.outside) if same_answers else self.outside
        differences = [difference for difference in (*self.settings, *outside) if not difference.code]
        return ", ".join([*parts, *dict.fromkeys(map(str, [*named, *differences, *self.code]))]) or "nothing"

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
        after = head.items.get(renamed.get(name, name))
        if after is None or item.hash == after.hash:
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


def absence_text(item: str, head: SelectorSnapshot) -> str:
    """Why the head cannot offer an item that the base could."""
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
    differences: dict[str, Any] = {}
    if before is not None and after is not None:
        named = _with_user_names([*_step_settings(before, after)], base.values, head.values)
        differences["settings"] = (*named, *_resource_differences(base.selector, head.selector))
    else:
        key = "outside" if base.outside or head.outside else "settings"
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
            label = f"another edit of ctxbench {after.get('ctxbench', '')}".rstrip()
            words = f"{label} ({old[:_CODE_DIGITS]} -> {new[:_CODE_DIGITS]})"
            yield SettingDifference(
                name="ctxbench", path="versions.code", before=old, after=new, code=True, words=words
            )


def _resource_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SettingDifference]:
    """The resources of plugins that both sides use and that differ; model and counter are found elsewhere."""
    old_ids, new_ids = (
        side["identities"] if isinstance(side.get("identities"), Mapping) else {} for side in (before, after)
    )
    for name in old_ids:
        if name not in ("embedder", "tokens") and name in new_ids and old_ids[name] != new_ids[name]:
            yield SettingDifference(
                name=name, path=f"identities.{name}", before=str(old_ids[name]), after=str(new_ids[name])
            )


def _step_settings(before: Sequence[FlatStep], after: Sequence[FlatStep]) -> Iterator[SettingDifference]:
    """The settings that differ, by the path of their step; a step on one side only is one setting."""
    olds, news = {step.path: step for step in before}, {step.path: step for step in after}
    for path in dict.fromkeys([*olds, *news]):
        old, new = olds.get(path), news.get(path)
        if old is None or new is None:
            old_value, new_value = (NONE if step is None else _step_text(step) for step in (old, new))
            scores = any(step is not None and step.scores for step in (old, new))
            yield SettingDifference(name=path, path=path, step=path, before=old_value, after=new_value, scoring=scores)
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
                    code=not is_parameter
                    and name != "content",  # what stands in a file that a step reads is the user's own
                    step=path,
                    parameter=name if is_parameter else "",
                    keys=keys if is_parameter else (),
                    words=f"the file that {path} reads is another" if not is_parameter and name == "content" else "",
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


def _step_text(step: FlatStep) -> str:
    """A step as text: its parameters that are not empty."""
    parameters = [
        f"{name}={shown_value(value)}" for name, value in step.values.items() if value not in (None, "", [], {})
    ]
    return f"({', '.join(parameters)})" if parameters else "there"
