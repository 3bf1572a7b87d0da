"""Read records, one object each, from JSON lines, JSON, YAML, CSV or Parquet; a file's name says which it is."""

from __future__ import annotations

import ast
import csv
import importlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError, StorageError
from ctxbench.io.files import read_bytes, read_text
from ctxbench.io.json_files import is_lines, iter_jsonl, read_json
from ctxbench.io.other_forms import gzip_fault
from ctxbench.io.rows import Row
from ctxbench.io.yaml_files import YamlPath, line_of, load_yaml

_WRAPPED = "a mapping under its only key ({cases: [...]})"
_SHOWN = 5  # keys that a message names
_DELIMITERS = (",", ";", "\t")
_LARGEST_FIELD = 50_000_000  # characters of one field of a CSV file


def read_records(path: Path, faults: list[Fault]) -> Iterator[Row]:
    """Read the records of a file, with their lines (of JSON and Parquet: their numbers, from 1).

    Args:
        path: ends in one of `_READERS`. JSON and YAML hold a list of objects, alone or in a mapping under its only
            key, JSON also columns as pandas writes them, or JSON lines; JSON lines may be a list. Of CSV and TSV the
            first row names the fields, and every value is a text; between columns stands what the first row has most
            of: commas, tabs or semicolons.
        faults: malformed records go there, and are left out.

    Raises:
        StorageError: the file is missing or cannot be read, or is Parquet and pandas or pyarrow are missing.
        InputError: it is of no known form, or malformed as a whole.
    """
    *forms, last = _READERS
    read = _READERS.get(path.suffix.lower())
    if read is None:
        if path.is_file() and (packed := gzip_fault(read_bytes(path), path)):
            raise InputError([Fault(packed, path)])
        raise InputError([Fault(f"expected a file that ends in {', '.join(forms)} or {last}, got {path.name}", path)])
    for line, data in read(path, faults):
        yield Row(data, faults, path, line)


def parse_list(text: str) -> Any:
    """Read a list from text, as JSON or as Python writes it; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None


def _json_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        data = read_json(path)
    except InputError:
        if not is_lines(path):
            raise
        yield from iter_jsonl(path, faults)
        return
    columns = list(data.values()) if isinstance(data, dict) else []
    if columns and all(isinstance(column, dict) for column in columns):  # pandas writes columns by row label
        data = [{name: column.get(label) for name, column in data.items()} for label in columns[0]]
    rows, _ = _as_list(data)
    if rows is None or not all(isinstance(row, dict) for row in rows):
        entry = None if rows is None else next(row for row in rows if not isinstance(row, dict))
        actual = _describe(data) if rows is None else f"a list that holds {entry!r:.40}"
        message = (
            f"expected a JSON list of objects, alone or in {_WRAPPED}, or columns as pandas writes them; got {actual}"
        )
        raise InputError([Fault(f"{message}; give the list itself", path, 1)])
    yield from enumerate(rows, start=1)


def _yaml_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    data, lines = load_yaml(path)
    rows, prefix = _as_list(data)
    if rows is None:
        message = (
            f"expected a YAML list of mappings, alone or in {_WRAPPED}; got {_describe(data)}; give the list itself"
        )
        raise InputError([Fault(message, path, 1)])
    for number, row in enumerate(rows):
        if isinstance(row, dict):
            yield line_of(lines, (*prefix, number)), row
        else:
            faults.append(Fault(f"expected a mapping, got {row!r:.40}", path, line_of(lines, (*prefix, number))))


def _as_list(data: Any) -> tuple[list[Any] | None, YamlPath]:
    """The list that a document is, or that a mapping holds under its only key, and its path; None if neither."""
    prefix: YamlPath = ()
    if isinstance(data, dict) and len(data) == 1:
        ((name, data),) = data.items()
        prefix = (name,)
    return (data, prefix) if isinstance(data, list) else (None, ())


def _describe(data: Any) -> str:
    """Describe a document that is no list, for a message."""
    if not isinstance(data, dict):
        return "nothing" if data is None else f"{data!r:.40}"
    names = [f"{name!r:.40}" for name in data]
    return f"a mapping with {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}" if names else "{}"


def _csv_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    limit = csv.field_size_limit(_LARGEST_FIELD)
    try:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        text = read_text(path).removeprefix("\ufeff")  # of a spreadsheet
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text, delimiter), strict=True)
        header: list[str] = []
        start = 1
        try:
            for fields in reader:
                line, start = start, reader.line_num + 1
                if not header:
                    header = fields
                elif fields and len(fields) != len(header):
                    faults.append(
                        Fault(f"expected {len(header)} fields as in the header, got {len(fields)}", path, line)
                    )
                elif fields:
                    yield line, dict(zip(header, fields, strict=True))
        except csv.Error as error:
            message = f"malformed CSV: {error}; a row starts here that does not end: a quote is broken or missing"
            faults.append(Fault(message, path, start))
    finally:
        csv.field_size_limit(limit)


def _delimiter(text: str, usual: str) -> str:
    """The separator of columns: the one that the first row has most of; the usual one first."""
    first = text.lstrip("\r\n").partition("\n")[0]
    return max((usual, *_DELIMITERS), key=first.count)


def _parquet_rows(path: Path, _faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not path.is_file():
        raise StorageError(f"cannot read {path}: no such file")
    try:
        table = importlib.import_module("pandas").read_parquet(path)
    except ImportError as error:
        raise StorageError(
            f"{path} is Parquet, which takes pandas and pyarrow: pip install pandas pyarrow; or write it elsewhere as "
            f'JSON lines: pandas.read_parquet("{path.name}").to_json("{path.stem}.jsonl", orient="records", lines=True)'
        ) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read {path}: {error}; expected a Parquet file") from error
    yield from enumerate(json.loads(table.to_json(orient="records")), start=1)  # arrays become lists


_READERS: Mapping[str, Callable[[Path, list[Fault]], Iterator[tuple[int, Mapping[str, Any]]]]] = {
    ".jsonl": iter_jsonl,
    ".json": _json_rows,
    ".yaml": _yaml_rows,
    ".yml": _yaml_rows,
    ".csv": _csv_rows,
    ".tsv": _csv_rows,
    ".parquet": _parquet_rows,
}
