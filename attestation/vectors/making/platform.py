"""A simulated TDX platform: quotes v4, and the collateral that they are judged with. SIMULATED; its root is nobody's.

Source: Intel TDX DCAP Quoting Library API, quote v4; Intel PCS API v4 (TCB Info v3, QE Identity v2). What a case
makes wrong is a field here, and is signed with the rest.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from vectors.making.authority import DAY, Machine, certificate, crl, pem, serial_of, spki
from vectors.making.encoding import b64u, canonical, sha256_name
from vectors.making.keys import p256_key, point, raw_signature

__all__ = ["CREATED", "MRTD", "Body", "Platform", "instant", "replay"]

CREATED = 1795132800
"""2026-11-20T00:00:00Z."""
MRTD = hashlib.sha384(b"affiant vectors: SIMULATED firmware").digest()
_ROOT, _CA, _PCK, _TCB = (
    "Intel SGX Root CA",
    "Intel SGX PCK Platform CA",
    "Intel SGX PCK Certificate",
    "Intel SGX TCB Signing",
)
_LISTS_AT = "https://simulated-pcs.affiant.invalid"
_ROOT_LIST = f"{_LISTS_AT}/IntelSGXRootCA.der"
_PCK_LIST = f"{_LISTS_AT}/sgx/certification/v4/pckcrl?ca=platform&encoding=der"
_QE_SIGNER = hashlib.sha256(b"affiant vectors: SIMULATED quoting enclave signer").digest()
_QE_AUTH = b"affiant vectors, SIMULATED QE..."


def instant(seconds: int) -> str:
    """RFC 3339, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def replay(events: list[dict[str, Any]], rtmr: int) -> bytes:
    """What a register holds after these events: R = SHA-384(R || SHA-384(preimage)), from 48 zero bytes."""
    register = bytes(48)
    for event in events:
        if event["rtmr"] == rtmr:
            preimage = {"name": event["name"], "payload": event["payload"], "typ": "affiant-event/1"}
            register = hashlib.sha384(register + hashlib.sha384(canonical(preimage)).digest()).digest()
    return register


@dataclass
class Body:
    """TD report body 1.0, 584 bytes."""

    mrconfigid: bytes
    rtmrs: list[bytes]
    report_data: bytes
    mrtd: bytes = MRTD
    tee_tcb_svn: bytes = bytes((5, 1, 3)) + bytes(13)
    mrseam: bytes = b"affiant vectors: SIMULATED module, no hardware!!"
    mrsignerseam: bytes = bytes(48)
    seam_attributes: bytes = bytes(8)
    td_attributes: bytes = bytes.fromhex("0000001000000000")
    xfam: bytes = bytes.fromhex("e702060000000000")
    mrowner: bytes = bytes(48)
    mrownerconfig: bytes = bytes(48)

    def to_bytes(self) -> bytes:
        """In the order of the report."""
        return b"".join(
            (
                self.tee_tcb_svn,
                self.mrseam,
                self.mrsignerseam,
                self.seam_attributes,
                self.td_attributes,
                self.xfam,
                self.mrtd,
                self.mrconfigid,
                self.mrowner,
                self.mrownerconfig,
                *self.rtmrs,
                self.report_data,
            )
        )


