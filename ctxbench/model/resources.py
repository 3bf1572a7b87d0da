"""The protocol of resources, the options of an embedder, and indexes that catalogs with equal texts share."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ctxbench.io.errors import Message, ParameterError
from ctxbench.model.arrays import Float32Array, IntArray, frozen
from ctxbench.model.formats import FileModel, Given, Source, parsed, validate
from ctxbench.model.items import Catalog, Item

T = TypeVar("T")
S = TypeVar("S", bound=np.generic)

KEPT = 4
"""How many indexes of a catalog and of those that extend it are kept; the one unused the longest goes first."""


_MOST = ("index", "most")


def bound_indexes(resources: Resources, limit: int) -> None:
    """Hold so many indexes of one kind at most, over all catalogs, those used last; to be called before the first."""
    resources.get_or_create(_MOST, lambda: limit)


class _Versions(Generic[T]):
    """The indexes of one kind, by the hash of their texts.

    Those of a catalog and of what extends it are one line, of which `KEPT` stay. Catalogs that have nothing to do with
    each other, or that share their first items (`Catalog.shared`), are lines of their own, and stay.

    Args:
        limit: how many stay of all lines together, 1 or more; None = all.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._entries: dict[str, tuple[T, list[str]]] = {}  # last used last
        self._lock = threading.RLock()  # retrievers may run side by side

    def of(
        self, catalog: Catalog, over: Sequence[str], make: Callable[[], T], extend: Callable[[T], T] | None = None
    ) -> T:
        """The index of a catalog; see `index_over`."""
        key = catalog.hash_of(*over)
        with self._lock:
            if key in self._entries:
                index, line = self._entries[key] = self._entries.pop(key)
            else:
                index, line = self._build(catalog, over, make, extend)
                self._entries[key] = index, line
            _used(line, key)
            while len(line) > KEPT:
                del self._entries[line.pop(0)]
            while self._limit is not None and len(self._entries) > self._limit:
                oldest = next(iter(self._entries))
                self._entries.pop(oldest)[1].remove(oldest)
            return index

    def _build(
        self, catalog: Catalog, over: Sequence[str], make: Callable[[], T], extend: Callable[[T], T] | None
    ) -> tuple[T, list[str]]:
        """A new index, from one of a catalog that this one extends where there is any, and its line."""
        n_items, before = next((prefix for prefix in catalog.prefixes(*over) if prefix[1] in self._entries), (0, ""))
        if not before:
            return make(), []
        old, line = self._entries[before] = self._entries.pop(before)
        _used(line, before)
        index = make() if extend is None else extend(old)
        return index, line if catalog.shared is None or n_items > len(catalog.shared) else []


def _used(line: list[str], key: str) -> None:
    if line and line[-1] == key:
        return
    if key in line:
        line.remove(key)
    line.append(key)


def index_over(
    catalog: Catalog,
    resources: Resources,
    name: Hashable,
    *,
    over: Sequence[str],
    make: Callable[[], T],
    extend: Callable[[T], T] | None = None,
) -> T:
    """The index of a catalog, stored in the resources under the hash of the fields that it reads.

    Args:
        catalog: the items.
        resources: where it is kept.
        name: what index it is, with its settings.
        over: the attributes of `Item` that it depends on, and nothing else.
        make: makes it from all items.
        extend: makes it from the index of a catalog that this one extends, which must stay as it is; must give what
            `make` gives. None: it is made anew, and takes the place of the oldest.

    Returns:
        The same object for catalogs of equal texts, as long as it is kept (`KEPT`).
    """
    versions: _Versions[T] = resources.get_or_create(
        ("index", name), lambda: _Versions(resources.get_or_create(_MOST, lambda: None))
    )
    return versions.of(catalog, over, make, extend)


