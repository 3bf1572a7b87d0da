"""One request from Python: what a selector offers for it, and why."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Message, Request
from ctxbench.core.stages import Resources
from ctxbench.core.times import named_instant
from ctxbench.embedding.embedder_names import open_embedder
from ctxbench.index.resources import local_resources
from ctxbench.library.dataset_frames import Data, load
from ctxbench.library.embedders import EmbedderGiven, embedder_name
from ctxbench.library.selectors import Preset
from ctxbench.selectors.definitions import find_definition, refuse_time_of_tree, selector_of_tree
from ctxbench.selectors.explain import Explained, Explanation, explain
from ctxbench.sources.agent_file import open_catalog
from ctxbench.text.tokens import open_counter

if TYPE_CHECKING:
    import pandas as pd

_SHORT = {"topK": "contextTopK", "topN": "contextTopN", "includeScore": "contextIncludeScore"}


@dataclass(frozen=True, eq=False)
class Selected:
    """What a request was offered.

    Attributes:
        explanation: all that `ctxbench select` tells.
    """

    explanation: Explanation

    @property
    def ids(self) -> list[str]:
        """The ids of what is offered, in order."""
        return [candidate.offered.id for candidate in self.explanation.chosen]

    @property
    def tokens(self) -> int:
        """The prompt tokens of what the selector added."""
        return self.explanation.prompt_tokens

    @property
    def messages(self) -> list[dict[str, str]]:
        """What the model would be sent, as `role` and `content`, without tools."""
        return [{"role": role, "content": content} for role, content in self.explanation.prompt.messages]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The definitions of the tools offered: `name`, `description`, `inputSchema`."""
        return list(self.explanation.prompt.tools)

    @property
    def notes(self) -> list[str]:
        """What was late, failed or fell back to something else, a sentence each; empty where all went as asked."""
        return [str(note) for note in self.explanation.selection.trace]

    def to_frame(self, *, near: int = 0) -> pd.DataFrame:
        """What is offered, and the `near` best of what stayed out.

        Returns:
            One row an item: `item`, `offered`, `score`, `tokens`, `mode`, `rule` (why it stayed out), `query_chunk` and
            `item_chunk` (the texts that gave the score).
        """
        import pandas as pd

        rows = [_row(candidate, offered=True) for candidate in self.explanation.chosen]
        rows += [_row(candidate, offered=False) for candidate in self.explanation.left_out[:near]]
        columns = ["item", "offered", "score", "tokens", "mode", "rule", "query_chunk", "item_chunk"]
        return pd.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"{self.to_frame(near=5).to_html(index=False, border=0)}{notes}"

    def __repr__(self) -> str:
        return f"Selected({self.ids}, {self.tokens} tokens)"


def select(
    text: str,
    items: Catalog | Data | str | Path,
    *,
    selector: str | Pipeline | Preset | None = None,
    history: Sequence[tuple[str, str] | Mapping[str, str]] = (),
    tool_results: Sequence[tuple[str, str]] = (),
    user: str | None = None,
    workspace: str | None = None,
    time: str | datetime | None = None,
    embedder: EmbedderGiven = "minilm",
    counter: str = "o200k",
    **parameters: Any,
) -> Selected:
    """What a selector offers for one request.

    What is computed of a catalog (vectors, counts, indexes) is kept as long as the catalog is: make it once and ask it
    often.

    Args:
        text: the request.
        items: what it chooses from; or the name or folder of a dataset, or of a git repository as `catalog` takes it.
        selector: a shipped selector, such as `learned/normal`, the path of a definition, a pipeline or a preset; None =
            `learned`, for a repository `codebase`, or with `topK`, `topN` or `includeScore` the documents' search,
            `semantic`.
        history: the messages before, as (role, content), or as dicts with both.
        tool_results: what tools have answered, as (tool name, text), for selectors that search with it.
        user, workspace: whose request it is: it sees their items and everybody's.
        time: when it is asked, ISO 8601: it sees what was there then. None = now.
        embedder: its name, such as `minilm`, or a function as for `evaluate`.
        counter: what counts prompt tokens, such as `o200k`.
        **parameters: of the selector, by their names; `topK`, `topN` and `includeScore` are those of the documents.

    Raises:
        UserError: the selector, a parameter, the embedder or the counter is unknown or out of range.

    Example:
        >>> tools = ctxbench.catalog([{"name": "area", "description": "Area of a triangle"}, {"name": "mail"}])
        >>> ctxbench.select("area of a triangle", tools, selector="bm25", n=1, counter="chars/4").ids
        ['tool:area']
    """
    at = time.isoformat() if isinstance(time, datetime) else time
    for name, value in {"text": text, "user": user, "workspace": workspace, "time": at}.items():
        if not isinstance(value, str) and (value is not None or name == "text"):
            raise ParameterError(f"{name} must be a text, got {value!r}")
    named_instant("time", at)
    request = Request(
        id="select",
        text=text,
        history=_messages(history),
        tool_results=_results(tool_results),
        user=user,
        workspace=workspace,
        time=at,
    )
    tree = selector_of_tree(str(items)) if isinstance(items, str | Path) else None
    refuse_time_of_tree(str(items) if tree else None, at)
    built = _pipeline(selector or (None if parameters.keys() & _SHORT.keys() else tree), parameters)
    opened = items if not isinstance(items, str | Path) else open_catalog(items) if tree else load(items)
    catalog = opened.dataset.current_catalog if isinstance(opened, Data) else opened
    return Selected(explain(built, catalog, request, _resources(catalog, embedder, counter), live=True))


