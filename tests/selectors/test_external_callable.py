"""A Python callable as a selector: how it is found, called, and what its failures become."""

from __future__ import annotations

import functools
import hashlib
import json
import pickle
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.callable import CallableSource, load_callable
from ctxbench.selectors.external import External, external_from_config
from ctxbench.selectors.protocol import catalog_message
from tests.code_history import history, request as request_after

CATALOG = Catalog(
    [
        Item(type="tool", name="a", description="first", schema={"type": "object"}, metadata={"secret": 1}),
        Item(type="tool", name="b"),
        Item(type="tool", name="off", enabled=False),
    ]
)
A, B = CATALOG.ids[:2]


def batch_of(*texts):
    return Batch.of(CATALOG, [Request(id=f"q{i}", text=text) for i, text in enumerate(texts)])


def select(function, *texts, **options):
    return External(CallableSource(function, **options), name="mine").select(batch_of(*texts))


def from_text(tmp_path, text, name="select", **options):
    (tmp_path / "mine.py").write_text(textwrap.dedent(text))
    return external_from_config({"callable": f"mine.py:{name}", **options}, base=tmp_path)


def chosen(made):
    rows = [[] for _ in made.query.batch.requests]
    for row, item in zip(made.candidates.request, made.candidates.item, strict=True):
        rows[row].append(CATALOG.ids[item])
    return rows


def test_it_gets_the_request_and_the_enabled_items_without_metadata():
    seen = []
    select(lambda request, items: seen.append((request, items)) or [], "hello")
    request, items = seen[0]
    assert request == {"id": "q0", "text": "hello"}
    row = {"title": "a", "text": "", "type": "tool", "name": "a", "description": "first", "schema": {"type": "object"}}
    assert items == [{"_id": A, **row}, {"_id": B, "title": "b", "text": "", "type": "tool", "name": "b"}]


@pytest.mark.parametrize("batch", [False, True])
def test_that_a_slow_one_is_waited_for_is_told(monkeypatch, caplog, batch):
    monkeypatch.setattr("ctxbench.selectors.external._SILENCE", 0.05)

    def slow(_request, _items):
        time.sleep(0.3)
        return [[], []] if batch else []

    select(slow, "x", "y", batch=batch)
    (said,) = caplog.messages  # and not of the second query: a line a minute
    what = "query 'q0' has not been answered for 0 s; a callable has no time limit; stop it with Ctrl-C"
    assert said == f"waiting for 'mine': {what}"


def test_it_gets_ids_or_nothing_on_demand():
    assert chosen(select(lambda _, ids: ids, "x", send="ids")) == [[A, B]]
    assert chosen(select(lambda request: [request["text"]], B, send="nothing")) == [[B]]


@pytest.mark.parametrize(
    "result",
    [
        [B, A],
        (B, A),
        [{"id": B}, {"id": A}],
        {"items": [{"id": B}, {"id": A}]},
        {"query": "q0", "items": [{"id": B}, {"id": A}]},
    ],
)
def test_ids_rows_and_answers_are_alike(result):
    made = select(lambda *_: result, "x")
    assert (chosen(made), made.errors) == ([[B, A]], {})
    assert made.seconds[0] >= 0


def test_a_generator_is_run_to_its_end():
    def generate(request, items):
        yield A
        if request["text"] == "fail":
            raise OSError("the disk")

    made = select(generate, "ok", "fail")
    assert chosen(made) == [[A], []]
    assert "the callable raised OSError: the disk (" in made.errors[1]


@pytest.mark.parametrize("result", [None, 3, A, b"x", {A, B}])
def test_what_is_no_answer_is_an_error(result):
    made = select(lambda *_: result, "x")
    assert made.errors[0].startswith("query 'q0': the callable returned ")
    assert made.errors[0].endswith("; expected a list of ids, or an answer as dict")


def test_an_answer_to_another_query_is_an_error():
    made = select(lambda *_: {"query": "q7", "items": []}, "x")
    assert made.errors == {0: "query 'q0': the answer is for query 'q7'"}


