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


def stats_lines(stats: DatasetStats, *, limit: int | None = 10) -> list[str]:
    """What a dataset holds, as lines; of each list the first `limit`, None = all."""
    from ctxbench.data.datasets.query_labels import unlabelled_words

    counts = stats.counts
    types = ", ".join(f"{n:,} {name}" for name, n in counts["types"].items())
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    left = unlabelled_words(counts["unlabelled"], counts["partly_labelled"])
    lines = [
        f"{stats.name} {stats.version} ({stats.hash[:12]})",
        f"items    {counts['items']:,} ({types})",
        f"queries  {counts['queries']:,} ({splits})",
        f"         {counts['needs_nothing']:,} need nothing, {left}",
        "",
        f"labels   {counts['labels']:,}",
        *(f"  {kind:<8} {_listed(rows)}" for kind, rows in stats.labels.items() if kind != "alternatives"),
        f"  {stats.labels['alternatives']['labels']:,} stand for one another (alternatives)",
        "",
        *_table(
            ["", "n", "mean", "least", "median", "95%", "most", "total"],
            [
                [name, _n(s.n), f"{s.mean:,.1f}", _n(s.least), _n(s.median), _n(s.p95), _n(s.most), _n(s.total)]
                for name, s in stats.spreads.items()
            ],
        ),
        "",
    ]
    for group, rows in stats.tokens_by.items():
        table = [[name or "(none)", f"{n:,}", f"{tokens:,}"] for name, (n, tokens) in rows.items()]
        lines += _section(f"prompt tokens by {group}", _table([group, "items", "tokens"], table), limit, header=1)
    largest = [f"{tokens:>7,}  {item}" for item, tokens in stats.largest]
    lines += _section("largest items, in prompt tokens", largest, limit)
    lines += _near_lines(stats, limit)
    leaks = [f"{leak.query}: {leak.item} ({leak.how})" for leak in stats.leaks if leak.how != "server"]
    servers = {leak.query for leak in stats.leaks if leak.how == "server"}
    title = f"queries that name an item they require: {stats.named:,} of {stats.leak_queries:,} ({_rule()})"
    named = f"queries that name the server of one: {len(servers):,}"
    lines += [*_section(title, leaks, limit)[:-1], named, ""]
    lines += _section(
        f"items never required: {len(stats.never_required):,} of {counts['items']:,}", stats.never_required, limit
    )
    lines += _section(f"queries without all their labels: {len(stats.unlabelled):,}", stats.unlabelled, limit)
    lines += _tag_lines(stats)
    return lines[:-1]


def _rule() -> str:
    from ctxbench.data.curation.name_leaks import RULE

    return RULE


def _near_lines(stats: DatasetStats, limit: int | None) -> list[str]:
    from ctxbench.io.visible import count

    near = stats.near
    if near.skipped:
        return [f"near-duplicates: not computed; {near.skipped}", ""]
    pairs = [f"{s:.2f}  {left}  {right}{'  (two servers)' if across else ''}" for left, right, s, across in near.pairs]
    pairs_of = f"{count(len(near.pairs), 'pair')} ({near.across:,} across servers)"
    title = f"near-duplicates: {pairs_of} in {count(near.groups, 'group')} of {count(near.items, 'item')}; "
    title += f"{near.method}, from {near.threshold:g} on"
    return _section(title, pairs, limit)


def _tag_lines(stats: DatasetStats) -> list[str]:
    if not stats.tags:
        return ["no tags", ""]
    splits = list(stats.counts["splits"])
    header = ["tag", "queries", *splits, "unlabelled", "need nothing", "required"]
    rows = [
        [row.tag, *map(_n, [row.queries, *(row.splits[name] for name in splits), row.unlabelled, row.needs_nothing])]
        for row in stats.tags
    ]
    required = [f"{row.required:.2f}" for row in stats.tags]
    return [*_table(header, [[*row, mean] for row, mean in zip(rows, required, strict=True)]), ""]


