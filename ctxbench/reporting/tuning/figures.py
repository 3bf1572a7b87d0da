"""Figures of what tuning found: trade-offs with every contender, each parameter on its own, and two at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.bench.metrics import Metric
from ctxbench.reporting import wording
from ctxbench.reporting.heat_map import HeatMap, heat_maps
from ctxbench.reporting.line_chart import MEDIUM, SMALL, Panel, Ring, Scale, Stroke, line_charts
from ctxbench.reporting.tuning import texts
from ctxbench.reporting.tuning.document import Drawing
from ctxbench.reporting.tuning.geometry import (
    LOG_FROM,
    Band,
    Line,
    amounts,
    band_inside,
    line_inside,
    order,
    shares,
    upper,
)
from ctxbench.reporting.tuning.tables import compared
from ctxbench.reporting.tuning.texts import COMPLETENESS, ITEMS, RECALL, TOKENS
from ctxbench.selectors.parameters import Value, shown
from ctxbench.tuning.results import (
    DEFAULTS,
    EVERYTHING,
    FIXED,
    PRESET,
    RECOMMENDED,
    Contender,
    DatasetTuning,
    Heat,
    Outcome,
    Trace,
)

_BEYOND = 1.6  # an axis goes on before the first contender and behind the last by this factor
_CELLS = 10  # rows and columns of a heat map at most
_NAME = 42  # letters of a name in a legend at most
_SHAPES = {RECOMMENDED: "diamond", DEFAULTS: "square", PRESET: "triangle", FIXED: "ring", EVERYTHING: "cross"}
_DASHES = ("", "8 3", "2 3", "8 3 2 3", "14 4")  # of selectors
_UP = {COMPLETENESS: "completeness, % of queries", RECALL: "recall, % of required items"}
_ACROSS = {TOKENS: "prompt tokens a query", ITEMS: "items a query"}
_FIRST, _MEAN = ": first n", "mean over queries"
_LINES = (
    " A thick line has the best settings of a selector (its front in completeness and prompt tokens), a thin one the "
    "first n items of its ranking; tints are 95% intervals. Where the thick line stands above the thin one of the same "
    "selector, its cut is worth more than a fixed number; where one thin line stands above another, its ranking is "
    "better."
)
_ARROWS = dict(
    zip(
        ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1)),
        "\u2192\u2197\u2191\u2196\u2190\u2199\u2193\u2198",
        strict=True,
    )
)


def file_name(*parts: str) -> str:
    """A name that any file system and any link takes."""
    return "-".join(re.sub("[^a-z0-9]+", "-", part.lower()).strip("-") or "x" for part in parts)


def tags(dataset: DatasetTuning) -> dict[str, str]:
    """A number for every contender that a figure marks, by name, in the order of the table."""
    return {one.name: str(place) for place, one in enumerate(compared(dataset), start=1)}


def trade_off(dataset: DatasetTuning) -> Drawing | None:
    """Completeness and recall against tokens and items on the tuning split; None where there is nothing to draw."""
    lines = dict(zip(_line_names(dataset.traces), dataset.traces, strict=True))
    names = list(dict.fromkeys(_selector(name) for name in lines))
    strokes = [_stroke(names.index(_selector(name)), thin=name.endswith(_FIRST)) for name in lines]
    panels = [
        panel
        for up in (COMPLETENESS, RECALL)
        for across in (TOKENS, ITEMS)
        if (panel := _trade_panel(dataset, lines, across, up)) is not None
    ]
    if not panels:
        return None
    log = " Axes across are logarithmic." if any(panel.x.log for panel in panels) else ""
    return Drawing(
        name=file_name(dataset.dataset, "trade-off"),
        title=f"{dataset.dataset}: what is complete, and at what price",
        caption=(
            f"Further up and to the left is better.{_LINES * bool(lines)} Marks are the contenders of the table below, "
            "by its numbers: a diamond is recommended, a square the base's defaults; an arrow says that the mark "
            f"lies beyond the axes, that way. Tuning split.{log}"
        ),
        wide=line_charts(panels, columns=2, size=MEDIUM, strokes=strokes),
        narrow=line_charts(panels, columns=1, size=MEDIUM, strokes=strokes),
    )


def _line_names(traces: Sequence[Trace]) -> list[str]:
    """What a legend calls the lines: the selectors' names shortened, if that leaves them apart."""
    short = [texts.shortened(_selector(one.name), 80) + one.name[len(_selector(one.name)) :] for one in traces]
    return short if len(set(short)) == len(short) else [one.name for one in traces]


