"""What the verifier refuses beside what its parts refuse: chains, sessions, bindings, pins, bodies."""

from __future__ import annotations

from affiant.errors import (
    AffiantError,
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
)

__all__ = [
    "BodyMismatch",
    "ChainBroken",
    "EvidenceUnbound",
    "NoPin",
    "NotAccepted",
    "NotAsked",
    "NotMade",
    "SessionBroken",
    "SessionUnknown",
    "SignedVerdictInvalid",
    "SignedVerdictMalformed",
    "SignedVerdictOther",
]


class NotMade(AffiantError):
    """What a check needs is not there. Never shown as a refusal."""

    code = "not_made"


class NoPin(NotMade):
    """The trust file names nothing that the check could be held against: it takes no part in the tier, and the level
    that it belongs to is not reached."""

    code = "not_pinned"


class NotAsked(AffiantError):
    """The trust file does not ask for this check; it takes no part in tier or level."""

    code = "not_asked"


class SessionUnknown(ConfigurationError):
    """The reader asks for a session of which the bundle has no record."""

    code = "verifier.session"


class ChainBroken(NotAuthenticError):
    """A chain has a gap, a fork, a wrong link, no boot record, or something after its end."""

    code = "chain.broken"


class SessionBroken(NotAuthenticError):
    """A session's records contradict each other, or one is missing."""

    code = "session.broken"


class EvidenceUnbound(NotAuthenticError):
    """A key, a profile or a configuration is not the one that the evidence binds."""

    code = "key.unbound"


class NotAccepted(NotAllowedError):
    """Authentic, but not what the trust file accepts."""

    code = "trust.not_accepted"


class BodyMismatch(NotAuthenticError):
    """A given body is not the one that a receipt commits to."""

    code = "body.mismatch"


class SignedVerdictMalformed(MalformedError):
    """The file is no DSSE envelope with one signature over a verdict."""

    code = "verdict.signature"


class SignedVerdictInvalid(NotAuthenticError):
    """The signature over a verdict does not hold under the key, or is another key's."""

    code = "verdict.signature_invalid"


class SignedVerdictOther(NotAllowedError):
    """The signed verdict is about another bundle."""

    code = "verdict.bundle"
