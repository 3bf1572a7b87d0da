"""Compare ranking metrics by query with ir_measures, and with ranx if it is installed: `agreement.py DATASET ...`.

Prints a row per dataset and selector: the queries compared, and the largest difference of each metric. Queries whose
labels have alternatives, or labelled items that the session holds, are counted apart: other programs know neither.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import ir_measures
import pandas as pd

import ctxbench
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.labelling.judgment_files import judged_queries, other_values

METRICS = ("nDCG@10", "R@5", "RR", "P@5", "AP")
RANX = {"nDCG@10": "ndcg@10", "R@5": "recall@5-l2", "RR": "mrr-l2", "P@5": "precision@5", "AP": "map-l2"}
SELECTORS = {
    "bm25": "bm25",
    "spec": "semantic/spec",
    "hybrid": ctxbench.pipeline({"merge": ["bm25", "dense"]}, refine=["rrf"]),
    "fuzzy": ctxbench.pipeline("fuzzy", refine=[{"first": {"n": 5}}]),
    "random": ctxbench.pipeline("random", refine=[{"first": {"n": 5}}]),
}


def by_ir_measures(qrels: pd.DataFrame, run: pd.DataFrame) -> Iterator[tuple[str, str, float]]:
    """Metric, query and value by ir_measures."""
    measures = {ir_measures.parse_measure(parse_metric(name).ir_measures): name for name in METRICS}
    for value in ir_measures.iter_calc(list(measures), qrels, run):
        yield measures[value.measure], value.query_id, value.value


def by_ranx(qrels: pd.DataFrame, run: pd.DataFrame) -> Iterator[tuple[str, str, float]]:
    """Metric, query and value by ranx; nothing where it is not installed."""
    try:
        import ranx
    except ImportError:
        return
    columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
    labels = ranx.Qrels.from_df(qrels, **columns, score_col="relevance")
    ranking = ranx.Run.from_df(run, **columns, score_col="score")
    ranx.evaluate(labels, ranking, list(RANX.values()), make_comparable=True)
    for name, measure in RANX.items():
        for query, value in ranking.scores[measure].items():
            yield name, query, float(value)


def rows(data: ctxbench.Data, settings: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """The largest differences of every selector on a dataset."""
    results = ctxbench.evaluate(data, SELECTORS, metrics=METRICS, **settings)
    dataset = results.datasets[data.name]
    judged = judged_queries(dataset)
    left_out = {query for queries in other_values(dataset, judged).values() for query in queries}
    values = results.per_query().set_index(["selector", "query"])
    qrels = results.qrels()
    for selector in results.selectors:
        run = results.to_run(selector)
        for program in (by_ir_measures, by_ranx):
            largest = dict.fromkeys(METRICS, 0.0)
            compared, differing = set(), set()
            for name, query, value in program(qrels, run):
                difference = abs(value - values.loc[(selector, query), name])
                if query in left_out:
                    differing |= {query} if not difference <= 1e-9 else set()
                    continue
                compared.add(query)
                largest[name] = max(largest[name], difference)
            row = {"dataset": data.name, "selector": selector, "program": program.__name__.removeprefix("by_")}
            yield {**row, "queries": len(compared), "left out": len(left_out), "differ": len(differing), **largest}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        frame = pd.DataFrame(rows(ctxbench.load(name), {"counter": "chars/4"}))
        sys.stdout.write(f"{frame.to_string(index=False)}\n\n")
        sys.stdout.flush()
