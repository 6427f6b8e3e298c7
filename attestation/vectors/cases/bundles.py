"""Class *bundle*: every object is what its name says, and nothing in a bundle is a trust anchor."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from vectors.cases.edits import one
from vectors.making.case import Case, told
from vectors.making.documents import POLICY
from vectors.making.encoding import b64u, canonical, from_b64u, link, sha256_name
from vectors.making.faults import Fault, put, take
from vectors.making.keys import ed25519_key, jwk, p256_key
from vectors.making.platform import Platform
from vectors.making.scripts import boot
from vectors.making.tree import witness_vkey

__all__ = ["CASES"]

_MALFORMED = {"fmt.bundle": "bundle.malformed"}
_JSON = {"fmt.bundle": "fmt.json"}
_MAPS = ("keysets", "evidence", "endorsements", "results", "policies")


def _bundle(name: str, about: str, change: Fault, refused: dict[str, str] | None = None, **more: Any) -> Case:
    return one(
        f"bundle/{name}", about, {"bundle": change}, _MALFORMED if refused is None else refused, **more
    )


def _whole(name: str, about: str, change: Callable[[bytes], bytes], refused: dict[str, str] = _JSON) -> Case:
    """A file that is no JSON value of the form, or that two readers read differently."""

    def make() -> bytes:
        value = told(script=boot)()
        return change((json.dumps(value, indent=1, sort_keys=True) + "\n").encode("ascii"))

    return Case(f"bundle/{name}", about, make, "valid/boot", refused)


def _another_value(bundle: dict[str, Any]) -> dict[str, Any]:
    name = next(iter(bundle["policies"]))
    bundle["policies"][name] = b64u(b"{}")
    return bundle


def _upper(bundle: dict[str, Any]) -> dict[str, Any]:
    name, value = bundle["policies"].popitem()
    bundle["policies"]["sha256:" + name[7:].upper()] = value
    return bundle


def _padded(bundle: dict[str, Any]) -> dict[str, Any]:
    raw = b'{"a":"b"}  '
    bundle["policies"][sha256_name(raw)] = b64u(raw) + "="
    return bundle


def _numbered(bundle: dict[str, Any]) -> dict[str, Any]:
    bundle["policies"][next(iter(bundle["policies"]))] = 7
    return bundle


def _without_profile(bundle: dict[str, Any]) -> dict[str, Any]:
    del bundle["policies"][sha256_name(POLICY)]
    return bundle


def _another_profile(bundle: dict[str, Any]) -> dict[str, Any]:
    raw = canonical({"semantics": "affiant.policy/1", "tools": ["everything"]})
    changed: dict[str, Any] = put(
        policies={**_without_profile(bundle)["policies"], sha256_name(raw): b64u(raw)}
    )(bundle)
    return changed


def _without_session(bundle: dict[str, Any]) -> dict[str, Any]:
    of_session = {name for name, text in bundle["keysets"].items() if b'"role":"session"' in from_b64u(text)}
    kept = [each for each in bundle["receipts"] if _role(each["sdjwt"]) == "gateway"]
    keysets = {name: text for name, text in bundle["keysets"].items() if name not in of_session}
    return {**bundle, "keysets": keysets, "receipts": kept}


def _role(text: str) -> str:
    role: str = json.loads(from_b64u(text.split(".")[1]))["role"]
    return role


def _without(member: str) -> Fault:
    return put(**{member: {}})


def _twice(receipts: list[Any]) -> list[Any]:
    return [*receipts, receipts[-1]]


def _anchored(bundle: dict[str, Any]) -> dict[str, Any]:
    """The bundle names its own platform's root and reference values, as a trust file would."""
    own = json.dumps({"tee_roots": [{"value": Platform(label="own").root_name}], "typ": "affiant-trust/1"})
    bundle["policies"][sha256_name(own.encode())] = b64u(own.encode())
    return bundle


