"""Formats a verified signed file as lines: who signed the values, and which log holds the signature."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.attestation.signatures.sigstore.verification import VerifiedFile
from affiant.attestation.verdict.lines import field

__all__ = ["publication_lines"]


def publication_lines(found: VerifiedFile) -> Iterator[str]:
    """Name and digest of the file, who signed it, which log holds it, under which trusted root."""
    log = found.log
    said_by = "the log" if log.promised else "the timestamp authority"
    yield field("file", f"{found.file.name}, {found.file.kind}")
    yield field("content", found.file.digest)
    yield field("signed by", found.signer.identity)
    yield field("issuer", found.signer.issuer)
    yield field("signed at", f"{log.at:%Y-%m-%dT%H:%M:%SZ}, says {said_by}")
    yield field("log", f"{log.origin}, entry {log.index}, proven in a tree of {log.size}")
    yield field("trusted root", found.trusted_root)
    yield field("bundle", found.bundle)
