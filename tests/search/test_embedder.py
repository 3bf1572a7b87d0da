"""Identities and well-formed text."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from ctxbench.search.embedders import EmbedderIdentity, well_formed

IDENTITY = EmbedderIdentity("owner/model: 1", "abc", "onnxruntime", "float32", 384)


def test_a_key_is_a_plain_folder_name():
    assert re.fullmatch(r"owner-model-1-onnxruntime-float32-[0-9a-f]{12}", IDENTITY.key)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "owner/model; 1"),
        ("revision", "abd"),
        ("backend", "Onnxruntime"),
        ("quantisation", "int8"),
        ("dimensions", 385),
    ],
)
def test_every_field_changes_the_key(field, value):
    assert dataclasses.replace(IDENTITY, **{field: value}).key != IDENTITY.key


def test_a_key_stays_short_enough_for_a_folder():
    assert len(dataclasses.replace(IDENTITY, model="m" * 1000).key) <= 100


def test_a_key_is_the_same_in_another_process():
    script = (
        "from ctxbench.search.embedders import EmbedderIdentity as E;"
        "print(E('owner/model: 1', 'abc', 'onnxruntime', 'float32', 384).key)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    assert shown.stdout.strip() == IDENTITY.key


def test_as_dict_has_every_field():
    assert EmbedderIdentity(**IDENTITY.as_dict()) == IDENTITY


# Expected values: Node.js 20, String.prototype.toWellFormed().
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("\ud83d", "�"),
        ("a\ude00b", "a�b"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "��"),
        ("x\ud83d\ud83d\ude00", "x�\U0001f600"),
        ("\ufeffé\x00", "\ufeffé\x00"),
    ],
)
def test_lone_surrogates_are_replaced_and_split_pairs_joined(text, expected):
    assert well_formed(text) == expected
