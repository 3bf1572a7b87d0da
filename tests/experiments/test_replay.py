"""The replay of threads: the cache answers what is unchanged, never what was written over, and never wrongly."""

from __future__ import annotations

import pytest
import replay

pytestmark = pytest.mark.rest  # what both tests look at takes seconds


@pytest.fixture(scope="module")
def found():
    return replay.replayed(3)


def test_the_cache_answers_all_that_is_unchanged_and_nothing_else(found):
    assert found.unchanged_hits == found.unchanged > 0
    assert found.written_misses == found.written > 0
    assert found.hits == found.unchanged
    assert found.wrong == 0


def test_a_cache_by_thread_alone_answers_with_what_was_written_over(found):
    assert found.document_hits == found.unchanged + found.written
    assert 0 < found.document_wrong < found.document_hits
