"""Figures as Prometheus reads them, and spans."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import pytest

from ctxbench.memory.service import BOUNDS, Metrics
from tests.memory.service_world import filled, service_over

parser = pytest.importorskip("prometheus_client.parser")


def samples(metrics):
    """By name and labels, as Prometheus' own client reads them."""
    return {
        (one.name, *one.labels.values()): one.value
        for family in parser.text_string_to_metric_families(metrics.text())
        for one in family.samples
    }


def test_all_figures_are_there_before_the_first_request():
    found = samples(Metrics())
    assert len(found) == 11 + 4 * (len(BOUNDS) + 1 + 2)
    assert set(found.values()) == {0.0}


def test_a_request_is_counted_and_its_seconds_fall_into_their_buckets():
    metrics = Metrics()
    with metrics.request("build") as told:
        told("retrieve", "bm25", 0.004)
        told("retrieve", "dense", 0.002)
        told("rank", "linear", 0.3)
        told("analyse", "whole", 9.0)  # of no stage of its own
    found = samples(metrics)
    name = "ctxbench_context_{}_seconds"
    assert found[name.format("search") + "_sum",] == pytest.approx(0.006)
    assert [found[name.format("search") + "_bucket", le] for le in ("0.005", "0.01", "+Inf")] == [0, 1, 1]
    assert [found[name.format("scoring") + "_bucket", le] for le in ("0.2", "0.3")] == [0, 1]  # a bound is within
    assert found[name.format("optimisation") + "_count",] == 0
    assert found[name.format("assembly") + "_count",] == 1


def test_a_request_that_fails_has_no_seconds():
    metrics = Metrics()
    with pytest.raises(KeyboardInterrupt), metrics.request("build"):
        raise KeyboardInterrupt
    assert samples(metrics)["ctxbench_context_assembly_seconds_count",] == 0


def test_a_service_counts_what_it_does():
    service = service_over(filled())
    asked = {"time": "2026-03-10T09:00:05Z"}
    service.preview("flat tyre?", **asked), service.build("flat tyre?", **asked), service.build("tea?", **asked)
    found = samples(service.metrics)
    counts = {name: found[f"ctxbench_context_{name}_total",] for name in ("builds", "previews", "cache_hits")}
    assert counts == {"builds": 2, "previews": 1, "cache_hits": 1}
    assert [found[f"ctxbench_context_{name}_total",] for name in ("retrieved", "selected", "tokens")] == [
        12,
        12,
        3 * 51,
    ]
    assert found["ctxbench_context_assembly_seconds_count",] == 3
    assert found["ctxbench_context_search_seconds_count",] == 2  # what was kept is not searched


def test_steps_are_spans_within_the_requests(monkeypatch):
    trace = pytest.importorskip("opentelemetry.trace")
    spans = []

    class Tracer(trace.NoOpTracer):
        def start_span(self, name, **_given):
            spans.append(name)
            return trace.INVALID_SPAN

        @contextmanager
        def start_as_current_span(self, name, **_given):
            yield self.start_span(name)

    monkeypatch.setattr(trace, "get_tracer", lambda *_: Tracer())
    service_over(filled()).build("flat tyre?")
    steps = ["analyse.whole", "retrieve.merge", "rank.linear", "cut.first", "pack.rendered"]
    assert spans == ["context.build", *(f"context.{one}" for one in steps)]


def test_without_opentelemetry_there_are_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert service_over(filled()).build("flat tyre?").as_dict()["data"]["items"]
