"""Turn the files of evaluation programs into plain records of evals, and recognise them by content.

promptfoo: https://www.promptfoo.dev/docs/configuration/guide/ (tests, vars, `defaultTest`),
https://www.promptfoo.dev/docs/configuration/expected-outputs/ (assertions), and for tables
https://www.promptfoo.dev/docs/configuration/test-cases/ (`__expected`). deepeval:
https://deepeval.com/docs/evaluation-datasets. ragas: https://docs.ragas.io/en/stable/concepts/components/eval_sample/.
Trigger evals of skills: https://github.com/anthropics/skills (skill-creator), and as people write them in YAML.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from ctxbench.catalogs.instructions import truth
from ctxbench.io.errors import Fault, InputError, Message, UserError
from ctxbench.io.rows import Row
from ctxbench.labelling.conversion import PASSED_OVER, Draft, split_name
from ctxbench.labelling.record_files import (
    EXPECTED,
    FORBIDDEN,
    LABELS,
    REQUESTS,
    FieldEvidence,
    FieldRoles,
    ItemFinder,
    has_request,
    is_log,
    messages_of,
    parse_list,
    read_id,
    snake,
    values_of,
)
from ctxbench.labelling.sources import LOG, Document, data_files, documents, make_kinds, recognise
from ctxbench.model.items import Catalog, Item

TRIGGER_FREE = "unlabelled queries (no skill triggered)"
UNTRIED = "skills without trigger evals"
BY_HAND = "evals of manual skills (left out)"
_SPLITS = ("train", "dev", "validation", "test", "tuning")
_LISTS = (
    *("tests", "test_cases", "cases", "evals", "queries", "scenarios", "examples", "goldens", "samples", "questions"),
    *("data", "rows", "records", "items", "dataset", "prompts", *_SPLITS),
)


_DEEPEST = 4  # objects around a list of records


@dataclass(kw_only=True)
class EvalRows:
    """The records of a file.

    Attributes:
        path: the file.
        name: the start of the ids of its queries that have none.
        form: what the file is, for the card of the dataset.
        rows: its records.
        roles: roles whose fields have the name of the role, and no other.
        has_requests: whether a record has a request.
        has_labels: whether a record has labels.
        passed_over: its fields that were ignored.
        partial: numbers of rows with labels that could not be read.
        rivals: fields that may hold the expected items, and disagree.
        evidence: what the values of its fields tell.
        fields: what its fields are for.
    """

    path: Path
    name: str
    form: str
    rows: list[Row]
    roles: Collection[str] = ()
    has_requests: bool = True
    has_labels: bool = False
    passed_over: dict[str, None] = field(default_factory=dict)
    partial: Collection[int] = ()
    rivals: Sequence[str] = ()
    evidence: FieldEvidence = field(init=False)
    fields: FieldRoles = field(init=False)


def rows_of_file(
    path: Path, kind: str | None, finder: ItemFinder, triggers: TriggerEvals, faults: list[Fault], *, has_names: bool
) -> EvalRows | None:
    """Read the records of a file; trigger evals go to `triggers` instead, and nothing is returned.

    Args:
        path: the file.
        kind: the name of its kind; None = recognised.
        finder: of items.
        triggers: where trigger evals go.
        faults: faults are added here.
        has_names: whether fields are mapped; then also a log may be read.

    Raises:
        StorageError: the file cannot be read.
        InputError: it holds no objects, or it is a log.
    """
    read = [document for document in documents(path, faults) if document.value != []]
    values = [document.value for document in read]
    recognised, first = recognise(values[:50]), [value for value in values[:50] if isinstance(value, dict)]
    is_of_agent = any(map(is_log, first)) or not has_request(first)
    if recognised and recognised.family == LOG and is_of_agent and not has_names:
        command = f"ctxbench data import {shlex.quote(str(path))} -c CATALOG --out FOLDER --as {recognised.name}"
        fields = ", ".join(map(repr, [*first[0]][:5]))
        raise InputError([Fault(Message("labelling.log-as-eval", fields=fields, command=command), path)])
    if kind not in {eval_kind.name for eval_kind in KINDS}:
        kind = recognised.name if recognised in KINDS else "golden"
    if values and not any(isinstance(value, dict) for value in values):
        raise InputError([Fault(Message("labelling.no-object", got=values[0]), path, read[0].line)])
    if kind == "triggers":
        triggers.read(read)
        return None
    part = EvalRows(path=path, name=path.name.partition(".")[0], form=kind, rows=[])
    entries = (
        [test for document in read for test in _tests(document, finder, faults)]
        if kind == "promptfoo"
        else [entry for document in read for entry in records_of(document, is_whole=len(read) == 1)]
    )
    for entry in entries:
        if isinstance(entry.value, dict):
            part.rows.append(Row(entry.value, faults, entry.path, entry.line))
        else:
            faults.append(Fault(Message("labelling.no-object", got=entry.value), path, entry.line))
    if kind == "golden":
        part.rows, part.partial = _marked(part.rows, finder)
    elif kind == "promptfoo":
        unread = [[row.data[name] for name in row.data if name.startswith("assert.")] for row in part.rows]
        part.partial = {number for number, texts in enumerate(unread) if _mentions_item(str(texts), finder)}
    else:
        part.rows, part.roles = _samples(part.rows, kind, finder), ("query", "expected", "forbidden")
    return part


_MARKED = ("x", "1", "true", "yes", "y", "ja", "oui", "si", "sí", "✓", "✔")
_UNMARKED = ("", "0", "false", "no", "n", "nein", "non", "-", "none")


def _marked(rows: list[Row], finder: ItemFinder) -> tuple[list[Row], Collection[int]]:
    """Records of a table with a column per item as records with `expected`, and those that leave items open."""
    columns = {name: [row.data.get(name) for row in rows] for row in rows[:1] for name in row.data}
    marks = {name: [str(value or "").strip().casefold() for value in columns[name]] for name in columns}
    names = [name for name in columns if set(marks[name]) <= {*_MARKED, *_UNMARKED} and finder.resolve(name).key]
    if len(names) < 2:
        return rows, ()
    expected = [[name for name in names if marks[name][number] in _MARKED] for number in range(len(rows))]
    remaining = [{name: value for name, value in row.data.items() if name not in names} for row in rows]
    marked = [
        replace(row, data=data | {"expected": labels})
        for row, data, labels in zip(rows, remaining, expected, strict=True)
    ]
    return marked, range(len(rows) if len(names) < len(finder.names) else 0)


def records_of(document: Document, *, is_whole: bool = True) -> list[Document]:
    """The records of a document: the entries of a list under one of `_LISTS`, or under its only list; else itself.

    Only a document that is the whole file is searched for a list under another name. Records may be in lists of lists.
    """
    value = document.value
    if not isinstance(value, dict) or any(snake(name) in REQUESTS for name in value if isinstance(value[name], str)):
        return [document]
    by_id = next((value[name] for name in value if snake(name) in _LISTS and len(_dict(value[name])) > 1), value)
    is_list = by_id is not value and all(isinstance(inner, dict) for inner in by_id.values())
    if is_list or (value and all(set(map(snake, _dict(inner))) & set(REQUESTS) for inner in value.values())):
        return [replace(document, value={"id": name, **inner}) for name, inner in (by_id if is_list else value).items()]
    if is_whole and value and all(" " in text and _lists_names(names) for text, names in value.items()):
        return [replace(document, value={"query": text, "expected": names}) for text, names in value.items()]
    paths = [path for path in _list_paths(value) if is_whole or len(path) == 1] if not is_log(value) else []
    lists = {path: document.entries(*path) for path in paths}
    usual = [path for path in lists if snake(path[-1]) in _LISTS]
    asking = [path for path in lists if not usual and any(_asks(entry.value) for entry in lists[path])]
    is_only = is_whole and len({path[-1] for path in asking}) == 1 and not _labels_in(value)
    has_several = len(value) + sum(len(lists[path]) for path in asking) > 2
    paths = usual or (asking if is_only and has_several else [])
    if not paths:
        return [document]
    outer = [(path[0], entry) for path in paths for entry in lists[path]]
    return [
        replace(entry, value={"split": split_name(name), **entry.value})
        if name in _SPLITS and isinstance(entry.value, dict)
        else entry
        for name, inner in outer
        for entry in records_of(inner, is_whole=False)
    ]


def _list_paths(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the lists of records in an object, and of empty lists with usual names."""
    for name, inner in value.items():
        if isinstance(inner, dict) and len(path) < _DEEPEST:
            yield from _list_paths(inner, (*path, name))
        elif any(not {"role", "content"} & set(entry) for entry in _dicts(inner)) or (
            inner == [] and snake(name) in _LISTS
        ):
            yield (*path, name)


