from __future__ import annotations

import pytest

from ctxbench.bench.latency.clock import Clock, TimedEmbedder, ask, timed
from ctxbench.core.arrays import Float32Array
from ctxbench.core.items import Catalog, Item
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Request
from ctxbench.embedding.hashing import HashingEmbedder
from ctxbench.selectors.definitions import definition

CATALOG = Catalog(
    [
        Item(type="tool", name="get_weather", description="Tells the weather of a city.", schema={"type": "object"}),
        Item(type="tool", name="send_mail", server="post", description="Sends a letter to one person."),
        Item(type="rule", name="tone", description="How to write.", text="Be brief.\n\nBe kind to all readers."),
    ]
)

REQUESTS = [Request(id="q1", text="What is the weather in Turin?"), Request(id="q2", text="Write a letter. Be kind.")]


class _Counting(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed(self, texts, *, on_done=None) -> Float32Array:  # type: ignore[no-untyped-def]
        self.texts += texts
        return super().embed(texts, on_done=on_done)


def test_the_first_text_is_a_probe_and_vectors_are_those_of_the_embedder() -> None:
    inner = _Counting()
    embedder = TimedEmbedder(inner)
    assert embedder.load_s is None
    seen: list[int] = []
    vectors = embedder.embed(["x", "y"], on_done=lambda position, _: seen.append(position))
    assert (vectors == HashingEmbedder().embed(["x", "y"])).all()
    assert inner.texts == ["a", "x", "y"]
    assert seen == [0, 1]
    embedder.load()
    assert inner.texts == ["a", "x", "y"]


def test_a_timed_pipeline_answers_and_describes_as_the_pipeline_does() -> None:
    from ctxbench.bench.latency.clock import TimedResources
    from ctxbench.core.requests import Batch
    from ctxbench.embedding.vectors import Vectors
    from ctxbench.index.resources import LocalResources
    from ctxbench.text.tokens import open_counter

    pipeline = definition("semantic").pipeline(definition("semantic").values())
    clock = Clock()
    embedder = TimedEmbedder(HashingEmbedder())
    inner = LocalResources(Vectors(embedder, None), open_counter("chars/4"))
    resources = TimedResources(inner, embedder, clock)
    wrapped = timed(pipeline, clock)
    assert wrapped.describe() == pipeline.describe()
    batch = Batch.of(CATALOG, REQUESTS)
    plain = LocalResources(Vectors(HashingEmbedder(), None), open_counter("chars/4"))
    one, other = wrapped.run(batch, resources).candidates, pipeline.run(batch, plain).candidates
    assert (one.item == other.item).all()
    assert (one.score == other.score).all()
    ask(wrapped, CATALOG, REQUESTS[0], resources=resources, clock=clock)
    refine = ["cut:standard", "cut:margin"]  # expansion is off
    own = ["analyse:sentences", "retrieve:dense", *refine, "format:messages"]
    steps = [*own, "resolve", "between steps"]
    assert sum(clock.seconds[step] for step in steps) == pytest.approx(clock.seconds["whole"], abs=1e-9)
    inside = [seconds for part, seconds in clock.seconds.items() if part.startswith("retrieve:dense / ")]
    assert sum(inside) == pytest.approx(clock.seconds["retrieve:dense"], abs=1e-9)


def test_steps_of_one_name_are_told_apart() -> None:
    pipeline = Pipeline.of({"retrieve": "bm25", "refine": [{"first": {"n": 9}}, {"first": {"n": 2}}]})
    labels = [step.label for step in timed(pipeline, Clock()).refine]  # type: ignore[union-attr]
    assert labels == ["cut:first", "cut:first 2"]
