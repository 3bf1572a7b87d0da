"""What `ctxbench data stats | split | diff | rebase | export` print for people, as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctxbench.data.curation.diff import DatasetDifference, PartChanges
    from ctxbench.data.curation.export import ExportReport
    from ctxbench.data.curation.rebase import RebaseReport
    from ctxbench.data.curation.splits import Resplit
    from ctxbench.data.curation.stats import DatasetStats

_REORDERED = "items that are in both stand in another order, which breaks ties otherwise"


def stats_lines(found: DatasetStats, *, shown: int | None = 10) -> list[str]:
    """What a dataset holds, as lines; of each list the first `shown`, None = all."""
    from ctxbench.data.datasets.query_labels import unlabelled_words

    counts = found.counts
    types = ", ".join(f"{n:,} {name}" for name, n in counts["types"].items())
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    left = unlabelled_words(counts["unlabelled"], counts["partly_labelled"])
    lines = [
        f"{found.name} {found.version} ({found.hash[:12]})",
        f"items    {counts['items']:,} ({types})",
        f"queries  {counts['queries']:,} ({splits})",
        f"         {counts['needs_nothing']:,} need nothing, {left}",
        "",
        f"labels   {counts['labels']:,}",
        *(f"  {what:<8} {_listed(rows)}" for what, rows in found.labels.items() if what != "alternatives"),
        f"  {found.labels['alternatives']['labels']:,} stand for one another (alternatives)",
        "",
        *_table(
            ["", "n", "mean", "least", "median", "95%", "most", "total"],
            [
                [name, _n(s.n), f"{s.mean:,.1f}", _n(s.least), _n(s.median), _n(s.p95), _n(s.most), _n(s.total)]
                for name, s in found.spreads.items()
            ],
        ),
        "",
    ]
    for what, rows in found.tokens_by.items():
        table = [[name or "(none)", f"{n:,}", f"{tokens:,}"] for name, (n, tokens) in rows.items()]
        lines += _section(f"prompt tokens by {what}", _table([what, "items", "tokens"], table), shown, header=1)
    largest = [f"{tokens:>7,}  {item}" for item, tokens in found.largest]
    lines += _section("largest items, in prompt tokens", largest, shown)
    lines += _near_lines(found, shown)
    leaks = [f"{leak.query}: {leak.item} ({leak.how})" for leak in found.leaks if leak.how != "server"]
    servers = {leak.query for leak in found.leaks if leak.how == "server"}
    title = f"queries that name an item they require: {found.named:,} of {found.leak_queries:,} ({_rule()})"
    named = f"queries that name the server of one: {len(servers):,}"
    lines += [*_section(title, leaks, shown)[:-1], named, ""]
    lines += _section(
        f"items never required: {len(found.never_required):,} of {counts['items']:,}", found.never_required, shown
    )
    lines += _section(f"queries without all their labels: {len(found.unlabelled):,}", found.unlabelled, shown)
    lines += _tag_lines(found)
    return lines[:-1]


def _rule() -> str:
    from ctxbench.data.curation.name_leaks import RULE

    return RULE


def _near_lines(found: DatasetStats, shown: int | None) -> list[str]:
    from ctxbench.io.visible import count

    near = found.near
    if near.skipped:
        return [f"near-duplicates: not computed; {near.skipped}", ""]
    pairs = [f"{s:.2f}  {one}  {other}{'  (two servers)' if apart else ''}" for one, other, s, apart in near.pairs]
    pairs_of = f"{count(len(near.pairs), 'pair')} ({near.across:,} across servers)"
    title = f"near-duplicates: {pairs_of} in {count(near.groups, 'group')} of {count(near.items, 'item')}; "
    title += f"{near.method}, from {near.threshold:g} on"
    return _section(title, pairs, shown)


def _tag_lines(found: DatasetStats) -> list[str]:
    if not found.tags:
        return ["no tags", ""]
    splits = list(found.counts["splits"])
    header = ["tag", "queries", *splits, "unlabelled", "need nothing", "required"]
    rows = [
        [row.tag, *map(_n, [row.queries, *(row.splits[name] for name in splits), row.unlabelled, row.needs_nothing])]
        for row in found.tags
    ]
    required = [f"{row.required:.2f}" for row in found.tags]
    return [*_table(header, [[*row, mean] for row, mean in zip(rows, required, strict=True)]), ""]


def split_lines(found: Resplit) -> list[str]:
    """How the splits come out, as lines."""
    from ctxbench.io.visible import count

    rows = [
        [name, *(_n(one.get(name, 0)) for one in (found.before, found.after, found.judged, found.bundles))]
        for name in dict.fromkeys([*found.before, *found.after])
    ]
    lines = _table(["split", "queries before", "queries now", "of them judged", "groups"], rows)
    are = "is" if found.moved == 1 else "are"
    lines.append(f"{count(found.moved, 'query', 'queries')} {are} of another split now")
    if found.cut:
        are = "is" if found.late == 1 else "are"
        late = f"{count(found.late, 'query', 'queries')} of test {are} of that very time, "
        late += "or earlier and kept with later ones"
        lines.append(f"tuning reaches to {found.cut}; {late}")
    return lines


def diff_lines(found: DatasetDifference, *, shown: int | None = 10) -> list[str]:
    """How two datasets differ, as lines."""
    from ctxbench.io.visible import count

    head = [f"a: {found.a}", f"b: {found.b}"]
    if found.equal:
        return [*head, "equal"]
    lines = [*head, ""]
    for what, parts in (("items", found.items), ("queries", found.queries)):
        if parts:
            lines += _section(_parts_title(what, parts), _part_lines(parts), shown)
    if found.reordered:
        lines += [_REORDERED, ""]
    moved = [f"{one.query}: {one.before} -> {one.after}" for one in found.splits]
    if moved:
        lines += _section(f"splits: {count(len(moved), 'query', 'queries')} moved", moved, shown)
    if found.labels:
        counts = "; ".join(f"{kind} {_listed(rows)}" for kind, rows in found.label_counts.items() if rows)
        lines += _section(f"labels: {counts}", [_label_line(change) for change in found.labels], shown)
    if found.card:
        lines += [f"card: {', '.join(one.id for one in found.card)} differ", ""]
    scopes = [f"{name}: {len(plus):,} added, {len(minus):,} removed" for name, plus, minus in found.scopes]
    if scopes:
        lines += _section(f"scopes: {len(scopes):,} differ", scopes, shown)
    return lines[:-1]


def _parts_title(what: str, parts: PartChanges) -> str:
    return f"{what}: {len(parts.added):,} added, {len(parts.removed):,} removed, {len(parts.changed):,} changed"


def _part_lines(parts: PartChanges) -> list[str]:
    lines = [f"+ {name}" for name in parts.added] + [f"- {name}" for name in parts.removed]
    return lines + [f"~ {one.id} ({', '.join(one.fields)})" for one in parts.changed]


def _label_line(change: Any) -> str:
    from ctxbench.data.curation.diff import GRADES

    sign = {"added": "+", "removed": "-", "changed": "~"}[change.kind]
    sides = [side for side in (change.before, change.after) if side is not None]
    told = []
    for side in sides:
        rest = [side["via"] if side["via"] != "direct" else ""]
        rest += [f"one of {side['alternatives']}" if side["alternatives"] else ""]
        rest += [f"source {side['source']}" if side["source"] else ""]
        told.append(", ".join([GRADES[side["grade"]], *filter(None, rest)]))
    return f"{sign} {change.query}  {change.item}  {' -> '.join(told)}"


def rebase_lines(found: RebaseReport, *, shown: int | None = 10) -> list[str]:
    """What carrying a dataset over changed, as lines."""
    from ctxbench.io.visible import count

    after = found.dataset
    lines = [
        f"from {found.source}",
        f"to   {after.name} {after.version} {after.hash[:12]}",
        f"     {count(len(after.catalog), 'item')}, {count(len(after), 'query', 'queries')}, "
        + count(len(after.labels), "label"),
        "",
    ]
    renamed = [f"{one.old.id} -> {one.new.id} ({one.how})" for one in found.renamed]
    proposed = [f"{one.old.id} -> {one.new.id} ({one.how})" for one in found.proposed]
    ambiguous = [f"{one.old.id} -> {' or '.join(key.id for key in one.candidates)}" for one in found.ambiguous]
    likely = [f"{one.old.id}: {one.new.id}    # {one.how}" for one in found.likely]
    changed = [f"{one.id} ({', '.join(one.fields)})" for one in found.changed]
    lost = [f"{one.query}  {one.item}  grade {one.grade}, {one.why}: {one.effect}" for one in found.lost_labels]
    places = [f"{one.where}: {one.item} ({one.why})" for one in found.lost_mentions]
    to_review = [
        f"{one.query} requires {one.required}; {one.new} is new ({one.similarity:.2f})" for one in found.to_review
    ]
    split = [
        f"{one.query} requires {one.item}; {one.other} is new "
        + (
            "(what the first said before is not known)"
            if one.share is None
            else f"(has {one.share:.0%} of what it lost)"
        )
        for one in found.split
    ]
    for title, rows in (
        ("items renamed", renamed),
        ("items proposed as renamed, taken for gone (--accept-renames takes them over)", proposed),
        ("items with several possible successors, taken for gone (say which in --renames)", ambiguous),
        ("items gone (renamed? --renames FILE, which holds `old id: new id`, lets labels follow)", found.gone),
        ("labels are lost with these, which may go on as (to follow: put the lines into --renames FILE)", likely),
        ("items new", found.added),
        (f"items changed, {count(found.changed_labels, 'label')} carried over to them", changed),
        ("labels lost", lost),
        ("places where an item was named and is gone", places),
        ("queries unlabelled now, and left out of every figure", found.now_unlabelled),
        (f"look at these: a new item is much like a required one (by words, from {found.threshold:g})", to_review),
        ("look at these: a required item seems to be split, and the label followed one part alone", split),
    ):
        if rows:
            lines += _section(f"{title}: {len(rows):,}", rows, shown)
    if found.reordered:
        lines += [_REORDERED, ""]
    lines.append(f"queries for which an item is new and unlabelled: {found.open_queries:,} of {len(after):,}")
    listed = sum(query.request.available is not None for query in after.queries)
    if found.added and listed:
        lines.append(f"queries with a scope or a list, which no new item was put in: {listed:,}")
    match found.dataset.about.get("source"):
        case {"format": "golden", "sha256": dict(files)} if found.renamed:
            lines.append(
                f"{', '.join(map(str, files))} may have the old ids: rename them there, too, before you import again"
            )
    return lines


def drop_warning(found: RebaseReport) -> list[str]:
    """What is said before a dataset is written without labels that may have been meant to follow; else nothing."""
    from ctxbench.io.visible import count

    if not found.likely:
        return []
    likely = {one.old.id for one in found.likely}
    n = sum(label.item in likely for label in found.lost_labels)
    are = "label is" if n == 1 else "labels are"
    what = f"warning: {n:,} {are} dropped with {count(len(likely), 'item')} that may go on under another id"
    back = "to keep them, bring the folder back (`git restore`), and rebase with --renames FILE, which holds"
    return [f"{what}; {back}:", *(f"  {one.old.id}: {one.new.id}" for one in found.likely)]


def export_lines(found: ExportReport, *, plain: bool = False) -> list[str]:
    """What was written, and what the format cannot hold, as lines."""
    from ctxbench.io.visible import count

    labels = ", ".join(f"{name} {n:,}" for name, n in found.labels.items())
    lines = [f"{count(found.items, 'item')}, {count(found.queries, 'query', 'queries')}, labels in qrels: {labels}"]
    lines += [f"run {name}: {file}" for name, file in found.runs.items()]
    lines += [f"no run of {name}: it returned no ranking" for name in found.without_ranking]
    if found.not_held:
        where = "left out (--plain)" if plain else "kept in `metadata` and export.json, where only ctxbench reads it"
        lines += [f"what the format has no place for, {where}:"]
        lines += [f"  {n:,} {what}" for what, n in found.not_held.items()]
    for why, queries in found.other_values.items():
        some = f"{', '.join(queries[:3])}{', ...' if len(queries) > 3 else ''}"
        of = count(len(queries), "query", "queries")
        lines.append(f"ranking metrics of {of} differ in other programs, since {why}: {some}")
    return [*lines, f"written to {found.folder}"]


def _section(title: str, rows: Iterable[str], shown: int | None, *, header: int = 0) -> list[str]:
    """A title, the first of some lines, and how many more there are; a blank line ends it."""
    listed = list(rows)
    kept = listed if shown is None else listed[: shown + header]
    more = len(listed) - len(kept)
    return [title, *(f"  {row}" for row in kept), *([f"  and {more:,} more (--all)"] if more else []), ""]


def _n(number: float) -> str:
    return f"{number:,.0f}"


def _listed(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in rows.items())


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell; the first is aligned left, all others right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    pads: list[Callable[[str, int], str]] = [str.ljust, *([str.rjust] * (len(header) - 1))]
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in cells
    ]
