"""A family of features for code: how a file's path, history and definitions suit a request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.core.facts import EARLIEST
from ctxbench.core.items import Item
from ctxbench.core.times import instant
from ctxbench.features.found import FeatureInput, RequestFamily
from ctxbench.features.item_words import item_bm25
from ctxbench.index.code.path_kinds import is_test_path
from ctxbench.index.code_symbols import code_symbols
from ctxbench.index.commit_history import DAY, commit_history
from ctxbench.index.item_paths import file_path, item_paths
from ctxbench.index.path_names import named_paths
from ctxbench.index.versions import row_over
from ctxbench.planning.named_code import named_code

HALF_LIFE = 90
"""Days in which `code.recency` falls by half."""

TOUCH_HALF_LIFE = 365
"""Days after which a change counts half in `code.touches`."""

VOTERS, SPREAD = 30, 0.5
"""`code.history` is that of the step `history` with so many commits, and this spread."""

SEEDS = 5
"""So many of the best found lend to `code.cochange`."""


@dataclass(frozen=True)
class CodeFit(RequestFamily):
    """How a file, or a definition in one, suits a request; each in [0, 1] but for `size` and `distance`.

    * `words`: BM25 as by the step `bm25` with `statistics: scope`, by the highest of what may be offered.
    * `path`: the share of the request's words that stand in the path, by how rare they are in paths (`pattern`).
    * `named`: 1 where the request names the file.
    * `recency`: 0.5 ** (days / 90) since this version of it was made; 0 where that is not known.
    * `touches`: the score of the step `change` with a half-life of a year, by the highest of what may be offered.
    * `history`: the score of the step `history`, by the highest likewise.
    * `cochange`: of the commits that changed one of the five best found, the highest share that changed it, too.
    * `symbols`: the sum over names of code in the request of 1 / the items that define it, for each that this file or
      definition does, at most 1.
    * `test`: 1 where it is a test, by its name or folder.
    * `size`: log(1 + the characters of its text).
    * `distance`: how many steps away from what was chosen the expansion `code` found it; 0 where it did not.

    All is read off what the request sees; 0 of what is no code. Source: document 002, "Relevance Scorer".
    """

    columns: ClassVar[tuple[str, ...]] = (
        *("words", "path", "named", "recency", "touches", "history", "cochange", "symbols", "test", "size"),
        "distance",
    )

    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The columns, in the order of `columns`."""
        query, batch, resources, item = inputs.query, inputs.query.batch, inputs.resources, inputs.item[span]
        catalog, visible, eligible = batch.catalog, batch.visible[request], batch.eligible[request]
        asker, chunks = batch.requests[request], query.chunks(request)
        paths, past = item_paths(catalog, resources), commit_history(catalog, resources)
        visible_paths, visible_commits = paths.visible_paths(visible), past.visible_commits(batch, request)
        named = np.zeros(len(visible_paths))
        named[named_paths(asker.text, paths.ends, visible_paths)] = 1.0
        weights = query.weight[query.start[request] : query.start[request + 1]].tolist()
        voices = past.voices(chunks, weights, visible_commits, limit=VOTERS, spread=SPREAD)
        created = catalog.facts.created[item]
        time_now = (
            int(catalog.facts.created[visible].max(initial=EARLIEST)) if asker.time is None else instant(asker.time)
        )
        ages = [(max(time_now - time, 0) if time != EARLIEST else math.inf) / DAY for time in created.tolist()]
        together = np.zeros(len(catalog))
        for seed in item[:SEEDS].tolist():
            together = np.maximum(together, past.together(seed, visible_commits))
        code, defined = paths.path.code[item] >= 0, np.zeros(len(catalog))
        if names := named_code(asker.text):  # else nothing need be parsed
            defined = np.minimum(code_symbols(catalog, resources).matches(names, visible), 1.0)
        bm25, counted = item_bm25(catalog, resources), visible & catalog.facts.searchable
        words = _share(bm25.scores(bm25.words(chunks, weights), counted=counted), eligible)
        columns = (
            words[item] * code,
            paths.by_item(paths.shares(chunks, visible_paths))[item],
            paths.by_item(named)[item],
            [0.5 ** (age / HALF_LIFE) for age in ages] * code,
            _share(past.votes(past.fresh(batch, request, TOUCH_HALF_LIFE)), eligible)[item],
            _share(past.votes(voices), eligible)[item],
            together[item],
            defined[item],
            row_over(catalog, resources, "tests", over=("type", "title", "name"), make=_tests)[item],
            row_over(catalog, resources, "sizes of code", over=("type", "text"), make=_sizes)[item],
            np.zeros(len(item)),  # the step writes the others
        )
        return np.stack(columns, axis=1)


def _share(score: FloatArray, eligible: BoolArray) -> FloatArray:
    """Scores by the highest of those that may be offered; at most 1."""
    highest = float(score[eligible].max(initial=0.0))
    return np.minimum(score / highest, 1.0) if highest > 0 else np.zeros(len(score))


def _tests(items: Sequence[Item]) -> FloatArray:
    return np.array([is_test_path(file_path(item) or "") for item in items], dtype=np.float64)


def _sizes(items: Sequence[Item]) -> FloatArray:
    return np.array([math.log1p(len(item.text)) if item.is_file else 0.0 for item in items], dtype=np.float64)
