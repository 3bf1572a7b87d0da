"""Parameters of a selector: their kinds, what they need, and what a choice sets of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

from ctxbench.core.errors import ParameterError, suggest
from ctxbench.core.registry import check_type

Value: TypeAlias = bool | int | float | str

_KEYS = ("default", "range", "choices", "needs", "tuned", "help")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a selector, by the name that users know: a number, a switch, or a choice of names.

    Attributes:
        name: for example `contextTopK`.
        default: a number, true or false, or one of `choices`; None for a number that another parameter's choices set.
        low, high: the allowed range of a number, ends included; ints where it must be whole.
        choices: the names that a choice may take, each with the values that it sets of other parameters.
        needs: by name of another parameter, the values with which this one has an effect; of several all must hold.
        tuned: whether tuning tries other values where a policy lists none.
        help: one line.
    """

    name: str
    default: Value | None
    low: float = 0
    high: float = 0
    choices: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    needs: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    tuned: bool = True
    help: str = ""

    @property
    def ends(self) -> tuple[Value, Value]:
        """The first and the last value that it may take."""
        if self.choices:
            names = tuple(self.choices)
            return names[0], names[-1]
        return (False, True) if isinstance(self.default, bool) else (self.low, self.high)

    @property
    def sets(self) -> tuple[str, ...]:
        """The parameters that its choices set; all choices set the same."""
        return tuple(next(iter(self.choices.values()), {}))

    def checked(self, value: object) -> Value:
        """Return `value` if it is allowed, as a float where that is meant.

        Raises:
            ParameterError: it is of the wrong type, out of range, or none of the choices.
        """
        if self.choices:
            if not isinstance(value, str) or value not in self.choices:
                raise ParameterError(f"{self.name} must be one of {', '.join(self.choices)}, got {value!r}")
            return value
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise ParameterError(f"{self.name} must be true or false, got {value!r}")
            return value
        kind = type(self.low + self.high if self.default is None else self.default)
        check_type(self.name, value, kind)
        number: float = cast("float", value)
        if not self.low <= number <= self.high:
            raise ParameterError(f"{self.name} must be {self.low:g} to {self.high:g}, got {value}")
        return kind(number)


def value_text(value: Value) -> str:
    """A value as YAML and the command line take it; a number short where that is exact."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def read_parameter(name: str, block: Mapping[str, Any]) -> Parameter:
    """A parameter from its block.

    Raises:
        ParameterError: it is none of the three kinds, or its default does not suit it.
    """
    if unknown := [key for key in block if key not in _KEYS]:
        raise ParameterError(f"a parameter has no {unknown[0]!r}{suggest(str(unknown[0]), _KEYS)}")
    default, ends = block.get("default"), block.get("range")
    choices = _choices(block.get("choices"))
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    numbers = (low, high) if default is None else (default, low, high)
    if choices:
        right = default is not None and "range" not in block
    elif isinstance(default, bool):
        right = not {"range", "choices"} & set(block)
    else:
        right = all(type(number) in (int, float) for number in numbers) and "choices" not in block
    if not right:
        raise ParameterError(
            f"parameter {name} needs default and range [low, high], all numbers; or default true or false; or default "
            "and choices, a list of names or names with what they set"
        )
    parameter = Parameter(
        name=name,
        default=default,
        low=0 if low is None else low,
        high=0 if high is None else high,
        choices=choices,
        needs=_needs(name, block.get("needs")),
        tuned=_tuned(name, block.get("tuned", True)),
        help=str(block.get("help", "")),
    )
    if default is not None:
        try:
            parameter.checked(default)
        except ParameterError as error:
            raise ParameterError(f"default: {error}") from error
    return parameter


def _tuned(name: str, tuned: Any) -> bool:
    if not isinstance(tuned, bool):
        raise ParameterError(f"parameter {name}: tuned must be true or false, got {tuned!r:.60}")
    return tuned


def _choices(choices: Any) -> dict[str, Mapping[str, Any]]:
    """What each choice sets, by its name; empty where `choices` is neither a list of names nor such a mapping."""
    pairs: list[tuple[Any, Any]] = [(name, {}) for name in choices] if isinstance(choices, list) else []
    pairs = list(choices.items()) if isinstance(choices, Mapping) else pairs
    if not all(isinstance(name, str) and isinstance(values, Mapping) for name, values in pairs):
        return {}
    return dict(pairs)


def _needs(name: str, needs: Any) -> dict[str, tuple[Value, ...]]:
    """What a parameter needs: the name of a switch, or names, each with its value or a list of values."""
    if needs is None:
        return {}
    mapping = needs if isinstance(needs, Mapping) else {needs: True} if isinstance(needs, str) else {}
    by_name = {key: tuple(values) if isinstance(values, list) else (values,) for key, values in mapping.items()}
    plain = all(isinstance(value, bool | int | float | str) for values in by_name.values() for value in values)
    if not by_name or not all(by_name.values()) or not plain or not all(isinstance(key, str) for key in by_name):
        message = "must name a parameter that is true or false, or map parameters to the values that each may have"
        raise ParameterError(f"parameter {name}: needs {message}; got {needs!r}")
    return by_name


def needs_text(needs: Mapping[str, tuple[Value, ...]]) -> str:
    """What a parameter needs, in words: `a is true`, `b is one of 1, 2`; empty where it needs nothing."""
    return " and ".join(f"{name} is {any_of(values)}" for name, values in needs.items())


def any_of(values: Sequence[Value]) -> str:
    """One value as it is, several as `one of 1, 2`."""
    listed = ", ".join(map(value_text, values))
    return f"one of {listed}" if len(values) > 1 else listed


def set_values(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Parameters without a fault, the values that their choices set being of the type of what they set."""

    def typed(values: Mapping[str, Value]) -> dict[str, Value]:
        return {name: parameters[name].checked(value) for name, value in values.items()}

    return {
        name: replace(parameter, choices={choice: typed(values) for choice, values in parameter.choices.items()})
        for name, parameter in parameters.items()
    }


def need_faults(parameter: Parameter, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """What is wrong with what a parameter needs."""
    for name, values in parameter.needs.items():
        if name not in parameters or name == parameter.name:
            yield f"parameter {parameter.name} needs {name!r}, which is no other parameter{suggest(name, parameters)}"
            continue
        for value in values:
            try:
                parameters[name].checked(value)
            except ParameterError as error:
                yield f"parameter {parameter.name} needs a value that {name} cannot have: {error}"


def choice_faults(parameter: Parameter, parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """What is wrong with the values that a parameter's choices set; and where a number is set by none, that."""
    setters = [setter.name for setter in parameters.values() if parameter.name in setter.sets]
    if parameter.default is None and len(setters) != 1:
        detail = f"those of {' and '.join(setters)} do" if setters else "none do"
        yield f"parameter {parameter.name} has no default, so the choices of one other parameter must set it; {detail}"
    for choice, values in parameter.choices.items():
        if set(values) != set(parameter.sets):
            names = ", ".join(values) or "none"
            yield f"every choice of {parameter.name} must set the same parameters; {choice} sets {names}"
        for name, value in values.items():
            if name not in parameters or parameters[name].default is not None:
                yield f"choice {choice} sets {name!r}, which is no parameter without a default"
                continue
            try:
                parameters[name].checked(value)
            except ParameterError as error:
                yield f"choice {choice}: {error}"
