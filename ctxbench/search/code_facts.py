"""Definitions, references and imports of source files, and what kind of file a path is."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from ctxbench.io.cache import OptionalRows
from ctxbench.io.errors import Message, one_line
from ctxbench.io.files import cache_dir
from ctxbench.search.code_grammars import (
    ABOVE,
    COMMENTS,
    GRAMMARS,
    LONGEST_LINE,
    MOST_NAMES,
    CodeDefinition,
    CodeFacts,
    Grammar,
    Import,
    TooComplexError,
    grammar,
    grammar_name,
    grammar_version,
    is_minified,
    language_of,
    node_text,
    read_imports,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


_TEST_FOLDERS = {"test", "tests", "testing", "__tests__", "spec", "specs", "testdata", "fixtures"}
_TEST_NAME = re.compile(
    r"^(?:tests?|conftest)\.(?!in$|txt$|toml$|ini$|cfg$)[a-z]+$|^test_|[._-](?:test|tests|spec)\.[a-z]+$"
    r"|^\w+Tests?\.(?:java|kt|cs)$"
)
_MARKUP = {
    *(".md", ".mdx", ".markdown", ".mkd", ".rst", ".adoc", ".asciidoc", ".textile", ".pod", ".org", ".rdoc", ".rd"),
    *(".mld", ".cheatmd", ".texi", ".texinfo"),
}
_NO_PROSE = {"test", "tests", "testdata", "fixtures", "__tests__", "testthat", "_snaps", "templates", "template"}
"""Folders whose markup is input of tests, or what a generator writes."""
_DOCUMENT_FOLDER = re.compile(
    r"(?!(?:[^/]+/)*?(?:src|lib|app|public|tests?|spec|testdata|fixtures)/(?:[^/]+/)*(?:docs?|documentation)/)"
    r"(?:[^/]+/)*(?:docs?|documentation|man|vignettes)/",
    re.IGNORECASE,
)
_SITE_FOLDERS = {  # in a folder of documentation: what its pages are made with, and code that they show
    *("_includes", "_layouts", "_templates", "layouts", "partials", "templates", "theme", "themes", "views"),
    *("code", "examples", "fixtures", "test", "tests"),
}
_DOCUMENT_ENDINGS = {  # in a folder of documentation; all others there are code, configuration or data
    *("", ".txt", ".html", ".htm", ".xml", ".tex", ".rmd", ".qmd", ".ipynb", ".aml", ".rtf", ".pdf"),
    *(".svg", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".dot", ".puml", ".mmd", ".drawio", ".graphml", ".sxd"),
}
_BUILD_NAME = re.compile(
    r"^(?:.*file|build|workspace|cname|codeowners|(?:cmakelists|robots)\.txt|(?:pom|build)\.xml"
    r"|(?:.*[-_])?(?:requirements|constraints|wordlist)(?:[-_.].*)?)$",
    re.IGNORECASE,
)
_SCRIPT_FOLDERS = {"bin", "sbin", "libexec", "script", "scripts", "tools", "hooks"}
_LICENCE_NAME = r"(?:[\w-]+[-_])?licen[cs]es?|unlicense|copying|copyright|notices?"
_PROJECT_NAME = (
    rf"{_LICENCE_NAME}|readme|changelog|contributing|authors|contributors|maintainers|code[_-]of[_-]conduct|todo"
)
_PLAIN_NAME = (  # words that name code as well, so that nothing may stand behind them
    r"security|changes|history|news|releases?|release[_-](?:notes|announcements?)|upgrading|thanks|credits|install"
    r"|hacking|faq|bugs|roadmap|governance|support|patents|acknowledge?ments"
)
_LICENCE_WORD = (
    r"(?:(?:a|l)?gpl|apache|artistic|boost|bsd|cc0|epl|eupl|isc|lesser|lib|mit|mpl|ofl|openssl|psf|runtime|unlicense"
    r"|zlib|zpl|third[-_]?party|3rd[-_]?party|cc-by)(?:[-_]?v?\d+\+?)?(?:-[\w+-]+)?"
)
_PLATFORM = r"debian|fedora|linux|mac(?:os)?|osx|unix|vms|win(?:32|64|dows)?"
_DOCUMENT_NAME = re.compile(  # endings of code are in capitals, too: `.R`, `.C`, `.PL`, `.F90`
    rf"^(?:(?i:{_PROJECT_NAME})(?:[-_][\w+-]*)?"
    rf"(?:\.(?=[A-Z\d])(?i:{_LICENCE_WORD}|{_PLATFORM}|1st)|\.\d+\+?)*(?i:\.txt|\.rtf)?"
    rf"|(?i:readme|licen[cs]e)\.html?|(?i:{_PLAIN_NAME})(?i:\.txt)|(?=[A-Z])(?i:{_PLAIN_NAME})(?:-[\d.]+)?)$"
)
_LICENCE_TEXT = re.compile(rf"^{_LICENCE_WORD}(?:\.\d[\w+-]*)*$", re.IGNORECASE)  # `GPL-2.0-only`, `mit`
_MANUAL_PAGE = re.compile(r"^(?:(?:[^/]+/)*(?:man\d?|man-?pages|docs?)/)?[a-z][\w+-]*\.[1-8]$")  # or at the top
_FRAGMENT_FOLDERS = {"changelog", "changelog.d", "changelogs", "changes", "news", "newsfragments", ".changeset"}
_FRAGMENT = re.compile(  # of a changelog, as reno, antsibull and towncrier read them
    r"(?:^|/)(?:(?:changelogs?/(?:fragments|unreleased)|releasenotes/notes)/[^/]+\.ya?ml"
    r"|(?:changelog\.d|changes|news|newsfragments)/[^/]+"
    r"\.(?:break(?:ing)?|bugfix|deprecat(?:ed|ion)|doc|feature|misc|removal|security|trivial))$"
)
_LOCK_NAMES = {
    *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "bun.lockb", "go.sum", "gradle.lockfile"),
    *("pipfile.lock", "packages.lock.json"),
}
_GENERATED_NAME = re.compile(r"\.min\.(?:js|css)$|\.(?:map|snap)$|_pb2(?:_grpc)?\.pyi?$|\.pb\.go$|[._]generated\.\w+$")
_GENERATED_FOLDERS = {"generated", "__generated__", "__snapshots__", "dist"}
_GENERATED_MARK = re.compile(
    r"@generated\b|\bgenerated (?:by|from) .*do not edit|do not edit.*\bgenerated", re.IGNORECASE
)
_HEAD = 1_000  # characters in which a generated file says so


def is_test_path(path: str) -> bool:
    """Whether a file is of the tests, or what they read."""
    folders, name, _ = _split(path)
    return bool(_TEST_FOLDERS & folders or _TEST_NAME.search(name))


def is_document_path(path: str) -> bool:
    """Whether a file is read by people alone: documentation, changelogs and their fragments, the licence.

    Only endings of prose, markup and pictures can be documentation, so code, configuration and data of any language are
    not, whatever their stem and folder. Markup among tests or templates is not, unless its name is in capitals.
    """
    path = path.removesuffix(".in")  # configured at the build
    folders, name, ending = _split(path)
    in_documents = _DOCUMENT_FOLDER.match(path) is not None
    stem = name.partition(".")[0]
    in_capitals = stem.isupper() or stem.lower() == "readme"
    if ending in _MARKUP:
        return in_documents or in_capitals or not _NO_PROSE & folders
    if name.startswith(".") or _BUILD_NAME.match(name):
        return False
    if in_documents and not _SITE_FOLDERS & folders and (ending or not name.islower()):
        return ending in _DOCUMENT_ENDINGS or ending[1:].isdigit() or _DOCUMENT_NAME.match(name) is not None
    if (_FRAGMENT_FOLDERS & folders and (ending == ".txt" or name.isdigit())) or _FRAGMENT.search(path):
        return True
    if {"licenses", "licences"} & folders and (
        ending == ".txt" or ending[1:].isdigit() or _LICENCE_TEXT.match(name) or not (ending or name.islower())
    ):
        return True
    if not in_capitals and (_NO_PROSE if ending else _NO_PROSE | _SCRIPT_FOLDERS) & folders:
        return False
    return _DOCUMENT_NAME.match(name) is not None or _MANUAL_PAGE.match(path) is not None


def is_made_file(path: str, text: str = "") -> bool:
    """Whether a program writes a file, so that nobody edits it: a lock file, or one that is generated.

    Args:
        path: of the file.
        text: of the file; empty = only the path tells.
    """
    folders, name, ending = _split(path)
    name = name.lower()
    if name in _LOCK_NAMES or ending == ".lock" or _GENERATED_NAME.search(name) or _GENERATED_FOLDERS & folders:
        return True
    return is_made_text(text)


def is_made_text(text: str) -> bool:
    """Whether a file says at its head that a program writes it.

    Args:
        text: of the file.
    """
    head = text[:_HEAD]
    return "generated" in head.lower() and _GENERATED_MARK.search(head) is not None  # few heads have the word


def is_side_file(path: str, text: str = "") -> bool:
    """Whether a change takes a file along rather than being about it: for people alone, or written by a program."""
    return is_document_path(path) or is_made_file(path, text)


def _split(path: str) -> tuple[set[str], str, str]:
    """Folders in small letters, name, and its ending, likewise and with the dot; as `pathlib` has them, but faster."""
    *folders, name = path.split("/")
    dot = name.rfind(".")
    return {part.lower() for part in folders}, name, name[dot:].lower() if 0 < dot < len(name) - 1 else ""


if TYPE_CHECKING:
    Captures = dict[str, list[Node]]

_LONGEST = 300  # characters of a signature or a doc line
_SIGNATURE_BYTES = 20_000  # of which its characters are taken
_DEEPEST = 500  # definitions inside each other
_DEEPEST_NODES = 5 * _DEEPEST  # a definition is up to five nodes below the one around it
_MOST_UNFIT = 20_000  # pieces of a text that is no program at all
_FUNCTIONS = ("function", "method")
_WRAPPERS = (  # a definition that is all such a node holds begins where the node does
    *("decorated_definition", "export_statement", "expression_statement", "ambient_declaration"),
    *("lexical_declaration", "variable_declaration", "type_declaration", "const_declaration", "var_declaration"),
)
_MARKS = " \t\r\n/*!#;<>-="  # what a doc line begins or ends with and is none of its words
_QUOTES = re.compile(r"""^[a-zA-Z]*("{3}|'{3}|"|')|("{3}|'{3}|"|')$""")
_SPACE = re.compile(r"\s+")
_BRACKET = re.compile(r"(?<=[(\[]) |,? (?=[)\]])")
_LICENCE = re.compile(r"copyright|licen[cs]e|spdx|-\*-|^!|eslint|@ts-|^use strict", re.IGNORECASE)
_TYPE_NAME = re.compile(r"^[\s&*]*(?:dyn\s+)?(?:\w+(?:::|\.))*(\w+)")


