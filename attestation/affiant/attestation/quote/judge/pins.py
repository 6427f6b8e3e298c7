"""Reads what the reader accepts from the reader's own files: root keys and reference values.

A root is Intel's (compiled in) or a file: a certificate or a public key, PEM or DER. Reference values are one
``affiant-reference-values/1`` document, or a trust file, whose entries count at the time that is judged at.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tdx.pki.certificates import parse_chain
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.errors import ConfigurationError, MalformedError

__all__ = ["MAX_REFERENCE_FILE", "MAX_ROOT_FILE", "Pins", "parse_reference_file", "parse_root_file"]

MAX_REFERENCE_FILE: Final = 16 << 20
MAX_ROOT_FILE: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Pins:
    """The accepted roots and reference values, and the ``sha256:`` name of the file they are from."""

    roots: TrustRoots
    references: tuple[ReferenceValues, ...]
    digest: str


def parse_root_file(content: bytes) -> TrustRoots:
    """The root key in a file: certificate or public key (P-256), PEM or DER.

    Raises:
        CertificateMalformed: neither.
        ``roots.empty``: a key of another kind, or more certificates than one.
    """
    if b"-----BEGIN PUBLIC KEY-----" in content:
        try:
            key = load_pem_public_key(content)
        except ValueError as error:
            raise ConfigurationError(
                "the file holds no public key that can be read", code="roots.empty"
            ) from error
        return TrustRoots.pinned((key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),))
    if content.lstrip().startswith(b"-----BEGIN"):
        chain = parse_chain(content)
        if len(chain) != 1:
            raise ConfigurationError(
                "more certificates than one", expected="the root alone", found=len(chain), code="roots.empty"
            )
        return TrustRoots.pinned((chain[0].der,))
    return TrustRoots.pinned((content,))


def parse_reference_file(content: bytes, at: datetime) -> Pins:
    """The reference values in a file, and the roots that they name.

    Raises:
        ``reference.malformed``: neither form, or nothing in the trust file counts at ``at``.
        MalformedError: as the file's own form refuses.
    """
    try:
        typ = parse_object(content, limit=MAX_REFERENCE_FILE, strict_form=False).get("typ")
    except JSONError as error:
        raise MalformedError(f"the file is not strict JSON: {error}", code="reference.malformed") from error
    if typ == "affiant-trust/1":
        return _from_trust_file(content, at)
    values = parse_reference_values(canonical(parse_object(content, strict_form=False)))
    return Pins(values.trust_roots(), (values,), sha256_name(content))


def _from_trust_file(content: bytes, at: datetime) -> Pins:
    trust = parse_trust_file(content)
    counting = tuple(values for entry, values in trust.reference_values if entry.counts_at(at))
    if not counting:
        raise MalformedError(
            "no reference values of the trust file count at this time",
            found=f"{at:%Y-%m-%dT%H:%M:%SZ}",
            code="reference.malformed",
        )
    return Pins(TrustRoots.named(trust.root_names_at(at)), counting, trust.digest)
