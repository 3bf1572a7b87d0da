"""Indexes of files by path, symbol, import and commit, and files named in a text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ctxbench.io.rows import instant
from ctxbench.model.arrays import (
    EARLIEST,
    BoolArray,
    FactCodes,
    FloatArray,
    IntArray,
    firsts,
    frozen,
    owners,
    ranges,
    starts,
)
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch
from ctxbench.model.resources import Resources, index_over
from ctxbench.search.code_facts import all_code_facts, is_test_path
from ctxbench.search.code_grammars import CodeFacts, grammar_name
from ctxbench.search.code_imports import import_edges
from ctxbench.search.word_index import Bm25Index
from ctxbench.search.words import WordRule

_NAMED = re.compile(r"[\w@+.-]+(?:(?:[/\\]|::)[\w@+.-]+)*")
_BETWEEN = ("/", ".", "::")
_EXAMPLES = ("example", "examples", "sample", "samples", "demo", "demos", "fixtures", "benches", "benchmarks", "docs")
_TEST_NAME = re.compile(
    r"^tests?$|^conftest$|^tests?_|_tests?$|[.-](?:test|spec)$|_spec$|(?<=[a-z0-9])Tests?$|^Test(?=[A-Z])"
)
MOST_NAMED = 3
"""A name that more files have names none of them."""
_ENTRIES: Sequence[tuple[str, ...]] = (
    ("main", "__main__", "Main"),
    ("lib.rs", "app", "App", "Application", "cli", "server", "manage.py", "wsgi.py", "asgi.py"),
    ("index", "mod.rs", "__init__.py"),
)


def split_name(path: str) -> tuple[str, str, str]:
    """Folder (empty = the root), name without its last ending, and that ending without its dot."""
    folder, _, name = path.rpartition("/")
    bare, dot, ending = name.rpartition(".")
    return (folder, bare, ending) if dot and bare else (folder, name, "")


def subject_of(path: str) -> str:
    """The name that a file shares with its test, in small letters: `core` of `test_core.py` and of `src/core.py`."""
    _, bare, _ = split_name(path)
    return (_TEST_NAME.sub("", bare) or bare).strip("_.-").lower()


def entry_score(path: str) -> float:
    """How much a file looks like one that a program starts from, in [0, 1]; 0 = not at all, or no code."""
    folder, bare, ending = split_name(path)
    above = [part for part in folder.split("/") if part]
    if grammar_name(path) is None or is_test_path(path) or any(part.lower() in _EXAMPLES for part in above):
        return 0.0
    kind = next((n for n, names in enumerate(_ENTRIES, 1) if bare in names or f"{bare}.{ending}" in names), 0)
    return 1.0 / kind / (1.0 + sum(part not in ("src", "cmd") for part in above)) if kind else 0.0


def fits_pattern(path: str, pattern: str) -> bool:
    """Whether a path matches a glob pattern or contains a text, ignoring case."""
    path, pattern = path.lower(), pattern.lower().strip().removeprefix("./")
    if not any(sign in pattern for sign in "*?["):
        return bool(pattern) and pattern in path
    return any(fnmatchcase(path[at:], pattern) for at in _parts_from(path))


def _parts_from(path: str) -> Iterable[int]:
    """Where the parts of a path begin."""
    yield 0
    yield from (at + 1 for at, sign in enumerate(path) if sign == "/")


def ends_of(paths: Sequence[str]) -> dict[str, list[int]]:
    """The paths by each end of them that may name them, in small letters.

    `src/click/core.py` is named by itself, `click/core.py`, `core.py`, `src/click/core` and `click/core`.
    """
    by_end: dict[str, list[int]] = {}
    for position, path in enumerate(paths):
        low = path.lower()
        bare = low[: len(low) - len(split_name(low)[2]) - 1] if split_name(low)[2] else ""
        for at in _parts_from(low):
            by_end.setdefault(low[at:], []).append(position)
            if "/" in bare[at:]:
                by_end.setdefault(bare[at:], []).append(position)
    return by_end


def named_paths(text: str, ends: Mapping[str, Sequence[int]], visible: BoolArray) -> list[int]:
    """The paths that a text names by enough of their ends, rising.

    A path of somebody else's machine names the longest of its ends that is here; a module, such as `click.core` or
    `click::core`, its file, also with the name of what is in it behind (`click.core.Context`). What has neither a `/`,
    nor a dot, nor `::` in it, or is the end of more than `MOST_NAMED` paths, names none.

    Args:
        text: any.
        ends: as of `ends_of`.
        visible: the paths that count, by position.
    """
    named: set[int] = set()
    for match in _NAMED.finditer(text):
        token = match.group().replace("\\", "/").rstrip(".").removeprefix("./").lower()
        if not any(sign in token for sign in _BETWEEN):
            continue
        for name in (*_ends_of(token), *_modules_of(token)):
            if positions := [position for position in ends.get(name, ()) if visible[position]]:
                named.update(positions if len(positions) <= MOST_NAMED else ())
                break
    return sorted(named)


def _ends_of(token: str) -> Iterable[str]:
    """A path, then what is left of it without its first folders; what is named in it, behind `::`, does not count."""
    path = token.partition("::")[0]
    parts = path.split("/") if "/" in path or "." in path else []
    return ("/".join(parts[first:]) for first in range(len(parts)))


def _modules_of(token: str) -> Iterable[str]:
    """The path of a module without an ending, then of those around it, but for the outermost."""
    parts = token.replace("::", ".").split(".") if "/" not in token else []
    return ("/".join(parts[:last]) for last in range(len(parts), 1, -1) if all(parts))


PART = "::"
"""What is between a path and the name of a definition in it."""
_VERSION = re.compile(r"@[0-9a-f]{12}(?:\.\d+)?$")
_RULE = WordRule(split=True, stop=True, stem=True)


def place_of(item: Item) -> str | None:
    """The location of an item: the path of a file, `path::Class.method` of a definition; None if it is no code.

    All versions of a file or definition are at one index.
    """
    return _VERSION.sub("", item.name) if item.type == "chunk" and PART in item.name else file_path(item)


def file_path(item: Item) -> str | None:
    """The path of the file that an item is, or is a part of; None of what is no code."""
    if not item.is_file:
        return None
    # `PART` may be in a path, such as `man/Foo::Bar.3`
    return item.path if item.type == "file" else item.path.partition(PART)[0]


@dataclass(frozen=True, eq=False)
class ItemPaths:
    """The files that the items of a catalog are, or are parts of.

    Attributes:
        path: of every item, as a place in `path.names`, distinct paths; -1 = it is no code. Shape (n_items,).
    """

    path: FactCodes

    @classmethod
    def of(cls, catalog: Catalog) -> ItemPaths:
        """Read them off the titles, or names, of files and chunks."""
        return cls(FactCodes.of(map(file_path, catalog)))

    @cached_property
    def words(self) -> Bm25Index:
        """BM25 over the words of distinct paths, split as identifiers are; each path counts alike, however long."""
        paths = Catalog(Item(type="file", name=path) for path in self.path.names)
        return Bm25Index(paths, k1=0.0, b=0.0, rule=_RULE)

    @cached_property
    def ends(self) -> dict[str, list[int]]:
        """The distinct paths by what may name them; see `ends_of`."""
        return ends_of(self.path.names)

    @cached_property
    def entries(self) -> FloatArray:
        """How much each distinct path looks like an entry point, shape (n_paths,)."""
        return frozen(np.array([entry_score(path) for path in self.path.names], dtype=np.float64))

    def visible_paths(self, items: BoolArray) -> BoolArray:
        """True for the paths of some items, shape (n_paths,).

        Args:
            items: shape (n_items,).
        """
        out = np.zeros(len(self.path.names) + 1, dtype=np.bool_)  # the last is that of what is no code
        out[self.path.code[items]] = True
        return out[:-1]

    def by_item(self, values: FloatArray) -> FloatArray:
        """The value of every item's path, shape (n_items,); 0 of what is no code.

        Args:
            values: by path, shape (n_paths,).
        """
        return np.append(values, 0.0)[self.path.code]

    def best(self, values: FloatArray) -> FloatArray:
        """The highest value of the items at each path, shape (n_paths,), at least 0.

        Args:
            values: by item, shape (n_items,).
        """
        out = np.zeros(len(self.path.names) + 1, dtype=np.float64)
        np.maximum.at(out, self.path.code, values)
        return out[:-1]

    def shares(self, chunks: Sequence[str], weights: Sequence[float], visible: BoolArray) -> FloatArray:
        """How much of a text's words each path holds, weighed by how rare they are in paths, in [0, 1].

        Args:
            chunks, weights: of the text; a word of several chunks has the highest of their weights.
            visible: the paths that are counted, shape (n_paths,).

        Returns:
            Shape (n_paths,); 0 for the other paths, and where the text has no word that occurs in a path.
        """
        query_words: dict[str, float] = {}
        for row, weight in zip(self.words.words_by_chunk(chunks), weights, strict=True):
            query_words |= {word: max(weight, query_words.get(word, 0.0)) for word in row}
        score = np.where(visible, self.words.scores(query_words, counted=visible), 0.0)
        # a word that no path holds weighs nothing: most words of a request are not about names
        total = sum(
            float(self.words.scores({word: weight}, counted=visible)[visible].max(initial=0.0))
            for word, weight in query_words.items()
        )
        return score / total if total > 0 else score

    def holding(self, groups: Iterable[Collection[str]]) -> list[BoolArray]:
        """For each group of words, the paths that hold all of them, in any order and ending, shape (n_paths,) each."""
        all_paths = np.ones(len(self.path.names), dtype=np.bool_)
        words_by_group = (self.words.words(list(group), [1.0] * len(group)) for group in groups)
        return [
            np.logical_and.reduce([all_paths, *(self.words.shares_word({word: 1.0}) for word in words)])
            for words in words_by_group
        ]


def item_paths(catalog: Catalog, resources: Resources) -> ItemPaths:
    """The paths of a catalog, kept with the resources."""
    return index_over(catalog, resources, "paths", over=("type", "title", "name"), make=lambda: ItemPaths.of(catalog))


_SPLIT = re.compile(r"\.|::|#")


def code_of(item: Item) -> str:
    """The content of a file or definition: the text of an item without its path and the empty line after it."""
    return item.text.removeprefix(f"{file_path(item)}\n\n")


@dataclass(frozen=True, eq=False, kw_only=True)
class CodeSymbols:
    """Which items of a catalog define and use which names.

    Attributes:
        number: of every name that is defined: by its last part, `method`, and of `Class.method` whole, too.
        start, item: CSR by name, the items that define it, rising.
        use_start, used: CSR by item, the names that it uses and some other item may define, each once.
    """

    number: Mapping[str, int]
    start: IntArray
    item: IntArray
    use_start: IntArray
    used: IntArray

    @classmethod
    def of(cls, catalog: Catalog) -> CodeSymbols:
        """Read them off files, whose definitions are looked up, and chunks, whose names say what they define."""
        facts = _facts(catalog)
        defined = [_defined(item, facts.get(position)) for position, item in enumerate(catalog)]
        number: dict[str, int] = {}
        owner, name = [], []
        for position, names in enumerate(defined):
            for symbol in names:
                name.append(number.setdefault(symbol, len(number)))
                owner.append(position)
        by_name = np.argsort(np.array(name, dtype=np.int64), kind="stable")
        used = [
            [number[symbol] for symbol in facts[position].references if symbol in number] if position in facts else []
            for position in range(len(catalog))
        ]
        return cls(
            number=number,
            start=frozen(starts(np.bincount(np.array(name, dtype=np.int64), minlength=len(number)))),
            item=frozen(np.array(owner, dtype=np.int64)[by_name]),
            use_start=frozen(starts([len(row) for row in used])),
            used=frozen(np.array([symbol for row in used for symbol in row], dtype=np.int64)),
        )

    def definers(self, name: str, visible: BoolArray) -> IntArray:
        """The items that define a name, rising: of `a.b.c` those of `b.c`, else those of `c`.

        Args:
            name: in parts by `.`, `::` or `#`.
            visible: which items count, shape (n_items,).
        """
        parts = _SPLIT.split(name)
        for symbol in dict.fromkeys((".".join(parts[-2:]), parts[-1])):
            if (row := self.number.get(symbol)) is not None:
                items = self.item[self.start[row] : self.start[row + 1]]
                if len(items := items[visible[items]]):
                    return np.asarray(items)
        return np.empty(0, dtype=np.int64)

    def matches(self, names: Iterable[str], visible: BoolArray) -> FloatArray:
        """The sum over names of 1 / the items that define it, for each that does; shape (n_items,).

        Args:
            names: in parts by `.`, `::` or `#`.
            visible: which items count, shape (n_items,).
        """
        out = np.zeros(len(self.use_start) - 1, dtype=np.float64)
        for name in names:
            items = self.definers(name, visible)
            if len(items):
                out[items] += 1.0 / len(items)
        return out


def _facts(catalog: Catalog) -> dict[int, CodeFacts]:
    """The facts about the code of items, by location: of definitions, and of files without definition items."""
    times, parts, coded = catalog.facts, dict[str | None, list[int]](), []
    for position, item in enumerate(catalog):
        if item.type == "chunk":
            parts.setdefault(file_path(item), []).append(position)
            coded.append(position)
    for position, item in enumerate(catalog):
        chunks = np.array(parts.get(file_path(item), ()), dtype=np.int64)
        if item.type == "file" and not times.at(int(times.created[position]), chunks).any():  # else it is an outline
            coded.append(position)
    # a place in front, since several versions may be at one path, and it is the name that tells the language
    contents = {f"{position}/{file_path(catalog[position])}": code_of(catalog[position]) for position in coded}
    return {int(key.partition("/")[0]): facts for key, facts in all_code_facts(contents).items()}


def _defined(item: Item, facts: CodeFacts | None) -> list[str]:
    """The names that an item defines, each once: qualified, and by their last parts."""
    if item.type == "chunk":
        dotted = [(place_of(item) or "").partition(PART)[2]]
    else:
        dotted = [definition.name for definition in facts.definitions] if facts is not None else []
    parts = [dotted_name.partition("#")[0].split(".") for dotted_name in dotted if dotted_name]
    return list(dict.fromkeys(form for row in parts for form in (row[-1], ".".join(row[-2:]))))


def code_symbols(catalog: Catalog, resources: Resources) -> CodeSymbols:
    """The names of a catalog's code, kept with the resources."""
    over = ("type", "title", "name", "text", "created", "until")
    return index_over(catalog, resources, "symbols", over=over, make=lambda: CodeSymbols.of(catalog))