def test_an_exception_is_the_error_of_its_query_with_the_line_of_the_users_file(tmp_path):
    selector = from_text(
        tmp_path,
        """
        import json

        def helper(text):
            return json.loads(text)

        def select(request, items):
            if request["text"] == "exit":
                raise SystemExit(3)
            return helper(request["text"])
        """,
    )
    made = selector.select(batch_of("[]", "{", "exit"))
    assert made.errors == {
        1: "query 'q1': the callable raised JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1) (mine.py, line 5)",
        2: "query 'q2': the callable raised SystemExit: 3 (mine.py, line 9)",
    }


ENDS = "the callable raised SystemExit: 0 (mine.py, line 2)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class S(float):\n  def __float__(self): raise SystemExit(0)", ENDS),
        ("class S(list):\n  def __iter__(self): raise SystemExit(0)", ENDS),
        (
            "class S:\n  def __init__(self, _): pass\n  __repr__ = lambda self: sys.exit(0)\nimport sys",
            "the callable raised",
        ),
        ("class S(str):\n  def __repr__(self): raise SystemExit(0)", "the score of items[0] ('tool:a') is '3'"),
        ("from decimal import Decimal as S", "the score of items[0] ('tool:a') is Decimal('3')"),
    ],
)
def test_no_code_of_an_answer_runs_where_it_would_be_no_error_of_the_query(tmp_path, text, said):
    text = f"{text}\ndef select(request, items): return [{{'id': 'tool:a', 'score': S('3')}}]"
    made = from_text(tmp_path, text).select(batch_of("a"))
    assert made.errors[0].startswith(f"query 'q0': {said}")


def test_answers_may_hold_values_of_numpy(tmp_path):
    text = """
    import numpy as np

    def select(request, items):
        return {"items": ({"id": np.str_("tool:a"), "score": np.float32(0.5)},), "metadata": {"of": np.ones(3)}}
    """
    made = from_text(tmp_path, text).select(batch_of("a"))
    assert (made.errors, made.candidates.score.tolist()) == ({}, [0.5])


def test_ctrl_c_is_no_error_of_a_query():
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        select(interrupt, "x")


def test_what_it_prints_does_not_reach_standard_output(tmp_path):
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import os, subprocess, sys
            print("on import")
            def select(request, items):
                print("by print")
                os.write(1, b"by the system\\n")
                subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
                return []
            """
        )
    )
    program = textwrap.dedent(
        """
        from pathlib import Path
        from ctxbench.model.items import Catalog
        from ctxbench.model.requests import Batch, Request
        from ctxbench.selectors.external import external_from_config
        print("before")
        selector = external_from_config({"callable": "mine.py:select"}, base=Path())
        selector.select(Batch.of(Catalog([]), [Request(id="q", text="")]))
        print("after")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split("\n") == ["before", "after", ""]
    assert sorted(done.stderr.splitlines()) == ["by a child", "by print", "by the system", "on import"]


def test_changing_the_items_is_an_error_and_does_not_reach_the_catalog():
    def spoil(request, items):
        items[0]["schema"]["type"] = "spoilt"
        return [A]

    before = CATALOG.hash
    made = select(spoil, "x", "y")
    assert set(made.errors) == {0, 1}
    assert made.errors[0].endswith("the callable changed the items; let it work on a copy")
    assert CATALOG[0].schema == {"type": "object"}
    assert Catalog(CATALOG).hash == before


