"""Token files: who may ask."""

from __future__ import annotations

import hmac
import re

import pytest

from ctxbench.io.errors import InputError, StorageError
from ctxbench.memory.web_app import UserTokens, others_may_read, read_tokens

ANA, BEN, FIGURES = "a" * 16, "ben.token~0123456789==", "f" * 40


def written(tmp_path, text):
    path = tmp_path / "tokens.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_tokens_are_read_from_yaml_and_json(tmp_path):
    for text in (
        f"{ANA}: ana\n{BEN}: ben\n{FIGURES}: null\n",
        f'{{"{ANA}": "ana", "{BEN}": "ben", "{FIGURES}": null}}',
    ):
        tokens = read_tokens(written(tmp_path, text))
        assert [tokens.find(one) for one in (ANA, BEN, FIGURES)] == [("ana",), ("ben",), (None,)]
        assert [tokens.find(one) for one in ("", ANA[:-1], ANA + "a", ANA.upper(), "ana", "é", "\ud800")] == [None] * 7


def test_every_token_is_compared_in_constant_time(monkeypatch):
    pairs = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda *two: pairs.append(two) or compare(*two))
    tokens = UserTokens({ANA: "ana", BEN: "ben"})
    assert tokens.find(ANA) == ("ana",)
    assert tokens.find("x") is None
    assert len(pairs) == 4  # both at each call, found or not
    assert {len(one) for two in pairs for one in two} == {32}  # as hashes, so of one length


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a token file is a mapping from tokens to users"),
        ("[a, b]", "a token file is a mapping"),
        ("short: ana", "token 1 must have 16 or more letters"),
        (f"{ANA}: ana\n'{'b' * 15} b': ben", r"token 2 must have 16 .*\(.*tokens.yaml, line 2"),
        ("1234567890123456: ana", "a key must be a text; put it in quotes"),
        (f"{ANA}: ''", "the user of token 1 must be a text that is not blank"),
        (f"{ANA}: 7", "the user of token 1 must be"),
        (f"{ANA}: ana\n{ANA}: ben", "twice|again|duplicate"),
    ],
)
def test_a_faulty_file_is_refused_without_a_token_in_the_message(tmp_path, text, said):
    with pytest.raises(InputError) as error:
        read_tokens(written(tmp_path, text))
    assert re.search(said, str(error.value))
    assert not any(part in str(error.value) for part in ("aaaa", "bbbb", "1234"))


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"none\.yaml"):
        read_tokens(tmp_path / "none.yaml")


@pytest.mark.parametrize(("mode", "refused", "read"), [(0o600, 0, 0), (0o644, 0, 1), (0o620, 1, 0), (0o602, 1, 0)])
def test_a_file_that_others_may_write_is_refused(tmp_path, mode, refused, read):
    path = written(tmp_path, f"{ANA}: ana\n")
    path.chmod(mode)
    assert others_may_read(path) == bool(read)
    if refused:
        with pytest.raises(StorageError, match=r"tokens\.yaml can be written by others.*chmod 600"):
            read_tokens(path)
    else:
        assert read_tokens(path).users == ("ana",)


def test_other_tokens_take_the_place_of_the_first():
    tokens = UserTokens({ANA: "ana", FIGURES: None})
    tokens.replace_by(UserTokens({BEN: "ben"}))
    assert (tokens.find(ANA), tokens.find(BEN), tokens.users) == (None, ("ben",), ("ben",))
