"""Code facts of files: computed once for each text, and kept on disk."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ctxbench.index.code.code_extraction import extracted
from ctxbench.index.code.code_records import CodeDefinition, CodeFacts, Import
from ctxbench.index.code.grammars import GRAMMARS, grammar, grammar_name, grammar_version
from ctxbench.index.code.languages import LONGEST_LINE, is_minified, language_of
from ctxbench.io.cache import cache_dir
from ctxbench.io.checked_rows import OptionalRows
from ctxbench.io.visible import one_line

_LARGEST = 1_000_000  # characters of a file whose syntax is looked into
_FORM = "4"  # goes up with whatever changes the facts of a text, beside a query
_MOST = 50_000  # texts whose facts stay in memory
_BATCH = 500  # texts whose facts are written at once, so that a run that is stopped keeps most
_log = logging.getLogger(__name__)
_in_memory: dict[bytes, CodeFacts] = {}  # by `_key`; the oldest leave first


def code_facts(path: str, content: str) -> CodeFacts:
    """The facts of one file.

    Args:
        path: tells the language, and nothing else.
        content: the whole text.

    Returns:
        What its grammar finds. Where its language has no grammar or it is not installed, over 1,000,000 characters,
        or with a line of over 5,000 (minified): the doc line alone, and `left_out` says why. A file whose definitions
        nest over 500 deep, or that takes over about 2 s, has no facts either, and a warning names it.
    """
    return all_code_facts({path: content})[path]


def all_code_facts(contents: Mapping[str, str]) -> dict[str, CodeFacts]:
    """The facts of many files, by path; as `code_facts` of each, but read from the cache at once. Empty in, empty out.

    They are kept in `code-1.sqlite` of the cache folder, by text and grammar version. Where nothing can be read or
    written there, they are computed each time.
    """
    facts: dict[str, CodeFacts] = {}
    keys: dict[str, bytes] = {}
    for path, content in contents.items():
        name = grammar_name(path)
        why = _left_out(name, content)
        if why or name is None:
            facts[path] = CodeFacts(language_of(path), doc=_plain_doc(content), left_out=why)
        else:
            keys[path] = _key(name, content)
    by_key = _facts_by_key(keys, contents)
    _in_memory.update(by_key)
    while len(_in_memory) > _MOST:
        _in_memory.pop(next(iter(_in_memory)), None)
    return {path: facts[path] if path in facts else by_key[keys[path]] for path in contents}


def _left_out(name: str | None, content: str) -> str:
    if name is None:
        return "no grammar for its language"
    if len(content) > _LARGEST:
        return f"over {_LARGEST:,} characters"
    if is_minified(content):
        return f"a line of over {LONGEST_LINE:,} characters"
    return "" if grammar(name) is not None else "its grammar is not installed"


def _plain_doc(content: str) -> str:
    """The first line that has a letter, without marks of headings and comments."""
    for line in content[:LONGEST_LINE].splitlines():
        text = line.strip(" \t#=*/<!->;%")
        if any(map(str.isalpha, text)):
            return text[:300]
    return ""


def _key(name: str, content: str) -> bytes:
    made_by = f"{_FORM}\0{GRAMMARS[name].query}\0{grammar_version(name)}\0"
    return hashlib.sha256(made_by.encode() + content.encode("utf-8", "surrogatepass")).digest()


def _facts_by_key(keys: Mapping[str, bytes], contents: Mapping[str, str]) -> dict[bytes, CodeFacts]:
    """The facts of all keys: from memory, else from the cache, else from the text."""
    by_key = {key: facts for key in keys.values() if (facts := _in_memory.get(key)) is not None}
    missing = {key: path for path, key in keys.items() if key not in by_key}
    if not missing:
        return by_key
    rows = OptionalRows(cache_dir() / "code-1.sqlite", "facts")
    try:
        by_key |= {key: _from_json(value) for key, value in rows.get(missing).items()}
        unsaved: dict[bytes, bytes] = {}
        for key, path in missing.items():
            loaded = grammar(grammar_name(path) or "") if key not in by_key else None
            if loaded is not None:
                facts = extracted(contents[path], language_of(path) or "", loaded)
                by_key[key] = replace(facts, doc=_plain_doc(contents[path])) if facts.left_out else facts
                unsaved[key] = _to_json(by_key[key])
            if len(unsaved) == _BATCH:
                rows.put(unsaved)
                unsaved = {}
        rows.put(unsaved)
    finally:
        rows.close()
    for key, path in missing.items():
        if by_key[key].left_out:
            _log.warning("%s is read as plain text, without its definitions: %s", one_line(path), by_key[key].left_out)
    return by_key


def _to_json(facts: CodeFacts) -> bytes:
    """All fields in order, records as lists."""
    definitions = [
        (d.name, d.kind, d.start, d.end, d.first_line, d.last_line, d.signature, d.doc) for d in facts.definitions
    ]
    imports = [(i.target, i.names, i.level, i.kind, i.line) for i in facts.imports]
    row = (facts.language, facts.doc, facts.package, definitions, imports, facts.references, facts.implements)
    return json.dumps([*row, facts.parsed, facts.left_out], ensure_ascii=False).encode("utf-8", "surrogatepass")


def _from_json(value: bytes) -> CodeFacts:
    row: list[Any] = json.loads(value.decode("utf-8", "surrogatepass"))
    language, doc, package, definitions, imports, references, implements, parsed, left_out = row
    return CodeFacts(
        language=language,
        doc=doc,
        package=package,
        definitions=tuple(CodeDefinition(*fields) for fields in definitions),
        imports=tuple(Import(target, tuple(names), *fields) for target, names, *fields in imports),
        references=tuple(references),
        implements=tuple((name, base) for name, base in implements),
        parsed=parsed,
        left_out=left_out,
    )
