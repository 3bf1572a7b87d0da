from __future__ import annotations

import pytest

from ctxbench.catalogs.instructions import read_page, text_of, texts, truth


def test_front_matter_is_taken_off():
    page = read_page("---\ndescription: When writing SQL\nglobs: ['*.sql']\n---\n\n# SQL\n\nUse CTEs.\n")
    assert page.fields == {"description": "When writing SQL", "globs": ["*.sql"]}
    assert (page.text, page.present, page.odd) == ("# SQL\n\nUse CTEs.", True, "")


def test_a_file_without_front_matter_is_all_text():
    page = read_page("# SQL\n\n---\n\nUse CTEs.\n")
    assert (page.fields, page.text, page.present, page.odd) == ({}, "# SQL\n\n---\n\nUse CTEs.", False, "")
    assert read_page("").text == ""


def test_empty_front_matter_and_windows_line_ends():
    page = read_page("---\r\n---\r\nUse CTEs.\r\n")
    assert (page.fields, page.text, page.present, page.odd) == ({}, "Use CTEs.", True, "")


@pytest.mark.parametrize(
    ("inside", "fields"),
    [
        (
            "description: \ndescribed: *.ts\nalwaysApply: false",
            {"description": None, "described": "*.ts", "alwaysApply": False},
        ),
        (
            "description: API: how we name things\nalwaysApply: True",
            {"description": "API: how we name things", "alwaysApply": True},
        ),
        (
            "globs:\n  - *.ts\n  - 'src/**'\ndescription: @team rules",
            {"globs": ["*.ts", "src/**"], "description": "@team rules"},
        ),
        ("\tdescription: tabs\nglobs: *.md", {"globs": "*.md"}),
    ],
)
def test_what_is_no_yaml_is_read_line_by_line_and_said(inside, fields):
    page = read_page(f"---\n{inside}\n---\nText")
    assert page.fields == fields
    assert page.text == "Text"
    assert page.odd.startswith("its front matter is not valid YAML (")
    assert page.odd.endswith("); it is read line by line")


def test_the_line_of_the_fault_is_that_of_the_file():
    assert "(line 3: " in read_page("---\ndescription: x\npaths: *.ts\n---\nText").odd


@pytest.mark.parametrize(
    ("line", "globs"),
    [
        ("*.ts,*.tsx", "*.ts,*.tsx"),
        ("**/*.py # all of it", "**/*.py"),
        ("{src,lib}/*.ts", "{src,lib}/*.ts"),
        ("!*.js", "!*.js"),
    ],
)
def test_patterns_without_quotes_are_read_as_cursor_writes_them(line, globs):
    page = read_page(f"---\ndescription: API\nglobs: {line}\nalwaysApply: false\n---\nText")
    assert (page.fields, page.odd) == ({"description": "API", "globs": globs, "alwaysApply": False}, "")
    assert page.lines == {"description": 2, "globs": 3, "alwaysApply": 4}


def test_a_list_as_front_matter_and_one_that_never_ends():
    assert read_page("---\n- a\n---\nText").odd == (
        "its front matter is not valid YAML (expected `name: value` lines); it is read line by line"
    )
    page = read_page("---\ndescription: x\n\nText")
    assert (page.fields, page.text) == ({}, "---\ndescription: x\n\nText")
    assert page.odd == "its front matter has no end line (---); the file is read as text"


@pytest.mark.parametrize("value", [True, "true", "True", " yes "])
def test_what_says_yes(value):
    assert truth(value)


@pytest.mark.parametrize("value", [False, None, "false", "", 1, [True]])
def test_what_does_not(value):
    assert not truth(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("*.ts", ("*.ts",)),
        ("*.ts, src/{a,b}/** ,", ("*.ts", "src/{a,b}/**")),
        (["*.ts", " b ", 5, ""], ("*.ts", "b")),
        (None, ()),
        ({"a": 1}, ()),
    ],
)
def test_lists_of_texts(value, expected):
    assert texts(value) == expected


def test_a_text_is_one_line():
    assert text_of(" two\n lines ") == "two lines"
    assert text_of(5) == "5"
    assert [text_of(value) for value in (None, True, ["x"])] == ["", "", ""]


def test_a_number_too_long_to_be_written_is_no_text():
    number = "0x" + "f" * 5000
    page = read_page(f"---\ndescription: {number}\n---\nText")
    assert text_of(page.fields["description"]) == ""
    assert "is not valid YAML" in read_page(f"---\n? {number}\n: x\n---\nText").odd


def test_long_lines_are_read_in_one_go():
    page = read_page("---\nglobs: *x" + " " * 200_000 + "y\n---\nText")
    assert len(page.fields["globs"]) == 200_003
    assert texts("a," * 200_000 + "{,}") == (*["a"] * 200_000, "{,}")
    assert texts("{a," * 200_000) == ("{a," * 199_999 + "{a,",)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("# SQL", 1),
        ("\n \n# SQL\n", 3),
        ("---\na: b\n---\n\n# SQL", 5),
        ("---\n{nope\n---\n# SQL", 4),
        ("---\na: b\n# SQL", 1),
    ],
)
def test_the_line_that_the_text_begins_in(source, line):
    page = read_page(source)
    assert page.line == line
    assert source.split("\n")[line - 1].strip() == page.text.split("\n")[0]


def test_a_field_that_occurs_twice_is_noted():
    page = read_page("---\ndescription: a\nglobs: '*.py'\ndescription: b\n---\nText")
    assert (page.fields["description"], page.odd) == (
        "b",
        "its front matter has these fields twice: description; the last value counts",
    )
