"""A throw-away certificate authority in the shape of Intel's, and its revocation lists.

Source: Intel SGX PCK Certificate and CRL Profile Specification 1.5; RFC 5280. Common names are the profile's,
because verifiers tell roles apart by them; organisation and unit say SIMULATED.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec

from vectors.making import der
from vectors.making.keys import point, sign_der

__all__ = ["DAY", "Machine", "certificate", "crl", "pem", "serial_of", "spki"]

DAY = 86400
_ECDSA_SHA256 = der.sequence(der.oid("1.2.840.10045.4.3.2"))
_P256 = der.sequence(der.oid("1.2.840.10045.2.1"), der.oid("1.2.840.10045.3.1.7"))
_SGX = "1.2.840.113741.1.13.1"


@dataclass(frozen=True)
class Machine:
    """What the PCK certificate says of its platform: no processor's values."""

    fmspc: bytes = b"VECTOR"
    pce_id: bytes = bytes(2)
    components: tuple[int, ...] = (3, 3, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0)
    pce_svn: int = 13
    ppid: bytes = field(default=b"SIMULATED-VECTOR")

    def extension(self) -> bytes:
        """The SGX extension (profile, section 1.3.5): members .1 to .7."""
        tcb = [self._member(f"2.{n}", der.integer(svn)) for n, svn in enumerate(self.components, 1)]
        tcb.append(self._member("2.17", der.integer(self.pce_svn)))
        tcb.append(self._member("2.18", der.octets(bytes(self.components))))
        flags = [self._member(f"7.{n}", der.boolean(True)) for n in (1, 2, 3)]  # noqa: FBT003
        return der.sequence(
            self._member("1", der.octets(self.ppid)),
            self._member("2", der.sequence(*tcb)),
            self._member("3", der.octets(self.pce_id)),
            self._member("4", der.octets(self.fmspc)),
            self._member("5", der.enumerated(1)),
            self._member("6", der.octets(self.ppid)),
            self._member("7", der.sequence(*flags)),
        )

    @staticmethod
    def _member(arc: str, value: bytes) -> bytes:
        return der.sequence(der.oid(f"{_SGX}.{arc}"), value)


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    """SubjectPublicKeyInfo, 91 bytes."""
    return der.sequence(_P256, der.bit_string(b"\x04" + point(key)))


def serial_of(key: ec.EllipticCurvePrivateKey) -> int:
    """A positive number of at most 159 bits that follows from the key."""
    return int.from_bytes(_key_identifier(key), "big") >> 1 | 1


def _key_identifier(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha1(b"\x04" + point(key), usedforsecurity=False).digest()


def _subject(common_name: str) -> bytes:
    return der.name(cn=common_name, o="affiant SIMULATED vectors", ou="SIMULATED, NOT INTEL HARDWARE")


def _extension(dotted: str, value: bytes, *, critical: bool = False) -> bytes:
    mark = (der.boolean(True),) if critical else ()  # noqa: FBT003
    return der.sequence(der.oid(dotted), *mark, der.octets(value))


def certificate(
    common_name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    begins: int,
    years: int,
    path_length: int | None = None,
    machine: Machine | None = None,
    purpose: str | None = None,
    ends: int | None = None,
    list_at: str | None = None,
) -> bytes:
    """One certificate, DER.

    Args:
        path_length: of an authority; None: an end entity.
        machine: of a PCK certificate.
        purpose: the one extended key usage, critical; None: none.
        ends: instead of so many years after it begins.
        list_at: address of the list on which it would stand if it were revoked; None: it names none.
    """
    authority = path_length is not None
    usage = der.bit_string(b"\x06", 1) if authority else der.bit_string(b"\xc0", 6)
    basic = (
        der.sequence(der.boolean(True), der.integer(path_length))  # noqa: FBT003
        if path_length is not None
        else der.sequence()
    )
    issued_by = der.sequence(b"\x80\x14" + _key_identifier(issuer_key))
    extensions = [
        _extension("2.5.29.35", issued_by),
        *(() if list_at is None else (_extension("2.5.29.31", _distribution_point(list_at)),)),
        _extension("2.5.29.14", der.octets(_key_identifier(key))),
        _extension("2.5.29.15", usage, critical=True),
        _extension("2.5.29.19", basic, critical=True),
    ]
    if machine is not None:
        extensions.append(_extension(_SGX, machine.extension()))
    if purpose is not None:
        extensions.append(_extension("2.5.29.37", der.sequence(der.oid(purpose)), critical=True))
    last = begins + 365 * DAY * years if ends is None else ends
    tbs = der.sequence(
        der.explicit(0, der.integer(2)),
        der.integer(serial_of(key)),
        _ECDSA_SHA256,
        _subject(issuer),
        der.sequence(der.utc_time(begins), der.utc_time(last)),
        _subject(common_name),
        spki(key),
        der.explicit(3, der.sequence(*extensions)),
    )
    return der.sequence(tbs, _ECDSA_SHA256, der.bit_string(sign_der(issuer_key, tbs)))


def _distribution_point(address: str) -> bytes:
    """CRLDistributionPoints of one address (RFC 5280, section 4.2.1.13)."""
    uri = der.implicit(6, address.encode("ascii"))
    return der.sequence(der.sequence(der.explicit(0, der.explicit(0, uri))))


def crl(
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    issued: int,
    until: int,
    revoked: tuple[int, ...] = (),
    signed_by: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """A complete revocation list (RFC 5280, section 5), DER; ``revoked``: serial numbers."""
    reason = der.sequence(_extension("2.5.29.21", der.enumerated(1)))
    entries = [der.sequence(der.integer(serial), der.utc_time(issued), reason) for serial in revoked]
    issued_by = der.sequence(b"\x80\x14" + _key_identifier(issuer_key))
    tbs = der.sequence(
        der.integer(1),
        _ECDSA_SHA256,
        _subject(issuer),
        der.utc_time(issued),
        der.utc_time(until),
        *((der.sequence(*entries),) if entries else ()),
        der.explicit(
            0,
            der.sequence(_extension("2.5.29.20", der.integer(issued)), _extension("2.5.29.35", issued_by)),
        ),
    )
    return der.sequence(tbs, _ECDSA_SHA256, der.bit_string(sign_der(signed_by or issuer_key, tbs)))


def pem(*certificates: bytes) -> bytes:
    """PEM blocks, leaf first."""
    blocks = []
    for each in certificates:
        text = base64.b64encode(each).decode("ascii")
        lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
        blocks.append(f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
    return "".join(blocks).encode("ascii")