def extracted(content: str, language: str, grammar: Grammar) -> CodeFacts:
    """The facts of a file's content, by its grammar. Where a part does not fit the grammar, those of the rest.

    A file that nests too deep or takes too long has none, and `left_out` says why.
    """
    try:
        return _facts(content, language, grammar)
    except TooComplexError as error:
        return CodeFacts(language, left_out=str(error))


def _facts(content: str, language: str, grammar: Grammar) -> CodeFacts:
    data = content.encode("utf-8", "surrogatepass")
    tree = grammar.parse(data)
    root = tree.root_node
    if root.type == "ERROR" and root.child_count > _MOST_UNFIT:  # a query's time grows with the square of these
        raise TooComplexError("it does not fit the grammar")
    if _is_deep(tree):
        raise TooComplexError(f"its code nests over {_DEEPEST} deep")
    captures = grammar.captures(root)
    scopes = _scopes(captures)
    name_starts = {scope.name_node.start_byte for scope in scopes if scope.name_node is not None}
    return CodeFacts(
        language=language,
        doc=_file_doc(root, language),
        package=next((node_text(node) for node in captures.get("package", ())), ""),
        definitions=_definitions(scopes, data, ascii_only=len(data) == len(content)),
        imports=tuple(read_imports(captures.get("import", ()), language, captures.get("def.module", ()))),
        references=_references(captures, name_starts),
        implements=_implements(captures, scopes),
        parsed=not root.has_error,
    )


