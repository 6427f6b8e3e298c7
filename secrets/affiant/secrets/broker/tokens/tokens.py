"""The tokens of one session: one for each secret that is exchanged, in memory, for as long as it holds.

A token is put into requests until shortly before its issuer says that it ends, a day at most; where its issuer does
not say, for five minutes. One that a host does not take (401) is abandoned, if it is not quite new: a host that takes
none must not have one fetched for every request. All of them are replaced in answers until they have ended, also those
that were abandoned: so many are never fetched that one would have to be forgotten before.

The credentials are here too, so that nothing but the request to the token endpoint finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.errors import ConfigurationError
from affiant.policy.model.token_exchange import TokenExchange
from affiant.secrets.broker.tokens.token_response import IssuedToken
from affiant.secrets.names.errors import TokenUnavailable
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.incremental import GrowingRedactor

__all__ = ["Credential", "Instants", "Tokens"]

_UNSAID_S: Final = 300
"""For how long a token is used whose issuer does not say how long it holds."""
_UNSAID_END_S: Final = 3600
"""When such a token is taken to have ended; twelve of them are known at a time."""
_AFTER_END_S: Final = 60
"""So long after its end a token is still replaced in answers: clocks differ."""
_MAX_USED_S: Final = 24 * 3600
_BEFORE_END_S: Final = 60
"""So long before its end a token is not used any more, or a fifth of its time, if that is less: requests take time."""
_MIN_AGE_S: Final = 60
"""A younger token is not abandoned for a 401."""
_MOST_FOR_401: Final = 8
"""With so many tokens of a secret that have not ended, none is abandoned for a 401."""


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
    _ends: dict[SecretValue, tuple[str, float]] = field(default_factory=dict)
    """Of every token that is replaced in answers: whose it is, and until when."""

    def __contains__(self, name: object) -> bool:
        return name in self.credentials

    def credential(self, name: str) -> Credential:
        """What is sent to the token endpoint.

        Raises:
            ``secret.not_found``: the secret is not exchanged, not held, or was withdrawn.
        """
        try:
            return self.credentials[name]
        except KeyError:
            raise ConfigurationError(
                "the broker exchanges no such secret", found=name, code="secret.not_found"
            ) from None

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
            over = {value for value in self._ends if not self._counts(value)}
            grown = await asyncio.to_thread(self.redactor.with_added, issued.value, placeholder, over=over)
            self.redactor.become(grown)
            for value in over:
                del self._ends[value]
            lifetime_s = _UNSAID_END_S if issued.lifetime_s is None else issued.lifetime_s
            self._ends[issued.value] = name, asked_at + lifetime_s + _AFTER_END_S
        self._held[name] = _Held(issued.value, asked_at, asked_at + _usable_s(issued.lifetime_s))

    def rejected(self, names: Iterable[str]) -> None:
        """A host did not take the tokens of these secrets."""
        now = self.instants.monotonic()
        for name in names:
            held = self._held.get(name)
            known = sum(owner == name and self._counts(value) for value, (owner, _) in self._ends.items())
            if held is not None and now - held.since >= _MIN_AGE_S and known < _MOST_FOR_401:
                del self._held[name]

    def _counts(self, token: SecretValue) -> bool:
        """Whether a token may still be accepted somewhere."""
        return self.instants.monotonic() < self._ends[token][1]

    def restricted(self, names: Collection[str]) -> Tokens:
        """The tokens of fewer secrets. The others are gone from here; they are still replaced in answers."""
        return Tokens(
            {name: credential for name, credential in self.credentials.items() if name in names},
            self.redactor,
            self.instants,
            {name: held for name, held in self._held.items() if name in names},
            self._growing,
            self._ends,
        )


def _usable_s(lifetime_s: int | None) -> float:
    if lifetime_s is None:
        return _UNSAID_S
    return min(lifetime_s - min(_BEFORE_END_S, lifetime_s / 5), _MAX_USED_S)