@dataclass(frozen=True)
class Platform:
    """One platform. The fields after ``machine`` are what a case may make wrong."""

    label: str = "platform"
    machine: Machine = field(default_factory=Machine)
    version: int = 4
    tee_type: int = 0x81
    qe_report_data: bytes | None = None
    qe_attributes: bytes = bytes((0x11,)) + bytes(15)
    qe_mrsigner: bytes = _QE_SIGNER
    qe_signed_by: str = "pck"
    quote_signed_by: str = "attestation"
    pck_issued_by: str = "ca"
    tcb_status: str = "UpToDate"
    tcb_fmspc: bytes | None = None
    level_pce_svn: int | None = None
    level_components: tuple[int, ...] | None = None
    """What the highest TCB level takes; None: what the machine has."""
    tcb_signed_by: str = "tcb"
    tcb_forged: bool = False
    """The text of TCB Info is changed after it was signed."""
    tcb_next_update: int = CREATED + 30 * DAY
    evaluation_number: int = 1
    module_id: str = "TDX_01"
    revoked: tuple[str, ...] = ()
    crl_until: int = CREATED + 30 * DAY
    root_crl_signed_by: str = "root"
    pck_crl_of: str = "ca"

    def key(self, role: str) -> ec.EllipticCurvePrivateKey:
        """The key of ``root``, ``ca``, ``pck``, ``tcb``, ``attestation``, or of a stranger."""
        return p256_key(f"{self.label} {role}")

    @property
    def root_name(self) -> str:
        """``sha256:`` name of the root key, as trust files have it."""
        return sha256_name(spki(self.key("root")))

    # -- certificates ------------------------------------------------------------------------------------------

    @cache  # noqa: B019 - a platform is a value, and there are some fifty
    def _certificate(self, role: str) -> bytes:
        key, root = self.key(role), self.key("root")
        match role:
            case "root":
                return certificate(
                    _ROOT,
                    root,
                    issuer=_ROOT,
                    issuer_key=root,
                    begins=CREATED,
                    years=31,
                    path_length=1,
                    list_at=_ROOT_LIST,
                )
            case "ca":
                return certificate(
                    _CA,
                    key,
                    issuer=_ROOT,
                    issuer_key=root,
                    begins=CREATED,
                    years=15,
                    path_length=0,
                    list_at=_ROOT_LIST,
                )
            case "pck":
                issuer_key = self.key(self.pck_issued_by)
                return certificate(
                    _PCK,
                    key,
                    issuer=_CA,
                    issuer_key=issuer_key,
                    begins=CREATED,
                    years=7,
                    machine=self.machine,
                    list_at=_PCK_LIST,
                )
            case _:
                return certificate(
                    _TCB, key, issuer=_ROOT, issuer_key=root, begins=CREATED, years=7, list_at=_ROOT_LIST
                )

    def _chain(self, *roles: str) -> bytes:
        return pem(*(self._certificate(role) for role in roles))

    # -- quotes ------------------------------------------------------------------------------------------------

    def quote(self, body: Body) -> bytes:
        """A quote v4 over ``body``."""
        user = b"affiant vectors: SIM"
        vendor = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
        header = struct.pack("<HHIHH16s20s", self.version, 2, self.tee_type, 0, 0, vendor, user)
        signed = header + body.to_bytes()
        attestation = self.key("attestation")
        report = self._qe_report(point(attestation))
        chain = self._chain("pck", "ca", "root")
        certification = b"".join(
            (
                report,
                raw_signature(self.key(self.qe_signed_by), report),
                struct.pack("<H", len(_QE_AUTH)),
                _QE_AUTH,
                struct.pack("<HI", 5, len(chain)),
                chain,
            )
        )
        auth = b"".join(
            (
                raw_signature(self.key(self.quote_signed_by), signed),
                point(attestation),
                struct.pack("<HI", 6, len(certification)),
                certification,
            )
        )
        return signed + struct.pack("<I", len(auth)) + auth

    def _qe_report(self, attestation: bytes) -> bytes:
        """SGX report body, 384 bytes."""
        binding = hashlib.sha256(attestation + _QE_AUTH).digest() + bytes(32)
        return b"".join(
            (
                bytes(self.machine.components),
                bytes(4 + 28),
                self.qe_attributes,
                hashlib.sha256(b"affiant vectors: SIMULATED quoting enclave").digest(),
                bytes(32),
                self.qe_mrsigner,
                bytes(96),
                struct.pack("<HH", 2, 6),
                bytes(60),
                binding if self.qe_report_data is None else self.qe_report_data,
            )
        )

    # -- collateral --------------------------------------------------------------------------------------------

    @cache  # noqa: B019 - as above
    def collateral(self) -> bytes:
        """``affiant-dcap-collateral/1``: seven items, each base64url of its exact bytes."""
        items = {
            "tcb_info": self._tcb_info(),
            "tcb_info_issuer_chain": self._tcb_chain(),
            "qe_identity": self._signed("enclaveIdentity", self._qe_identity(), self.key("tcb")),
            "qe_identity_issuer_chain": self._chain("tcb", "root"),
            "root_ca_crl": crl(
                _ROOT,
                self.key("root"),
                issued=CREATED,
                until=CREATED + 365 * DAY,
                revoked=self._revoked("ca", "tcb"),
                signed_by=self.key(self.root_crl_signed_by),
            ),
            "pck_crl": crl(
                _CA if self.pck_crl_of == "ca" else "Intel SGX PCK Processor CA",
                self.key(self.pck_crl_of),
                issued=CREATED,
                until=self.crl_until,
                revoked=self._revoked("pck"),
            ),
            "pck_crl_issuer_chain": self._chain("ca", "root"),
        }
        members = {name: b64u(data) for name, data in items.items()}
        return canonical({**members, "typ": "affiant-dcap-collateral/1"})

    def _revoked(self, *roles: str) -> tuple[int, ...]:
        return tuple(serial_of(self.key(role)) for role in roles if role in self.revoked)

    def _tcb_chain(self) -> bytes:
        """The signer's own: a PCK key that signs TCB Info shows its PCK chain."""
        roles = ("pck", "ca", "root") if self.tcb_signed_by == "pck" else ("tcb", "root")
        return self._chain(*roles)

    def _tcb_info(self) -> bytes:
        body = self._signed("tcbInfo", self._tcb_members(), self.key(self.tcb_signed_by))
        return body.replace(b'"pcesvn":13', b'"pcesvn":12') if self.tcb_forged else body

    def _tcb_members(self) -> Mapping[str, Any]:
        date = "2026-01-01T00:00:00Z"
        zero, mask = "00" * 8, "FF" * 8

        def level(status: str, components: tuple[int, ...], pce: int, tdx: bytes) -> dict[str, Any]:
            tcb = {
                "sgxtcbcomponents": [{"svn": svn} for svn in components],
                "pcesvn": pce,
                "tdxtcbcomponents": [{"svn": svn} for svn in tdx],
            }
            return {"tcb": tcb, "tcbDate": date, "tcbStatus": status}

        modules = [
            {"tcb": {"isvsvn": 5}, "tcbDate": date, "tcbStatus": "UpToDate"},
            {"tcb": {"isvsvn": 0}, "tcbDate": date, "tcbStatus": "OutOfDate"},
        ]
        signer = {"mrsigner": "00" * 48, "attributes": zero, "attributesMask": mask}
        return {
            "id": "TDX",
            "version": 3,
            "issueDate": instant(CREATED),
            "nextUpdate": instant(self.tcb_next_update),
            "fmspc": (self.tcb_fmspc or self.machine.fmspc).hex(),
            "pceId": self.machine.pce_id.hex(),
            "tcbType": 0,
            "tcbEvaluationDataNumber": self.evaluation_number,
            "tdxModule": signer,
            "tdxModuleIdentities": [{"id": self.module_id, **signer, "tcbLevels": modules}],
            "tcbLevels": [
                level(
                    self.tcb_status,
                    self.level_components or self.machine.components,
                    self.level_pce_svn or self.machine.pce_svn,
                    bytes((5, 1, 3)) + bytes(13),
                ),
                level("OutOfDate", (0,) * 16, 0, bytes(16)),
            ],
        }

    def _qe_identity(self) -> Mapping[str, Any]:
        return {
            "id": "TD_QE",
            "version": 2,
            "issueDate": instant(CREATED),
            "nextUpdate": instant(CREATED + 30 * DAY),
            "tcbEvaluationDataNumber": 1,
            "miscselect": "00000000",
            "miscselectMask": "FFFFFFFF",
            "attributes": "11" + "00" * 15,
            "attributesMask": "FB" + "FF" * 7 + "00" * 8,
            "mrsigner": _QE_SIGNER.hex(),
            "isvprodid": 2,
            "tcbLevels": [{"tcb": {"isvsvn": 6}, "tcbDate": "2026-01-01T00:00:00Z", "tcbStatus": "UpToDate"}],
        }

    @staticmethod
    def _signed(member: str, content: Mapping[str, Any], key: ec.EllipticCurvePrivateKey) -> bytes:
        """The body as the service sends it; the signature covers the inner text exactly."""
        text = json.dumps(content, separators=(",", ":")).encode("ascii")
        signature = raw_signature(key, text).hex().encode()
        return b'{"%s":%s,"signature":"%s"}' % (member.encode(), text, signature)
