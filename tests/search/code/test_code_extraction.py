"""Definitions, references and bases of small files in each language, all written out here."""

import ast
from pathlib import Path

import pytest

from ctxbench.search.code_facts import all_code_facts, code_facts

PACKAGE = Path(__file__).parents[3] / "ctxbench"

PYTHON = '''"""What it is for.

More.
"""

LIMIT = 3


# Why it is there.
@register("x")
class Finder(Base, mod.Other[int]):
    """Finds.

    And more.
    """

    def find(self, name: str, *, limit: int = 3) -> Found:
        """By name."""

        def inner(): ...

        return self.look(Entry.of(name))

    @property
    def size(self): ...

    @size.setter
    def size(self, value): ...


async def later(
    a,
    b,
):
    await go()
'''
RUST = """//! What it is for.

/// A thing.
#[derive(Debug)]
pub struct Thing<T> where T: Bound { a: u32 }

impl<T> fmt::Display for Thing<T> {
    /// Makes.
    pub fn new(a: u32) -> Self { helper(a); Bar::of(a) }
}

pub trait Quack: Base { fn quack(&self); }

mod inner { pub fn f() { fn g() {} } }

const LIMIT: u8 = 1;
macro_rules! twice { () => {} }
"""
TYPESCRIPT = """// Copyright somebody
// All of it.

/** What it is for. */
import React from "react";

export default abstract class Foo<T> extends Base implements I, J {
  private go = () => { run(); };
  async load(a: number): Promise<Bar> { return new Baz(); }
}
export interface Shape extends Form { a: string }
/** Adds. */
export const add = async (x: X) => { function inner() {} };
export type Name = { a: string };
export enum Colour { Red }
namespace Space { export function g() {} }
"""
JAVASCRIPT = """'use strict'
var app = exports = module.exports = {};
app.use = function use(fn) { next(fn); };
Thing.prototype.bar = function () {};
module.exports.baz = () => 1;
class A extends B.C { static m() {} }
exports.X = class {};
const api = { open() {} };
"""
GO = """// Package gin serves.
package gin

import "fmt"

// Engine runs.
type Engine struct {
	RouterGroup
	a int
}
type (
	Shape interface{ Form; Area() float64 }
	Count int
)

func (e *Engine) Run(a ...string) (err error) { fmt.Println(x.Do()); return }
func (s Stack[T]) Pop() {}
func New() *Engine { return &Engine{} }

const Version = "1"
"""
JAVA = """package com.x;

/** A thing. */
@Deprecated
public class A<T> extends B<T> implements C, D {
    public A() {}
    @Override public int m(List<T> x) { return U.g(x); }
    int m() { return 1; }
    interface In {}
}
"""


def named(facts):
    return [(one.name, one.kind) for one in facts.definitions]


def test_python():
    facts = code_facts("a.py", PYTHON)
    assert named(facts) == [
        ("LIMIT", "constant"),
        ("Finder", "class"),
        ("Finder.find", "method"),
        ("Finder.size", "method"),
        ("Finder.size#2", "method"),
        ("later", "function"),
    ]
    limit, finder, find, size, _, later = facts.definitions
    assert PYTHON[finder.start :].startswith("# Why it is there.\n@register")
    assert (finder.first_line, finder.last_line) == (9, 28)
    assert PYTHON[find.start : find.end].endswith("Entry.of(name))")
    assert PYTHON[size.start : size.end] == "@property\n    def size(self): ..."
    assert limit.signature == "LIMIT = 3"
    assert finder.signature == "class Finder(Base, mod.Other[int])"
    assert find.signature == "def find(self, name: str, *, limit: int = 3) -> Found"
    assert later.signature == "async def later(a, b)"
    assert (facts.doc, finder.doc, find.doc) == ("What it is for.", "Finds.", "By name.")
    assert facts.implements == (("Finder", "Base"), ("Finder", "mod.Other[int]"))
    assert facts.references == (
        *("register", "Base", "str", "int", "Found", "look", "Entry", "of", "property", "setter", "go"),
    )
    assert facts.parsed
    assert not facts.left_out


def test_rust():
    facts = code_facts("src/lib.rs", RUST)
    assert named(facts) == [
        ("Thing", "class"),
        ("Thing.new", "method"),
        ("Quack", "interface"),
        ("Quack.quack", "method"),
        ("inner", "module"),
        ("inner.f", "function"),
        ("LIMIT", "constant"),
        ("twice", "macro"),
    ]
    thing, new = facts.definitions[:2]
    assert RUST[thing.start : thing.end].startswith("/// A thing.\n#[derive(Debug)]\npub struct")
    assert thing.signature == "pub struct Thing<T> where T: Bound"
    assert (facts.doc, thing.doc, new.doc) == ("What it is for.", "A thing.", "Makes.")
    assert facts.implements == (("Thing", "fmt::Display"), ("Quack", "Base"))
    assert {"helper", "Bar", "of", "Bound"} <= set(facts.references)