MOST_DEFINERS = 5
"""A name that more files define says nothing of which of them is meant."""
_KEPT = 8  # trees


class FileEdges(NamedTuple):
    """Edges between the files of a tree, CSR by the one that leads: starts, the other end, and a weight in (0, 1]."""

    start: IntArray
    end: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, start: IntArray, end: IntArray, weight: FloatArray, *, n_files: int) -> FileEdges:
        """Put edges in order, those of the same ends as one; none from a file to itself. The largest weight is 1."""
        is_edge = start != end
        start, end, weight = start[is_edge], end[is_edge], weight[is_edge]
        order = np.lexsort((end, start))
        start, end, weight = start[order], end[order], weight[order]
        first = firsts(start, end)
        total = np.bincount(np.cumsum(first) - 1, weight) if len(start) else weight
        largest = float(total.max(initial=0.0)) or 1.0
        return cls(starts(np.bincount(start[first], minlength=n_files)), end[first], total / largest)

    def turned(self) -> FileEdges:
        """The same edges the other way round."""
        return FileEdges.of(self.end, owners(self.start), self.weight, n_files=len(self.start) - 1)

    def of_file(self, file: int) -> tuple[IntArray, FloatArray]:
        """Where one file leads, and by what weights."""
        rows = slice(int(self.start[file]), int(self.start[file + 1]))
        return self.end[rows], self.weight[rows]


