"""A timestamp authority (RFC 3161; CMS, RFC 5652; ESSCertIDv2, RFC 5035), its tokens made by hand.

The first token over a checkpoint stamps the text of its note; a renewal stamps ``affiant/anchor-renewal/1``, a newline,
and SHA-512 of the text and of each earlier response.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from vectors.making import der
from vectors.making.authority import DAY, certificate, pem
from vectors.making.documents import START
from vectors.making.keys import p256_key, sign_der

__all__ = ["CODE_SIGNING", "STAMPED", "TIMESTAMPING", "message", "response", "root_pem"]

STAMPED = START + 900
"""When the authority stamps, if a case does not say otherwise."""
TIMESTAMPING = "1.3.6.1.5.5.7.3.8"
CODE_SIGNING = "1.3.6.1.5.5.7.3.3"
POLICY = "1.3.6.1.4.1.99999.7"
_BEGINS = START - 300 * DAY
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"
_SHA256 = der.sequence(der.oid("2.16.840.1.101.3.4.2.1"))
_ECDSA_SHA256 = der.sequence(der.oid("1.2.840.10045.4.3.2"))
_ROOT_NAME = "affiant SIMULATED timestamp root"
_NAME = "affiant SIMULATED timestamp authority"


def root_pem(label: str = "authority") -> str:
    """The root of the authority ``label``."""
    key = p256_key(f"timestamp root {label}")
    made = certificate(
        _ROOT_NAME, key, issuer=_ROOT_NAME, issuer_key=key, begins=_BEGINS, years=30, path_length=0
    )
    return pem(made).decode("ascii")


def _signers_certificate(label: str, purpose: str, ends: int | None) -> bytes:
    return certificate(
        _NAME,
        p256_key(f"timestamp signer {label}"),
        issuer=_ROOT_NAME,
        issuer_key=p256_key(f"timestamp root {label}"),
        begins=_BEGINS,
        years=15,
        purpose=purpose,
        ends=ends,
    )


def message(text: str, before: Sequence[bytes] = ()) -> bytes:
    """What the next token over the checkpoint ``text`` stamps."""
    body = text.encode()
    if not before:
        return body
    digests = [hashlib.sha512(each).digest() for each in (body, *before)]
    return b"affiant/anchor-renewal/1\n" + b"".join(digests)


def response(
    stamped: bytes,
    at: int = STAMPED,
    *,
    label: str = "authority",
    purpose: str = TIMESTAMPING,
    ends: int | None = None,
    names_itself: bool = True,
) -> bytes:
    """A granted response over ``stamped``, at second ``at``, accurate to a second.

    Args:
        ends: when the signer's certificate ends.
        names_itself: whether the signed attributes name the signer's certificate, or another.
    """
    own = _signers_certificate(label, purpose, ends)
    imprint = der.sequence(_SHA256, der.octets(hashlib.sha256(stamped).digest()))
    info = der.sequence(
        der.integer(1),
        der.oid(POLICY),
        imprint,
        der.integer(at),
        der.generalized_time(at),
        der.sequence(der.integer(1)),
    )
    named = hashlib.sha256(own if names_itself else b"another").digest()
    attributes = (
        der.sequence(der.oid(_CONTENT_TYPE), der.set_of(der.oid(_TST_INFO))),
        der.sequence(der.oid(_MESSAGE_DIGEST), der.set_of(der.octets(hashlib.sha256(info).digest()))),
        der.sequence(
            der.oid(_SIGNING_CERTIFICATE_V2),
            der.set_of(der.sequence(der.sequence(der.sequence(der.octets(named))))),
        ),
    )
    key = p256_key(f"timestamp signer {label}")
    signer = der.sequence(
        der.integer(1),
        der.sequence(*_issuer_and_serial(own)),
        _SHA256,
        der.implicit_set(0, *attributes),
        _ECDSA_SHA256,
        der.octets(sign_der(key, der.sorted_set(*attributes))),
    )
    signed = der.sequence(
        der.integer(3),
        der.set_of(_SHA256),
        der.sequence(der.oid(_TST_INFO), der.explicit(0, der.octets(info))),
        der.implicit_set(0, own),
        der.set_of(signer),
    )
    token = der.sequence(der.oid(_SIGNED_DATA), der.explicit(0, signed))
    return der.sequence(der.sequence(der.integer(0)), token)


def _issuer_and_serial(certificate_: bytes) -> tuple[bytes, bytes]:
    """Of a certificate that was made here: the members are found by what they follow."""
    tbs = _members(_members(certificate_)[0])
    return tbs[3], tbs[1]


def _members(element: bytes) -> list[bytes]:
    """The elements inside of one SEQUENCE."""
    content, found = _content(element), []
    while content:
        size = len(_first_of(content))
        found.append(content[:size])
        content = content[size:]
    return found


def _first_of(data: bytes) -> bytes:
    """The first whole element of ``data``, which has lengths of at most four bytes."""
    if data[1] < 0x80:
        return data[: 2 + data[1]]
    count = data[1] & 0x7F
    return data[: 2 + count + int.from_bytes(data[2 : 2 + count], "big")]


def _content(element: bytes) -> bytes:
    return element[2:] if element[1] < 0x80 else element[2 + (element[1] & 0x7F) :]
