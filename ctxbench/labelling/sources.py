"""Read any file as documents, by its content, and recognise its kind.

Forms are JSON, JSON lines, CSV, YAML, parquet, streams of events, and plain lines.

The kinds of files that `ctxbench data import` reads are declared by the readers of each family; here they are joined in
the order in which they are tried.

The name of a file decides nothing. What gzip compressed is unpacked, and UTF-16 is read as UTF-8. Lists of objects and
lines are read one by one, so that a large file needs little memory.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import glob
import importlib
import json
import os
import re
import tomllib
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from ctxbench.catalogs.instructions import read_page
from ctxbench.io.documents import YamlPath, after_blanks, entry_lines, line_of, parse_json, parse_yaml
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    StorageError,
    UnknownNameError,
    UserError,
    install_command,
    suggest,
    without_marks,
)
from ctxbench.io.files import decoded_lines, open_unpacked, suggest_file

SAMPLE = 50
"""Documents of a file by which its kind is recognised."""
_HEAD = 1 << 16  # bytes by which the form of a file is recognised
_CHUNK = 1 << 20  # bytes of JSON that are read at once
_TAIL = 12  # characters before the end of a chunk at which a JSON value may be cut
_LARGEST_FIELD = 50_000_000  # characters of one field of a CSV file
_SKIPPED = (".git", "node_modules", "__pycache__", ".venv")  # folders that hold no data

_STREAM = re.compile(r"^data: ?\{", re.MULTILINE)
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.MULTILINE | re.DOTALL)
_YAML = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*+(?:---|%YAML|-[ \n]|[\w\"'][^\n:{,;\t]{0,80}:(?:\s|$))")
_PRINTED = re.compile(r"\{\s*(?:resource|traceId|instrumentationScope|name|_spanContext): ")  # objects of JavaScript
_HEADER = re.compile(r"[^\W\d][\w .:/\[\]()-]{0,60}")
_WORD_HEADER = re.compile(r"[^\W\d][\w.-]*")


@dataclass(frozen=True, slots=True)
class Document:
    """A value of a file, and its location.

    Attributes:
        value: in JSON types; a text where the file has plain lines. A Markdown file with front matter is an object
            with `front_matter` and `text`, a stream of events an object with `stream`, their list.
        path: the file.
        line: the 1-based line where it starts; of parquet the number of the row.
        lines: the lines of YAML by path.
        text: the text of a JSON object.
    """

    value: Any
    path: Path
    line: int
    lines: Mapping[YamlPath, int] = field(default_factory=dict, repr=False, compare=False)
    text: str = field(default="", repr=False, compare=False)

    def entries(self, *keys: str | int) -> list[Document]:
        """The entries of the list at a path in the value, each with its line; empty if there is no list."""
        value = self.value
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, list):
            return []
        first = self.line - 1 if self.text else 0
        lines = entry_lines(self.text) if self.text else self.lines
        return [
            Document(entry, self.path, (first + line_of(lines, (*keys, n))) or self.line)
            for n, entry in enumerate(value)
        ]


def data_files(paths: Sequence[Path]) -> list[Path]:
    """The files of paths: of a folder all below it, of a pattern such as `logs/*.jsonl` those that it matches.

    Hidden files, and folders such as `.git`, are left out of folders.

    Raises:
        StorageError: nothing is there, or a folder holds no file.
    """
    files: dict[Path, None] = {}
    for path in paths:
        matches = [path]
        if not path.exists() and glob.has_magic(str(path)):
            matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
        inside = [file for match in matches for file in (_below(match) if match.is_dir() else [match])]
        if not inside:
            raise StorageError(Message("labelling.no-files", path=path))
        files |= dict.fromkeys(inside)
    for file in files:
        if not file.exists():
            raise StorageError(Message("labelling.no-such-file", path=file, hint=suggest_file(file)))
    return list(files)


def _below(folder: Path) -> list[Path]:
    """The files of a folder, sorted.

    Raises:
        StorageError: a folder cannot be read.
    """
    files: list[Path] = []

    def refuse(error: OSError) -> None:
        raise StorageError(Message("io.unreadable-folder", path=error.filename, why=error.strerror)) from error

    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    return sorted(file for file in files if file.is_file())


def sample(path: Path, size: int = SAMPLE) -> list[Document]:
    """The first documents of a file; those before the first fault if it cannot be read on."""
    result: list[Document] = []
    with suppress(UserError):
        result.extend(islice(documents(path, []), size))
    return result


def documents(
    path: Path, faults: list[Fault], progress: Callable[[int], object] = lambda _: None
) -> Iterator[Document]:
    """Read the documents of a file one by one.

    A list of objects gives its entries, also in YAML; columns as pandas writes them, CSV and parquet give rows. Another
    JSON or YAML value is one document. Faulty lines are added to `faults` and left out.

    Args:
        path: the file.
        faults: where faults are added.
        progress: called with the number of bytes of the file that were read.

    Raises:
        StorageError: it is missing or cannot be read, or it is parquet and pyarrow is missing.
        InputError: it is malformed as a whole.
    """
    content, file = open_unpacked(path)
    try:
        head = content.read(_HEAD)
        content.seek(0)
        for document in _documents(content, head, path, faults):
            row = document.value.get("row") if isinstance(document.value, dict) else None
            if isinstance(row, dict) and "row_idx" in document.value:  # as the server of Hugging Face gives rows
                document = Document(row, path, document.line)
            yield document
            progress(file.tell())
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(Message("io.unreadable", path=path, why=str(error), hint="")) from error
    finally:
        file.close()


def _documents(content: BinaryIO, head: bytes, path: Path, faults: list[Fault]) -> Iterator[Document]:
    if head.startswith(b"PAR1"):
        yield from _parquet_rows(content, path)
        return
    if b"\0" in head:
        raise InputError([Fault(Message("labelling.binary-file"), path)])
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    lines = without_marks(decoded_lines(content, path, faults), path, faults)
    if _PRINTED.match(text):
        raise InputError([Fault(Message("labelling.printed-span"), path, 1)])
    if text[:1] in ("{", "["):
        yield from _json_lines(lines, path, faults) if _is_one_a_line(text) else _json_documents(content, path, faults)
    elif text.startswith(("data:", "event:", "id:", ":")) and _STREAM.search(text):
        yield from _stream(lines, path, faults)
    elif (front := _FRONT_MATTER.match(text)) and _YAML.match(front[1]):
        yield from _markdown(lines, path)
    elif _YAML.match(text):
        yield from _yaml_documents("\n".join(line for _, line in lines), path)
    elif delimiter := _delimiter(text):
        yield from _csv_rows(lines, delimiter, path, faults)
    else:
        yield from (Document(line, path, number) for number, line in lines if line.strip())


def _is_one_a_line(text: str) -> bool:
    """Whether a file that starts as JSON holds one value a line: its first line is one, or the second starts one."""
    first, _, rest = text.partition("\n")
    try:
        return isinstance(json.loads(first), dict) and bool(rest.strip())
    except (ValueError, RecursionError):  # a line that is wrong ends like one; an opening does not
        return first[:1] == "{" and rest[:1] == "{" and first.rstrip()[-1:] not in "[{,:"


def _json_lines(lines: Iterable[tuple[int, str]], path: Path, faults: list[Fault]) -> Iterator[Document]:
    for number, line in lines:
        if line.strip():
            yield from (Document(value, path, number, text=line) for value in _parsed(line, path, number, faults))


def _parsed(text: str, path: Path, line: int, faults: list[Fault]) -> Iterator[Any]:
    """The value of a text in JSON; nothing, with a fault, if it is malformed."""
    try:
        yield parse_json(text, path=path, line=line)
    except InputError as error:
        faults += error.faults


def _json_documents(content: BinaryIO, path: Path, faults: list[Fault]) -> Iterator[Document]:
    """The values of JSON that is spread over lines, and the entries of a list of objects."""
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    try:
        for line, text in _json_texts(lambda size: decode(content.read(size)), path):
            for value in _parsed(text, path, line, faults):
                columns = list(value.values()) if isinstance(value, dict) else []
                if columns and all(_is_column(column) for column in columns) and len({*map(len, columns)}) == 1:
                    rows = [{key: column[name] for key, column in value.items()} for name in columns[0]]
                    yield from (Document(row, path, number) for number, row in enumerate(rows, start=1))
                else:
                    yield Document(value, path, line, text=text)
    except InputError as error:
        faults += error.faults
    except UnicodeDecodeError:
        content.seek(0)
        deque(decoded_lines(content, path, faults), maxlen=0)  # adds the lines that are no UTF-8


def _is_column(column: Any) -> bool:
    """Whether a value is a column by row number, as pandas writes it."""
    return isinstance(column, dict) and bool(column) and list(column) == [str(n) for n in range(len(column))]


def _json_texts(read: Callable[[int], str], path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each JSON value of a stream, and of each entry of a list of objects.

    Args:
        read: returns up to a number of characters; empty at the end.
        path: the file, for faults.

    Raises:
        InputError: something is not JSON; after all values before it.
    """
    decoder = json.JSONDecoder()
    text, start, counted, line, in_list = "", 0, 0, 1, False

    def malformed(why: str, position: int) -> InputError:
        return InputError(
            [Fault(Message("io.malformed-json", why=why), path, line + text.count("\n", counted, position))]
        )

    def more() -> bool:
        nonlocal text, start, counted, line
        line += text.count("\n", counted, start)
        chunk = read(max(_CHUNK, len(text) - start))
        text, start, counted = text[start:] + chunk, 0, 0
        return bool(chunk)

    while True:
        start = after_blanks(text, start)
        if start == len(text):
            if more():
                continue
            if in_list:
                raise malformed("the list does not end", counted)
            return
        if in_list and text[start] == "]":
            start, in_list = start + 1, False
            continue
        if not in_list and text[start] == "[":
            while (inner := after_blanks(text, start + 1)) == len(text) and more():
                pass
            if text[inner : inner + 1] == "{":
                start, in_list = inner, True
                continue
        line, counted = line + text.count("\n", counted, start), start
        try:
            _, end = decoder.raw_decode(text, start)
            if end == len(text) and more():
                continue  # a number may go on
        except json.JSONDecodeError as error:
            cut = error.pos >= len(text) - _TAIL or error.msg.startswith("Unterminated string")
            if cut and more():
                continue
            raise malformed(error.msg, error.pos) from error
        except (RecursionError, ValueError) as error:
            raise malformed(str(error), start) from error
        yield line, text[start:end]
        start = end


