"""Verifies the PCK certificate: its SGX extension, and its chain to the root (points 6 to 10).

Source: Intel SGX PCK Certificate and CRL Profile Specification, section 1.3 (extension) and 1.4 (names). The
chain is exactly leaf, intermediate, root; the root may be left out, because it is only a hint.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cryptography import x509

from affiant.attestation.encoding.der import (
    BOOLEAN,
    ENUMERATED,
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    DERError,
    Element,
    children,
    read_single,
    unsigned_integer,
)
from affiant.attestation.tdx.pki.certificates import Certificate, parse_chain
from affiant.attestation.tdx.pki.times import Window
from affiant.attestation.tdx.quote.errors import UntrustedRoot
from affiant.errors import MalformedError, NotAuthenticError

__all__ = [
    "PCKCA",
    "PCKExtension",
    "VerifiedPCKChain",
    "extension_of",
    "parse_pck_extension",
    "verify_intermediate",
    "verify_pck_chain",
]

SGX_EXTENSION_OID: Final = x509.ObjectIdentifier("1.2.840.113741.1.13.1")
PCK_COMMON_NAME: Final = "Intel SGX PCK Certificate"
_PREFIX: Final = bytes.fromhex("2a864886f84d010d01")
"""Content octets of 1.2.840.113741.1.13.1; members append one byte for each further arc."""
_FLAGS: Final = {False: b"\x00", True: b"\xff"}


class PCKCA(Enum):
    """The two authorities that issue PCK certificates, by common name."""

    PLATFORM = "Intel SGX PCK Platform CA"
    PROCESSOR = "Intel SGX PCK Processor CA"


@dataclass(frozen=True, slots=True)
class PCKExtension:
    """What the PCK certificate says about its platform."""

    ppid: bytes
    """16 bytes that identify the platform."""
    components: tuple[int, ...]
    """The 16 component SVNs (.2.1 to .2.16): what TCB levels are compared with."""
    pce_svn: int
    cpu_svn: bytes
    pceid: bytes
    fmspc: bytes
    sgx_type: int
    """0 standard, 1 scalable, 2 scalable with integrity."""
    platform_instance_id: bytes | None
    dynamic_platform: bool | None
    """None: the certificate does not say (as with the next two)."""
    cached_keys: bool | None
    smt_enabled: bool | None


@dataclass(frozen=True, slots=True)
class VerifiedPCKChain:
    """A PCK chain whose signatures, names and roles hold under ``root_spki``. Time and revocation are
    judged again at each use."""

    leaf: Certificate
    intermediate: Certificate
    ca: PCKCA
    extension: PCKExtension
    root_spki: bytes = field(repr=False)
    hint: Certificate | None
    """The root certificate that the chain carried, if it did."""
    digest: bytes
    """SHA-256 of the exact bytes of the chain."""
    windows: tuple[Window, ...] = field(repr=False)


def verify_pck_chain(pem: bytes, *, root: Certificate, authority: Certificate) -> VerifiedPCKChain:
    """The chain in ``pem``, verified up to ``root``.

    Args:
        pem: leaf, intermediate and perhaps the root.
        root: verified and trusted by the caller.
        authority: a PCK authority that the caller has verified up to ``root``; an intermediate with the same
            bytes is not verified twice.

    Raises:
        CertificateMalformed: not two or three certificates of the profile.
        ``pck.chain``: a signature, name or role does not hold.
        UntrustedRoot: the chain carries a root with another key.
        ``pck.extension``: the leaf's SGX extension.
    """
    chain = parse_chain(pem, known=(root, authority))
    # 4 and 9: exactly leaf, intermediate and perhaps the root, in this order; no path search.
    if len(chain) < 2:
        raise NotAuthenticError(
            "PCK chain is too short", expected="leaf, intermediate, root", found=len(chain), code="pck.chain"
        )
    leaf, intermediate = chain[0], chain[1]
    hint = chain[2] if len(chain) == 3 else None
    # 6: the root in the quote is a hint; its key must be the trusted one.
    if hint is not None and (hint.spki != root.spki or hint.subject != root.subject):
        raise UntrustedRoot("the PCK chain ends in another root than the collateral")
    if hint is not None and hint != root and not (hint.is_authority() and hint.is_issued_by(hint)):
        raise NotAuthenticError("the root in the PCK chain is no self-signed authority", code="pck.chain")
    if intermediate != authority:
        verify_intermediate(intermediate, root)
    _verify_leaf(leaf, intermediate)
    members = (leaf, intermediate) if hint is None else (leaf, intermediate, hint)
    return VerifiedPCKChain(
        leaf=leaf,
        intermediate=intermediate,
        ca=PCKCA(intermediate.common_name),
        extension=extension_of(leaf),
        root_spki=root.spki,
        hint=hint,
        digest=hashlib.sha256(pem).digest(),
        windows=tuple(certificate.window for certificate in members),
    )


def verify_intermediate(intermediate: Certificate, root: Certificate) -> PCKCA:
    """7: one of the two PCK authorities, issued by ``root``, allowed to sign certificates and CRLs.

    Raises:
        ``pck.chain``: it is not.
    """
    try:
        ca = PCKCA(intermediate.common_name)
    except ValueError as error:
        raise NotAuthenticError(
            "the certificate above the PCK certificate is no PCK authority",
            expected=" or ".join(repr(ca.value) for ca in PCKCA),
            code="pck.chain",
        ) from error
    if not intermediate.is_authority():
        raise NotAuthenticError(f"{ca.value!r} may not sign certificates and lists", code="pck.chain")
    if not intermediate.is_issued_by(root):
        raise NotAuthenticError(f"{ca.value!r} is not signed by the root", code="pck.chain")
    return ca


def _verify_leaf(leaf: Certificate, intermediate: Certificate) -> None:
    """8: named and used as a PCK certificate (known mistake: any leaf under the Platform CA accepted)."""
    if leaf.common_name != PCK_COMMON_NAME:
        raise NotAuthenticError(
            "the leaf is not a PCK certificate", expected=repr(PCK_COMMON_NAME), code="pck.chain"
        )
    if not leaf.is_end_entity():
        raise NotAuthenticError(
            "the PCK certificate is a certificate authority, or may not sign data", code="pck.chain"
        )
    if not leaf.is_issued_by(intermediate):
        raise NotAuthenticError(
            "the PCK certificate is not signed by the authority above it", code="pck.chain"
        )


def extension_of(leaf: Certificate) -> PCKExtension:
    """10: the SGX extension of a PCK certificate, present once (the certificate parser has refused doubles).

    Raises:
        ``pck.extension``: it is absent or malformed.
    """
    try:
        extension = leaf.extensions.get_extension_for_oid(SGX_EXTENSION_OID)
    except x509.ExtensionNotFound as error:
        raise MalformedError("the PCK certificate has no SGX extension", code="pck.extension") from error
    if not isinstance(extension.value, x509.UnrecognizedExtension):  # pragma: no cover - no library knows it
        raise MalformedError("the SGX extension was read as something else", code="pck.extension")
    return parse_pck_extension(extension.value.value)


def parse_pck_extension(der: bytes) -> PCKExtension:
    """The SGX extension, every member in its type and exact length; unknown members are ignored (point 10).

    Raises:
        ``pck.extension``: a member is absent, doubled or of another type or length.
    """
    try:
        members = _members(read_single(der, SEQUENCE), _PREFIX)
        tcb = _members(_content(members, 2, SEQUENCE), _PREFIX + b"\x02")
        flags = _members(_content(members, 7, SEQUENCE), _PREFIX + b"\x07") if 7 in members else {}
        return PCKExtension(
            ppid=_octets(members, 1, 16),
            components=tuple(_integer(tcb, number, 0xFF) for number in range(1, 17)),
            pce_svn=_integer(tcb, 17, 0xFFFF),
            cpu_svn=_octets(tcb, 18, 16),
            pceid=_octets(members, 3, 2),
            fmspc=_octets(members, 4, 6),
            sgx_type=_enumerated(members, 5),
            platform_instance_id=_octets(members, 6, 16) if 6 in members else None,
            dynamic_platform=_flag(flags, 1),
            cached_keys=_flag(flags, 2),
            smt_enabled=_flag(flags, 3),
        )
    except (DERError, ValueError) as error:
        raise MalformedError(
            f"the SGX extension of the PCK certificate is malformed: {error}", code="pck.extension"
        ) from error


def _members(content: bytes, prefix: bytes) -> dict[int, Element]:
    """Member number -> value, of a sequence of (OID below ``prefix``, value) pairs."""
    members: dict[int, Element] = {}
    begin = bytes((OBJECT_IDENTIFIER, len(prefix) + 1)) + prefix
    at = len(begin)
    for pair in children(content):
        if pair.tag != SEQUENCE:
            raise DERError("a member is not a pair of identifier and value")
        if not pair.content.startswith(begin) or len(pair.content) == at:
            # Another identifier: still a pair, or the extension is not DER of what it claims to be.
            both = children(pair.content)
            if len(both) != 2 or both[0].tag != OBJECT_IDENTIFIER:
                raise DERError("a member is not a pair of identifier and value")
            continue
        values = children(pair.content[at + 1 :])
        if len(values) != 1:
            raise DERError("a member is not a pair of identifier and value")
        number = pair.content[at]
        if number in members:
            raise DERError(f"member {number} stands twice")
        members[number] = values[0]
    return members


def _content(members: dict[int, Element], number: int, tag: int) -> bytes:
    element = members.get(number)
    if element is None or element.tag != tag:
        raise DERError(f"member {number} is absent or of another type")
    return element.content


def _octets(members: dict[int, Element], number: int, size: int) -> bytes:
    content = _content(members, number, OCTET_STRING)
    if len(content) != size:
        raise DERError(f"member {number} has {len(content)} bytes, not {size}")
    return content


def _integer(members: dict[int, Element], number: int, maximum: int) -> int:
    value = unsigned_integer(_content(members, number, INTEGER))
    if value > maximum:
        raise DERError(f"member {number} is beyond {maximum}")
    return value


def _enumerated(members: dict[int, Element], number: int) -> int:
    value = unsigned_integer(_content(members, number, ENUMERATED))
    if value > 2:
        raise DERError(f"member {number} is no known SGX type")
    return value


def _flag(members: dict[int, Element], number: int) -> bool | None:
    if number not in members:
        return None
    content = _content(members, number, BOOLEAN)
    if content not in _FLAGS.values():
        raise DERError(f"member {number} is no DER boolean")
    return content == _FLAGS[True]
