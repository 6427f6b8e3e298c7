"""A stored key with which requests are signed: one JSON object of exactly known members. For the broker's process.

``{"access_key_id": "AKIA…", "secret_access_key": "…"}``, for temporary credentials with ``"session_token"`` too, all on
one line: the value of one secret, so that its parts are set and replaced together. Each part must be as strong as any
secret (``value``), because each is redacted. What is refused is not repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.errors import MalformedError
from affiant.secrets.names.value import SecretValue

__all__ = ["SigningKey"]

_REQUIRED: Final = frozenset({"access_key_id", "secret_access_key"})
_KNOWN: Final = _REQUIRED | {"session_token"}
_ID: Final = re.compile(r"[A-Za-z0-9_]{16,128}\Z")
"""AWS, IAM API Reference, AccessKey: 16 to 128 characters of ``\\w``."""
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+\Z")


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """The parts of a key.

    Args:
        session_token: of temporary credentials (AWS STS); it goes with every request.
    """

    access_key_id: SecretValue
    secret_access_key: SecretValue
    session_token: SecretValue | None = None

    @classmethod
    def read(cls, value: SecretValue) -> SigningKey:
        """The key that ``value`` holds.

        Raises:
            ``secret.sigv4_key``: it is no such object. SecretTooWeak: a part is guessable.
        """
        members = _members(value)
        if not (_REQUIRED <= members.keys() <= _KNOWN):
            raise MalformedError(
                "the members of a key that signs are not the known ones",
                expected="access_key_id, secret_access_key, and for temporary credentials session_token",
                code="secret.sigv4_key",
            )
        if _ID.match(members["access_key_id"]) is None or any(
            _VISIBLE.match(text) is None for text in members.values()
        ):
            raise MalformedError(
                "a part of a key that signs has other characters, or another length",
                expected="an id of 16 to 128 letters, digits and '_', the rest visible ASCII",
                code="secret.sigv4_key",
            )
        parts = {name: SecretValue(text.encode("ascii")) for name, text in members.items()}
        return cls(**parts)

    @property
    def parts(self) -> Iterator[SecretValue]:
        """Every part that must not be seen."""
        yield from (self.access_key_id, self.secret_access_key)
        if self.session_token is not None:
            yield self.session_token


def _members(value: SecretValue) -> dict[str, str]:
    try:
        found = _DECODER.decode(value.reveal().decode("utf-8"))
    except (ValueError, RecursionError):  # not chained: it holds the value
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise MalformedError(
            "the value of a key that signs is no JSON object of texts",
            expected='{"access_key_id": "...", "secret_access_key": "..."} on one line',
            code="secret.sigv4_key",
        )
    return found


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is duplicated")
    return members


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)