def _stream(lines: Iterable[tuple[int, str]], path: Path, faults: list[Fault]) -> Iterator[Document]:
    """The events of a stream (server-sent events) as one document."""
    events, first = list[Any](), 0
    for number, line in lines:
        first = first or number
        name, _, data = line.partition(":")
        if name == "data" and data.strip()[:1] == "{":
            events += _parsed(data, path, number, faults)
    yield Document({"stream": events}, path, first)


def _markdown(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[Document]:
    page = read_page("\n".join(line for _, line in lines).lstrip())  # as lenient as the programs that read them
    yield Document({"front_matter": dict(page.fields), "text": page.text}, path, 1)


def _yaml_documents(text: str, path: Path) -> Iterator[Document]:
    data, lines = parse_yaml(text, path)
    document = Document(data, path, 1, lines)
    if isinstance(data, list) and any(isinstance(entry, dict) for entry in data):
        yield from document.entries()
    elif data is not None:
        yield document


def _delimiter(text: str) -> str:
    """What separates the columns of a table with a header; empty if the text is no table."""
    first = text.partition("\n")[0].rstrip("\r")
    delimiter = max(",", ";", "\t", key=first.count)
    names = [name.strip().strip('"') for name in first.split(delimiter)]
    pattern = _WORD_HEADER if delimiter == "\t" else _HEADER
    is_header = len(names) > 1 and all(pattern.fullmatch(name) or not name for name in names) and any(names)
    return delimiter if is_header else ""


def _csv_rows(lines: Iterable[tuple[int, str]], delimiter: str, path: Path, faults: list[Fault]) -> Iterator[Document]:
    """The rows of a table, with its header as keys; another number of fields is a fault."""
    limit = csv.field_size_limit(_LARGEST_FIELD)
    numbers: list[int] = []

    def text() -> Iterator[str]:
        for number, line in lines:
            numbers.append(number)
            yield f"{line}\n"

    try:
        header: list[str] = []
        for fields in csv.reader(text(), delimiter=delimiter, strict=True):
            first, numbers = (numbers or [1])[0], []
            if not header:
                header = [name.strip() for name in fields]
            elif fields and len(fields) != len(header):
                message = Message("labelling.csv-fields", expected=len(header), got=len(fields))
                faults.append(Fault(message, path, first))
            elif fields:
                yield Document(dict(zip(header, fields, strict=True)), path, first)
    except csv.Error as error:
        faults.append(Fault(Message("labelling.csv-quote", error=error), path, (numbers or [1])[0]))
    finally:
        csv.field_size_limit(limit)


def _parquet_rows(content: BinaryIO, path: Path) -> Iterator[Document]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise StorageError(Message("labelling.parquet-extra", path=path, command=install_command("parquet"))) from error
    try:
        batches = ParquetFile(content).iter_batches(batch_size=1000)
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        yield from (Document(_plain(row), path, number) for number, row in enumerate(rows, start=1))
    except (ArrowException, ValueError) as error:  # a text that is not UTF-8
        raise InputError([Fault(Message("labelling.parquet-damaged", why=str(error)), path)]) from error


def _plain(row: Mapping[str, Any]) -> Any:
    """A row of parquet in JSON types: times, and other types, as text, missing numbers as null."""
    return json.loads(json.dumps(row, default=_plain_text), parse_constant=lambda _: None)


def _plain_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.isoformat() if isinstance(value, dt.date) else str(value)


LOG, EVALS, COLLECTION, CATALOG = "log", "evals", "collection", "catalog"
"""Families of kinds: what becomes a dataset of a log, of evals, of documents with judgments; or a catalog."""
_MODULES = ("agent_sessions", "trace_exports", "evals", "judgment_files")  # in the order of recognition


@dataclass(frozen=True, kw_only=True)
class ImportKind:
    """A kind of file.

    Attributes:
        name: as in `--as`.
        family: one of `LOG`, `EVALS`, `COLLECTION` and `CATALOG`.
        title: what it is, in a few words.
        program: where its program writes it.
        request: what becomes a request.
        label: what becomes a label.
        offered: what becomes an offered set; empty if nothing does.
        matches: whether a file is of this kind, by the values of its first documents.
    """

    name: str
    family: str
    title: str
    program: str
    request: str
    label: str
    offered: str = ""
    matches: Callable[[Sequence[Any]], bool]


@cache
def import_kinds() -> dict[str, ImportKind]:
    """All kinds by name, in the order in which they are tried."""
    modules = (importlib.import_module(f"ctxbench.labelling.{name}") for name in _MODULES)
    return {kind.name: kind for module in modules for kind in module.KINDS}


@cache
def _kind_texts() -> dict[str, dict[str, str]]:
    return tomllib.loads(Path(__file__).with_name("import_kinds.toml").read_text(encoding="utf-8"))


def make_kinds(tests: Mapping[str, Callable[[Sequence[Any]], bool]]) -> tuple[ImportKind, ...]:
    """Some kinds, with their texts and in their order of `import_kinds.toml`.

    Args:
        tests: by name whether a file is of the kind, by the values of its first documents.
    """
    return tuple(
        ImportKind(name=name, matches=tests[name], **texts) for name, texts in _kind_texts().items() if name in tests
    )


def kind_named(name: str) -> ImportKind:
    """The kind with a name.

    Raises:
        UnknownNameError: there is none.
    """
    kinds = import_kinds()
    if name not in kinds:
        raise UnknownNameError("kind of file", name, kinds, hint=suggest(name, kinds, most=len(kinds)))
    return kinds[name]


def recognise(values: Sequence[Any]) -> ImportKind | None:
    """The kind of a file, by the values of its first documents; None if it is none of them."""
    return next((kind for kind in import_kinds().values() if values and kind.matches(values)), None)
