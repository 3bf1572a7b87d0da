"""The plugin of pytest, each time in a process of its own, as a team runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from ctxbench.jsonio import load_yaml

ROWS = [
    {"_id": "rule:refunds", "text": "Give refund an order within a week.", "description": "Refund an order"},
    {"_id": "tool:orders:get", "description": "Look an order up"},
    {"_id": "tool:mail:send", "description": "Write a mail to a customer"},
    {"_id": "rule:style", "text": "Be kind.", "include": "always"},
    {"_id": "rule:secret", "text": "Sing.", "include": "manual"},
    {"_id": "tool:wiki:find", "description": "Search pages of the wiki"},
    {"_id": "tool:wiki:add", "description": "Add pages to the wiki"},
]
EDITED = [{**row, "description": "Refund an order"} if row["_id"] == "tool:mail:send" else row for row in ROWS]
# the first two that the search finds
SELECTOR = """
name: two
pipeline:
  analyse: sentences
  retrieve: {dense: {depth: 100}}
  refine: [{first: {n: 2}}]
"""
INI = """
[pytest]
addopts = -p no:cacheprovider
filterwarnings = error
ctxbench_catalog = catalog.jsonl
ctxbench_selector = two.yaml
ctxbench_embedder = hashing
"""


class Team:
    """A team's repository. Not pytest's `pytester`: that takes modules imported meanwhile out of this process."""

    def __init__(self, path):
        self.path = path

    def write(self, **files):
        """Write Python files by name."""
        for name, text in files.items():
            (self.path / f"{name}.py").write_text(dedent(text).lstrip())

    def pytest(self, *arguments, plugins=("-p", "ctxbench.pytest_plugin")):
        """Run pytest with our plugin alone."""
        command = [sys.executable, "-m", "pytest", *plugins, *arguments]
        done = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)


@pytest.fixture
def team(tmp_path, monkeypatch):
    """A team's repository, with a cache folder of its own."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    made = Team(tmp_path / "team")
    made.path.mkdir()
    put(made, ROWS)
    (made.path / "two.yaml").write_text(SELECTOR)
    (made.path / "pytest.ini").write_text(INI)
    return made


SECTION = " ctxbench ="  # the heading of what the plugin says at the end


def put(team, rows):
    """Write the catalog."""
    (team.path / "catalog.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def text_of(done):
    """What a run of pytest printed."""
    return done.stdout.str()


def test_demands_that_are_met_pass_and_give_the_selection(team):
    team.write(
        test_any="""
        def test_refunds(assert_offers):
            found = assert_offers(
                "refund an order", include=["rule:refunds", "rule:style"], exclude=["tool:mail:send"], max_items=2
            )
            assert [one.id for one in found.chosen] == ["rule:style", "rule:refunds", "tool:orders:get"]

        def test_another_selector_and_a_session(assert_offers):
            assert_offers.using(selector="everything")("anything", include=["tool:mail:send"])
            assert_offers("refund an order", session=["rule:secret"], include=["rule:secret"], exclude=["rule:style"])
        """
    )
    done = team.pytest()
    done.assert_outcomes(passed=2)
    assert SECTION not in text_of(done)  # nothing was accepted, nothing is to be said


def test_a_failure_explains_itself_at_the_line_of_the_test(team):
    team.write(
        test_any="""
        def test_mail(assert_offers):
            assert_offers("refund an order", include=["tool:mail:send"], exclude=["rule:refunds"], max_items=1)
        """
    )
    done = team.pytest()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            '>       assert_offers("refund an order", *',
            "E       AssertionError: not offered as demanded: two on catalog.jsonl, asked “refund an order”",
            "E         missing: tool:mail:send",
            "E             rank ? of 5 found, score *; kept out by the rule: beyond the first n=2",
            "E             * below the lowest score that is offered, *",
            "E             its best pair: “refund an order” ~ “send: Write a mail to a customer”",
            "E             in front of it: rule:refunds *, tool:orders:get *",
            "E             to mend it: say in its description *; or merge, reword or disable *; or loosen *",
            "E         unwanted: rule:refunds",
            "E             rank 1 of 5 found, score *",
            "E             brought in by: “refund an order” ~ “refunds: Refund an order”",
            "E             to mend it: *",
            "E         too many items: 2 are offered, at most 1 wanted",
            "E             the last 1: tool:orders:get",
            "E             to mend it: tighten the cut; *",
            "E         2 items offered beside 1 in the session:",
            "E           *always * rule:style",
            "E         nearest that stayed out (3 of 3 candidates):",
            "E           *agent *tool:mail:send",
        ]
    )
    assert "asserting.py" not in text_of(done)  # our own frames are hidden


