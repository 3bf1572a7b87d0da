"""What must not leave a configuration, in every form that it may turn up in."""

from __future__ import annotations

import base64

import pytest

from ctxbench.io.secrets import Secrets, in_arguments, in_url, is_secret_name, secrets_in_url, shown_text, shown_url
from tests.planted import GITHUB


def hiding(*values: str, name: str = "TOKEN") -> Secrets:
    return Secrets((name, value) for value in values)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("key sk-12/34+x is wrong", "key <hidden> is wrong"),
        ("?key=sk-12/34%2Bx&", "?key=<hidden>&"),
        ("?key=sk-12%2F34%2Bx&", "?key=<hidden>&"),
        ("ask-12/34+xed", "a<hidden>ed"),
        ("nothing", "nothing"),
    ],
)
def test_a_value_is_hidden_as_it_is_and_as_a_url_writes_it(text: str, hidden: str) -> None:
    assert hiding("sk-12/34+x").hide(text) == hidden
    assert hiding("sk-12/34+x").hide_in(text) == hidden


def test_the_words_and_lines_of_a_value_are_hidden_too() -> None:
    secrets = hiding("Bearer tiger42", 'first "line"\nsecond line')
    assert secrets.hide("tiger42, Bearer tiger42") == "<hidden>, <hidden>"
    assert secrets.hide('{"x": "first \\"line\\"\\nsecond line"}') == '{"x": "<hidden>"}'
    assert secrets.hide("second line") == "<hidden>"
    assert secrets.hide_in("Bearer auth, tiger42") == "Bearer auth, <hidden>"  # the word itself is no secret


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("s3cr3tordersToken123", "<hidden>"),
        ("like xtordersToken1234567abcdef.", "like x<hidden>."),
        ("cr3tordersToken12 s3cr3tordersToke", "<hidden> <hidden>"),
        ("s3cr3tordersTok", "s3cr3tordersTok"),  # 15 characters
        ("claude-3-5-sonnet at //api.example.com", "claude-3-5-sonnet at //api.example.com"),
    ],
)
def test_long_parts_of_a_secret_are_hidden(text: str, hidden: str) -> None:
    values = [("MODEL", "claude-3-5-sonnet-20241022"), ("BASE", "https://api.example.com/v1/orders")]
    for name in ("ORDERS_TOKEN", "ORDERS"):
        secrets = Secrets([*values, (name, "s3cr3tordersToken1234567abcdef")])
        assert secrets.hide_in(text) == hidden
        assert secrets.hide(text) == hidden
    assert secrets.in_names({"name": f"get_{text}"}) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("DOCS_ROOT", "/srv/handbook2024/internationalshipping/customs", "Finds internationalshipping rules"),
        ("API_KEY_FOLDER", "/srv/handbook2024/internationalshipping", "Finds internationalshipping rules"),
        ("BASE_URL", "https://mcp.example.com/api/v1/abcdef0123456789ab", "See https://mcp.example.com/api/v1/docs"),
        ("DATABASE_AUTH", "pg://svc:pw1@db.internal.example.com/orders2024", "SQL on db.internal.example.com"),
        ("DATABASE_AUTH", "svc:pw1@db.internal.example.com/orders2024", "SQL on db.internal.example.com"),
        ("INDEX", "/var/organization_documents_2024/desk", "Search organization_documents_2024"),
    ],
)
def test_words_and_hosts_in_long_values_stay(name: str, value: str, text: str) -> None:
    secrets = Secrets([(name, value)])
    assert secrets.hide_in(text) == text
    assert secrets.hide_in(f"at {value}.") == "at <hidden>."
    names = {"name": "a", "inputSchema": {"properties": {word: {} for word in text.split()}}}
    assert secrets.in_names(names) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BASE_URL", "https://mcp.example.com/v1/abcdef0123456789abcdef"),
        ("DATABASE", "pg://svc:abcdef0123456789abcdef@db.example.com/orders"),
        ("MOUNT", "/srv/abcdef0123456789abcdef/mcp"),
        ("API_TOKEN", "K7MDENG/abcdef0123456789abcdef"),
    ],
)
def test_long_parts_of_a_secret_in_a_url_or_path_are_hidden(name: str, value: str) -> None:
    secrets = Secrets([(name, value)])
    assert secrets.hide_in("like abcdef0123456789ab… or ef0123456789abcdef") == "like <hidden>… or <hidden>"


def test_what_stands_in_json_and_in_cookies_is_hidden_alone() -> None:
    secrets = Secrets([("HEADERS", '{"Authorization": "Bearer ntn_0123456789abc"}'), ("Cookie", "id=ab12cd; theme=x")])
    assert secrets.hide_in("Authorization by ntn_0123456789abc, ab12cd") == "Authorization by <hidden>, <hidden>"


