"""Defines the errors of anchors, each with a stable code.

::

    MalformedError      anchor.token         no granted RFC 3161 response of the form that is read
                        anchor.statement     what is signed is no statement about a checkpoint
    NotAuthenticError   anchor.imprint       the token is about something else
                        anchor.untrusted     signature or chain do not lead to a root that the reader accepts
                        anchor.purpose       signed with a certificate that is not for timestamps alone
                        anchor.order         a renewal that is older than what it renews
                        anchor.foreign_log   the checkpoint is of another log than the receipts
                        anchor.not_covering  the checkpoint has none of the bundle's records
                        anchor.unproven      the checkpoint is not shown to be of the tree of the receipts' proofs
    NotFreshError       anchor.expired       the authority's certificate did not count at the time that it names
                        anchor.nonce         the answer is not to this request
    NotAllowedError     anchor.policy        issued under another policy than the one that the reader pins
                        anchor.refused       the authority answered, and refuses to stamp
    UnreachableError    anchor.unreachable   no connection, or no whole answer in time
                        anchor.unavailable   the authority says that it cannot answer now
    StateError          anchor.absent        there is no anchor to renew, to list or to add
    ConfigurationError  anchor.settings      an address, file or option that cannot be meant
                        anchor.extra         the library that reads tokens is not installed
"""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAuthenticError,
    StateError,
)

__all__ = [
    "AnchorAbsent",
    "AnchorExtraMissing",
    "AnchorSettingsInvalid",
    "AnchorUnproven",
    "AnchorUntrusted",
    "ForeignLog",
    "NotCovering",
    "StatementMalformed",
]


class StatementMalformed(MalformedError):
    """The signed bytes are no statement about exactly one checkpoint."""

    code = "anchor.statement"


class AnchorUntrusted(NotAuthenticError):
    """Signature or chain do not lead to a root that the reader accepts at that time."""

    code = "anchor.untrusted"


class ForeignLog(NotAuthenticError):
    """The anchored checkpoint is of another log."""

    code = "anchor.foreign_log"


class NotCovering(NotAuthenticError):
    """The anchored checkpoint is older than every record that it came with."""

    code = "anchor.not_covering"


class AnchorUnproven(NotAuthenticError):
    """The anchored checkpoint and the one of the proofs are not shown to be of one tree."""

    code = "anchor.unproven"


class AnchorAbsent(StateError):
    """There is no anchor of the kind that is asked for."""

    code = "anchor.absent"


class AnchorSettingsInvalid(ConfigurationError):
    """An address, a certificate, an identity or a place that cannot be meant."""

    code = "anchor.settings"


class AnchorExtraMissing(ConfigurationError):
    """A library of an extra is not installed."""

    code = "anchor.extra"
