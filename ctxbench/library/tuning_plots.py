"""Plots of tuning: the front, and maps over two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.tuning.results import DEFAULTS, EVERYTHING, RECOMMENDED, Contender, DatasetTuning, Heat, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BELOW = 0.15  # of the y axis that is shown below the lowest interval
_MARKS = {RECOMMENDED: "*", DEFAULTS: "s"}  # else a circle


class TuningPlots:
    """Plots of what tuning found on one dataset; each returns the Axes that it drew on."""

    def __init__(self, found: DatasetTuning) -> None:
        """Take what was found."""
        self._found = found

    def front(self, x: str = "tokens", y: str = "completeness", *, ax: Axes | None = None) -> Axes:
        """The best settings of every selector, its first 1, 2, 3, ... items, and what was compared.

        A band is the 95% interval of each mean, on the queries that decide. A mark on the lower line is no better than
        a fixed number of items.

        Args:
            x, y: metrics.
            ax: where to draw; None = a figure of its own.

        Raises:
            UnknownNameError: tuning did not measure such a metric.
        """
        axes = _axes(ax)
        for trace in self._found.traces:
            for metric in (x, y):
                if metric not in trace.means:
                    raise UnknownNameError("metric", metric, trace.means)
            _line(axes, trace, x, y)
        marked = [one for one in self._found.contenders if {x, y} <= one.tuning.keys() and one.role != EVERYTHING]
        for contender in marked:
            _mark(axes, contender, x, y)
        if marked:  # the lines go on to where everything is offered, far from what anybody would choose between
            axes.set_xlim(0, 1.4 * max(one.tuning[x].value for one in marked))
            axes.set_ylim(bottom=max(0.0, min(one.tuning[y].interval.low for one in marked) - _BELOW))
        axes.set(xlabel=_title(x), ylabel=_title(y), title=self._found.dataset)
        axes.legend(frameon=False, loc="lower right", fontsize="small")
        return axes

    def heat(
        self, x: str, y: str, *, metric: str = "completeness", policy: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """A metric over two parameters, all others as recommended; the recommended setting is framed.

        Args:
            x, y: parameters.
            metric: `completeness` or `tokens`.
            policy: whose recommendation it is around; None = the first that recommends anything.
            ax: where to draw; None = a figure of its own.

        Raises:
            UnknownNameError: there is no such policy or metric.
            ParameterError: nothing is recommended, or there is no map over these two.
        """
        outcomes = {one.policy.name: one for one in self._found.outcomes}
        if policy is not None and policy not in outcomes:
            raise UnknownNameError("policy", policy, outcomes)
        with_maps = [one for name, one in outcomes.items() if one.heats and policy in (None, name)]
        if not with_maps:
            raise ParameterError(
                "there is no map: nothing was found better than the default, or its settings cannot be swept"
            )
        heats = {frozenset((one.x, one.y)): one for one in with_maps[0].heats}
        heat = heats.get(frozenset((x, y)))
        if heat is None or x == y:
            pairs = "; ".join(f"{one.x} and {one.y}" for one in with_maps[0].heats)
            raise ParameterError(f"there is no map over {x} and {y}; there are maps over {pairs}")
        if metric not in heat.means:
            raise UnknownNameError("metric", metric, heat.means)
        chosen = with_maps[0].chosen
        return _map(_axes(ax), heat if heat.x == x else _turned(heat), metric, chosen)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _title(metric: str) -> str:
    return {"tokens": "prompt tokens a request", "completeness": "complete"}.get(metric, metric)


def _line(axes: Axes, trace: Trace, x: str, y: str) -> None:
    order = np.argsort(trace.means[x], kind="stable")
    xs, ys = trace.means[x][order], trace.means[y][order]
    first = trace.name.endswith("first n")
    (line,) = axes.plot(xs, ys, linestyle="--" if first else "-", linewidth=1.5, label=trace.name, zorder=2)
    if not first:
        axes.fill_between(
            xs, trace.low[y][order], trace.high[y][order], color=line.get_color(), alpha=0.15, linewidth=0
        )


def _mark(axes: Axes, one: Contender, x: str, y: str) -> None:
    at = one.tuning[x].value, one.tuning[y].value
    marker = _MARKS.get(one.role, "o")
    axes.plot(*at, marker=marker, markersize=13 if marker == "*" else 7, linestyle="none", label=_named(one), zorder=3)


def _turned(heat: Heat) -> Heat:
    means = {name: values.T for name, values in heat.means.items()}
    return Heat(x=heat.y, y=heat.x, xs=heat.ys, ys=heat.xs, means=means)


def _map(axes: Axes, heat: Heat, metric: str, chosen: Contender | None) -> Axes:
    from matplotlib.patches import Rectangle

    means = heat.means[metric]
    image = axes.imshow(means, origin="lower", aspect="auto", cmap="viridis")
    axes.set_xticks(range(len(heat.xs)), _texts(heat.xs), rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(heat.ys)), _texts(heat.ys))
    axes.set(xlabel=heat.x, ylabel=heat.y, title=_title(metric))
    axes.figure.colorbar(image, ax=axes)
    if chosen is not None and chosen.values.get(heat.x) in heat.xs and chosen.values.get(heat.y) in heat.ys:
        place = heat.xs.index(chosen.values[heat.x]) - 0.5, heat.ys.index(chosen.values[heat.y]) - 0.5
        axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor="white", linewidth=2.5))
        axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor="black", linewidth=1))
    return axes


def _texts(values: Sequence[Any]) -> list[str]:
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]


def _named(one: Contender) -> str:
    return f"recommended: {one.name}" if one.role == RECOMMENDED else one.name