class _Row(Generic[S]):
    """One value per item of a catalog, some of which may not be computed yet."""

    def __init__(self, n_items: int) -> None:
        self._lock = threading.Lock()
        self._unknown = np.ones(n_items, dtype=np.bool_)
        self._entries: tuple[npt.NDArray[S], npt.NDArray[S]] | None = None  # the values, and the same read-only

    def of(
        self, catalog: Catalog, items: IntArray | None, make: Callable[[Sequence[Item]], npt.NDArray[S]]
    ) -> npt.NDArray[S]:
        """The values, computed first for some items, or for all if `items` is None."""
        selected = slice(None) if items is None else items
        if self._entries is not None and not self._unknown[selected].any():
            return self._entries[1]  # who needs nothing new waits for nobody
        with self._lock:
            required = np.zeros(len(self._unknown), dtype=np.bool_)
            required[selected] = True
            new = np.flatnonzero(required & self._unknown)
            if len(new) or self._entries is None:
                values = make([catalog[item] for item in new.tolist()])
                self._entries = self._entries or _shared(len(self._unknown), values.dtype)
                self._entries[0][new] = values
                self._unknown[new] = False
            return self._entries[1]

    def extended(self, n_items: int) -> _Row[S]:
        """The values of a catalog that begins with these items, with those that are known."""
        row: _Row[S] = _Row(n_items)
        with self._lock:
            n_known = len(self._unknown)
            row._unknown[:n_known] = self._unknown
            if self._entries is not None:
                row._entries = _shared(n_items, self._entries[0].dtype)
                row._entries[0][:n_known] = self._entries[0]
        return row


def _shared(n_items: int, dtype: np.dtype[S]) -> tuple[npt.NDArray[S], npt.NDArray[S]]:
    """Zeros, and the same array read-only."""
    values = np.zeros(n_items, dtype)
    return values, frozen(values[:])


def row_over(
    catalog: Catalog,
    resources: Resources,
    name: Hashable,
    *,
    over: Sequence[str],
    make: Callable[[Sequence[Item]], npt.NDArray[S]],
    items: IntArray | None = None,
) -> npt.NDArray[S]:
    """One value per item of a catalog, stored likewise; an extended catalog reuses the values that exist.

    Args:
        catalog, resources, name, over: as of `index_over`.
        make: the values of some items, shape (n_those_items,), each by its item alone, and always of one dtype.
        items: positions of those whose values are needed, with repeats; None = all.

    Returns:
        Shape (n_items,), read-only; of items that are not needed the values mean nothing.
    """
    n_items = len(catalog)
    row: _Row[S] = index_over(
        catalog, resources, name, over=over, make=lambda: _Row(n_items), extend=lambda old: old.extended(n_items)
    )
    return row.of(catalog, items, make)


class IndexFields(FileModel):
    """How the vectors of items are kept and searched. The number format changes no answer of exact search."""

    noun = "an index"
    vectors: Literal["float32", "float16", "int8"] = Field(
        default="float32",
        description="The number format of the vectors that a search reads first; what is near its limit is computed "
        "again from float32, so that answers are the same.",
    )
    ann: Literal["", "faiss", "usearch"] = Field(
        default="", description="The library of an approximate index; by default search is exact."
    )
    device: Literal["", "cpu", "cuda"] = Field(
        default="",
        description="Where exact search multiplies: `cuda` by PyTorch on a GPU; by default NumPy on the CPU.",
    )


class Resources(Protocol):
    """What steps may use, by name: lazy, cached, each with an identity. Filling a cache is a step's only side effect.

    `embedder` and `tokens` are always there; a plugin brings others (`Resource`). A step that uses one names it in
    `uses`, so that what it gave is not taken for what another one would give.

    Attributes:
        index: how vectors are kept and searched.
    """

    index: IndexFields = IndexFields()

    def get(self, name: str) -> Any:
        """The value of a resource, made at the first call.

        `embedder` is a function from texts and their `kind` to vectors, `embedder:MODEL` that of another model, or of
        one with options as JSON (`embedder:{"name": MODEL, "prompts": false}`), `tokens` one from
        a catalog to prompt tokens, with a method `texts` for any others (see below), and `chat:MODEL` one from
        conversations to replies (`ctxbench.search.resources`).

        Raises:
            UnknownNameError: no resource is called so; names the known ones.
        """

    def identity(self, name: str) -> str:
        """The identity of a resource: it differs if the value may differ. The value is not computed.

        That of `embedder` is model, revision, backend and quantisation; that of `tokens` the name of the counter.

        Raises:
            UnknownNameError: no resource is called so; names the known ones.
        """

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value stored under `key`, creating it at the first call."""

    def vector_files(self, embedder: str) -> Any:  # noqa: ARG002
        """Where many vectors by a resource `embedder` are kept, a `VectorFiles`; None: in memory, as of a store."""
        return None

    def vectors(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        """Unit vectors of `texts`, all of one kind, by the resource `embedder`, shape (n_texts, n_dimensions)."""
        return cast("Float32Array", self.get(EMBEDDER)(texts, kind=kind))

    def tokens(self, catalog: Catalog, items: IntArray | None = None) -> IntArray:
        """Prompt tokens of items by the resource `tokens`, shape (n_items,).

        Args:
            catalog: the items.
            items: positions of those that are needed, the others are not counted and mean nothing; None = all.
        """
        count = self.get("tokens")
        return cast("IntArray", count(catalog) if items is None else count(catalog, items))

    def text_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of texts by the resource `tokens`, shape (n_texts,): of parts of items, or of a whole prompt.

        Raises:
            ParameterError: the counter is a file of counts, which knows whole items only.
        """
        return cast("IntArray", self.get("tokens").texts(texts))