def test_what_the_user_gave_wrong_is_no_failed_assertion(team):
    team.write(
        test_any="""
        def test_unknown(assert_offers):
            assert_offers("refund", include=["rule:refund", "refunds"], exclude=["tool:mail:sent"])

        def test_nothing_demanded(assert_offers):
            assert_offers("refund")
        """
    )
    done = team.pytest()
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(
        [
            "E       ctxbench.errors.InputError: 3 faults",
            "E         include: the catalog has no item 'rule:refund'; did you mean 'rule:refunds'?*",
            "E         include: 'refunds' is no item id: expected type:name *",
            "E         exclude: the catalog has no item 'tool:mail:sent'; did you mean 'tool:mail:send'?*",
            "E       ctxbench.errors.ParameterError: nothing is demanded: *as_accepted*",
        ]
    )
    assert "AssertionError" not in text_of(done)


def test_a_setup_that_cannot_be_opened_is_an_error_without_a_traceback(team):
    team.write(test_any="def test_any(assert_offers): assert_offers('refund', max_items=3)")
    done = team.pytest("-o", "ctxbench_selector=semantc")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["assert_offers cannot be set up: unknown selector 'semantc'; did you mean 'semantic'*"])
    assert "Traceback" not in text_of(done)
    assert "opening.py" not in text_of(done)


def test_a_team_may_say_in_python_what_is_asked(team):
    team.write(
        conftest="""
        import pytest
        from ctxbench.pytest_plugin import Setup

        @pytest.fixture(scope="session", params=["two.yaml", "everything"])
        def ctxbench_setup(request):
            return Setup(catalog="catalog.jsonl", selector=request.param, embedder="hashing")
        """
    )
    team.write(test_any="def test_both(assert_offers): assert_offers('refund an order', include=['rule:refunds'])")
    team.pytest("-o", "ctxbench_catalog=").assert_outcomes(passed=2)


def test_the_examples_of_the_page_run_as_they_stand(team):
    page = (Path(__file__).parents[1] / "experiments" / "gate" / "README.md").read_text("utf-8")
    (ini,) = re.findall(r"^```ini\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (setup,) = [block for block in blocks if "def ctxbench_setup" in block]
    blocks.remove(setup)
    assert len(blocks) == 3
    (team.path / "agent" / "catalog").mkdir(parents=True)
    (team.path / "catalog.jsonl").rename(team.path / "agent" / "catalog" / "corpus.jsonl")
    (team.path / "pytest.ini").write_text(f"{ini}ctxbench_embedder = hashing\nfilterwarnings = error\n")
    team.write(**{f"test_{number}": block for number, block in enumerate(blocks)})
    team.pytest("--ctxbench-accept").assert_outcomes(passed=3)
    team.pytest().assert_outcomes(passed=3)
    quick = setup.replace("selector=request.param", 'selector=request.param, embedder="hashing"')
    assert quick != setup
    team.write(conftest=quick)
    done = team.pytest("test_0.py", "-k", "normal")
    done.assert_outcomes(passed=1, deselected=1)  # `hybrid` offers all of so small a catalog


# -------------------------------------------------------------------------------------------- accepted selections


ACCEPTED = """
def test_refunds(assert_offers):
    assert_offers.as_accepted("refund an order")

def test_wiki(assert_offers):
    assert_offers.as_accepted("pages of the wiki")
"""


@pytest.fixture
def accepted(team):
    """The team's tests and their accepted file."""
    team.write(test_desk=ACCEPTED)
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(passed=2)
    assert "accepted in test_desk.accepted.yaml: 2 new, 0 changed, 0 removed, 0 as before" in text_of(done)
    return team.path / "test_desk.accepted.yaml"


def test_what_was_accepted_passes_and_is_written_alike(team, accepted):
    before = accepted.read_bytes()
    done = team.pytest()
    done.assert_outcomes(passed=2)
    assert SECTION not in text_of(done)
    assert "0 new, 0 changed, 0 removed, 2 as before" in text_of(team.pytest("--ctxbench-accept"))
    assert accepted.read_bytes() == before
    data, _ = load_yaml(accepted)
    assert [(row["test"], row["of"], row["text"]) for row in data["accepted"]] == [
        ("test_refunds", "two on catalog.jsonl", "refund an order"),
        ("test_wiki", "two on catalog.jsonl", "pages of the wiki"),
    ]
    assert list(data["accepted"][0]["offered"]) == ["rule:style", "rule:refunds", "tool:orders:get"]
    assert data["accepted"][0]["offered"]["rule:style"] is None


def test_nothing_accepted_yet_fails_and_says_how(team):
    team.write(test_desk=ACCEPTED)
    done = team.pytest("-k", "wiki")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        [
            "E       AssertionError: nothing was accepted yet: two on catalog.jsonl, asked “pages of the wiki”",
            "E         If this is right: pytest --ctxbench-accept writes it to test_desk.accepted.yaml; read the diff.",
        ]
    )
    assert not (team.path / "test_desk.accepted.yaml").exists()


