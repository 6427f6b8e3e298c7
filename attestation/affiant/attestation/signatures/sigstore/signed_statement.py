"""Verifies a signed statement about anything: who signed it, and which log holds it, under the reader's own root.

1.  The bundle is taken apart within bounds (``bundle``).
2.  Its log entry stands where it claims, in the tree of its checkpoint
    (``checkpoint``).
3.  Certificate, signature, log, checkpoint and time hold under the trusted root, and the signer is the one that was
    named (``sigstore_verifier``).

No step asks the network, and nothing that the bundle brings is an anchor: keys and authorities come from the trusted
root alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.signatures.sigstore.bundle import SignedBundle, parse_bundle
from affiant.attestation.signatures.sigstore.checkpoint import require_proven
from affiant.attestation.signatures.sigstore.errors import ExtraMissing, NotLogged
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.attestation.tlog.checkpoint import Checkpoint

__all__ = ["LogRecord", "verify_signed_statement"]

_ENTRY_KINDS = frozenset((("dsse", "0.0.1"), ("hashedrekord", "0.0.2")))
"""How the two generations of the log record a signed statement; any other entry is about something else."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """Where the signature is recorded."""

    log_id: bytes
    """The log's identity in the trusted root."""
    origin: str
    """The log's name for itself, from the checkpoint that it signed."""
    index: int
    """The log's number of the entry."""
    size: int
    """How many entries the tree of the checkpoint has."""
    at: datetime
    """When it was signed: as the log promised, or the timestamp authority said."""
    promised: bool
    """Whether it is the log that says when."""


def verify_signed_statement(
    bundle: bytes, *, trusted_root: bytes, signer: Signer
) -> tuple[SignedBundle, LogRecord]:
    """Who signed the statement, and which log says so. What it says is not read.

    Raises:
        ExtraMissing: the sigstore library is not installed.
        TrustedRootUnusable: the trusted root is none, or trusts nobody.
        BundleMalformed: another form.
        SignatureNotAuthentic, NotLogged: something does not hold.
        OtherSigner: it holds, and somebody else signed.
        OutsideValidity: it was not signed while certificate and keys counted.
    """
    try:
        from affiant.attestation.signatures.sigstore.sigstore_verifier import (  # noqa: PLC0415 - an extra, and slow to load
            verify_signatures,
        )
    except ModuleNotFoundError as error:
        raise ExtraMissing from error
    taken = parse_bundle(bundle)
    checkpoint = _proven(taken)
    signed_at = verify_signatures(taken, trusted_root=trusted_root, signer=signer)
    return taken, LogRecord(
        log_id=taken.entry.log_id,
        origin=checkpoint.origin,
        index=taken.entry.index,
        size=checkpoint.size,
        at=signed_at,
        promised=taken.entry.promised_at is not None,
    )


def _proven(taken: SignedBundle) -> Checkpoint:
    kind = (taken.entry.kind, taken.entry.version)
    if kind not in _ENTRY_KINDS:
        raise NotLogged(
            "the log entry is not about a signed statement",
            expected="dsse 0.0.1 or hashedrekord 0.0.2",
            found=" ".join(kind),
        )
    return require_proven(taken.entry)
