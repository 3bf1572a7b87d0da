"""Languages of source files, tree-sitter grammars and queries, and records of what they capture.

Captures of a query: `def.KIND` is a definition, `scope` gives names inside it a prefix without being a definition (a
Rust `impl`), `ref` is a name that is used, `cap` one that counts if it starts with a capital (`Class` of `Class.of()`),
`base` a base of the surrounding class, `import` a node that `ctxbench.search.code_facts` reads, `package` the package
of the file.
"""

from __future__ import annotations

import functools
import importlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxbench.io.errors import Message, install_command
from ctxbench.search.chunking import has_longer_piece

if TYPE_CHECKING:
    import tree_sitter
    from tree_sitter import Node


MOST_NAMES = 5_000_000
"""Characters of all names of a file's definitions, or of all its imports: each repeats the names around it."""


class TooComplexError(Exception):
    """A text whose facts would take too long to find; the message says why."""


@dataclass(frozen=True, slots=True)
class CodeDefinition:
    """A class, function, method or constant that a file defines, outside of functions.

    Attributes:
        name: dotted, from the outermost: `Class.method`; a Rust method by its `impl`'s type, one of Go by its
            receiver's. Unique in a file: a second of the same name (an overload, a setter) ends in `#2`.
        kind: `class` (also a struct, an enum), `interface` (also a trait), `function`, `method`, `constant`, `type`,
            `module` or `macro`.
        start: where it begins in the content, in characters, with its decorators and the comments directly above.
        end: behind its last character.
        first_line: of `start`, from 1.
        last_line: of its last character.
        signature: what it declares, without the body, on one line; of a constant its first line.
        doc: the first line of its documentation; empty where it has none.
    """

    name: str
    kind: str
    start: int
    end: int
    first_line: int
    last_line: int
    signature: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    """One thing that a file imports, as its language writes it; `import_edges` finds the files.

    Attributes:
        target: a module, path or package as written: `a.b`, `./lib/x`, `crate::a::b`, `example.com/mod/pkg`; in
            Python without the leading dots, so it may be empty.
        names: what is taken from it; empty where the whole is. `*` is all.
        level: of Python, the number of leading dots.
        kind: `import`, or where a language has several: `from` of Python, `require` of JavaScript, `static` of Java;
            of Rust `mod`, `path` (a `mod` whose file `names` has), `use` (`names` has the name that it gives), and
            `code`: a path in code, such as `crate::a::f()`, the first from each place.
        line: from 1.
    """

    target: str
    names: tuple[str, ...] = ()
    level: int = 0
    kind: str = "import"
    line: int = 0


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """The facts of one source file: language, definitions, imports, references.

    Attributes:
        language: by `language_of`; None where the file's name tells none.
        doc: the first line of the file's documentation: the module docstring, the comment at the top, a heading.
        package: what the file says it belongs to (Go, Java); else empty.
        definitions: by position.
        imports: by position.
        references: names that are called or used as types, each once, by first use.
        implements: (class, base) as written: bases, traits, interfaces.
        parsed: whether the whole file fits the language's grammar. False with definitions: what fits was read.
        left_out: why there are no facts beside `doc`: no grammar, too large, minified, too complex; empty where there
            are.
    """

    language: str | None
    doc: str = ""
    package: str = ""
    definitions: tuple[CodeDefinition, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[str, ...] = ()
    implements: tuple[tuple[str, str], ...] = ()
    parsed: bool = False
    left_out: str = ""


LONGEST_LINE = 5_000
"""Characters of a line, beyond which a program wrote it."""


def _table(text: str) -> dict[str, str]:
    """From each word behind a colon to what comes before it."""
    rows = (row.split(":") for line in text.splitlines() for row in line.split(";") if row)
    return {word: language.strip() for language, words in rows for word in words.split()}


_ENDINGS = _table("""
python: py pyi pyw; rust: rs; typescript: ts tsx mts cts; javascript: js jsx mjs cjs; go: go; java: java
kotlin: kt kts; scala: scala sbt; groovy: groovy gradle; c: c h; cpp: cc cpp cxx hh hpp hxx; csharp: cs
ruby: rb gemspec rake; php: php; swift: swift; shell: sh bash zsh fish; powershell: ps1 psm1; sql: sql
html: html htm xhtml jinja j2; css: css scss sass less; vue: vue; svelte: svelte; markdown: md markdown mdx
restructuredtext: rst; text: txt; json: json jsonl jsonc json5 ipynb; yaml: yaml yml; toml: toml
ini: ini cfg conf properties; xml: xml xsd xsl svg; protobuf: proto; graphql: graphql gql; lua: lua; perl: pl pm
r: r; julia: jl; haskell: hs; elixir: ex exs; erlang: erl hrl; ocaml: ml mli; clojure: clj cljs cljc edn
dart: dart; zig: zig; nix: nix; terraform: tf hcl; cython: pyx pxd; csv: csv tsv; lock: lock
""")
_NAMES = _table("""
make: makefile gnumakefile; docker: dockerfile containerfile; cmake: cmakelists.txt
toml: cargo.lock poetry.lock uv.lock pipfile; ruby: gemfile rakefile; groovy: jenkinsfile; gomod: go.mod
gosum: go.sum; text: license licence notice authors readme changelog changes
""")


def language_of(path: str) -> str | None:
    """The language of a file: `python`, `rust`, `typescript`, `markdown`, `toml` and so on.

    Args:
        path: with `/` between folders; only its last part counts, and its case does not.

    Returns:
        By the whole name where that tells (`Makefile`, `go.mod`), else by the ending; None where neither is known.
        Declarations (`.pyi`, `.d.ts`) are of the language they declare for.
    """
    name = path.rpartition("/")[2].casefold()
    stem, dot, ending = name.rpartition(".")
    return _NAMES.get(name) or (_ENDINGS.get(ending) if dot and stem else None)


def is_minified(text: str) -> bool:
    """Whether a text has a line of over 5,000 characters, which only programs write."""
    return has_longer_piece(text, "\n", LONGEST_LINE)


_log = logging.getLogger(__name__)
# What one text may cost: 1 to 2 s, counted in steps, so that the result depends on the text alone. A file of 1 MB that
# fits its grammar takes up to a half of `_MOST_STEPS` and 80 reads.
_MOST_STEPS = 20_000  # of the parser, in hundreds
_CHUNK = 16_384  # bytes that the parser reads at once
_MOST_READS = 5_000  # an unclosed comment is read to its end from each place where it could begin
_MOST_MATCHES = 10_000  # of a query that are unfinished at one time; its time grows with the square of them

_PYTHON = """
(class_definition) @def.class
(function_definition) @def.function
(module (expression_statement (assignment left: (identifier)) @def.constant))
(type_alias_statement) @def.type
(class_definition superclasses: (argument_list [(identifier) (attribute) (subscript)] @base))
(call function: [(identifier) @ref (attribute attribute: (identifier) @ref)])
(type (identifier) @ref)
(type (attribute attribute: (identifier) @ref))
(type (binary_operator (identifier) @ref))
(type (generic_type (identifier) @ref))
(class_definition superclasses: (argument_list [(identifier) @ref (attribute attribute: (identifier) @ref)]))
(decorator [(identifier) @ref (attribute attribute: (identifier) @ref)])
(attribute object: (identifier) @cap)
(except_clause (identifier) @ref)
(except_clause value: (identifier) @ref)
[(import_statement) (import_from_statement)] @import
"""
_RUST = """
[(struct_item) (enum_item) (union_item)] @def.class
(trait_item) @def.interface
(type_item) @def.type
(mod_item body: (_)) @def.module
[(function_item) (function_signature_item)] @def.function
[(const_item) (static_item)] @def.constant
(macro_definition) @def.macro
(impl_item) @scope
(impl_item trait: (_) @base)
(trait_item bounds: (trait_bounds (_) @base))
(call_expression function: [
  (identifier) @ref (field_expression field: (field_identifier) @ref) (scoped_identifier name: (identifier) @ref)])
(generic_function function: [
  (identifier) @ref (field_expression field: (field_identifier) @ref) (scoped_identifier name: (identifier) @ref)])
(macro_invocation macro: (identifier) @ref)
(scoped_identifier path: (identifier) @cap)
(type_identifier) @ref
[(use_declaration) (mod_item) (extern_crate_declaration)] @import
(scoped_identifier path: [(crate) (super) (self)]) @import
(scoped_type_identifier path: [(crate) (super) (self)]) @import
((scoped_identifier path: (identifier) @first) @import (#match? @first "^[a-z_]"))
((scoped_type_identifier path: (identifier) @first) @import (#match? @first "^[a-z_]"))
(macro_invocation (token_tree) @import)
"""
_SCRIPT = """
(class_declaration) @def.class
[(function_declaration) (generator_function_declaration) (method_definition)] @def.function
(variable_declarator value: [(arrow_function) (function_expression) (generator_function)]) @def.function
(assignment_expression left: (member_expression)
  right: [(arrow_function) (function_expression) (generator_function)]) @def.function
(assignment_expression left: (member_expression) right: (class)) @def.class
(variable_declarator value: (class)) @def.class
(pair key: (property_identifier) value: [(arrow_function) (function_expression)]) @def.function
(program (lexical_declaration (variable_declarator name: (identifier)) @def.constant))
(program (variable_declaration (variable_declarator name: (identifier)) @def.constant))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier)) @def.constant)))
(call_expression function: [(identifier) @ref (member_expression property: (property_identifier) @ref)])
(new_expression constructor: [(identifier) @ref (member_expression property: (property_identifier) @ref)])
(member_expression object: (identifier) @cap)
[(import_statement) (export_statement source: (_))] @import
(call_expression function: [(identifier) (import)] arguments: (arguments . (string) .)) @import
"""
_JSX = """
(jsx_opening_element name: (identifier) @cap)
(jsx_self_closing_element name: (identifier) @cap)
"""
_JAVASCRIPT = f"""
{_SCRIPT}
{_JSX}
(class_heritage (_) @base)
(class_heritage (identifier) @ref)
(field_definition property: (_) value: [(arrow_function) (function_expression)]) @def.function
"""
_TYPESCRIPT = f"""
{_SCRIPT}
(abstract_class_declaration) @def.class
(interface_declaration) @def.interface
(enum_declaration) @def.class
(type_alias_declaration) @def.type
[(internal_module) (module)] @def.module
[(function_signature) (abstract_method_signature)] @def.function
(public_field_definition value: [(arrow_function) (function_expression)]) @def.function
(extends_clause value: (_) @base)
(extends_clause value: (identifier) @ref)
(implements_clause (_) @base)
(extends_type_clause type: (_) @base)
(type_identifier) @ref
"""
_GO = """
(type_spec) @def.class
(type_spec type: (interface_type)) @def.interface
(type_alias) @def.type
[(function_declaration) (method_declaration)] @def.function
(source_file (const_declaration (const_spec) @def.constant))
(source_file (var_declaration (var_spec) @def.constant))
(source_file (var_declaration (var_spec_list (var_spec) @def.constant)))
(call_expression function: [(identifier) @ref (selector_expression field: (field_identifier) @ref)])
(type_identifier) @ref
(field_declaration !name type: (_) @base)
(type_elem (type_identifier) @base)
(import_spec) @import
(package_clause (package_identifier) @package)
"""
_JAVA = """
[(class_declaration) (enum_declaration) (record_declaration)] @def.class
[(interface_declaration) (annotation_type_declaration)] @def.interface
[(method_declaration) (constructor_declaration) (compact_constructor_declaration)] @def.function
(superclass (_) @base)
(super_interfaces (type_list (_) @base))
(extends_interfaces (type_list (_) @base))
(method_invocation name: (identifier) @ref)
(method_invocation object: (identifier) @cap)
(field_access object: (identifier) @cap)
(type_identifier) @ref
(annotation name: (identifier) @ref)
(marker_annotation name: (identifier) @ref)
(import_declaration) @import
(package_declaration [(identifier) (scoped_identifier)] @package)
"""


@dataclass(frozen=True, slots=True)
class GrammarSource:
    """Where a grammar comes from, and its query.

    Attributes:
        distribution: what is installed, such as `tree-sitter-python`.
        function: which function of its module gives the grammar.
        query: the captures, as the module's docstring says.
    """

    distribution: str
    query: str
    function: str = "language"


GRAMMARS = {
    "python": GrammarSource("tree-sitter-python", _PYTHON),
    "rust": GrammarSource("tree-sitter-rust", _RUST),
    "javascript": GrammarSource("tree-sitter-javascript", _JAVASCRIPT),
    "typescript": GrammarSource("tree-sitter-typescript", _TYPESCRIPT, "language_typescript"),
    "tsx": GrammarSource("tree-sitter-typescript", _TYPESCRIPT + _JSX, "language_tsx"),
    "go": GrammarSource("tree-sitter-go", _GO),
    "java": GrammarSource("tree-sitter-java", _JAVA),
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """A loaded grammar. A parser and a cursor hold a state, so that each call has its own."""

    language: tree_sitter.Language
    query: tree_sitter.Query

    def parse(self, text: bytes) -> tree_sitter.Tree:
        """The tree of a text in UTF-8.

        It is first read in chunks, as steps are counted of no other text; nodes of that tree cannot give their text.

        Raises:
            TooComplexError: it takes too many steps or reads.
        """
        import tree_sitter

        n_reads = n_steps = 0

        def read(offset: int, _: object) -> bytes:
            nonlocal n_reads
            n_reads += 1
            return text[offset : offset + _CHUNK]

        def is_too_much(_: int, __: bool) -> bool:
            nonlocal n_steps
            n_steps += 1
            return n_steps > _MOST_STEPS or n_reads > _MOST_READS

        try:
            trial = tree_sitter.Parser(self.language).parse(read, progress_callback=is_too_much)
        except ValueError as error:  # it was stopped
            raise TooComplexError("it takes too long to parse") from error
        parser = tree_sitter.Parser(self.language)
        return parser.parse(text) if trial.root_node.has_error else parser.parse(text, trial)  # which reuses all of it

    def captures(self, node: tree_sitter.Node) -> dict[str, list[tree_sitter.Node]]:
        """A node's captures by name.

        Raises:
            TooComplexError: finding them takes too many steps.
        """
        import tree_sitter

        cursor = tree_sitter.QueryCursor(self.query, match_limit=_MOST_MATCHES)
        captures = cursor.captures(node)
        if cursor.did_exceed_match_limit:
            raise TooComplexError("it takes too long to search for definitions")
        return captures


def grammar_name(path: str) -> str | None:
    """The grammar for a file, a key of `GRAMMARS`; None where its language has none."""
    language = language_of(path)
    if language == "typescript" and path.casefold().endswith(".tsx"):
        return "tsx"
    return language if language in GRAMMARS else None


@functools.cache
def grammar_version(name: str) -> str | None:
    """A grammar's package and version, for cache keys; None if it or tree-sitter is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # which takes a while to import

    distribution = GRAMMARS[name].distribution
    try:
        return f"{distribution} {version(distribution)}, tree-sitter {version('tree-sitter')}"
    except PackageNotFoundError:
        return None


@functools.cache
def grammar(name: str) -> Grammar | None:
    """A grammar, loaded once per process; None if it is not installed, with one warning that names the extra."""
    source = GRAMMARS[name]
    try:
        import tree_sitter

        module = importlib.import_module(source.distribution.replace("-", "_"))
    except ImportError:
        message = Message(
            "search.no-grammar", package=source.distribution, language=name, command=install_command("code")
        )
        _log.warning("%s", message)
        return None
    language = tree_sitter.Language(getattr(module, source.function)())
    return Grammar(language, tree_sitter.Query(language, source.query))


COMMENTS = ("comment", "line_comment", "block_comment")
"""Kinds of nodes that are comments, in all grammars."""
ABOVE = (*COMMENTS, "attribute_item", "decorator")
"""Kinds of nodes above a definition that belong to it."""
_SPACE = re.compile(r"\s+")
_PATH_IN_TOKENS = re.compile(r"(?<![\w:.$])[a-z_]\w*(?:\s*::\s*\w+)+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+("?)')  # also one that is not closed, in which no other can begin
_PATH = re.compile(r'^#\[path\s*=\s*"([^"]+)"')


def node_text(node: Node | None) -> str:
    """The source of a node; empty for none."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def read_imports(nodes: Iterable[Node], language: str, modules: Iterable[Node] = ()) -> Iterator[Import]:
    """The imports in some nodes of a syntax tree, by position.

    Args:
        nodes: what a query captured as imports.
        language: of the tree.
        modules: the nodes of inline modules, which paths of Rust are relative to.

    Raises:
        TooComplexError: paths are too long.
    """
    readers: dict[str, Callable[[Node, int], Iterator[Import]]] = {
        "python": _python_import,
        "rust": _RustImports(modules),
        "go": _go_import,
        "java": _java_import,
    }
    read = readers.get(language, _script_import)
    targets = set()
    n_characters = 0
    for node in sorted(nodes, key=lambda node: node.start_byte):
        for statement in read(node, node.start_point[0] + 1):
            n_characters += len(statement.target)
            if n_characters > MOST_NAMES:
                raise TooComplexError("the paths of its imports are too long")
            if statement.kind != "code" or statement.target not in targets:  # of what code says many times the first
                yield statement
            targets.add(statement.target)


def _python_import(node: Node, line: int) -> Iterator[Import]:
    names = [child.child_by_field_name("name") or child for child in node.children_by_field_name("name")]
    if node.type == "import_statement":
        yield from (Import(node_text(name), line=line) for name in names)
        return
    module = node.child_by_field_name("module_name")
    target = _SPACE.sub("", node_text(module)) if module is not None else ""
    is_wildcard = any(child.type == "wildcard_import" for child in node.named_children)
    imported = ("*",) if is_wildcard else tuple(node_text(name) for name in names)
    yield Import(target.lstrip("."), imported, len(target) - len(target.lstrip(".")), "from", line)


def _script_import(node: Node, line: int) -> Iterator[Import]:
    source = node.child_by_field_name("source")
    kind, names = "import", list[str]()
    if node.type == "call_expression":
        called = node_text(node.child_by_field_name("function"))
        if called not in ("require", "import"):
            return
        kind, arguments = called, node.child_by_field_name("arguments")
        source = arguments.named_child(0) if arguments is not None else None
    for clause in node.named_children if node.type != "call_expression" else ():
        if clause.type == "import_require_clause":
            source = clause.child_by_field_name("source")
        for child in clause.named_children:
            if child.type == "named_imports":
                names += [
                    node_text(name)
                    for specifier in child.named_children
                    if (name := specifier.child_by_field_name("name"))
                ]
            elif child.type in ("export_specifier", "identifier"):
                names.append(node_text(child.child_by_field_name("name") or child) if "_" in child.type else "default")
            elif child.type == "namespace_import":
                names.append("*")
    if source is not None:
        yield Import(node_text(source)[1:-1], tuple(names), kind=kind, line=line)


def _go_import(node: Node, line: int) -> Iterator[Import]:
    if (path := node.child_by_field_name("path")) is not None:
        yield Import(node_text(path)[1:-1], line=line)


def _java_import(node: Node, line: int) -> Iterator[Import]:
    text = "".join(
        node_text(child) for child in node.named_children if child.type in ("identifier", "scoped_identifier")
    )
    wildcard = ("*",) if any(child.type == "asterisk" for child in node.named_children) else ()
    static = any(child.type == "static" for child in node.children)
    yield Import(text, wildcard, kind="static" if static else "import", line=line)


class _RustImports:
    """Reads the imports of a Rust file from its nodes in order, so that no node looks up all its parents.

    Args:
        modules: the nodes of inline modules.
    """

    def __init__(self, modules: Iterable[Node]) -> None:
        self._modules = sorted(modules, key=lambda node: node.start_byte, reverse=True)  # the first is last
        self._around: list[tuple[int, str]] = []  # the end and the name of each module around a node
        self._use_end = 0  # of the last `use`

    def __call__(self, node: Node, line: int) -> Iterator[Import]:
        """The imports that a node is."""
        inside = self._inside(node)
        if node.type == "token_tree":  # what a macro is called with is no syntax yet
            tokens = _STRING.sub(lambda string: "" if string[1] else string[0], node_text(node))  # without strings
            yield from (_rust_code(path, line, inside) for path in _PATH_IN_TOKENS.findall(tokens))
        elif node.type in ("scoped_identifier", "scoped_type_identifier"):  # `crate::a::f()` in code
            if node.start_byte >= self._use_end and (path := _rust_path(node)):
                yield _rust_code(path, line, inside)
        elif node.type == "mod_item":
            if node.child_by_field_name("body") is None:
                name = "::".join([*inside, node_text(node.child_by_field_name("name"))])
                file = next((match[1] for text in _attributes(node) if (match := _PATH.search(text))), "")
                yield Import(name, (file,) if file else (), kind="path" if file else "mod", line=line)
        elif node.type == "extern_crate_declaration":
            name = node_text(node.child_by_field_name("name"))
            yield Import(name, (node_text(node.child_by_field_name("alias")) or name,), kind="use", line=line)
        else:
            self._use_end = node.end_byte
            argument = node.child_by_field_name("argument")
            for written, alias in _use_paths(argument) if argument is not None else ():
                path = written.removesuffix("::self")
                name = alias or path.rpartition("::")[2]
                yield Import(_without_inline(path, inside), (name,), kind="use", line=line)

    def _inside(self, node: Node) -> list[str]:
        """The names of the inline modules around a node, from the outermost."""
        start = node.start_byte
        while self._modules and self._modules[-1].start_byte < start:
            module = self._modules.pop()
            self._leave(module.start_byte)
            self._around.append((module.end_byte, node_text(module.child_by_field_name("name"))))
        self._leave(start)
        return [name for _, name in self._around]

    def _leave(self, start: int) -> None:
        while self._around and self._around[-1][0] <= start:
            self._around.pop()


def _rust_path(node: Node) -> str:
    """The whole path that begins with a node; empty for one that says where a name is visible."""
    outermost, parent = node, node.parent
    while parent is not None and parent.type in ("scoped_identifier", "scoped_type_identifier", "generic_type"):
        outermost, parent = parent, parent.parent
    if parent is not None and parent.type == "visibility_modifier":
        return ""
    return node_text(outermost).partition("<")[0].strip().removesuffix("::")


def _rust_code(path: str, line: int, inside: list[str]) -> Import:
    """The import that a path in code is; its last name is no module."""
    before, _, name = _SPACE.sub("", path).rpartition("::")
    return Import(_without_inline(before, inside), (name,), kind="code", line=line)


def _without_inline(path: str, inside: list[str]) -> str:
    """A path relative to the file: `super::x` in an inline module is `self::x` of the file."""
    parts, up = path.split("::"), [*inside]
    if parts[0] not in ("self", "super") or not inside:
        return path
    parts = parts[parts[0] == "self" :]
    while parts and parts[0] == "super" and up:
        parts, up = parts[1:], up[:-1]
    start = [] if parts and parts[0] == "super" else ["self"]
    return "::".join([*start, *up, *parts])


def _attributes(node: Node) -> Iterator[str]:
    above = node.prev_sibling
    while above is not None and above.type in ABOVE:
        yield node_text(above)
        above = above.prev_sibling


def _use_paths(node: Node) -> Iterator[tuple[str, str]]:
    """All paths of a `use` tree, each with the name that `as` gives it: `a::{b as x, c::*}` is `a::b` and `a::c::*`."""
    waiting = [(node, "")]
    while waiting:
        node, start = waiting.pop()
        if node.type == "use_list":
            waiting += [(child, start) for child in reversed(node.named_children)]
        elif node.type == "scoped_use_list":
            before, inner = node.child_by_field_name("path"), node.child_by_field_name("list")
            if inner is not None:
                waiting.append((inner, f"{start}{node_text(before)}::" if before is not None else start))
        elif node.type == "use_as_clause":
            path, alias = (node_text(node.child_by_field_name(field)) for field in ("path", "alias"))
            yield start + path, alias
        elif node.type not in COMMENTS:
            yield start + _SPACE.sub("", node_text(node)).removeprefix("::"), ""