def test_a_change_is_explained_until_it_is_accepted_and_only_that_is_rewritten(team, accepted):
    before = accepted.read_text().splitlines()
    put(team, EDITED)
    done = team.pytest()
    done.assert_outcomes(failed=1, passed=1)
    done.stdout.fnmatch_lines(
        [
            "E       AssertionError: not as accepted: two on catalog.jsonl, asked “refund an order”",
            "E         went out (accepted with *): tool:orders:get",
            "E             rank 3 of 5 found, *",
            "E         came in: tool:mail:send",
            "E             rank 2 of 5 found, *",
            "E         Accepted is what stands in test_desk.accepted.yaml. If the change is meant: *",
        ]
    )
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(passed=2)
    assert "0 new, 1 changed, 0 removed, 1 as before" in text_of(done)
    after = accepted.read_text().splitlines()
    assert after != before
    assert after[after.index("- test: test_wiki") :] == before[before.index("- test: test_wiki") :]  # the same bytes
    team.pytest().assert_outcomes(passed=2)


def test_an_item_that_is_gone_is_named(team, accepted):
    put(team, ROWS[1:])
    done = team.pytest("-k", "refunds")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        ["E *went out (accepted with *): rule:refunds", "E *the catalog has no such item any more"]
    )


def test_what_no_test_asks_for_any_more_is_reported_and_removed_on_request(team, accepted):
    edited = ACCEPTED.replace("pages of the wiki", "wiki").replace("def test_refunds", "def test_other")
    team.write(test_desk=edited)
    said = "test_desk.accepted.yaml holds what no test asks for any more: test_refunds “refund an order”; pytest --*"
    team.pytest().stdout.fnmatch_lines([said])  # test_wiki failed, so its old text may yet be asked for
    before = accepted.read_text()
    assert "any more" not in text_of(team.pytest("test_desk.py::test_other"))  # others are not looked at
    assert accepted.read_text() == before
    done = team.pytest("--ctxbench-accept")
    assert "2 new, 0 changed, 2 removed, 0 as before" in text_of(done)
    (team.path / "test_desk.py").write_text("def test_nothing(): pass\n")
    assert "0 new, 0 changed, 2 removed, 0 as before" in text_of(team.pytest("--ctxbench-accept"))
    assert not accepted.exists()  # nothing is left to hold


def test_items_that_are_tied_change_places_without_a_word(team):
    tied = [{"_id": f"tool:{server}:undo", "description": "Take it back"} for server in ("a", "b", "c")]
    put(team, tied)
    team.write(test_desk="def test_undo(assert_offers): assert_offers.as_accepted('take it back')")
    team.pytest("--ctxbench-accept").assert_outcomes(passed=1)
    before = (team.path / "test_desk.accepted.yaml").read_bytes()
    put(team, tied[::-1])  # ties are in catalog order: b and c are the first two now
    team.pytest().assert_outcomes(passed=1)
    assert "0 new, 0 changed, 0 removed, 1 as before" in text_of(team.pytest("--ctxbench-accept"))
    assert (team.path / "test_desk.accepted.yaml").read_bytes() == before


