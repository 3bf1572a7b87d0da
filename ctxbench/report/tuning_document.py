"""Tuning results as a document with figures, in Markdown and HTML."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ctxbench.evaluation.metrics import Metric, parse_metric
from ctxbench.io.errors import count
from ctxbench.io.files import write_atomic
from ctxbench.io.workers import OptionalPool
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.report import tuning_tables
from ctxbench.report.charts import (
    ALONE,
    LOG_FROM,
    MEDIUM,
    NARROW,
    SMALL,
    HeatMap,
    Panel,
    Ring,
    Scale,
    compact,
    heat_maps,
    line_charts,
    nice_step,
)
from ctxbench.report.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    Drawing,
    Section,
    Table,
    Text,
    axis_title,
    each_block,
    estimate_interval,
    has_loose,
    listed,
    markdown,
    number,
    unit,
)
from ctxbench.report.pages import page, report_title, titles, write_parted
from ctxbench.report.tuning_tables import (
    ALL,
    COMPLETENESS,
    ITEMS,
    RECALL,
    TOKENS,
    TUNING,
    all_advice,
    all_results,
    answer,
    policy_names,
)
from ctxbench.selectors.selector import Value, value_text
from ctxbench.tuning.inputs import four_digits
from ctxbench.tuning.results import (
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
    Tuning,
)

STEP = 1 / 40  # of an axis: points of a line that lie nearer to each other look like one


def order(xs: FloatArray) -> IntArray:
    """Positions from left to right, ties in their order; NaN is left out."""
    return np.argsort(xs, kind="stable")[: int((~np.isnan(xs)).sum())]


def spread_out(across: FloatArray, up: FloatArray, keep: Iterable[int] = ()) -> IntArray:
    """Positions of the points of a line that are drawn: both ends, those to keep, and others evenly over its length.

    Neighbours are at most `STEP` apart along the two axes together, unless no point lies between them.

    Args:
        across, up: positions along the axes, in the order in which the points are joined; 0 to 1 is what is shown.
        keep: positions that are drawn in any case.
    """
    if not len(across):
        return np.zeros(0, dtype=np.int64)
    steps = np.nan_to_num(np.abs(np.diff(across)) + np.abs(np.diff(up)), nan=0.0, posinf=math.inf)
    required, drawn, gone = {0, len(across) - 1, *keep}, [0], 0.0
    for index, step in enumerate(steps.tolist(), start=1):
        if gone + step > STEP and drawn[-1] != index - 1:
            drawn.append(index - 1)
            gone = 0.0
        gone += step
        if index in required:
            drawn.append(index)
            gone = 0.0
    return np.array(drawn, dtype=np.int64)


def along(scale: Scale, values: FloatArray) -> FloatArray:
    """Positions of values along an axis: 0 at its low end, 1 at its high end; values beyond an end are at the end."""
    low, high, at = scale.low, scale.high, np.clip(values, scale.low, scale.high)
    if scale.log:
        low, high, at = math.log(low), math.log(high), np.log(at)
    return np.asarray((at - low) / (high - low))


def shares(title: str, values: Sequence[float]) -> Scale:
    """An axis of per cent with some room below the lowest of at least one share and above the highest, in 0 to 1."""
    low, high = min(values), max(values)
    step = nice_step(max(high - low, 0.02) / 4)
    floor, top = math.floor(low / step - 0.2) * step, math.ceil(high / step + 0.2) * step
    return Scale(title, max(floor, 0.0), min(top, 1.0), percent=True)


def upper(values: Sequence[float]) -> list[float]:
    """Those that are at least half of the highest: what an axis must show."""
    return [value for value in values if value >= max(values) / 2]


def amounts(title: str, values: Sequence[float]) -> Scale:
    """An axis of an amount: from 0, or logarithmic where the values spread widely; what is not finite is left out."""
    above = [value for value in values if math.isfinite(value) and value > 0]
    if above and max(above) / min(above) > LOG_FROM:
        return Scale(f"{title}, logarithmic", 0.85 * max(min(above), max(above) / 1e5), 1.15 * max(above), log=True)
    return Scale(title, 0.0, 1.06 * max(above) if above else 1.0)


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
_LINES = (
    " A thick line, the front, has the best settings of a selector, with 95% intervals; a thin line has the first n "
    "items of its ranking."
)


def file_name(*parts: str) -> str:
    """A name that any file system and any link takes."""
    return "-".join(re.sub("[^a-z0-9]+", "-", part.lower()).strip("-") or "x" for part in parts)


def tags(dataset: DatasetTuning) -> dict[str, str]:
    """A number for every setting that a figure marks, by name, in the order of the table."""
    return {result.name: str(number) for number, result in enumerate(all_results(dataset), start=1)}


def trade_off(dataset: DatasetTuning) -> Drawing | None:
    """Completeness against tokens on the tuning split; None where there is nothing to draw."""
    lines = named_lines(dataset.traces)
    if (panel := trade_panel(dataset, lines, TOKENS, COMPLETENESS)) is None:
        return None
    name = file_name(dataset.dataset, "trade-off")
    return Drawing(
        name=name,
        title=f"{dataset.dataset}: what is complete, and at what price",
        caption=(
            f"Further up and to the left is better.{_LINES * bool(lines)} A diamond is "
            "recommended, a square is the default; an arrow says that a mark lies beyond the axes. "
            f"{_tuning_set(dataset)}."
        ),
        svg=line_charts([panel], columns=1, size=ALONE, name=name),
        narrow=line_charts([panel], columns=1, size=NARROW, name=f"{name}-narrow"),
    )


def _tuning_set(dataset: DatasetTuning) -> str:
    return tuning_tables.SPLITS[ALL if dataset.all_decide else TUNING].capitalize()


def other_axes(dataset: DatasetTuning) -> Drawing | None:
    """Recall and items in place of completeness and tokens; None where there is nothing to draw."""
    lines = named_lines(dataset.traces)
    axes = ((ITEMS, COMPLETENESS), (TOKENS, RECALL), (ITEMS, RECALL))
    panels = [panel for across, up in axes if (panel := trade_panel(dataset, lines, across, up)) is not None]
    name = file_name(dataset.dataset, "other-axes")
    caption = "As the chart of completeness against prompt tokens; a thin line has the first n items of a ranking."
    title = f"{dataset.dataset}: recall, and number of items"
    svg = line_charts(panels, columns=2, size=MEDIUM, name=name) if panels else ""
    return Drawing(name=name, title=title, caption=caption, svg=svg) if panels else None


def named_lines(traces: Sequence[Trace]) -> dict[str, Trace]:
    """Traces by their names in a legend: selectors' names are shortened if they stay distinct."""
    short = [
        tuning_tables.short_text(_selector(trace.name), 80) + trace.name[len(_selector(trace.name)) :]
        for trace in traces
    ]
    return dict(zip(short if len(set(short)) == len(short) else [trace.name for trace in traces], traces, strict=True))


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
    title = axis_title(metric)
    return shares(title, values or [0.0]) if unit(metric) == "%" else amounts(title, values)


