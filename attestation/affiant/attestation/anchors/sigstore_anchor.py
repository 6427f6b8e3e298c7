"""A checkpoint signed by an identity, and recorded in sigstore's log: an in-toto statement about the note's text.

::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "checkpoint", "digest": {"sha256": "<of the text>"}}],
     "predicateType": "https://affiant.dev/checkpoint-anchor/v1",
     "predicate": {"checkpoint": "<the text, with its last newline>"}}

Not after is the time of sigstore's log, or of its timestamp authority; both as :mod:`affiant.attestation.published`
finds them, offline, under the reader's own trusted root.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

from affiant.attestation.anchors.errors import AnchorExtraMissing, ImprintWrong, StatementMalformed
from affiant.attestation.anchors.sigstore_root import SigstoreRoot
from affiant.attestation.canonical import JSONError, canonical, parse_object
from affiant.attestation.published.errors import ExtraMissing
from affiant.attestation.published.verification import LogRecord, verify_signed_statement

__all__ = ["PREDICATE_TYPE", "checkpoint_statement", "not_after_of", "verify_sigstore_anchor"]

PREDICATE_TYPE: Final = "https://affiant.dev/checkpoint-anchor/v1"
_MAX_STATEMENT: Final = 64 << 10


def checkpoint_statement(text: str) -> bytes:
    """The statement about the checkpoint ``text``, canonical (RFC 8785)."""
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return canonical(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "checkpoint", "digest": {"sha256": digest}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"checkpoint": text},
        }
    )


def verify_sigstore_anchor(bundle: bytes, text: str, root: SigstoreRoot) -> LogRecord:
    """When ``root``'s signer had signed the checkpoint ``text``, and which log says so.

    Raises:
        AnchorExtraMissing: the library is not installed.
        StatementMalformed, ImprintWrong: what is signed is no such statement, or about another checkpoint.
        AffiantError: as :func:`~affiant.attestation.published.verification.verify_signed_statement`.
    """
    try:
        taken, record = verify_signed_statement(bundle, trusted_root=root.trusted_root, signer=root.signer)
    except ExtraMissing as error:
        raise AnchorExtraMissing(
            "anchors by sigstore need the sigstore library, which is not installed",
            hint="Install it with: pip install 'affiant[sigstore]'",
        ) from error
    try:
        said = parse_object(taken.statement, limit=_MAX_STATEMENT, strict_form=False)
    except JSONError as error:
        raise StatementMalformed(f"the statement is not strict JSON: {error}") from error
    predicate = said.get("predicate")
    about = predicate.get("checkpoint") if isinstance(predicate, dict) else None
    if not isinstance(about, str) or canonical(said) != checkpoint_statement(about):
        raise StatementMalformed("not a statement about exactly one checkpoint", expected=PREDICATE_TYPE)
    if about != text:
        raise ImprintWrong(
            "the statement is about another checkpoint", expected=repr(text[:80]), found=repr(about[:80])
        )
    return record


def not_after_of(record: LogRecord) -> int:
    """Seconds since 1970, rounded up."""
    return math.ceil(record.at.timestamp())
