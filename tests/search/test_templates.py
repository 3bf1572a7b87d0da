"""Context templates: the document's three, one's own, and what is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.pipelines.strategies.format import TEMPLATES, VARIABLES, ContextTemplate

PROPERTY = settings(max_examples=200, deadline=None, database=None, derandomize=True)
TEA = {"content": "Likes tea.", "type": "fact", "confidence": "0.9", "timestamp": "2026-01-01", "score": "0.75"}
CAT = {"content": "Has a cat.", "type": "note", "confidence": "1", "timestamp": "2026-02-01", "score": "0.5"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("chat", "Relevant context from past conversations:\n\n- Likes tea.\n- Has a cat.\n"),
        (
            "detailed",
            (
                "Relevant memories:\n\n[fact] Likes tea. (confidence: 0.9, 2026-01-01)\n\n"
                "[note] Has a cat. (confidence: 1, 2026-02-01)\n"
            ),
        ),
        ("summary", "Key information:\nLikes tea. | Has a cat."),
    ],
)
def test_the_documents_templates_write_as_it_says(name, text):
    assert ContextTemplate.of(name).render([TEA, CAT]) == text


def test_the_documents_example_of_an_own_template():
    given = {
        "header": "# Relevant Code Context\n\n",
        "memoryFormat": "## {{type}}\n```\n{{content}}\n```\n",
        "separator": "\n",
        "footer": "\n---\n",
        "includeMetadata": True,
    }
    text = "# Relevant Code Context\n\n## fact\n```\nLikes tea.\n```\n\n## note\n```\nHas a cat.\n```\n\n---\n"
    made = ContextTemplate.of(given)
    assert made.render([TEA, CAT]) == text
    own = {**given, "memory_format": given["memoryFormat"], "metadata": True}
    assert ContextTemplate.of({k: v for k, v in own.items() if k not in ("memoryFormat", "includeMetadata")}) == made


def test_without_memories_nothing_is_written():
    assert [template.render([]) for template in TEMPLATES.values()] == ["", "", ""]


def test_only_the_format_of_a_memory_is_needed():
    assert ContextTemplate.of({"memory_format": "{{ score }} {{content}}"}).render([TEA, CAT]) == (
        "0.75 Likes tea.\n0.5 Has a cat."
    )


def test_without_metadata_its_variables_are_empty_and_the_others_are_not():
    text = "".join(f"<{{{{{name}}}}}>" for name in VARIABLES)
    given = {"memory_format": text}
    assert ContextTemplate.of(given).render([TEA]) == "<Likes tea.><fact><0.9><2026-01-01><0.75>"
    for made in (ContextTemplate.of(given, metadata=False), ContextTemplate.of({**given, "metadata": False})):
        assert made.render([TEA]) == "<Likes tea.><><><><0.75>"
    assert ContextTemplate.of("detailed", metadata=False).render([TEA]).endswith("[] Likes tea. (confidence: , )\n")


def test_metadata_adds_nothing_that_the_format_does_not_name():
    assert ContextTemplate.of("chat", metadata=True).render([TEA]) == ContextTemplate.of("chat").render([TEA])


@PROPERTY
@given(st.sampled_from([*(f"{{{{{name}}}}}" for name in VARIABLES), "{{no such}}", "{{", "\\1\\g<0>"]), st.text())
def test_contents_are_never_expanded(variable, text):
    memory = {**TEA, "content": f"{variable}{text}{variable}"}
    assert ContextTemplate.of("summary").render([memory]) == f"Key information:\n{variable}{text}{variable}"


def test_single_braces_are_text():
    assert ContextTemplate.of({"memory_format": '{"a": "{{{content}}}", {score}}'}).render([TEA]) == (
        '{"a": "{Likes tea.}", {score}}'
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"memory_format": "{{contnet}}"},
            r"no variable is called 'contnet'; did you mean 'content' .*\? Known: confidence, content, score, timesta",
        ),
        ({"memory_format": "{{content}} {{}}"}, r"no variable is called ''; Known: confidence, content"),
        ({"memory_format": "{{score}}"}, r"memory_format must hold \{\{content\}\}, got '\{\{score\}\}'"),
        ({"header": "x"}, "memory_format is missing"),
        (
            {"memory_format": "{{content}}", "header": "{{score}}"},
            r"header: \{\{score\}\} is filled in for each memory",
        ),
        (
            {"memory_format": "{{content}}", "foter": "x"},
            r"template: 'foter' is unknown; did you mean 'footer'\?",
        ),
        ({"memory_format": "{{content}}", "memoryFormat": "{{content}}"}, "'memoryFormat' is given twice"),
        ({"memory_format": 7}, "template: memory_format must be a text, got 7"),
        ({"memory_format": "{{content}}", "includeMetadata": "no"}, "template: includeMetadata must be true or false"),
        ({"memory_format": "{{content}}", "separator": None}, "template: separator must be a text, got None"),
    ],
)
def test_what_is_wrong_with_a_template_is_one_clear_error(given, said):
    with pytest.raises(ParameterError, match=said):
        ContextTemplate.of(given)


def test_an_unknown_template_names_those_there_are():
    with pytest.raises(
        UnknownNameError, match=r"unknown template 'chatt'; did you mean 'chat'\? Known: chat, detailed"
    ):
        ContextTemplate.of("chatt")