def test_a_batch_is_answered_in_order_or_by_id():
    in_order = select(lambda requests, items: [[r["text"]] for r in requests], A, B, batch=True)
    assert chosen(in_order) == [[A], [B]]
    by_id = select(lambda requests, items: {"q1": [B], "q0": {"items": []}}, "x", "y", batch=True)
    assert chosen(by_id) == [[], [B]]
    missing = select(lambda requests, items: {"q1": [B]}, "x", "y", batch=True)
    assert missing.errors == {0: "query 'q0': the callable returned a dict without this query"}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([[]], "the callable returned 1 answers to 2 requests; expected as many"),
        ({"q9": []}, "the callable answered query 'q9', which it was not asked"),
        (None, "the callable returned None; expected a list of answers, or a dict by id"),
    ],
)
def test_a_batch_that_is_none_is_the_error_of_all_its_queries(result, message):
    made = select(lambda *_: result, "x", "y", batch=True)
    assert made.errors == {0: f"query 'q0': {message}", 1: f"query 'q1': {message}"}


def test_a_module_and_a_dotted_name_are_found(tmp_path):
    (tmp_path / "ctxbench_test_module.py").write_text("class Box:\n    def pick(request, items):\n        return []\n")
    function = load_callable("ctxbench_test_module:Box.pick", base=tmp_path)
    assert function({}, []) == []
    described = CallableSource(function, base=tmp_path).describe()
    assert described["callable"] == "ctxbench_test_module:Box.pick"


def test_a_file_imports_its_neighbours(tmp_path):
    (tmp_path / "ctxbench_test_neighbour.py").write_text("WORD = 'tool:b'")
    selector = from_text(
        tmp_path,
        """
        import ctxbench_test_neighbour

        def select(request, items):
            return [ctxbench_test_neighbour.WORD]
        """,
    )
    assert chosen(selector.select(batch_of("x"))) == [[B]]


def test_the_description_holds_the_source_and_no_absolute_path(tmp_path):
    selector = from_text(tmp_path, "def select(request, items):\n    return []\n")
    digest = hashlib.sha256((tmp_path / "mine.py").read_bytes()).hexdigest()
    assert selector.describe() == {
        "protocol": 1,
        "callable": "mine.py:select",
        "sha256": digest,
        "modules": {},
        "send": "items",
        "batch": False,
        "repeats": 1,
    }
    assert selector.name == "select"


def test_a_changed_file_is_imported_anew(tmp_path):
    first = from_text(tmp_path, "def select(request, items):\n    return ['tool:a']\n")
    second = from_text(tmp_path, "def select(request, items):\n    return ['tool:b']\n")
    assert chosen(first.select(batch_of("x"))) == [[A]]
    assert chosen(second.select(batch_of("x"))) == [[B]]
    assert first.describe()["sha256"] != second.describe()["sha256"]


def test_a_changed_neighbour_changes_the_description_and_is_imported_anew(tmp_path):
    text = "import ctxbench_test_edited\ndef select(request, items): return [ctxbench_test_edited.WORD]\n"
    found = []
    for line in ("WORD = 'tool:a'", "WORD = 'tool:b'  # of another size: Python looks at size and whole seconds"):
        (tmp_path / "ctxbench_test_edited.py").write_text(line)
        selector = from_text(tmp_path, text)
        found.append((selector.describe(), chosen(selector.select(batch_of("x")))))
    (first, a), (second, b) = found
    assert (a, b) == ([[A]], [[B]])
    assert first["sha256"] == second["sha256"]
    assert list(first["modules"]) == list(second["modules"]) == ["ctxbench_test_edited"]
    digest = hashlib.sha256((tmp_path / "ctxbench_test_edited.py").read_bytes()).hexdigest()
    assert second["modules"]["ctxbench_test_edited"] == digest != first["modules"]["ctxbench_test_edited"]


def test_partial_objects_and_instances_are_described_by_their_name_and_their_file(tmp_path):
    text = """
        import functools

        class Pick:
            def __init__(self, name):
                self.name = name

            def __call__(self, request, items):
                return [self.name]

        def pick(request, items, name):
            return [name]

        a, b = Pick("tool:a"), Pick("tool:b")
        c = functools.partial(pick, name="tool:a")
        """
    described = [from_text(tmp_path, text, name=name).describe() for name in "abc"]
    assert [one["callable"] for one in described] == ["mine.py:a", "mine.py:b", "mine.py:c"]
    assert from_text(tmp_path, text, name="c").describe() == described[2]
    edited = from_text(tmp_path, text.replace("return [name]", "return []"), name="c").describe()
    assert edited["sha256"] != described[2]["sha256"]