@dataclass(frozen=True, eq=False)
class CodeTree:
    """The files that a request sees. They are numbered by their positions, so that what it does not see moves nothing.

    Attributes:
        catalog, paths, resources: what it is a part of, and what keeps its symbols.
        visible: which items are visible, shape (n_items,).
        item: the position of each file, rising, shape (n_files,); of several at one path the first.
    """

    catalog: Catalog
    paths: ItemPaths
    resources: Resources
    visible: BoolArray
    item: IntArray

    @property
    def symbols(self) -> CodeSymbols:
        """The names of the catalog; at first use all of its code is parsed."""
        return code_symbols(self.catalog, self.resources)

    @cached_property
    def file_at(self) -> IntArray:
        """The file at each path of the catalog, -1 = none, and behind them that of what is no code, none."""
        out = np.full(len(self.paths.path.names) + 1, -1, dtype=np.int64)
        out[self.paths.path.code[self.item]] = np.arange(len(self.item))
        out[-1] = -1
        return out

    @cached_property
    def names(self) -> list[str]:
        """The path of each file."""
        return [self.paths.path.names[code] for code in self.paths.path.code[self.item].tolist()]

    @cached_property
    def imports(self) -> FileEdges:
        """From a file to those that it imports."""
        imported = import_edges(
            {path: code_of(self.catalog[at]) for path, at in zip(self.names, self.item, strict=True)}
        )
        return self._edges((path, end, 1.0) for path, ends in imported.items() for end in ends)

    @cached_property
    def uses(self) -> FileEdges:
        """From a file to those that define names which it uses, each name by 1 / the files that define it."""
        file = self.file_at[self.paths.path.code]
        name, end = owners(self.symbols.start), file[self.symbols.item]
        is_defined = self.visible[self.symbols.item] & (end >= 0)
        name, end = name[is_defined], end[is_defined]
        order = np.lexsort((end, name))
        name, end = name[order], end[order]
        first = firsts(name, end)
        name, end = name[first], end[first]
        count = np.bincount(name, minlength=len(self.symbols.number)).astype(np.int64)
        user, used = owners(self.symbols.use_start), self.symbols.used
        is_defined = self.visible[user] & (file[user] >= 0) & (count[used] > 0) & (count[used] <= MOST_DEFINERS)
        user, used = user[is_defined], used[is_defined]
        row = ranges(starts(count)[used], count[used])
        n = count[used]
        return FileEdges.of(np.repeat(file[user], n), end[row], np.repeat(1.0 / n, n), n_files=len(self.item))

    @cached_property
    def users(self) -> FileEdges:
        """From a file to those that use names which it defines."""
        return self.uses.turned()

    @cached_property
    def tests(self) -> FileEdges:
        """From a test to the files of the same name and ending, and back."""
        by_subject: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        for path in self.names:
            key = (subject_of(path), path.rpartition(".")[2])
            by_subject.setdefault(key, ([], []))[is_test_path(path)].append(path)
        pairs = [
            (path, test, 1.0 / len(sources))
            for sources, tests in by_subject.values()
            for path in sources
            for test in tests
        ]
        return self._edges([*pairs, *((test, path, weight) for path, test, weight in pairs)])

    def near(self, starts: IntArray) -> IntArray:
        """The paths of files that import a file at some paths, or are imported by one, rising.

        Args:
            starts: places in `paths.path.names`; those of no file of the tree lead nowhere.
        """
        edges = (self.imports, self.imports.turned())
        files = [file for file in self.file_at[starts].tolist() if file >= 0]
        ends = [edge.of_file(file)[0] for edge in edges for file in files]
        return np.unique(self.paths.path.code[self.item[np.concatenate([*ends, np.empty(0, np.int64)])]])

    def _edges(self, pairs: Iterable[tuple[str, str, float]]) -> FileEdges:
        """Edges between paths."""
        number = {path: file for file, path in enumerate(self.names)}
        rows = [(number[source], number[target], weight) for source, target, weight in pairs]
        start, end = (np.array([row[side] for row in rows], dtype=np.int64) for side in (0, 1))
        return FileEdges.of(start, end, np.array([row[2] for row in rows], np.float64), n_files=len(self.item))


