"""Class *disclosure*: what a receipt commits to, and what may be shown of it (RFC 9901)."""

from __future__ import annotations

from typing import Any

from vectors.cases.edits import one, opened, tail
from vectors.making.encoding import b64u, canonical, link
from vectors.making.faults import Fault, put
from vectors.making.keys import seeded
from vectors.making.records import disclosure
from vectors.making.scripts import FETCHED

__all__ = ["CASES"]

_INVALID = {"sig.receipts": "sd.invalid"}
_PROFILE = {"sig.receipts": "fmt.profile"}
_RECEIPT = {"sig.receipts": "fmt.receipt"}


def _at(name: str, texts: list[str]) -> int:
    return next(at for at, text in enumerate(texts) if opened(text)[1] == name)


def _edit(name: str, change: Any) -> Fault:
    """Another disclosure in place of the first one of this name."""

    def fault(texts: list[str]) -> list[str]:
        at = _at(name, texts)
        return [*texts[:at], change(texts[at]), *texts[at + 1 :]]

    return tail(fault)


def _value(text: str) -> str:
    salt, name, _ = opened(text)
    return b64u(canonical([salt, name, "sha256:" + "0" * 64]))


def _salt(text: str) -> str:
    _, name, value = opened(text)
    return b64u(canonical([b64u(seeded("another salt", 16)), name, value]))


def _committed(text: str) -> dict[str, Fault]:
    """A disclosure, committed to in ``agt`` by the signed payload in place of a decoy, and shown."""
    own = link(disclosure("gateway inference agt.id", "id", "implementer").encode())

    def payload(members: dict[str, Any]) -> dict[str, Any]:
        decoy = next(digest for digest in members["agt"]["_sd"] if digest != own)
        digests = [digest for digest in members["agt"]["_sd"] if digest != decoy]
        members["agt"]["_sd"] = sorted([*digests, link(text.encode())])
        return members

    return {"payload:inference": payload, "sent:inference": tail(lambda texts: [*texts, text])}


def _decoys(count: int) -> Fault:
    def payload(members: dict[str, Any]) -> dict[str, Any]:
        own = members["agt"]["_sd"]
        more = [link(seeded(f"decoy {number}", 32)) for number in range(8)]
        members["agt"]["_sd"] = sorted([*own, *more][:count])
        return members

    return payload


def _everywhere(members: dict[str, Any]) -> dict[str, Any]:
    """A digest of ``agt`` stands in ``res`` too."""
    digest = members["agt"]["_sd"][0]
    members["res"]["_sd"] = sorted([digest, *members["res"]["_sd"][1:]])
    return members


def _unsorted(members: dict[str, Any]) -> dict[str, Any]:
    members["res"]["_sd"] = members["res"]["_sd"][::-1]
    return members


def _set(member: str, value: Any) -> Fault:
    def payload(members: dict[str, Any]) -> dict[str, Any]:
        members[member] = value
        return members

    return payload


def _salted(name: str, value: Any, salt: bytes | None = None) -> str:
    return b64u(canonical([b64u(salt if salt is not None else seeded("a salt", 16)), name, value]))


_FOREIGN = disclosure("gateway start agt.user", "user", "nobody")

