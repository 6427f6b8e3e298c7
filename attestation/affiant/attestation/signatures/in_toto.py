"""Writes and reads the in-toto statements that people and identities sign: one subject, one predicate of ours.

in-toto Statement v1 (in-toto attestation framework, spec/v1/statement.md)::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "<what it is about>", "digest": {"sha256": "<64 hex>"}}],
     "predicateType": "<one of those below>", "predicate": {...}}

==================  ==============================================  =============================================
subject             predicate type                                  module
==================  ==============================================  =============================================
a file's name       ``tag:affiant.dev,2026:publication/1``          ``sigstore.statement``
``profiles``        ``tag:affiant.dev,2026:policy-signature/1``     ``profiles.statement``
``action``          ``tag:affiant.dev,2026:approval/1``             ``approvers.signed_by_identity``
``reader``          ``tag:affiant.dev,2026:approval-reader/1``      ``approvers.signed_by_identity``
``checkpoint``      ``https://affiant.dev/checkpoint-anchor/v1``    ``sigstore.sigstore_anchor``
``bundle``          ``tag:affiant.dev,2026:verdict/1``              ``verdict.signed_verdict``
==================  ==============================================  =============================================

The reader rejects any other member and any second subject, so that a statement says one thing. It accepts any layout,
since a signer may write the JSON anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.errors import MalformedError

__all__ = ["PAYLOAD_TYPE", "InTotoStatement", "parse_in_toto"]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class InTotoStatement:
    """One statement. Who signed it, this type does not say."""

    subject: str
    sha256: str
    """Of the subject, 64 hexadecimal digits."""
    predicate_type: str
    predicate: Mapping[str, object]

    def to_bytes(self) -> bytes:
        """The statement, unsigned, in its canonical form (RFC 8785)."""
        return canonical(
            {
                "_type": _STATEMENT_TYPE,
                "subject": [{"name": self.subject, "digest": {"sha256": self.sha256}}],
                "predicateType": self.predicate_type,
                "predicate": dict(self.predicate),
            }
        )


def parse_in_toto(
    statement: bytes, *, predicate_type: str, limit: int, error: type[MalformedError]
) -> InTotoStatement:
    """The statement in ``statement``, which is of this predicate type. Its predicate is for the caller to read.

    Args:
        limit: bytes of the statement.
        error: the class of what is raised.

    Raises:
        MalformedError: another form, another predicate, or more subjects than one; of the class ``error``.
    """
    try:
        document = parse_object(statement, limit=limit, strict_form=False)
    except JSONError as malformed:
        raise error(f"the statement is not strict JSON: {malformed}") from malformed
    for name, expected in (("_type", _STATEMENT_TYPE), ("predicateType", predicate_type)):
        found = document.get(name)
        if found != expected:
            shown = repr(found[:80]) if isinstance(found, str) else type(found).__name__
            raise error("a statement of another form", where=name, expected=expected, found=shown)
    match document:
        case {
            "subject": [{"name": str() as subject, "digest": {"sha256": str() as sha256}}],
            "predicate": dict() as predicate,
        } if _SHA256.match(sha256):
            read = InTotoStatement(subject, sha256, predicate_type, predicate)
            if read.to_bytes() == canonical(document):
                return read
    raise error(
        "members are missing, unknown or of another value",
        where="statement",
        expected="one subject with its name and SHA-256, predicateType, predicate",
    )
