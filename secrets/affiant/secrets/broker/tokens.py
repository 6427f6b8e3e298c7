"""The tokens of one session: one for each secret that is exchanged, in memory, for as long as it holds.

A token is put into requests until shortly before its issuer says that it ends, a day at most; where its issuer does
not say, for a minute. One that a host does not take (401) is given up, if it is not quite new: a host that takes none
must not have one fetched for every request.

The credentials are here too, so that nothing but the request to the token endpoint finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.policy.token_exchange import TokenExchange
from affiant.secrets.broker.token_answer import IssuedToken
from affiant.secrets.growing_redaction import GrowingRedactor
from affiant.secrets.refusals import SecretNotFound, TokenUnavailable
from affiant.secrets.value import SecretValue

__all__ = ["Credential", "Instants", "Tokens"]

_UNSAID_S: Final = 60
"""For how long a token is used whose issuer does not say how long it holds."""
_MAX_USED_S: Final = 24 * 3600
_BEFORE_END_S: Final = 60
"""So long before its end a token is not used any more, or a fifth of its time, if that is less: requests take time."""
_MIN_AGE_S: Final = 60
"""A younger token is not given up for a 401."""


@dataclass(frozen=True, slots=True)
class Instants:
    """What a broker knows of the world beside its values: seconds that only grow, seconds since 1970, chance."""

    monotonic: Callable[[], float]
    unix_time: Callable[[], float]
    random_bytes: Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret that is exchanged: its value, for what, and the placeholder of both."""

    value: SecretValue
    exchange: TokenExchange
    placeholder: str


@dataclass(frozen=True, slots=True)
class _Held:
    value: SecretValue
    since: float
    until: float


@dataclass(slots=True)
class Tokens:
    """What can be exchanged in this session, and the tokens that came of it."""

    credentials: Mapping[str, Credential]
    redactor: GrowingRedactor
    instants: Instants
    _held: dict[str, _Held] = field(default_factory=dict)
    _growing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __contains__(self, name: object) -> bool:
        return name in self.credentials

    def credential(self, name: str) -> Credential:
        """What is sent to the token endpoint.

        Raises:
            SecretNotFound: the secret is not exchanged, not held, or was withdrawn.
        """
        try:
            return self.credentials[name]
        except KeyError:
            raise SecretNotFound("the broker exchanges no such secret", found=name) from None

    def is_fresh(self, name: str) -> bool:
        """Whether there is a token that can be used."""
        self.credential(name)
        held = self._held.get(name)
        return held is not None and self.instants.monotonic() < held.until

    def value(self, name: str) -> SecretValue:
        """The token that goes to the secret's hosts in its place.

        Raises:
            TokenUnavailable: there is none, or not any more.
        """
        if not self.is_fresh(name):
            raise TokenUnavailable("there is no token for the secret", where=name)
        return self._held[name].value

    async def keep(self, name: str, issued: IssuedToken, *, asked_at: float) -> None:
        """Use a token from now on. It is replaced in answers before that.

        Args:
            asked_at: by the growing clock, when it was asked for: its time counts from there.
        """
        placeholder = self.credential(name).placeholder
        async with self._growing:
            grown = await asyncio.to_thread(self.redactor.with_added, issued.value, placeholder)
            self.redactor.become(grown)
        self._held[name] = _Held(issued.value, asked_at, asked_at + _usable_s(issued.lifetime_s))

    def rejected(self, names: Iterable[str]) -> None:
        """A host did not take the tokens of these secrets."""
        now = self.instants.monotonic()
        for name in names:
            held = self._held.get(name)
            if held is not None and now - held.since >= _MIN_AGE_S:
                del self._held[name]

    def narrowed(self, names: Collection[str]) -> Tokens:
        """The tokens of fewer secrets. The others are gone from here; they are still replaced in answers."""
        return Tokens(
            {name: credential for name, credential in self.credentials.items() if name in names},
            self.redactor,
            self.instants,
            {name: held for name, held in self._held.items() if name in names},
            self._growing,
        )


def _usable_s(lifetime_s: int | None) -> float:
    if lifetime_s is None:
        return _UNSAID_S
    return min(lifetime_s - min(_BEFORE_END_S, lifetime_s / 5), _MAX_USED_S)