def _asks(record: Any) -> bool:
    """Whether a record has a usual field for a request, or a text of several words."""
    fields = {snake(name): text for name, text in values_of(_dict(record))}
    return bool({name.partition(".")[0] for name in fields} & set(REQUESTS)) or any(
        " " in text for text in fields.values()
    )


def _lists_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _labels_in(value: Mapping[str, Any]) -> bool:
    return any((name := snake(key)) in EXPECTED or name in FORBIDDEN or LABELS.fullmatch(name) for key in value)


# promptfoo

_ONE = ("equals", "contains", "icontains", "starts-with")
_ANY = ("contains-any", "icontains-any")
_ALL = ("contains-all", "icontains-all")
_OF_TOOLS = (
    *("tool-call-f1", "trajectory:tool-used", "trajectory:tool-sequence", "trajectory:tool-args-match", "skill-used"),
)
_COMPARED = re.compile(r"(?:return\s+)?[\w.?()\[\]'\"]*\bname\b['\"\])]*\s*={2,3}\s*(['\"])(?P<name>[^'\"]+)\1\s*;?")
_NAMED_IN = ("name", "names", "tools", "steps", "skill")  # members of the value of an assertion
_ASSERTION = re.compile(
    rf"((?:not-)?(?:{'|'.join([*_ONE, *_ANY, *_ALL, *_OF_TOOLS])}))(?:\([^)]*\))?:\s*(.*)", re.DOTALL
)
_CODE = re.compile(r"(?:javascript|python|fn|eval|file|llm-rubric|grade|similar|[a-z-]+(?:\([^)]*\))?):", re.IGNORECASE)
_IDENTIFIER = re.compile(r"\w[_:/.-]\w|[a-z][A-Z]")
_TEMPLATE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")