def split_lines(result: Resplit) -> list[str]:
    """How the splits come out, as lines."""
    from ctxbench.io.visible import count

    rows = [
        [name, *(_n(counts.get(name, 0)) for counts in (result.before, result.after, result.judged, result.bundles))]
        for name in dict.fromkeys([*result.before, *result.after])
    ]
    lines = _table(["split", "queries before", "queries now", "of them judged", "groups"], rows)
    are = "is" if result.moved == 1 else "are"
    lines.append(f"{count(result.moved, 'query', 'queries')} {are} of another split now")
    if result.cut:
        are = "is" if result.late == 1 else "are"
        late = f"{count(result.late, 'query', 'queries')} of test {are} of that very time, "
        late += "or earlier and kept with later ones"
        lines.append(f"tuning reaches to {result.cut}; {late}")
    return lines


def diff_lines(difference: DatasetDifference, *, limit: int | None = 10) -> list[str]:
    """How two datasets differ, as lines."""
    from ctxbench.io.visible import count

    head = [f"a: {difference.a}", f"b: {difference.b}"]
    if difference.equal:
        return [*head, "equal"]
    lines = [*head, ""]
    for noun, parts in (("items", difference.items), ("queries", difference.queries)):
        if parts:
            lines += _section(_parts_title(noun, parts), _part_lines(parts), limit)
    if difference.reordered:
        lines += [_REORDERED, ""]
    moved = [f"{change.query}: {change.before} -> {change.after}" for change in difference.splits]
    if moved:
        lines += _section(f"splits: {count(len(moved), 'query', 'queries')} moved", moved, limit)
    if difference.labels:
        counts = "; ".join(f"{kind} {_listed(rows)}" for kind, rows in difference.label_counts.items() if rows)
        lines += _section(f"labels: {counts}", [_label_line(change) for change in difference.labels], limit)
    if difference.card:
        lines += [f"card: {', '.join(entry.id for entry in difference.card)} differ", ""]
    scopes = [f"{name}: {len(plus):,} added, {len(minus):,} removed" for name, plus, minus in difference.scopes]
    if scopes:
        lines += _section(f"scopes: {len(scopes):,} differ", scopes, limit)
    return lines[:-1]


def _parts_title(noun: str, parts: PartChanges) -> str:
    return f"{noun}: {len(parts.added):,} added, {len(parts.removed):,} removed, {len(parts.changed):,} changed"


def _part_lines(parts: PartChanges) -> list[str]:
    lines = [f"+ {name}" for name in parts.added] + [f"- {name}" for name in parts.removed]
    return lines + [f"~ {change.id} ({', '.join(change.fields)})" for change in parts.changed]


def _label_line(change: Any) -> str:
    from ctxbench.data.curation.diff import GRADES

    sign = {"added": "+", "removed": "-", "changed": "~"}[change.kind]
    sides = [side for side in (change.before, change.after) if side is not None]
    texts = []
    for side in sides:
        rest = [side["via"] if side["via"] != "direct" else ""]
        rest += [f"one of {side['alternatives']}" if side["alternatives"] else ""]
        rest += [f"source {side['source']}" if side["source"] else ""]
        texts.append(", ".join([GRADES[side["grade"]], *filter(None, rest)]))
    return f"{sign} {change.query}  {change.item}  {' -> '.join(texts)}"


