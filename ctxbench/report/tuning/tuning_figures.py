"""Figures of what tuning found: trade-offs of every setting, each parameter alone, and two at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.core.arrays import FloatArray
from ctxbench.report import wording
from ctxbench.report.charts.axes import LOG_FROM, compact
from ctxbench.report.charts.heat_map import HeatMap, heat_maps
from ctxbench.report.charts.line_chart import MEDIUM, SMALL, Panel, Ring, Scale, line_charts
from ctxbench.report.document import Drawing
from ctxbench.report.tuning import tuning_texts
from ctxbench.report.tuning.geometry import along, amounts, order, shares, spread_out, upper
from ctxbench.report.tuning.tuning_tables import all_results
from ctxbench.report.tuning.tuning_texts import COMPLETENESS, ITEMS, RECALL, TOKENS
from ctxbench.selectors.parameters import Value, value_text
from ctxbench.tuning.tuning_results import (
    DEFAULTS,
    EVERYTHING,
    FIXED,
    FRONT,
    PRESET,
    PRESETS,
    RECOMMENDED,
    TUNED,
    DatasetTuning,
    MeanGrid,
    PolicyOutcome,
    SettingResult,
    Trace,
)

_BEYOND = 1.6  # an axis goes on before the first setting and behind the last by this factor
_CELLS = 10  # rows and columns of a heat map at most
_NAME = 42  # letters of a name in a legend at most
_SHAPES = {
    RECOMMENDED: "diamond",
    DEFAULTS: "square",
    PRESET: "triangle",
    FIXED: "ring",
    EVERYTHING: "cross",
    TUNED: "ring",
}
_AXES = {
    COMPLETENESS: "completeness, % of queries",
    RECALL: "recall, % of required items",
    TOKENS: "prompt tokens a query",
    ITEMS: "items a query",
}
_MEAN = "mean over queries"
_LINES = (
    " A thick line, the front, has the best settings of a selector (no other is as complete for fewer prompt tokens); "
    "it is drawn where these two are the axes. A thin line has the first n items of its ranking; tints are 95% "
    "intervals. Where the thick line stands above the thin one of the same selector, its cut is worth more than a "
    "fixed number; where one thin line stands above another, its ranking is better."
)


def file_name(*parts: str) -> str:
    """A name that any file system and any link takes."""
    return "-".join(re.sub("[^a-z0-9]+", "-", part.lower()).strip("-") or "x" for part in parts)


def tags(dataset: DatasetTuning) -> dict[str, str]:
    """A number for every setting that a figure marks, by name, in the order of the table."""
    return {result.name: str(number) for number, result in enumerate(all_results(dataset), start=1)}


def trade_off(dataset: DatasetTuning) -> Drawing | None:
    """Completeness and recall against tokens and items on the tuning split; None where there is nothing to draw."""
    lines = named_lines(dataset.traces)
    candidates = [
        trade_panel(dataset, lines, across, up) for up in (COMPLETENESS, RECALL) for across in (TOKENS, ITEMS)
    ]
    panels = [panel for panel in candidates if panel is not None]
    if not panels:
        return None
    log = " Axes across are logarithmic." if any(panel.x.log for panel in panels) else ""
    name = file_name(dataset.dataset, "trade-off")
    return Drawing(
        name=name,
        title=f"{dataset.dataset}: what is complete, and at what price",
        caption=(
            f"Further up and to the left is better.{_LINES * bool(lines)} Marks are the contenders of the "
            f"table below, by its numbers: a diamond is recommended, a square the base's defaults; an arrow "
            f"says that the mark lies beyond the axes, that way. Tuning split.{log}"
        ),
        svg=line_charts(panels, columns=2, size=MEDIUM, name=name),
    )


def named_lines(traces: Sequence[Trace]) -> dict[str, Trace]:
    """Traces by their names in a legend: selectors' names are shortened if they stay distinct."""
    short = [
        tuning_texts.short_text(_selector(trace.name), 80) + trace.name[len(_selector(trace.name)) :]
        for trace in traces
    ]
    names = short if len(set(short)) == len(short) else [trace.name for trace in traces]
    return dict(zip(names, traces, strict=True))


