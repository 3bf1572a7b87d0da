"""Rules that keep items out: a code with values, stored as JSON, and turned into words where they are shown.

The words of a code are a template that the step which makes the rule declares, in `rule_words` of its class:

```python
rule_words: ClassVar[Mapping[str, str]] = {"first": "beyond the first n={n}"}
```

A code without a template is shown as it is, with its values in brackets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeAlias

from ctxbench.core import registry
from ctxbench.core.errors import CtxbenchError, ParameterError

Value: TypeAlias = int | float | str

TEXT = "text"  # the code of a rule that was stored as a sentence, before rules were codes
NOT_CHOSEN, AS_MANY_AS, SHOWN_TOO_LITTLE = "not_chosen", "as_many_as", "shown_too_little"
_WITHOUT_A_STEP = {
    TEXT: "{text}",
    NOT_CHOSEN: "ranked by the selector, not chosen",
    SHOWN_TOO_LITTLE: "only a part of it is shown, without what the query needs",
    AS_MANY_AS: "beyond as many items as {selector} offers",
}
"""The words of rules that no step makes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Why a row is out.

    Attributes:
        code: which rule it is, such as `topK`; never empty.
        values: what it was held against, by name and in the order of names; a value that is a parameter of the step
            has the parameter's name. Numbers are finite.

    Written as text, it is a sentence for a person.
    """

    code: str
    values: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.code, str) or not self.code:
            raise ParameterError(f"a rule that keeps rows out needs a code that says which, got {self.code!r}")
        plain = tuple(sorted((name, _plain(self.code, name, value)) for name, value in dict(self.values).items()))
        if len(plain) < len(self.values):
            raise ParameterError(f"rule {self.code!r} has a value twice: {self.values!r}")
        object.__setattr__(self, "values", plain)

    @classmethod
    def of(cls, code: str, /, **values: Value) -> Rule:
        """A rule with its values by name."""
        return cls(code, tuple(values.items()))

    @classmethod
    def read(cls, stored: Any) -> Rule:
        """The rule that `as_dict` wrote; a sentence, as it was stored before, is a rule with the code `text`.

        Raises:
            ParameterError: it is neither.
        """
        if isinstance(stored, str) and stored:
            return cls.of(TEXT, text=stored)
        values = stored.get("values", {}) if isinstance(stored, Mapping) else None
        if not isinstance(values, Mapping) or stored.keys() - {"code", "values"}:
            raise ParameterError(f"a rule is an object with code and values, got {stored!r}")
        return cls(stored.get("code", ""), tuple(values.items()))

    def as_dict(self) -> dict[str, Any]:
        """As JSON: code and values."""
        return {"code": self.code, "values": dict(self.values)}

    def value(self, name: str) -> Value | None:
        """One of the values; None where it has none of this name."""
        return dict(self.values).get(name)

    def __str__(self) -> str:
        return in_words(self)


def _plain(code: str, name: Any, value: Any) -> Value:
    """A value as Python's own number or text, whatever kind of number it was."""
    if isinstance(name, str) and name:
        if isinstance(value, str):
            return str(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
    raise ParameterError(
        f"rule {code!r}: a value must be a finite number or a text with a name, got {name!r}: {value!r}"
    )


def in_words(rule: Rule) -> str:
    """A rule as a sentence for a person: the template of its code with the values in it.

    Where no template is known, or it does not suit the values: `code (name=value, ...)`.
    """
    template = _WITHOUT_A_STEP.get(rule.code) or _built_in(rule.code) or _learned.get(rule.code)
    if template is None:  # of a plugin's step
        kinds = registry.REFINE_KINDS
        template = _declared(rule.code, [(kind, name) for kind in kinds for name in registry.names(kind)])
    if template is not None:
        try:
            return template.format_map(dict(rule.values))
        except (
            ArithmeticError,
            LookupError,
            ValueError,
            AttributeError,
            TypeError,
        ):  # another version of the step, or a plugin's slip
            pass
    values = ", ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                       for name, value in rule.values)  # fmt: skip
    return f"{rule.code} ({values})" if values else rule.code


_learned: dict[str, str] = {}


def register_templates(words: Mapping[str, str]) -> None:
    """Take the templates of a strategy that no name is registered for, as long as this process lives."""
    _learned.update(words)


@cache
def _built_in(code: str) -> str | None:
    """The template that a step of this package declares for a code; None where none does."""
    steps = [(kind, name) for kind in registry.REFINE_KINDS for name in registry.built_in(kind)]
    # What made the rule is most often imported already, and the others need not be.
    return _declared(code, sorted(steps, key=lambda step: not registry.imported(*step)))


def _declared(code: str, steps: Iterable[tuple[str, str]]) -> str | None:
    """The template of the first step that declares the code."""
    return next((words[code] for step in steps if code in (words := _words_of(*step))), None)


def _words_of(kind: str, name: str) -> Mapping[str, str]:
    """The templates that a step declares; none where it cannot be imported."""
    try:
        declared = getattr(registry.find(kind, name), "rule_words", None)
    except CtxbenchError:
        return {}
    texts = declared.items() if isinstance(declared, Mapping) else ()
    return {code: template for code, template in texts if isinstance(code, str) and isinstance(template, str)}