def test_typescript():
    facts = code_facts("a.tsx", TYPESCRIPT)
    assert named(facts) == [
        ("Foo", "class"),
        ("Foo.go", "method"),
        ("Foo.load", "method"),
        ("Shape", "interface"),
        ("add", "function"),
        ("Name", "type"),
        ("Colour", "class"),
        ("Space", "module"),
        ("Space.g", "function"),
    ]
    foo, _, load, _, add = facts.definitions[:5]
    assert foo.signature == "export default abstract class Foo<T> extends Base implements I, J"
    assert load.signature == "async load(a: number): Promise<Bar>"
    assert TYPESCRIPT[add.start :].startswith("/** Adds. */\nexport const add")
    assert (facts.doc, add.doc, add.signature) == ("What it is for.", "Adds.", "export const add = async (x: X) =>")
    assert facts.implements == (("Foo", "Base"), ("Foo", "I"), ("Foo", "J"), ("Shape", "Form"))
    assert facts.references == ("T", "Base", "I", "J", "run", "Promise", "Bar", "Baz", "Form", "X")
    assert facts.language == "typescript"


def test_javascript():
    facts = code_facts("lib/a.js", JAVASCRIPT)
    assert named(facts) == [
        ("app", "constant"),
        ("app.use", "method"),
        ("Thing.bar", "method"),
        ("baz", "function"),
        ("A", "class"),
        ("A.m", "method"),
        ("X", "class"),
        ("api", "constant"),
        ("api.open", "method"),
    ]
    assert facts.implements == (("A", "B.C"),)
    assert facts.definitions[1].signature == "app.use = function use(fn)"


def test_go():
    facts = code_facts("gin.go", GO)
    assert named(facts) == [
        ("Engine", "class"),
        ("Shape", "interface"),
        ("Count", "class"),
        ("Engine.Run", "method"),
        ("Stack.Pop", "method"),
        ("New", "function"),
        ("Version", "constant"),
    ]
    engine, _, _, run = facts.definitions[:4]
    assert (engine.signature, engine.doc) == ("type Engine struct", "Engine runs.")
    assert run.signature == "func (e *Engine) Run(a ...string) (err error)"
    assert (facts.package, facts.doc) == ("gin", "Package gin serves.")
    assert facts.implements == (("Engine", "RouterGroup"), ("Shape", "Form"))


def test_java():
    facts = code_facts("A.java", JAVA)
    assert named(facts) == [
        ("A", "class"),
        ("A.A", "method"),
        ("A.m", "method"),
        ("A.m#2", "method"),
        ("A.In", "interface"),
    ]
    assert facts.package == "com.x"
    assert facts.implements == (("A", "B<T>"), ("A", "C"), ("A", "D"))
    assert {"List", "U", "g"} <= set(facts.references)
    assert facts.definitions[0].doc == "A thing."


def test_places_are_in_characters():
    text = "# é 🎉\nx = 'ü'\n\n\ndef naïve():\n    return '🎉'\n"
    x, naive = code_facts("a.py", text).definitions
    assert text[x.start : x.end] == "# é 🎉\nx = 'ü'"
    assert text[naive.start : naive.end] == "def naïve():\n    return '🎉'"
    assert (naive.first_line, naive.last_line) == (5, 6)


def test_a_comment_behind_code_is_not_above_the_next_definition():
    text = "x = 1  # of x\ndef f(): ...\n"
    assert code_facts("a.py", text).definitions[1].first_line == 2


def test_what_fits_the_grammar_counts_beside_what_does_not():
    facts = code_facts("a.py", "def good(): ...\n\nclass (:\n\ndef fine(): ...\n")
    assert [one.name for one in facts.definitions if one.kind == "function"] == ["good", "fine"]
    assert not facts.parsed


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", PYTHON),
        ("a.rs", RUST),
        ("a.ts", TYPESCRIPT),
        ("a.tsx", TYPESCRIPT),
        ("a.js", JAVASCRIPT),
        ("a.go", GO),
        ("A.java", JAVA),
    ],
)
def test_a_text_that_ends_anywhere_has_facts_of_what_is_there(path, text):
    cut = {f"{end}/{path}": text[:end] for end in range(0, len(text), 5)}
    for name, facts in all_code_facts(cut).items():
        names = [one.name for one in facts.definitions]
        assert len(set(names)) == len(names)
        for one in facts.definitions:
            assert 0 <= one.start < one.end <= len(cut[name])
            assert 1 <= one.first_line <= one.last_line <= cut[name].count("\n") + 1
            assert cut[name][: one.start].count("\n") + 1 == one.first_line


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("model/*.py")), ids=lambda path: path.name)
def test_definitions_of_python_are_those_of_its_own_parser(path):
    text = path.read_text("utf-8")
    expected = []

    def walk(body, prefix):
        for node in body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                expected.append((f"{prefix}{node.name}", first, node.end_lineno))
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}{node.name}.")

    walk(ast.parse(text).body, "")
    found = code_facts(str(path), text)
    lines = text.splitlines()
    kept = [one for one in found.definitions if one.kind in ("class", "function", "method")]
    starts = [
        next(n for n in range(one.first_line, one.last_line + 1) if not lines[n - 1].strip().startswith("#"))
        for one in kept
    ]
    got = [(one.name.partition("#")[0], start, one.last_line) for one, start in zip(kept, starts, strict=True)]
    assert got == expected
    assert found.doc == (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