def _receipt(**members: Any) -> Fault:
    def fault(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        receipts[0] = {**receipts[0], **members}
        return receipts

    return fault


def _misnamed(statement: dict[str, Any]) -> dict[str, Any]:
    statement["keys"][1]["kid"] = statement["keys"][0]["kid"][::-1]
    return statement


def _keyset(name: str, about: str, change: Fault, code: str = "fmt.profile") -> Case:
    """A further keyset, which nothing names: the gateway's, changed."""

    def fault(bundle: dict[str, Any]) -> dict[str, Any]:
        statements = [json.loads(from_b64u(text)) for text in bundle["keysets"].values()]
        own = next(statement for statement in statements if statement["role"] == "gateway")
        raw = canonical(change(own))
        bundle["keysets"][sha256_name(raw)] = b64u(raw)
        return bundle

    return _bundle(f"keyset-{name}", about, fault, {"fmt.keysets": code})


def _named_anew(entry: dict[str, Any], **members: str) -> dict[str, Any]:
    """The entry with another key, under that key's thumbprint."""
    key = entry["jwk"] | members
    return entry | {"jwk": key, "kid": link(canonical(key))}


def _off_curve(statement: dict[str, Any]) -> dict[str, Any]:
    first, *others = statement["keys"]
    return statement | {"keys": [_named_anew(first, y=first["jwk"]["x"]), *others]}


def _padded_key(statement: dict[str, Any]) -> dict[str, Any]:
    first, *others = statement["keys"]
    return statement | {"keys": [_named_anew(first, x=first["jwk"]["x"] + "="), *others]}


def _two_receipt_keys(statement: dict[str, Any]) -> dict[str, Any]:
    key = jwk(p256_key("a stranger"))
    second = {"jwk": key, "kid": link(canonical(key)), "use": "receipt"}
    return statement | {"keys": [*statement["keys"], second]}


def _one_key(statement: dict[str, Any]) -> dict[str, Any]:
    first, second, *others = statement["keys"]
    return statement | {"keys": [first, first | {"use": second["use"]}, *others]}


def _key_of_no_use(statement: dict[str, Any]) -> dict[str, Any]:
    key = jwk(p256_key("a stranger"))
    return statement | {"keys": [*statement["keys"], {"jwk": key, "kid": link(canonical(key)), "use": "log"}]}


def _tls_key_with_more(statement: dict[str, Any]) -> dict[str, Any]:
    *others, last = statement["keys"]
    return statement | {"keys": [*others, last | {"kid": link(b"a kid")}]}


def _witness_as_log(statement: dict[str, Any]) -> dict[str, Any]:
    log = statement["log"]
    return statement | {"log": log | {"vkey": witness_vkey(log["origin"], ed25519_key("log"))}}


def _renamed_log(statement: dict[str, Any]) -> dict[str, Any]:
    return statement | {"log": statement["log"] | {"origin": "another.log.invalid"}}


_SESSION_ROWS = tuple(
    f"session.{name}"
    for name in ("start", "order", "counter", "close", "peer", "intents", "decisions", "supervisor")
)
_EVIDENCE_GONE = ("bundle.objects", "key.evidence")

CASES = (
    _bundle("object-changed", "An object is not what its name says.", _another_value),
    _bundle("name-in-upper-case", "An object's name in another spelling.", _upper),
    _bundle("object-padded", "An object in another spelling of base64url.", _padded),
    _bundle("foreign-member", "A member that the form does not list.", put(trust={})),
    _bundle("member-missing", "Without a member of the form.", take("results")),
    _bundle("another-type", "Another type of document.", put(typ="application/vnd.affiant.bundle.v2+json")),
    _bundle("no-receipts", "A bundle without a receipt.", put(receipts=[])),
    _bundle("receipts-no-array", "Receipts that are no array.", put(receipts={})),
    _bundle("receipts-a-number", "Receipts that are a number.", put(receipts=7)),
    _bundle("object-no-text", "An object that is a number.", _numbered),
    _bundle(
        "checkpoints", "A checkpoint, which this version does not read.", put(checkpoints={"8": "a note"})
    ),
    _bundle(
        "anchors",
        "A time-stamp that is no entry of the form.",
        put(anchors={"sigstore": [], "tsr": ["x"]}),
    ),
    one(
        "bundle/proof-no-text",
        "A proof that is a number.",
        {"receipts": _receipt(proof=7)},
        _MALFORMED,
    ),
    one(
        "bundle/receipt-no-text",
        "A receipt that is a number.",
        {"receipts": _receipt(sdjwt=7)},
        _MALFORMED,
    ),
    one(
        "bundle/entry-a-list",
        "The names of an entry's members, in a list.",
        {"receipts": lambda receipts: [["sdjwt", "proof"], *receipts[1:]]},
        _MALFORMED,
    ),
    one(
        "bundle/entry-with-more",
        "A receipt's entry with a member more.",
        {"receipts": _receipt(verified=True)},
        _MALFORMED,
    ),
    one(
        "bundle/receipt-twice",
        "One receipt, twice.",
        {"receipts": _twice},
        _MALFORMED,
    ),
    _bundle("keysets-missing", "Without a keyset.", _without("keysets"), {}, not_made=("fmt.keysets",)),
    _bundle(
        "evidence-missing",
        "Without the evidence that records name.",
        _without("evidence"),
        {},
        not_made=_EVIDENCE_GONE,
    ),
    _bundle(
        "collateral-missing",
        "Without the collateral that the quotes were judged with.",
        _without("endorsements"),
        {},
        not_made=("bundle.objects", "tee.appraisal"),
    ),
    _bundle(
        "documents-missing",
        "Without configuration, profile and reference values.",
        _without("policies"),
        {},
        not_made=("bundle.objects", "conf.bound", "pol.bound"),
    ),
    _bundle(
        "profile-missing",
        "Without the profile whose digest is bound.",
        _without_profile,
        {},
        not_made=("bundle.objects", "pol.bound"),
    ),
    _bundle(
        "profile-replaced",
        "Another profile, under its own name, in place of the one whose digest is bound.",
        _another_profile,
        {},
        not_made=("bundle.objects", "pol.bound"),
    ),
    _bundle(
        "session-left-out",
        "A session of which the gateway's records alone are here: neither keyset nor record of its supervisor.",
        _without_session,
        {},
        not_made=("bundle.objects", "pol.bound", "peer.bound", *_SESSION_ROWS),
    ),
    one(
        "bundle/own-trust-anchor",
        "Another platform's bundle, with a trust file of its own in it.",
        {"bundle": _anchored},
        {"tee.appraisal": "root.untrusted", "conf.accepted": "conf.not_accepted"},
        platform=Platform(label="own"),
    ),
    one(
        "bundle/keyset-not-canonical",
        "A keyset statement with a space at its end.",
        {"raw:session-statement": lambda raw: raw + b" "},
        {"fmt.keysets": "fmt.json"},
    ),
    one(
        "bundle/keyset-with-more",
        "A keyset statement with a member more.",
        {"document:session-statement": put(admin=True)},
        {"fmt.keysets": "fmt.profile"},
    ),
    one(
        "bundle/keyset-of-another-issuer",
        "A session's keyset whose issuer is not named as sessions are.",
        {
            "document:session-statement": lambda value: (
                value | {"iss": value["iss"].replace("affiant", "other")}
            )
        },
        {"fmt.keysets": "fmt.profile"},
    ),
    one(
        "bundle/keyset-key-named-otherwise",
        "A key in a keyset under another name than its thumbprint.",
        {"document:gateway-statement": _misnamed},
        {"fmt.keysets": "fmt.profile"},
    ),
    _keyset("role-in-array", "A role in an array: some readers make it text again.", put(role=["gateway"])),
    _keyset("key-off-curve", "A key whose point is not on the curve, under its own thumbprint.", _off_curve),
    _keyset(
        "key-padded", "A key in another spelling, under its own thumbprint.", _padded_key, "fmt.encoding"
    ),
    _keyset("two-receipt-keys", "Two keys for receipts: the reader could choose.", _two_receipt_keys),
    _keyset("key-for-two-uses", "One key for receipts and for results.", _one_key),
    _keyset("key-of-no-use", "A key for a use that the form does not list.", _key_of_no_use),
    _keyset("tls-key-with-more", "A TLS key's entry with a member more.", _tls_key_with_more),
    _keyset("log-key-of-a-witness", "A witness's key where the log's belongs.", _witness_as_log),
    _keyset("log-key-of-another-name", "A log's key under another name than its origin.", _renamed_log),
    _whole(
        "duplicate-member",
        "A member of the file stands twice.",
        lambda data: data.replace(b'{\n "anchors"', b'{\n "typ": "x",\n "anchors"', 1),
    ),
    _whole("cut", "The file ends in the middle.", lambda data: data[: len(data) // 2]),
    _whole("more-after-the-end", "Something stands after the document.", lambda data: data + b"{}"),
    _whole("byte-order-mark", "A byte order mark before the document.", lambda data: b"\xef\xbb\xbf" + data),
    _whole("no-object", "The document in an array.", lambda data: b"[" + data + b"]", _MALFORMED),
    _whole("empty", "An empty file.", lambda _: b""),
    _whole(
        "float",
        "A number with a fraction where none belongs.",
        lambda data: data.replace(b'"checkpoints": {}', b'"checkpoints": {"8": 1.5}', 1),
    ),
)
