"""A published file, verified: who signed exactly these bytes, and which log says so, under the reader's own root.

1.  The bundle is taken apart within bounds (``bundle``).
2.  Its log entry stands where it claims, in the tree of its checkpoint
    (``checkpoint``).
3.  Certificate, signature, log, checkpoint and time hold under the trusted root, and the signer is the one that was
    named (``sigstore_verifier``).
4.  The statement is about one file, whose content has the digest of the subject
    (``statement``).
5.  The file's own reader takes it (``content``).

No step asks the network, and nothing that the bundle brings is an anchor: keys and authorities come from the trusted
root alone. A publication proves who said it and that a log holds it; never that it is right, or the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.sigstore.bundle import SignedBundle, parse_bundle
from affiant.attestation.signatures.sigstore.checkpoint import require_proven
from affiant.attestation.signatures.sigstore.content import require_readable
from affiant.attestation.signatures.sigstore.errors import ExtraMissing, NotLogged
from affiant.attestation.signatures.sigstore.statement import PublishedFile, parse_published_statement
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.attestation.tlog.checkpoint import Checkpoint

__all__ = ["LogRecord", "VerifiedPublication", "verify_published", "verify_signed_statement"]

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


@dataclass(frozen=True, slots=True)
class VerifiedPublication:
    """A file, and on whose word it rests. Only :func:`verify_published` makes one."""

    file: PublishedFile
    signer: Signer
    log: LogRecord
    trusted_root: str
    """``sha256:`` name of the trusted root's exact bytes."""
    bundle: str
    """``sha256:`` name of the bundle's exact bytes."""

    def to_json(self) -> Mapping[str, object]:
        """As members of a JSON document."""
        return {
            "name": self.file.name,
            "kind": str(self.file.kind),
            "digest": self.file.digest,
            "signer": {"identity": self.signer.identity, "issuer": self.signer.issuer},
            "log": {
                "id": self.log.log_id.hex(),
                "origin": self.log.origin,
                "index": self.log.index,
                "size": self.log.size,
                "at": f"{self.log.at:%Y-%m-%dT%H:%M:%SZ}",
                "at_from": "log" if self.log.promised else "timestamp-authority",
            },
            "trusted_root": self.trusted_root,
            "bundle": self.bundle,
        }


def verify_published(bundle: bytes, *, trusted_root: bytes, signer: Signer) -> VerifiedPublication:
    """Verify a published file offline.

    Args:
        bundle: a sigstore bundle v0.3, as JSON.
        trusted_root: the reader's own sigstore trusted root, as JSON.
        signer: who must have signed, and by which issuer's word.

    Raises:
        ExtraMissing: the sigstore library is not installed.
        TrustedRootUnusable: the trusted root is none, or trusts nobody.
        BundleMalformed, StatementMalformed: another form.
        PublicationNotAuthentic, NotLogged, ContentChanged: something does not hold.
        OtherSigner: it holds, and somebody else signed.
        OutsideValidity: it was not signed while certificate and keys counted.
        MalformedError: as the file's own reader refuses.
    """
    taken, log = verify_signed_statement(bundle, trusted_root=trusted_root, signer=signer)
    file = parse_published_statement(taken.statement)
    require_readable(file)
    return VerifiedPublication(
        file=file, signer=signer, log=log, trusted_root=sha256_name(trusted_root), bundle=taken.digest
    )


def verify_signed_statement(
    bundle: bytes, *, trusted_root: bytes, signer: Signer
) -> tuple[SignedBundle, LogRecord]:
    """Steps 1 to 3, for a statement about anything: who signed it, and which log says so. What it says is not read.

    Raises:
        AffiantError: as :func:`verify_published`, but for what is wrong with a file.
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
