"""`ctxbench data pool` and `data agreement`: pairs for a second labelling, and the agreement of two labellings."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs, selector_inputs
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs, row_with

if TYPE_CHECKING:
    from ctxbench.data.labelling.agreement import Agreement


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """How pairs are drawn.

    Attributes:
        share: of the queries, in (0, 1].
        random: items drawn at random a query.
        seed: of both draws.
    """

    share: float = 0.2
    random: int = 10
    seed: int = 0


def pool(name: str, drawn: Drawn, *, selectors: list[str], embedder: str, out: Path, as_json: bool = False) -> None:
    """Write the pairs that a second person is to judge, one query a line, without any label."""
    from ctxbench.cli.label import make_pool_for
    from ctxbench.data.datasets.lookup import open_dataset
    from ctxbench.data.labelling.agreement import pooled_pairs, sample_queries
    from ctxbench.io.files import write_atomic
    from ctxbench.io.json_files import dump_jsonl

    read = {**dataset_inputs(name), **selector_inputs(*selectors)}
    refuse_outputs({"--out": out}, read, may_replace={"--out": row_with("_id", "text", "items")})
    with progress() as bar:
        dataset = open_dataset(name, notify=bar.say)
    ids = [query.id for query in dataset.queries]
    sample = dataset.take(sample_queries(ids, share=drawn.share, seed=drawn.seed))
    candidates = make_pool_for(sample, selectors, embedder, {})
    pairs = pooled_pairs(candidates, [query.id for query in sample.queries], random=drawn.random, seed=drawn.seed)
    rows = []
    for query in sample.queries:
        of_query = [pair for pair in pairs if pair.query == query.id]
        items = [dataset.catalog[dataset.catalog.position(pair.item)].as_row() for pair in of_query]
        rows.append(
            {**_select_fields(query.as_row(), _ASKED), "items": [_select_fields(item, _SHOWN) for item in items]}
        )
    write_atomic(out, dump_jsonl(rows))
    if as_json:
        print_json({"pairs": len(pairs), "queries": len(rows), "written": str(out)})
    else:
        from ctxbench.io.visible import count

        say(f"{count(len(pairs), 'pair')} of {count(len(rows), 'query', 'queries')} written to {out}", err=True)


_ASKED = ("_id", "text", "history", "session", "scope")
_SHOWN = ("_id", "description", "text", "include")


def _select_fields(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}


def compare(first: Path, second: Path, *, as_json: bool) -> None:
    """Print the agreement of two labellings of the same pairs."""
    from ctxbench.data.labelling.agreement import agreement, read_labelling

    result = agreement(read_labelling(first), read_labelling(second))
    if as_json:
        print_json(_as_dict(result))
        return
    from ctxbench.io.visible import count

    say(f"{count(result.pairs, 'pair')} of {count(result.queries, 'query', 'queries')} judged by both")
    for path, n in ((first, result.only_first), (second, result.only_second)):
        if n:
            stand = "stands in {} only and is" if n == 1 else "stand in {} only and are"
            say(f"{count(n, 'pair')} {stand.format(path)} left out")
    say("", "first \\ second  irrelevant   helpful  required")
    for grade, name in enumerate(("irrelevant", "helpful", "required")):
        say(f"{name:<14}" + "".join(f"{int(n):>10,}" for n in result.table[grade]))
    say("", "question               kappa  95% interval  agreement  by chance")
    for kappa in result.kappas:
        value, interval = (
            ("-", "-") if isnan(kappa.value) else (f"{kappa.value:.3f}", f"{kappa.low:.3f}-{kappa.high:.3f}")
        )
        say(f"{kappa.question:<21} {value:>6}  {interval:>12}  {kappa.observed:>9.4f}  {kappa.expected:>9.4f}")
    if any(isnan(kappa.value) for kappa in result.kappas):
        say("-: kappa needs pairs with different answers to the question; here both answer all alike, as by chance")
    say(
        "",
        (
            "kappa: agreement beyond what chance would give; 1 = always, 0 = no more than chance. By grade, "
            "irrelevant against required counts as twice as far apart as neighbours (linear weights)."
        ),
        "",
        f"{count(len(result.disagreements), 'pair')} on which the grades differ",
    )
    if result.disagreements:
        say("  query  item  first second (0 irrelevant, 1 helpful, 2 required)")
    for query, item, one_grade, other_grade in result.disagreements:
        say(f"  {query}  {item.id}  {one_grade} {other_grade}")


def _as_dict(result: Agreement) -> dict[str, Any]:
    return {
        "queries": result.queries,
        "pairs": result.pairs,
        "only_first": result.only_first,
        "only_second": result.only_second,
        "table": result.table.tolist(),
        "kappas": [
            {
                "question": kappa.question,
                "kappa": kappa.value,
                "low": kappa.low,
                "high": kappa.high,
                "observed": kappa.observed,
                "expected": kappa.expected,
            }
            for kappa in result.kappas
        ],
        "disagreements": [
            {"query": query, "item": item.id, "first": a, "second": b} for query, item, a, b in result.disagreements
        ],
    }
