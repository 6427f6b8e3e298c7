"""Describes shapes of JSON values as data, and rejects everything that a shape does not allow.

A shape is a value, so that one table serves the issuer, the verifier and the published documentation. An
:class:`Obj` is closed: a member that it does not list is refused. ``sd`` is the fixed number of ``_sd`` entries
that the object always carries, real digests and decoys alike (RFC 9901, section 4.2.7), and ``hidden`` names
what a disclosure for it may be called.

Places are put together only where something is refused: millions of records are checked, and few are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

from affiant.attestation.encoding.canonical import MAX_INTEGER
from affiant.errors import MalformedError

__all__ = [
    "Array",
    "Const",
    "Enum",
    "Int",
    "MapOf",
    "Nullable",
    "Obj",
    "Pattern",
    "Shape",
    "ShapeMismatch",
    "Text",
]


_FullMatch = Callable[[str], re.Match[str] | None]
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


class ShapeMismatch(MalformedError):
    """A document has a member, a type or a value that its closed profile does not list."""

    code = "fmt.profile"


class Shape(Protocol):
    """Something a JSON value can be checked against."""

    def check(self, value: object, where: str) -> None:
        """Return if ``value`` has this shape, else raise :class:`ShapeMismatch` naming ``where``."""
        ...

    def describe(self) -> str:
        """The shape in a few words, for the published table."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Text of at most ``limit`` characters, without control characters."""

    limit: int = 256

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, str) or not 0 < len(value) <= self.limit:
            raise ShapeMismatch("not text of this size", expected=self.describe(), where=where)
        if _CONTROL.search(value) is not None:
            raise ShapeMismatch("text with control characters", where=where)

    def describe(self) -> str:
        return f"text, at most {self.limit} characters"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text that matches ``pattern`` as a whole."""

    pattern: str
    words: str
    _fullmatch: _FullMatch = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_fullmatch", _compiled(self.pattern).fullmatch)

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, str) or self._fullmatch(value) is None:
            raise ShapeMismatch("text of another form", expected=self.words, where=where)

    def describe(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class Const:
    """Exactly one text, number, truth value or null."""

    value: str | int | None

    def check(self, value: object, where: str) -> None:
        if value is not self.value and (type(value) is not type(self.value) or value != self.value):
            raise ShapeMismatch("another value", expected=repr(self.value), where=where)

    def describe(self) -> str:
        return "null" if self.value is None else f"`{self.value}`"


@dataclass(frozen=True, slots=True)
class Enum:
    """One of a closed set of texts."""

    values: tuple[str, ...]

    def check(self, value: object, where: str) -> None:
        if value not in self.values:
            raise ShapeMismatch("a value outside the closed set", expected=self.describe(), where=where)

    def describe(self) -> str:
        return " or ".join(f"`{value}`" for value in self.values)


@dataclass(frozen=True, slots=True)
class Int:
    """An integer from ``least`` to ``most``; true and false are no integers."""

    least: int = 0
    most: int = MAX_INTEGER

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise ShapeMismatch("not such an integer", expected=self.describe(), where=where)

    def describe(self) -> str:
        return f"integer, at least {self.least}"


@dataclass(frozen=True, slots=True)
class Nullable:
    """Null, or a value of one shape."""

    inner: Shape

    def check(self, value: object, where: str) -> None:
        if value is not None:
            self.inner.check(value, where)

    def describe(self) -> str:
        return f"null or {self.inner.describe()}"


@dataclass(frozen=True, slots=True)
class Array:
    """``least`` to ``most`` items of one shape."""

    item: Shape
    least: int = 0
    most: int = 64

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            raise ShapeMismatch("not such an array", expected=self.describe(), where=where)
        for index, item in enumerate(value):
            try:
                self.item.check(item, "")
            except ShapeMismatch as error:
                error.where = f"{where}[{index}]{error.where}"
                raise

    def describe(self) -> str:
        return f"array of {self.item.describe()}"


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose member names match ``name`` and whose values have one shape."""

    name: str
    item: Shape
    most: int = 64

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, dict) or len(value) > self.most:
            raise ShapeMismatch("not such an object", expected=self.describe(), where=where)
        for key, item in value.items():
            if _compiled(self.name).fullmatch(key) is None:
                raise ShapeMismatch("a member name of another form", where=where)
            try:
                self.item.check(item, "")
            except ShapeMismatch as error:
                error.where = f"{where}.{key}{error.where}"
                raise

    def describe(self) -> str:
        return f"object of {self.item.describe()}"


_DIGEST: Final = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Obj:
    """A closed object: ``required`` and ``optional`` members, and ``sd`` digests of what is hidden."""

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    sd: int = 0
    hidden: Mapping[str, Shape] = field(default_factory=dict)
    _members: Mapping[str, Shape] = field(init=False, repr=False, compare=False)
    concealing: Mapping[str, Shape] = field(init=False, repr=False, compare=False)
    """Members that are objects, or arrays of objects, in which digests be at some depth."""

    def __post_init__(self) -> None:
        members = {**self.optional, **self.required}
        concealing = {name: shape for name, shape in members.items() if _conceals(shape)}
        object.__setattr__(self, "_members", members)
        object.__setattr__(self, "concealing", concealing)

    def check(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ShapeMismatch("not an object", where=where)
        for name in self.required:
            if name not in value:
                raise ShapeMismatch("a required member is missing", expected=name, where=where)
        members = self._members
        for name, item in value.items():
            shape = members.get(name)
            if shape is None:
                if name == "_sd" and self.sd:
                    continue
                raise ShapeMismatch("a member that the profile does not list", found=name[:40], where=where)
            try:
                shape.check(item, "")
            except ShapeMismatch as error:
                error.where = f"{where}.{name}{error.where}"
                raise
        if self.sd:
            self._check_digests(value.get("_sd"), where)

    def _check_digests(self, digests: object, where: str) -> None:
        if not isinstance(digests, list) or len(digests) != self.sd:
            raise ShapeMismatch("not the fixed number of _sd digests", expected=self.sd, where=where)
        for digest in digests:
            if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
                raise ShapeMismatch(
                    "text of another form", expected="43 characters of base64url", where=f"{where}._sd"
                )
        if sorted(set(digests)) != digests:
            raise ShapeMismatch("_sd digests not sorted, or repeated", where=where)

    def describe(self) -> str:
        names = [*self.required, *(f"{name}?" for name in self.optional)]
        if self.sd:
            names.append(f"_sd[{self.sd}]")
        return "{" + ", ".join(names) + "}"


def _conceals(shape: Shape) -> bool:
    inner = shape.item if isinstance(shape, Array) else shape
    return isinstance(inner, Obj) and bool(inner.sd or inner.concealing)
