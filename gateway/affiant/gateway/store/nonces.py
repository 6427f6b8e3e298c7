"""Nonces for admission: made here, used once, gone after two minutes, and never more than a bounded number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.gateway.wire.errors import Busy, NonceUnknown

__all__ = ["NONCE_LIFETIME_S", "Nonces"]

NONCE_LIFETIME_S: Final = 120
_LIMIT: Final = 1024


class Nonces:
    """The nonces that are out, in memory."""

    def __init__(self, *, random_bytes: Callable[[int], bytes], limit: int = _LIMIT) -> None:
        self._random_bytes = random_bytes
        self._limit = limit
        self._expiry: OrderedDict[str, float] = OrderedDict()

    def make(self, *, now: float) -> str:
        """A fresh nonce: 32 random bytes as 43 characters.

        Raises:
            Busy: too many are out.
        """
        self._forget(now)
        if len(self._expiry) >= self._limit:
            raise Busy("too many nonces are out", expected=f"at most {self._limit} in {NONCE_LIFETIME_S} s")
        nonce = b64u(self._random_bytes(32))
        self._expiry[nonce] = now + NONCE_LIFETIME_S
        return nonce

    def take(self, nonce: str | None, *, now: float) -> None:
        """Use ``nonce``, once.

        Raises:
            NonceUnknown: not made here, used before, or expired.
        """
        self._forget(now)
        if nonce is None or self._expiry.pop(nonce, None) is None:
            raise NonceUnknown(
                "the statement's nonce is not one that is out",
                expected=f"one of this gateway's, at most {NONCE_LIFETIME_S} s old, used once",
            )

    def _forget(self, now: float) -> None:
        while self._expiry and next(iter(self._expiry.values())) <= now:
            self._expiry.popitem(last=False)
