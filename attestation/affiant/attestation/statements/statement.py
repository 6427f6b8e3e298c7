"""Signs and verifies keyset statements: which keys a TD made, bound into its quote.

A statement is canonical JSON; its digest is SHA-256 of the exact bytes. The *keyset digest*, which records and
proofs name, is SHA-256 of the same with the member ``nonce`` removed: a fresh nonce gives fresh evidence for the
same keys. REPORTDATA of the quote is SHA-512("affiant/keyset/1\\n" || statement bytes), all 64 bytes (TDX
specification, "Bindings").

A gateway's statement names a ``receipt`` key, an ``ear`` key, the SPKI digest of its TLS key, its configuration digest
as ``policy``, and the log that it writes: origin, the log's public key (a vkey, C2SP signed-note), and how the private
key is kept (``file`` on a development machine, ``sealed`` to the measured image, or in a ``td`` of the log's own).
Where witnesses had cosigned that log before the boot, ``cp`` is the SHA-256 of that note: the statement, its quote and
all that the keys sign are not older.
A session's names one ``session`` key, which signs its records and its
proofs (told apart by ``typ``), and the template manifest, the activation and the gateway keyset it appraised,
as ``man``, ``act`` and ``gks``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import KeyMalformed, public_jwk, public_key_of, thumbprint
from affiant.attestation.schema.shapes import (
    Array,
    Const,
    Enum,
    Int,
    Nullable,
    Obj,
    Pattern,
    Shape,
    ShapeMismatch,
    Text,
)
from affiant.attestation.tlog.errors import NoteMalformed
from affiant.attestation.tlog.note_keys import LogKey, parse_vkey

__all__ = [
    "STATEMENT_DOMAIN",
    "KeysetStatement",
    "LogIdentity",
    "gateway_statement",
    "parse_statement",
    "report_data",
    "session_issuer",
    "session_statement",
]

STATEMENT_DOMAIN: Final = b"affiant/keyset/1\n"

WITNESS_MAX_S: Final = 300
"""Trust rules, 5: the oldest witnessed checkpoint under which admission goes on. Inactive until there are witnesses."""

_ID: Final = Pattern(r"[A-Za-z0-9_-]{22}", "22 characters of base64url")
_LINK: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url")


class _Jwk:
    def check(self, value: object, where: str) -> None:
        try:
            public_key_of(value)
        except KeyMalformed as error:
            raise ShapeMismatch("not a P-256 public JWK", where=where) from error

    def describe(self) -> str:
        return "a P-256 public JWK"


class _Key:
    """``{kid, use, jwk}`` with the key's own thumbprint, or ``{use: tls-spki, sha256}``."""

    _with_jwk = Obj({"kid": _LINK, "use": Enum(("receipt", "ear", "session", "vault-jwt")), "jwk": _Jwk()})
    _tls = Obj({"use": Const("tls-spki"), "sha256": _LINK})

    def check(self, value: object, where: str) -> None:
        if isinstance(value, dict) and value.get("use") == "tls-spki":
            self._tls.check(value, where)
            return
        self._with_jwk.check(value, where)
        assert isinstance(value, dict)
        if thumbprint(public_key_of(value["jwk"])) != value["kid"]:
            raise ShapeMismatch("kid is not the key's thumbprint", where=f"{where}.kid")

    def describe(self) -> str:
        return "{kid, use, jwk} or {use: tls-spki, sha256}"


_COMMON: Final[Mapping[str, Shape]] = {
    "typ": Const("affiant-keyset/1"),
    "iss": Text(),
    "cls": Enum(("hardware", "simulated")),
    "chn": Array(_ID, least=1, most=8),
    "keys": Array(_Key(), least=1, most=8),
    "epoch_s": Int(1, 3600),
    "wit_max_s": Int(1, 86400),
    "nonce": Nullable(_LINK),
    "not_after": Int(),
}
_LOG: Final = Obj({"origin": Text(), "vkey": Text(512), "kept": Enum(("file", "sealed", "td"))})
_SHAPES: Final = {
    "gateway": Obj(
        {
            **_COMMON,
            "role": Const("gateway"),
            "policy": Pattern("sha256:[0-9a-f]{64}", "a SHA-256 name"),
            "log": _LOG,
        },
        {"cp": _LINK},
    ),
    "session": Obj(
        {
            **_COMMON,
            "iss": Pattern(
                r"urn:affiant:session:[A-Za-z0-9_-]{22}", "urn:affiant:session: and the session's id"
            ),
            "role": Const("session"),
            "man": _LINK,
            "act": _LINK,
            "gks": _LINK,
            "log": Const(None),
        }
    ),
}
_AS_THEY_STAND: Final = (
    *("iss", "role", "cls", "epoch_s", "not_after", "nonce"),
    *("policy", "cp", "man", "act", "gks"),
)
_USES: Final = {"gateway": "receipt", "session": "session"}


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """A log as a keyset binds it. ``kept``: ``file``, ``sealed`` or ``td``."""

    key: LogKey
    kept: str

    @property
    def origin(self) -> str:
        """The log's name."""
        return self.key.name

    def to_json(self) -> Mapping[str, object]:
        """``{origin, vkey, kept}``."""
        return {"origin": self.origin, "vkey": self.key.vkey(), "kept": self.kept}


