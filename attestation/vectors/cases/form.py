"""Class *format*: one spelling for one value, and no member that the profile does not list. All of them are signed."""

from __future__ import annotations

import json
from collections.abc import Callable

from vectors.cases.edits import one, swap
from vectors.making.case import Case
from vectors.making.encoding import canonical
from vectors.making.faults import put, take
from vectors.making.scripts import FETCHED

__all__ = ["CASES"]

_JSON = {"sig.receipts": "fmt.json"}
_PROFILE = {"sig.receipts": "fmt.profile"}


def _bytes(name: str, about: str, change: Callable[[bytes], bytes], refused: dict[str, str] = _JSON) -> Case:
    return one(f"format/{name}", about, {"bytes:inference": change}, refused)


def _members(name: str, about: str, change: Callable[[dict[str, object]], dict[str, object]]) -> Case:
    return one(f"format/{name}", about, {"payload:inference": change}, _PROFILE)


def _reordered(data: bytes) -> bytes:
    members = json.loads(data)
    return json.dumps(dict(reversed(members.items())), separators=(",", ":")).encode()


def _huge(members: dict[str, object]) -> bytes:
    """16 KiB and one byte."""
    members["ext"] = {"urn:n": ""}
    members["ext"] = {"urn:n": "x" * (16 * 1024 + 1 - len(canonical(members)))}
    return canonical(members)


CASES = (
    _bytes(
        "duplicate-member",
        "A member stands twice, with the value that readers expect last.",
        swap(b'"kind":"inference"', b'"kind":"refusal","kind":"inference"'),
    ),
    _bytes("whitespace", "A space in the payload.", swap(b'"st":200', b'"st": 200')),
    _bytes("newline-at-end", "A newline after the payload.", lambda data: data + b"\n"),
    _bytes("unsorted", "Members in another order.", _reordered),
    _bytes("float", "A number with a fraction of zero.", swap(b'"st":200', b'"st":200.0')),
    _bytes("exponent", "A number with an exponent.", swap(b'"st":200', b'"st":2e2')),
    _bytes("leading-zero", "A number with a leading zero.", swap(b'"st":200', b'"st":0200')),
    _bytes("negative-zero", "Minus zero.", swap(b'"epoch":0', b'"epoch":-0')),
    _bytes("beyond-2-53", "A number of 2^53.", swap(b'"epoch":0', b'"epoch":9007199254740992')),
    _bytes("not-a-number", "A number that is none.", swap(b'"st":200', b'"st":NaN')),
    _bytes("escaped", "An escape where none is needed.", swap(b'"echo"', b'"\\u0065cho"')),
    _bytes("lone-surrogate", "Half of a surrogate pair.", swap(b'"echo"', b'"\\ud800"')),
    _bytes("byte-order-mark", "A byte order mark.", lambda data: b"\xef\xbb\xbf" + data),
    _bytes("not-utf-8", "A byte that is not UTF-8.", swap(b'"echo"', b'"ech\xff"')),
    _bytes(
        "nested", "A hundred arrays in each other.", swap(b'"st":200', b'"st":' + b"[" * 100 + b"]" * 100)
    ),
    _bytes("cut", "A payload that ends in the middle.", lambda data: data[:-2]),
    _bytes(
        "no-object",
        "A payload that is an array.",
        lambda data: b"[" + data + b"]",
        {"sig.receipts": "fmt.jws"},
    ),
    _bytes(
        "kind-in-array",
        "A kind in an array: some readers make it text again.",
        swap(b'"kind":"inference"', b'"kind":["inference"]'),
        _PROFILE,
    ),
    one(
        "format/oversize",
        "A payload of 16 KiB and one byte.",
        {"bytes:inference": lambda data: _huge(json.loads(data))},
        {"sig.receipts": "fmt.jws"},
    ),
    _members("unknown-claim", "A member that the profile does not list.", put(nbf=1)),
    _members("unknown-inner-claim", "A member that an object of the profile does not list.", put(res__ok=1)),
    _members(
        "non-ascii-name",
        "A member name that is not ASCII.",
        lambda members: {**members, "k\u0131nd": "inference"},
    ),
    _members("unknown-kind", "A kind that the profile does not list.", put(kind="thought")),
    _members("missing-claim", "Without a member that the profile demands.", take("use")),
    _members("null", "A member that is null.", put(mdl=None)),
    _members(
        "wrong-profile", "Another version of the profile.", put(eat_profile="tag:affiant.dev,2026:receipt/2")
    ),
    _members(
        "profile-of-hardware",
        "The profile of hardware over the class simulated.",
        put(eat_profile="tag:affiant.dev,2026:receipt/1"),
    ),
    _members("true-is-no-number", "A truth value where a number belongs.", put(seq=True)),
    _members("number-as-text", "A number as text.", put(res__st="200")),
    _members("negative", "A number below zero.", put(pol__epoch=-1)),
    _members("short-id", "An id of 21 characters.", put(jti="A" * 21)),
    _members("short-nonce", "A nonce of 22 characters where 32 bytes belong.", put(eat_nonce="A" * 22)),
    _members("control-character", "A terminal escape in a name.", put(mdl__id="echo\x1b[31m")),
    _members("empty-text", "A name without a character.", put(mdl__id="")),
    _members("model-answered-empty", "An answer's model without a character.", put(mdl__ans="")),
    _members("model-answered-number", "An answer's model that is a number.", put(mdl__ans=7)),
    _members(
        "model-answered-control",
        "A terminal escape in the name of an answer's model.",
        put(mdl__ans="\x1b[2J"),
    ),
    _members(
        "request-header-in-capitals", "A forwarded header's name in capitals.", put(req__hdr={"A": "x"})
    ),
    _members(
        "request-header-long", "A forwarded header of 1025 characters.", put(req__hdr={"a": "x" * 1025})
    ),
    _members("fetched-in-clear", "An address that is fetched, not hidden.", put(fet={"tgt": list(FETCHED)})),
    _members(
        "fetched-without-digest", "What is fetched, without the digest that always stands there.", put(fet={})
    ),
    _members("outside-the-set", "An end that the profile does not list.", put(res__end="finished")),
)
