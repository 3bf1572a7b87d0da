"""Which files import which: in small trees that show each rule, and on this project against Python's own finder."""

import ast
import functools
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from ctxbench.search.code_imports import import_edges

ROOT = Path(__file__).parents[3]


def test_no_file_has_no_edges():
    assert import_edges({}) == {}
    assert import_edges({"a.md": "[b](b.md)", "b.md": ""}) == {}


def test_the_order_of_files_does_not_matter():
    files = {"a/__init__.py": "", "a/b.py": "from a import c", "a/c.py": "from . import b"}
    turned = import_edges(dict(reversed(files.items())))
    assert import_edges(files) == turned == {"a/b.py": ("a/c.py",), "a/c.py": ("a/b.py",)}


PYTHON = {
    "pyproject.toml": "",
    "src/pack/__init__.py": "from .low import here",
    "src/pack/low.py": "here = 1",
    "src/pack/typing.py": "",
    "src/pack/sub/__init__.py": "def own(): ...",
    "src/pack/sub/own.py": "",
    "src/pack/sub/deep.py": "",
    "src/space/one.py": "",
    "tests/conftest.py": "",
    "tests/helpers.py": "",
    "tests/in/test_a.py": "",
    "scripts/queue.py": "",
    "scripts/run.py": "",
}


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        ("src/pack/a.py", "import pack.low", ["src/pack/low.py"]),
        ("src/pack/a.py", "import pack.low as x, pack.sub", ["src/pack/low.py", "src/pack/sub/__init__.py"]),
        ("src/pack/a.py", "from pack import low", ["src/pack/low.py"]),
        ("src/pack/a.py", "from pack import here", ["src/pack/__init__.py"]),
        ("src/pack/a.py", "from pack.sub import *", ["src/pack/sub/__init__.py"]),
        ("src/pack/a.py", "from pack.sub import own", ["src/pack/sub/__init__.py", "src/pack/sub/own.py"]),
        ("src/pack/a.py", "from . import low, sub", ["src/pack/low.py", "src/pack/sub/__init__.py"]),
        ("src/pack/sub/a.py", "from ..low import here", ["src/pack/low.py"]),
        ("src/pack/sub/a.py", "from .. import low", ["src/pack/low.py"]),
        ("src/pack/sub/a.py", "from .deep import (x,\n y)", ["src/pack/sub/deep.py"]),
        ("src/pack/a.py", "def f():\n    if 1:\n        import pack.sub.deep", ["src/pack/sub/deep.py"]),
        ("src/pack/a.py", "import pack.low.gone", ["src/pack/low.py"]),
        ("src/pack/a.py", "from space.one import x", ["src/space/one.py"]),
        ("src/pack/a.py", "from space import one", ["src/space/one.py"]),
        ("tests/in/test_a.py", "import helpers, pack.low", ["src/pack/low.py", "tests/helpers.py"]),
        ("scripts/run.py", "import queue", ["scripts/queue.py"]),
        # nothing of the tree
        ("src/pack/a.py", "import typing\nfrom typing import Any", []),
        ("src/pack/a.py", "import low\nfrom sub import deep", []),
        ("src/pack/a.py", "import helpers, queue, one, numpy.low", []),
        ("src/pack/a.py", "from ....pack import low", []),
        ("src/pack/a.py", "from pack.gone import low", []),
        ("src/pack/low.py", "import pack.low", []),
    ],
)
def test_python(path, text, imported):
    assert import_edges({**PYTHON, path: text}).get(path, ()) == tuple(imported)


@pytest.mark.parametrize(
    ("manifest", "text", "folder"),
    [
        ("pyproject.toml", "[tool.setuptools.packages.find]\nwhere = ['code']", "code"),
        ("pyproject.toml", "[tool.setuptools.package-dir]\n'' = 'code'", "code"),
        ("pyproject.toml", "[[tool.poetry.packages]]\ninclude = 'p'\nfrom = 'code'", "code"),
        ("pyproject.toml", "[tool.hatch.build.targets.wheel]\npackages = ['code/p']", "code"),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = 'code'", "code"),
        ("setup.cfg", "[options]\npackage_dir =\n    = code", "code"),
        ("setup.cfg", "[options.packages.find]\nwhere = code", "code"),
        ("parts/one/pyproject.toml", "", "parts/one/src"),
        ("parts/one/setup.py", "", "parts/one"),
        ("pyproject.toml", "not toml [", "src"),
    ],
)
def test_source_roots_of_python(manifest, text, folder):
    files = {manifest: text, f"{folder}/p/__init__.py": "", f"{folder}/p/m.py": "", "t/a.py": "import p.m"}
    assert import_edges(files) == {"t/a.py": (f"{folder}/p/m.py",)}


