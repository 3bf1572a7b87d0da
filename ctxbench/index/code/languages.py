"""The language of a file, by its name alone."""

from __future__ import annotations

_BY_ENDING = {
    "python": "py pyi pyw",
    "rust": "rs",
    "typescript": "ts tsx mts cts",
    "javascript": "js jsx mjs cjs",
    "go": "go",
    "java": "java",
    "kotlin": "kt kts",
    "scala": "scala sbt",
    "groovy": "groovy gradle",
    "c": "c h",
    "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs",
    "ruby": "rb gemspec rake",
    "php": "php",
    "swift": "swift",
    "shell": "sh bash zsh fish",
    "powershell": "ps1 psm1",
    "sql": "sql",
    "html": "html htm xhtml jinja j2",
    "css": "css scss sass less",
    "vue": "vue",
    "svelte": "svelte",
    "markdown": "md markdown mdx",
    "restructuredtext": "rst",
    "text": "txt",
    "json": "json jsonl jsonc json5 ipynb",
    "yaml": "yaml yml",
    "toml": "toml",
    "ini": "ini cfg conf properties",
    "xml": "xml xsd xsl svg",
    "protobuf": "proto",
    "graphql": "graphql gql",
    "lua": "lua",
    "perl": "pl pm",
    "r": "r",
    "julia": "jl",
    "haskell": "hs",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "ocaml": "ml mli",
    "clojure": "clj cljs cljc edn",
    "dart": "dart",
    "zig": "zig",
    "nix": "nix",
    "terraform": "tf hcl",
    "cython": "pyx pxd",
    "csv": "csv tsv",
    "lock": "lock",
}
_BY_NAME = {
    "makefile": "make",
    "gnumakefile": "make",
    "dockerfile": "docker",
    "containerfile": "docker",
    "cmakelists.txt": "cmake",
    "cargo.lock": "toml",
    "poetry.lock": "toml",
    "uv.lock": "toml",
    "pipfile": "toml",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "jenkinsfile": "groovy",
    "go.mod": "gomod",
    "go.sum": "gosum",
    "license": "text",
    "licence": "text",
    "notice": "text",
    "authors": "text",
    "readme": "text",
    "changelog": "text",
    "changes": "text",
}
_ENDINGS = {ending: language for language, endings in _BY_ENDING.items() for ending in endings.split()}


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
    return _BY_NAME.get(name) or (_ENDINGS.get(ending) if dot and stem else None)
