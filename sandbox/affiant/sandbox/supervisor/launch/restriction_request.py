"""A request to restrict the session's profile, as it comes through the launcher: untrusted, closed, and bounded by the
control socket. And what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.errors import AffiantError, MalformedError
from affiant.sandbox.supervisor.launch.control import refusal_members

__all__ = [
    "RestrictionRequest",
    "RestrictionResult",
    "parse_restriction_request",
    "refused_answer",
]

_MEMBERS: Final = frozenset({"op", "id", "policy", "file", "signature"})
_FILE: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class RestrictionRequest:
    """What is asked for.

    Args:
        policy: the new profile's normal form. file_digest: ``sha256:`` of the file that it is of.
        signature: over that file, if there is one.
    """

    policy: bytes
    file_digest: str
    signature: bytes | None


@dataclass(frozen=True, slots=True)
class RestrictionResult:
    """What came of it: the epoch and the profile in force; whether that is a change."""

    epoch: int
    profile_digest: str
    changed: bool

    def to_json(self, number: int) -> Mapping[str, object]:
        """As the event that answers request ``number``."""
        return {
            "event": "narrowed",
            "id": number,
            "epoch": self.epoch,
            "digest": self.profile_digest,
            "changed": self.changed,
        }


def parse_restriction_request(members: Mapping[str, object]) -> RestrictionRequest:
    """The request in a control message.

    Raises:
        ``session.control``: a member too many or too few, or of another type. EncodingError: not base64url.
    """
    policy, file, signature = (members.get(name) for name in ("policy", "file", "signature"))
    if set(members) != _MEMBERS or not isinstance(policy, str) or not isinstance(file, str):
        raise MalformedError(
            "not a request to restrict the profile",
            expected=", ".join(sorted(_MEMBERS)),
            where="narrow",
            code="session.control",
        )
    if _FILE.match(file) is None or not isinstance(signature, (str, type(None))):
        raise MalformedError(
            "not a request to restrict the profile",
            expected="a file's digest, and a signature or none",
            where="narrow",
            code="session.control",
        )
    return RestrictionRequest(from_b64u(policy), file, None if signature is None else from_b64u(signature))


def refused_answer(number: int, refusal: AffiantError) -> Mapping[str, object]:
    """The refusal of request ``number`` as an event."""
    return {"event": "narrow-refused", "id": number, **refusal_members(refusal)}
