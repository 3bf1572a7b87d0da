from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from ctxbench.bench.latency import (
    STATES,
    LatencyResult,
    LatencySettings,
    measure,
    measurement,
)
from ctxbench.core.errors import ParameterError, UnknownNameError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Request
from ctxbench.io.cache import cache_dir

CATALOG = Catalog(
    [
        Item(type="tool", name="get_weather", description="Tells the weather of a city.", schema={"type": "object"}),
        Item(type="tool", name="send_mail", server="post", description="Sends a letter to one person."),
        Item(type="rule", name="tone", description="How to write.", text="Be brief.\n\nBe kind to all readers."),
    ]
)

REQUESTS = [
    Request(id="blank", text=" "),
    Request(id="q1", text="What is the weather in Turin?"),
    Request(id="q2", text="Write a letter. Be kind.", available=(ItemKey("rule", None, "tone"),)),
    Request(id="q3", text="Be kind.", explicit=(ItemKey("rule", None, "tone"),)),
]

TINY = LatencySettings(sizes=(2, 7), repeats=2, requests=3, embedder="hashing", tokens="chars/4")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> LatencyResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        return measure("semantic/normal", CATALOG, REQUESTS, settings=TINY)


def test_every_configuration_runs_once_a_round_in_turns(result: LatencyResult) -> None:
    one = [("cold", 2), ("warm", 2), ("cold", 3), ("restart", 3), ("warm", 3), ("cold", 7), ("warm", 7)]
    assert [(trial.job, trial.size) for trial in result.trials] == [*one, *reversed(one)]
    assert [trial.round for trial in result.trials] == [0] * 7 + [1] * 7
    assert [trial.order for trial in result.trials] == list(range(14))


def test_sizes_hold_the_catalogs_own(result: LatencyResult) -> None:
    assert (result.sizes, result.reference) == ((2, 3, 7), 3)
    assert result.catalog == {"items": 3, "hash": CATALOG.hash}


def test_requests_are_asked_in_the_states_they_belong_to(result: LatencyResult) -> None:
    states = {state: trial.states[state].requests for trial in result.trials[2:5] for state in trial.states}
    assert states == {
        "cold": ("q1",),  # the first one with a text
        "restarted": ("q2",),
        "restarted_cached": ("q1",),
        "new": ("q2",),  # blank embeds nothing, and q3 is a sentence of q2's
        "cached": ("blank", "q2", "q3"),
    }


def test_counts_of_samples(result: LatencyResult) -> None:
    counts = {state: getattr(result.of(state), "n", 0) for state in STATES}
    assert counts == {"cold": 2, "restarted": 2, "restarted_cached": 2, "new": 2, "cached": 6}
    load, ready = result.model_load(), result.ready()
    assert load is not None
    assert ready is not None
    assert (load.n, ready.n, ready.rounds) == (14, 14, 2)


def test_a_warm_process_embeds_no_item_and_a_stored_query_nothing(result: LatencyResult) -> None:
    assert result.of("cold", "retrieve:dense / embed items") is not None
    assert result.of("restarted_cached", "retrieve:dense / embed items") is None
    assert result.of("new", "retrieve:dense / embed query") is not None
    for state in ("restarted_cached", "cached"):
        assert result.of(state, "retrieve:dense / embed query") is None
        assert result.of(state, "retrieve:dense / model load") is None


def test_indexing_counts_the_chunks_of_all_items(result: LatencyResult) -> None:
    # a tool is one chunk; the rule has three paragraphs
    assert [result.indexed(size) for size in (2, 3, 7)] == [2, 5, 9 + 2]
    assert all(trial.indexed == 0 for trial in result.trials if trial.job != "cold")


def test_parts_stand_in_the_order_of_the_pipeline(result: LatencyResult) -> None:
    assert [part for part in result.parts() if " / " not in part] == [
        "resolve", "analyse:sentences", "retrieve:dense", "cut:standard", "cut:margin",
        "format:messages", "between steps", "whole",
    ]  # fmt: skip


def test_a_process_takes_longer_than_its_first_request(result: LatencyResult) -> None:
    for trial in result.trials:
        assert trial.ready_s > 0
    assert result.of_process("new") is None
    whole, process = result.of("cold"), result.of_process("cold")
    assert whole is not None
    assert process is not None
    assert process.low > whole.low