def _selector(trace: str) -> str:
    return trace.rsplit(": ", 1)[0]


def trade_panel(dataset: DatasetTuning, lines: Mapping[str, Trace], across: Metric, up: Metric) -> Panel | None:
    """One metric against another; None where neither a line nor a setting has both.

    The axes reach as far as the settings need it, but for the one that offers everything: what lies far beyond has
    little to say, and would leave no room for the rest.
    """
    rings = list(_marks(dataset, across, up))
    points = {name: _points(trace, across, up) for name, trace in lines.items()}
    near = [ring for ring in rings if ring.shape != _SHAPES[EVERYTHING]] or rings
    ys = upper([ring.y for ring in near])
    visible = [ring.x for ring in near if ring.y in ys and ring.x > 0]
    first, last = (min(visible) / _BEYOND, max(visible) * _BEYOND) if visible else (0.0, math.inf)
    pairs = (pair for line in points.values() for pair in zip(line[0].tolist(), line[1].tolist(), strict=True))
    drawn = [(at, height) for at, height in pairs if first <= at <= last]
    heights = [height for _, height in drawn]
    ys = ys + [height for height in heights if height >= min(ys)] if ys else upper(heights)
    if not ys:
        return None
    y = _scale(up, ys)
    x = _scale(across, [*(at for at, height in drawn if height >= y.low), *visible])
    title = f"{up} against {'prompt tokens' if across == TOKENS else across}"
    return Panel(title, {name: _thinned(line, x, y, rings) for name, line in points.items()}, x, y, rings)


def _thinned(line: tuple[FloatArray, ...], x: Scale, y: Scale, rings: Sequence[Ring]) -> tuple[FloatArray, ...]:
    """A line with as many points as can be seen; for each mark the point below it, so that no mark rises above."""
    xs, ys = line[:2]
    positions = np.searchsorted(xs, [ring.x * (1 + 1e-9) for ring in rings], side="right") - 1
    beyond = np.searchsorted(xs, [x.high], side="right")  # the first point that is not seen, to which the line leads
    keep = [position for position in (*positions.tolist(), *beyond.tolist()) if 0 <= position < len(xs)]
    drawn = spread_out(along(x, xs), along(y, ys), keep)
    return tuple(part[drawn] for part in line)


def _scale(metric: Metric, values: Sequence[float]) -> Scale:
    title = _AXES.get(metric, str(metric))
    return shares(title, values or [0.0]) if wording.unit(metric) == "%" else amounts(title, values)


def _marks(dataset: DatasetTuning, across: Metric, up: Metric) -> Iterator[Ring]:
    """A mark for each setting that has both figures."""
    tag = tags(dataset)
    for result in all_results(dataset):
        x, y = (float(result.tuning[str(m)].value) if str(m) in result.tuning else math.nan for m in (across, up))
        if math.isfinite(x) and math.isfinite(y):
            unit = "%" * (wording.unit(up) == "%")
            sides = [tuning_texts.estimate_text(result.tuning, metric) for metric in (up, across)]
            figures = f"{sides[0]}{unit} {up}, {sides[1]} "
            name = f"{'recommended: ' * (result.role == RECOMMENDED)}{tuning_texts.short_text(result.name, _NAME)}"
            yield Ring(
                f"{name}: {figures}{_AXES.get(across, across)}", x, y, tag[result.name], name, _SHAPES[result.role]
            )


def _points(trace: Trace, across: Metric, up: Metric) -> tuple[FloatArray, ...]:
    """A line from left to right, with its band; empty where the trace lacks a metric, or is a front of others."""
    is_other = trace.name.endswith((FRONT, PRESETS)) and (across, up) != (TOKENS, COMPLETENESS)
    if is_other or str(across) not in trace.means or str(up) not in trace.means:
        return np.zeros(0), np.zeros(0)
    return _line(trace.means[str(across)], trace, str(up))