def _selector(trace: str) -> str:
    return trace.rsplit(": ", 1)[0]


def _stroke(place: int, *, thin: bool) -> Stroke:
    """How the lines of the selector at a place are drawn: by colour and by dashes, so that either tells them apart."""
    dash = _DASHES[place % len(_DASHES)]
    return Stroke(place, dash, 1.2, tint=0.07) if thin else Stroke(place, dash, 2.6)


def _trade_panel(dataset: DatasetTuning, lines: Mapping[str, Trace], across: Metric, up: Metric) -> Panel | None:
    """One of the four; None where neither a line nor a contender has both figures.

    The axes reach as far as the contenders need it, but for the one that offers everything: what lies far beyond has
    little to say, and would leave no room for the rest.
    """
    rings = list(_marked(dataset, across, up))
    points = {name: _points(trace, across, up) for name, trace in lines.items()}
    near = [ring for ring in rings if ring.shape != _SHAPES[EVERYTHING]] or rings
    ys = upper([ring.y for ring in near])
    seen = [ring.x for ring in near if ring.y in ys and ring.x > 0]
    first, last = (min(seen) / _BEYOND, max(seen) * _BEYOND) if seen else (0.0, math.inf)
    pairs = (pair for line in points.values() for pair in zip(line[0].tolist(), line[1].tolist(), strict=True))
    drawn = [(at, height) for at, height in pairs if first <= at <= last]
    heights = [height for _, height in drawn]
    ys = ys + [height for height in heights if height >= min(ys)] if ys else upper(heights)
    if not ys:
        return None
    y = shares(_UP[up], ys)
    x = amounts(_ACROSS[across], [*(at for at, height in drawn if height >= y.low), *seen])
    title = f"{up} against {'prompt tokens' if across == TOKENS else across}"
    return Panel(
        title,
        {name: line_inside(line, x, y) for name, line in points.items()},
        x,
        y,
        [_at_end(ring, x, y) for ring in rings],
        {name: band_inside(_band(trace, across, up), x, y) for name, trace in lines.items() if str(up) in trace.low},
    )


def _marked(dataset: DatasetTuning, across: Metric, up: Metric) -> Iterator[Ring]:
    """A mark for each contender that has both figures."""
    tag = tags(dataset)
    for one in compared(dataset):
        x, y = (float(one.tuning[str(m)].value) if str(m) in one.tuning else math.nan for m in (across, up))
        if math.isfinite(x) and math.isfinite(y):
            told = f"{texts.measured(one.tuning, up)}% {up}, {texts.measured(one.tuning, across)} {_ACROSS[across]}"
            name = texts.shortened(one.name, _NAME)
            yield Ring(f"{name}: {told}", x, 100.0 * y, tag[one.name], name, _SHAPES[one.role])


def _at_end(ring: Ring, x: Scale, y: Scale) -> Ring:
    """A mark beyond the axes stands at their end, with an arrow that says which way it lies."""
    way = (ring.x > x.high) - (ring.x < x.low), (ring.y > y.high) - (ring.y < y.low)
    if way == (0, 0):
        return ring
    at = min(max(ring.x, x.low), x.high), min(max(ring.y, y.low), y.high)
    return replace(ring, x=at[0], y=at[1], title=f"{ring.title} (beyond the axes)", arrow=_ARROWS[way])


