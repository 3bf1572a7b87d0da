"""The language of a file, by its name alone; and whether a program wrote its text, by its lines."""

from __future__ import annotations

LONGEST_LINE = 5_000
"""Characters of a line, beyond which a program wrote it."""
_BY_ENDING = """
python: py pyi pyw; rust: rs; typescript: ts tsx mts cts; javascript: js jsx mjs cjs; go: go; java: java
kotlin: kt kts; scala: scala sbt; groovy: groovy gradle; c: c h; cpp: cc cpp cxx hh hpp hxx; csharp: cs
ruby: rb gemspec rake; php: php; swift: swift; shell: sh bash zsh fish; powershell: ps1 psm1; sql: sql
html: html htm xhtml jinja j2; css: css scss sass less; vue: vue; svelte: svelte; markdown: md markdown mdx
restructuredtext: rst; text: txt; json: json jsonl jsonc json5 ipynb; yaml: yaml yml; toml: toml
ini: ini cfg conf properties; xml: xml xsd xsl svg; protobuf: proto; graphql: graphql gql; lua: lua; perl: pl pm
r: r; julia: jl; haskell: hs; elixir: ex exs; erlang: erl hrl; ocaml: ml mli; clojure: clj cljs cljc edn
dart: dart; zig: zig; nix: nix; terraform: tf hcl; cython: pyx pxd; csv: csv tsv; lock: lock
"""
_BY_NAME = """
make: makefile gnumakefile; docker: dockerfile containerfile; cmake: cmakelists.txt
toml: cargo.lock poetry.lock uv.lock pipfile; ruby: gemfile rakefile; groovy: jenkinsfile; gomod: go.mod
gosum: go.sum; text: license licence notice authors readme changelog changes
"""


def _table(text: str) -> dict[str, str]:
    """From each word behind a colon to what stands before it."""
    rows = (row.split(":") for line in text.splitlines() for row in line.split(";") if row)
    return {word: language.strip() for language, words in rows for word in words.split()}


_ENDINGS, _NAMES = _table(_BY_ENDING), _table(_BY_NAME)


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
    at = 0
    while len(text) - at > LONGEST_LINE:  # from window to window; to split the text would take twenty times as long
        end = text.rfind("\n", at, at + LONGEST_LINE + 1)
        if end < 0:
            return True
        at = end + 1
    return False