def test_a_package_of_no_project_is_seen_by_its_own_files_alone():
    files = {"data/p/__init__.py": "", "data/p/m.py": "", "data/p/n.py": "import p.m", "a.py": "import p.m"}
    assert import_edges(files) == {"data/p/n.py": ("data/p/m.py",)}


RUST = {
    "Cargo.toml": "[workspace]\nmembers = ['core', 'app']\n[workspace.dependencies]\nmy-core = { path = 'core' }",
    "core/Cargo.toml": "[package]\nname = 'my-core'\nedition = '2021'",
    "core/src/lib.rs": "pub mod low; mod sub; mod inline { pub mod deep; pub fn f() {} }",
    "core/src/low.rs": "",
    "core/src/sub/mod.rs": "mod own; #[path = 'x.rs'] mod odd;".replace("'", '"'),
    "core/src/sub/own.rs": "",
    "core/src/sub/x.rs": "",
    "core/src/inline/deep.rs": "",
    "core/src/orphan.rs": "use crate::low;",
    "core/tests/it.rs": "",
    "app/Cargo.toml": (
        "[package]\nname = 'app'\nedition = '2021'\n[dependencies]\nmy-core.workspace = true\nlog = '1'\n"
        "[dev-dependencies]\nother = { path = '../core', package = 'my-core' }"
    ),
    "app/src/main.rs": "mod log;",
    "app/src/log.rs": "",
}
SUB = ("core/src/sub/own.rs", "core/src/sub/x.rs")


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        ("core/src/low.rs", "use crate::sub::own::Thing;", ["core/src/sub/own.rs"]),
        (
            "core/src/low.rs",
            "use crate::{sub::{self, own as o}, Top};",
            ["core/src/lib.rs", *SUB[:1], "core/src/sub/mod.rs"],
        ),
        ("core/src/low.rs", "use super::sub::*;", ["core/src/sub/mod.rs"]),
        (
            "core/src/low.rs",
            "use crate::inline::f; use crate::inline::deep::g;",
            ["core/src/inline/deep.rs", "core/src/lib.rs"],
        ),
        ("core/src/low.rs", "mod tests { use super::*; use super::super::sub::x; }", ["core/src/sub/mod.rs"]),
        ("core/src/low.rs", "fn f() { crate::sub::own::go::<u8>(1) }", ["core/src/sub/own.rs"]),
        ("core/src/low.rs", "fn f(a: super::sub::own::T) {}", ["core/src/sub/own.rs"]),
        ("core/src/sub/own.rs", "use super::odd::X; use self::y;", ["core/src/sub/x.rs"]),
        ("core/src/sub/mod.rs", "mod own; mod odd; use own::A;", ["core/src/sub/own.rs"]),
        ("core/tests/it.rs", "use my_core::low::x;", ["core/src/low.rs"]),
        ("app/src/main.rs", "use my_core::low; use other::sub;", ["core/src/low.rs", "core/src/sub/mod.rs"]),
        ("app/src/log.rs", "extern crate my_core;", ["core/src/lib.rs"]),
        # nothing of the tree
        ("core/src/low.rs", "use std::fmt; use sub::own; use app::log;", []),
        ("core/src/low.rs", "use log::info; use core::fmt;", []),
        ("app/src/log.rs", "use log::info; use gone::low;", []),
        ("core/src/orphan.rs", "use crate::low; use crate::sub::x::f;", ["core/src/low.rs", "core/src/sub/x.rs"]),
        ("core/src/orphan.rs", "use crate::gone; use super::low;", []),
    ],
)
def test_rust(path, text, imported):
    assert import_edges({**RUST, path: text}).get(path, ()) == tuple(sorted(imported))


def test_modules_that_rust_declares():
    found = import_edges(RUST)
    assert found["core/src/lib.rs"] == ("core/src/inline/deep.rs", "core/src/low.rs", "core/src/sub/mod.rs")
    assert found["core/src/sub/mod.rs"] == SUB
    two = {
        "src/lib.rs": '#[cfg(a)]\n#[path = "b.rs"]\nmod m;\n#[path = "c.rs"]\nmod m;',
        "src/b.rs": "",
        "src/c.rs": "",
    }
    assert import_edges(two) == {"src/lib.rs": ("src/b.rs", "src/c.rs")}


