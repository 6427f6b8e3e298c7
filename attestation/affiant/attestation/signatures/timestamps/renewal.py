"""Verifies a checkpoint's tokens, oldest first: the first proves when it existed, each later one keeps those before
it valid.

A token is judged by what counted when it is *known* to have existed: the certificate at the token's own time; the
reader's root from ``from`` to ``until`` at that time too; but whether the root was **revoked** at the time of the next
token, which stamps this one, and for the last at the time that the reader judges at. Whoever holds a key that was
lost can date a token back, and cannot put it under an honest renewal made before the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from affiant.attestation.signatures.timestamps.imprint import message
from affiant.attestation.signatures.timestamps.response import MAX_TOKENS
from affiant.attestation.signatures.timestamps.roots import TSARoot
from affiant.attestation.signatures.timestamps.token import VerifiedToken, verify_token
from affiant.errors import MalformedError, NotAuthenticError

__all__ = ["AcceptedRoot", "Always", "VerifiedStamp", "verify_stamp"]


class AcceptedRoot(Protocol):
    """When a root counts."""

    def counts_for(self, at: datetime, *, known: datetime) -> bool:
        """Whether it counts for what says ``at``, and is known to have existed at ``known``."""
        ...


class Always:
    """Without an end: a root that was named for this one question."""

    def counts_for(self, at: datetime, *, known: datetime) -> bool:  # noqa: ARG002 - whatever they are
        """Yes."""
        return True


@dataclass(frozen=True, slots=True)
class VerifiedStamp:
    """A text existed by ``not_after``. Only :func:`verify_stamp` makes one."""

    tokens: tuple[VerifiedToken, ...]

    @property
    def not_after(self) -> int:
        """Seconds since 1970, by the first token."""
        return self.tokens[0].not_after

    @property
    def authority(self) -> str:
        """Who issued the first token."""
        return self.tokens[0].authority


def verify_stamp(
    text: str,
    tokens: Sequence[bytes],
    *,
    roots: Sequence[tuple[AcceptedRoot, TSARoot]],
    at: datetime,
) -> VerifiedStamp:
    """The tokens over the checkpoint ``text``, each verified.

    Args:
        text: of the note, with its last newline.
        tokens: responses, oldest first; 1 to :data:`MAX_TOKENS`.
        roots: what the reader accepts, and when.
        at: the time judged at.

    Raises:
        ``anchor.order``: a renewal is older than what it renews.
        ``anchor.token``: none, or too many; else as ``verify_token``.
    """
    if not 1 <= len(tokens) <= MAX_TOKENS:
        raise MalformedError(
            "another number of tokens", expected=f"1 to {MAX_TOKENS}", found=len(tokens), code="anchor.token"
        )
    found: list[VerifiedToken] = []
    known = at
    for place in reversed(range(len(tokens))):
        found.append(_verified(text, tokens, place, roots, known))
        if len(found) > 1 and found[-1].at > datetime.fromtimestamp(found[-2].not_after, UTC):
            raise NotAuthenticError(
                "a renewal is older than the token that it renews",
                expected=f"after {found[-1].at:%Y-%m-%dT%H:%M:%SZ}",
                found=f"{found[-2].at:%Y-%m-%dT%H:%M:%SZ}",
                code="anchor.order",
            )
        known = found[-1].at
    return VerifiedStamp(tuple(reversed(found)))


def _verified(
    text: str,
    tokens: Sequence[bytes],
    place: int,
    roots: Sequence[tuple[AcceptedRoot, TSARoot]],
    known: datetime,
) -> VerifiedToken:
    return verify_token(
        tokens[place],
        message(text, tokens[:place]),
        roots=lambda said: [root for accepted, root in roots if accepted.counts_for(said, known=known)],
    )
