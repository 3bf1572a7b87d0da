"""What the replay against the cache of contexts must hold."""

from __future__ import annotations

import pytest
from replay import arguments, replay


@pytest.mark.slow
def test_unchanged_previews_hit_writes_miss_and_nothing_is_wrong(capsys):
    given = {"files": 60, "length": 600, "threads": 6, "turns": 60, "seed": 3}
    n = replay(arguments(*(f"--{name}={value}" for name, value in given.items())))
    assert n["late"] == 0
    assert n["build after an unchanged preview, asked"] > 20
    assert n["build after an unchanged preview, hit"] == n["build after an unchanged preview, asked"]
    assert n["build after a write, asked"] > 10
    assert n["build after a write, hit"] == n["preview, hit"] == 0
    assert n["retry, hit"] == n["retry, asked"] > 0
    assert n["wrong"] == 0
    assert n["document, wrong"] > 0
    assert "| document 002's aim | above 30% | |" in capsys.readouterr().out
