"""Outside of the strategies and the registry nothing names a strategy: a strategy answers for itself.

Writing a pipeline is not matching: mappings that are passed to `Pipeline.of` are ignored.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ctxbench.model import registry
from tests.syntax_trees import tree_of

PACKAGE = Path(__file__).parents[1] / "ctxbench"
KINDS = ("analyse", "retrieve", *registry.REFINE_KINDS, "format")
NAMES = {name for kind in KINDS for name in registry.built_in(kind)}
CLASSES = {registry.target(kind, name).partition(":")[2] for kind in KINDS for name in registry.built_in(kind)}
PARAMETERS = {"topK", "topN", "includeScore", "graph_threshold", "graph_topN", "query_weight"}
# Names that mean nothing but a strategy; the others are fields of rows and requests, too, such as `history` or `links`.
DISTINCT = {"standard", "at_least", "per_chunk", "top_chunks", "mmr", "expansion", "bm25", "bm25f", "dense", "fuzzy"}
DISTINCT |= {"rrf", "tool_rules", "knapsack", "truncate", "excerpts", "abstain", "whole_file", "file_kinds", "greedy"}
ALLOWED = {
    ("memory/engine.py", "dense"): "a shipped selector",
    ("labelling/pools.py", "bm25"): "shipped selectors",
    ("labelling/pools.py", "dense"): "shipped selectors",
    ("api/evaluation.py", "at_least"): "a key of a policy file",
    ("tuning/policy.py", "at_least"): "a key of a policy file",
    ("tuning/preset_files.py", "at_least"): "a key of a policy file",
    ("gate/settings.py", "at_least"): "a key of a gate file",
    ("cli/check.py", "at_least"): "a key of a gate file",
    ("selectors/explain.py", "Messages"): "the type of a format whose `prompt` is called",
    ("selectors/session.py", "Messages"): "the type of a format whose `prompt` is called",
    ("report/check_files.py", "at_least"): "a key of a gate file",
    ("report/tuning_tables.py", "at_least"): "headings of parameters of shipped selectors",
    ("tuning/tunables.py", "standard"): "the pipeline that cuts rankings of others",
    ("tuning/tunables.py", "at_least"): "the pipeline that cuts rankings of others",
    ("tuning/tunables.py", "topK"): "the pipeline that cuts rankings of others",
    ("tuning/tunables.py", "topN"): "the pipeline that cuts rankings of others",
    ("tuning/tunables.py", "includeScore"): "the pipeline that cuts rankings of others",
    ("tuning/tuner.py", "topN"): "a parameter of the pipeline that cuts rankings of others",
    ("tuning/tuner.py", "expansion"): "a word of a table",
    ("api/labelling.py", "expansion"): "a mode of items",
    ("api/selectors.py", "topK"): "short names of selectors' parameters",
    ("api/selectors.py", "topN"): "short names of selectors' parameters",
    ("api/selectors.py", "includeScore"): "short names of selectors' parameters",
    ("model/candidates.py", "topK"): "the code of an exclusion rule, which baselines hold",
    ("testing/conformance.py", "dense"): "the retriever in front of a step under test",
    ("search/dense.py", "dense"): "the key of an index",
    ("search/word_index.py", "bm25"): "the key of an index",
    ("pipelines/feature_families.py", "bm25"): "a feature",
    ("gate/inputs.py", "expansion"): "an origin of candidates",
    ("gate/causes.py", "expansion"): "an origin of candidates",
    ("gate/cause_finder.py", "expansion"): "an origin of candidates and a quantity of thresholds",
    ("report/scores.py", "expansion"): "a quantity of thresholds",
    ("selectors/conversations.py", "expansion"): "a mode of items",
    ("tuning/inputs.py", "expansion"): "a word of a message",
}


def written_pipelines(tree: ast.AST) -> set[int]:
    """The nodes of specifications that are passed to `Pipeline.of`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Pipeline.of"]
    return {id(node) for call in calls for argument in call.args for node in ast.walk(argument)}


def step_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names of strategies that code compares with a name, imports as classes, or holds as plain text."""
    written = written_pipelines(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in DISTINCT | PARAMETERS and id(node) not in written:
            yield node.lineno, str(node.value)
        elif isinstance(node, ast.Compare | ast.Match):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.subject]
            of_step = any("step.name" in ast.unparse(side) or "step_name(" in ast.unparse(side) for side in sides)
            texts = {x.value for x in ast.walk(node) if isinstance(x, ast.Constant) and isinstance(x.value, str)}
            yield from ((node.lineno, name) for name in texts & NAMES if of_step)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ctxbench.pipelines.strategies"):
            yield from ((node.lineno, name.name) for name in node.names if name.name in CLASSES)


def test_nothing_names_a_strategy_but_strategies_and_the_registry():
    hits = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith("pipelines/strategies/") and file != "model/registry.py":
            hits |= {(file, name): line for line, name in step_names(tree_of(path))}
    assert {f"{file}:{line}: {name}" for (file, name), line in hits.items() if (file, name) not in ALLOWED} == set()
    assert set(ALLOWED) - set(hits) == set(), "exceptions that are no longer needed"