def _is_deep(tree: Tree) -> bool:
    """Whether nodes nest over `_DEEPEST_NODES` deep. From one node to the next the depth grows by one at most."""
    cursor, last = tree.walk(), tree.root_node.descendant_count - 1
    node = 0
    while cursor.depth <= _DEEPEST_NODES:
        if node == last:
            return False
        node = min(node + _DEEPEST_NODES + 1 - cursor.depth, last)
        cursor.goto_descendant(node)
    return True


class _NamingNode:
    """A node that gives a name to the nodes inside it."""

    def __init__(self, kind: str, node: Node) -> None:
        self.kind, self.node = kind, node
        self.start, self.end = node.byte_range
        fields = ("type",) if kind == "scope" else ("name", "left", "key", "property")
        self.name_node = next(
            (child for field in fields if (child := node.child_by_field_name(field)) is not None), None
        )
        self.path = ""  # dotted; empty for what is left out

    @property
    def name(self) -> str:
        if self.name_node is None:
            return ""
        text = node_text(self.name_node).strip("\"'`")
        if self.kind == "scope":
            match = _TYPE_NAME.match(text)
            return match[1] if match else ""
        if self.node.type == "assignment_expression":  # `exports.a`, `A.prototype.b`
            text = text.removeprefix("module.").removeprefix("exports.").replace(".prototype.", ".")
            return text if re.fullmatch(r"[\w$.]+", text) else ""
        receiver = self.node.child_by_field_name("receiver")  # of a Go method
        if receiver is not None:
            match = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)$", node_text(receiver))
            return f"{match[1]}.{text}" if match else text
        return text


