"""Class *signature*: who signed, over which bytes, in which one spelling."""

from __future__ import annotations

import hashlib
import hmac

from vectors.cases.edits import as_bytes, gateway_kid, jws_part, one, swap
from vectors.making.documents import identifier
from vectors.making.encoding import b64u, canonical
from vectors.making.faults import put
from vectors.making.keys import ORDER, jwk, p256_key, seeded, sign_der, thumbprint
from vectors.making.stories import forwarded_headers, model_answers
from vectors.making.story import Story

__all__ = ["CASES"]

_JWS = {"sig.receipts": "fmt.jws"}
_INVALID = {"sig.receipts": "sig.invalid"}
_SPELLING = {"sig.receipts": "fmt.encoding"}
_ROLE = {"sig.receipts": "sig.role"}


def _header(**changes: object) -> bytes:
    return canonical({"alg": "ES256", "kid": gateway_kid(), "typ": "eat+jwt"} | changes)


def _high_s(raw: bytes) -> bytes:
    return raw[:32] + (ORDER - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")


def _flip(at: int, bit: int = 1):  # type: ignore[no-untyped-def]
    return lambda raw: raw[:at] + bytes((raw[at] ^ bit,)) + raw[at + 1 :]


def _hmac(text: str) -> str:
    """HS256 keyed with the public key: the confusion of algorithms."""
    key = canonical(jwk(p256_key("gateway receipt")))
    header, payload, _ = text.split(".")
    header = b64u(_header(alg="HS256"))
    mac = hmac.new(key, f"{header}.{payload}".encode(), hashlib.sha256).digest()
    return f"{header}.{payload}.{b64u(mac)}"


def _der(text: str) -> str:
    signing_input = text.rpartition(".")[0]
    return f"{signing_input}.{b64u(sign_der(p256_key('gateway receipt'), signing_input.encode()))}"


def _unused_bit(text: str) -> str:
    """64 bytes end in 4 unused bits; one of them set is another text for the same bytes."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return text[:-1] + alphabet[alphabet.index(text[-1]) | 1]


def _standard(text: str) -> str:
    other = text.replace("-", "+").replace("_", "/")
    if other == text:
        raise ValueError("the alphabets agree on this text")
    return other


def _exec_by_gateway(story: Story) -> None:
    told = story.sessions["session"]
    members = {"act": {"typ": "exec"}, "iso": "gvisor", "ph": "intent"}
    story.gateway_says("exec-by-gateway", "exec", members, of=told)


def _inference_by_session(story: Story) -> None:
    told = story.sessions["session"]
    record = told.gateway_records[-1].payload
    names = ("req", "res", "mdl", "use", "pol", "up", "att")
    story.supervisor_says(told, "by-session", "inference", {name: record[name] for name in names})


_STRANGER = p256_key("a stranger")

CASES = (
    one(
        "signature/wrong-key",
        "Signed by another key; the header names the right one.",
        {"key:inference": lambda _: _STRANGER, "header:inference": lambda _: _header()},
        _INVALID,
    ),
    one(
        "signature/unknown-key",
        "Signed by a key that no keyset names, and the header says so.",
        {"key:inference": lambda _: _STRANGER},
        {"sig.receipts": "sig.unknown_key"},
    ),
    one(
        "signature/ear-key",
        "Signed by the gateway's key for results: one key has one use.",
        {"key:inference": lambda _: p256_key("gateway ear")},
        {"sig.receipts": "sig.unknown_key"},
    ),
    one(
        "signature/flipped-bit",
        "One bit of the signature is another.",
        {"sent:inference": jws_part(2, as_bytes(_flip(40)))},
        _INVALID,
    ),
    one(
        "signature/payload-changed",
        "The payload says another status, canonical and well-formed; the signature is of the old one.",
        {"sent:inference": jws_part(1, as_bytes(swap(b'"st":200', b'"st":201')))},
        _INVALID,
    ),
    one(
        "signature/model-answered-changed",
        "An answer's model is replaced by the one that was asked for; the signature is of the old name.",
        {"sent:inference-1": jws_part(1, as_bytes(swap(b'"ans":"Echo"', b'"ans":"echo"')))},
        _INVALID,
        base="valid/model-answered-other",
        script=model_answers("echo", "Echo", "echo-latest"),
    ),
    one(
        "signature/request-header-changed",
        "A forwarded header is replaced by another value; the signature is of the old one.",
        {"sent:inference": jws_part(1, as_bytes(swap(b'"2023-06-01"', b'"2023-01-01"')))},
        _INVALID,
        base="valid/request-headers",
        script=forwarded_headers,
    ),
    one(
        "signature/alg-none",
        "Header `alg` none, and no signature.",
        {"jws:inference": lambda text: f"{b64u(_header(alg='none'))}.{text.split('.')[1]}."},
        _JWS,
    ),
    one("signature/alg-hs256", "HMAC keyed with the public key.", {"jws:inference": _hmac}, _JWS),
    one(
        "signature/alg-es384",
        "Header `alg` ES384 over an ES256 signature that holds.",
        {"header:inference": lambda _: _header(alg="ES384")},
        _JWS,
    ),
    one(
        "signature/header-extra-member",
        "A further member in the signed header.",
        {"header:inference": lambda _: _header(cty="json")},
        _JWS,
    ),
    one(
        "signature/header-crit",
        "A signed header with `crit`.",
        {"header:inference": lambda _: _header(crit=["exp"])},
        _JWS,
    ),
    one(
        "signature/header-jwk",
        "The header brings its own key, which signed it.",
        {
            "key:inference": lambda _: _STRANGER,
            "header:inference": lambda _: _header(jwk=jwk(_STRANGER), kid=thumbprint(_STRANGER)),
        },
        _JWS,
    ),
    one(
        "signature/header-reordered",
        "The same three members in another order, signed.",
        {"header:inference": lambda _: f'{{"typ":"eat+jwt","alg":"ES256","kid":"{gateway_kid()}"}}'.encode()},
        _JWS,
    ),
    one(
        "signature/header-whitespace",
        "A space in the signed header.",
        {"header:inference": lambda data: data.replace(b":", b": ", 1)},
        _JWS,
    ),
    one(
        "signature/header-typ",
        "Signed as a proof of possession: keys are told apart by `typ`.",
        {"header:inference": lambda _: _header(typ="affiant-proof+jwt")},
        _JWS,
    ),
    one(
        "signature/header-typ-jwt",
        "Header `typ` JWT.",
        {"header:inference": lambda _: _header(typ="JWT")},
        _JWS,
    ),
    one(
        "signature/high-s",
        "The same signature with the other s: a second spelling of one record.",
        {"sent:inference": jws_part(2, as_bytes(_high_s))},
        _INVALID,
    ),
    one(
        "signature/der",
        "The signature as a DER sequence.",
        {"jws:inference": _der},
        _SPELLING,
    ),
    one(
        "signature/unused-bits",
        "A bit is set that base64url does not use: other text, same bytes.",
        {"sent:inference": jws_part(2, _unused_bit)},
        _SPELLING,
    ),
    one(
        "signature/padding",
        "Base64url with padding.",
        {"sent:inference": jws_part(2, lambda text: text + "==")},
        _SPELLING,
    ),
    one(
        "signature/standard-base64",
        "A signature in the alphabet of standard base64.",
        {"sent:start": jws_part(2, _standard)},
        _SPELLING,
    ),
    one(
        "signature/65-bytes",
        "A zero byte before the signature.",
        {"sent:inference": jws_part(2, as_bytes(lambda raw: b"\0" + raw))},
        _SPELLING,
    ),
    one(
        "signature/63-bytes",
        "The signature without its last byte.",
        {"sent:inference": jws_part(2, as_bytes(lambda raw: raw[:-1]))},
        _SPELLING,
    ),
    one(
        "signature/zero",
        "r and s are zero: a signature that holds for everything, where nobody looks.",
        {"sent:inference": jws_part(2, as_bytes(lambda _: bytes(64)))},
        _INVALID,
    ),
    one(
        "signature/order",
        "r and s are the order of the curve.",
        {"sent:inference": jws_part(2, as_bytes(lambda _: ORDER.to_bytes(32, "big") * 2))},
        _INVALID,
    ),
    one(
        "signature/swapped-halves",
        "s before r.",
        {"sent:inference": jws_part(2, as_bytes(lambda raw: raw[32:] + raw[:32]))},
        _INVALID,
    ),
    one(
        "signature/two-parts",
        "A JWS without its signature part.",
        {"jws:inference": lambda text: text.rpartition(".")[0]},
        _JWS,
    ),
    one(
        "signature/four-parts",
        "A JWS with a part more.",
        {"sent:inference": jws_part(2, lambda text: text + ".AAAA")},
        _JWS,
    ),
    one(
        "signature/kid-no-thumbprint",
        "The header names a key by another name than its thumbprint.",
        {"header:inference": lambda _: _header(kid=b64u(seeded("no key", 32)))},
        {"sig.receipts": "sig.unknown_key"},
    ),
    one(
        "signature/kid-short",
        "The header names a key by 42 characters.",
        {"header:inference": lambda _: _header(kid=gateway_kid()[:-1])},
        _JWS,
    ),
    one(
        "signature/no-ascii",
        "A letter that is no ASCII, which some readers take for an s.",
        {"sent:inference": lambda text: text[:300] + "\u017f" + text[301:]},
        {"sig.receipts": "fmt.receipt"},
    ),
    one(
        "signature/role-session-signs-inference",
        "A record of a kind that only a gateway signs, by a session's key.",
        {"before:session-end": _inference_by_session},
        _ROLE,
    ),
    one(
        "signature/role-gateway-signs-exec",
        "A record of a kind that only a session signs, by a gateway's key.",
        {"before:close": _exec_by_gateway},
        _ROLE,
    ),
    one(
        "signature/role-claimed",
        "A gateway's record that says it is a session's.",
        {"members:inference": put(role="session")},
        _ROLE,
    ),
    one(
        "signature/class-claimed",
        "A record that says hardware under a keyset that says simulated.",
        {"members:inference": put(cls="hardware", eat_profile="tag:affiant.dev,2026:receipt/1")},
        _ROLE,
    ),
    one(
        "signature/foreign-chain",
        "A record on a chain that is not in its signer's keyset.",
        {"members:inference": put(chn=identifier("another chain"))},
        _ROLE,
    ),
    one(
        "signature/foreign-issuer",
        "A record that names another issuer than its keyset.",
        {"members:inference": put(iss="urn:affiant:gateway:another")},
        _ROLE,
    ),
)