def _tests(document: Document, finder: ItemFinder, faults: list[Fault]) -> Iterator[Document]:
    """The tests of a promptfoo configuration, of a list of tests, or of a table, as records of their variables."""
    config = _dict(document.value)
    if "tests" in _dict(config.get("config")):  # results, which hold their configuration
        document, config = replace(document, value=config["config"], text="", lines={}), config["config"]
    tests = document.entries("tests") if {"tests", "scenarios"} & set(config) else [document]
    for name in (name for name in (config.get("tests"), *(test.value for test in tests)) if isinstance(name, str)):
        try:
            paths = data_files([document.path.parent / name.removeprefix("file://")])
            tests += [test for path in paths for outer in documents(path, faults) for test in records_of(outer)]
        except (UserError, OSError, ValueError) as error:
            message = Message("labelling.tests-elsewhere", name=name[:80], why=str(error)[:200])
            faults.append(Fault(message, document.path, document.line))
    for scenario in document.entries("scenarios"):
        for data, inner in itertools.product(
            *(_dicts(_dict(scenario.value).get(name)) for name in ("config", "tests"))
        ):
            variables = {**_dict(data.get("vars")), **_dict(inner.get("vars"))}
            tests.append(replace(scenario, value={**data, **inner, "vars": variables}))
    mentioned, default = set(_TEMPLATE.findall(str(config.get("prompts", "")))), _dict(config.get("defaultTest"))
    yield from (
        replace(test, value=_test(value, default, mentioned, finder))
        for test in tests
        if (value := _dict(_dict(test.value).get("testCase")) or _dict(test.value))
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _test(
    test: Mapping[str, Any], default: Mapping[str, Any], mentioned: Collection[str], finder: ItemFinder
) -> dict[str, Any]:
    """The record of a test: its variables, and `expected` and `forbidden` if its assertions name items."""
    values = {**_dict(default.get("vars")), **_dict(test.get("vars"))}
    asserts = [*_dicts(default.get("assert")), *_dicts(test.get("assert"))]
    if not any(key in test for key in ("vars", "assert")):  # a row of a table
        values |= {name: value for name, value in test.items() if not name.startswith("__")}
        for name in sorted(name for name in test if name.startswith("__expected")):
            text = str(test[name]).strip()
            match = _ASSERTION.fullmatch(text)
            kind = match[1] if match else "equals" if not _CODE.match(text) else text.partition(":")[0]
            asserts += [{"type": kind, "value": match[2] if match else text}] if text else []
    record: dict[str, Any] = {"expected": [], "forbidden": []}
    unread: dict[str, str] = {}
    for assertion in itertools.chain(*map(_parts_of, asserts)):
        if labels := _asserted(assertion, values, finder):
            record[labels[0]] += labels[1]
        elif assertion.get("type") != "assert-set":
            name = f"assert.{assertion.get('type')}"
            unread[name] = f"{unread.get(name, '')} {assertion.get('value', '')}"
    record = {role: labels for role, labels in record.items() if labels}
    read = {*record, *(EXPECTED if "expected" in record else ())}
    record |= {name: value for name, value in values.items() if name not in read and snake(name) not in read}
    texts = [name for name in record if isinstance(record[name], str) and (not mentioned or name in mentioned)]
    if len(texts) == 1 and not any(snake(name) in REQUESTS for name in values):
        record["query"] = record.pop(texts[0])
    return {**unread, "title": test.get("description"), "vars": values, **_dict(test.get("metadata")), **record}


def _mentions_item(text: str, finder: ItemFinder) -> bool:
    return any(
        finder.resolve(word).key is not None for word in re.findall(r"[\w:/.-]*\w", text) if _IDENTIFIER.search(word)
    )


def _parts_of(assertion: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """An assertion with those of its set; a set that needs only a part of them is one assertion."""
    inner, threshold = _dicts(assertion.get("assert")), assertion.get("threshold")
    is_partial = len(inner) > 1 and isinstance(threshold, int | float) and threshold < 1
    return [{"type": "assert-set of a part", "value": str(inner)}] if is_partial else [assertion, *inner]


def _asserted(
    assertion: Mapping[str, Any], values: Mapping[str, Any], finder: ItemFinder
) -> tuple[str, list[Any]] | None:
    """The role and the labels of an assertion; None if it does not name items.

    What an answer contains is a label only if it is the name of an item, and no plain word. Names of which one is
    enough are no labels.
    """
    kind, value = str(assertion.get("type")), assertion.get("value")
    if kind in ("javascript", "python") and isinstance(value, str) and (match := _COMPARED.fullmatch(value.strip())):
        kind, value = "equals", match["name"]  # code that is one comparison
    is_negative, kind = kind.startswith("not-"), kind.removeprefix("not-")
    if isinstance(value, dict):
        is_negative ^= value.get("max") == 0
        value = next((value[name] for name in _NAMED_IN if name in value), None)
    if isinstance(value, str):
        value = _TEMPLATE.sub(lambda match: str(values.get(match[1], match[0])), value)
        value = [value] if kind in _ONE else value.split(",")
    entries = value if isinstance(value, list) else []
    named = [entry.get("name") if isinstance(entry, dict) else entry for entry in entries]
    names = [name.strip() for name in named if isinstance(name, str) and name.strip()]
    is_any = kind in (_ALL if is_negative else _ANY) or (is_negative and kind in _OF_TOOLS)  # of several, one is enough
    is_item = kind in _OF_TOOLS or (
        kind in (*_ONE, *_ANY, *_ALL)
        and all(finder.resolve(name).key and (kind == "equals" or _IDENTIFIER.search(name)) for name in names)
    )
    is_label = bool(names) and is_item and not (is_any and len(names) > 1) and not (is_negative and "args" in kind)
    return ("forbidden" if is_negative else "expected", names) if is_label else None


# deepeval and ragas

_SAMPLES = {
    "deepeval": (("input", "turns", "scenario"), ("expected_tools",), ("context",)),
    "ragas": (
        ("user_input", "query", "question"),
        ("reference_tool_calls", "reference_context_ids"),
        ("reference_contexts",),
    ),
}
"""By kind the fields of the request, of names of items, and of texts of items."""


def _samples(rows: list[Row], kind: str, finder: ItemFinder) -> list[Row]:
    """The records of deepeval or ragas as plain records; fields none of whose values are items are left aside."""
    requests, named, quoted = _SAMPLES[kind]
    plain = [{snake(name): value for name, value in row.data.items() if value not in (None, "")} for row in rows]
    labels = {name: [_entries(data.get(name), name in quoted) for data in plain] for name in (*named, *quoted)}
    used = [
        name
        for name in labels
        if any((match := finder.find(entry)) and match.key for entries in labels[name] for entry in entries or [])
    ]
    used = used or [name for name in labels if any(labels[name])]
    records = []
    for number, (row, data) in enumerate(zip(rows, plain, strict=True)):
        request_field = next((name for name in requests if name in data), requests[0])
        record = {name: value for name, value in data.items() if name not in (request_field, *used)}
        lists = [entries for name in used if (entries := labels[name][number]) is not None]
        expected = list(itertools.chain(*lists)) if lists else None
        turns = (
            _turns(data.get(request_field), expected)
            if used == ["reference_tool_calls"]
            else [(data.get(request_field), expected)]
        )
        records += [replace(row, data=record | {"query": query, "expected": calls}) for query, calls in turns]
    return records


def _turns(query: Any, calls: list[Any] | None) -> list[tuple[Any, list[Any] | None]]:
    """The requests of a conversation with their calls; the last one with all if a call is not of exactly one turn."""
    messages = messages_of(query)
    user_positions = [number for number, message in enumerate(messages) if message.role == "user"]
    if len(user_positions) < 2 or not calls:
        return [(query, calls)]
    calls_by_turn = [
        {name for message in messages[first:last] for _, name in message.calls}
        for first, last in itertools.pairwise([*user_positions, len(messages)])
    ]
    if any(sum(call in names for names in calls_by_turn) != 1 for call in calls):
        return [(query, calls)]
    texts = [{"role": message.role, "content": message.text} for message in messages]
    of_turns = [[call for call in calls if call in names] for names in calls_by_turn]
    return [(texts[: last + 1], names or None) for last, names in zip(user_positions, of_turns, strict=True)]


def _entries(value: Any, is_quoted: bool) -> list[Any] | None:
    """The labels in a list (in a table a JSON list, or texts between `|`); None if there is none."""
    if isinstance(value, str):
        value = entries if isinstance(entries := parse_list(value), list) else value.split("|")
    if not isinstance(value, list) or (is_quoted and not value):
        return None
    if is_quoted:
        texts = (text for text in value if isinstance(text, str) and text.strip())
        return [{"contains": re.sub(r"^<\d+-hop>\s*", "", text)} for text in texts]
    return [entry.get("name", entry) if isinstance(entry, dict) else entry for entry in value]


# trigger evals of skills

_TRIGGER = re.compile(r"should_?(?P<no>not_|nt_)?(trig|activ|invoke|fire|load)\w*|triggers?|expected_trigger(s|ed)?")
_TRIGGER_LIST = re.compile(
    r"should_?(?P<no>not_|nt_)?(trig|activ|invoke|fire|load)\w*"
    r"|(?P<non>non_|not_|no_)?trigger(ing)?_(prompt|quer|case|test|eval|example)\w*"
)
_SKILL_KEYS = ("skill", "skill_name")
_WORDS_OF_FILES = re.compile(r"[-_.]?(?:triggers?|evals?|tests?|cases|queries)")


def is_trigger_eval(values: Sequence[Any]) -> bool:
    """Whether the values of a file are trigger evals: records that say whether a skill should be used."""
    dicts = [value for value in values if isinstance(value, dict)]
    entries = [entry for value in dicts for inner in value.values() for entry in _dicts(inner)]
    return any(
        (_TRIGGER_LIST.fullmatch(name) and isinstance(value, list))
        or (_TRIGGER.fullmatch(name) and _truth(value) is not None and set(REQUESTS) & set(fields))
        for fields in ({snake(name): value for name, value in record.items()} for record in (*dicts, *entries))
        for name, value in fields.items()
    )


def _truth(value: Any) -> bool | None:
    """Whether a value says yes or no; None if it says neither."""
    return None if value is None else truth(value)


class TriggerEvals:
    """Collects the trigger evals of skills: a text in the files of several skills is one query."""

    def __init__(self, catalog: Catalog, draft: Draft, *, root: Path | None, nothing_else: bool) -> None:
        """Take what the evals are of.

        Args:
            catalog: the items.
            draft: of the dataset, for faults and issues.
            root: the folder that the paths of skills are relative to, if it is known.
            nothing_else: whether a request that triggers no skill needs nothing.
        """
        self._draft, self._nothing_else = draft, nothing_else
        self._skills = [item for item in catalog if item.type == "skill"]
        paths = {item.key: str(item.metadata.get("path", "")) for item in self._skills if root}
        self._by_folder = {(root / paths[i.key]).absolute().parent: i for i in self._skills if root}
        self._by_name = {name: item for item in self._skills for name in (item.id, item.name.casefold())}
        self._rows: dict[str, Row] = {}  # by text
        self._ids: set[str] = set()

    def read(self, read: Iterable[Document]) -> None:
        """Add the entries of a file."""
        entries = (entry for document in read for entry in _trigger_entries(document))
        for number, (entry, triggered, named) in enumerate(entries, start=1):
            data = entry.value if isinstance(entry.value, dict) else {"query": entry.value, "should_trigger": None}
            self._add(Row(data, self._draft.faults, entry.path, entry.line), number, triggered, named)

    def _add(self, row: Row, number: int, triggered: bool | None, named: Any) -> None:
        """Add one entry, or its fault."""
        fields = {snake(name): value for name, value in row.data.items()}
        request = next((name for name in REQUESTS if name in fields), "query")
        stated = sorted(
            filter(_TRIGGER.fullmatch, fields), key=lambda name: not name.startswith(("should", "expected"))
        )
        text, match = fields.get(request), _TRIGGER.fullmatch(stated[0]) if stated else None
        is_misspelt = match and re.search("trig(?!ger)", match[0])
        if triggered is None and match and not is_misspelt and (answer := _truth(fields[match[0]])) is not None:
            triggered = answer is not bool(match["no"])
        if not isinstance(text, str) or not text.strip() or triggered is None:
            row.fault(Message("labelling.trigger-entry", entry=number, got=dict(row.data)))
            return
        named = next((fields[name] for name in _SKILL_KEYS if fields.get(name)), named)
        if (skill := self._skill(row.path or Path(), named)) is None:
            skills = sorted(item.name for item in self._skills)[:10]
            unknown = Message("labelling.unknown-skill", name=named, skills=skills)
            row.fault(unknown if named else Message("labelling.no-skill", skills=skills))
            return
        if skill.include == "manual":
            self._draft.ids[BY_HAND].append(f"{skill.name}: {text.strip():.40}")
            return
        consumed = {request, match and match[0], "id", "split", *_SKILL_KEYS}
        self._draft.ids[PASSED_OVER] += [name for name in fields if name not in consumed]
        if (first := self._rows.get(text.strip())) is None:
            data: dict[str, Any] = {
                "query": text.strip(),
                "id": self._id(row, f"{skill.name}-{number}"),
                "split": None,
                "expected": [],
                "forbidden": [],
            }
            first = self._rows[text.strip()] = replace(row, data=data)
        if split := row.take("split", str, ""):
            if (before := first.data["split"] or split) != split:
                row.fault(Message("labelling.request-split-conflict", line=first.line, split=split, first=before))
            cast("dict[str, Any]", first.data)["split"] = split
        labels = first.data["expected" if triggered else "forbidden"]
        labels += [skill.id] if skill.id not in labels else []

    def _id(self, row: Row, default: str) -> str:
        """A unique id without blanks."""
        name = re.sub(r"\s+", "-", read_id(row, "id").strip()) or default
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        unique = next(candidate for candidate in names if candidate not in self._ids)
        self._ids.add(unique)
        return unique

    def _skill(self, path: Path, named: Any) -> Item | None:
        """The skill that is named, else that of the folder, else that with the name of the file or its folders."""
        path, names = path.absolute(), [str(named), re.split("[:/]", str(named))[-1]]
        if not named:
            names = [_WORDS_OF_FILES.sub("", path.name.partition(".")[0]), *reversed(path.parts[-3:-1])]
        skills = [self._by_folder.get(folder) for folder in path.parents if not named]
        return next(filter(None, (*skills, *(self._by_name.get(name.casefold()) for name in names))), None)

    def rows(self) -> list[EvalRows]:
        """The records of all requests; empty if there are none."""
        offered = {skill.id for skill in self._skills if skill.include != "manual"}
        tried = [{*row.data["expected"], *row.data["forbidden"]} for row in self._rows.values()]
        for row, skills in zip(self._rows.values(), tried, strict=True):
            if not row.data["expected"] and not self._nothing_else and offered - skills:
                cast("dict[str, Any]", row.data)["expected"] = None
                self._draft.ids[TRIGGER_FREE].append(row.data["id"])
        if not self._rows:
            return []
        self._draft.ids[UNTRIED] += sorted(offered.difference(*tried))
        rows, roles = list(self._rows.values()), ("query", "expected", "forbidden", "id")
        return [EvalRows(path=rows[0].path or Path(), name="", form="trigger evals", rows=rows, roles=roles)]


def _trigger_entries(document: Document) -> Iterator[tuple[Document, bool | None, Any]]:
    """The entries of a document, whether the name of their list says that they trigger, and the skill named above."""
    value = _dict(document.value)
    named = next((value[name] for name in value if snake(name) in _SKILL_KEYS), None)
    matches = {name: _TRIGGER_LIST.fullmatch(snake(name)) for name in value if isinstance(value[name], list)}
    lists = {name: not (match["no"] or match["non"]) for name, match in matches.items() if match}
    yield from ((entry, triggered, named) for name, triggered in lists.items() for entry in document.entries(name))
    yield from ((entry, None, named) for entry in records_of(document) if not lists)


def _rows(values: Sequence[Any]) -> list[set[str]]:
    """The fields of the records in the values of a file, in snake case."""
    files = [Document(value, Path(), 1) for value in values if isinstance(value, dict)]
    records = [entry for file in files for entry in records_of(file, is_whole=len(files) == 1)]
    return [{snake(name) for name in entry.value} for entry in records if isinstance(entry.value, dict)]


def _is_promptfoo(values: Sequence[Any]) -> bool:
    files = [_dict(value.get("config")) or _dict(value.get("testCase")) or value for value in map(_dict, values)]
    about = {"prompts", "providers", "defaultTest", "targets"}
    return any(
        ({"tests", "scenarios"} & set(file) and about & set(file))
        or "vars" in file
        or any(name.startswith("__expected") for name in file)
        for file in files
    ) or any({"vars", "assert"} <= fields for fields in _rows(values))


_OF_DEEPEVAL = {
    *("actual_output", "expected_output", "retrieval_context", "context", "tools_called", "expected_tools"),
    *("source_file", "additional_metadata", "expected_outcome", "user_description", "turns"),
}


def _is_deepeval(values: Sequence[Any]) -> bool:
    return any({"input", "scenario"} & fields and len(fields & _OF_DEEPEVAL) > 1 for fields in _rows(values))


def _is_ragas(values: Sequence[Any]) -> bool:
    names = ("reference", "retrieved_context")
    return any(
        "reference_contexts" in fields or ("user_input" in fields and any(name.startswith(names) for name in fields))
        for fields in _rows(values)
    )


_OF_COLLECTIONS = {"retrieval_gt", "corpus_id", "doc_id", "docid", "passage_id", "corpus", "positive", "negative"}


def _is_golden(values: Sequence[Any]) -> bool:
    usual = set(REQUESTS) - {"text", "message", "input"}
    return not any(is_log(_dict(value)) for value in values) and any(
        (usual & fields and len(fields) > 2) or (set(REQUESTS) & fields and _labels_in(dict.fromkeys(fields)))
        for fields in _rows(values)
        if not fields & _OF_COLLECTIONS
    )


KINDS = make_kinds(
    {
        "triggers": is_trigger_eval,
        "promptfoo": _is_promptfoo,
        "deepeval": _is_deepeval,
        "ragas": _is_ragas,
        "golden": _is_golden,
    }
)
"""The kinds of evals, the most specific first."""