@pytest.mark.parametrize("edition", ["", "\nedition = '2015'", "\nedition = '2021'"])
def test_paths_of_the_rust_edition_2015_begin_at_the_root(edition):
    files = {**RUST, "core/Cargo.toml": f"[package]\nname = 'my-core'{edition}", "core/src/low.rs": "use sub::own;"}
    expected = () if "2021" in edition else ("core/src/sub/own.rs",)
    assert import_edges(files).get("core/src/low.rs", ()) == expected


def test_uses_of_rust_that_lead_to_themselves_or_far_on():
    ring = "use self::b::b as a; use self::a::a as b;"
    chain = "\n".join(f"use self::x{n}::x{n} as x{n + 1};" for n in range(2_000))
    files = {
        "src/lib.rs": f"mod m; pub mod one; {ring} use crate as x0; {chain}",
        "src/m.rs": "fn f() { crate::a::g(); crate::x2000::one::g(); crate::x9::one::g() }",
        "src/one.rs": "",
    }
    assert import_edges(files)["src/m.rs"] == ("src/lib.rs", "src/one.rs")


SCRIPTS = {
    "package.json": '{"name": "all", "workspaces": ["packages/*"]}',
    "tsconfig.json": """{ // of all
        "compilerOptions": {"baseUrl": ".", "paths": {"@lib/*": ["web/lib/*"], "@one": ["web/a.ts"],}}}""",
    "web/tsconfig.json": '{"extends": "../tsconfig"}',
    "web/a.ts": "",
    "web/b.tsx": "",
    "web/c.d.ts": "",
    "web/old.js": "",
    "web/old/index.js": "",
    "web/data.json": "",
    "web/lib/index.ts": "",
    "web/lib/deep.ts": "",
    "packages/one/package.json": '{"name": "@me/one", "main": "dist/one.js"}',
    "packages/one/src/index.ts": "",
    "packages/one/src/part.ts": "",
    "packages/two/package.json": """{
        "name": "two", "exports": {".": {"import": "./lib/main.mjs"}, "./sub": "./lib/s.js"}}""",
    "packages/two/lib/main.mjs": "",
    "packages/two/lib/s.js": "",
    "fixtures/react/package.json": '{"name": "react", "main": "index.js"}',
    "fixtures/react/index.js": "",
    "fs.js": "",
}


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        ("web/x.ts", 'import { a } from "./a"', ["web/a.ts"]),
        ("web/x.ts", 'import type { b } from "./b"; export * from "./c"', ["web/b.tsx", "web/c.d.ts"]),
        ("web/x.ts", 'import "./a.js"', ["web/a.ts"]),  # as the compiler's output is named
        ("web/x.ts", 'import o from "./old"; import d from "./data.json"', ["web/data.json", "web/old.js"]),
        ("web/x.ts", 'import o from "./old/"', ["web/old/index.js"]),
        ("web/x.ts", 'import l from "./lib"; import r from "./a?raw"', ["web/a.ts", "web/lib/index.ts"]),
        ("web/lib/x.ts", 'import a from "../a"; import i from "."', ["web/a.ts", "web/lib/index.ts"]),
        ("web/x.js", 'const a = require("./a"), b = f(() => import("./b"))', ["web/a.ts", "web/b.tsx"]),
        ("web/x.ts", 'import a = require("./a")', ["web/a.ts"]),
        ("web/x.ts", 'import d from "@lib/deep"; import o from "@one"', ["web/a.ts", "web/lib/deep.ts"]),
        ("web/x.ts", 'import a from "web/a"', ["web/a.ts"]),
        ("web/x.ts", 'import o from "@me/one"', ["packages/one/src/index.ts"]),
        ("web/x.ts", 'import o from "@me/one/part"', ["packages/one/src/part.ts"]),
        (
            "web/x.ts",
            'import t from "two"; import s from "two/sub"',
            ["packages/two/lib/main.mjs", "packages/two/lib/s.js"],
        ),
        # nothing of the tree
        ("web/x.ts", 'import r from "react"; import a from "a"; import l from "lib/deep"', []),
        ("web/x.ts", 'import x from "../../a"; import y from "./gone"', []),
        ("web/x.js", 'load("./a"); require(name)', []),
        ("packages/one/src/x.js", 'require("fs/promises"); require("node:fs")', []),
    ],
)
def test_javascript_and_typescript(path, text, imported):
    assert import_edges({**SCRIPTS, path: text}).get(path, ()) == tuple(imported)