class WithinResources(Resources):
    """Other resources as they are; a class derived from it changes some of them."""

    def __init__(self, resources: Resources) -> None:
        self.index = resources.index
        self._resources = resources

    def get(self, name: str) -> Any:
        """As `Resources.get`."""
        return self._resources.get(name)

    def identity(self, name: str) -> str:
        """As `Resources.identity`."""
        return self._resources.identity(name)

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """As `Resources.get_or_create`."""
        return self._resources.get_or_create(key, make)

    def vector_files(self, embedder: str) -> Any:
        """As `Resources.vector_files`."""
        return self._resources.vector_files(embedder)


class Resource(Protocol):
    """One resource. A plugin registers a class of this form under the name that steps ask for, as kind `resource`.

    It is made with the resources, before anything needs its value, and may ask them for others when it is asked itself;
    then its identity must tell theirs apart, too. One that steps name with a model, as in `chat:MODEL`, is made with
    the model's name behind the resources.
    """

    def __init__(self, resources: Resources, model: str = "") -> None: ...

    @property
    def identity(self) -> str:
        """Short text that differs where the value may; known without making it. Manifests and keys of steps hold it."""

    @property
    def value(self) -> Any:
        """The value that steps get; computed once."""


TextKind: TypeAlias = Literal["query", "item"]
"""What a text is to a search: what is asked, or a part of what may be found."""


class Embed(Protocol):
    """A function from texts of one kind to their unit vectors, shape (n_texts, n_dimensions)."""

    def __call__(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        """Return the vectors."""


EMBEDDER = "embedder"  # the resource that makes vectors of texts
INDEX = "index"  # the resource that proposes chunks to a search by vectors; without an identity where search is exact
CHAT = "chat"  # the resource that asks a language model, always with the model's name: `chat:MODEL`
OLLAMA = "ollama"  # the same of a server that speaks Ollama's interface
FORMAT = "format"  # the resource that a step names in `uses` if it wants to know what the pipeline's format renders


def kind_of(resource: str) -> str:
    """The name of a resource without its model: `embedder` of `embedder:MODEL`."""
    return resource.partition(":")[0]


class PromptsFields(FileModel):
    """What is put in front of texts."""

    noun = "prompts"
    query: Given[str] = Field(None, description="In front of queries; by default what the model's files say.")
    item: Given[str] = Field(None, description="In front of items; by default what the model's files say.")


_PROMPTS: Any = PromptsFields | Literal[False] | None  # in a file


class EmbedderSpec(FileModel):
    """An embedder with options, which can be given wherever its name alone can."""

    noun = "an embedder"
    name: str = Field(min_length=1, description="Its name, such as `st:intfloat/e5-small-v2`.")
    prompts: Annotated[PromptsFields | None, parsed(lambda value: None if value is False else value, _PROMPTS)] = Field(
        None, description="What is put in front of texts; false = nothing. By default what the model's files say."
    )
    batch_size: Given[int] = Field(None, ge=1, description="The number of texts that the model gets at a time.")
    device: Given[str] = Field(None, min_length=1, description="Where it computes, such as `cpu` or `cuda`.")
    dtype: Given[Literal["float32", "float16", "bfloat16"]] = Field(
        None, description="The number format it computes in; by default that of the weights."
    )


def read_spec(spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of an embedder and its options, from a mapping, or from JSON of one.

    Raises:
        ParameterError: the text is not JSON, or fields are unknown or wrong.
    """
    try:
        data = json.loads(spec if isinstance(spec, str) else json.dumps(spec, default=dict))
    except (TypeError, ValueError) as error:
        raise ParameterError(Message("search.embedder-not-json", spec=spec, reason=error)) from error
    content, faults = validate(EmbedderSpec, data, Source())
    if content is None:
        raise ParameterError(Message("search.embedder-fields", faults="; ".join(fault.message for fault in faults)))
    options = content.model_dump(exclude_unset=True)
    if options.get("prompts", ()) is None:
        options["prompts"] = False
    return options.pop("name"), options