def test_collecting_alone_writes_nothing(team, accepted):
    before = accepted.read_bytes()
    (team.path / "test_desk.py").write_text("def test_nothing(): pass\n")
    assert SECTION not in text_of(team.pytest("--collect-only", "--ctxbench-accept"))
    assert accepted.read_bytes() == before


def test_accepting_some_tests_keeps_the_others(team, accepted):
    put(team, EDITED)
    before = accepted.read_text()
    done = team.pytest("--ctxbench-accept", "-k", "wiki")
    assert "0 new, 0 changed, 0 removed, 2 as before" in text_of(done)
    assert accepted.read_text() == before


def test_a_test_that_fails_is_not_accepted_by_half(team, accepted):
    before = accepted.read_text()
    edited = f"""
import pytest
{ACCEPTED}
    assert False

def test_new(assert_offers):
    assert_offers.as_accepted("mail")
    assert_offers.as_accepted("pages")

def test_skipped(assert_offers):
    assert_offers.as_accepted("mail")
    pytest.skip("not today")

@pytest.fixture
def breaks():
    yield
    raise ValueError

def test_at_its_end(assert_offers, breaks):
    assert_offers.as_accepted("mail")
"""
    team.write(test_desk=edited)
    put(team, EDITED)
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(passed=3, failed=1, skipped=1, errors=1)
    done.stdout.fnmatch_lines(
        [
            "accepted in test_desk.accepted.yaml: 2 new, 1 changed, 0 removed, 1 as before",
            "not accepted, as the tests did not pass: test_wiki, test_skipped, test_at_its_end",
        ]
    )
    tests = [row["test"] for row in load_yaml(accepted)[0]["accepted"]]
    assert tests == ["test_new", "test_new", "test_refunds", "test_wiki"]
    wiki = before[before.index("- test: test_wiki") :]
    assert accepted.read_text().endswith(wiki)  # as it was


def test_the_file_of_a_module_that_is_gone_goes_with_it(team, accepted):
    (team.path / "test_desk.py").rename(team.path / "test_counter.py")
    foreign = team.path / "desk.accepted.yaml"
    foreign.write_text("of: another tool\n")
    gone = "test_desk.accepted.yaml is of a test module that is gone; "
    assert f"{gone}pytest --ctxbench-accept removes it" in text_of(team.pytest())
    assert "gone" not in text_of(team.pytest("test_counter.py::test_wiki", "--ctxbench-accept"))
    assert accepted.exists()
    assert f"{gone}removed" in text_of(team.pytest("--ctxbench-accept"))
    assert sorted(path.name for path in team.path.glob("*.accepted.yaml")) == [
        "desk.accepted.yaml",
        "test_counter.accepted.yaml",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rule:refunds:", "rule:gone:", ["went out (accepted with *): rule:gone", "came in: rule:refunds"]),
        ("    rule:style: null\n", "", ["came in: rule:style"]),
    ],
)
def test_ids_that_are_edited_by_hand_fail(team, accepted, old, new, said):
    accepted.write_text(accepted.read_text().replace(old, new, 1))
    done = team.pytest("-k", "refunds")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines([f"E *{line}" for line in said])


def test_order_and_scores_stand_there_to_be_read(team, accepted):
    before = accepted.read_text()
    score = next(line for line in before.splitlines() if "rule:refunds:" in line)
    accepted.write_text(
        before.replace(f"    rule:style: null\n{score}\n", "    rule:refunds: 0.1\n    rule:style: null\n")
    )
    assert accepted.read_text() != before
    team.pytest().assert_outcomes(passed=2)
    assert "0 new, 1 changed, 0 removed, 1 as before" in text_of(team.pytest("--ctxbench-accept"))
    offered = load_yaml(accepted)[0]["accepted"][0]["offered"]
    assert list(offered) == ["rule:style", "rule:refunds", "tool:orders:get"]
    assert f"    rule:refunds: {offered['rule:refunds']}" == score


