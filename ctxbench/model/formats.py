"""Models of files, and the one loader that reads them.

A file format is a pydantic model, derived from `FileModel`. Its fields hold what a user writes, each with a
description. `load_file` reads a YAML file into the model; `validate` does the same with data that is already there.
All faults are reported at once, each with its line and the path of its field.

A model checks more than types in two ways:

* A validator of a field (`Annotated[Metric, parsed(parse_metric)]`) turns a value into an object. A `UserError` that it
  raises is a fault of that field.
* `FileModel.faults` compares fields with each other. It is called once all fields of the model are right.

Models are in the room that owns the format, because checks need what that room knows. Private attributes, such as the
path of the file, are not part of the JSON Schema.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import typing_extensions
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from ctxbench.io.documents import YamlPath, dump_json, line_of, load_mapping
from ctxbench.io.errors import Fault, InputError, Message, UserError, faults_of, suggest
from ctxbench.io.files import write_atomic

T = TypeVar("T")
M = TypeVar("M", bound="FileModel")

Texts: TypeAlias = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in a file, a tuple in Python: `Texts[str]`, `Texts[Constraint]`."""


class NullAs:
    """An annotation: null counts as a default value."""

    def __init__(self, default: Any) -> None:
        self.default = default

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def read(value: Any, inner: core_schema.ValidatorFunctionWrapHandler) -> Any:
            return self.default if value is None else inner(value)

        return core_schema.no_info_wrap_validator_function(read, handler(source))

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        return {"anyOf": [handler(schema), {"type": "null"}]}


class _NotNull:
    """An annotation: a field that may be absent, but not null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = handler(source)
        return schema["schema"] if schema["type"] == "nullable" else schema


Given: TypeAlias = Annotated[T | None, _NotNull()]
"""The type of a field that is None if it is absent; null in the file is a fault."""

_KINDS = {  # what pydantic calls an error, and the type that was expected
    "string_type": "a text",
    "string_unicode": "a text without half characters",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "finite_number": "a finite number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "string_pattern_mismatch": "a text that is not blank",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "above {}"),
    "less_than_equal": ("le", "at most {}"),
    "less_than": ("lt", "below {}"),
    "too_short": ("min_length", "at least {} long"),
    "string_too_short": ("min_length", "at least {} long"),
    "too_long": ("max_length", "at most {} long"),
    "string_too_long": ("max_length", "at most {} long"),
}


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of data, for faults.

    Attributes:
        path: the file; None for data made in Python.
        lines: by path in the data, its line.
        line: of all the data, where it is one line of a file.
    """

    path: Path | str | None = None
    lines: Mapping[YamlPath, int] = field(default_factory=dict)
    line: int = 0

    def fault(self, message: str, *location: str | int) -> Fault:
        """A fault at a path in the data."""
        return Fault(message, self.path, self.line or line_of(self.lines, location))

    def at(self, *location: str | int) -> Source:
        """The origin of a mapping in the data."""
        n = len(location)
        lines = {path[n:]: line for path, line in self.lines.items() if path[:n] == location}
        return Source(self.path, {(): line_of(self.lines, location), **lines})