def _line(xs: FloatArray, trace: Trace, metric: str) -> tuple[FloatArray, ...]:
    """The means of a metric in the order of `xs`, with what is tinted around them."""
    keep = order(xs)
    return xs[keep], *(part[metric][keep] for part in (trace.means, trace.low, trace.high) if metric in part)


def sensitivity(dataset: DatasetTuning, outcome: PolicyOutcome) -> Drawing | None:
    """Completeness and tokens along each parameter, all others as recommended; None where there is nothing to draw."""
    slices = [trace for trace in outcome.slices if trace.settings and {"completeness", "tokens"} <= set(trace.means)]
    if outcome.chosen is None or not slices:
        return None
    complete, spent = (_range(slices, metric, outcome.chosen) for metric in (COMPLETENESS, TOKENS))
    panels = []
    for trace in slices:
        for metric, scale in ((COMPLETENESS, complete), (TOKENS, spent)):
            panels.append(_slice_panel(trace, metric, scale, outcome.chosen))
    name = file_name(dataset.dataset, outcome.policy.name, "parameters")
    return Drawing(
        name=name,
        title=f"{dataset.dataset}, {outcome.policy.name}: each parameter on its own",
        caption=(
            "One row a parameter, all others as recommended; the diamond is what is chosen. A flat line says "
            "that the parameter hardly matters there, a steep one that it must be set with care; a line that "
            "ends at the foot goes on below. Tints are 95% intervals. Tuning split."
        ),
        svg=line_charts(panels, columns=2, size=SMALL, name=name),
    )


def _range(slices: Sequence[Trace], metric: Metric, chosen: SettingResult) -> Scale:
    """One scale for all parameters, so that they can be compared; the chosen one's interval is on it."""
    name = str(metric)
    parts = [part[name] for trace in slices for part in (trace.means, trace.low, trace.high) if name in part]
    values = [float(value) for part in parts for value in part if math.isfinite(value)]
    if metric != COMPLETENESS:
        return _scale(metric, values)
    lows = [chosen.tuning[name].interval.low] if name in chosen.tuning else []
    for trace in slices:
        high = upper([value for value in trace.means[name].tolist() if math.isfinite(value)] or [0.0])
        lows += [
            low for low, mean in zip(trace.low.get(name, ()), trace.means[name], strict=False) if mean >= min(high)
        ]
    return _scale(metric, [*upper(values), *filter(math.isfinite, map(float, lows))])


def _slice_panel(trace: Trace, metric: Metric, y: Scale, chosen: SettingResult) -> Panel:
    """One metric along one parameter."""
    values = [setting.get(trace.name) for setting in trace.settings]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    names = () if numbers else tuple(dict.fromkeys(value_text(value) for value in values if value is not None))
    xs = np.array([_position(value, names) for value in values])
    keep = order(xs)
    name = str(metric)
    means = trace.means[name]
    low, high = (float(xs[keep[0]]), float(xs[keep[-1]])) if len(keep) else (0.0, 0.0)
    log = not names and 0 < LOG_FROM * low < high
    pad = 0.5 if names else 0.04 * (high - low) or 0.5
    x = Scale(f"{trace.name}, logarithmic", low, high, log=True) if log else Scale(trace.name, low - pad, high + pad)
    rings = []
    at = _position(chosen.values.get(trace.name), names)
    if len(keep) and low <= at <= high:
        value = float(np.interp(at, xs[keep], means[keep]))
        if math.isfinite(value):
            label = f"chosen: {trace.name} {value_text(chosen.values[trace.name])}"
            rings.append(Ring(label, at, value, shape="diamond"))
    title = f"{trace.name}: {tuning_texts.TITLES[name].removesuffix(' %')}"
    return Panel(title, {_MEAN: _line(xs, trace, name)}, replace(x, names=names), y, rings)


