"""An ablation at a glance: strategies by datasets as SVG, a cell the difference in completeness at equal tokens."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ablation import Ablation, verdict

from ctxbench.bench.equal_tokens import AtTokens
from ctxbench.bench.metrics import parse_metric
from ctxbench.reporting import wording

_ROW, _CELL, _HEAD, _LETTER = 20, 62, 118, 6.6
_INK, _FAINT, _BETTER, _WORSE = "#1f2933", "#8a94a0", "#1f6fb4", "#c2571a"
_STRONG = 0.15  # a difference from which on a cell has its full colour
_COMPLETE = parse_metric("completeness")


def overview(ablation: Ablation) -> str:
    """Draw the strategies, the best first, against the datasets in the order of the experiment.

    A cell is coloured where the two are told apart, the stronger the larger the difference; a dash stands where the
    strategy spends more than the base's whole curve. The same run gives the same bytes.
    """
    standings = ablation.standings()
    left = 14 + _LETTER * max((len(one.strategy) for one in standings), default=0)
    width = left + _CELL * len(ablation.datasets) + 40
    height = _HEAD + _ROW * len(standings) + 44
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">',
        "<title>Difference in completeness from the base at equal tokens, by strategy and dataset</title>",
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
    ]
    for column, dataset in enumerate(ablation.datasets):
        x = left + _CELL * (column + 0.5)
        name = escape(wording.named(dataset.summary.dataset))
        turned = f'transform="rotate(-40 {x:.1f} {_HEAD - 8})"'
        lines.append(f'<text x="{x:.1f}" y="{_HEAD - 8}" fill="{_INK}" {turned}>{name}</text>')
    for place, one in enumerate(standings):
        y = _HEAD + _ROW * place
        name = escape(wording.named(one.strategy))
        lines.append(f'<text x="{left - 8:.1f}" y="{y + 14}" text-anchor="end" fill="{_INK}">{name}</text>')
        for column, dataset in enumerate(ablation.datasets):
            lines += _cell(dataset.at_tokens[one.strategy], left + _CELL * column, y)
    lines += [*_legend(left, _HEAD + _ROW * len(standings) + 24), "</svg>"]
    return "\n".join(lines) + "\n"


def _cell(found: AtTokens, x: float, y: float) -> Iterator[str]:
    told = verdict(found)
    fill, ink, opacity = "#f4f6f8", _FAINT, 1.0
    if found.comparison is None:
        text = wording.NONE
    else:
        text = wording.signed(_COMPLETE, found.comparison.difference)
        if told != "untold":
            fill = _BETTER if told == "better" else _WORSE
            opacity = 0.25 + 0.75 * min(abs(found.comparison.difference) / _STRONG, 1.0)
            ink = "#ffffff" if opacity > 0.6 else _INK
    yield (
        f'<rect x="{x + 1:.1f}" y="{y + 1}" width="{_CELL - 2}" height="{_ROW - 2}" fill="{fill}" '
        f'fill-opacity="{opacity:.2f}"/>'
    )
    yield f'<text x="{x + _CELL / 2:.1f}" y="{y + 14}" text-anchor="middle" fill="{ink}">{text}</text>'


def _legend(x: float, y: float) -> Iterator[str]:
    """What the colours say, on one line."""
    for name, fill, colour in (
        ("better", _BETTER, _INK),
        ("worse", _WORSE, _INK),
        ("not told apart", "#f4f6f8", _FAINT),
    ):
        yield f'<rect x="{x:.1f}" y="{y - 11}" width="14" height="14" fill="{fill}"/>'
        yield f'<text x="{x + 19:.1f}" y="{y}" fill="{colour}">{name}</text>'
        x += 40 + _LETTER * len(name)
    yield f'<text x="{x:.1f}" y="{y}" fill="{_INK}">points of completeness at equal tokens</text>'