def test_a_file_that_cannot_be_written_fails_the_run(team):
    team.write(test_desk=ACCEPTED)
    (team.path / "test_desk.accepted.yaml").symlink_to("/proc/1/none/file")
    done = team.pytest("--ctxbench-accept")
    done.stdout.fnmatch_lines(["error: cannot write *test_desk.accepted.yaml: *"])
    assert done.ret == 1
    assert "Traceback" not in text_of(done)


def test_a_damaged_file_is_an_error_that_says_where_and_is_left_alone(team, accepted):
    accepted.write_text(f"<<<<<<< ours\n{accepted.read_text()}=======\n>>>>>>> theirs\n")
    before = accepted.read_bytes()
    done = team.pytest("--ctxbench-accept")
    done.assert_outcomes(failed=2)
    said = "a merge stopped here and left both sides in the file; keep one*, line 1)"
    done.stdout.fnmatch_lines(["E       ctxbench.errors.InputError: 2 faults", f"E  *{said}", "error: *", f" *{said}"])
    assert accepted.read_bytes() == before


def test_worker_processes_hand_their_records_to_the_one_that_writes(team):
    pytest.importorskip("xdist")
    team.write(test_desk=ACCEPTED, test_again=ACCEPTED)
    alone = text_of(team.pytest("--ctxbench-accept"))
    files = {path.name: path.read_bytes() for path in team.path.glob("*.accepted.yaml")}
    for path in team.path.glob("*.accepted.yaml"):
        path.unlink()
    spread = team.pytest("--ctxbench-accept", "-p", "xdist", "-n", "2")
    spread.assert_outcomes(passed=4)
    assert {path.name: path.read_bytes() for path in team.path.glob("*.accepted.yaml")} == files
    line = "accepted in test_desk.accepted.yaml: 2 new, 0 changed, 0 removed, 0 as before"
    assert line in alone
    assert line in text_of(spread)
    (team.path / "test_again.py").write_text("def test_nothing(): pass\n")
    assert "no test asks for any more" in text_of(team.pytest("-p", "xdist", "-n", "2"))


def test_what_passed_in_a_worker_process_that_crashed_is_kept(team):
    pytest.importorskip("xdist")
    crash = "\ndef test_zzz():\n    import os\n    os._exit(3)\n"
    team.write(test_desk=ACCEPTED + crash)
    done = team.pytest("--ctxbench-accept", "-p", "xdist", "-n", "1", "--max-worker-restart=0")
    done.assert_outcomes(passed=2, failed=1)
    assert "2 new, 0 changed, 0 removed, 0 as before" in text_of(done)
    again = team.pytest("--ctxbench-accept", "-p", "xdist", "-n", "1", "--max-worker-restart=0")
    assert "0 new, 0 changed, 0 removed, 2 as before" in text_of(again)


# -------------------------------------------------------------------------------------------- outside selectors


GATE = """
datasets: [desk]
embedder: hashing
selectors:
  - selector: two.yaml
    name: two
  - {callable: "own.py:own"}
  - {callable: "own.py:raises"}
  - {callable: "own.py:junk"}
  - {callable: "own.py:unknown"}
"""
OWN = """
def own(request, items):
    return ["tool:mail:send"]

def raises(request, items):
    print("hello")
    raise ValueError("no index")

def junk(request, items):
    return 7

def unknown(request, items):
    return ["rule:nonsense"]
"""