@dataclass(frozen=True, slots=True)
class KeysetStatement:
    """A statement in its closed form. That a quote binds it is not said by this type."""

    raw: bytes
    iss: str
    role: str
    cls: str
    chn: frozenset[str]
    receipt_kid: str
    receipt_key: ec.EllipticCurvePublicKey
    keys: Mapping[str, Mapping[str, object]]
    """Use -> the entry as it stands."""
    epoch_s: int
    not_after: int
    nonce: str | None
    policy: str | None
    """Gateway: configuration digest."""
    log: LogIdentity | None
    """Gateway: the log that it writes."""
    cp: str | None
    """Gateway: SHA-256 of the newest cosigned note before the boot, 43 characters, signature lines included."""
    man: str | None
    act: str | None
    gks: str | None

    @property
    def digest(self) -> str:
        """SHA-256 of the exact bytes: 43 characters."""
        return b64u_sha256(self.raw)

    @property
    def keyset_digest(self) -> str:
        """SHA-256 of the statement without ``nonce``: 43 characters."""
        value = parse_canonical(self.raw)
        assert isinstance(value, dict)
        return b64u_sha256(canonical({name: item for name, item in value.items() if name != "nonce"}))

    @property
    def ear_key(self) -> ec.EllipticCurvePublicKey | None:
        """The key that signs attestation results, if the keyset names one."""
        entry = self.keys.get("ear")
        return None if entry is None else public_key_of(entry["jwk"])

    @property
    def tls_spki(self) -> str | None:
        """SHA-256 of the TLS certificate's SubjectPublicKeyInfo (DER): 43 characters."""
        entry = self.keys.get("tls-spki")
        return None if entry is None else str(entry["sha256"])


def report_data(statement: bytes) -> bytes:
    """The 64 bytes of REPORTDATA that bind ``statement``."""
    return hashlib.sha512(STATEMENT_DOMAIN + statement).digest()


def parse_statement(raw: bytes) -> KeysetStatement:
    """The statement in ``raw``, closed and canonical.

    Raises:
        JSONError: not canonical. ShapeMismatch: another member, role, a key used twice, or no receipt key.
    """
    value = parse_canonical(raw, limit=16 * 1024)
    role = value.get("role") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(role, str) or role not in _SHAPES:
        raise ShapeMismatch("not a keyset statement", expected="role gateway or session")
    _SHAPES[role].check(value, "statement")
    uses = [entry["use"] for entry in value["keys"]]
    kids = [entry["kid"] for entry in value["keys"] if "kid" in entry]
    if len(set(uses)) != len(uses) or len(set(kids)) != len(kids):
        raise ShapeMismatch("one key per use, one use per key", where="statement.keys")
    keys = dict(zip(uses, value["keys"], strict=True))
    if _USES[role] not in keys or (role == "session" and len(keys) != 1):
        raise ShapeMismatch("the keyset lacks its signing key, or has others", where="statement.keys")
    stated: dict[str, Any] = {name: value.get(name) for name in _AS_THEY_STAND}
    return KeysetStatement(
        raw=raw,
        **stated,
        chn=frozenset(value["chn"]),
        receipt_kid=keys[_USES[role]]["kid"],
        receipt_key=public_key_of(keys[_USES[role]]["jwk"]),
        keys=keys,
        log=None if value["log"] is None else _log_identity(value["log"]),
    )


def _log_identity(value: Mapping[str, str]) -> LogIdentity:
    try:
        key = parse_vkey(value["vkey"])
    except NoteMalformed as error:
        raise ShapeMismatch("not a verifier key", where="statement.log.vkey") from error
    if not isinstance(key, LogKey) or key.name != value["origin"]:
        raise ShapeMismatch("the log's key is of another kind or name", where="statement.log.vkey")
    return LogIdentity(key, value["kept"])


def _entry(use: str, key: ec.EllipticCurvePublicKey) -> Mapping[str, object]:
    return {"kid": thumbprint(key), "use": use, "jwk": public_jwk(key)}


def gateway_statement(
    *,
    iss: str,
    cls: str,
    chn: Sequence[str],
    receipt: ec.EllipticCurvePublicKey,
    ear: ec.EllipticCurvePublicKey,
    tls_spki: str,
    policy: str,
    log: LogIdentity,
    epoch_s: int,
    not_after: int,
    nonce: str | None,
    cp: str | None = None,
) -> bytes:
    """A gateway's statement; canonical bytes. ``cp``: 43-character digest of a cosigned note, or None."""
    return canonical(
        {
            **({} if cp is None else {"cp": cp}),
            "typ": "affiant-keyset/1",
            "iss": iss,
            "role": "gateway",
            "cls": cls,
            "chn": list(chn),
            "keys": [_entry("receipt", receipt), _entry("ear", ear), {"use": "tls-spki", "sha256": tls_spki}],
            "log": log.to_json(),
            "epoch_s": epoch_s,
            "wit_max_s": WITNESS_MAX_S,
            "policy": policy,
            "nonce": nonce,
            "not_after": not_after,
        }
    )


def session_issuer(session: str) -> str:
    """The ``iss`` of a session's keyset and records."""
    return f"urn:affiant:session:{session}"


def session_statement(
    *,
    session: str,
    cls: str,
    chn: str,
    key: ec.EllipticCurvePublicKey,
    man: str,
    act: str,
    gks: str,
    epoch_s: int,
    not_after: int,
    nonce: str | None,
) -> bytes:
    """A session's statement; canonical bytes. ``man``, ``act``, ``gks``: 43-character digests."""
    return canonical(
        {
            "typ": "affiant-keyset/1",
            "iss": session_issuer(session),
            "role": "session",
            "cls": cls,
            "chn": [chn],
            "keys": [_entry("session", key)],
            "log": None,
            "epoch_s": epoch_s,
            "wit_max_s": WITNESS_MAX_S,
            "nonce": nonce,
            "not_after": not_after,
            "man": man,
            "act": act,
            "gks": gks,
        }
    )