class FileModel(BaseModel):
    """The content of a file, or a mapping in it. Unknown fields are faults, and values are not converted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        defer_build=True,  # most commands need few of the models
    )
    noun: ClassVar[str] = "the file"
    """What messages call it, with its article, such as `a policy`."""

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:  # noqa: ARG002 (for models that derive)
        """What is wrong although each field is right: (path of the field within the model, message).

        Args:
            context: what `validate` was given.
        """
        yield from ()

    @model_validator(mode="after")
    def _check(self, info: Any) -> Any:
        if type(self).faults is not FileModel.faults:
            raise_located(type(self).__name__, self.faults(info.context))
        return self


def raise_located(
    title: str, faults: Iterable[tuple[YamlPath, str]], kind: Literal["ctxbench", "parsed"] = "ctxbench"
) -> None:
    """Raise faults inside a validator, each at its path; do nothing if there are none.

    Args:
        title: of pydantic's error.
        faults: paths and messages.
        kind: `parsed`: the messages are about a value and need not name its field.
    """
    if details := [
        InitErrorDetails(type=PydanticCustomError(kind, "{fault}", {"fault": _encodable(text)}), loc=path, input=None)
        for path, text in faults
    ]:
        raise ValidationError.from_exception_data(title, details)


def _encodable(message: str) -> str:
    """A message that pydantic accepts: half characters, which are no UTF-8, are escaped."""
    escaped = message.encode("utf-8", "backslashreplace").decode("utf-8")
    return message if escaped == message else escaped  # a `Message` keeps its code


def parsed(read: Callable[[Any], Any], schema: Any = Any) -> BeforeValidator:
    """A validator that makes an object of a value; a `UserError` is a fault of the field.

    Args:
        read: makes the object.
        schema: the type that a file holds, for the JSON Schema.
    """

    def validator(value: Any) -> Any:
        try:
            return read(value)
        except UserError as error:
            raise_located("value", (((), fault.message) for fault in faults_of(error)), kind="parsed")
            raise

    return BeforeValidator(validator, json_schema_input_type=schema)


def load_file(model: type[M], path: Path, *, context: Any = None) -> tuple[M, Source]:
    """Read a YAML file into a model.

    Args:
        model: of the format.
        path: the file.
        context: given to the validators and to `FileModel.faults`.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no YAML, a file of another kind, or anything in it is wrong: all faults, with their lines.
    """
    data, lines = load_mapping(path, description=model.noun, keys=field_names(model))
    source = Source(path, lines)
    content, faults = validate(model, data, source, context=context)
    if content is None:
        raise InputError(faults)
    return content, source


def validate(
    model: type[M], data: Any, source: Source, *, context: Any = None, partial: bool = False
) -> tuple[M | None, list[Fault]]:
    """Make a model of data.

    Args:
        model: of the data.
        data: in JSON's types.
        source: where the data comes from.
        context: given to the validators and to `FileModel.faults`.
        partial: leave faulty fields of the file out and return the rest, so that it can be checked further; a
            required field that is left out is None.

    Returns:
        The content, None if anything is wrong; and all faults, by line.
    """
    try:
        return model.model_validate(data, context=context), []
    except ValidationError as error:
        if isinstance(data, Mapping) and (
            malformed := [name for name in data if not _is_unicode(name)]
        ):  # hides all else
            rest = {name: value for name, value in data.items() if name not in malformed}
            content, faults = validate(model, rest, source, context=context, partial=partial)
            if model.model_config.get("extra") == "ignore":
                return content, faults
            unknown = [source.fault(_unknown_field(model, name), name) for name in malformed]
            return content if partial else None, sorted([*faults, *unknown], key=lambda fault: fault.line)
        faults = sorted(model_faults(model, data, source, error), key=lambda fault: fault.line)
        faulty = {detail["loc"][0] for detail in error.errors(include_url=False) if detail["loc"]}
        if partial and isinstance(data, Mapping):
            rest = {name: data[name] for name in field_names(model) if name in data and name not in faulty}
            if len(rest) < len(data) or any(info.is_required() for info in model.model_fields.values()):
                return validate(_without_required(model), rest, source, context=context, partial=True)[0], faults
        return None, faults


def validate_partly(model: type[M], data: Any, source: Source) -> tuple[M, list[Fault]]:
    """Make a model of what is right in data, and list the faults; see `partial` of `validate`.

    Raises:
        InputError: nothing of it can be used.
    """
    content, faults = validate(model, data, source, partial=True)
    if content is None:
        raise InputError(faults)
    return content, faults


def _is_unicode(name: Any) -> bool:
    """Whether a key can be encoded; a lone surrogate cannot, and pydantic then checks no other field."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown_field(model: type[FileModel], name: Any) -> Message:
    return Message("model.unknown-field", noun=model.noun, field=name, hint=suggest(str(name), field_names(model)))