def test_the_result_is_json_with_every_sample_and_what_it_was_taken_on(result: LatencyResult) -> None:
    data = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert (data["schema"], data["schema_version"], data["name"]) == ("ctxbench/latency", 1, "semantic/normal")
    assert data["embedder"]["model"] == "hashing"
    assert data["pipeline"]["retrieve"]["step"] == "retrieve:dense"
    assert data["requests"] == {"from": "given", "n": 4}
    assert {"processor", "cores", "memory_mib", "system", "load", "blas", "versions"} <= set(data["machine"])
    assert "numpy" in data["machine"]["versions"]
    warm = data["trials"][1]["states"]["cached"]
    assert len(warm["requests"]) == len(warm["seconds"]["whole"]) == 3
    row = next(r for r in data["figures"] if (r["what"], r.get("state"), r.get("size")) == ("request", "cached", 7))
    assert (row["n"], row["rounds"], row["unit"], row["p95"]) == (6, 2, "s", None)


def test_nothing_is_left_in_the_cache(result: LatencyResult, tmp_path: Path) -> None:
    settings = LatencySettings(sizes=(2,), repeats=1, requests=1, embedder="hashing", tokens="chars/4")
    seen: list[tuple[str, int, int]] = []
    measure("bm25", CATALOG, settings=settings, progress=lambda *call: seen.append(call))
    assert not list(cache_dir().rglob("*latency*"))
    assert seen == [
        ("an empty store, 2 items, round 1 of 1", 0, 2),
        ("a warm process, 2 items, round 1 of 1", 1, 2),
        ("done", 2, 2),
    ]


def test_a_pipeline_without_vectors_has_no_model_and_no_indexing() -> None:
    settings = LatencySettings(sizes=(3,), repeats=1, requests=2, embedder="hashing", tokens="chars/4")
    found = measure(Pipeline.of({"retrieve": "bm25"}), CATALOG, REQUESTS, settings=settings, name="words")
    assert (found.name, found.model_load(), found.indexing(3), found.indexed(3)) == ("words", None, None, 0)
    new = found.of("new")
    assert new is not None
    assert new.n == 2
    assert [trial.job for trial in found.trials] == ["cold", "warm"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sizes": ()}, "sizes must be one or more"),
        ({"sizes": (0,)}, "from 1 to 1,000,000"),
        ({"repeats": 0}, "repeats must be 1 or more, got 0"),
        ({"requests": 0}, "requests must be 1 or more, got 0"),
        ({"time_limit_s": 0.0}, "time_limit_s must be above 0"),
    ],
)
def test_settings_out_of_range_are_errors(values: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        LatencySettings(**values)  # type: ignore[arg-type]


def test_the_full_profile_goes_to_ten_thousand_items() -> None:
    assert LatencySettings().full().sizes == (10, 100, 1_000, 10_000)


def test_names_and_inputs_are_checked_before_a_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "run_child", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(UnknownNameError, match="did you mean 'semantic'"):
        measure("semantc", CATALOG, REQUESTS, settings=TINY)
    with pytest.raises(UnknownNameError, match="unknown preset 'nomal'"):
        measure("semantic/nomal", CATALOG, REQUESTS, settings=TINY)
    with pytest.raises(UnknownNameError, match="embedder"):
        measure("semantic", CATALOG, REQUESTS, settings=LatencySettings(embedder="minilm2"))
    with pytest.raises(ParameterError, match="there is no request"):
        measure("semantic", CATALOG, [], settings=TINY)
    with pytest.raises(ParameterError, match="the catalog is empty"):
        measure("semantic", Catalog([]), REQUESTS, settings=TINY)


def test_ctrl_c_ends_the_child_and_removes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "pid"
    code = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    monkeypatch.setattr(measurement, "_command", lambda _: [sys.executable, "-c", code])

    def interrupt(*_: object) -> None:
        if told.exists() and told.read_text():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            measure("semantic", CATALOG, REQUESTS, settings=TINY)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)
    assert not list(cache_dir().iterdir())
