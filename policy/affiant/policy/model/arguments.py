"""Typed constraints on the arguments of a tool; an argument without a constraint is not allowed.

A constraint looks at one top-level argument. Types are those of JSON and never converted: ``"5"`` is no number, ``5.0``
and ``true`` are no integer. Command lines are judged as lists of whole tokens (``argv``), paths by segment (``under``),
hosts by label (``host``), and only what is none of these by a pattern, which the whole text must fit.

>>> is_allowed(Number(1, 5), 5), is_allowed(Number(1, 5), True), is_allowed(Under("/w"), "/w/../etc")
(True, False, False)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, assert_never

from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.policy.canonical.errors import (
    ArgumentsRefused,
    EmptyList,
    NameRefused,
    PathRefused,
    ValueRefused,
    excerpt,
)
from affiant.policy.canonical.hosts import covering_patterns, host_pattern, is_canonical_host
from affiant.policy.canonical.paths import canonical_path, covers, grantable_path, is_read_alike
from affiant.policy.model.pattern_syntax import read_pattern
from affiant.policy.model.text_pattern import Automaton, automaton

__all__ = [
    "MAX_ARGUMENTS",
    "AnyValue",
    "Argument",
    "Argv",
    "Constraint",
    "Each",
    "Host",
    "Number",
    "OneOf",
    "Pattern",
    "Scalar",
    "Text",
    "Under",
    "is_allowed",
    "missed",
    "parse_arguments",
    "patterns_in",
    "places_in",
]

MAX_ARGUMENTS: Final = 64 * 1024
"""Bytes of the JSON text of one call's arguments."""
_MAX_DEPTH: Final = 32
_MAX_VALUES: Final = 256
_MAX_LENGTH: Final = MAX_ARGUMENTS
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")

Scalar = str | int | bool


@dataclass(frozen=True, slots=True)
class AnyValue:
    """Any value at all."""


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """One of some texts, integers and truth values, of the same type: here 1 is not true."""

    values: tuple[Scalar, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneOf) and self._typed() == other._typed()

    def __hash__(self) -> int:
        return hash(self._typed())

    def _typed(self) -> tuple[tuple[type, Scalar], ...]:
        return tuple((type(value), value) for value in self.values)

    def __post_init__(self) -> None:
        _bounded(self.values, "one_of")
        for value in self.values:
            if isinstance(value, str):
                _check_text(value)
            elif not isinstance(value, bool):
                _check_integer(value)


@dataclass(frozen=True, slots=True)
class Number:
    """An integer from ``least`` to ``most``, both included; None: unbounded on that side."""

    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if self.least is None and self.most is None:
            raise ValueRefused("a number without a bound", expected="'min', 'max' or both")
        for bound in (self.least, self.most):
            if bound is not None:
                _check_integer(bound)
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueRefused(
                "no number fits", expected="min at most max", found=f"{self.least}, {self.most}"
            )