def rebase_lines(report: RebaseReport, *, limit: int | None = 10) -> list[str]:
    """What carrying a dataset over changed, as lines."""
    from ctxbench.io.visible import count

    after = report.dataset
    lines = [
        f"from {report.source}",
        f"to   {after.name} {after.version} {after.hash[:12]}",
        f"     {count(len(after.catalog), 'item')}, {count(len(after), 'query', 'queries')}, "
        + count(len(after.labels), "label"),
        "",
    ]
    renamed = [f"{pair.old.id} -> {pair.new.id} ({pair.how})" for pair in report.renamed]
    proposed = [f"{pair.old.id} -> {pair.new.id} ({pair.how})" for pair in report.proposed]
    ambiguous = [f"{pair.old.id} -> {' or '.join(key.id for key in pair.candidates)}" for pair in report.ambiguous]
    likely = [f"{pair.old.id}: {pair.new.id}    # {pair.how}" for pair in report.likely]
    changed = [f"{change.id} ({', '.join(change.fields)})" for change in report.changed]
    lost = [f"{loss.query}  {loss.item}  grade {loss.grade}, {loss.why}: {loss.effect}" for loss in report.lost_labels]
    mentions = [f"{mention.where}: {mention.item} ({mention.why})" for mention in report.lost_mentions]
    to_review = [
        f"{hint.query} requires {hint.required}; {hint.new} is new ({hint.similarity:.2f})" for hint in report.to_review
    ]
    split = [
        f"{hint.query} requires {hint.item}; {hint.other} is new "
        + (
            "(what the first said before is not known)"
            if hint.share is None
            else f"(has {hint.share:.0%} of what it lost)"
        )
        for hint in report.split
    ]
    for title, rows in (
        ("items renamed", renamed),
        ("items proposed as renamed, taken for gone (--accept-renames takes them over)", proposed),
        ("items with several possible successors, taken for gone (say which in --renames)", ambiguous),
        ("items gone (renamed? --renames FILE, which holds `old id: new id`, lets labels follow)", report.gone),
        ("labels are lost with these, which may go on as (to follow: put the lines into --renames FILE)", likely),
        ("items new", report.added),
        (f"items changed, {count(report.changed_labels, 'label')} carried over to them", changed),
        ("labels lost", lost),
        ("places where an item was named and is gone", mentions),
        ("queries unlabelled now, and left out of every figure", report.now_unlabelled),
        (f"look at these: a new item is much like a required one (by words, from {report.threshold:g})", to_review),
        ("look at these: a required item seems to be split, and the label followed one part alone", split),
    ):
        if rows:
            lines += _section(f"{title}: {len(rows):,}", rows, limit)
    if report.reordered:
        lines += [_REORDERED, ""]
    lines.append(f"queries for which an item is new and unlabelled: {report.open_queries:,} of {len(after):,}")
    listed = sum(query.request.available is not None for query in after.queries)
    if report.added and listed:
        lines.append(f"queries with a scope or a list, which no new item was put in: {listed:,}")
    match report.dataset.about.get("source"):
        case {"format": "golden", "sha256": dict(files)} if report.renamed:
            lines.append(
                f"{', '.join(map(str, files))} may have the old ids: rename them there, too, before you import again"
            )
    return lines


def drop_warning(report: RebaseReport) -> list[str]:
    """A warning before labels are dropped whose items may go on under another id; else nothing."""
    from ctxbench.io.visible import count

    if not report.likely:
        return []
    likely = {renaming.old.id for renaming in report.likely}
    n = sum(label.item in likely for label in report.lost_labels)
    are = "label is" if n == 1 else "labels are"
    text = f"warning: {n:,} {are} dropped with {count(len(likely), 'item')} that may go on under another id"
    back = "to keep them, bring the folder back (`git restore`), and rebase with --renames FILE, which holds"
    return [f"{text}; {back}:", *(f"  {renaming.old.id}: {renaming.new.id}" for renaming in report.likely)]


def export_lines(report: ExportReport, *, plain: bool = False) -> list[str]:
    """What was written, and what the format cannot hold, as lines."""
    from ctxbench.io.visible import count

    labels = ", ".join(f"{name} {n:,}" for name, n in report.labels.items())
    lines = [f"{count(report.items, 'item')}, {count(report.queries, 'query', 'queries')}, labels in qrels: {labels}"]
    lines += [f"run {name}: {file}" for name, file in report.runs.items()]
    lines += [f"no run of {name}: it returned no ranking" for name in report.without_ranking]
    if report.not_held:
        where = "left out (--plain)" if plain else "kept in `metadata` and export.json, where only ctxbench reads it"
        lines += [f"what the format has no place for, {where}:"]
        lines += [f"  {n:,} {noun}" for noun, n in report.not_held.items()]
    for why, queries in report.other_values.items():
        some = f"{', '.join(queries[:3])}{', ...' if len(queries) > 3 else ''}"
        of = count(len(queries), "query", "queries")
        lines.append(f"ranking metrics of {of} differ in other programs, since {why}: {some}")
    return [*lines, f"written to {report.folder}"]


def _section(title: str, rows: Iterable[str], limit: int | None, *, header: int = 0) -> list[str]:
    """A title, the first of some lines, and how many more there are; a blank line ends it."""
    listed = list(rows)
    visible = listed if limit is None else listed[: limit + header]
    hidden = len(listed) - len(visible)
    return [title, *(f"  {row}" for row in visible), *([f"  and {hidden:,} more (--all)"] if hidden else []), ""]


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
