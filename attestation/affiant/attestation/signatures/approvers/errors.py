"""Defines the errors of approvers, their statements and their keys.

::

    MalformedError
    +-- ApproverKeyMalformed   approval.key              a file is no approver's key, or others can read it
    +-- StatementMalformed     approval.statement        not a statement, or not signed by the key it names
    NotAllowedError
    +-- NotAnApprover          approval.not_an_approver  signed by somebody whom the profile does not name
    NotAuthenticError
    +-- StatementForAnother    approval.other_action     a statement about something else
    +-- ReaderRefused          approval.reader           a proof for another request, gateway or time, or seen before
    NotFreshError
    +-- StatementStale         approval.stale            of another time, or for longer than the action may wait
    ConfigurationError
    +-- ApproverExtraMissing  approval.extra            identities may approve; the sigstore library is not installed
"""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    NotFreshError,
)

__all__ = [
    "ApproverExtraMissing",
    "ApproverKeyMalformed",
    "NotAnApprover",
    "ReaderRefused",
    "StatementForAnother",
    "StatementMalformed",
    "StatementStale",
    "StatementUnproven",
]


class ApproverKeyMalformed(MalformedError):
    """A file is no key of an approver, or others can read it."""

    code = "approval.key"


class StatementMalformed(MalformedError):
    """Text is no approver's statement, or its signature does not hold under the key that it names."""

    code = "approval.statement"


class NotAnApprover(NotAllowedError):
    """The key is none that the profile names as an approver's, or one that asks itself."""

    code = "approval.not_an_approver"


class StatementForAnother(NotAuthenticError):
    """A statement is about another action."""

    code = "approval.other_action"


class StatementUnproven(NotAuthenticError):
    """An identity did not sign it under the profile's trusted root, or no log and no time of that root say so."""

    code = "approval.signature"


class ReaderRefused(NotAuthenticError):
    """A reader's proof is for another request or gateway, of another time, or was seen before."""

    code = "approval.reader"


class StatementStale(NotFreshError):
    """A statement's time is over, has not come, or is longer than the action may wait."""

    code = "approval.stale"


class ApproverExtraMissing(ConfigurationError):
    """Approvers are named by identity, and the library that verifies their signatures is not installed."""

    code = "approval.extra"

    def __init__(self) -> None:
        super().__init__(
            "a profile names approvers by issuer and subject, which needs the sigstore library",
            hint="Install it: pip install 'affiant[sigstore]'",
        )
