"""`ctxbench score | graph | calibrate | latency`."""

from pathlib import Path
from typing import Annotated

import typer

from ctxbench.cli.options import CatalogArgument, CatalogName, CsvFile, EmbedderName, JsonFlag, TokenCounter


def score(
    answers: Annotated[Path, typer.Argument(help="A file, one JSON object a line for each query.")],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset's name or folder.")],
    selectors: Annotated[
        list[str] | None,
        typer.Option(
            "--beside", help="A selector to compare with, such as semantic/normal or an agent file; repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Keep the run in this folder, with its HTML report.")] = None,
    tokens: TokenCounter = "o200k",
    csv: CsvFile = None,
    json_: JsonFlag = False,
) -> None:
    """Score a file of your own selector's answers.

    An answer names what is offered for a query, best first: {"query": "q1", "items": [{"id": "tool:search"}]}.
    `ctxbench data export D --requests FILE` writes what to answer.

    For example:

    ctxbench score answers.jsonl --dataset bfcl-simple --beside semantic/normal
    """
    from ctxbench.cli.commands import ReportTargets, score_answers

    targets = ReportTargets(csv=csv, json=json_)
    score_answers(answers, dataset=dataset, selectors=selectors or [], out=out, tokens=tokens, targets=targets)


def graph(
    catalog: CatalogArgument,
    out: Annotated[Path, typer.Option(help="The file to write, for `graph:` in a pipeline; if it is there, updated.")],
    similarity: Annotated[
        str,
        typer.Option(
            help=(
                "Of two items, over the passages of their texts: max (of the most alike pair), mean (of all "
                "pairs) or centroid (of their mean vectors)."
            )
        ),
    ] = "max",
    threshold: Annotated[float, typer.Option(help="Least similarity that is kept, 0 to 1.")] = 0.75,
    neighbours: Annotated[int, typer.Option(help="At most so many similar items of each item.")] = 100,
    heads: Annotated[bool, typer.Option("--heads", help="Compare only the first passage of each item.")] = False,
    embedder: EmbedderName = "minilm",
    json_: JsonFlag = False,
) -> None:
    """Store which items of a catalog are alike.

    A selector with `expansion: {by: graph, graph: FILE}` adds the items that are related to those it found; without a
    file it works the graph out in memory when it is first needed. Made again after an edit, only what changed is
    compared.

    For example:

    ctxbench graph datasets/workbench --out workbench.graph.npz
    """
    from ctxbench.cli.graph_command import make
    from ctxbench.index.graph import GraphSpec

    spec = GraphSpec(similarity=similarity, threshold=threshold, neighbours=neighbours, heads=heads)
    make(catalog, spec, out=out, embedder=embedder, as_json=json_)


def calibrate(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help=(
                "probability: how likely an item is needed. abstention: how likely anything is. weights: how "
                "much each column of a step `linear` counts, or each search of a hybrid."
            ),
        ),
    ],
    datasets: Annotated[list[str], typer.Argument(help="Labelled datasets, names or folders: one fit each.")],
    out: Annotated[Path, typer.Option(help="The file of fits to write, for `calibration:` in a pipeline.")],
    selector: Annotated[
        str | None,
        typer.Option(
            help="The selector to fit; by default learned for probability, semantic for abstention, hybrid for weights."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Fit to the queries of this split; all = every query.")] = "tuning",
    folds: Annotated[
        int, typer.Option(help="Also measure it on requests that it was not fitted to, in so many parts.", min=0)
    ] = 0,
    embedder: EmbedderName = "minilm",
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Keep no labelled requests in the fit; it then ignores what they needed.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            help=(
                "The figure that weights of a step `linear` are to raise: nDCG@10 (the order of the first ten) "
                "by default, R@10 (the share of the needed items among the first ten), Comp@5, RR ..."
            )
        ),
    ] = None,
    json_: JsonFlag = False,
) -> None:
    """Fit a selector to your labels.

    What is fitted is plain numbers, which the steps of a selector with `calibration: FILE` read: a logistic regression
    for probability and abstention (whether to offer nothing), and the weights that rank items best, those of a step
    `linear` or else of a hybrid (a search by words and one by meaning, as one). A
    probability starts from the shipped weights, holds for other catalogs, too, and is written with a selector that uses
    it; the others are for one catalog and search. Its file holds the labelled requests, as what similar requests needed
    says most.

    For example:

    ctxbench calibrate probability bfcl-simple --out fits.json --folds 5
    """
    from ctxbench.cli.calibrate import FitRequest
    from ctxbench.cli.calibrate import calibrate as fit

    selector = selector or {"probability": "learned", "weights": "hybrid"}.get(kind, "semantic")
    request = FitRequest(
        kind, datasets, selector=selector, split=split, folds=folds, embedder=embedder, texts=not no_text, metric=metric
    )
    fit(request, out=out, as_json=json_)


def latency(
    selectors: Annotated[
        list[str] | None,
        typer.Argument(
            help="Shipped selectors, or selector/preset; semantic/documents by default, of an agent file its own."
        ),
    ] = None,
    catalog: CatalogName = "workbench",
    embedder: EmbedderName = "minilm",
    seconds: Annotated[float, typer.Option(help="How long all selectors together are timed.", min=0, max=3600)] = 60.0,
    json_: JsonFlag = False,
) -> None:
    """Measure how long a request takes.

    Requests, made from descriptions of the items, are asked one at a time in one process, all selectors in turn, once
    indexes are made and vectors stored. Quantiles are printed: the median, and what 95% and 99% of requests stay below.

    For example:

    ctxbench latency semantic/documents learned/normal --catalog workbench
    """
    from ctxbench.cli.commands import measure_latency

    measure_latency(selectors or [], catalog, embedder=embedder, seconds=seconds, as_json=json_)
