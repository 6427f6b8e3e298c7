"""Signs and verifies proofs of possession: a supervisor's signature, or MAC, over one request (``Affiant-Proof``,
after RFC 9449).

A proof is a compact JWS of type ``affiant-proof+jwt`` by the session key over exactly what the request says:

| member | meaning |
|---|---|
| ``htm`` | method |
| ``htu`` | origin-form target exactly as in the request line, query included |
| ``bdg`` | 43 characters: SHA-256 of the body; of nothing if there is none |
| ``cty`` | the raw ``Content-Type`` value; absent if there is none |
| ``hdr`` | name in lower case -> raw value of each of :data:`FORWARDED_HEADERS` that is there; absent if none is |
| ``non`` | the ``Affiant-Nonce`` value; absent if there is none |
| ``ses`` | session id |
| ``cseq`` | the supervisor's counter, from 0, over inference and tool-gate requests only; absent elsewhere |
| ``iat`` | seconds since 1970 |
| ``ksd`` | digest of the gateway's keyset |

A proof by MAC says the same, under a key of 32 bytes that the gateway gave to the holder of the session key
(:class:`MACKey`). It is a compact JWS with the header exactly
``{"alg":"HS256","kid":"<session id>","typ":"affiant-proof-mac+jwt"}``. The type alone chooses algorithm and key:
whatever mixes the two forms is no proof.

:class:`ReplayWindow` keeps which counters were seen: a window of 64, and a clock tolerance of 60 s.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import EncodingError, b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import SignatureInvalid, Signer
from affiant.attestation.schema.shapes import Int, MapOf, Obj, Pattern, Text
from affiant.errors import NotAuthenticError, NotFreshError

__all__ = [
    "CLOCK_TOLERANCE_S",
    "FORWARDED_HEADERS",
    "MAC_KEY_SIZE",
    "MAC_PROOF_TYPE",
    "MAX_HEADER",
    "PROOF_HEADER",
    "PROOF_TYPE",
    "WINDOW",
    "MACKey",
    "ProofMismatch",
    "ProofOfHead",
    "ProofReplayed",
    "ProofStale",
    "ReplayWindow",
    "Request",
    "RequestHead",
    "VerifiedProof",
    "issue_proof",
    "proven_by",
    "verify_proof",
    "verify_proof_of_head",
]

PROOF_HEADER: Final = "Affiant-Proof"
PROOF_TYPE: Final = "affiant-proof+jwt"
MAC_PROOF_TYPE: Final = "affiant-proof-mac+jwt"
MAC_KEY_SIZE: Final = 32
"""Bytes of a key for proofs by MAC, and of a MAC (HMAC-SHA256, RFC 2104)."""
WINDOW: Final = 64
CLOCK_TOLERANCE_S: Final = 60
FORWARDED_HEADERS: Final = ("anthropic-beta", "anthropic-version")
"""Headers of an agent's request of which a gateway passes some values on to a model's server."""
MAX_HEADER: Final = 1024
"""Characters of the value of one of them."""

_LONGEST_HEADER: Final = 128
"""Characters of a header of a proof by MAC; more are never kept."""

_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")
_SHAPE: Final = Obj(
    {
        "htm": Pattern("[A-Z]{1,16}", "an HTTP method"),
        "htu": Pattern(r"/[\x21-\x7e]{0,2047}", "an origin-form target"),
        "bdg": _LINK,
        "ses": Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url"),
        "iat": Int(),
        "ksd": _LINK,
    },
    {"cty": Text(), "hdr": MapOf("[a-z-]{1,64}", Text(MAX_HEADER), most=8), "non": Text(88), "cseq": Int()},
)


_MAC_HEADER: Final = re.compile(
    rb'\{"alg":"HS256","kid":"([A-Za-z0-9_-]{22})","typ":"%s"\}' % re.escape(MAC_PROOF_TYPE.encode("ascii"))
)


class ProofMismatch(NotAuthenticError):
    """A proof is for another request, session or gateway."""

    code = "proof.mismatch"


class ProofStale(NotFreshError):
    """A proof's time is more than 60 s from the gateway's clock."""

    code = "proof.stale"


class ProofReplayed(NotFreshError):
    """A counter was used before, or is behind the window."""

    code = "proof.replayed"


class MACKey:
    """A key that a gateway and the supervisor of one session share for proofs by MAC; never shown, never written out.

    Args:
        key: 32 bytes. session: the session's id, which is the key's ``kid``.
    """

    __slots__ = ("_key", "_start")

    def __init__(self, key: bytes, *, session: str) -> None:
        assert len(key) == MAC_KEY_SIZE
        self._key = key
        header = canonical({"alg": "HS256", "kid": session, "typ": MAC_PROOF_TYPE})
        self._start = b64u(header) + "."

    def issue(self, payload: Mapping[str, object]) -> str:
        """The compact JWS of ``payload``."""
        text = self._start + b64u(canonical(payload))
        return f"{text}.{b64u(self._mac(text))}"

    def verify(self, text: str) -> Mapping[str, object]:
        """The payload of a compact JWS, read only after its MAC held; MACs are compared in constant time.

        Raises:
            JWSMalformed: size, number of parts, another header, or the payload is no object.
            EncodingError: a part is not strict base64url, or the MAC is not 32 bytes.
            SignatureInvalid: the MAC does not hold. JSONError: the payload is not its own canonical form.
        """
        covered, _, mac = text.rpartition(".")
        if len(text) > jws.MAX_TEXT or not text.isascii() or not covered.startswith(self._start):
            raise jws.JWSMalformed("not a proof by MAC under this session's key")
        if not hmac.compare_digest(self._mac(covered), from_b64u(mac, size=MAC_KEY_SIZE)):
            raise SignatureInvalid("the MAC does not hold under this session's key")
        payload = parse_canonical(from_b64u(covered[len(self._start) :]), limit=jws.MAX_PAYLOAD)
        if not isinstance(payload, dict):
            raise jws.JWSMalformed("payload is not an object")
        return payload

    def _mac(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("ascii"), "sha256")

    def __repr__(self) -> str:
        return "<MACKey>"

    def __reduce__(self) -> str:
        raise TypeError("a shared key is not copied or pickled")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a proof covers of a head. ``target`` is the origin-form target exactly as in the request line."""

    method: str
    target: str
    content_type: str | None
    nonce: str | None
    forwarded: Mapping[str, str] = field(default_factory=dict)
    """The headers of :data:`FORWARDED_HEADERS` that it has."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a proof covers: of the head as :class:`RequestHead`, and the body."""

    method: str
    target: str
    body_sha256: bytes
    content_type: str | None
    nonce: str | None
    forwarded: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        content_type: str | None = None,
        nonce: str | None = None,
        forwarded: Mapping[str, str] | None = None,
    ) -> Request:
        """A request whose body is at hand."""
        return cls(method, target, hashlib.sha256(body).digest(), content_type, nonce, forwarded or {})

    @property
    def head(self) -> RequestHead:
        """All of it but the body."""
        return RequestHead(self.method, self.target, self.content_type, self.nonce, self.forwarded)


