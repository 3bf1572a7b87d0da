"""Analyses of requests about code: what is asked for, and where to look. Neither makes chunks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from ctxbench.core.arrays import BoolArray
from ctxbench.core.errors import ParameterError
from ctxbench.core.notes import Note
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import CHAT, OLLAMA, Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.item_paths import ItemPaths, item_paths
from ctxbench.index.words import keywords
from ctxbench.planning.context_plan import ContextPlan, heuristic_plan
from ctxbench.planning.request_intent import read_intent

DEFAULT_MODEL = "qwen2.5-coder:7b"
_STEP = "analyse.plan"
_MOST_FILES = 20  # that one name stands for
_TRIES = 2  # of an exchange with a model's server


@dataclass(frozen=True)
class Intent(Strategy):
    """What a request about code asks for: action, scope, complexity, keywords, and the names of code in it.

    Action is create, modify, debug, explain, refactor or search; scope focused (on what it names), module or codebase;
    complexity simple, medium or complex. Names are CamelCase, snake_case, dotted or with `::`, file names, paths, and
    what stands in backquotes. Keywords are those of `keywords`, for steps that match them. No chunks are made: name
    another analysis beside it. A blank request has no intent. Cost: linear in the text. Source: document 003, "Query
    Analyzer"; tables of words, tested on requests that one model wrote and labelled (`ctxbench/planning/README.md`).
    """

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Read the intent of every request."""
        texts = [request.text for request in batch.requests]
        intents = tuple(read_intent(text).as_dict() if text.strip() else None for text in texts)
        return replace(_without_chunks(batch), intent=intents, keywords=tuple(keywords(text) for text in texts))


@dataclass(frozen=True)
class Plan(Strategy):
    """Where to look for a request about code: words, symbols, patterns of paths, depth, and how to begin.

    Attributes:
        planner: `heuristic`, by the words of the request; `ollama`, by a model of the server `OLLAMA_HOST`
            (http://localhost:11434 by default); `openai`, by a model of the server `OPENAI_BASE_URL`; `scan`, no plan.
        model: of the server; for `ollama` empty = `OLLAMA_MODEL`, qwen2.5-coder:7b by default.
        seconds: for an exchange with the server, above 0; it is tried twice.

    A model that does not answer in time, or not with a plan in two tries, is followed by `heuristic`; a request that
    says nothing to look for has no plan, so steps scan everything. Each fallback is a note. Files that a plan names and
    the request does not see are left out, with a note. Replies of models are kept by text, model and prompt. No chunks
    are made: name another analysis beside it. Cost: linear in the text, and an exchange with the server a request,
    four at one time. Source: document 003, "Subagent Approach with Local LLM".
    """

    planner: Literal["heuristic", "ollama", "openai", "scan"] = "heuristic"
    model: str = ""
    seconds: float = 20.0

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ParameterError(f"seconds must be above 0, got {self.seconds:g}")
        if self.planner == "openai" and not self.model.strip():
            raise ParameterError("model must not be empty for the planner openai; name one, such as gpt-5-mini")
        if self.planner not in ("ollama", "openai") and self.model:
            raise ParameterError(f"model is for the planners ollama and openai, and this one is {self.planner}")

    @property
    def uses(self) -> tuple[str, ...]:
        """The model, if there is one."""
        if self.planner == "openai":
            return (f"{CHAT}:{self.model}",)
        if self.planner == "ollama":
            return (f"{OLLAMA}:{self.model or os.environ.get('OLLAMA_MODEL', '').strip() or DEFAULT_MODEL}",)
        return ()

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Plan for every request."""
        query = _without_chunks(batch)
        if self.planner == "scan":
            return query
        rows = [row for row, request in enumerate(batch.requests) if request.text.strip()]
        texts = [batch.requests[row].text for row in rows]
        by_row = dict(zip(rows, self._by_model(texts, resources) if self.uses else [None] * len(rows), strict=True))
        paths = item_paths(batch.catalog, resources)
        plans, notes = [], []
        for row, request in enumerate(batch.requests):
            plan, fallbacks = _fallen_back(request.text, by_row.get(row))
            notes += [replace(note, query=request.id) for note in fallbacks]
            if plan is not None:
                plan, gone = plan.over(partial(_called, paths=paths, visible=paths.visible_paths(batch.visible[row])))
                if gone:
                    message = f"the plan names {', '.join(gone)}, which the request does not see; left out"
                    notes.append(Note(_STEP, "failed", message, query=request.id))
            plans.append(None if plan is None else plan.as_dict())
        return replace(query, plan=tuple(plans), notes=tuple(notes))

    def _by_model(self, texts: Sequence[str], resources: Resources) -> list[ContextPlan | str]:
        from ctxbench.planning.model_planner import model_plans

        model = resources.get(self.uses[0]).limited(seconds=self.seconds, tries=_TRIES)
        return model_plans(texts, model, f"{self.planner}:{self.uses[0].partition(':')[2]}")


def _fallen_back(text: str, by_model: ContextPlan | str | None) -> tuple[ContextPlan | None, list[Note]]:
    """The plan of a model, else by words, else none; and a note for each step down."""
    if isinstance(by_model, ContextPlan):
        return by_model, []
    why = [] if by_model is None else [Note(_STEP, "fell back", f"{by_model}; planned by the words of the request")]
    plan = heuristic_plan(text, read_intent(text))
    if plan is None:
        why.append(
            Note(_STEP, "fell back", "the request says nothing to look for; everything is scanned, without a plan")
        )
    return plan, why


def _called(name: str, paths: ItemPaths, visible: BoolArray) -> tuple[str, ...]:
    """The visible paths that a name means: the path of that name, else those that end with it, sorted."""
    name = name.replace("\\", "/").removeprefix("./").strip("/")
    ends = paths.ends.get(name.lower(), ())
    matches = [paths.path.names[index] for index in ends if visible[index]]
    return (name,) if name in matches else tuple(sorted(matches)[:_MOST_FILES])


def _without_chunks(batch: Batch) -> Query:
    return Query.of_chunks(batch, [[]] * len(batch))
