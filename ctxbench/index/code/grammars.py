"""What of each language's syntax tree is a definition, a reference, a base or an import; and the parsers.

A query's captures say it: `def.KIND` a definition, `scope` what gives names inside it a prefix and is none itself (a
Rust `impl`), `ref` a name that is used, `cap` one that counts if it starts with a capital (`Class` of `Class.of()`),
`base` a base of the class around it, `import` a node that `code_extraction` reads, `package` what the file belongs to.
"""

from __future__ import annotations

import functools
import importlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxbench.core.installation import install_command
from ctxbench.index.code.code_records import TooComplexError
from ctxbench.index.code.languages import language_of

if TYPE_CHECKING:
    import tree_sitter

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

        Raises:
            TooComplexError: it takes too many steps.
        """
        import tree_sitter

        trial = _parsed_within_limits(text, self.language)
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


def _parsed_within_limits(text: bytes, language: tree_sitter.Language) -> tree_sitter.Tree:
    """The tree of a text that is read in chunks, as steps are counted of no other; its nodes cannot give their text.

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
        return tree_sitter.Parser(language).parse(read, progress_callback=is_too_much)
    except ValueError as error:  # it was stopped
        raise TooComplexError("it takes too long to parse") from error


def grammar_name(path: str) -> str | None:
    """The grammar for a file, a key of `GRAMMARS`; None where its language has none."""
    language = language_of(path)
    if language == "typescript" and path.casefold().endswith(".tsx"):
        return "tsx"
    return language if language in GRAMMARS else None


@functools.cache
def grammar_version(name: str) -> str | None:
    """A grammar's package and version, for keys of caches; None where it, or tree-sitter, is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # which takes a while to import

    distribution = GRAMMARS[name].distribution
    try:
        return f"{distribution} {version(distribution)}, tree-sitter {version('tree-sitter')}"
    except PackageNotFoundError:
        return None


@functools.cache
def grammar(name: str) -> Grammar | None:
    """A grammar, loaded once a process. One that is not installed is None, and is said once with what installs it."""
    source = GRAMMARS[name]
    try:
        import tree_sitter

        module = importlib.import_module(source.distribution.replace("-", "_"))
    except ImportError:
        _log.warning(
            "%s is not installed, so that no definitions and imports are read from files of %s: %s",
            *(source.distribution, name, install_command("code")),
        )
        return None
    language = tree_sitter.Language(getattr(module, source.function)())
    return Grammar(language, tree_sitter.Query(language, source.query))