def _scopes(captures: Captures) -> list[_NamingNode]:
    """Definitions and scopes in order of place, each with its dotted name."""
    by_node: dict[tuple[int, int], _NamingNode] = {}
    for capture in sorted(captures, key=("def.constant", "def.class").__contains__):  # the more special first
        kind = "scope" if capture == "scope" else capture.removeprefix("def.")
        if kind != capture or kind == "scope":
            for node in captures[capture]:
                if node.byte_range not in by_node:
                    by_node[node.byte_range] = _NamingNode(kind, node)
    scopes = sorted(by_node.values(), key=lambda scope: (scope.start, -scope.end))
    outer: list[_NamingNode] = []
    n_characters = 0
    for scope in scopes:
        while outer and outer[-1].end <= scope.start:
            outer.pop()
        inside = outer[-1] if outer else None
        if inside is None or (inside.path and inside.kind not in _FUNCTIONS):
            name = scope.name
            scope.path = f"{inside.path}.{name}" if inside and name else name
            if scope.kind == "function" and "." in scope.path and (inside is None or inside.kind != "module"):
                scope.kind = "method"
        outer.append(scope)
        n_characters += len(scope.path)
        if len(outer) > _DEEPEST:
            raise TooComplexError(f"its code nests over {_DEEPEST} deep")
        if n_characters > MOST_NAMES:
            raise TooComplexError("the names of its definitions are too long")
    return scopes


