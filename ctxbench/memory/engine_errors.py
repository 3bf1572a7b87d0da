"""What can go wrong in the memory engine, by the types that its document names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ctxbench.core.errors import EmbeddingError, InputError, ParameterError, StorageError, UnknownNameError, UserError

EMBEDDING, SEARCH, STORAGE, VALIDATION = "embedding_error", "search_error", "storage_error", "validation_error"
TEMPLATE = "template_not_found"


class EngineError(UserError):
    """A call of the engine failed; nothing was answered in its place.

    Attributes:
        type: `embedding_error`, `search_error`, `storage_error`, `validation_error` or `template_not_found`.
    """

    def __init__(self, type: str, message: str) -> None:  # noqa: A002 - the document's name
        self.type = type
        super().__init__(message)


_GIVEN = (ParameterError, InputError, UnknownNameError)
_TYPES = ((EmbeddingError, EMBEDDING), (StorageError, STORAGE), (_GIVEN, VALIDATION), (UserError, SEARCH))


@contextmanager
def typed_errors() -> Iterator[None]:
    """Whatever a user's call may meet, raised as an `EngineError`; a bug of ours stays what it is."""
    try:
        yield
    except EngineError:
        raise
    except UserError as error:
        raise EngineError(next(name for kind, name in _TYPES if isinstance(error, kind)), str(error)) from error
