"""A reader of single bundles, written from ``docs/formats/single-bundle.md`` alone: nothing of affiant is imported.

Each function is one section of that page. What it returns is as far as the page says that a reader can get: consistent
under the keys that the bundle brings along, and no trust.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
MAPS = ("keysets", "evidence", "endorsements", "results", "policies", "checkpoints")
LABELS = {
    "quote": ("application/vnd.affiant.tdx-quote", 4),
    "eventlog": ("application/vnd.affiant.eventlog+json", 4),
    "statement": ("application/vnd.affiant.keyset+json", 4),
    "manifest": ("application/vnd.affiant.manifest+json", 4),
    "activation": ("application/vnd.affiant.activation+json", 4),
    "collateral": ("application/vnd.affiant.dcap-collateral+json", 2),
}
OF_A_GATEWAY = {"quote", "eventlog", "statement"}
OF_A_SESSION = OF_A_GATEWAY | {"manifest", "activation"}
EAR_MEMBERS = {
    "eat_profile",
    "ear_status",
    "ear_trustworthiness_vector",
    "ear_appraisal_policy_ids",
    "affiant.dev/appraisal",
}


class Refused(Exception):
    """The bundle is not as the page says."""


def demand(holds: object, what: str) -> None:
    if not holds:
        raise Refused(what)


# Encodings


def from_b64u(text: str) -> bytes:
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    demand(b64u(data) == text, f"base64url: {text[:20]}")
    return data


def b64u(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def link(data: bytes) -> str:
    return b64u(hashlib.sha256(data).digest())


def name(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def named(text: str) -> str:
    """The ``sha256:`` name of what a link names."""
    return "sha256:" + from_b64u(text).hex()


def canonical(value: object) -> bytes:
    """RFC 8785, of values whose member names are ASCII, as all in a bundle are."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    demand(len(dict(pairs)) == len(pairs), "a member twice")
    return dict(pairs)


def no_float(text: str) -> None:
    raise Refused(f"a number that is no integer: {text}")


def strict(data: bytes) -> Any:
    return json.loads(data.decode(), object_pairs_hook=once, parse_float=no_float, parse_constant=no_float)


# A receipt


@dataclass
class Receipt:
    rh: str
    payload: dict[str, Any]
    disclosed: dict[str, Any]
    """Path of the object and name of the member -> value."""


