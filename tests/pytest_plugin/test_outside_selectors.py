"""A gate file and selectors of a team's own, each time in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
  - {callable: "own.py:ordered"}
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

def ordered(request, items):
    ids = [item["_id"] for item in items if item.get("include", "agent") == "agent"]
    return {"items": [{"id": ids[0]}], "ranking": [{"id": one} for one in ids]}
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
            "E       *errors.UnknownNameError: unknown selector 'owm' of gate file gate.yaml; did you *'own'*",
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
    start = "E       *errors.SelectorError: selector"
    done.stdout.fnmatch_lines(
        [
            f"{start} raises gave no answer to 'refund': *the callable raised ValueError: no index*",
            f"{start} junk gave no answer to 'refund': *the callable returned 7; expected a list of ids*",
            f"{start} unknown gave no answer to 'refund': *'rule:nonsense', which the catalog does not hold*",
        ]
    )


def test_a_selector_that_gives_an_order_has_ranks_and_no_scores(gated):
    gated.write(
        test_any="""
        def test_out(assert_offers):
            assert_offers.using(selector="ordered")("refund", include=["tool:mail:send"], exclude=["rule:refunds"])

        def test_in(assert_offers):
            found = assert_offers.using(selector="ordered")("refund", max_items=1)
            assert [one.score for one in (*found.chosen, *found.left_out) if one.origin == "search"].count(None) > 2
        """
    )
    done = gated.pytest()
    done.assert_outcomes(passed=1, failed=1)
    assert "-1.0" not in done.stdout.str()


def test_vectors_beside_a_baseline_are_used(gated, monkeypatch, tmp_path):
    accept = [sys.executable, "-m", "ctxbench", "check", "gate.yaml", "--accept", "--vectors"]
    (gated.path / "gate.yaml").write_text(GATE[: GATE.index("  - {callable")])
    subprocess.run(accept, cwd=gated.path, check=True, capture_output=True, timeout=120)
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "fresh"))
    gated.write(test_any="def test_any(assert_offers): assert_offers('refund an order', include=['rule:refunds'])")
    gated.pytest().assert_outcomes(passed=1)
    assert not (tmp_path / "fresh" / "vectors").exists()  # catalog and text were embedded for the baseline
