"""Takes an authority's response apart before any library sees it: RFC 3161, section 2.4.2; CMS, RFC 5652.

::

    TimeStampResp ::= SEQUENCE { status PKIStatusInfo, timeStampToken ContentInfo OPTIONAL }

Nothing here is believed. What is refused here is refused in the library's stead: lengths that are not minimal, more
than one signer, two certificates that could each be the signer's, a digest that is out of use. The signer's certificate
must be the one that the *signed* attributes name (ESSCertID, RFC 5035): nothing else that is signed does.

Certificates be in a SET, which CMS does not sign and which many authorities leave unsorted; the library reads sorted
sets alone, so that they are sorted for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding.der import (
    INTEGER,
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    DERError,
    Element,
    children,
    read_element,
    read_single,
    unsigned_integer,
)
from affiant.attestation.signatures.timestamps.der_writing import object_identifier, sequence, tagged
from affiant.errors import MalformedError, NotAllowedError, NotAuthenticError

__all__ = ["MAX_RESPONSE", "MAX_TOKENS", "SignedResponse", "parse_response", "split_responses"]

MAX_TOKENS: Final = 64
"""Tokens over one checkpoint: one a year for a lifetime."""
MAX_RESPONSE: Final = 64 << 10
"""Bytes of a response; with a chain of RSA certificates it has some 7,000."""

_SET: Final = 0x31
_FIRST, _SECOND = 0xA0, 0xA1
_SIGNED_DATA: Final = object_identifier("1.2.840.113549.1.7.2")
_TST_INFO: Final = object_identifier("1.2.840.113549.1.9.16.1.4")
_ESS_V1: Final = object_identifier("1.2.840.113549.1.9.16.2.12")
_ESS_V2: Final = object_identifier("1.2.840.113549.1.9.16.2.47")
_DIGESTS: Final[Mapping[bytes, str]] = {
    object_identifier("2.16.840.1.101.3.4.2.1"): "sha256",
    object_identifier("2.16.840.1.101.3.4.2.2"): "sha384",
    object_identifier("2.16.840.1.101.3.4.2.3"): "sha512",
}
"""What the signer may have hashed with (RFC 5754, section 2); SHA-1 is out of use."""
_FAILURES: Final[Mapping[int, str]] = {
    0: "badAlg: the authority does not take this hash function",
    2: "badRequest",
    5: "badDataFormat",
    14: "timeNotAvailable: its time source is not available",
    15: "unacceptedPolicy",
    16: "unacceptedExtension",
    17: "addInfoNotAvailable",
    25: "systemFailure",
}
"""PKIFailureInfo, by its bit (RFC 3161, section 2.4.2)."""
_GRANTED: Final = 0


@dataclass(frozen=True, slots=True)
class SignedResponse:
    """A response with a token; nothing of it is verified.

    Args:
        certificate: the signer's, DER: the one that the signed attributes name.
        sorted_bytes: the response with its certificates sorted, for the library.
    """

    certificate: bytes
    sorted_bytes: bytes = field(repr=False)


def split_responses(data: bytes) -> tuple[bytes, ...]:
    """Responses that stand one after the other, as a file ``<size>.tsr`` has them: the first, then its renewals.

    Raises:
        ``anchor.token``: they do not follow one another.
    """
    found, offset = [], 0
    try:
        while offset < len(data):
            element, offset = read_element(data, offset)
            found.append(element.encoded)
    except DERError as error:
        raise MalformedError(
            "responses that do not follow one another", found=str(error)[:80], code="anchor.token"
        ) from error
    return tuple(found)


def parse_response(data: bytes) -> SignedResponse:
    """Take ``data`` apart: one response, granted, with one token by one signer.

    Raises:
        ``anchor.refused``: the authority says no.
        ``anchor.purpose``: the signer's certificate is not there, or is not the one that was signed for.
        ``anchor.token``: another form.
    """
    if len(data) > MAX_RESPONSE:
        raise MalformedError(
            "a response is too large",
            expected=f"at most {MAX_RESPONSE} bytes",
            found=len(data),
            code="anchor.token",
        )
    try:
        status, *token = children(read_single(data, SEQUENCE))
        _demand_granted(status)
        if len(token) != 1:
            raise MalformedError(
                "a response without exactly one token", found=len(token), code="anchor.token"
            )
        return _signed(status, token[0])
    except (DERError, ValueError, IndexError) as error:
        raise MalformedError(
            "not a timestamp response in DER (RFC 3161)", found=str(error)[:80], code="anchor.token"
        ) from error


def _demand_granted(status: Element) -> None:
    code, *more = children(_content(status, SEQUENCE))
    value = unsigned_integer(_content(code, INTEGER))
    if value == _GRANTED:
        return
    reasons = [text for each in more for text in _reasons(each)]
    raise NotAllowedError(
        "the timestamp authority refuses",
        expected="PKIStatus 0, granted",
        found=f"PKIStatus {value}" + "".join(f", {reason}" for reason in reasons)[:300],
        code="anchor.refused",
    )


def _reasons(element: Element) -> Iterator[str]:
    """What an error says of itself: the authority's text, then the bits that are set."""
    if element.tag == SEQUENCE:
        for text in children(element.content):
            said = text.content.decode("utf-8", "replace")
            yield repr("".join(char if char.isprintable() else " " for char in said[:160]))
    elif element.tag == 0x03:
        for number, byte in enumerate(element.content[1:]):
            for bit in range(8):
                if byte & (0x80 >> bit):
                    name = 8 * number + bit
                    yield _FAILURES.get(name, f"failure {name}")