class CodeTrees:
    """The trees of a catalog that requests see; those of the last few are kept."""

    def __init__(self, catalog: Catalog, resources: Resources) -> None:
        self._catalog, self._resources = catalog, resources
        self._tree = lru_cache(maxsize=_KEPT)(self._built)

    def of(self, visible: BoolArray) -> CodeTree:
        """The tree of what a request sees.

        Args:
            visible: shape (n_items,).
        """
        is_code = item_paths(self._catalog, self._resources).path.code >= 0
        return self._tree(np.packbits(visible & is_code).tobytes())

    def _built(self, packed: bytes) -> CodeTree:
        """The tree of some items, one bit for each of the catalog."""
        visible = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(self._catalog)).astype(np.bool_)
        paths = item_paths(self._catalog, self._resources)
        files = np.flatnonzero(visible & self._catalog.facts.type.are("file"))
        files = np.sort(files[np.unique(paths.path.code[files], return_index=True)[1]])
        return CodeTree(self._catalog, paths, self._resources, visible, files)


def code_trees(catalog: Catalog, resources: Resources) -> CodeTrees:
    """The trees of a catalog, kept with the resources."""
    over = ("type", "title", "name", "text")
    return index_over(catalog, resources, "code trees", over=over, make=lambda: CodeTrees(catalog, resources))


