"""Assertions on what is offered, each time in a process of its own, as a team runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytest_plugin.plugin_cases import ROWS, put, text_of


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
    team.pytest().assert_outcomes(passed=2)


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
            "E             its best pair: “refund an order” matches “send: Write a mail to a customer”",
            "E             in front of it: rule:refunds *, tool:orders:get *",
            "E             to fix it: say in its description *; or merge, reword or disable *; or loosen *",
            "E         unwanted: rule:refunds",
            "E             rank 1 of 5 found, score *",
            "E             brought in by: “refund an order” matches “refunds: Refund an order”",
            "E             to fix it: *",
            "E         too many items: 2 are offered, at most 1 wanted",
            "E             the last 1: tool:orders:get",
            "E             to fix it: tighten the cut; *",
            "E         2 items offered beside 1 in the session:",
            "E           *always * rule:style",
            "E         nearest that stayed out (3 of 3 candidates):",
            "E           *agent *tool:mail:send",
        ]
    )
    assert "assertions.py" not in text_of(done)  # our own frames are hidden


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
            "E       ctxbench.io.errors.InputError: 3 faults",
            "E         include: the catalog has no item 'rule:refund'; did you mean 'rule:refunds'?*",
            "E         include: 'refunds' is no item id: expected type:name *",
            "E         exclude: the catalog has no item 'tool:mail:sent'; did you mean 'tool:mail:send'?*",
            "E       ctxbench.io.errors.ParameterError: nothing is demanded: *max_tokens*",
        ]
    )
    assert "AssertionError" not in text_of(done)


def test_a_setup_that_cannot_be_opened_is_an_error_without_a_traceback(team):
    team.write(test_any="def test_any(assert_offers): assert_offers('refund', max_items=3)")
    done = team.pytest("-o", "ctxbench_selector=semantc")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["assert_offers cannot be set up: unknown selector 'semantc'; did you mean 'semantic'*"])
    assert "Traceback" not in text_of(done)
    assert "setup.py" not in text_of(done)
    told, _, _ = text_of(done).partition("short test summary info")  # which has it whole again on CI
    assert told.count("assert_offers cannot be set up: unknown selector") == 1
    assert "During handling" not in text_of(done)


def test_a_selector_outside_is_sent_to_a_gate_file(team):
    team.write(test_any="def test_any(assert_offers): assert_offers('refund', max_items=3)")
    (team.path / "mine.yaml").write_text("callable: mine.py:select\n")
    done = team.pytest("-o", "ctxbench_selector=mine.yaml")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["assert_offers cannot be set up: mine.yaml holds no pipeline: *(ctxbench_gate)"])


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


@pytest.mark.essential
def test_the_examples_of_the_page_run_as_they_stand(team):
    page = (Path(__file__).parents[2] / "experiments" / "gate" / "pytest.md").read_text("utf-8")
    (ini,) = re.findall(r"^```ini\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (setup,) = [block for block in blocks if "def ctxbench_setup" in block]
    blocks.remove(setup)
    assert len(blocks) == 2
    verbs = ("refund", "cancel", "find", "track", "change", "return")  # so that the mail is not among the first five
    put(team, [*ROWS, *({"_id": f"tool:orders:{verb}", "description": f"How to {verb} an order"} for verb in verbs)])
    (team.path / "agent" / "catalog").mkdir(parents=True)
    (team.path / "catalog.jsonl").rename(team.path / "agent" / "catalog" / "corpus.jsonl")
    (team.path / "pytest.ini").write_text(f"{ini}ctxbench_embedder = hashing\nfilterwarnings = error\n")
    team.write(**{f"test_{number}": block for number, block in enumerate(blocks)})
    team.pytest().assert_outcomes(passed=2)
    quick = setup.replace("selector=request.param", 'selector=request.param, embedder="hashing"')
    assert quick != setup
    team.write(conftest=quick)
    team.pytest("test_0.py").assert_outcomes(passed=2)


def test_a_run_that_does_not_use_it_loads_nothing_heavy(tmp_path):
    (tmp_path / "test_any.py").write_text("def test_any(): pass\n")
    code = (
        "import sys, pytest\n"
        "code = pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]])\n"
        "heavy = {'numpy', 'onnxruntime', 'scipy', 'pandas', 'sklearn', 'yaml', 'typer', 'tokenizers', 'httpx'}\n"
        "ours = sorted(name for name in sys.modules if name.startswith('ctxbench.'))\n"
        "print('loaded:', ' '.join(ours), sorted(heavy & set(sys.modules)), int(code))\n"
    )
    ours = "io io.errors pytest_plugin"
    few = " ".join(f"ctxbench.{name}" for name in ours.split())
    for arguments in (["--collect-only"], []):
        command = [sys.executable, "-W", "error", "-c", code, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
        assert f"loaded: {few} [] 0" in done.stdout, done.stdout + done.stderr


def test_it_is_found_where_it_is_installed_and_can_be_switched_off(team, monkeypatch):
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    team.write(test_any="def test_any(assert_offers): assert_offers('refund an order', include=['rule:refunds'])")
    for arguments, said in (((), "1 passed"), (("-p", "no:ctxbench"), "fixture 'assert_offers' not found")):
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, cwd=team.path, capture_output=True, text=True, check=False, timeout=120)
        assert said in done.stdout, done.stdout + done.stderr
        (team.path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
