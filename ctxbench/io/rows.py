"""Read the fields of rows and YAML mappings with faults by line, and parse times."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, MinLen
from typing_extensions import is_typeddict

from ctxbench.io.documents import YamlPath, iter_jsonl, line_of
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UserError, raise_faults, suggest
from ctxbench.io.files import decoded_lines, open_unpacked

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> int:
    """A time in microseconds since 1970, from ISO 8601.

    A time without an offset is UTC, and a date without a time its first moment.

    Raises:
        ParameterError: it is no such text.
    """
    away = _moment(text) - _EPOCH
    return (away.days * 86_400 + away.seconds) * 1_000_000 + away.microseconds


def instant_text(when: int) -> str:
    """A time from microseconds since 1970, as people read it: `2026-03-23 09:30:00`, in UTC."""
    return (_EPOCH + timedelta(microseconds=when)).strftime("%Y-%m-%d %H:%M:%S")


def in_utc(text: str | None) -> str:
    """A time in ISO 8601 and UTC, `2026-03-23T09:30:00+00:00`; None is now. In this form texts sort as times do.

    Raises:
        ParameterError: it is no such text, or in UTC of no year from 1 to 9999.
    """
    try:
        return (datetime.now(UTC) if text is None else _moment(text).astimezone(UTC)).isoformat()
    except OverflowError:
        raise ParameterError(f"must be of the years 1 to 9999, got {text!r}") from None


def _moment(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(f"must be ISO 8601, such as 2026-03-23T09:30:00+00:00, got {text!r}") from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def named_instant(name: str, text: str | None, where: str = "") -> int | None:
    """As `instant`, of a value with a name; None of none.

    Raises:
        ParameterError: it is no such text; the message has the name, and `where` after it.
    """
    try:
        return None if text is None else instant(text)
    except ParameterError as error:
        raise ParameterError(f"{name} {error}{where}") from None


T = TypeVar("T")

_CALLED = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class FieldRule:
    """What a format allows in one field.

    Attributes:
        kinds: the types of its value.
        required: whether it must be there.
        nullable: whether null is a value of a required field; others may be null, as if they were absent.
        choices: its values; empty = any.
        filled: whether an empty value is a fault.
        low: the least number.
    """

    kinds: tuple[type, ...]
    required: bool = False
    nullable: bool = field(default=False, kw_only=True)
    choices: tuple[Any, ...] = ()
    filled: bool = False
    low: float = -math.inf

    @cached_property
    def exact(self) -> type | None:
        """The type of which every value is allowed as it is; None where values are checked."""
        is_plain = len(self.kinds) == 1 and not self.choices and not self.filled and self.low == -math.inf
        return self.kinds[0] if is_plain else None

    @property
    def expected(self) -> str:
        """The types in words."""
        return " or ".join(
            dict.fromkeys(_CALLED[kind] for kind in self.kinds if kind is not int or len(self.kinds) < 2)
        )

    def fault(self, name: str, value: Any) -> str:
        """What is wrong with a value that is not None; empty if it is allowed."""
        if not isinstance(value, self.kinds) or (isinstance(value, bool) and bool not in self.kinds):
            return Message("io.field-type", name=name, expected=self.expected, got=value)
        if self.choices and value not in self.choices:
            return Message("io.field-choice", name=name, choices=self.choices, got=value)
        if self.filled and not value:
            return Message("io.field-empty", name=name)
        if isinstance(value, int | float) and value < self.low:
            return Message("io.field-low", name=name, low=self.low, got=value)
        return ""


@cache
def _rule(kind: type, required: bool = False, filled: bool = False) -> FieldRule:
    return FieldRule((kind,), required=required, filled=filled)


@cache
def row_fields(form: type) -> dict[str, FieldRule]:
    """The rules of the fields of a declared row: a `TypedDict` whose annotations JSON Schema is made of, too.

    Read are types, `Required`, `Literal`, `MinLen(1)` and `Ge(n)`. What a list or mapping holds is up to the reader.
    """
    rules = {}
    for name, hint in get_type_hints(form, include_extras=True).items():
        is_required = get_origin(hint) is Required
        hints = [get_args(hint)[0]] if is_required else [hint]
        kinds: list[type] = []
        nullable = False
        choices: tuple[Any, ...] = ()
        marks: list[Any] = []
        for part in hints:  # grows
            origin, arguments = get_origin(part), get_args(part)
            if origin is Annotated:
                hints.append(arguments[0])
                marks += arguments[1:]
            elif origin in (Union, UnionType):
                nullable = nullable or NoneType in arguments
                hints += [argument for argument in arguments if argument is not NoneType]
            elif origin is Literal:
                kinds, choices = [*kinds, *map(type, arguments)], arguments
            else:
                kind = dict if is_typeddict(part) else origin or part
                kinds += [float, int] if kind is float else [object, bool] if kind is Any else [kind]
        low: Any = next((mark.ge for mark in marks if isinstance(mark, Ge)), -math.inf)
        filled = any(isinstance(mark, MinLen) for mark in marks)
        rules[name] = FieldRule(tuple(dict.fromkeys(kinds)), is_required, choices, filled, low, nullable=nullable)
    return rules


@lru_cache(maxsize=1 << 10)  # the rows of a file have few sets of fields
def _rules_of(form: type, names: tuple[str, ...]) -> list[tuple[str, FieldRule]]:
    """The rules of the fields of a declared row that are named or required, in the order of the form."""
    return [(name, rule) for name, rule in row_fields(form).items() if rule.required or name in names]


@dataclass
class Row:
    """The fields of one JSON object or YAML mapping, taken out one by one; what is wrong goes to `faults`.

    A field of the wrong type counts as absent once it is reported, so that one pass finds everything else.

    Attributes:
        data: the fields.
        faults: where faults go.
        path: the file.
        line: 1-based.
        lines: lines of single fields, for YAML.
    """

    data: Mapping[str, Any]
    faults: list[Fault]
    path: Path
    line: int
    lines: Mapping[YamlPath, int] = field(default_factory=dict)

    def fault(self, message: str, *, at: str | None = None) -> None:
        """Note what is wrong, at the line of a field where fields have their own."""
        self.faults.append(Fault(message, self.path, self.lines.get((at,), self.line) if at else self.line))

    def nested(self, value: Any) -> Row:
        """The fields of an object in this one, at the same line; none if the value is no object."""
        return replace(self, data=value if isinstance(value, dict) else {}, lines={})

    def check(self, form: type) -> None:
        """Note the fields that a declared format does not allow, and leave them out of `data`.

        Args:
            form: a `TypedDict` that declares the fields of the row, see `row_fields`.
        """
        fields = row_fields(form)
        if not fields.keys() >= self.data.keys():
            self.refuse_unknown(tuple(fields))
        self.data = {
            name: value
            for name, rule in _rules_of(form, tuple(self.data))  # absent fields are many
            if type(value := self.data.get(name)) is rule.exact or (value := self._allowed(name, rule)) is not None
        }

    def _allowed(self, name: str, rule: FieldRule) -> Any:
        """The value of a field; None if it is absent, null or not allowed, which is a fault."""
        if (value := self.data.get(name)) is None:
            if rule.required and not (rule.nullable and name in self.data):
                self.fault(Message("io.field-missing", name=name, expected=rule.expected), at=name)
        elif problem := rule.fault(name, value):
            self.fault(problem, at=name)
            value = None
        return float(value) if value is not None and rule.kinds == (float, int) else value

    def refuse_unknown(self, fields: tuple[str, ...]) -> None:
        """Note every field that is not known, with the closest."""
        for name in self.data:
            if name not in fields:
                self.fault(Message("io.unknown-field", name=name, hint=suggest(name, fields)), at=name)

    def take(self, name: str, kind: type[T], default: T, *, required: bool = False) -> T:
        """The value of a field, or `default` if it is absent, null or of another type.

        A required field that is absent, null or an empty text is a fault.
        """
        value = self._allowed(name, _rule(cast(Any, kind), required, required and kind is str))
        return default if value is None else value

    def optional(self, name: str, kind: type[T]) -> T | None:
        """The value of a field, or None if it is absent, null or of another type (a fault)."""
        value: T | None = self._allowed(name, _rule(cast(Any, kind)))
        return value

    def filled(self, name: str) -> str | None:
        """The text of a field, or None if it is absent or null; an empty one is a fault."""
        return self._allowed(name, _rule(str, False, True)) or None

    def read_list(self, name: str, read: Callable[[Any], T], *, expected: str) -> tuple[T, ...]:
        """The entries of a list, read one by one; those that `read` refuses are faults and left out."""
        out = []
        entries: list[Any] = self.take(name, list, [])
        for number, entry in enumerate(entries, start=1):
            try:
                out.append(read(entry))
            except ParameterError as error:
                self.fault(Message("io.entry", name=name, number=number, why=error), at=name)
            except (KeyError, TypeError):
                self.fault(Message("io.entry-type", name=name, number=number, expected=expected, got=entry), at=name)
        return tuple(out)


def jsonl_rows(path: Path, faults: list[Fault]) -> Iterator[Row]:
    """The objects of a file of JSON lines; a line that holds none is a fault and left out.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    yield from (Row(data, faults, path, line) for line, data in iter_jsonl(path, faults))