COMMIT, CHANGES, RENAMED = "commit", "changes", "renamed_from"
"""The kind of a message that is a commit, the type of its links to what it changed, and that of a file's to the one
that it was before it was called so."""
FILES = "files"
"""Where the metadata of a commit say how many files it changed; without it those that it links to."""
DAY = 86_400_000_000
"""In microseconds."""
LARGEST = 20
"""A commit of more files says nothing of which of them belong together."""
DOUBT = 2
"""Commits that nobody made, but that every share counts as made without the other file: one commit proves little."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CommitHistory:
    """The commits of a catalog and the places that each changed, a place being a file or a definition in one.

    Attributes:
        commit: positions of the commits in the catalog, oldest first, shape (n_commits,).
        created: of each, microseconds since 1970.
        location: of every item, a number below `n_locations`; -1 = it is no code. Shape (n_items,).
        n_locations: how many there are.
        start: CSR starts by commit, shape (n_commits + 1,).
        touched: the places that each changed, each once: files, and the definitions in them that are items.
        files: how many files each changed, shape (n_commits,).
        older: (place, its older place) of what was renamed, the first renamed first: it has the votes of both.
        has_message: whether its message says anything, shape (n_commits,); of `Merge pull request #1` nothing is left.
        words: BM25 over the messages, by place in `commit`.
    """

    commit: IntArray
    created: IntArray
    location: IntArray
    n_locations: int
    start: IntArray
    touched: IntArray
    files: IntArray
    older: tuple[tuple[int, int], ...]
    has_message: BoolArray
    words: Bm25Index

    @classmethod
    def of(cls, catalog: Catalog) -> CommitHistory:
        """Read them off the messages of kind `commit` and their links of type `changes`."""
        facts, locations = catalog.facts, [place_of(item) for item in catalog]
        number: dict[str, int] = {}
        code = np.array(
            [-1 if location is None else number.setdefault(location, len(number)) for location in locations], np.int64
        )
        commit = np.flatnonzero(facts.type.are("message") & facts.kind.are(COMMIT))
        names = [catalog[position].name for position in commit.tolist()]
        by_time = sorted(range(len(commit)), key=lambda row: (int(facts.created[commit[row]]), names[row]))
        commit = commit[np.array(by_time, dtype=np.int64)]
        touched, files = [], []
        for position in commit.tolist():
            ends = [end for kind, end in facts.linked(position) if kind == CHANGES and locations[end] is not None]
            paths = dict.fromkeys(file_path(catalog[end]) for end in ends)
            targets = dict.fromkeys([*paths, *(locations[end] for end in ends)])
            touched.append([number.setdefault(end, len(number)) for end in targets if end is not None])
            files.append(catalog[position].metadata.get(FILES, len(paths)))
        return cls(
            commit=frozen(commit.astype(np.int64)),
            created=frozen(facts.created[commit]),
            location=frozen(code),
            n_locations=len(number),
            start=frozen(starts([len(row) for row in touched])),
            touched=frozen(np.array([target for row in touched for target in row], dtype=np.int64)),
            files=frozen(np.array(files, dtype=np.int64)),
            older=tuple(_renamed(catalog, number)),
            has_message=frozen(
                np.array([bool(catalog[position].text) for position in commit.tolist()], dtype=np.bool_)
            ),
            words=Bm25Index(Catalog(catalog[position] for position in commit.tolist()), k1=1.5, b=0.75, rule=_RULE),
        )

    @cached_property
    def _owner(self) -> IntArray:
        return owners(self.start)

    def visible_commits(self, batch: Batch, request: int) -> BoolArray:
        """Which commits a request sees, shape (n_commits,)."""
        return batch.visible.row(request)[self.commit]

    def likeness(self, chunks: Sequence[str], weights: Sequence[float], visible: BoolArray) -> FloatArray:
        """BM25 of each message for a text, over commits that are seen and say anything, shape (n_commits,); others 0.

        Args:
            chunks, weights: of the text.
            visible: shape (n_commits,).
        """
        counted = visible & self.has_message  # without a text it is indexed by its name, `commit-...`
        return np.where(counted, self.words.scores(self.words.words(chunks, weights), counted=counted), 0.0)

    def votes(self, weight: FloatArray) -> FloatArray:
        """The sum of weights of the commits that changed each item's location, oldest first, shape (n_items,).

        Args:
            weight: of each commit, shape (n_commits,), >= 0.
        """
        by_location = np.bincount(self.touched, weight[self._owner], minlength=self.n_locations + 1)
        for location, old in self.older:
            by_location[location] += by_location[old]
        return np.asarray(by_location[self.location])  # nothing is at the last location, that of what is no code

    def agreement(self, chunks: Sequence[str], weights: Sequence[float], visible: BoolArray) -> FloatArray:
        """The share of a text's words, by weight and rarity, that each message holds, shape (n_commits,), in [0, 1].

        Args:
            chunks, weights: of the text.
            visible: over which commits it is counted how rare a word is, shape (n_commits,).
        """
        counted, total = visible & self.has_message, 0.0
        out, n_commits = np.zeros(len(self.commit), dtype=np.float64), int(np.count_nonzero(counted))
        for word, weight in self.words.words(chunks, weights).items():
            has_word = counted & self.words.shares_word({word: 1.0})
            n = int(np.count_nonzero(has_word))
            rarity = weight * math.log(1.0 + (n_commits - n + 0.5) / (n + 0.5))
            out[has_word] += rarity
            total += rarity
        return out / total if total > 0 else out

    def voices(
        self, chunks: Sequence[str], weights: Sequence[float], visible: BoolArray, limit: int, spread: float
    ) -> FloatArray:
        """What each commit's vote for a file counts: its likeness / (files that it changed) ** spread.

        Args:
            chunks, weights: of a request.
            visible: the commits that it sees, shape (n_commits,).
            limit: so many of the most similar vote, of equals the latest.
            spread: >= 0.

        Returns:
            Shape (n_commits,), 0 of those that do not vote.
        """
        like = self.likeness(chunks, weights, visible)
        best = np.lexsort((-np.arange(len(like)), -like))[:limit]
        out = np.zeros(len(like), dtype=np.float64)
        out[best] = like[best]
        shared = [max(n_files, 1) ** spread for n_files in self.files.tolist()]  # one by one: the same bits anywhere
        return np.divide(out, np.array(shared, dtype=np.float64))

    def together(self, item: int, visible: BoolArray) -> FloatArray:
        """How often each item's place changed where one item's did: commits of both / (commits of the one + `DOUBT`).

        Args:
            item: position of the one; 0 at its own place.
            visible: the commits that count, shape (n_commits,), but for those of more than `LARGEST` files.

        Returns:
            Shape (n_items,), in [0, 1).
        """
        weight = np.zeros(len(self.commit), dtype=np.float64)
        weight[self._owner[self.touched == self.location[item]]] = 1.0
        weight[~visible | (self.files > LARGEST)] = 0.0
        return np.where(self.location == self.location[item], 0.0, self.votes(weight) / (weight.sum() + DOUBT))

    def fresh(self, batch: Batch, request: int, half_life: float) -> FloatArray:
        """2 ** (-age / half_life) of each commit that a request sees, shape (n_commits,); 0 of others.

        Args:
            batch, request: the age is that at its time, else at that of the newest item that it sees.
            half_life: in days, > 0.
        """
        time, visible = batch.requests[request].time, batch.visible[request]
        time_now = int(batch.catalog.facts.created[visible].max(initial=EARLIEST)) if time is None else instant(time)
        ages = [max(time_now - created, 0) / DAY for created in self.created.tolist()]
        return np.where(visible[self.commit], [0.5 ** (age / half_life) for age in ages], 0.0)


def _renamed(catalog: Catalog, number: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """The places of files that were renamed, and of definitions in them, each with its older one."""
    facts, inside = catalog.facts, dict[str, list[str]]()
    for location in number:
        inside.setdefault(location.partition(PART)[0], []).append(location)
    links = (
        (int(facts.created[file]), catalog[file].path, catalog[end].path)
        for file in np.flatnonzero(facts.type.are("file")).tolist()
        for kind, end in facts.linked(file)
        if kind == RENAMED
    )
    for _, new, old in sorted(dict.fromkeys(links)):
        for location in inside.get(old, ()):
            renamed = number.get(new + location[len(old) :])
            if renamed is not None and new != old:
                yield renamed, number[location]


def commit_history(catalog: Catalog, resources: Resources) -> CommitHistory:
    """The commits of a catalog, kept with the resources."""
    over = ("type", "kind", "title", "name", "text", "created", "links", "metadata")
    return index_over(catalog, resources, "commits", over=over, make=lambda: CommitHistory.of(catalog))