def test_a_short_value_is_hidden_in_errors_as_a_word_only() -> None:
    secrets = hiding("1", "on")
    assert secrets.hide("1 of 10, on and one") == "<hidden> of 10, <hidden> and one"
    assert secrets.hide_in({"on": ["1"]}) == {"on": ["1"]}  # stands in a tool by chance


def test_a_secret_of_few_characters_is_hidden_in_tools_as_a_word_only() -> None:
    secrets = hiding("48151", name="PIN")
    assert secrets.hide_in("pin is 48151, not 481516 nor a48151") == "pin is <hidden>, not 481516 nor a48151"
    assert secrets.hide_in({"default": 48151, "maximum": 481510, "x": True}) == {
        "default": "<hidden>", "maximum": 481510, "x": True,
    }  # fmt: skip


def test_a_secret_of_words_is_hidden_in_prose_only() -> None:
    secrets = hiding("issues", name="DB_PASSWORD")
    tool = {
        "name": "search_issues", "description": "Search issues with search_issues, not tissues.",
        "inputSchema": {"properties": {"issues": {"type": "issues"}}, "required": ["issues"], "default": "issues"},
    }  # fmt: skip
    assert secrets.in_names(tool) is None
    assert secrets.hide_in(tool) == {
        **tool, "description": "Search <hidden> with search_issues, not tissues.",
        "inputSchema": {**tool["inputSchema"], "default": "<hidden>"},  # type: ignore[dict-item]
    }  # fmt: skip


def test_what_is_no_secret_by_name_nor_by_shape_is_hidden_in_errors_alone() -> None:
    secrets = Secrets([("NODE_ENV", "production"), ("MAX_TOKENS", "40960"), ("HOST", "s3.example.org/0123")])
    assert secrets.hide("production, 40960") == "<hidden>, <hidden>"
    assert secrets.hide_in("production, 40960") == "production, 40960"
    assert secrets.hide_in("s3.example.org/0123") == "<hidden>"  # 19 characters with digits


def test_names_that_hold_a_secret_are_found() -> None:
    secrets = hiding("tiger-42")
    assert secrets.in_names({"name": "get_tiger-42"}) == "get_tiger-42"
    assert secrets.in_names({"name": "a", "inputSchema": {"anyOf": [{"tiger-42s": 1}]}}) == "tiger-42s"
    assert secrets.in_names({"name": "a", "description": "tiger-42"}) is None


def test_user_and_password_are_hidden_encoded_and_decoded() -> None:
    secrets = Secrets([("Authorization", "Basic " + base64.b64encode(b"admin:hunter2").decode())])
    assert secrets.hide("admin:hunter2, user admin, YWRtaW46aHVudGVyMg==") == "<hidden>, user <hidden>, <hidden>"
    assert secrets.hide_in("The admin hunter2") == "The admin <hidden>"
    assert Secrets([("A", "Basic !"), ("B", "Basic abc"), ("C", "Basic /w==")]).hide("x") == "x"  # nothing to decode
    assert Secrets([("DB", "pg://me:hunter2@host/db?sslkey=k-9876")]).hide_in("hunter2 k-9876 me") == (
        "<hidden> <hidden> me"
    )


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "apiKey", "X-Api-Key", "--pat", "githubPat", "DB_PASS", "dbpass", "PASSWORD", "PIN", "pwd",
     "Authorization", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "Cookie", "--credentials"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "SCOPE", "NODE_ENV", "MAX_TOKENS", "TOKENIZERS_PARALLELISM", "TOKEN_URL", "AUTH_TYPE", "AUTHOR",
     "KEYWORDS", "PINNED", "COMPAT", "Accept", ""],
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_the_longest_value_is_hidden_first() -> None:
    assert hiding("tiger", "tiger-house").hide("tiger-house tiger") == "<hidden> <hidden>"


def test_json_is_searched_but_not_its_keys() -> None:
    value = {"tiger-42": ["a tiger-42", 3, None, {"x": True}]}
    assert hiding("tiger-42").hide_in(value) == {"tiger-42": ["a <hidden>", 3, None, {"x": True}]}
    assert Secrets([]).hide_in(value) == value
    assert hiding("", " ").hide("a b") == "a b"
    assert hiding("\ud800x1y2z3").hide("a \ud800x1y2z3") == "a <hidden>"  # an environment may hold half a character


