"""What a strategy says of itself, beside what it does."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ctxbench.core.errors import ParameterError

if TYPE_CHECKING:
    from ctxbench.core.items import Catalog

T = TypeVar("T")


def later(default: T) -> T:
    """A parameter that came after pipelines were stored: at its default no description holds it, so they stay valid."""
    return dataclasses.field(default=default, metadata={"later": True})


class Strategy:
    """The base of strategies: a frozen dataclass whose fields are its parameters, and which is called.

    How it is called depends on its kind (`ctxbench.core.stages`). What stands here is what a pipeline asks it; a
    strategy overrides what is otherwise for it, by a class variable or a property.

    Attributes:
        rule_words: the words of the rules by which it keeps items out, by code, with `{name}` for a value of the rule.
    """

    rule_words: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        """Refuse a parameter without a default that is called like something that every strategy says of itself.

        Raises:
            ParameterError: names both; as a dataclass it would take what `Strategy` says for its default.
        """
        super().__init_subclass__()
        for name, kind in inspect.get_annotations(cls).items():
            is_property = isinstance(getattr(Strategy, name, None), property) and name not in vars(cls)
            if is_property and "ClassVar" not in str(kind):
                raise ParameterError(
                    f"{cls.__name__}: a parameter without a default cannot be called {name!r}, as every strategy says "
                    "something of itself by that name; give it a default, or another name"
                )

    @property
    def version(self) -> int:
        """Raised where the same parameters give other answers than before: no kept output is used again."""
        return 1

    @property
    def uses(self) -> tuple[str, ...]:
        """The resources whose identity decides its output."""
        return ()

    @property
    def code(self) -> str | None:
        """Which code it runs that is not of ctxbench, beside its own; None = none."""
        return None

    @property
    def content(self) -> str | None:
        """What stands in the file that it reads, or a hash of it; None = it reads none."""
        return None

    @property
    def ranks(self) -> bool:
        """Whether what a retriever finds is in an order of its own."""
        return True

    @property
    def depth(self) -> int | None:
        """How many items a retriever ranks exactly; None = it does not say."""
        return None

    @property
    def reach(self) -> int:
        """How many of the best chunk matches it looks at; 0 = all that there are."""
        return 0

    @property
    def chunking(self) -> Any | None:
        """How it splits items (`chunking.items.ItemChunking`); None where it splits none."""
        return None

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of a `merge` that its parameters name; none = whatever there are."""
        return ()

    @property
    def promotes(self) -> bool:
        """Whether a cut may choose what an earlier one kept out."""
        return False

    @property
    def brings_in(self) -> bool:
        """Whether a fit may offer what was not found, such as the rest of a file, as an expansion does."""
        return False

    @property
    def keeps_score(self) -> bool:
        """Whether a rank step leaves scores and order as they are, such as one that adds columns."""
        return False

    @property
    def orders(self) -> bool:
        """Whether a rank step makes an order of its own, whatever it stands behind, even `everything`."""
        return False

    @property
    def thresholds(self) -> Mapping[str, Mapping[str, float]]:
        """What it holds scores against: by quantity (`score`, `margin`, `ratio`, `expansion`), parameter and value."""
        return {}

    @property
    def floor(self) -> int:
        """How many items a cut offers whatever they score."""
        return 0

    @property
    def calibrated(self) -> str | None:
        """The kind of fit that it reads; it then has `calibrations`, too. None = none."""
        return None

    def check(self, catalog: Catalog, resources: Any) -> None:
        """Refuse a catalog or resources that it cannot be used with, before anything runs.

        Raises:
            UserError: says why, and what to do.
        """

    def notices(self, catalog: Catalog, resources: Any) -> Iterator[str]:  # noqa: ARG002
        """What a user should know of using it here."""
        return iter(())