def test_a_callable_without_a_name_is_described_as_no_other():
    def made(name):
        return lambda request, items: [name]

    partials = (
        functools.partial(load_callable, A),
        functools.partial(pick, name=object()),
        functools.partial(made(A), n=1),
    )
    for function in (made(A), *partials, lambda *_: []):
        first, second = CallableSource(function), CallableSource(function)
        assert first.describe() == first.describe()
        assert first.describe() != second.describe()
        assert "cannot be identified in a later run; name a function" in first.describe()["unnamed"]


def pick(request, items, name=""):
    return [name]


def test_a_partial_function_is_described_by_its_function_and_its_values():
    plain = CallableSource(pick).describe()
    for value in (A, B, ["x", {"y": None}]):
        source = CallableSource(functools.partial(pick, name=value))
        assert source.describe() == {**plain, "values": {"name": value}}
        assert pickle.loads(pickle.dumps(source)).describe() == source.describe()
    assert "unnamed" not in plain
    selector = External(CallableSource(functools.partial(pick, name=A)), name="mine")
    assert chosen(selector.select(batch_of("a"))) == [[A]]


def test_a_function_of_a_module_is_described_by_that():
    described = CallableSource(textwrap.dedent).describe()
    assert described["callable"] == "textwrap:dedent"
    assert described["sha256"] == hashlib.sha256(Path(textwrap.__file__).read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine.py", r"callable must be module:function or file\.py:function, got 'mine\.py'"),
        ("mine.py:", "callable must be module:function"),
        ("none.py:f", r"callable 'none\.py:f': there is no file none\.py"),
        ("no_such_module_here:f", "callable 'no_such_module_here:f': No module named 'no_such_module_here'$"),
        ("lacking.py:f", r"raised ModuleNotFoundError: No module named 'no_such_module_2' \(lacking\.py, line 2\)$"),
        ("lacking:f", r"raised ModuleNotFoundError: No module named 'no_such_module_2' \(lacking\.py, line 2\)$"),
        ("deep.py:f", r"deep\.py raised JSONDecodeError: .* \(deep_helper\.py, line 3\)$"),
        ("mine.py:missing", r"mine\.py has no 'missing'"),
        ("mine.py:NUMBER", "NUMBER is not callable, it is 3"),
        ("mine.py:Class", "callable must be a function or an object that can be called"),
        ("mine.py:wait", "callable must be a plain function, got an async one"),
        ("broken.py:f", r"importing broken\.py raised SyntaxError"),
        ("failing.py:f", r"importing failing\.py raised ZeroDivisionError: division by zero \(failing\.py, line 2\)"),
    ],
)
def test_a_callable_that_cannot_be_found_is_an_error(tmp_path, spec, message):
    (tmp_path / "mine.py").write_text("NUMBER = 3\nclass Class: pass\nasync def wait(request, items): return []\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "failing.py").write_text("x = 0\n1 / x\n")
    (tmp_path / "lacking.py").write_text("import json\nimport no_such_module_2\n")
    (tmp_path / "deep.py").write_text("import deep_helper\n")
    (tmp_path / "deep_helper.py").write_text("import json\n\njson.loads('{')\n")
    with pytest.raises(ParameterError, match=message):
        external_from_config({"callable": spec}, base=tmp_path)


@pytest.mark.parametrize(
    ("name", "send", "said", "line"),
    [
        ("alone", "items", "alone cannot be called as (request, items): too many positional arguments", 1),
        ("both", "nothing", "both cannot be called as (request): missing a required argument: 'items'", 3),
        ("K.select", "items", "select cannot be called as (request, items): missing a required argument: 'items'", 6),
        ("inside", "items", "the callable raised TypeError: alone() takes 1 positional argument", 9),
    ],
)
def test_a_function_with_other_arguments_is_told_what_it_is_called_with(tmp_path, name, send, said, line):
    (tmp_path / "fn.py").write_text(
        "def alone(request):\n    return []\ndef both(request, items):\n    return []\n"
        "class K:\n    def select(self, request, items):\n        return []\n"
        "def inside(request, items):\n    return alone(1, 2)\n"
    )
    with external_from_config({"callable": f"fn.py:{name}", "send": send}, base=tmp_path) as selector:
        (error,) = selector.select(batch_of("a")).errors.values()
    assert said in error
    assert error.endswith(f"(fn.py, line {line})")


HISTORY = history(("first", {"a.py": "one", "b.py": "two"}), ("second", {"a.py": "three"}), ("third", {"c.py": "four"}))
REQUESTS = [request_after("x", n) for n in (1, 2, 3)]


def asked_over_history(function):
    """The answers to a request after each commit of a history."""
    return External(CallableSource(function), name="mine").select(Batch.of(HISTORY, REQUESTS))


def by_id(items):
    return {item["_id"]: item for item in items}


def test_an_item_is_the_same_dict_in_the_catalogs_of_a_history():
    seen = []
    made = asked_over_history(lambda _, items: seen.append(items) or [])
    assert made.errors == {}
    batch = Batch.of(HISTORY, REQUESTS)
    sent = [json.loads(json.dumps(catalog_message(batch, row, "items")["items"])) for row in range(3)]
    assert seen == sent
    first, second, third = map(by_id, seen)
    b, change = "file:b.py%40000000000001", "message:commit-000000000001"
    assert first[b] is second[b] is third[b]
    assert [link["item"] for link in first[change]["links"]] == ["file:a.py%40000000000001", b]
    assert [link["item"] for link in second[change]["links"]] == [b]  # the other version has ended


@pytest.mark.parametrize("value", ["spoilt", np.array([1, 2])])
def test_a_changed_item_is_an_error_also_of_a_later_list_and_is_made_anew(value):
    lists = []

    def spoil_the_first_list(_request, items):
        lists.append([dict(item) for item in items])
        if len(lists) == 1:
            by_id(items)["file:b.py%40000000000001"]["text"] = value
        return []

    made = asked_over_history(spoil_the_first_list)
    assert set(made.errors) == {0}
    assert [by_id(items)["file:b.py%40000000000001"]["text"] for items in lists] == ["b.py\n\ntwo"] * 3


def test_an_item_of_an_earlier_list_that_is_changed_later_is_an_error_of_the_list_that_has_it():
    lists = []

    def spoil_an_earlier_list(_request, items):
        lists.append(items)
        if len(lists) == 2:
            by_id(lists[0])["file:b.py%40000000000001"]["text"] = "spoilt"
        return []

    assert set(asked_over_history(spoil_an_earlier_list).errors) == {1}
    assert by_id(lists[2])["file:b.py%40000000000001"]["text"] == "b.py\n\ntwo"


def test_items_of_another_catalog_are_given_anew():
    source = CallableSource(lambda _, items: [item["_id"] for item in items if item["description"] == "new"])
    edited = Catalog([replace(CATALOG[0], description="new"), replace(CATALOG[1], description="old")])
    with External(source, name="mine") as selector:
        texts = [Item(type="tool", name=name, description="old") for name in "ab"]
        assert chosen(selector.select(Batch.of(Catalog(texts), [Request(id="q", text="")]))) == [[]]
        assert chosen(selector.select(Batch.of(edited, [Request(id="q", text="")]))) == [[A]]


@pytest.mark.parametrize("change", [list.clear, list.reverse, lambda items: items.append(items[0])])
@pytest.mark.parametrize("send", ["items", "ids"])
def test_a_changed_list_is_an_error(change, send):
    made = select(lambda _, items: change(items) or [], "x", send=send)
    assert list(made.errors) == [0]