def _points(trace: Trace, across: Metric, up: Metric) -> Line:
    """A line from left to right, shares as per cent; empty where the trace lacks a metric."""
    if str(across) not in trace.means or str(up) not in trace.means:
        return np.zeros(0), np.zeros(0)
    keep = order(trace.means[str(across)])
    return trace.means[str(across)][keep], 100.0 * trace.means[str(up)][keep]


def _band(trace: Trace, across: Metric, up: Metric) -> Band:
    """What is tinted around a line; empty where the trace lacks the metric across."""
    if str(across) not in trace.means:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    keep = order(trace.means[str(across)])
    return trace.means[str(across)][keep], 100.0 * trace.low[str(up)][keep], 100.0 * trace.high[str(up)][keep]


def sensitivity(dataset: DatasetTuning, outcome: Outcome) -> Drawing | None:
    """Completeness and tokens along each parameter, all others as recommended; None where there is nothing to draw."""
    slices = [one for one in outcome.slices if one.settings and {"completeness", "tokens"} <= set(one.means)]
    if outcome.chosen is None or not slices:
        return None
    complete, spent = _range(slices, COMPLETENESS), _range(slices, TOKENS)
    panels = []
    for trace in slices:
        for metric, scale in ((COMPLETENESS, complete), (TOKENS, spent)):
            panels.append(_slice_panel(trace, metric, scale, outcome.chosen))
    return Drawing(
        name=file_name(dataset.dataset, outcome.policy.name, "parameters"),
        title=f"{dataset.dataset}, {outcome.policy.name}: each parameter on its own",
        caption=(
            "One row a parameter, all others as recommended; the diamond is what is chosen. A flat line says that the "
            "parameter hardly matters there, a steep one that it must be set with care; a line that ends at the foot "
            "goes on below. Tints are 95% intervals. Tuning split."
        ),
        wide=line_charts(panels, columns=2, size=SMALL, strokes=[Stroke(0)]),
        narrow=line_charts(panels, columns=1, size=SMALL, strokes=[Stroke(0)]),
    )


def _range(slices: Sequence[Trace], metric: Metric) -> Scale:
    """One scale for all parameters, so that they can be held against each other."""
    name, factor = str(metric), 100.0 if metric == COMPLETENESS else 1.0
    parts = [part[name] for one in slices for part in (one.means, one.low, one.high) if name in part]
    known = [factor * float(value) for part in parts for value in part if math.isfinite(value)]
    if metric != COMPLETENESS:
        return amounts(_ACROSS[TOKENS], known)
    return shares("completeness, %", upper(known)) if known else Scale("completeness, %", 0.0, 100.0)


def _slice_panel(trace: Trace, metric: Metric, y: Scale, chosen: Contender) -> Panel:
    """One metric along one parameter."""
    values = [setting.get(trace.name) for setting in trace.settings]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    names = () if numbers else tuple(dict.fromkeys(shown(value) for value in values if value is not None))
    xs = np.array([_place(value, names) for value in values])
    keep = order(xs)
    name, factor = str(metric), 100.0 if metric == COMPLETENESS else 1.0
    means = factor * trace.means[name]
    low, high = (float(xs[keep[0]]), float(xs[keep[-1]])) if len(keep) else (0.0, 0.0)
    log = not names and 0 < LOG_FROM * low < high
    pad = 0.5 if names else 0.04 * (high - low) or 0.5
    x = Scale(f"{trace.name}, logarithmic", low, high, log=True) if log else Scale(trace.name, low - pad, high + pad)
    rings = []
    at = _place(chosen.values.get(trace.name), names)
    if len(keep) and low <= at <= high:
        value = float(np.interp(at, xs[keep], means[keep]))
        if math.isfinite(value):
            said = f"chosen: {trace.name} {shown(chosen.values[trace.name])}"
            rings.append(Ring(said, at, value, shape="diamond"))
    line = {_MEAN: line_inside((xs[keep], means[keep]), x, y)}
    bands = {}
    if name in trace.low:
        band = xs[keep], factor * trace.low[name][keep], factor * trace.high[name][keep]
        bands = {_MEAN: band_inside(band, x, y)}
    title = f"{trace.name}: {texts.TITLES[name].removesuffix(' %')}"
    return Panel(title, line, replace(x, names=names), y, rings, bands)