@dataclass(frozen=True, slots=True)
class VerifiedProof:
    """A proof that holds for the request at hand; the counter is not yet taken."""

    session: str
    cseq: int | None
    iat: int


@dataclass(frozen=True, slots=True)
class ProofOfHead:
    """A proof that holds for the head of the request at hand; whether for its body, is not known yet.

    The session signed a request with this head and this counter: that is known before a byte of the body is read.
    """

    session: str
    cseq: int | None
    iat: int
    bdg: str
    """Digest of the body that was signed for, 43 characters."""

    def covering(self, body_sha256: bytes) -> VerifiedProof:
        """The proof as verified for a request with this body (32 bytes).

        Raises:
            ProofMismatch: another body was signed for.
        """
        if self.bdg != b64u(body_sha256):
            raise _mismatch("bdg")
        return VerifiedProof(self.session, self.cseq, self.iat)


def proven_by(text: str) -> tuple[str, str]:
    """The type of a proof and its ``kid``: by MAC the session's id, else the session key's thumbprint.

    Nothing of it is verified yet.

    Raises:
        JWSMalformed, EncodingError: its header is not that of a proof.
    """
    header = text.partition(".")[0]
    if len(header) <= _LONGEST_HEADER and (session := _session_of(header)) is not None:
        return MAC_PROOF_TYPE, session
    return PROOF_TYPE, jws.split(text, typ=PROOF_TYPE).kid


@lru_cache(maxsize=8192)
def _session_of(header: str) -> str | None:
    """The session that the header of a proof by MAC names; None for any other header."""
    try:
        found = _MAC_HEADER.fullmatch(from_b64u(header))
    except EncodingError:
        return None
    return None if found is None else found[1].decode("ascii")