@functools.cache
def _without_required(model: type[M]) -> type[M]:
    """The model, with None as the default of its required fields."""
    fields: dict[str, Any] = {
        name: (Annotated[(info.annotation, Field(), *info.metadata)], None)
        for name, info in model.model_fields.items()
        if info.is_required()
    }
    return create_model(model.__name__, __base__=model, **fields)


@functools.cache
def field_names(model: type[FileModel]) -> tuple[str, ...]:
    """The names of the fields of a model as a file has them, in order."""
    return tuple(info.alias or name for name, info in model.model_fields.items())


def model_faults(model: type[FileModel], data: Any, source: Source, error: ValidationError) -> list[Fault]:
    """The faults of an error of pydantic, each at its line.

    A missing field is no fault where a misspelt one explains it. Where a field may have several types, their errors
    are one fault, or only those of the type that the value has.
    """
    details = [
        (_path_in(data, detail["loc"], missing=detail["type"] in ("missing", "extra_forbidden", "invalid_key")), detail)
        for detail in error.errors(include_url=False)
    ]
    misspelt = {
        (*path[:-1], name)
        for path, detail in details
        if detail["type"] == "extra_forbidden"
        for name in difflib.get_close_matches(str(path[-1]), field_names(_model_at(model, path[:-1])), cutoff=0.5)
    }
    faults: dict[tuple[YamlPath, str], Fault] = {}
    expected: dict[YamlPath, list[str]] = {}
    for path, detail in details:
        kind, context = detail["type"], detail.get("ctx", {})
        parent = _model_at(model, path[:-1])
        contains_fault = any(len(p) > len(path) and p[: len(path)] == path for p, _ in details)
        if (contains_fault and (kind in _KINDS or kind == "too_short")) or (kind == "missing" and path in misspelt):
            continue
        if kind == "missing":
            message: str = Message("model.missing-field", field=path[-1], noun=parent.noun)
        elif kind in ("extra_forbidden", "invalid_key"):
            message = _unknown_field(parent, path[-1])
        elif kind == "string_unicode" and detail["input"] != functools.reduce(lambda at, key: at[key], path, data):
            message = _unknown_field(_model_at(model, path), detail["input"])  # a key of the mapping at the path
        elif kind == "ctxbench":
            message = context["fault"]
        elif kind == "parsed":
            message = _with_field(path, context["fault"])
        elif kind == "value_error":  # a `ValueError` that a validator raised
            message = str(context["error"])
        else:
            expected.setdefault(path, []).append(_expected(kind, context, detail["msg"]))
            choices = " or ".join(dict.fromkeys(expected[path]))
            name = field_path(path) or model.noun
            message = Message("model.wrong-value", field=name, expected=choices, value=detail["input"])
            if choices == _FILLED:
                message = Message("model.empty-value", field=name)
            kind = "wrong-value"
        faults[path, message if kind in ("ctxbench", "parsed", "value_error") else kind] = source.fault(message, *path)
    return list(faults.values())


def _with_field(path: YamlPath, message: str) -> str:
    """A message about a value, with the path of its field before it unless it begins with the field's name."""
    names = [part for part in path if isinstance(part, str)]
    if not names or message.startswith((names[-1], field_path(path))):
        return message
    return Message("model.field-fault", field=field_path(path), fault=message)


_FILLED = "not empty"


def _expected(kind: str, context: Mapping[str, Any], message: str) -> str:
    """What a field must be, by the kind of pydantic's error."""
    if kind == "literal_error":
        return " or ".join(choice for choice in context["expected"].replace(" or ", ", ").split(", ") if choice != "''")
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return _FILLED if name == "min_length" and context[name] == 1 else words.format(f"{context[name]:g}")
    return _KINDS.get(kind, message)