def _signed(status: Element, token: Element) -> SignedResponse:
    kind, wrapped = children(_content(token, SEQUENCE))
    if kind.encoded != _SIGNED_DATA:
        raise MalformedError("a token that is no signed data", code="anchor.token")
    version, digests, content, *rest = children(read_single(_content(wrapped, _FIRST), SEQUENCE))
    if children(_content(content, SEQUENCE))[0].encoded != _TST_INFO:
        raise MalformedError("what is signed is no timestamp", code="anchor.token")
    certificates = [each for each in rest if each.tag == _FIRST]
    others = [each for each in rest if each.tag not in (_FIRST, _SET)]
    signers = [each for each in rest if each.tag == _SET]
    if len(certificates) != 1 or len(signers) != 1 or others:
        raise MalformedError(
            "a token of another form",
            expected="certificates and signers, and no revocation lists",
            code="anchor.token",
        )
    chain = [each.encoded for each in children(certificates[0].content)]
    (signer,) = children(signers[0].content)
    leaf = _signers_certificate(_content(signer, SEQUENCE), chain)
    ordered = tagged(_FIRST, b"".join(sorted(chain)))
    parts = (version.encoded, digests.encoded, content.encoded, ordered, signers[0].encoded)
    data = sequence(kind.encoded, tagged(_FIRST, sequence(*parts)))
    return SignedResponse(leaf, sequence(status.encoded, data))


def _signers_certificate(signer: bytes, chain: Sequence[bytes]) -> bytes:
    _, sid, algorithm, attributes, *_ = children(signer)
    digest = children(_content(algorithm, SEQUENCE))[0].encoded
    if digest not in _DIGESTS:
        raise MalformedError(
            "signed with a hash function that is out of use",
            expected="SHA-256, -384 or -512",
            code="anchor.token",
        )
    issuer, serial = children(_content(sid, SEQUENCE))
    found = [each for each in chain if _issuer_and_serial(each) == (issuer.encoded, serial.encoded)]
    if len(found) != 1:
        raise NotAuthenticError(
            "not exactly one certificate is the signer's",
            found=len(found),
            hint="Ask for a token with its certificates (certReq).",
            code="anchor.purpose",
        )
    if not any(_names(named, found[0]) for named in _attributes(_content(attributes, _FIRST))):
        raise NotAuthenticError(
            "the signed attributes name another certificate (ESSCertID, RFC 5035)", code="anchor.purpose"
        )
    return found[0]


def _issuer_and_serial(certificate: bytes) -> tuple[bytes, bytes]:
    members = children(children(read_single(certificate, SEQUENCE))[0].content)
    if members[0].tag == _FIRST:  # version
        members = members[1:]
    return members[2].encoded, members[0].encoded


def _attributes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and the only value of each attribute that has one value."""
    for each in children(content):
        kind, values = children(_content(each, SEQUENCE))
        only = children(_content(values, _SET))
        if kind.tag == OBJECT_IDENTIFIER and len(only) == 1:
            yield kind.encoded, only[0].encoded


def _names(attribute: tuple[bytes, bytes], certificate: bytes) -> bool:
    """Whether it is a signing-certificate attribute whose first certificate is ``certificate``."""
    kind, value = attribute
    if kind not in (_ESS_V1, _ESS_V2):
        return False
    first = children(children(read_single(value, SEQUENCE))[0].content)[0]
    members = children(_content(first, SEQUENCE))
    name = "sha1" if kind == _ESS_V1 else "sha256"  # the default of ESSCertIDv2
    if kind == _ESS_V2 and members[0].tag == SEQUENCE:
        name = _DIGESTS.get(children(members[0].content)[0].encoded, "")
        members = members[1:]
    if not name:
        return False
    # SHA-1 here chooses among certificates whose chain is verified anyway; it protects nothing alone.
    wanted = hashlib.new(name, certificate, usedforsecurity=False).digest()
    return members[0].tag == OCTET_STRING and members[0].content == wanted


def _content(element: Element, tag: int) -> bytes:
    if element.tag != tag:
        raise DERError(f"expected tag 0x{tag:02x}, found 0x{element.tag:02x}")
    return element.content
