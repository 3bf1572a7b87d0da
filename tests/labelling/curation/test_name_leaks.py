"""Leakage: which queries name the item they require."""

from __future__ import annotations

import pytest

from ctxbench.labelling.curation import Leak, find_leaks


@pytest.mark.parametrize(
    ("name", "text", "how"),
    [
        ("create_issue", "Call create_issue now", "as written"),
        ("create_issue", "please Create Issue 7", "by its words"),
        ("createIssue", "please create an issue", ""),
        ("createIssue", "please create issue 7", "by its words"),
        ("create_issue", "use createIssue", "by its words"),
        ("create-issue", "the issue to create", ""),
        ("search", "search the mails", "as written"),  # an ordinary word: whoever reads the list must judge
        ("search", "research the mails", ""),
        ("search", "searching", ""),
        ("ls", "ls the folder", ""),  # two characters
        ("weather.get", "what does weather.get do?", "as written"),
        ("release calendar", "open the RELEASE CALENDAR", "as written"),
        ("project keys", "the project's keys", ""),
        ("straße", "in der STRASSE", "as written"),
    ],
)
def test_a_name_is_found_as_written_or_by_its_words(make, name, text, how):
    data = make.dataset([name], [make.query("q", text)], [("q", name, 2)])
    expected = (Leak("q", data.catalog.ids[0], how),) if how else ()
    assert find_leaks(data) == expected


def test_only_required_items_leak_and_a_server_is_told_apart(make):
    data = make.dataset(
        [make.tool("open", server="github"), make.tool("issue_list", server="github")],
        [make.query("q", "issue list of GitHub")],
        [],
    )
    from dataclasses import replace

    from ctxbench.datasets.queries import Label

    labels = (Label("q", make.key("open", "github"), 2), Label("q", make.key("issue_list", "github"), 1))
    assert find_leaks(replace(data, labels=labels)) == (Leak("q", "tool:github:open", "server"),)