def _resources(catalog: Catalog, embedder: EmbedderGiven, counter: str) -> Resources:
    """Resources that are kept with a catalog."""
    from ctxbench.io.cache import cache_dir

    model, counts = open_embedder(embedder_name(embedder)), open_counter(counter, cache=cache_dir())
    key = ("resources", model.identity.key, counts.name, str(cache_dir()))
    if key not in catalog.cache:
        catalog.cache[key] = local_resources(model, counts)
    resources: Resources = catalog.cache[key]
    return resources


def _messages(history: Sequence[tuple[str, str] | Mapping[str, str]]) -> tuple[Message, ...]:
    """Messages before the request.

    Raises:
        ParameterError: one is none.
    """
    messages = []
    for number, message in enumerate(history, start=1):
        pair = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else message
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ParameterError(
                f"history, message {number}: expected role and content, both texts; got {message!r:.60}"
            )
        messages.append(Message(str(pair[0]), str(pair[1])))
    return tuple(messages)


def _results(tool_results: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """What tools have answered.

    Raises:
        ParameterError: it is no list of pairs of texts.
    """
    if isinstance(tool_results, str | Mapping) or not isinstance(tool_results, Sequence):
        raise ParameterError(f"tool_results must be a list of (tool name, text), got {tool_results!r:.60}")
    for number, result in enumerate(tool_results, start=1):
        if not isinstance(result, tuple | list) or [type(part) for part in result] != [str, str]:
            raise ParameterError(f"tool_results, result {number}: expected (tool name, text), got {result!r:.60}")
    return tuple((tool, text) for tool, text in tool_results)


def _pipeline(selector: str | Pipeline | Preset | None, parameters: dict[str, Any]) -> Pipeline:
    if isinstance(selector, Pipeline | Preset):
        if parameters:
            noun = "a pipeline" if isinstance(selector, Pipeline) else "a preset"
            raise ParameterError(f"{noun} holds its own parameters; leave {', '.join(parameters)} out")
        return selector if isinstance(selector, Pipeline) else selector.pipeline
    chosen = selector or ("semantic" if parameters.keys() & _SHORT.keys() else "learned")
    definition, preset = find_definition(chosen)
    values = {
        _SHORT[name] if name not in definition.parameters and _SHORT.get(name) in definition.parameters else name: value
        for name, value in parameters.items()
    }
    return definition.pipeline(definition.values(preset, values))


def _row(candidate: Explained, *, offered: bool) -> dict[str, Any]:
    return {
        "item": candidate.offered.id,
        "offered": offered,
        "score": candidate.offered.score,
        "tokens": candidate.tokens,
        "mode": candidate.offered.mode,
        "rule": "" if candidate.offered.rule is None else str(candidate.offered.rule),
        "query_chunk": candidate.query_chunk,
        "item_chunk": candidate.item_chunk,
    }