def _place(value: Value | None, names: Sequence[str]) -> float:
    """Where a value stands: a number at itself, another at the place of its name; NaN where it stands nowhere."""
    if value is None:
        return math.nan
    if names:
        return float(names.index(shown(value))) if shown(value) in names else math.nan
    return math.nan if isinstance(value, str) else float(value)


def two_at_a_time(dataset: DatasetTuning, outcome: Outcome) -> Drawing | None:
    """Two parameters at a time: completeness and tokens, all others as recommended; None where there are none."""
    chosen, maps, left = outcome.chosen, [], set()
    for heat in outcome.heats if chosen is not None else ():
        if chosen is not None and heat.xs and heat.ys and {"completeness", "tokens"} <= set(heat.means):
            maps += [_map(heat, metric, chosen) for metric in (COMPLETENESS, TOKENS)]
            left |= {name for name, found in ((heat.x, heat.xs), (heat.y, heat.ys)) if len(found) > _CELLS}
    if not maps:
        return None
    thinned = f" Of {wording.listed(sorted(left))} some values stand for all." if left else ""
    return Drawing(
        name=file_name(dataset.dataset, outcome.policy.name, "pairs"),
        title=f"{dataset.dataset}, {outcome.policy.name}: two parameters at a time",
        caption=(
            "One row a pair of parameters, all others as recommended; darker is more, and the frame is what is chosen. "
            "A better setting would be one where completeness is still dark while tokens are pale. Means over the "
            f"tuning split, without intervals.{thinned}"
        ),
        wide=heat_maps(maps, columns=2),
        narrow="",
    )


def _map(heat: Heat, metric: Metric, chosen: Contender) -> HeatMap:
    columns, rows = _thinned(heat.xs, chosen.values.get(heat.x)), _thinned(heat.ys, chosen.values.get(heat.y))
    at = [
        next((place for place, i in enumerate(kept) if values[i] == wanted), None)
        for kept, values, wanted in (
            (columns, heat.xs, chosen.values.get(heat.x)),
            (rows, heat.ys, chosen.values.get(heat.y)),
        )
    ]
    share = metric == COMPLETENESS
    values = heat.means[str(metric)][np.ix_(rows, columns)] * (100.0 if share else 1.0)
    known = values[np.isfinite(values)]
    return HeatMap(
        title="completeness, % of queries" if share else "prompt tokens a query",
        x=heat.x,
        y=heat.y,
        xs=[_short(heat.xs[i]) for i in columns],
        ys=[_short(heat.ys[i]) for i in rows],
        values=values,
        pale=float(known[known >= known.max() / 2].min()) if share and len(known) else None,
        told=(lambda value: f"{value:.1f}") if share else _compact,
        chosen=None if at[0] is None or at[1] is None else (at[0], at[1]),
    )


def _thinned(values: Sequence[Value], chosen: Value | None) -> list[int]:
    """Places of at most ten values, spread evenly, the first, the last and the chosen one among them."""
    if len(values) <= _CELLS:
        return list(range(len(values)))
    wanted = next((i for i, value in enumerate(values) if value == chosen), None)
    kept = sorted({round(i * (len(values) - 1) / (_CELLS - 1)) for i in range(_CELLS)})
    if wanted is not None and wanted not in kept:
        kept[min(range(1, len(kept) - 1), key=lambda place: abs(kept[place] - wanted))] = wanted
    return kept


def _short(value: Value) -> str:
    """A value in a heading: a number to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else shown(value)


def _compact(value: float) -> str:
    """An amount in at most five letters: `812`, `1.24k`, `12.4k`, `3.1M`."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"