def issue_proof(
    signer: Signer | MACKey,
    request: Request,
    *,
    session: str,
    cseq: int | None,
    keyset_digest: str,
    now: datetime,
) -> str:
    """The value of the ``Affiant-Proof`` header; by MAC where ``signer`` is the session's key for that."""
    payload: dict[str, object] = {
        "htm": request.method,
        "htu": request.target,
        "bdg": b64u(request.body_sha256),
        "ses": session,
        "iat": int(now.timestamp()),
        "ksd": keyset_digest,
    }
    present = {
        "cty": request.content_type,
        "hdr": dict(request.forwarded) or None,
        "non": request.nonce,
        "cseq": cseq,
    }
    payload |= {name: value for name, value in present.items() if value is not None}
    _SHAPE.check(payload, "proof")
    if isinstance(signer, MACKey):
        return signer.issue(payload)
    return jws.sign(signer, payload, typ=PROOF_TYPE)


def verify_proof(
    text: str,
    request: Request,
    *,
    key: ec.EllipticCurvePublicKey | MACKey,
    session: str,
    keyset_digest: str,
    counted: bool,
    now: datetime,
) -> VerifiedProof:
    """Return the proof as verified for ``request``, or refuse it.

    Args:
        key: the session key bound in the quote that was appraised at admission, or the session's key for proofs by
            MAC; a proof of the other kind is refused.
        counted: whether this request takes a counter (inference and tool gate) or must have none.

    Raises:
        JWSMalformed, SignatureInvalid, ShapeMismatch: the proof itself.
        ProofMismatch: it is for another request, session or gateway, or has a counter where none belongs.
        ProofStale: its time is off by more than 60 s.
    """
    head = verify_proof_of_head(
        text,
        request.head,
        key=key,
        session=session,
        keyset_digest=keyset_digest,
        counted=counted,
        now=now,
    )
    return head.covering(request.body_sha256)


def verify_proof_of_head(
    text: str,
    head: RequestHead,
    *,
    key: ec.EllipticCurvePublicKey | MACKey,
    session: str,
    keyset_digest: str,
    counted: bool,
    now: datetime,
) -> ProofOfHead:
    """As :func:`verify_proof`, before the body is there: everything is judged but its digest.

    Raises:
        As :func:`verify_proof`.
    """
    payload = (
        key.verify(text) if isinstance(key, MACKey) else jws.verify(jws.split(text, typ=PROOF_TYPE), key)
    )
    _SHAPE.check(payload, "proof")
    expected: dict[str, object | None] = {
        "htm": head.method,
        "htu": head.target,
        "cty": head.content_type,
        "hdr": head.forwarded or None,
        "non": head.nonce,
        "ses": session,
        "ksd": keyset_digest,
    }
    for name, value in expected.items():
        if payload.get(name) != value:
            raise _mismatch(name)
    cseq = payload.get("cseq")
    if counted != (cseq is not None):
        raise ProofMismatch("a counter is missing, or is where none belongs", where="cseq")
    iat = payload["iat"]
    assert isinstance(iat, int)
    if abs(iat - now.timestamp()) > CLOCK_TOLERANCE_S:
        raise ProofStale(
            "the proof's time is off", expected=f"within {CLOCK_TOLERANCE_S} s of {int(now.timestamp())}"
        )
    assert cseq is None or isinstance(cseq, int)
    return ProofOfHead(session=session, cseq=cseq, iat=iat, bdg=str(payload["bdg"]))


def _mismatch(name: str) -> ProofMismatch:
    return ProofMismatch(f"the proof's {name} is not this request's", where=name)


class ReplayWindow:
    """The counters seen in one session, in the admitting gateway's memory."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0

    def take(self, cseq: int) -> None:
        """Take ``cseq``, once.

        Raises:
            ProofReplayed: taken before, or more than 63 behind the highest. (A jump ahead is accepted: counters
                of requests that never arrived be in the supervisor's own errors, and the verifier judges
                the two chains together.)
        """
        if cseq > self._highest:
            self._seen = ((self._seen << min(cseq - self._highest, WINDOW)) | 1) & ((1 << WINDOW) - 1)
            self._highest = cseq
            return
        behind = self._highest - cseq
        if behind >= WINDOW or self._seen >> behind & 1:
            raise ProofReplayed("counter used before, or behind the window", found=cseq)
        self._seen |= 1 << behind
