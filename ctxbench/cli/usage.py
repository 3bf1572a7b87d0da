"""`ctxbench usage`: which offered items replies make use of, and what could be offered less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.io.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctxbench.data.usage import Suggestion, Suggestions, Usage

_WAITING = 5  # items without evidence enough that are named


def report_usage(
    files: Sequence[Path], *, catalog: str | None, tokens: str, share: float, top: int, as_json: bool
) -> None:
    """Count what replies make use of, and print it with what could be offered less.

    Raises:
        UserError: a file or the catalog is not what it should be; file and line.
    """
    from ctxbench.cli.progress import progress
    from ctxbench.cli.select import find_catalog
    from ctxbench.data.usage import EvidenceThreshold, count_usage, read_replies, suggest_fewer_offers
    from ctxbench.io.cache import cache_dir
    from ctxbench.io.visible import count
    from ctxbench.text.tokens import open_counter

    threshold = EvidenceThreshold(share=share)
    items = None if catalog is None else find_catalog(catalog)
    with progress() as shown:
        read = read_replies(files, items)
        if read.faults:
            passed = count(len(read.faults), "fault")
            shown.say(f"warning: {passed} in logs passed over, the first: {read.faults[0]}")
        costs, counter = None, None
        if items is not None:
            opened = open_counter(tokens, cache=cache_dir())
            counted = opened.count(items.ids, [item.prompt_text for item in items]).tolist()
            costs, counter = {item.key: n for item, n in zip(items, counted, strict=True)}, opened.name
        counts = count_usage(read, costs)
    found = suggest_fewer_offers(counts, read.catalog, threshold)
    if as_json:
        print_json({"tokens": counter, **counts.as_dict(), **found.as_dict()})
    else:
        say(*_counts(counts, counter, top), "", *_suggestions(found, counter))


def _counts(counts: Usage, counter: str | None, top: int) -> list[str]:
    """The table of items, and what could not be counted."""
    from ctxbench.io.visible import count

    replies = f"{count(counts.replies, 'reply', 'replies')} of {count(counts.conversations, 'conversation')}"
    used = sum(item.referenced > 0 for item in counts.items)
    lines = [f"{replies}: {count(len(counts.items), 'item')} offered, {used:,} of them referenced"]
    if counts.without_offers:
        lines.append(
            f"not counted, since what was offered is not said: {count(counts.without_offers, 'reply', 'replies')}"
        )
    for what, found in (
        ("called without being offered", {key.id: n for key, n in counts.not_offered.items()}),
        ("no item of the catalog, or of several", dict(counts.unknown)),
    ):
        if found:
            first = ", ".join(f"{name} ({n})" for name, n in list(found.items())[:5])
            lines.append(f"{what}: {first}{', ...' if len(found) > 5 else ''}")
    if not counts.items:
        return lines
    unused = f"  {'tokens unused':>13}" if counter else ""
    lines += ["", f"{'offered':>7}  {'referenced':>10}  {'share, 95% interval':>21}{unused}  item"]
    for item in counts.items[:top]:
        bounds = item.interval
        low, high = (f"{100 * end:.1f}" for end in (bounds.low, bounds.high))
        percent = f"{100 * item.referenced / item.offered:.1f} % ({low} to {high} %)"
        cost = f"  {item.tokens_unused:>13,}" if counter else ""
        lines.append(f"{item.offered:>7,}  {item.referenced:>10,}  {percent:>21}{cost}  {item.key.id}")
        for last in item.evidence[-1:]:
            time = f", {last.time}" if last.time else ""
            lines.append(f"{'':21}last {last.kind}: “{_short(last.text)}” ({last.where}{time})")
    if len(counts.items) > top:
        lines.append(f"and {len(counts.items) - top:,} more (--top, --json)")
    if counter:
        lines.append(f"tokens: {counter}")
    return lines


def _suggestions(found: Suggestions, counter: str | None) -> list[str]:
    from ctxbench.io.visible import count

    threshold = found.threshold
    rule = (
        f"{threshold.needed} offers in {count(threshold.conversations, 'conversation')} without a single reference: "
        f"then it is 95% sure that at most {100 * threshold.share:g}% of replies would reference the item"
    )
    lines = []
    if found.suggestions:
        saved = "" if found.saved is None else f", which would have saved up to {found.saved:,} tokens ({counter})"
        lines += [f"suggestions ({len(found.suggestions)}){saved}:"]
        lines += [line for one in found.suggestions for line in _suggestion(one)]
    else:
        lines.append("no suggestion")
    lines.append(rule)
    if found.not_judged:
        items = count(len(found.not_judged), "item")
        lines.append(f"not judged, since without a text (--catalog) no quotation is seen: {items}")
    if found.pending:
        lines.append(f"never referenced, but offered too seldom to say ({len(found.pending)}):")
        for one in found.pending[:_WAITING]:
            missing = (one.more_offers, "more offer"), (one.more_conversations, "more conversation")
            lines.append(f"  {one.key.id}: needs {' and '.join(count(n, what) for n, what in missing if n)}")
        if len(found.pending) > _WAITING:
            lines.append(f"  and {len(found.pending) - _WAITING} more (--json)")
    return lines


def _suggestion(one: Suggestion) -> list[str]:
    saved = "" if one.saved is None else f", {one.saved:,} tokens"
    return [f"  {one.key.id}: {one.action}{saved}", f"    {one.why}"]


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 60 else one_line[:59] + "…"