@dataclass(frozen=True, slots=True)
class Text:
    """Text of at most ``most`` characters (code points)."""

    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.most <= _MAX_LENGTH:
            raise ValueRefused("max_len out of range", expected=f"1 to {_MAX_LENGTH}", found=self.most)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text that wholly fits a pattern (``text_pattern``), of at most ``most`` characters; None: it has an end."""

    pattern: str
    most: int | None = None
    _automaton: list[Automaton] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = read_pattern(self.pattern)
        if self.most is None and found.longest is None:
            raise ValueRefused("a pattern without an end", expected="'max_len' beside '*', '+' or '{2,}'")
        if self.most is not None:
            Text(self.most)
            if found.shortest > self.most:
                raise ValueRefused(
                    "no text fits", expected="'max_len' of at least the shortest text", found=self.most
                )

    @property
    def automaton(self) -> Automaton:
        """What judges it: made when it is first asked for, then kept.

        Raises:
            ValueRefused: the pattern is too large.
        """
        if not self._automaton:
            self._automaton.append(automaton(self.pattern))
        return self._automaton[0]

    def fits(self, text: str) -> bool:
        """Whether a text does."""
        return (self.most is None or len(text) <= self.most) and self.automaton.fits(text)


@dataclass(frozen=True, slots=True)
class Under:
    """A canonical path that is ``path`` or below it, which the rules for files allow; ``write``: to be written."""

    path: str
    write: bool = False

    def __post_init__(self) -> None:
        grantable_path(self.path)
        if not is_read_alike(self.path):
            raise PathRefused(
                "no argument can be under this path: programs that decode percent-escapes read another path",
                found=excerpt(self.path),
                hint="Name a folder without percent-escapes, and without characters that look like dots or slashes",
            )


@dataclass(frozen=True, slots=True)
class Host:
    """A canonical host name that a pattern covers, as in ``network_egress``."""

    pattern: str

    def __post_init__(self) -> None:
        canonical = host_pattern(self.pattern, single_label=True)
        if canonical != self.pattern:
            raise ValueRefused("host is not canonical", expected=canonical, found=excerpt(self.pattern))


@dataclass(frozen=True, slots=True)
class Argv:
    """A list of texts that equals one of these lists, token by token."""

    lists: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        _bounded(self.lists, "argv")
        for tokens in self.lists:
            _bounded(tokens, "a list of argv")
            for token in tokens:
                _check_text(token)


@dataclass(frozen=True, slots=True)
class Each:
    """A list of at most ``most`` values, each of which is so."""

    item: Single
    most: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.most <= 1024:
            raise ValueRefused("max_items out of range", expected="1 to 1024", found=self.most)


Single = OneOf | Number | Text | Pattern | Under | Host
Constraint = AnyValue | Single | Argv | Each


def takes_path(constraint: Constraint) -> bool:
    """Whether a rule says that values of this argument are paths."""
    return isinstance(constraint.item if isinstance(constraint, Each) else constraint, Under)


@dataclass(frozen=True, slots=True)
class Argument:
    """One named argument; unless it is ``optional`` a call without it is denied: a tool's own default is unknown."""

    name: str
    constraint: Constraint
    optional: bool = False

    def __post_init__(self) -> None:
        if _NAME.match(self.name) is None:
            raise NameRefused(
                "not the name of an argument", expected=_NAME.pattern[:-2], found=excerpt(self.name)
            )


# -- a call ------------------------------------------------------------------------------------------------------------


def parse_arguments(text: str) -> Mapping[str, object]:
    """The arguments of a call, read in the only way in which every reader reads them.

    Args:
        text: one JSON object (empty text: none), at most :data:`MAX_ARGUMENTS` bytes of UTF-8.

    Raises:
        ArgumentsRefused: more, no object, a name twice, a number that is not finite or beyond 2**53, too deep.
    """
    if not text:
        return {}
    try:
        if len(text.encode("utf-8")) > MAX_ARGUMENTS:
            raise ArgumentsRefused("the arguments are too large", expected=f"at most {MAX_ARGUMENTS} bytes")
        value = _DECODER.decode(text)
    except UnicodeEncodeError as error:
        raise ArgumentsRefused("the arguments are not Unicode") from error
    except RecursionError as error:
        raise ArgumentsRefused("the arguments are nested too deep") from error
    except json.JSONDecodeError as error:
        raise ArgumentsRefused("the arguments are not JSON") from error
    if not isinstance(value, dict):
        raise ArgumentsRefused("the arguments are not a JSON object")
    if not _is_shallow(value, _MAX_DEPTH):
        raise ArgumentsRefused("the arguments are nested too deep")
    return value


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ArgumentsRefused("an argument appears twice", hint="Two readers would see two calls")
    return members


def _refuse_number(_: str) -> NoReturn:
    raise ArgumentsRefused("a number that is not finite")


