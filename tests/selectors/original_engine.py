"""The specification's engine as it was built, kept as a yardstick; nothing that ctxbench measures is selected by it.

`OriginalEngine` is here so that the pipeline `semantic-original` can be shown to be the original, and so that every
difference of `semantic` can be measured against it. Its chunking, scoring, ranking and cutting are those of the
pipelines; what it adds is the state of an agent: vectors that stay with their items and are never checked, lists of
items offered in any order, twice, or unknown, texts asked of the model one by one, and saves.

Where `semantic` differs from the original on purpose (tests in tests/selectors/test_semantic.py, prefix `test_`):

1. A request without a chunk ("", blanks, "?! ") embeds nothing and loads no model; the original embeds every item
   offered. -- a_request_without_a_chunk_embeds_nothing
2. The model is loaded only where a vector is missing, and once; the original may load it once a sentence.
   -- no_model_is_loaded_where_every_vector_is_stored, sentences_go_to_the_model_in_one_call
3. A text is embedded once, wherever and however often it stands; the original embeds it each time.
   -- a_text_is_embedded_once
4. A vector belongs to a text, so an edited item has the changed chunks embedded again; the original searches with
   the vectors that the item happens to have, stale, empty, or of another length.
   -- an_edited_item_has_its_changed_chunks_embedded_again
5. Items are told apart by (type, server, name); the original joins the three with colons, and takes tool `b:c` of
   server `a` and tool `c` of server `a:b` for one. -- names_with_colons_stay_apart
6. A chunk that cannot be embedded stops the search with an error that names it, and what was embedded before it is
   kept; the original leaves the chunk out for good. -- a_chunk_that_cannot_be_embedded_is_an_error
7. Equal scores follow the catalog, and a request's items are a set; the original follows the list it is offered, in
   which an item that stands twice has its chunks counted twice against topK. -- the_order_of_available_does_not_matter
8. An item that nobody knows is an error; the original skips it. -- an_unknown_item_is_an_error
9. Options that no sane caller sends (negative, fractional, infinite, no number, unknown) are errors; the original takes
   them somehow. -- in tests/selectors/test_original.py: odd_options_are_errors_or_answered_alike
10. `contextMargin` leaves out an item that falls by more than that share of the best score below it; the original has
    no such setting, and at 1, the default, nothing is left out. -- an_item_far_below_the_best_is_left_out,
    a_margin_of_one_leaves_every_selection_as_it_was

`semantic-original` is the original in 1, 5, 6 and 10, and as `semantic` in the others, where requests of ctxbench
cannot say what the original does otherwise. It tries a chunk that could not be embedded again in a new process only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import EmbeddingError, ParameterError
from ctxbench.model import registry
from ctxbench.model.arrays import IntArray
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.pipelines.strategies.cut import Standard, offered_length
from ctxbench.pipelines.strategies.retrieve import best_of_items, joined_keys
from ctxbench.search.chunking import query_chunks
from ctxbench.search.dense import ChunkMatrix, chunks_of, search
from ctxbench.search.embedders import ModelError

Vector: TypeAlias = npt.NDArray[np.float32]
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class OriginalEngine:
    """The search of one agent, with what it leaves behind.

    Attributes:
        vectors: the chunk vectors of each item indexed so far, in the order of its chunks. May be filled before a
            search: vectors that are there are used as they are, and an empty list counts as indexed.
        embedded: the texts that the model was asked for, in order.
        agent_saves: how often the agent was saved.
        server_saves: the servers that were saved, in order.
        logged_errors: what was logged where an item's chunk could not be embedded, in order.

    Args:
        items: the agent's rules, references and tools; other types are never found.
        embed: the vector of one text, shape (n_dimensions,); unit length is not needed. To be told that a text
            cannot be embedded it must raise an EmbeddingError.
        vectors: vectors that the items bring along; changed in place.

    Source: the documents, "Semantic Search Integration", and the engine as observed (tests/fixtures/desk/README.md).
    """

    def __init__(
        self,
        items: Iterable[Item],
        embed: Callable[[str], Vector],
        *,
        vectors: dict[ItemKey, list[Vector]] | None = None,
    ) -> None:
        self._catalog = Catalog(items)
        self._servers = {item.server for item in self._catalog if item.type == "tool"}
        self._group = joined_keys(self._catalog)
        self._embed = embed
        self.vectors: dict[ItemKey, list[Vector]] = {} if vectors is None else vectors
        self.embedded: list[str] = []
        self.agent_saves = 0
        self.server_saves: list[str] = []
        self.logged_errors: list[str] = []

    def search(
        self, query: str, offered: Sequence[Mapping[str, Any]], options: Mapping[str, Any] = _NO_OPTIONS
    ) -> list[dict[str, Any]]:
        """Index what is offered and not indexed yet, then search it.

        Args:
            query: any text. Where nothing offered has a vector it is not looked at.
            offered: items as JSON (`type`, `name`, for tools `serverName`); other keys are carried along. Their
                order decides between equal scores; unknown ones are skipped, one that stands twice counts twice.
            options: `topK` (20), `topN` (5), `includeScore` (0.7); see `Standard`.

        Returns:
            The items found, best first: each a copy of what was offered, `includeMode` "agent", `similarityScore`.

        Raises:
            ParameterError: `query` is no text, `offered` no list of objects, `options` no object, or one of them
                is unknown or out of range.
            EmbeddingError: a sentence of the query cannot be embedded, vectors differ in length, or there is no model
                (`ModelError`).
        """
        if not isinstance(options, Mapping):
            raise ParameterError(f"options must be an object with topK, topN or includeScore, got {options!r}")
        cut: Standard = registry.build("cut", "standard", options)
        if not isinstance(offered, Sequence) or not all(isinstance(one, Mapping) for one in offered):
            raise ParameterError(f"offered items must be a list of objects with type and name, got {offered!r:.200}")
        keys = [self._key(one) for one in offered]
        self._index(keys)
        held = [(place, vector) for place, key in enumerate(keys) if key for vector in self.vectors.get(key, ())]
        if not held:
            return []
        if not isinstance(query, str):
            raise ParameterError(f"a query must be a text, got {query!r}")
        queries = self._query_vectors(query)
        if not queries:
            return []
        table = self._best(queries, held, keys)
        return [
            {**offered[place], "includeMode": "agent", "similarityScore": score}
            for place, score in _cut(table, cut=cut)
        ]

    def _key(self, offered: Mapping[str, Any]) -> ItemKey | None:
        """Which item is meant; None where its type, or a tool's server, is unknown. The name may be unknown, too."""
        kind, name, server = (offered.get(field) for field in ("type", "name", "serverName"))
        if not isinstance(name, str):
            return None
        if kind in ("rule", "reference"):
            key = ItemKey(kind, None, name)
            return None if self._catalog.find(key) is None else key
        return ItemKey("tool", server, name) if kind == "tool" and server in self._servers else None

    def _index(self, keys: Iterable[ItemKey | None]) -> None:
        """Embed what has no vectors, item by item, and save. An unknown tool of a known server is saved for, too."""
        saved: list[str] = []
        changed = False
        for key in keys:
            if key is None or key in self.vectors:
                continue
            changed = True
            position = self._catalog.find(key)
            made = None if position is None else self._item_vectors(self._catalog[position])
            if made is not None:
                self.vectors[key] = made
                if key.server is not None and key.server not in saved:
                    saved.append(key.server)
        self.agent_saves += changed
        self.server_saves += saved

    def _item_vectors(self, item: Item) -> list[Vector] | None:
        """The vectors of an item's chunks but those that failed; None for a failed tool, which is tried again."""
        made: list[Vector] = []
        for place, text in enumerate(chunks_of(item)):
            vector = self._ask(text)
            if not isinstance(vector, EmbeddingError):
                made.append(vector)
                continue
            what = "tool" if item.type == "tool" else f"chunk {place} of {item.type}"
            self.logged_errors.append(f"Failed to generate embedding for {what} {item.name}:")
            if item.type == "tool":
                return None
        return made

    def _query_vectors(self, query: str) -> list[Vector]:
        """The vectors of the sentences; all are asked for (the original asks for them at once) before one fails."""
        vectors: list[Vector] = []
        failed: list[EmbeddingError] = []
        for text in query_chunks(query):
            vector = self._ask(text)
            if isinstance(vector, EmbeddingError):
                failed.append(vector)
            else:
                vectors.append(vector)
        if failed:
            raise failed[0]
        return vectors

    def _ask(self, text: str) -> Vector | EmbeddingError:
        self.embedded.append(text)
        try:
            return self._embed(text)
        except EmbeddingError as error:
            if isinstance(error, ModelError):  # no text is at fault
                raise
            return error

    def _best(self, queries: list[Vector], held: list[tuple[int, Vector]], keys: list[ItemKey | None]) -> Candidates:
        """The best chunk of each item, by score; the catalog positions of the table are places in the offered list."""
        expected = len(queries[0])
        for place, vector in held:
            if len(vector) != expected:
                raise EmbeddingError(
                    f"vectors must have the same length: one of {cast('ItemKey', keys[place]).id} has {len(vector)} "
                    f"dimensions, those of the query {expected}; remove the item's vectors, so that they are made again"
                )
        item = np.array([place for place, _ in held], dtype=np.int64)
        matrix = ChunkMatrix.of(np.array([vector for _, vector in held]), item, np.arange(len(held), dtype=np.int64))
        asked = np.array(queries, dtype=np.float32)
        start, everything = np.array([0, len(asked)]), np.ones((1, len(keys)), dtype=np.bool_)
        hits = search(asked, start, everything, matrix, depth=len(keys), weight=np.ones(len(asked)))
        return best_of_items([*hits], matrix, group=self._groups(keys), depth=len(keys))

    def _groups(self, keys: Iterable[ItemKey | None]) -> IntArray:
        """For each place of the offered list the number of its item: copies, and keys that read alike, share one."""
        positions = [None if key is None else self._catalog.find(key) for key in keys]
        return np.array([-1 if position is None else self._group[position] for position in positions], dtype=np.int64)


def _cut(table: Candidates, *, cut: Standard) -> list[tuple[int, float]]:
    """The (place, score) that the standard cut offers of one request's table."""
    alive = (table.chunk_rank < cut.topK) & (table.score > 0)
    high = alive & (table.score >= cut.includeScore)
    length = offered_length(np.array([alive.sum()]), np.array([high.sum()]), cut.topN)[0]
    return list(zip(table.item[alive][:length].tolist(), table.score[alive][:length].tolist(), strict=True))