@dataclass
class Read:
    """A bundle that was read."""

    receipts: list[Receipt] = field(default_factory=list)
    proven: dict[str, int] = field(default_factory=dict)
    """Receipt hash -> index in the log."""
    results: list[dict[str, Any]] = field(default_factory=list)
    evidence: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Link of a collection -> label -> bytes."""
    closes: int = 0


def thumbprint(jwk: dict[str, str]) -> str:
    return link(canonical({member: jwk[member] for member in ("crv", "kty", "x", "y")}))


def signed_by(jws: str, jwk: dict[str, str], typ: str) -> dict[str, Any]:
    """The payload of a JWS, after its header, signature and canonical form were checked."""
    header, payload, signature = jws.split(".")
    expected = f'{{"alg":"ES256","kid":"{thumbprint(jwk)}","typ":"{typ}"}}'
    demand(from_b64u(header) == expected.encode(), "header")
    raw = from_b64u(signature)
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    demand(len(raw) == 64 and s <= ORDER // 2, "signature's form")
    x, y = (int.from_bytes(from_b64u(jwk[each]), "big") for each in ("x", "y"))
    key = EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
    key.verify(encode_dss_signature(r, s), f"{header}.{payload}".encode(), ECDSA(SHA256()))
    body = from_b64u(payload)
    value = strict(body)
    demand(len(body) <= 16 * 1024 and canonical(value) == body, "canonical form")
    return dict(value)


def kid_of(jws: str) -> str:
    return str(strict(from_b64u(jws.split(".")[0]))["kid"])


def objects_with_digests(value: Any, path: str = "") -> list[tuple[str, list[str]]]:
    found = []
    if isinstance(value, dict):
        if "_sd" in value:
            found.append((path, value["_sd"]))
        for member, inner in value.items():
            found += objects_with_digests(inner, f"{path}.{member}".lstrip("."))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += objects_with_digests(inner, f"{path}[{index}]")
    return found


def receipt(sdjwt: str, statements: list[dict[str, Any]]) -> Receipt:
    demand(sdjwt.isascii() and sdjwt.endswith("~") and len(sdjwt) <= 64 * 1024, "SD-JWT")
    jws, *disclosures = sdjwt[:-1].split("~")
    kid = kid_of(jws)
    entries = [(each, key) for each in statements for key in each["keys"] if key.get("kid") == kid]
    demand(len(entries) == 1, "kid")
    ((statement, key),) = entries
    demand(key["use"] == {"gateway": "receipt", "session": "session"}[statement["role"]], "use")
    payload = signed_by(jws, key["jwk"], "eat+jwt")
    for member in ("iss", "cls", "role"):
        demand(payload[member] == statement[member], member)
    demand(payload["chn"] in statement["chn"], "chn")
    simulated = "/simulated" if statement["cls"] == "simulated" else ""
    demand(payload["eat_profile"] == f"tag:affiant.dev,2026:receipt/1{simulated}", "eat_profile")
    if payload["seq"] == 0:
        demand(payload["kind"] == "boot", "boot first")
        demand(payload["prev"] == payload["ks"] == keyset_digest(statement), "the boot record's prev")
    else:
        demand(payload["kind"] != "boot", "a second boot")
    places: dict[str, str] = {}
    for path, digests in objects_with_digests(payload):
        demand(payload["_sd_alg"] == "sha-256" and digests == sorted(digests), "_sd")
        places |= dict.fromkeys(digests, path)
    disclosed = {}
    for disclosure in disclosures:
        raw = from_b64u(disclosure)
        salt, member, value = strict(raw)
        demand(canonical([salt, member, value]) == raw and len(from_b64u(salt)) == 16, "disclosure")
        path = places.pop(link(disclosure.encode()), None)
        demand(path is not None, "a disclosure that no _sd names")
        disclosed[f"{path}.{member}".lstrip(".")] = value
    return Receipt(rh=link(jws.encode()), payload=payload, disclosed=disclosed)


def keyset_digest(statement: dict[str, Any]) -> str:
    demand("nonce" in statement, "nonce")
    return link(canonical({member: value for member, value in statement.items() if member != "nonce"}))


# CMW


def collection(raw: bytes, tag: str, *labels: set[str]) -> dict[str, bytes]:
    value = strict(raw)
    demand(canonical(value) == raw and value.pop("__cmwc_t") == tag, "collection")
    demand(set(value) in labels, "labels")
    for label, (media, _, indicator) in value.items():
        demand((media, indicator) == LABELS[label], label)
    return {label: from_b64u(text) for label, (_, text, _) in value.items()}


def evidence(raw: bytes, policies: dict[str, bytes]) -> dict[str, bytes]:
    parts = collection(raw, "tag:affiant.dev,2026:evidence/1", OF_A_GATEWAY, OF_A_SESSION)
    quote, statement = parts["quote"], strict(parts["statement"])
    demand(quote[:2] == b"\x04\x00", "version of the quote")
    reported = hashlib.sha512(b"affiant/keyset/1\n" + parts["statement"]).digest()
    demand(quote[568:632] == reported, "REPORTDATA")
    demand(("manifest" in parts) == (statement["role"] == "session"), "role")
    if "manifest" not in parts:
        config = policies[statement["policy"]]
        demand(quote[232:280] == hashlib.sha384(config).digest(), "MRCONFIGID")
        demand(strict(config)["typ"] == "affiant-gateway-config/1", "typ")
        return parts
    demand(
        statement["man"] == link(parts["manifest"]) and statement["act"] == link(parts["activation"]),
        "man, act",
    )
    profile = strict(parts["manifest"])["profile"]["dig"]
    forms = [raw for raw in policies.values() if strict(raw).get("semantics") == "affiant.policy/1"]
    found = ["sha384:" + hashlib.sha384(b"affiant.policy/1\n" + raw).hexdigest() for raw in forms]
    demand(profile in found, "profile")
    events = [event for event in strict(parts["eventlog"])["events"] if event["rtmr"] == 3]
    order = [event["name"] for event in events]
    first = ["affiant-manifest", "affiant-profile", "affiant-images", "affiant-activate", "affiant-ready"]
    demand(order[:5] == first and set(order[5:]) <= {"affiant-policy"}, "RTMR3's events")
    register = bytes(48)
    for event in events:
        fact = {"typ": "affiant-event/1", "name": event["name"], "payload": event["payload"]}
        register = hashlib.sha384(register + hashlib.sha384(canonical(fact)).digest()).digest()
    demand(register in quote[48:632], "RTMR3")
    return parts


# EAR


def result(text: str, statements: list[dict[str, Any]]) -> dict[str, Any]:
    kid = kid_of(text)
    (key,) = (
        key["jwk"]
        for each in statements
        for key in each["keys"]
        if key.get("kid") == kid and key["use"] == "ear"
    )
    payload = signed_by(text, key, "affiant-ear+jwt")
    demand(set(payload) == {"eat_profile", "iss", "iat", "ear_verifier_id", "submods"}, "members of an EAR")
    demand(payload["eat_profile"] == "tag:ietf.org,2026:rats/ear#04", "profile of an EAR")
    demand(payload["ear_verifier_id"].keys() == {"developer", "build"}, "verifier_id")
    ((peer, said),) = payload["submods"].items()
    demand(peer == "session" and said.keys() == EAR_MEMBERS, "submods")
    demand(said["eat_profile"] == "tag:affiant.dev,2026:ear/2", "profile of the submodule")
    appraised = said["affiant.dev/appraisal"]
    demand(appraised.keys() == {"evd", "col", "cls", "tcb", "until"}, "extension")
    demand(appraised["cls"] == "hardware" or said["ear_status"] == "none", "status")
    vector = said["ear_trustworthiness_vector"]
    demand(vector and set(vector.values()) <= {0, 2, 32}, "vector")
    return dict(said)


# Log


def leaf(receipt: Receipt, codes: dict[str, int]) -> bytes:
    claims = receipt.payload
    return b"".join(
        [
            bytes([1, codes[claims["kind"]]]),
            from_b64u(claims["chn"]),
            claims["seq"].to_bytes(8, "big"),
            claims["iat"].to_bytes(8, "big"),
            from_b64u(receipt.rh),
        ]
    )


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def included(proof: str, data: bytes, vkey: str) -> int:
    """The index of a leaf in the tree that the log has signed."""
    head, note = proof.split("\n\n", 1)
    first, index_line, *hashes = head.split("\n")
    demand(first == "c2sp.org/tlog-proof@v1" and index_line.startswith("index "), "proof")
    text, signatures = note.split("\n\n", 1)
    text += "\n"
    origin, size_line, root, *_ = text.split("\n")
    index, size = int(index_line.removeprefix("index ")), int(size_line)
    demand(index < size, "index")
    digest, fn, sn = hashlib.sha256(b"\x00" + data).digest(), index, size - 1
    for each in map(base64.b64decode, hashes):  # RFC 9162, section 2.1.3.2
        demand(sn > 0, "too many hashes")
        if fn & 1 or fn == sn:
            digest = node(each, digest)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            digest = node(digest, each)
        fn, sn = fn >> 1, sn >> 1
    demand(sn == 0 and digest == base64.b64decode(root), "root")
    key_name, key_id, key = vkey.split("+", 2)
    algorithm, public = base64.b64decode(key)[:1], base64.b64decode(key)[1:]
    derived = hashlib.sha256(key_name.encode() + b"\n\x01" + public).digest()[:4]
    demand(algorithm == b"\x01" and derived.hex() == key_id and key_name == origin, "vkey")
    of_log = [line.split(" ") for line in signatures.splitlines() if line.startswith(f"\u2014 {origin} ")]
    (signature,) = (base64.b64decode(value) for _, _, value in of_log)
    demand(signature[:4] == derived, "key id")
    Ed25519PublicKey.from_public_bytes(public).verify(signature[4:], text.encode())
    return index


def tree_root(leaves: list[bytes]) -> bytes:
    """RFC 9162, section 2.1.1."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return node(tree_root(leaves[:half]), tree_root(leaves[half:]))


