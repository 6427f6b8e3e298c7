"""Says who calls: the holder of one bearer token, or a subject of one OpenID issuer.

A caller's name is kept with each session that it creates. Nothing else of a token is kept, logged or shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Final, Protocol

import jwt

from affiant.errors import AffiantError, NotAllowedError, NotAuthenticError, UnreachableError
from affiant.sandbox.base.threads import abandonable

__all__ = ["Callers", "IssuerKeys", "OpenIDCallers", "TokenCallers"]

_ANY_HOLDER: Final = "token"
"""The name of the caller with the bearer token."""

_ALGORITHMS: Final = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
_REQUIRED: Final = ("aud", "exp", "iat", "iss", "sub")
_LEEWAY_S: Final = 30
_LONGEST: Final = 16 * 1024
_SUBJECT: Final = 255
_AGAIN_S: Final = 30.0
"""So often at most the issuer is asked for its keys, whatever tokens name."""
_KEPT_S: Final = 3600.0
_OLDEST_S: Final = 2 * 3600.0
_WITHIN_S: Final = 20.0


class Callers(Protocol):
    """Who may call."""

    async def owner(self, authorization: str | None) -> str:
        """The name of the caller who sent this ``Authorization`` header.

        Raises:
            ``session.caller``: an unknown caller. ``session.caller_unlisted``: a known one that is not on the list.
            ``session.issuer``: the issuer's keys cannot be fetched.
        """
        ...


class TokenCallers:
    """Accepts one bearer token; every holder is the same caller.

    Args:
        token: at least 32 bytes.
    """

    def __init__(self, token: bytes) -> None:
        self._digest = hashlib.sha256(token).digest()

    async def owner(self, authorization: str | None) -> str:
        """As :class:`Callers` says."""
        found = hashlib.sha256(_bearer(authorization).encode()).digest()
        if not hmac.compare_digest(found, self._digest):
            raise _unknown("not the bearer token of this server")
        return _ANY_HOLDER


class IssuerKeys:
    """The public keys of one OpenID issuer, asked for when a token names one that is not known, and each hour.

    A key that the issuer has withdrawn is accepted for at most :data:`_OLDEST_S`, also if the issuer does not answer.

    Args:
        issuer: its URL, as tokens name it. fetch: gets a URL's bytes, bounded. clock: seconds, monotonic.
        within_s: seconds in which the issuer must have answered.
    """

    def __init__(
        self,
        issuer: str,
        fetch: Callable[[str], bytes],
        clock: Callable[[], float],
        *,
        within_s: float = _WITHIN_S,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._within_s = within_s
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._as_of: float | None = None
        """When the issuer was asked for these keys."""
        self._asked: float | None = None
        self._failure: str | None = None
        """Why it gave none when it was asked last."""
        self._asking = asyncio.Lock()

    async def key(self, kid: str) -> jwt.PyJWK | None:
        """The key of this name; None: the issuer has none.

        Raises:
            ``session.issuer``: it does not answer, or not with keys, so that this is not known.
        """
        if self._are_due(kid):
            async with self._asking:
                if self._are_due(kid):  # no other request has asked meanwhile
                    await self._ask()
        if self._as_of is None or self._clock() - self._as_of >= _OLDEST_S:
            self._keys = {}
        key = self._keys.get(kid)
        if key is None and self._failure is not None:
            raise UnreachableError(
                "the OpenID issuer's keys cannot be fetched",
                where=self._place,
                found=self._failure,
                code="session.issuer",
            )
        return key

    def _are_due(self, kid: str) -> bool:
        """Whether the issuer is to be asked; callers whose key is known do not wait for it."""
        now = self._clock()
        if self._asked is not None and now - self._asked < _AGAIN_S:
            return False
        return kid not in self._keys or self._as_of is None or now - self._as_of >= _KEPT_S

    async def _ask(self) -> None:
        self._asked = asked = self._clock()
        try:
            async with asyncio.timeout(self._within_s):
                self._keys = await abandonable(self._fetched)
        except (
            *(OSError, TimeoutError, HTTPException),
            *(ValueError, KeyError, TypeError, AttributeError, RecursionError, jwt.PyJWTError, AffiantError),
        ) as error:
            self._failure = type(error).__name__
        else:
            self._as_of, self._failure = asked, None

    @property
    def _place(self) -> str:
        return f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"

    def _fetched(self) -> Mapping[str, jwt.PyJWK]:
        told = json.loads(self._fetch(self._place))
        if told["issuer"] != self._issuer:
            raise ValueError("it names another issuer")
        keys = jwt.PyJWKSet.from_dict(json.loads(self._fetch(str(told["jwks_uri"])))).keys
        return {key.key_id: key for key in keys if key.key_id is not None}


class OpenIDCallers:
    """Subjects of one issuer that are on a list.

    Args:
        audience: what a token's ``aud`` must hold. subjects: those who may call; never empty.
    """

    def __init__(self, issuer: str, audience: str, subjects: frozenset[str], keys: IssuerKeys) -> None:
        self._issuer = issuer
        self._audience = audience
        self._subjects = subjects
        self._keys = keys

    async def owner(self, authorization: str | None) -> str:
        """As :class:`Callers` says."""
        token = _bearer(authorization)
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise _unknown("not a token of the OpenID issuer") from error
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(kid, str) or algorithm not in _ALGORITHMS:
            raise _unknown("the token names no key, or an algorithm that is not accepted")
        key = await self._keys.key(kid)
        if key is None:
            raise _unknown("the token names a key that the OpenID issuer does not have")
        subject = self._verified(token, key, str(algorithm))
        if subject not in self._subjects:
            raise NotAllowedError("the caller is not on this server's list", code="session.caller_unlisted")
        return f"{self._issuer}#{subject}"

    def _verified(self, token: str, key: jwt.PyJWK, algorithm: str) -> str:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": list(_REQUIRED)},
            )
        except jwt.PyJWTError as error:
            raise _unknown(f"the token is not accepted ({type(error).__name__})") from error
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT or not subject.isprintable():
            raise _unknown("the token names no subject")
        return subject


def _bearer(authorization: str | None) -> str:
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > _LONGEST or not token.isascii():
        raise _unknown("no bearer token")
    return token


def _unknown(message: str) -> NotAuthenticError:
    return NotAuthenticError(message, expected="Authorization: Bearer TOKEN", code="session.caller")
