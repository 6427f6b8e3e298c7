"""Verifies a signed file: who signed exactly these bytes, and which log says so, under the reader's own root.

1.  The statement that holds it is verified (``signed_statement``, steps 1 to 3).
2.  The statement is about one file, whose content has the digest of the subject
    (``statement``).
3.  The file's own reader takes it (``content``).

A publication proves who said it and that a log holds it; never that it is right, or the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.sigstore.content import require_readable
from affiant.attestation.signatures.sigstore.signed_statement import LogRecord, verify_signed_statement
from affiant.attestation.signatures.sigstore.statement import SignedFile, parse_file_statement
from affiant.attestation.signatures.sigstore.trusted_identity import Signer

__all__ = ["VerifiedFile", "verify_signed_file"]


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A file, and on whose word it rests. Only :func:`verify_signed_file` makes one."""

    file: SignedFile
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


def verify_signed_file(bundle: bytes, *, trusted_root: bytes, signer: Signer) -> VerifiedFile:
    """Verify a signed file offline.

    Args:
        bundle: a sigstore bundle v0.3, as JSON.
        trusted_root: the reader's own sigstore trusted root, as JSON.
        signer: who must have signed, and by which issuer's word.

    Raises:
        ExtraMissing: the sigstore library is not installed.
        TrustedRootUnusable: the trusted root is none, or trusts nobody.
        BundleMalformed, StatementMalformed: another form.
        SignatureNotAuthentic, NotLogged, ``published.content``: something does not hold.
        OtherSigner: it holds, and somebody else signed.
        OutsideValidity: it was not signed while certificate and keys counted.
        MalformedError: as the file's own reader refuses.
    """
    taken, log = verify_signed_statement(bundle, trusted_root=trusted_root, signer=signer)
    file = parse_file_statement(taken.statement)
    require_readable(file)
    return VerifiedFile(
        file=file, signer=signer, log=log, trusted_root=sha256_name(trusted_root), bundle=taken.digest
    )