def _integer(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > MAX_INTEGER:
        raise ArgumentsRefused("an integer that not every reader keeps", expected="within 2**53")
    return value


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        _refuse_number(text)
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse_number, parse_int=_integer, parse_float=_float
)


def _is_shallow(value: object, left: int) -> bool:
    if left == 0:
        return False
    if isinstance(value, dict):
        return all(_is_shallow(item, left - 1) for item in value.values())
    if isinstance(value, list):
        return all(_is_shallow(item, left - 1) for item in value)
    return True


def missed(known: Mapping[str, Argument], arguments: Mapping[str, object]) -> str | None:
    """Why a call does not fit the rules for its arguments, by name, as a reason code; None if it does."""
    if not arguments.keys() <= known.keys():
        return "tool_argument_not_listed"
    for name, rule in known.items():
        if name not in arguments:
            if not rule.optional:
                return "tool_argument_missing"
        elif not is_allowed(rule.constraint, arguments[name]):
            return "tool_argument_refused"
    return None


def patterns_in(arguments: Iterable[Argument]) -> Iterator[Pattern]:
    """Every pattern that judges one of the arguments, or the elements of one."""
    for argument in arguments:
        constraint = argument.constraint
        if isinstance(constraint, Each):
            constraint = constraint.item
        if isinstance(constraint, Pattern):
            yield constraint


def is_allowed(constraint: Constraint, value: object) -> bool:
    """Whether ``value``, as JSON has it, is what ``constraint`` allows."""
    match constraint:
        case AnyValue():
            return True
        case OneOf(values):
            return any(type(value) is type(each) and value == each for each in values)
        case Number(least, most):
            return (
                type(value) is int and (least is None or least <= value) and (most is None or value <= most)
            )
        case Text(most):
            return type(value) is str and len(value) <= most
        case Pattern():
            return type(value) is str and constraint.fits(value)
        case Under(path, _):
            return type(value) is str and _is_path(value) and covers(path, value)
        case Host(pattern):
            return type(value) is str and is_canonical_host(value) and pattern in covering_patterns(value)
        case Argv(lists):
            return (
                isinstance(value, list)
                and all(type(token) is str for token in value)
                and tuple(value) in lists
            )
        case Each(item, most):
            return (
                isinstance(value, list)
                and len(value) <= most
                and all(is_allowed(item, each) for each in value)
            )
        case _:
            assert_never(constraint)


def _is_path(text: str) -> bool:
    """Whether ``text`` is one path, whatever the tool decodes in it."""
    try:
        return is_read_alike(canonical_path(text))
    except PathRefused:
        return False


def places_in(
    known: Mapping[str, Argument], arguments: Mapping[str, object]
) -> Iterator[tuple[Under | Host, str]]:
    """The paths and hosts among arguments that fit: the planes of files and hosts judge them too."""
    for name, value in arguments.items():
        constraint = known[name].constraint
        inner = constraint.item if isinstance(constraint, Each) else constraint
        if isinstance(inner, (Under, Host)):
            for each in value if isinstance(value, list) else [value]:
                assert isinstance(each, str)
                yield inner, each


# -- legal because it exists -------------------------------------------------------------------------------------------


def _bounded(values: Sequence[object], what: str) -> None:
    if not values:
        raise EmptyList(f"{what!r} is empty", hint="Add a value, or leave the key out")
    if len(values) > _MAX_VALUES:
        raise ValueRefused(
            f"too many values in {what!r}", expected=f"at most {_MAX_VALUES}", found=len(values)
        )


def _check_text(text: str) -> None:
    if len(text) > 1024 or not text.isprintable():
        raise ValueRefused(
            "a value that cannot be read in a profile", expected="at most 1024 printable characters"
        )


def _check_integer(value: int) -> None:
    if abs(value) > MAX_INTEGER:
        raise ValueRefused("an integer that not every reader keeps", expected="within 2**53", found=value)