def read_text_value(value: Any) -> str:
    """A value that must be a text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError
    return value


def is_file_name(name: str) -> bool:
    """Whether a name does for a file or folder: not empty, no slash, no dot in front."""
    return bool(name.strip()) and not name.startswith(".") and not {"/", "\\", "\0"} & set(name)


@dataclass
class YamlForm:
    """Reads the values of a file and collects faults.

    Attributes:
        path, lines: of the file; None and nothing of what was made in Python.
        faults: found so far.
        misspelt: keys of the top that are missing while one that is nearly called so is there.
    """

    path: Path | None
    lines: Mapping[YamlPath, int]
    faults: list[Fault]
    misspelt: set[str] = field(default_factory=set, kw_only=True)

    @property
    def base(self) -> Path:
        """The folder that its paths are relative to."""
        return Path() if self.path is None else self.path.parent

    def fault(self, message: str, *where: str | int) -> None:
        """Add a fault at a path of the file, unless it is a missing key that was reported as misspelt."""
        if len(where) == 1 and where[0] in self.misspelt:
            return
        self.faults.append(Fault(message, self.path, line_of(self.lines, where)))

    def refuse_unknown(
        self, data: Iterable[Any], keys_allowed: Collection[str], description: str, *where: str | int
    ) -> None:
        """Add a fault for each key that is not known; `what` is what has no such key."""
        keys = list(data)
        for key in keys:
            if key not in keys_allowed:
                suggestions = () if where else get_close_matches(str(key), keys_allowed, cutoff=0.5)
                self.misspelt.update(suggestion for suggestion in suggestions if suggestion not in keys)
                hint = suggest(str(key), keys_allowed)
                self.fault(Message("io.unknown-key", what=description, key=key, hint=hint), *where, key)

    def attempt(self, read: Callable[[], T], *where: str | int) -> T | None:
        """What a call returns; None if it raises what is the user's fault, which is noted."""
        try:
            return read()
        except InputError as error:
            self.faults.extend(error.faults)
        except UserError as error:
            self.fault(str(error), *where)
        return None

    def text(self, data: Mapping[str, Any], key: str, default: str) -> str:
        """A text; `default` if nothing is said."""
        value = data.get(key, default)
        if isinstance(value, str):
            return value
        self.fault(Message("io.text", name=key, got=value), key)
        return default

    def name(self, data: Mapping[str, Any], default: str) -> str:
        """A name that does for a folder."""
        name = self.text(data, "name", default)
        if not is_file_name(name):
            self.fault(Message("io.folder-name", got=name), "name")
        return name