def _marks(dataset: DatasetTuning, across: Metric, up: Metric) -> Iterator[Ring]:
    """A mark for each setting that has both figures."""
    tag = tags(dataset)
    for result in all_results(dataset):
        x, y = (float(result.tuning[str(m)].value) if str(m) in result.tuning else math.nan for m in (across, up))
        if math.isfinite(x) and math.isfinite(y):
            percent = "%" * (unit(up) == "%")
            sides = [tuning_tables.estimate_text(result.tuning, metric) for metric in (up, across)]
            figures = f"{sides[0]}{percent} {up}, {sides[1]} "
            name = f"{'recommended: ' * (result.role == RECOMMENDED)}{tuning_tables.short_text(result.name, _NAME)}"
            yield Ring(f"{name}: {figures}{axis_title(across)}", x, y, tag[result.name], name, _SHAPES[result.role])


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
    panels = [
        _slice_panel(trace, metric, scale, outcome.chosen)
        for trace in slices
        for metric, scale in ((COMPLETENESS, complete), (TOKENS, spent))
    ]
    name = file_name(dataset.dataset, outcome.policy.name, "parameters")
    return Drawing(
        name=name,
        title=f"{dataset.dataset}, {outcome.policy.name}: each parameter on its own",
        caption=(
            "One row a parameter, all others as recommended; the diamond is what is chosen. A flat line says "
            "that the parameter hardly matters there, a steep one that it must be set with care; a line that "
            f"ends at the foot goes on below. Tints are 95% intervals. {_tuning_set(dataset)}."
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
    title = f"{trace.name}: {tuning_tables.TITLES[name].removesuffix(' %')}"
    return Panel(title, {"mean over queries": _line(xs, trace, name)}, replace(x, names=names), y, rings)


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
    thinned = f" Of {listed(sorted(left))} some values stand for all." if left else ""
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
    share = unit(parse_metric(metric)) == "%"
    values = heat.means[metric][np.ix_(rows, columns)]
    finite = values[np.isfinite(values)]
    format_value = (lambda value: f"{100 * value:.1f}") if share else compact
    pale = float(finite[finite >= finite.max() / 2].min()) if share and len(finite) else None
    below = f" (all up to {format_value(pale)} in one shade)" if pale is not None and pale > finite.min() else ""
    return HeatMap(
        title=axis_title(parse_metric(metric)) + below,
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


_CHOSEN = "What a selector offers is measured; what the model then calls is not."
_SPLIT = (
    "Settings were chosen on one part of the queries, the tuning split, and figures are of the other, the test split, "
    "read when all values were fixed."
)
_ALL_DECIDE = (
    f"{tuning_tables.ALL_DECIDE} A setting is recommended only where it keeps what the policy asks by its paired "
    "difference to the default less 2.6 standard errors."
)
_GAINS = (
    "Two steps from the first k items of the base's ranking to what is recommended: first another ranking with a tuned "
    "k of its own, then a better cut of that ranking (where it ends). Both together are the change against tuned fixed "
    "k."
)
_WORST = (
    "Where what is recommended does worst, among groups of at least 10 queries. The lowest of many "
    "groups is low by chance, too."
)


Drawings: TypeAlias = Mapping[tuple[str, ...], Drawing | None]
"""By the name of the function that draws, the dataset, and a policy."""


def _drawings(tuning: Tuning, pool: OptionalPool) -> Drawings:
    """All drawings of the report."""
    calls: dict[tuple[str, ...], Callable[[], Drawing | None]] = {}
    for dataset in tuning.datasets:
        calls |= {(draw.__name__, dataset.dataset): partial(draw, dataset) for draw in (trade_off, other_axes)}
        calls |= {
            (draw.__name__, dataset.dataset, outcome.policy.name): partial(draw, dataset, outcome)
            for outcome, *_ in dataset.same_advice()
            for draw in (sensitivity, two_at_a_time)
        }
    return dict(zip(calls, pool.map(operator.call, [*calls.values()]), strict=True))


def document(tuning: Tuning, pool: OptionalPool | None = None) -> Document:
    """Make the report; the same tuning gives the same blocks. A pool draws several figures at once."""
    drawings = _drawings(tuning, pool or OptionalPool())
    rest = [*(Section(dataset.dataset, tuple(_dataset(tuning, dataset, drawings))) for dataset in tuning.datasets)]
    rest += [Section("How sure this is", further)] if (further := tuple(_overview(tuning))) else []
    first = Section("What is recommended", tuple(_recommendations(tuning, rest, drawings)))
    return Document(
        title=tuning.name,
        answer=answer(tuning),
        sections=(first, *rest, _provenance(tuning)),
        kicker="ctxbench tune",
        table_titles=False,
    )


def _recommendations(tuning: Tuning, rest: Iterable[Section], drawings: Drawings) -> Iterator[Block]:
    """The presets and, of a single dataset, the front; on demand how all figures of the page are to be read."""
    if not any(True for _ in tuning_tables.outcomes(tuning)):
        yield Text("No policy was tuned for.")
        return
    several, table = len(tuning.datasets) > 1, tuning_tables.presets(tuning)
    yield table
    yield Text(" ".join(_split_sentences(tuning)))
    if not several:
        yield _front(tuning.datasets[0], drawings)
    sentences = tuple(
        f"{f'{dataset.dataset}, ' * several}{sentence}"
        for dataset in tuning.datasets
        for sentence in all_advice(dataset)
    )
    yield Details("Each preset in a sentence", (Bullets(sentences),))
    if (fixed := tuning_tables.compared(tuning)) is not None:
        yield Details(fixed.title, (fixed,))
    figures = _figure_texts([table, *([fixed] if fixed else []), *(block for part in rest for block in part.blocks)])
    loose = [tuning_tables.LOOSE] if any(map(has_loose, figures)) else []
    about = (Text(tuning.about),) if tuning.about else ()
    words = (Text(tuning_tables.terms(tuning)), Text(_CHOSEN))
    explained = (*about, *words, Bullets((*_explanations(tuning), *loose)), tuning_tables.policies(tuning))
    yield Details("Policies, words and methods", explained)


def _front(dataset: DatasetTuning, drawings: Drawings) -> Drawing | Text:
    return drawings[trade_off.__name__, dataset.dataset] or Text(
        "Nothing to draw: no contender has both completeness and tokens."
    )


def _figure_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """The texts of blocks that may hold an interval."""
    for block in each_block(blocks):
        if isinstance(block, Table):
            for cell in (cell for row in block.rows for cell in row):
                yield from (cell,) if isinstance(cell, str) else cell
        elif isinstance(block, Bullets):
            yield from block.texts


def _split_sentences(tuning: Tuning) -> Iterator[str]:
    """On which split settings were chosen, and of which the figures are."""
    names = {
        kind: [dataset.dataset for dataset in tuning.datasets if dataset.all_decide is kind] for kind in (False, True)
    }
    yield from (
        text if not names[not kind] else f"On {listed(names[kind])}: {text[0].lower()}{text[1:]}"
        for kind, text in ((False, _SPLIT), (True, _ALL_DECIDE))
        if names[kind]
    )


def _explanations(tuning: Tuning) -> Iterator[str]:
    """How the figures are to be read."""
    levels = sorted(
        {
            interval.level
            for _, outcome in tuning_tables.outcomes(tuning)
            for interval in tuning_tables.intervals(outcome)
        }
    )
    level_text = listed([f"{100 * level:g}%" for level in levels])
    p_words = tuning_tables.p_words(tuning)
    yield (
        "Completeness is the share of queries for which every required item was offered. Values are means over queries "
        f"with their {level_text + ' ' if level_text else ''}intervals. Queries of one group (paraphrases, a "
        "conversation) answer alike, so that intervals and tests are by group."
    )
    yield (
        "Changes are paired on the same queries. Those of tokens are per cent of the other side's mean, those of "
        f"completeness percentage points. {p_words and f'{p_words} '}Comparisons at equal tokens are corrected "
        "on their own. A difference that is not significant is not shown to be none: its interval says how large it "
        "may be."
    )
    yield (
        "Tuned fixed k is the first k items of the base selector's ranking, k chosen by the same policy and under the "
        "same limits, among them those that hold for every policy (see the notes where no k keeps them); one item more "
        "is a large step, so it often meets the policy with completeness to spare. At equal tokens means: against the "
        "first n items of the base's ranking, n between two numbers by lot, so that they cost as much as what is "
        "recommended (tested by group, the interval by query). A constraint holds where the unfavourable end of what "
        "is likely (of the paired difference, where it is a share of the base) is at the target or better, holds "
        "within 2 points where that end is worse by no more than these, is missed where the favourable end is worse, "
        "and is open in between."
    )


def _overview(tuning: Tuning) -> Iterator[Details]:
    """The tables that hold all datasets."""
    for table, about in (
        (tuning_tables.gains(tuning), _GAINS),
        (tuning_tables.worst(tuning), _WORST),
    ):
        if table is not None:
            yield Details(table.title, (Text(about), table))


def _dataset(tuning: Tuning, dataset: DatasetTuning, drawings: Drawings) -> Iterator[Block]:
    yield Text(_facts(dataset))
    if len(tuning.datasets) > 1 or not dataset.outcomes:
        yield _front(dataset, drawings)
    if tuning_tables.all_results(dataset):
        contenders = tuning_tables.results(dataset, tags(dataset))
        yield Details(contenders.title, (contenders,))
    if (drawing := drawings[other_axes.__name__, dataset.dataset]) is not None:
        yield Details(drawing.title, (drawing,))
    groups = dataset.same_advice()
    for group in groups:
        charts = [(chart.__name__, dataset.dataset, group[0].policy.name) for chart in (sensitivity, two_at_a_time)]
        if drawn := tuple(drawing for chart in charts if (drawing := drawings[chart]) is not None):
            yield Details(f"{policy_names(group)} on {dataset.dataset}: sensitivity to its parameters", drawn)
    for group in groups:
        if group[0].chosen is not None:
            yield from _worse_requests(dataset, group)
    if notes := tuple(_notes(dataset)):
        yield Details(f"Notes on {dataset.dataset}", (Bullets(notes),))


def _facts(dataset: DatasetTuning) -> str:
    of = {**dataset.queries, **dataset.of}
    counts = [
        f"{f'{n:,} of ' if of[split] > n else ''}{count(of[split], 'query', 'queries')}"
        f"{'' if split == ALL else f' of split {split}'}"
        for split, n in dataset.queries.items()
    ]
    queries = listed(counts) or "No queries"
    version = f"Version {dataset.version}, content" if dataset.version else "Content"
    return (
        f"{queries}; {count(dataset.items, 'item')}. {version} {dataset.hash[:12]}. Prompt tokens by {dataset.tokens}."
    )


def _worse_requests(dataset: DatasetTuning, group: Sequence[PolicyOutcome]) -> Iterator[Block]:
    """Requests made worse, by name, and how many were made better."""
    outcome = group[0]
    name, compared = policy_names(group), outcome.against.get("defaults", {}).get("completeness")
    if not outcome.worse:
        if compared is not None and compared.n:
            yield Text(f"{name}: no request is worse than under the base's defaults.")
        return
    text = (
        f"{count(len(outcome.worse), 'request')} that the base's defaults made complete "
        f"{'is' if len(outcome.worse) == 1 else 'are'} no longer complete"
    )
    if compared is not None:
        text += f"; {compared.higher:,} became complete and {compared.equal:,} stayed as they were"
    first = (
        f" The first {tuning_tables.MANY} in the order of the dataset."
        if len(outcome.worse) > tuning_tables.MANY
        else ""
    )
    title = f"{name} on {dataset.dataset}: {count(len(outcome.worse), 'request')} made worse"
    yield Details(title, (Text(f"{text}.{first}"), tuning_tables.worse_requests(outcome)))


def _notes(dataset: DatasetTuning) -> Iterator[str]:
    """The notes of the tuning, and doubts that its figures give reason for."""
    yield from dataset.notes
    for outcome in dataset.outcomes:
        yield from _search_notes(outcome)
        if outcome.replaced is not None and not dataset.all_decide:
            decided = (
                f"{outcome.tied_with} is not significantly better than the selector of the base"
                if outcome.replaced.selector == outcome.tied_with
                else "what ships is better than what was chosen"
            )
            yield (
                f"{outcome.policy.name}: the test split decided that {decided}, so its figures may be a little better "
                "than on other requests."
            )
        if outcome.fixed_reason:
            yield f"{outcome.policy.name}: there is no tuned fixed k, since {outcome.fixed_reason}."
        if outcome.chosen is not None:
            yield from _doubts(outcome)


def _search_notes(outcome: PolicyOutcome) -> Iterator[str]:
    name = outcome.policy.name
    if outcome.settings or outcome.tried:
        sentence = f"{name}: {count(outcome.settings, 'setting')} compared exactly"
        if outcome.tried:
            sentence += f", and {outcome.tried:,} run one by one because a parameter of theirs breaks the prefix rule"
        yield f"{sentence}."
    yield from (
        f"{name}: on the queries that decided {four_digits(bound)} was compared with {text}."
        for text, bound in outcome.bounds.items()
    )


def _doubts(outcome: PolicyOutcome) -> Iterator[str]:
    """Where a recommendation deserves less trust than its figures look."""
    name, chosen = outcome.policy.name, outcome.chosen
    if chosen is None:
        return
    for verdict in outcome.verdicts:
        if verdict.status not in ("holds", "holds within 2 points"):
            note = f"; about {verdict.needed:,} more labels would tell" if verdict.needed else ""
            value, low, high = map(four_digits, (verdict.value, verdict.low, verdict.high))
            yield f"{name}: {verdict.text} is {verdict.status}: {value} ({low} to {high}){note}."
    for metric in (COMPLETENESS, TOKENS):
        before, after = chosen.tuning.get(str(metric)), chosen.test.get(str(metric))
        if before is None or after is None or not math.isfinite(before.value) or not math.isfinite(after.value):
            continue
        if not before.interval.low <= after.value <= before.interval.high:
            yield (
                f"{name}: {'completeness' if metric == COMPLETENESS else 'the number of prompt tokens'} on the test "
                f"split ({number(metric, after.value)}) lies outside the interval of the tuning split "
                f"({estimate_interval(metric, before) or number(metric, before.value)})."
            )


def _provenance(tuning: Tuning) -> Section:
    sentences = (
        f"Embeddings: {tuning.embedder}.",
        f"Seed of random search, resampling and folds: {tuning.seed}.",
        "The same command on the same data gives the same figures:",
    )
    return Section("How this was made", (Bullets(sentences), Code(tuning.command)))


def write_report(tuning: Tuning, folder: Path, pool: OptionalPool | None = None) -> tuple[Path, ...]:
    """Write `report.md`, its `figures/*.svg` and `report.html`, which needs no other file, into a folder.

    Each file is written whole or not at all, those that name others after them. The same tuning gives the same bytes.

    Returns:
        The paths of the report, the page, the tables of several datasets, and the figures.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    report_document = document(tuning, pool)
    title = report_title([dataset.dataset for dataset in tuning.datasets], tuning.date) or tuning.name
    html = page(replace(report_document, title=title, kicker=f"{report_document.kicker}: {tuning.name}"))
    report, *further = _write_markdown(
        report_document, folder / "report.md", "figures", several=len(tuning.datasets) > 1
    )
    write_atomic(folder / "report.html", html)
    return report, folder / "report.html", *further


def write_markdown(tuning: Tuning, path: Path, *, figures: str) -> tuple[Path, ...]:
    """Write the report as Markdown, with its figures in a folder next to it.

    Args:
        tuning: what was found.
        path: of the Markdown.
        figures: the name of the folder for figures, in the folder of the Markdown.

    Returns:
        The paths of the Markdown, the tables of several datasets, and the figures.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    return tuple(_write_markdown(document(tuning), path, figures, several=len(tuning.datasets) > 1))


def _write_markdown(report_document: Document, path: Path, figures: str, *, several: bool) -> list[Path]:
    """Write figures, page and, of several datasets, the file of their sections."""
    files = []
    for drawing in (block for block in report_document.blocks() if isinstance(block, Drawing)):
        files.append(path.parent / figures / f"{drawing.name}.svg")
        write_atomic(files[-1], drawing.svg, durable=False)
    text = markdown(report_document, limit=None, figures=f"{figures}/")
    return [*write_parted(path, text, titles(text)[1:-1] if several else ()), *files]