def _definitions(scopes: list[_NamingNode], data: bytes, *, ascii_only: bool) -> tuple[CodeDefinition, ...]:
    character_at = int if ascii_only else _characters_at(data)
    occurrences: Counter[str] = Counter()
    definitions = []
    for scope in scopes:
        if not scope.path or scope.kind == "scope":
            continue
        occurrences[scope.path] += 1
        widened = _widened(scope.node)
        first, comments = _with_above(widened)
        definitions.append(
            CodeDefinition(
                name=scope.path if occurrences[scope.path] == 1 else f"{scope.path}#{occurrences[scope.path]}",
                kind=scope.kind,
                start=character_at(first.start_byte),
                end=character_at(widened.end_byte),
                first_line=first.start_point[0] + 1,
                last_line=widened.end_point[0] + (widened.end_point[1] > 0 or widened.end_byte == first.start_byte),
                signature=_signature(scope, widened, data),
                doc=_docstring(scope.node) or _comment_line(comments),
            )
        )
    return tuple(definitions)


def _characters_at(data: bytes) -> Callable[[int], int]:
    """What gives a place in characters for one in bytes."""
    import numpy as np

    begun = np.cumsum((np.frombuffer(data, np.uint8) & 0xC0) != 0x80)  # characters up to each byte
    return lambda byte: int(begun[byte - 1]) if byte else 0


def _widened(node: Node) -> Node:
    """The outermost node that contains only this one: decorators, `export`, `const`."""
    parent = node.parent
    while parent is not None and parent.type in _WRAPPERS:
        inner = [child for child in parent.named_children if child.type not in ABOVE]
        if parent.type != "expression_statement" and parent.type != "export_statement" and len(inner) > 1:
            break
        node, parent = parent, parent.parent
    return node


def _with_above(node: Node) -> tuple[Node, list[Node]]:
    """The first node of the attributes and comments directly above a node, and the comments among them."""
    first, comments = node, []
    above = node.prev_sibling
    while (
        above is not None
        and above.type in ABOVE
        and above.end_point[0] + (above.end_point[1] > 0) >= (first.start_point[0])
    ):
        if node_text(above).startswith(("//!", "/*!")):
            break  # of the file (Rust)
        before = above.prev_sibling
        if before is not None and before.end_point[0] == above.start_point[0] and before.end_point[1] > 0:
            break  # a comment behind code
        if above.type in COMMENTS:
            comments.append(above)
        first, above = above, before
    return first, comments[::-1]


def _signature(scope: _NamingNode, widened: Node, data: bytes) -> str:
    node = scope.node
    start = node.start_byte if widened.type == "decorated_definition" else widened.start_byte
    if scope.kind == "constant":
        end = min(widened.end_byte, start + _SIGNATURE_BYTES)
        return _line(data[start:end].decode("utf-8", "replace").strip().partition("\n")[0])
    body = node.child_by_field_name("body")
    for field in ("value", "right"):
        inner = node.child_by_field_name(field)
        if body is None and inner is not None:
            body = inner.child_by_field_name("body")
    end = min(widened.end_byte if body is None else body.start_byte, start + _SIGNATURE_BYTES)
    text = data[start:end].decode("utf-8", "replace")
    if body is None and scope.kind not in _FUNCTIONS:
        text = text.partition("{")[0]
    return _BRACKET.sub("", _line(text.rstrip().rstrip("{:;")))


def _line(text: str) -> str:
    """A text on one line, cut where it is long."""
    text = _SPACE.sub(" ", text).strip()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _first_words(lines: Iterable[str], *, but: re.Pattern[str] | None = None) -> str:
    """The first line that has a letter, without the marks of comments."""
    for line in lines:
        text = line.strip(_MARKS)
        if any(map(str.isalpha, text)) and not (but and but.search(text)):
            return _line(text)
    return ""


