"""Whatever is added, removed, edited and overridden, in whatever order: what always holds of a session."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import INCLUDE_MODES, Catalog, Item
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from ctxbench.selectors.conversations import Exchange, rebuild
from ctxbench.selectors.session import Agent, Session

NAMES = ("a", "b", "c", "d", "e")
IDS = tuple(f"rule:{name}" for name in NAMES)
RESOURCES = LocalResources(Vectors(HashingEmbedder(), None), CharsCounter())
TEXTS = ("send the token", "close the issue", "write a test", "pay the invoice")

items = st.tuples(st.sampled_from(INCLUDE_MODES), st.booleans(), st.sampled_from(TEXTS))
catalogs = st.lists(items, min_size=len(NAMES), max_size=len(NAMES)).map(
    lambda rows: Catalog(
        Item(type="rule", name=name, include=include, enabled=enabled, text=text)
        for name, (include, enabled, text) in zip(NAMES, rows, strict=True)
    )
)
steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(IDS)),
    st.tuples(st.just("remove"), st.sampled_from(IDS)),
    st.tuples(st.just("include"), st.sampled_from(IDS), st.sampled_from(INCLUDE_MODES)),
    st.tuples(st.just("enable"), st.sampled_from(IDS), st.booleans()),
    st.tuples(st.just("edit"), st.sampled_from(IDS), st.sampled_from(TEXTS)),
    st.tuples(st.just("drop"), st.sampled_from(IDS)),
    st.tuples(st.just("topN"), st.integers(0, 5)),
    st.tuples(st.just("ask"), st.sampled_from(TEXTS)),
)


def edited(agent, step):
    """The agent after a step that edits it; the same where the item is gone."""
    kind, key, *rest = step
    if agent.item(key) is None:
        return agent
    if kind == "drop":
        return agent.without(key)
    field = {"include": "include", "enable": "enabled", "edit": "text"}[kind]
    return agent.changed(key, **{field: rest[0]})


def check(session, modes, text):
    """The invariants of a request; `modes` is what a plain dictionary says that the session holds."""
    agent, before = session.agent, session.as_dict()
    context = session.request(text, RESOURCES)
    assert session.as_dict() == before  # never written back
    assert context.failure is None
    offered = {one.id: one.mode for one in context.selection.chosen}
    there = {id_ for id_ in modes if (item := agent.item(id_)) is not None and item.enabled}
    assert {id_: mode for id_, mode in offered.items() if id_ in modes} == {id_: modes[id_] for id_ in there}
    assert len(context.warnings) == len(modes) - len(there)
    removed = {key.id for key in session.removed}
    for id_ in offered.keys() - modes.keys():
        item = agent.item(id_)
        assert offered[id_] == "agent"
        assert item.enabled
        assert item.include == "agent"
        assert id_ not in removed
    again = session.request(text, RESOURCES)
    assert again.as_dict() == context.as_dict()
    rebuilt = rebuild(Exchange.of(context, "done"), agent)
    assert rebuilt.same
    assert (list(rebuilt.prompt.messages), rebuilt.edited, rebuilt.gone, rebuilt.disabled) == (
        list(context.prompt.messages),
        (),
        (),
        (),
    )


@settings(max_examples=150, deadline=None)
@given(catalog=catalogs, sequence=st.lists(steps, max_size=12))
def test_invariants_hold_after_any_sequence(catalog, sequence):
    session = Session.start(Agent(catalog=catalog), "c")
    modes = {item.id: "always" for item in catalog if item.enabled and item.include == "always"}
    gone = set()
    for step in sequence:
        kind, value = step[0], step[1]
        item = session.agent.item(value) if kind in ("add", "remove") else None
        if kind == "add":
            allowed = item is not None and item.enabled and value not in modes
            try:
                session = session.add(value)
                assert allowed
                modes[value] = "manual"
                gone.discard(value)
            except ParameterError:
                assert not allowed
        elif kind == "remove":
            try:
                session = session.remove(value)
                del modes[value]
                gone.add(value)
            except ParameterError:
                assert value not in modes
        elif kind == "topN":
            session = session.with_settings(contextTopN=value)
        elif kind == "ask":
            check(session, modes, value)
        else:
            session = session.with_agent(edited(session.agent, step))
        assert {item.key.id: item.mode for item in session.items} == modes
        assert {key.id for key in session.removed} == gone
    check(session, modes, TEXTS[0])


@settings(max_examples=30, deadline=None)
@given(catalog=catalogs, text=st.sampled_from(TEXTS))
def test_the_context_is_the_session_s_and_a_subset_of_what_the_agent_has(catalog, text):
    session = Session.start(Agent(catalog=catalog), "c")
    small, large = (
        set(replace(session, settings={"contextTopN": n, "contextIncludeScore": 1.0}).request(text, RESOURCES).ids)
        for n in (0, 5)
    )
    held = {item.key.id for item in session.items}
    assert held <= small <= large <= {item.id for item in catalog if item.enabled}
