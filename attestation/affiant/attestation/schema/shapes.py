"""Describes shapes of JSON values as data, and rejects everything that a shape does not allow.

A shape is a value, so that one table serves the issuer, the verifier and the published documentation. An
:class:`Obj` is closed: a member that it does not list is refused. ``sd`` is the fixed number of ``_sd`` entries
that the object always carries, real digests and decoys alike (RFC 9901, section 4.2.7), and ``hidden`` names
what a disclosure for it may be called.

Places are put together only where something is refused: millions of records are checked, and few are.

An object can also be compiled (:meth:`Obj.compile`): one regular expression of the canonical text of its usual values.
Matching takes a fifth of the time; a text that it does not match says nothing, and :meth:`Obj.check` judges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Protocol

from affiant.attestation.encoding.canonical import MAX_INTEGER, canonical, sorted_json
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
    _form: _FullMatch | None = field(init=False, repr=False, compare=False, default=None)
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

    def compile(self) -> None:
        """From now on :meth:`admits` knows usual values. It takes up to 0.1 s: for those who meet thousands."""
        if self._form is None:
            object.__setattr__(self, "_form", re.compile(_form_of(self)).fullmatch)

    def admits(self, text: str) -> bool:
        """Whether ``text`` is the canonical form (RFC 8785) of a value of this shape, but for the order of digests.

        True: :meth:`check` would at most find that an ``_sd`` array is not sorted, or repeats a digest. False says
        nothing.
        """
        return self._form is not None and "\\" not in text and self._form(text) is not None

    def encode(self, value: Mapping[str, object], where: str, *, ordered: bool = False) -> bytes:
        """The canonical form of ``value``, which is checked.

        Args:
            ordered: the caller sorted the digests of every ``_sd`` array itself.

        Raises:
            ShapeMismatch: as :meth:`check`.
            JSONError: text in it has no canonical form.
        """
        if ordered and self._form is not None and self.admits(text := sorted_json(value)):
            return text.encode("utf-8")
        self.check(value, where)
        return canonical(value)

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


_TEXT: Final = r'[^"\\\x00-\x1f\x7f-\x9f\ud800-\udfff]'
_NOTHING: Final = "(?!)"
_PLAIN: Final = re.compile(r"(?:[A-Za-z0-9_:|(){},+*?\[\]-]|\\\.)*")
"""Patterns that match no quotation mark: without a dot, a negated class, or a range that begins below ``(``."""


def _form_of(shape: Shape) -> str:
    """A regular expression of canonical texts of ``shape``, without escapes; :data:`_NOTHING` where there is none.

    It may leave out values that the shape has, and must match no text of another: strings end at the first quotation
    mark, numbers have no other form, and members stand in their order, each once.
    """
    match shape:
        case Text(limit):
            return f'"{_TEXT}{{1,{limit}}}"'
        case Pattern(pattern):
            return f'"(?:{pattern})"' if _PLAIN.fullmatch(pattern) else _NOTHING
        case Const(value):
            return re.escape(canonical(value).decode("utf-8"))
        case Enum(values):
            return "|".join(re.escape(canonical(value).decode("utf-8")) for value in values)
        case Int(least, most) if least <= 0 and most >= 9:
            return f"0|[1-9][0-9]{{0,{len(str(most + 1)) - 2}}}"
        case Nullable(inner):
            return f"null|{_form_of(inner)}"
        case Array(item, least, most) if most > 0:
            one = f"(?:{_form_of(item)})"
            some = f"{one}(?:,{one}){{{max(least - 1, 0)},{most - 1}}}"
            return rf"\[{some}\]" if least else rf"\[(?:{some})?\]"
        case MapOf(name, item, most) if most > 0 and _PLAIN.fullmatch(
            name
        ):  # of several, none could be sorted here
            return rf'\{{(?:"(?:{name})":(?:{_form_of(item)}))?\}}'
        case Obj():
            return _form_of_object(shape)
    return _NOTHING


def _form_of_object(shape: Obj) -> str:
    digest = f'"{_DIGEST.pattern}"'
    members = {name: _form_of(inner) for name, inner in (*shape.optional.items(), *shape.required.items())}
    if shape.sd:
        members["_sd"] = rf"\[{digest}(?:,{digest}){{{shape.sd - 1}}}\]"
    written, begun = r"\{", False
    for name in sorted(members):
        member = f"{re.escape(canonical(name).decode('utf-8'))}:(?:{members[name]})"
        if name in shape.required or name == "_sd":
            written, begun = f"{written}{',' if begun else ''}{member}", True
        else:
            written += f"(?:,{member})?" if begun else f"(?:{member},)?"
    return written + r"\}" if begun else _NOTHING