def _position(value: Value | None, names: Sequence[str]) -> float:
    """The position of a value on an axis: a number itself, a name its index; NaN where it has none."""
    if value is None:
        return math.nan
    if names:
        return float(names.index(value_text(value))) if value_text(value) in names else math.nan
    return math.nan if isinstance(value, str) else float(value)


def two_at_a_time(dataset: DatasetTuning, outcome: PolicyOutcome) -> Drawing | None:
    """Two parameters at a time: completeness and tokens, all others as recommended; None where there are none."""
    chosen, maps, left = outcome.chosen, [], set()
    for heat in outcome.heat_maps if chosen is not None else ():
        if chosen is not None and heat.xs and heat.ys and {"completeness", "tokens"} <= set(heat.means):
            maps += [cells(heat, str(metric), chosen, limit=_CELLS) for metric in (COMPLETENESS, TOKENS)]
            left |= {name for name, values in ((heat.x, heat.xs), (heat.y, heat.ys)) if len(values) > _CELLS}
    if not maps:
        return None
    thinned = f" Of {wording.listed(sorted(left))} some values stand for all." if left else ""
    name = file_name(dataset.dataset, outcome.policy.name, "pairs")
    return Drawing(
        name=name,
        title=f"{dataset.dataset}, {outcome.policy.name}: two parameters at a time",
        caption=(
            f"One row a pair of parameters, all others as recommended; darker is more, and the frame is what "
            f"is chosen. A better setting would be one where completeness is still dark while tokens are "
            f"pale. Means over the tuning split, without intervals.{thinned}"
        ),
        svg=heat_maps(maps, columns=2, name=name),
    )


def cells(heat: MeanGrid, metric: str, chosen: SettingResult | None, *, limit: int) -> HeatMap:
    """A heat map of a metric with at most `limit` rows and columns."""
    chosen_values = chosen.values if chosen is not None else {}
    columns, rows = (
        _spaced_places(heat.xs, chosen_values.get(heat.x), limit),
        _spaced_places(heat.ys, chosen_values.get(heat.y), limit),
    )
    at = [
        next((position for position, i in enumerate(positions) if values[i] == chosen_values.get(name)), None)
        for positions, values, name in ((columns, heat.xs, heat.x), (rows, heat.ys, heat.y))
    ]
    share = wording.unit(parse_metric(metric)) == "%"
    values = heat.means[metric][np.ix_(rows, columns)]
    finite = values[np.isfinite(values)]
    format_value = (lambda value: f"{100 * value:.1f}") if share else compact
    pale = float(finite[finite >= finite.max() / 2].min()) if share and len(finite) else None
    below = f" (all up to {format_value(pale)} in one shade)" if pale is not None and pale > finite.min() else ""
    return HeatMap(
        title=_AXES.get(parse_metric(metric), metric) + below,
        x=heat.x,
        y=heat.y,
        xs=[_short(heat.xs[i]) for i in columns],
        ys=[_short(heat.ys[i]) for i in rows],
        values=values,
        pale=pale,
        format_value=format_value,
        chosen=None if at[0] is None or at[1] is None else (at[0], at[1]),
    )


def _spaced_places(values: Sequence[Value], chosen: Value | None, limit: int) -> list[int]:
    """Positions of at most `limit` values, spread evenly, the first, the last and the chosen one among them."""
    if len(values) <= limit:
        return list(range(len(values)))
    chosen_index = next((i for i, value in enumerate(values) if value == chosen), None)
    positions = sorted({round(i * (len(values) - 1) / (limit - 1)) for i in range(limit)})
    if chosen_index is not None and chosen_index not in positions:
        positions[min(range(1, len(positions) - 1), key=lambda index: abs(positions[index] - chosen_index))] = (
            chosen_index
        )
    return positions


def _short(value: Value) -> str:
    """A value in a heading: a number to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else value_text(value)