def _comment_line(comments: list[Node], but: re.Pattern[str] | None = None) -> str:
    return _first_words((line for comment in comments for line in node_text(comment).splitlines()), but=but)


def _docstring(node: Node) -> str:
    """The first line of the string that a body begins with (Python)."""
    body = node if node.type == "module" else node.child_by_field_name("body")
    first = (
        next((child for child in body.named_children if child.type != "comment"), None) if body is not None else None
    )
    inner = first.named_child(0) if first is not None and first.type == "expression_statement" else None
    if inner is None or inner.type != "string":
        return ""
    return _first_words(_QUOTES.sub("", node_text(inner)).splitlines())


def _file_doc(root: Node, language: str) -> str:
    if language == "python":
        return _docstring(root)
    top = []
    for node in root.children:
        if node.type in COMMENTS:
            top.append(node)
        elif node.type not in ("hash_bang_line", "package_clause") or top:
            break
    if any(_LICENCE.search(node_text(comment)) for comment in top[:1]):  # its lines go together
        block = [
            comment
            for comment, after in zip(top, [*top[1:], None], strict=True)
            if after is None or after.start_point[0] > comment.end_point[0] + 1  # a line lies between
        ]
        top = top[top.index(block[0]) + 1 :] if block else []
    return _comment_line(top, _LICENCE)


def _references(captures: Captures, name_starts: set[int]) -> tuple[str, ...]:
    """Names used, each once, by first use; the names that definitions have of themselves are none."""
    first: dict[str, int] = {}
    for capture in ("ref", "cap"):
        for node in captures.get(capture, ()):
            start = node.start_byte
            if start in name_starts:
                continue
            name = node_text(node)
            if (capture == "ref" or name[:1].isupper()) and start < first.get(name, start + 1):
                first[name] = start
    return tuple(sorted(first, key=first.__getitem__))


def _implements(captures: Captures, scopes: list[_NamingNode]) -> tuple[tuple[str, str], ...]:
    """(class, base) by place; the class is the nearest around its base."""
    classes = [scope for scope in scopes if scope.kind in ("class", "interface", "scope")][::-1]  # the first is last
    around: list[_NamingNode] = []
    pairs: dict[tuple[str, str], None] = {}
    for base in sorted(captures.get("base", ()), key=lambda node: node.start_byte):
        while classes and classes[-1].start <= base.start_byte:
            around.append(classes.pop())
            while len(around) > 1 and around[-2].end <= around[-1].start:
                del around[-2]
        while around and around[-1].end < base.end_byte:
            around.pop()
        if around and around[-1].path:
            pairs[around[-1].path, _line(node_text(base))] = None
    return tuple(pairs)


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
        return Message("search.line-too-long", most=LONGEST_LINE)
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
    with closing(OptionalRows(cache_dir() / "code-1.sqlite", "facts")) as rows:
        by_key |= {key: _from_json(value) for key, value in rows.get(missing).items()}
        unsaved: dict[bytes, bytes] = {}
        for key, path in missing.items():
            loaded = grammar(grammar_name(path) or "") if key not in by_key else None
            if loaded is not None:
                facts = extracted(contents[path], language_of(path) or "", loaded)
                by_key[key] = replace(facts, doc=_plain_doc(contents[path])) if facts.left_out else facts
                unsaved[key] = json.dumps(astuple(by_key[key]), ensure_ascii=False).encode("utf-8", "surrogatepass")
            if len(unsaved) == _BATCH:
                rows.put(unsaved)
                unsaved = {}
        rows.put(unsaved)
    for key, path in missing.items():
        if by_key[key].left_out:
            _log.warning("%s", Message("search.read-as-text", path=one_line(path), reason=by_key[key].left_out))
    return by_key


def _from_json(value: bytes) -> CodeFacts:
    """The facts in a row of the cache: all fields in order, records as lists."""
    language, doc, package, definitions, imports, references, implements, parsed, left_out = json.loads(
        value.decode("utf-8", "surrogatepass")
    )
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