_RUN = ("query", "Q0", "document", "rank", "score", "tag")  # the fields of a line of a TREC run


def read_run(path: Path | str) -> dict[str, list[tuple[str, float]]]:
    """Read a TREC run: (document, score) by query, best first, queries in the order of the file.

    Raises:
        StorageError: the file cannot be read.
        InputError: a line does not have 6 fields, a score is not a finite number, or a document is repeated in a query:
            all faults, with lines.
    """
    path = Path(path)
    faults: list[Fault] = []
    content, file = open_unpacked(path)
    with file:
        run = ranked_documents(_run_lines(content, path, faults), faults)
    if not run and not faults:
        faults.append(Fault(Message("labelling.file-empty", expected="one ranked document per line"), path))
    raise_faults(faults, subject=str(path))
    return run


def _run_lines(
    content: Iterable[bytes], path: Path, faults: list[Fault]
) -> Iterator[tuple[Path | str, int, str, str, str]]:
    """Path, number, query, document and score of each line that is not blank."""
    for number, text in decoded_lines(content, path, faults):
        fields = dict(zip(_RUN, values, strict=True)) if len(values := text.split()) == len(_RUN) else {}
        if fields:
            yield path, number, fields["query"], fields["document"], fields["score"]
        elif values:
            message = Message("labelling.fields-by-blanks", n=len(_RUN), columns=_RUN, got=len(values))
            faults.append(Fault(message, path, number))


def ranked_documents(
    rows: Iterable[tuple[Path | str, int, str, str, Any]], faults: list[Fault]
) -> dict[str, list[tuple[str, float]]]:
    """(document, score) by query, ordered as trec_eval does: by falling score, of equals the greater document id first.

    Scores are compared as 32-bit numbers.

    Args:
        rows: path, line, query, document and score of each; a score that is no finite number, and a document that is
            repeated in a query, are faults.
        faults: is added to.
    """
    run: dict[str, dict[str, float]] = {}
    for path, line, query, document, score in rows:
        try:
            value = float(score)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            faults.append(Fault(Message("labelling.score-form", kind="finite", got=score), path, line))
        elif document in run.setdefault(query, {}):
            faults.append(Fault(Message("labelling.document-twice", document=document, query=query), path, line))
        else:
            run[query][document] = value
    ranked = {
        query: sorted(zip(array("f", scores.values()), scores, strict=True), reverse=True)
        for query, scores in run.items()
    }
    return {query: [(document, run[query][document]) for _, document in pairs] for query, pairs in ranked.items()}