def field_path(path: YamlPath) -> str:
    """The path of a field in words: `policies.normal.constraints[0].at_least`; empty for the whole file."""
    return "".join([f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]).removeprefix(".")


def _path_in(data: Any, location: Sequence[str | int], *, missing: bool) -> YamlPath:
    """The part of pydantic's location that is a path in the data; names of types in unions are left out.

    Args:
        data: what was read.
        location: as pydantic gives it.
        missing: whether it ends in a field that the data may not have, or has in another spelling.
    """
    path: list[str | int] = []
    for index, part in enumerate(location):
        if isinstance(data, Mapping):
            if part not in data and not (missing and index == len(location) - 1):
                continue
            path.append(part)
            data = data.get(part)
        elif isinstance(data, Sequence) and not isinstance(data, str) and isinstance(part, int) and part < len(data):
            path.append(part)
            data = data[part]
    return tuple(path)


def _model_at(model: type[FileModel], path: YamlPath) -> type[FileModel]:
    """The model of the mapping at a path; the closest one around it where the path leads to none."""
    for part in path:
        info = model.model_fields.get(str(part)) if isinstance(part, str) else None
        if info is not None:
            model = next(_models_in(info.annotation), model)
    return model


def _models_in(annotation: Any) -> Iterator[type[FileModel]]:
    """The models that an annotation names, such as those of `Mapping[str, Policy] | None`."""
    if inspect.isclass(annotation) and issubclass(annotation, FileModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


FORMATS = {
    "agent": "ctxbench.catalogs.agent_file:AgentDefinition",
    "answers": "ctxbench.selectors.protocol:AnswerRow",
    "baseline-answers": "ctxbench.gate.baseline_rows:AnswerRow",
    "baseline-items": "ctxbench.gate.baseline_rows:ItemRow",
    "baseline-queries": "ctxbench.gate.baseline_rows:QueryRow",
    "corpus": "ctxbench.catalogs.snapshots:ItemRow",
    "dataset": "ctxbench.datasets.layout:DatasetCard",
    "experiment": "ctxbench.evaluation.experiment:ExperimentFile",
    "gate": "ctxbench.gate.settings:GateDefinition",
    "policies": "ctxbench.tuning.policy:PolicyFile",
    "presets": "ctxbench.selectors.definition:PresetsContent",
    "queries": "ctxbench.datasets.queries:QueryRow",
    "redaction": "ctxbench.io.redaction:RedactionFile",
    "renames": "ctxbench.labelling.rebase:RenamesFile",
    "selector": "ctxbench.selectors.definitions:SelectorFile",
    "session": "ctxbench.selectors.conversations:SessionFile",
    "tokens": "ctxbench.memory.web_app:TokensFile",
}
"""Every format with a JSON Schema: the name of the schema, and the module and name of the model."""
SCHEMAS = Path(__file__).parents[1] / "schemas"


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a format.

    Args:
        name: one of `FORMATS`.
    """
    module, _, model = FORMATS[name].partition(":")
    form = getattr(importlib.import_module(module), model)
    for declared in _declared(form):  # typed dictionaries, which are declared without pydantic
        declared.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)
    schema = TypeAdapter(form).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_without_titles(schema)}


def _declared(annotation: Any) -> Iterator[Any]:
    """The typed dictionaries that an annotation names, with those that their fields name."""
    if typing_extensions.is_typeddict(annotation):
        yield annotation
        for hint in typing_extensions.get_type_hints(annotation).values():
            yield from _declared(hint)
    for argument in typing.get_args(annotation):
        yield from _declared(argument)


def _without_titles(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names of fields."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_titles(part) for name, part in schema.items() if not (name == "title" and isinstance(part, str))
    }


def write_schemas(folder: Path = SCHEMAS) -> None:
    """Write the JSON Schema of every format, as `make schemas` does."""
    for name in FORMATS:
        write_atomic(folder / f"{name}.schema.json", dump_json(json_schema(name), indent=2))
