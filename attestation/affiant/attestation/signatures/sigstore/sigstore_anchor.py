"""Verifies a checkpoint that an identity signed and sigstore's log recorded: an in-toto statement about the note's
text.

::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "checkpoint", "digest": {"sha256": "<of the text>"}}],
     "predicateType": "https://affiant.dev/checkpoint-anchor/v1",
     "predicate": {"checkpoint": "<the text, with its last newline>"}}

Not after is the time of sigstore's log, or of its timestamp authority; both as ``signatures.sigstore``
finds them, offline, under the reader's own trusted root.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from affiant.attestation.signatures.in_toto import InTotoStatement, parse_in_toto
from affiant.attestation.signatures.sigstore.bundle import parse_bundle
from affiant.attestation.signatures.sigstore.certificate_identity import certificate_of, signer_of
from affiant.attestation.signatures.sigstore.errors import (
    ExtraMissing,
    NotLogged,
    OtherSigner,
    OutsideValidity,
    SignatureNotAuthentic,
)
from affiant.attestation.signatures.sigstore.signed_statement import LogRecord, verify_signed_statement
from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.attestation.signatures.timestamps.errors import (
    AnchorExtraMissing,
    AnchorUntrusted,
    StatementMalformed,
)
from affiant.errors import AffiantError, NotAuthenticError

if TYPE_CHECKING:
    from affiant.attestation.signatures.timestamps.renewal import AcceptedRoot

__all__ = [
    "PREDICATE_TYPE",
    "STRANGERS",
    "checkpoint_statement",
    "not_after_of",
    "require_about",
    "signer_of_anchor",
    "verify_by_named",
    "verify_sigstore_anchor",
]

PREDICATE_TYPE: Final = "https://affiant.dev/checkpoint-anchor/v1"
STRANGERS: Final = (OtherSigner, SignatureNotAuthentic, NotLogged, OutsideValidity)
"""What says that an anchor is by nobody whom the reader named; anything else is wrong with it, whoever made it."""
_MAX_STATEMENT: Final = 64 << 10


def checkpoint_statement(text: str) -> bytes:
    """The statement about the checkpoint ``text``, canonical (RFC 8785)."""
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return InTotoStatement("checkpoint", digest, PREDICATE_TYPE, {"checkpoint": text}).to_bytes()


def verify_sigstore_anchor(bundle: bytes, text: str, root: SigstoreRoot) -> LogRecord:
    """When ``root``'s signer had signed the checkpoint ``text``, and which log says so.

    Raises:
        AnchorExtraMissing: the library is not installed.
        StatementMalformed, ``anchor.imprint``: what is signed is no such statement, or about another checkpoint.
        AffiantError: as ``verify_signed_statement``.
    """
    try:
        taken, record = verify_signed_statement(bundle, trusted_root=root.trusted_root, signer=root.signer)
    except ExtraMissing as error:
        raise AnchorExtraMissing(
            "anchors by sigstore need the sigstore library, which is not installed",
            hint="Install it with: pip install 'affiant[sigstore]'",
        ) from error
    require_about(taken.statement, text)
    return record


def require_about(statement: bytes, text: str) -> None:
    """Refuse a statement about anything but the checkpoint ``text``. Who signed it is not asked here.

    Raises:
        StatementMalformed, ``anchor.imprint``: as named.
    """
    said = parse_in_toto(
        statement, predicate_type=PREDICATE_TYPE, limit=_MAX_STATEMENT, error=StatementMalformed
    )
    about = said.predicate.get("checkpoint")
    if not isinstance(about, str) or said.to_bytes() != checkpoint_statement(about):
        raise StatementMalformed("not a statement about exactly one checkpoint", expected=PREDICATE_TYPE)
    if about != text:
        raise NotAuthenticError(
            "the statement is about another checkpoint",
            expected=repr(text[:80]),
            found=repr(about[:80]),
            code="anchor.imprint",
        )


def signer_of_anchor(bundle: bytes) -> Signer:
    """Whom the certificate names; unverified, and never whom a reader should believe for it.

    Raises:
        BundleMalformed, OtherSigner: it is no bundle, or names nobody.
    """
    return signer_of(certificate_of(parse_bundle(bundle)))


def verify_by_named(
    bundle: bytes, text: str, *, roots: Sequence[tuple[AcceptedRoot, SigstoreRoot]], at: datetime
) -> tuple[LogRecord, SigstoreRoot]:
    """The same by the first of ``roots`` who had signed it, and counts for the time that the record says.

    Args:
        roots: what the reader accepts, and when.
        at: the time judged at.

    Raises:
        AnchorUntrusted: nobody is accepted at that time; else what the last of ``roots`` refuses.
    """
    refusal: AffiantError = AnchorUntrusted("no signer is accepted at that time")
    for accepted, root in roots:
        try:
            record = verify_sigstore_anchor(bundle, text, root)
        except STRANGERS as error:
            refusal = error
            continue
        if accepted.counts_for(record.at, known=at):
            return record, root
    raise refusal


def not_after_of(record: LogRecord) -> int:
    """Seconds since 1970, rounded up."""
    return math.ceil(record.at.timestamp())
