"""Placeholders: what an agent holds in a secret's place, and what each is bound to.

A placeholder is random per session, at least 128 bits, and says nothing of the secret or of its name:
``affiant-ph-`` and 32 base-62 characters (190 bits), or a *shape* such as ``ghp_{36}`` for clients that check
what their tokens look like. It is bound to a name, to https hosts with their ports, and to one surface; it is
no secret itself, but outside that binding it is worth nothing.

>>> mint_placeholder(lambda size: bytes(range(size)), shape="ghp_{36}")
'ghp_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ'
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from affiant.errors import ConfigurationError
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.signing_surface import SigningSurface, agent_variables
from affiant.secrets.injection.surface import AUTHORIZATION, QuerySurface, Surface
from affiant.secrets.names.ref import secret_name
from affiant.secrets.redaction.search import Searcher
from affiant.secrets.redaction.variants import variants

__all__ = ["Binding", "Endpoint", "PlaceholderTable", "mint_placeholder"]

_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PREFIX: Final = "affiant-ph-"
_RANDOM_CHARACTERS: Final = 32
_MIN_BITS: Final = 128
_MAX_CHARACTERS: Final = 320
_SHAPE: Final = re.compile(r"(?:[A-Za-z0-9._-]|\{[1-9][0-9]{0,2}\})+\Z")
_FIELD: Final = re.compile(r"\{([0-9]+)\}")
_PLACEHOLDER: Final = re.compile(r"[A-Za-z0-9._-]+\Z")
_MIN_CHARACTERS: Final = math.ceil(_MIN_BITS / math.log2(62))
"""22: fewer cannot hold 128 bits."""


def mint_placeholder(random_bytes: Callable[[int], bytes], *, shape: str | None = None) -> str:
    """A fresh placeholder.

    Args:
        random_bytes: a source of cryptographic randomness (``secrets.token_bytes``).
        shape: literal letters, digits, ``.``, ``_``, ``-`` and fields ``{N}`` of N random base-62 characters.

    Raises:
        ``secret.shape``: other characters, fewer than 128 random bits, or more than 256 characters.
    """
    if shape is None:
        return _PREFIX + _base62(random_bytes, _RANDOM_CHARACTERS)
    if _SHAPE.match(shape) is None:
        raise ConfigurationError(
            "not a placeholder's shape",
            expected="letters, digits, '.', '_', '-' and fields such as {36}",
            found=repr(shape[:80]),
            code="secret.shape",
        )
    fields = [int(field) for field in _FIELD.findall(shape)]
    if sum(fields) < _MIN_CHARACTERS:
        raise ConfigurationError(
            "the shape leaves too little to chance",
            expected=f"at least {_MIN_CHARACTERS} random characters ({_MIN_BITS} bits)",
            found=f"{sum(fields)}",
            code="secret.shape",
        )
    if sum(fields) + len(_FIELD.sub("", shape)) > _MAX_CHARACTERS:
        raise ConfigurationError(
            "the shape is too long", expected=f"at most {_MAX_CHARACTERS} characters", code="secret.shape"
        )
    return _FIELD.sub(lambda field: _base62(random_bytes, int(field[1])), shape)


def _base62(random_bytes: Callable[[int], bytes], size: int) -> str:
    """``size`` characters, each equally likely: bytes of 248 and more would favour the first ones."""
    text = ""
    while len(text) < size:
        text += "".join(_BASE62[byte % 62] for byte in random_bytes(size - len(text)) if byte < 248)
    return text


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """An https host and port; the host lower-cased, without a trailing dot, as policy spells it."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not self.host or self.host != self.host.lower().rstrip(".") or not self.host.isascii():
            raise ConfigurationError(
                "not a canonical host name", found=repr(self.host[:80]), code="secret.grants"
            )
        if not 1 <= self.port <= 65535:
            raise ConfigurationError("not a port", found=str(self.port), code="secret.grants")


@dataclass(frozen=True, slots=True)
class Binding:
    """One secret of one session: its name, its placeholder, and where that may be.

    No endpoints is a secret that can be named but not used: every use is refused.
    """

    name: str
    placeholder: str
    endpoints: frozenset[Endpoint]
    surface: Surface | QuerySurface | BodySurface | SigningSurface = AUTHORIZATION

    def __post_init__(self) -> None:
        secret_name(self.name)
        if len(self.placeholder) < _MIN_CHARACTERS or _PLACEHOLDER.match(self.placeholder) is None:
            raise ConfigurationError("not a placeholder", where=self.name, code="secret.grants")

    @property
    def variables(self) -> Mapping[str, str]:
        """What an agent's environment says: the placeholder under the secret's name, and what clients look for."""
        more = (
            agent_variables(self.name, self.placeholder) if isinstance(self.surface, SigningSurface) else {}
        )
        return {self.name: self.placeholder, **more}

    def covers(self, *, scheme: str, host: str, port: int) -> bool:
        """Whether the placeholder may be replaced on the way to this place at all."""
        return scheme == "https" and Endpoint(host, port) in self.endpoints


class PlaceholderTable:
    """The placeholders of one session, and every encoding in which they are looked for; immutable.

    Raises:
        ``secret.grants``: a name or a placeholder is there twice, or one placeholder lies inside another.
    """

    __slots__ = ("_by_name", "searcher")

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._by_name: dict[str, Binding] = {}
        for binding in bindings:
            if binding.name in self._by_name:
                raise ConfigurationError(
                    "a secret is granted twice", where=binding.name, code="secret.grants"
                )
            for other in self._by_name.values():
                if binding.placeholder in other.placeholder or other.placeholder in binding.placeholder:
                    raise ConfigurationError(
                        "two secrets share a placeholder", where=binding.name, code="secret.grants"
                    )
            self._by_name[binding.name] = binding
        self.searcher = Searcher(
            (encoding, key)
            for key, binding in enumerate(self)
            for encoding in variants(binding.placeholder.encode("ascii"))
        )
        """Finds any placeholder in any encoding; its keys count the bindings in order."""

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def binding(self, name: str) -> Binding | None:
        """The binding of the secret ``name``, if it is granted."""
        return self._by_name.get(name)

    def narrowed_to(self, endpoints: Mapping[str, frozenset[Endpoint]]) -> PlaceholderTable:
        """The table with fewer places. A secret without any keeps its placeholder: it is still known, and refused.

        Args:
            endpoints: by name; of a secret that is not there, none.

        Raises:
            ``secret.grants``: a name or a place that is not in the table.
        """
        for name, places in endpoints.items():
            known = self._by_name.get(name)
            if known is None or not places <= known.endpoints:
                raise ConfigurationError(
                    "a secret or a place that was not granted before", where=name, code="secret.grants"
                )
        return PlaceholderTable(
            replace(binding, endpoints=endpoints.get(binding.name, frozenset())) for binding in self
        )

    def restricted_to(self, names: Iterable[str]) -> PlaceholderTable:
        """The table without the secrets that could not be resolved: those get no placeholder (S16)."""
        kept = frozenset(names)
        return PlaceholderTable(binding for binding in self if binding.name in kept)
