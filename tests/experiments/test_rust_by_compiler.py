"""Which files of Rust import which, by the compiler itself; skipped where cargo is not there."""

from __future__ import annotations

import shutil

import pytest
import rust_by_compiler

from ctxbench.io.errors import StorageError
from ctxbench.search.code_imports import import_edges

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="the compiler is asked by cargo")
FILES = {
    "Cargo.toml": '[workspace]\nresolver = "2"\nmembers = ["low", "all", "app"]',
    "low/Cargo.toml": '[package]\nname = "my-low"\nversion = "1.0.0"\nedition = "2021"',
    "low/src/lib.rs": "pub mod deep;\npub mod value;\npub use value::value;\npub mod inner { pub mod leaf; }",
    "low/src/deep/mod.rs": '#[path = "odd_name.rs"]\npub mod odd;\npub mod far;\npub use far as near;',
    "low/src/deep/odd_name.rs": "pub struct Odd;\npub fn odd() -> String { format!(\"{}\", crate::inner::leaf::LEAF) }",
    "low/src/deep/far.rs": "pub fn far() { let _ = super::odd::Odd; }",
    "low/src/value.rs": "pub fn value() {}#[cfg(test)] mod tests { #[test] fn f() { super::super::deep::far::far() } }",
    "low/src/inner/leaf.rs": "pub const LEAF: u8 = 1;\npub fn value() { crate::value() }",
    "low/tests/whole.rs": "use my_low::deep::near::far;\n#[test] fn all() { far(); }",
    "all/Cargo.toml": (
        '[package]\nname = "all"\nversion = "1.0.0"\nedition = "2021"\n'
        '[dependencies]\nmy-low = { path = "../low" }'
    ),
    "all/src/lib.rs": "pub extern crate my_low as low;\npub fn own() {}",
    "app/Cargo.toml": (
        '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nall = { path = "../all" }'
    ),
    "app/src/main.rs": "mod log; use all::low::{deep, value}; fn main() { deep::far::far(); log::log(); all::own() }",
    "app/src/log.rs": "use std::fmt as low;\npub fn log() { let _ = low::Error; }",
}  # fmt: skip
EDGES = {
    "low/src/lib.rs": {"low/src/deep/mod.rs", "low/src/value.rs", "low/src/inner/leaf.rs"},
    "low/src/deep/mod.rs": {"low/src/deep/odd_name.rs", "low/src/deep/far.rs"},
    "low/src/deep/odd_name.rs": {"low/src/inner/leaf.rs"},
    "low/src/deep/far.rs": {"low/src/deep/odd_name.rs"},
    "low/src/value.rs": {"low/src/deep/far.rs"},
    "low/src/inner/leaf.rs": {"low/src/lib.rs"},  # a function has the name of a module
    "low/tests/whole.rs": {"low/src/deep/far.rs"},  # as `near`
    "all/src/lib.rs": {"low/src/lib.rs"},
    "app/src/main.rs": {
        *("app/src/log.rs", "all/src/lib.rs"),
        *("low/src/deep/mod.rs", "low/src/deep/far.rs", "low/src/value.rs"),  # through `all`
    },
}


@pytest.fixture
def workspace(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    return tmp_path


def test_imports_of_a_workspace():
    assert {path: set(found) for path, found in import_edges(FILES).items()} == EDGES


@needs_cargo
def test_the_compiler_finds_the_same(workspace):
    expected, got = rust_by_compiler.compared(workspace)
    assert expected == {(path, other) for path, found in EDGES.items() for other in found}
    assert got == expected


@needs_cargo
def test_what_cargo_refuses_is_said(workspace):
    (workspace / "app/src/log.rs").write_text("fn (", "utf-8")
    with pytest.raises(StorageError, match="cargo cannot check"):
        rust_by_compiler.compiled(workspace)