def test_arguments_that_look_secret_are_found() -> None:
    arguments = ["-y", "pkg", "--api-key", "k1", "--token=t=2", "--verbose", "v", "--password", "--x", "--Auth-Header"]
    assert in_arguments([*arguments, "h"]) == [("--api-key", "k1"), ("--token", "t=2"), ("--Auth-Header", "h")]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["-e", "GITHUB_TOKEN=ghp_1"], [("GITHUB_TOKEN", "ghp_1")]),
        (["--env=GITHUB_TOKEN=ghp_1"], [("GITHUB_TOKEN", "ghp_1")]),
        (["-e", "GITHUB_TOKEN"], []),
        (["--pat", "ghp_1", "--path", "/x"], [("--pat", "ghp_1")]),
        (["--token", "abc=="], [("--token", "abc==")]),
        (["--header", "Authorization: Bearer x"], [("Authorization", "Bearer x")]),
        (["-H", "X-Team:blue"], [("X-Team", "blue")]),
        (["https://me@host/sse?token=k1"], [("user", "me"), ("token", "k1")]),
        (["--mode=fast", "a=b=c"], []),
    ],
)
def test_forms_of_arguments(arguments: list[str], found: list[tuple[str, str]]) -> None:
    assert in_arguments(arguments) == found


def test_parts_of_a_url_that_look_secret_are_found() -> None:
    url = "https://me:pass%20word@host.example:8/v1/0123456789abcdef/mcp?key=k1&flag#frag"
    assert in_url(url) == [
        ("user", "me"), ("password", "pass%20word"), ("password", "pass word"), ("fragment", "frag"), ("key", "k1"),
        ("path", "0123456789abcdef"),
    ]  # fmt: skip
    assert in_url("http://[broken/") == [("url", "http://[broken/")]
    assert in_url("http://host/mcp") == []


PAIR = base64.b64encode(b"me@corp.example:tiger>>42???").decode()


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (base64.b64encode(b"tiger>>42???").decode(), "<hidden>"),
        (base64.urlsafe_b64encode(b"tiger>>42???").decode(), "<hidden>"),
        ("hex 74696765723e3e34323f3f3f, 74696765723E3E34323F3F3F.", "hex <hidden>, <hidden>."),
        ("?key=tiger%3E%3E42%3F%3F%3F&x, tiger%3e%3e42%3f%3f%3f", "?key=<hidden>&x, <hidden>"),
        (f"Authorization: Basic {PAIR}", f"Authorization: Basic {PAIR[:22]}<hidden>"),
    ],
)
def test_a_value_is_hidden_where_it_is_encoded(text: str, hidden: str) -> None:
    assert hiding("tiger>>42???").hide_in(text) == hidden
    assert hiding("tiger>>42???").hide(text) == hidden


def test_a_short_secret_is_hidden_in_a_pair_with_another_value() -> None:
    secrets = Secrets([("USER", "anna"), ("PASSWORD", "pw-1")])
    assert secrets.hide_in(base64.b64encode(b"anna:pw-1").decode()) == "<hidden>"
    assert secrets.hide_in(base64.b64encode(b"x-pw-1-y").decode()) == base64.b64encode(b"x-pw-1-y").decode()


def test_what_is_no_secret_stays_where_it_is_encoded_too() -> None:
    secrets = Secrets([("NODE_ENV", "production"), ("DEBUG", "true"), ("LEVEL", "info"), ("HOME", "/home/me/work")])
    text = f"{base64.b64encode(b'production').decode()} true info 1 /home/me/work {b'production'.hex()} production"
    assert secrets.hide_in(text) == text


def test_the_scheme_of_a_header_is_left_in_errors() -> None:
    assert Secrets([("Authorization", "Bearer tiger42")]).hide("expected Bearer, got tiger42") == (
        "expected Bearer, got <hidden>"
    )


def test_of_a_url_only_secrets_are_taken() -> None:
    url = f"https://host/v1/context-selector-v2/{GITHUB}?model=small&k=20&sig=ab%2Fc&api_key=k1"
    assert secrets_in_url(url) == [("sig", "ab%2Fc"), ("sig", "ab/c"), ("api_key", "k1"), ("path", GITHUB)]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host:8/v1/context-selector-v2/select", "https://host:8/v1/context-selector-v2/select"),
        (f"https://host/{GITHUB}/select?api_key=k1#part", "https://host/<hidden>/select"),
        ("https://me:pass@host/x", "https://host/x"),
        ("https://me:pa/ss@host/x", "https://host/x"),
        ("me:pass@host/x?key=1", "host/x"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("http://[::1", "http://[::1"),
        ("https://host/@scope/name", "https://host/@scope/name"),
        ("", ""),
    ],
)
def test_a_url_as_it_may_be_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("unknown selector 'https://me:pass@host/x?k=2&api_key=k1&sig=k2'; Known: a",
         "unknown selector 'https://host/x?k=2&api_key=<hidden>&sig=<hidden>'; Known: a"),
        (f"got ['{GITHUB}'] (a.yaml, line 3)", "got ['ghp_…'] (a.yaml, line 3)"),
        ("token must be a text, got 3; see https://yaml.org/spec/1.2.2/#103-core-schema",
         "token must be a text, got 3; see https://yaml.org/spec/1.2.2/#103-core-schema"),
    ],
)  # fmt: skip
def test_a_message_as_it_may_be_shown(text: str, shown: str) -> None:
    assert shown_text(text) == shown