# The file


def read(data: bytes, codes: dict[str, int]) -> Read:
    """Read a bundle. ``codes``: kind -> leaf code, as the table of record kinds has them."""
    bundle = strict(data)
    demand(bundle.keys() == {"typ", "receipts", "anchors", *MAPS}, "members")
    demand(bundle["typ"] == "application/vnd.affiant.bundle.v1+json", "typ")
    demand(bundle["anchors"].keys() == {"tsr", "sigstore"}, "anchors")
    maps = {each: {key: from_b64u(text) for key, text in bundle[each].items()} for each in MAPS}
    for objects in maps.values():
        for key, raw in objects.items():
            demand(name(raw) == key, key)
    statements = [strict(raw) for raw in maps["keysets"].values()]
    found = Read()
    found.evidence = {link(raw): evidence(raw, maps["policies"]) for raw in maps["evidence"].values()}
    for raw in maps["endorsements"].values():
        collection(raw, "tag:affiant.dev,2026:endorsements/1", {"collateral"})
    found.results = [result(raw.decode("ascii"), statements) for raw in maps["results"].values()]
    sessions = {each["iss"].rpartition(":")[2] for each in statements if each["role"] == "session"}
    (vkey,) = {each["log"]["vkey"] for each in statements if each["log"] is not None}
    for entry in bundle["receipts"]:
        one = receipt(entry["sdjwt"], statements)
        found.receipts.append(one)
        demand(one.payload["evd"] in found.evidence, "evd")
        if entry["proof"] is not None:
            found.proven[one.rh] = included(entry["proof"], leaf(one, codes), vkey)
        if "cp" in one.payload:
            note = maps["checkpoints"][named(one.payload["cp"])].decode()
            demand(int(note.split("\n")[1]) == one.payload["cps"], "cps")
        beside = one.payload.get("agt", {}).get("ses") not in sessions
        if "ses" in one.payload.get("att", {}) and not beside:
            rests_on(one, maps, statements, found)
    chains(found)
    closes(found)
    return found


