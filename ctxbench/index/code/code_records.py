"""The records that code facts are made of. All are plain and frozen, and the same for every language."""

from __future__ import annotations

from dataclasses import dataclass

MOST_NAMES = 5_000_000
"""Characters of all names of a file's definitions, or of all its imports: each repeats the names around it."""


class TooComplexError(Exception):
    """A text whose facts would take too long to find; the message says why."""


@dataclass(frozen=True, slots=True)
class CodeDefinition:
    """A class, function, method or constant that a file defines; none that stands inside a function.

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
    """What one file says of itself.

    Attributes:
        language: by `language_of`; None where the file's name tells none.
        doc: the first line of the file's documentation: the module docstring, the comment at the top, a heading.
        package: what the file says it belongs to (Go, Java); else empty.
        definitions: by place.
        imports: by place.
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
