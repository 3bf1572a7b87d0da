"""What is replaced by a placeholder, what must stay, and that placeholders are stable."""

from __future__ import annotations

import hashlib

import pytest

from ctxbench.io.errors import InputError, ParameterError, StorageError
from ctxbench.io.redaction import (
    Redactor,
    is_name,
    is_random,
    known_keys,
    masked,
    passes_iban,
    passes_luhn,
    read_rules,
    redactor,
)
from tests.planted import GITHUB, KEYS, PEM

REPLACED = [
    ("Write to anna.berg+x@mail.example.co.uk.", "Write to <mail-1>."),
    ("cc: <o'neil@example.org>;bob@example.org", "cc: <<mail-1>>;<mail-2>"),
    ("use sk-ant-api03-AbCdEf0123456789xyz please", "use <key-1> please"),
    ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "<key-1>"),
    ("AKIAIOSFODNN7EXAMPLE is the key", "<key-1> is the key"),
    ("curl -H 'Authorization: Bearer abc.def-123'", "curl -H 'Authorization: Bearer <key-1>'"),
    ("api_key=9f8e7d6c5b4a&page=2", "api_key=<key-1>&page=2"),
    ('{"token": "tok_12345678"}', '{"token": "<key-1>"}'),
    ("password: hunter2", "password: <key-1>"),
    ("the password is s3cret!x", "the password is <key-1>"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", "<key-1>"),
    ("X9fKq2LmZ7tRb4WvY1cNd8HsJ3gPxQ6e is mine", "<key-1> is mine"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nDone", "<key-1>\nDone"),
    ("git clone https://anna:pa55@forge.example/x.git", "git clone https://<login-1>@forge.example/x.git"),
    ("open /home/anna/work/a.py and /Users/bob.k/x", "open /home/<user-1>/work/a.py and /Users/<user-2>/x"),
    (r"see C:\Users\Anna\notes.txt", r"see C:\Users\<user-1>\notes.txt"),
    ("pay with 4111 1111 1111 1111 today", "pay with <card-1> today"),
    ("card 378282246310005", "card <card-1>"),
    ("IBAN DE89 3704 0044 0532 0130 00, thanks", "IBAN <iban-1>, thanks"),
    ("GB82WEST12345698765432", "<iban-1>"),
    ("call +49 171 2345678 or (415) 555-0132", "call <phone-1> or <phone-2>"),
    ("ring 415-555-0132", "ring <phone-1>"),
    ("mobile 0171 2345678", "mobile <phone-1>"),
    ("account 9876543210 is blocked", "account <number-1> is blocked"),
    ("SSN 078-05-1120", "SSN <number-1>"),
    ("Hi Anna, close it. Anna is away.", "Hi <name-1>, close it. <name-1> is away."),
    ("Dear Dr. Anna Berg-Olsen, see below", "Dear Dr. <name-1>, see below"),
    ("Hello Zoë can you look", "Hello <name-1> can you look"),
    ("Fix it.\n\nBest regards,\nAnna Berg", "Fix it.\n\nBest regards,\n<name-1>"),
    ("Please do. Thanks, Bob", "Please do. Thanks, <name-1>"),
    ("My name is Jean O'Neil and I", "My name is <name-1> and I"),
    ("this is Anna from sales", "this is <name-1> from sales"),
    ("invite Mrs. Kowalski", "invite Mrs. <name-1>"),
    ("find Mr. Lu Yaojie's resume", "find Mr. <name-1>'s resume"),
    ("customer: Anna Berg wants a refund", "customer: <name-1> wants a refund"),
    ("POSTGRES_PASSWORD=s3cr3t!", "POSTGRES_PASSWORD=<key-1>"),
    ("db_password=hunter2x", "db_password=<key-1>"),
    ("password: swordfish", "password: <key-1>"),
    ('{"password": "correct horse, battery"}', '{"password": "<key-1>"}'),
    (r'"{\"password\": \"hunter2\"}"', r'"{\"password\": \"<key-1>\"}"'),
    ("token: abcdefghijklmnopqrst", "token: <key-1>"),
    ("SECRET_KEY='django-insecure-a&(b)!x'", "SECRET_KEY='<key-1>'"),
    ("deploy --auth-token abc123def456 --force", "deploy --auth-token <key-1> --force"),
    ("use 'Zk3jH8sL0pQ2wE9rT5yU7iO1aS4dF6gH' now", "use '<key-1>' now"),
    ("path/Zk3jH8sL0pQ2wE9rT5yU7iO1aS4dF6gH x", "path/<key-1> x"),
    ("x.-Zk3jH8sL0pQ2wE9rT5yU7iO1aS4dF6gH", "x.-<key-1>"),
    ("key wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "key <key-1>"),
    (
        "Name=x;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;Suffix=y",
        "Name=x;AccountKey=<key-1>;Suffix=y",
    ),
    (
        "https://hooks.slack.com/services/T0AB12CD3/B0AB12CD3/abcDEF123ghiJKL456mnoPQR",
        "https://hooks.slack.com/services/<key-1>",
    ),
    ("https://tok3n9876543210@forge.example/x", "https://<login-1>@forge.example/x"),
    ("mongodb://bob:p@ss1@host/db", "mongodb://<login-1>@host/db"),
    ("https://host/users/anna@corp.example/edit", "https://host/users/<mail-1>/edit"),
    ("to/anna@corp.example, @bob@corp.example", "to/<mail-1>, @<mail-2>"),
    ("?to=anna%40corp.example", "?to=<mail-1>"),
    ("mail 'anna@corp.example' and anna@corp.example", "mail '<mail-1>' and <mail-1>"),
]

KEPT = [
    "call mcp__tracker__create_issue, then tracker.search_issues",
    "tool:tracker:create_issue and rule:code%20review",
    "mcp__Very_Long_Server_Name_V2__List_All_The_Open_Pull_Requests_Of_Repo2",
    "getAllOpenPullRequestsOfTheRepositoryByUserIdAndState2",
    "release 4.2.11, python 3.11, lodash@4.17.21",
    "HTTP 404 and 500, port 8080, 192.168.10.24:5432",
    "on 2026-03-01 at 10:00:00 and 2026-03-01T10:00:00+00:00, 01/03/2026",
    "SHP-1234, #98765, PROJ-123456789, order-4821739912",
    "run https://forge.example/shop/web/actions/runs/123456789012",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 of 7cda215",
    "id 550e8400-e29b-41d4-a716-446655440000, d41d8cd98f00b204e9800998ecf8427e",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "12345678 rows, 1,250,000,000 bytes, 3.14159265358979",
    "Hello, World! Hi Claude, hi team, Hey List all open issues",
    "Dear Support, good morning Everyone",
    "how many token types are there, and is the password required",
    "reset my password: please. What is a secret manager? The token is expired.",
    "git@github.com:shop/web.git and @anna mentioned it",
    "/home/runner/work/x and /Users/Shared/y and ~/.ssh/config",
    "Thanks for the help. Thanks, that is all!",
    "I am at the office, this is it here",
    "4111 1111 1111 1112",
    "Find contact details. The customer wants a refund",
    "<mail-1> and <name-2> from an earlier pass",
    "our secret santa2024, the token budget2024x, private key rotation_2024 policy",
    "pin: create_issue_2, pin the tab, max_tokens: 4096, token: 512, tokens=90000, spin: fast",
    "token_count: 4096, Token: what is it? token=$TOKEN, password: ${PASSWORD}",
    "I am German of course",
    "set OPENAI_KEY to sk-your-own-key-from-the-console and GH to ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "see sk-evening-relax-paradise-tropical-peaceful",
    "A PEM key begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----, in between base64.",
    r"key: -----BEGIN PRIVATE KEY-----\nXXXX\n-----END PRIVATE KEY-----",
    "ssh://git@forge.example/shop.git and src/components/AllOpenRequests2/RepositoryByUserIdAndState",
]


@pytest.mark.parametrize(("text", "expected"), REPLACED)
def test_a_secret_becomes_a_placeholder(text, expected):
    assert Redactor().text(text) == expected


@pytest.mark.parametrize("text", KEPT)
def test_what_only_looks_like_a_secret_stays(text):
    assert Redactor().text(text) == text


@pytest.mark.parametrize(("text", "expected"), REPLACED)
def test_a_second_pass_changes_nothing(text, expected):
    assert Redactor().text(expected) == expected


def test_the_same_secret_gets_the_same_placeholder_in_every_text():
    one = Redactor()
    assert one.text("a@x.example, b@x.example") == "<mail-1>, <mail-2>"
    assert one.text("b@x.example, c@x.example") == "<mail-2>, <mail-3>"
    assert one.counts == {"mail": {"replaced": 4, "distinct": 3}}


def test_a_placeholder_holds_nothing_of_the_secret():
    out = Redactor().text("mail anna@corp.example")
    for digest in (hashlib.md5, hashlib.sha1, hashlib.sha256):
        assert digest(b"anna@corp.example").hexdigest()[:6] not in out
    assert Redactor().text("mail otto@corp.example") == out


def test_kinds_of_secrets_are_numbered_apart():
    assert Redactor().text("a@x.example +49 171 2345678") == "<mail-1> <phone-1>"


def test_a_user_id_is_replaced_whole_and_known_again():
    one = Redactor()
    assert [one.identifier(user, "user") for user in ("u1", "u2", "u1", "")] == ["<user-1>", "<user-2>", "<user-1>", ""]


def test_a_user_known_by_a_mail_address_is_that_address_in_texts():
    one = Redactor()
    assert one.identifier("anna@x.example", "user") == "<mail-1>"
    assert one.text("ask anna@x.example") == "ask <mail-1>"


def test_a_learnt_name_is_replaced_wherever_it_stands_as_words():
    one = Redactor()
    one.learn("Anna Berg", "user")
    assert one.text("Anna Berg and Berg, but Anna Bergen") == "<name-1> and Berg, but Anna Bergen"


def test_a_learnt_id_is_replaced_but_no_ordinary_word():
    one = Redactor(ordinary=["Search"])
    for user in ("anna.berg", "abc", "search", "U123X"):
        one.learn(user, "user")
    assert one.text("search abc for anna.berg and U123X9 or U123X") == "search abc for <user-1> and U123X9 or <user-2>"


@pytest.mark.parametrize("user", ["Test User", "Admin", "Service Account", "support", "12345", "anna", "abc"])
def test_names_of_users_that_are_ordinary_words_do_not_destroy_texts(user):
    one = Redactor()
    one.learn(user, "user")
    text = "Test the User settings as Admin: the Service needs an Account for support, 12345 abc anna"
    assert one.text(text) == text


def test_ids_of_digits_or_small_letters_are_learnt_as_whole_tokens_from_six_characters():
    one = Redactor()
    for user in ("annamueller", "42424242", "Test User"):
        one.learn(user, "user")
    text = "annamueller, annamuellers, conv_annamueller-3, 42424242, 142424242, Test User"
    assert one.text(text) == "<user-1>, annamuellers, conv_<user-1>-3, <user-2>, <number-1>, <name-1>"


def test_many_ids_that_begin_alike_are_each_found():
    one = Redactor()
    for i in range(3000):
        one.learn(f"user-{i:05d}", "user")
    text = "user " * 5000 + "user-00002 user-02999 user-03000 user-000021"
    assert one.text(text).removeprefix("user " * 5000) == "<user-1> <user-2> user-03000 user-000021"


def test_names_of_tools_are_kept_even_where_they_look_like_secrets():
    text = "Hi Linear, run job_X9fKq2LmZ7tRb4WvY1cNd8HsJ3gPxQ6e now"
    assert Redactor().text(text) != text
    assert Redactor(keep=["Linear", "job_X9fKq2LmZ7tRb4WvY1cNd8HsJ3gPxQ6e"]).text(text) == text


def test_an_empty_text_stays_empty():
    one = Redactor()
    assert one.text("") == ""
    assert one.counts == {}


@pytest.mark.parametrize(
    ("card", "valid"),
    [("4111111111111111", True), ("4111-1111-1111-1111", True), ("4111111111111112", False), ("0000000000000", False)],
)
def test_cards_have_a_check_digit(card, valid):
    assert passes_luhn(card) is valid


def test_ibans_have_check_digits():
    assert passes_iban("DE89370400440532013000")  # the registry's own example
    assert not passes_iban("DE88370400440532013000")
    assert not passes_iban("DE8937040044")


def test_random_text_is_told_from_joined_words():
    assert is_random("X9fKq2LmZ7tRb4WvY1cNd8HsJ3gPxQ6e")
    assert not is_random("ListAllOpenPullRequestsOfRepo2AndTheirState")
    assert not is_random("9fceb02d0ae598e95dc970b74767f19372d61af8")


@pytest.mark.parametrize("name", ["Anna", "Anna Berg", "Jean-Luc", "O'Neil", "Zoë", "McDonald"])
def test_names_have_a_form(name):
    assert is_name(name)


@pytest.mark.parametrize("name", ["World", "anna", "GitHub", "A", "Anna please", "", "X1", "One Two Three Four"])
def test_other_words_are_no_names(name):
    assert not is_name(name)


def test_own_patterns_come_first_and_built_in_ones_can_be_left_out(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "patterns:\n  - {kind: customer, pattern: 'CUST-\\d+'}\n  - {kind: plan, pattern: 'plan (?P<secret>\\w+)'}\n"
        "without: [mail]\nkeep: ['415-555-0132']\n"
    )
    one = redactor(path)
    assert one.text("CUST-77 on plan gold: a@x.example, 415-555-0132, 415-555-0133") == (
        "<customer-1> on plan <plan-1>: a@x.example, 415-555-0132, <phone-1>"
    )


def test_own_patterns_may_be_json(tmp_path):
    path = tmp_path / "own.json"
    path.write_text('{"patterns": [{"kind": "badge", "pattern": "B-[0-9]+"}]}')
    assert redactor(path).text("B-12 wrote a@x.example") == "<badge-1> wrote <mail-1>"


def test_everything_wrong_with_own_patterns_is_listed(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "patterns:\n  - {kind: Bad Kind, pattern: x}\n  - {kind: a, pattern: '('}\n  - {kind: b, pattern: 'x*'}\n"
        "  - {kind: c}\nwithout: [mails]\nkeep: [1]\nextra: 1\n"
    )
    with pytest.raises(InputError) as caught:
        read_rules(path)
    text = str(caught.value)
    assert len(caught.value.faults) == 7
    for part in ("unknown field 'extra'", "line 2", "malformed regular", "empty text", "expected {kind, pattern}"):
        assert part in text
    assert "did you mean 'mail'" in text


def test_a_file_of_patterns_that_is_none_is_an_error(tmp_path):
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(InputError, match="expected a mapping"):
        read_rules(tmp_path / "list.yaml")
    with pytest.raises(StorageError, match="cannot read"):
        redactor(tmp_path / "none.yaml")
    with pytest.raises(ParameterError, match="must not be empty"):
        redactor(keep=[""])


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_a_known_form_are_found_where_they_stand_and_shown_by_their_start(key):
    text = f"Use it:\n\n  key={key} now"
    assert list(known_keys(text)) == [(text.index(key), key)]
    shown = masked(text)
    assert key not in shown
    assert shown.startswith(f"Use it:\n\n  key={key[:4]}")


def test_a_key_is_found_behind_what_stands_for_a_line_end_and_in_a_url():
    assert [key for _, key in known_keys(rf"a\n{GITHUB}")] == [GITHUB]
    assert [key for _, key in known_keys(f"?x=%22{GITHUB}%22")] == [GITHUB]
    assert not list(known_keys(f"x{GITHUB}"))


def test_of_a_private_key_only_its_first_line_is_shown():
    assert masked(f"a {PEM} b") == f"a {PEM.splitlines()[0]}… b"
    assert masked("nothing") == "nothing"


def test_a_name_or_number_alone_is_no_known_key():
    assert not list(known_keys("password: hunter2, anna@corp.example, +49 171 2345678, commit 9fceb02d0ae598e95dc970"))