CASES = (
    one(
        "disclosure/value-altered",
        "The request's digest, as disclosed, is another.",
        {"sent:inference": _edit("dig", _value)},
        _INVALID,
    ),
    one(
        "disclosure/fetched-altered",
        "The address that the model server may fetch, as disclosed, is another.",
        {
            "members:inference": put(fet={}),
            "hidden:inference": put(fet={"tgt": list(FETCHED)}),
            "sent:inference": _edit("tgt", _value),
        },
        _INVALID,
        base="valid/fetched",
    ),
    one(
        "disclosure/fetched-nowhere",
        "An empty list of addresses, committed to: where there is none, nothing is disclosed.",
        {"members:inference": put(fet={}), "hidden:inference": put(fet={"tgt": []})},
        _PROFILE,
        base="valid/fetched",
    ),
    one(
        "disclosure/salt-altered",
        "The salt, as disclosed, is another.",
        {"sent:inference": _edit("dig", _salt)},
        _INVALID,
    ),
    one(
        "disclosure/unreferenced",
        "A disclosure that no digest commits to.",
        {"sent:inference": tail(lambda texts: [*texts, _salted("ten", "another tenant")])},
        _INVALID,
    ),
    one(
        "disclosure/given-twice",
        "One disclosure, given twice.",
        {"sent:inference": tail(lambda texts: [*texts, texts[0]])},
        _INVALID,
    ),
    one(
        "disclosure/of-another-receipt",
        "A disclosure of the start record, shown with the inference.",
        {"sent:inference": tail(lambda texts: [*texts, _FOREIGN])},
        _INVALID,
    ),
    one(
        "disclosure/empty",
        "A disclosure without a character.",
        {"sent:inference": lambda text: text + "~"},
        _INVALID,
    ),
    one(
        "disclosure/repeated-digest",
        "One digest in two objects of the signed payload.",
        {"payload:inference": _everywhere, "sent:inference": tail(lambda _: [])},
        _INVALID,
    ),
    one(
        "disclosure/unsorted-digests",
        "Digests in the order of their members, which would tell which is which.",
        {"payload:inference": _unsorted},
        _PROFILE,
    ),
    one(
        "disclosure/too-few-digests",
        "Two digests where there are always three: absence would tell.",
        {"payload:inference": _decoys(2), "sent:inference": tail(lambda _: [])},
        _PROFILE,
    ),
    one(
        "disclosure/too-many-digests",
        "Four digests where there are always three.",
        {"payload:inference": _decoys(4)},
        _PROFILE,
    ),
    one(
        "disclosure/reserved-name-sd",
        "A disclosed member called `_sd`.",
        _committed(_salted("_sd", [])),
        _INVALID,
    ),
    one(
        "disclosure/reserved-name-dots",
        "A disclosed member called `...`.",
        _committed(_salted("...", "x")),
        _INVALID,
    ),
    one(
        "disclosure/member-in-clear",
        "A disclosure of a member that stands in clear.",
        _committed(_salted("iso", "vm")),
        _INVALID,
    ),
    one(
        "disclosure/unknown-member",
        "A disclosure of a member that the object does not have.",
        _committed(_salted("role", "admin")),
        _INVALID,
    ),
    one(
        "disclosure/one-member-twice",
        "Two disclosures, both committed to, for one member: the reader could choose.",
        _committed(_salted("id", "another agent")),
        _INVALID,
    ),
    one(
        "disclosure/short-salt",
        "A salt of 8 bytes.",
        _committed(_salted("ten", "vectors", seeded("short", 8))),
        _INVALID,
    ),
    one(
        "disclosure/array-element",
        "A disclosure of an array's element, which the profile does not know.",
        _committed(b64u(canonical([b64u(seeded("a salt", 16)), "vectors"]))),
        _INVALID,
    ),
    one(
        "disclosure/object",
        "A disclosure that is an object with three members, committed to.",
        _committed(b64u(canonical({"0": b64u(seeded("a salt", 16)), "1": "ten", "2": "vectors"}))),
        _INVALID,
    ),
    one(
        "disclosure/name-in-array",
        "A member's name in an array of its own, committed to: some readers make it text again.",
        _committed(b64u(canonical([b64u(seeded("a salt", 16)), ["ten"], "vectors"]))),
        _INVALID,
    ),
    one(
        "disclosure/salt-no-text",
        "A salt that is a number, committed to.",
        _committed(b64u(canonical([7, "ten", "vectors"]))),
        _INVALID,
    ),
    one(
        "disclosure/not-canonical",
        "A disclosure with a space in it, committed to as it is.",
        _committed(b64u(canonical([b64u(seeded("a salt", 16)), "ten", "v"]).replace(b",", b", ", 1))),
        {"sig.receipts": "fmt.json"},
    ),
    one(
        "disclosure/value-of-another-shape",
        "A tenant that is a number, committed to.",
        _committed(_salted("ten", 7)),
        _PROFILE,
    ),
    one(
        "disclosure/padding",
        "A disclosure with padding, committed to as it is.",
        _committed(_salted("ten", "vectors") + "="),
        {"sig.receipts": "fmt.encoding"},
    ),
    one(
        "disclosure/padding-unreferenced",
        "A disclosure with padding that no digest commits to: its spelling is judged first.",
        {"sent:inference": tail(lambda texts: [*texts, _salted("ten", "another tenant") + "="])},
        {"sig.receipts": "fmt.encoding"},
    ),
    one(
        "disclosure/reserved-name-inside-a-value",
        "A disclosed value that hides further digests: `_sd` inside of it.",
        {
            "hidden:inference": lambda hidden: {**hidden, "mdl": {"prm": {"_sd": link(b"what else")}}},
        },
        _PROFILE,
    ),
    one(
        "disclosure/algorithm",
        "Another `_sd_alg`.",
        {"payload:inference": _set("_sd_alg", "sha-512")},
        _PROFILE,
    ),
    one(
        "disclosure/too-long",
        "A receipt of 64 KiB and one character with its disclosures, all but the true ones empty.",
        {"sent:inference": lambda text: text + "~" * (64 * 1024 + 1 - len(text))},
        _RECEIPT,
    ),
    one(
        "disclosure/no-last-tilde",
        "An SD-JWT without the tilde at its end.",
        {"sent:inference": lambda text: text[:-1]},
        _RECEIPT,
    ),
    one(
        "disclosure/no-tilde-at-all",
        "A JWS alone.",
        {"sent:inference": lambda text: text.partition("~")[0]},
        _RECEIPT,
    ),
    one(
        "disclosure/key-binding",
        "A key binding JWT at the end, which no receipt has.",
        {"sent:inference": lambda text: text + text.partition("~")[0]},
        _RECEIPT,
    ),
)
