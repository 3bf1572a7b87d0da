"""Compare ranking metrics by query with ir_measures, and with ranx if it is installed: `agreement.py DATASET ...`.

Prints a row per dataset, way of judging, selector and program: the queries compared, and the largest difference of each
metric. As ctxbench judges, queries whose labels have alternatives, or labelled items that the session holds, are left
out, since other programs know neither; as trec_eval judges, all are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import ir_measures
import pandas as pd

import ctxbench
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.labelling.judgment_files import judged_queries, other_values

METRICS = ("nDCG@10", "R@5", "RR", "P@5", "AP", "Success@5")
RANX = {
    "nDCG@10": "ndcg@10",
    "R@5": "recall@5",
    "RR": "mrr",
    "P@5": "precision@5",
    "AP": "map",
    "Success@5": "hit_rate@5",
}
GRADED = ("R@5", "RR", "AP", "Success@5")  # as ctxbench judges, items of grade 2 alone count here
SELECTORS = {
    "bm25": "bm25",
    "spec": "semantic/spec",
    "hybrid": ctxbench.pipeline({"merge": ["bm25", "dense"]}, refine=["rrf"]),
    "fuzzy": ctxbench.pipeline("fuzzy", refine=[{"first": {"n": 5}}]),
    "random": ctxbench.pipeline("random", refine=[{"first": {"n": 5}}]),
}


def by_ir_measures(qrels: pd.DataFrame, run: pd.DataFrame, *, judged: str) -> Iterator[tuple[str, str, float]]:
    """Metric, query and value by ir_measures."""
    names = {name: name if judged else str(parse_metric(name).ir_measures) for name in METRICS}
    measures = {ir_measures.parse_measure(measure): name for name, measure in names.items()}
    for value in ir_measures.iter_calc(list(measures), qrels, run):
        yield measures[value.measure], value.query_id, value.value


def by_ranx(qrels: pd.DataFrame, run: pd.DataFrame, *, judged: str) -> Iterator[tuple[str, str, float]]:
    """Metric, query and value by ranx; nothing where it is not installed."""
    try:
        import ranx
    except ImportError:
        return
    columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
    labels = ranx.Qrels.from_df(qrels, **columns, score_col="relevance")
    ranking = ranx.Run.from_df(run, **columns, score_col="score")
    measures = {name: f"{RANX[name]}-l2" if name in GRADED and not judged else RANX[name] for name in METRICS}
    ranx.evaluate(labels, ranking, list(measures.values()), make_comparable=True)
    for name, measure in measures.items():
        for query, value in ranking.scores[measure].items():
            yield name, query, float(value)


def rows(data: ctxbench.Data, settings: Mapping[str, str], *, judged: str) -> Iterator[dict[str, object]]:
    """The largest differences of every selector on a dataset."""
    results = ctxbench.evaluate(data, SELECTORS, metrics=METRICS, judged=judged, **settings)
    (dataset,) = results.datasets.values()
    differing = {} if judged else other_values(dataset, judged_queries(dataset))
    left_out = {query for queries in differing.values() for query in queries}
    values = results.per_query().set_index(["selector", "query"])
    qrels = results.qrels()
    for selector in results.selectors:
        run = results.to_run(selector)
        for program in (by_ir_measures, by_ranx):
            largest, compared = dict.fromkeys(METRICS, 0.0), set()
            for name, query, value in program(qrels, run, judged=judged):
                if query not in left_out:
                    compared.add(query)
                    largest[name] = max(largest[name], abs(value - values.loc[(selector, query), name]))
            row = {"dataset": data.name, "judged": judged or "ctxbench", "selector": selector}
            row |= {"program": program.__name__.removeprefix("by_"), "queries": len(compared)}
            if compared:  # else the program is not installed
                yield {**row, "left out": len(left_out), **largest}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for judged in ("", "trec"):
            frame = pd.DataFrame(rows(ctxbench.load(name), {"counter": "chars/4"}, judged=judged))
            sys.stdout.write(f"{frame.to_string(index=False)}\n\n")
            sys.stdout.flush()