@pytest.fixture
def gated(team):
    """A gate file with one selector of ours and one of the team's, on a dataset."""
    desk = team.path / "desk"
    (desk / "qrels").mkdir(parents=True)
    (desk / "corpus.jsonl").write_text((team.path / "catalog.jsonl").read_text())
    (desk / "queries.jsonl").write_text('{"_id": "q1", "text": "refund an order", "split": "test"}\n')
    (desk / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\trule:refunds\t2\n")
    card = 'name: desk\nversion: "1"\nlicence: Apache-2.0\nsource: here\nlabelling: by hand\n'
    (desk / "dataset.yaml").write_text(card + "counts: {items: 7, queries: 1}\n")
    (team.path / "gate.yaml").write_text(GATE)
    (team.path / "own.py").write_text(OWN)
    (team.path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nctxbench_gate = gate.yaml\n")
    return team


def test_a_gate_file_says_what_is_asked(gated):
    gated.write(
        test_any="""
        import pytest

        def test_its_first_selector(assert_offers):
            assert_offers("refund an order", include=["rule:refunds"])

        def test_another_of_its_selectors(assert_offers):
            assert_offers.using(selector="own")("refund an order", include=["tool:mail:send"], max_items=1)

        def test_unmet(assert_offers):
            assert_offers.using(selector="own")("refund an order", include=["rule:refunds"])

        def test_no_such_selector(assert_offers):
            assert_offers.using(selector="owm")("refund an order", max_items=1)
        """
    )
    done = gated.pytest()
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(
        [
            "E       AssertionError: not offered as demanded: own on desk, asked “refund an order”",
            "E         missing: rule:refunds",
            "E             the selector did not answer it",
            "E       ctxbench.errors.UnknownNameError: unknown selector 'owm' of gate file gate.yaml; did you *'own'*",
        ]
    )


def test_a_selector_of_the_teams_that_fails_is_an_error_with_the_reason(gated):
    gated.write(
        test_any="""
        import pytest

        @pytest.mark.parametrize("name", ["raises", "junk", "unknown"])
        def test_own(assert_offers, name):
            assert_offers.using(selector=name)("refund", max_items=1)
        """
    )
    done = gated.pytest()
    done.assert_outcomes(failed=3)
    start = "E       ctxbench.errors.SelectorError: selector"
    done.stdout.fnmatch_lines(
        [
            f"{start} raises gave no answer to 'refund': *the callable raised ValueError: no index*",
            f"{start} junk gave no answer to 'refund': *the callable returned 7; expected a list of ids*",
            f"{start} unknown gave no answer to 'refund': *'rule:nonsense', which the catalog does not hold*",
        ]
    )


def test_vectors_beside_a_baseline_are_used(gated, monkeypatch, tmp_path):
    accept = [sys.executable, "-m", "ctxbench", "check", "gate.yaml", "--accept", "--vectors"]
    (gated.path / "gate.yaml").write_text(GATE[: GATE.index("  - {callable")])
    subprocess.run(accept, cwd=gated.path, check=True, capture_output=True)
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "fresh"))
    gated.write(test_any="def test_any(assert_offers): assert_offers('refund an order', include=['rule:refunds'])")
    gated.pytest().assert_outcomes(passed=1)
    assert not (tmp_path / "fresh" / "vectors").exists()  # catalog and text were embedded for the baseline


# -------------------------------------------------------------------------------------------- what it costs others


def test_a_run_that_does_not_use_it_loads_nothing_heavy(tmp_path):
    (tmp_path / "test_any.py").write_text("def test_any(): pass\n")
    code = (
        "import sys, pytest\n"
        "code = pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]])\n"
        "heavy = {'numpy', 'onnxruntime', 'scipy', 'pandas', 'sklearn', 'yaml', 'typer', 'tokenizers', 'httpx'}\n"
        "ours = sorted(name for name in sys.modules if name.startswith('ctxbench.'))\n"
        "print('loaded:', ' '.join(ours), sorted(heavy & set(sys.modules)), int(code))\n"
    )
    ours = "errors pytest_plugin pytest_plugin.asserting pytest_plugin.opening pytest_plugin.recording"
    few = " ".join(f"ctxbench.{name}" for name in ours.split())
    for arguments in (["--collect-only"], []):
        command = [sys.executable, "-W", "error", "-c", code, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert f"loaded: {few} [] 0" in done.stdout, done.stdout + done.stderr


def test_it_is_found_where_it_is_installed_and_can_be_switched_off(team, monkeypatch):
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    team.write(test_any="def test_any(assert_offers): assert_offers('refund an order', include=['rule:refunds'])")
    team.pytest(plugins=()).assert_outcomes(passed=1)
    (team.path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    done = team.pytest(plugins=("-p", "no:ctxbench"))
    done.assert_outcomes(errors=1)
    assert "fixture 'assert_offers' not found" in text_of(done)