def rests_on(
    one: Receipt, maps: dict[str, dict[str, bytes]], statements: list[dict[str, Any]], found: Read
) -> None:
    """The attestation result that a record names, and the objects that it names in turn."""
    named_result = one.payload["att"]["ses"]
    said = result(maps["results"][named(named_result["ear"])].decode("ascii"), statements)
    demand(said["ear_status"] == named_result["tier"], "tier")
    appraised = said["affiant.dev/appraisal"]
    demand(appraised["evd"] == one.payload["agt"]["evd"] and appraised["evd"] in found.evidence, "evd")
    demand(named(appraised["col"]) in maps["endorsements"], "col")
    (reference,) = said["ear_appraisal_policy_ids"]
    demand(strict(maps["policies"][reference])["typ"] == "affiant-reference-values/1", "typ")


def chains(found: Read) -> None:
    here = {(one.payload["chn"], one.payload["seq"]): one for one in found.receipts}
    demand(len(here) == len(found.receipts), "a number twice")
    for (chn, seq), one in here.items():
        before = here.get((chn, seq - 1))
        demand(before is None or one.payload["prev"] == before.rh, "prev")
        if (peer := one.payload.get("peer")) is None:
            continue
        if (other := here.get((peer["chn"], peer["seq"]))) is not None:
            demand(other.rh == peer["rh"] and other.payload["role"] != one.payload["role"], "peer")


def closes(found: Read) -> None:
    for close in found.receipts:
        if close.payload["kind"] != "session-close":
            continue
        of_session = [
            one
            for one in found.receipts
            if one.payload["role"] == "gateway"
            and one.payload.get("agt", {}).get("ses") == close.payload["agt"]["ses"]
        ]
        ordered = sorted(
            (one for one in of_session if one is not close), key=lambda one: int(one.payload["agt"]["seq"])
        )
        if len(ordered) != close.payload["n"]:
            continue  # records were erased
        head = ordered[-1]
        demand(
            close.payload["head"] == {"chn": head.payload["chn"], "seq": head.payload["seq"], "rh": head.rh},
            "head",
        )
        demand(close.payload["root"] == b64u(tree_root([from_b64u(one.rh) for one in ordered])), "root")
        found.closes += 1
