"""Records and their signers: what a story is made of, and how a record is put on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from vectors.making.encoding import b64u, canonical, link
from vectors.making.keys import seeded, sign_es256

__all__ = ["Members", "Party", "Record", "Session", "compact", "disclosure", "fixed_header"]

Members = dict[str, Any]


@dataclass
class Record:
    """One signed record."""

    step: str
    party: Party
    payload: Members
    jws: str
    disclosures: list[str]
    withheld: bool = False
    """Signed and logged, and left out of the bundle."""

    @property
    def rh(self) -> str:
        """The receipt hash."""
        return link(self.jws.encode("utf-8", "surrogatepass"))

    @property
    def head(self) -> Members:
        """``{chn, seq, rh}``."""
        return {"chn": self.payload["chn"], "seq": self.payload["seq"], "rh": self.rh}

    @property
    def text(self) -> str:
        """The SD-JWT."""
        return "~".join([self.jws, *self.disclosures, ""])


@dataclass
class Party:
    """A signer."""

    label: str
    role: str
    key: ec.EllipticCurvePrivateKey
    statement: Members
    raw: bytes
    evidence: bytes
    records: list[Record] = field(default_factory=list)
    earlier: list[bytes] = field(default_factory=list)
    """Evidence of before, where there was a narrowing."""
    next_seq: int | None = None

    @property
    def keyset_digest(self) -> str:
        """SHA-256 of the statement without its nonce."""
        return link(canonical({name: item for name, item in self.statement.items() if name != "nonce"}))

    @property
    def evd(self) -> str:
        """SHA-256 of the evidence."""
        return link(self.evidence)


@dataclass
class Session:
    """One session, as the gateway and its supervisor know it."""

    label: str
    id: str
    supervisor: Party
    manifest: Members
    manifest_raw: bytes
    activation: Members
    activation_raw: bytes
    ear: str
    numbered: int = 0
    gateway_records: list[Record] = field(default_factory=list)
    epoch: int = 0
    """How often the profile was narrowed."""
    profile: Members | None = None
    """``dig`` and ``fil`` of the narrowed profile."""
    replaced: str = ""
    """Digest of the profile before the last narrowing."""
    later: list[Members] = field(default_factory=list)
    """The events after the barrier."""


def compact(key: ec.EllipticCurvePrivateKey, header: bytes, payload: bytes) -> str:
    """A compact JWS over exactly these bytes."""
    signing_input = f"{b64u(header)}.{b64u(payload)}"
    return f"{signing_input}.{b64u(sign_es256(key, signing_input.encode('ascii')))}"


def fixed_header(typ: str, kid: str) -> bytes:
    """The header, byte for byte."""
    return canonical({"alg": "ES256", "kid": kid, "typ": typ})


def disclosure(salt_label: str, name: str, value: Any) -> str:
    """Base64url of the canonical ``[salt, name, value]``."""
    return b64u(canonical([b64u(seeded(salt_label, 16)), name, value]))