def test_a_workspace_of_pnpm_and_a_configuration_of_parts():
    files = {
        "pnpm-workspace.yaml": "packages:\n  - 'libs/**'\n  - '!libs/no'\n",
        "libs/a/b/package.json": '{"name": "b"}',
        "libs/a/b/index.js": "",
        "libs/no/package.json": '{"name": "no"}',
        "libs/no/index.js": "",
        "tsconfig.json": '{"files": [], "references": [{"path": "./tsconfig.app.json"}]}',
        "tsconfig.app.json": '{"compilerOptions": {"paths": {"@/*": ["./src/*"]}}}',
        "src/a.ts": "",
        "src/x.ts": 'import "b"; import "no"; import "@/a"',
    }
    assert import_edges(files) == {"src/x.ts": ("libs/a/b/index.js", "src/a.ts")}


def test_go():
    files = {
        "go.mod": "module example.com/me/app\n\ngo 1.22\n",
        "main.go": 'package main\nimport ("fmt"; u "example.com/me/app/util"; "example.com/me/application/util")',
        "root.go": 'package main\nimport "util"\nimport "example.com/other/util"',
        "util/a.go": "package util",
        "util/b.go": "package util",
        "util/a_test.go": 'package util_test\nimport "example.com/me/app/util"',
        "util/make.go": "//go:build ignore\n\npackage main",
        "tool/go.mod": 'module "example.com/me/app/tool"',
        "tool/t.go": 'package tool\nimport "example.com/me/app/tool/in"',
        "tool/in/i.go": 'package in\nimport "example.com/me/app/gone"',
        "in/i.go": "package in",
    }
    util = ("util/a.go", "util/b.go")
    assert import_edges(files) == {"main.go": util, "util/a_test.go": util, "tool/t.go": ("tool/in/i.go",)}


def test_java():
    files = {
        "src/main/java/com/x/A.java": "package com.x; import com.x.y.B; import java.util.List; class A {}",
        "src/main/java/com/x/y/B.java": "package com.x.y; import static com.x.A.f; import com.x.Gone; class B {}",
        "src/main/java/com/x/y/C.java": "package com.x.y; import com.x.A.Inner; class C { B b; }",
        "src/test/java/com/x/ATest.java": "package com.x; import com.x.y.*; import static com.x.y.B.*; class ATest {}",
        "src/main/java/List.java": "class List {}",
        "two/src/main/java/com/x/A.java": "package com.x; class A {}",
        "two/src/main/java/com/z/D.java": "package com.z; import com.x.A; class D {}",
    }
    main = "src/main/java/com/x"
    assert import_edges(files) == {
        f"{main}/A.java": (f"{main}/y/B.java",),
        f"{main}/y/B.java": (f"{main}/A.java",),
        f"{main}/y/C.java": (f"{main}/A.java",),
        "src/test/java/com/x/ATest.java": (f"{main}/y/B.java", f"{main}/y/C.java"),
        "two/src/main/java/com/z/D.java": ("two/src/main/java/com/x/A.java",),
    }


@functools.cache
def found_by_python(name, roots):
    """The file that Python's own finder gives a dotted name, without running a package on the way."""
    path, spec = [str(root) for root in roots], None
    parts = name.split(".")
    for n in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: n + 1]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return spec.origin or spec


def imports_by_python(path):
    """What a file of this project imports from it, by its own parser and finder."""
    in_package = (path.parent / "__init__.py").exists()
    roots, own = (ROOT,) if in_package else (path.parent, ROOT), path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (found_by_python(one.name, roots) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*own[: len(own) - node.level + 1], *filter(None, [node.module])] if node.level else [node.module]
            module = ".".join(base)
            for one in node.names:
                yield found_by_python(f"{module}.{one.name}", roots) or found_by_python(module, roots)


def test_imports_of_this_project_are_those_that_python_finds():
    paths = [*ROOT.glob("ctxbench/**/*.py"), *ROOT.glob("experiments/**/*.py")]
    contents = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    expected = set()
    for path in paths:
        for found in imports_by_python(path):
            if isinstance(found, str) and found != str(path) and Path(found).is_relative_to(ROOT):
                expected.add((path.relative_to(ROOT).as_posix(), Path(found).relative_to(ROOT).as_posix()))
    got = {(path, one) for path, imported in import_edges(contents).items() for one in imported}
    assert len(expected) > 2_000
    assert len(got & expected) / len(got) >= 0.99, sorted(got - expected)
    assert len(got & expected) / len(expected) >= 0.97, sorted(expected - got)
