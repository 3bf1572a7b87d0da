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
from ctxbench.io.files import read_text
from ctxbench.io.json_files import iter_jsonl, read_json
from ctxbench.io.rows import Row
from ctxbench.io.yaml_files import line_of, load_yaml

_DELIMITERS = (",", ";", "\t")
_LARGEST_FIELD = 50_000_000  # characters of one field of a CSV file


def read_records(path: Path, faults: list[Fault]) -> Iterator[Row]:
    """Read the records of a file, with their lines (of JSON and Parquet: their numbers, from 1).

    Args:
        path: ends in one of `_READERS`. JSON and YAML hold a list of objects, JSON also columns as pandas writes them;
            of CSV and TSV the first row names the fields, and every value is a text; between columns stands what the
            first row has most of: commas, tabs or semicolons.
        faults: malformed records go there, and are left out.

    Raises:
        StorageError: the file is missing or cannot be read, or is Parquet and pandas or pyarrow are missing.
        InputError: it is of no known form, or malformed as a whole.
    """
    *forms, last = _READERS
    read = _READERS.get(path.suffix.lower())
    if read is None:
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


def _json_rows(path: Path, _faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    data = read_json(path)
    columns = list(data.values()) if isinstance(data, dict) else []
    if columns and all(isinstance(column, dict) for column in columns):  # pandas writes columns by row label
        data = [{name: column.get(label) for name, column in data.items()} for label in columns[0]]
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise InputError([Fault("expected a JSON list of objects, or columns as pandas writes them", path, 1)])
    yield from enumerate(data, start=1)


def _yaml_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    data, lines = load_yaml(path)
    if not isinstance(data, list):
        raise InputError([Fault(f"expected a YAML list of mappings, got {type(data).__name__}", path, 1)])
    for number, row in enumerate(data):
        if isinstance(row, dict):
            yield line_of(lines, (number,)), row
        else:
            faults.append(Fault(f"expected a mapping, got {row!r:.40}", path, line_of(lines, (number,))))


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
            what = f"malformed CSV: {error}; a row starts here that does not end: a quote is broken or missing"
            faults.append(Fault(what, path, start))
    finally:
        csv.field_size_limit(limit)


def _delimiter(text: str, usual: str) -> str:
    """What stands between columns: of the usual mark and the others the one that the first row has most of."""
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
