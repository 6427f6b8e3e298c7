"""Class *log*: a receipt is where its proof says, in the log that the gateway's quote binds."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from vectors.cases.edits import one
from vectors.making import tree
from vectors.making.case import Case
from vectors.making.documents import ORIGIN
from vectors.making.faults import Fault, put
from vectors.making.keys import ed25519_key, seeded
from vectors.making.scripts import session
from vectors.making.story import Story

__all__ = ["CASES"]

_INCLUSION = {"log.inclusion": "log.inclusion"}
_PROOF = {"log.inclusion": "log.proof"}
_NOTE = {"log.inclusion": "note.signature"}
_MALFORMED = {"log.inclusion": "note.malformed"}
_LINE = base64.b64encode(hashlib.sha256(b"a hash more").digest()).decode()


def _text(old: str, new: str) -> Fault:
    def fault(proof: str) -> str:
        if old not in proof:
            raise ValueError(f"not there: {old!r}")
        return proof.replace(old, new, 1)

    return fault


def _lines(change: Any) -> Fault:
    """Change the hashes of a proof."""

    def fault(proof: str) -> str:
        head, _, rest = proof.partition("\n\n")
        header, index, *hashes = head.split("\n")
        return "\n".join([header, index, *change(hashes)]) + "\n\n" + rest

    return fault


def _stranger(text: str) -> str:
    """The note, signed by a key of the same name."""
    return tree.note(text.partition("\n\n")[0] + "\n", ORIGIN, ed25519_key("another log"))


def _collision(text: str) -> str:
    """The log's name and key id, over a stranger's signature."""
    true = base64.b64decode(text.rpartition(" ")[2])
    other = base64.b64decode(_stranger(text).rpartition(" ")[2])
    line = base64.b64encode(true[:4] + other[4:]).decode("ascii")
    return text.rpartition(" ")[0] + f" {line}\n"


def _cut(note: str) -> str:
    return note.partition("\n\n")[0] + "\n\n"


def _again(text: str) -> str:
    """One signature line twice."""
    return text + text.rpartition("\n\n")[2]


def _leaf(**changes: Any) -> Fault:
    """The log holds a leaf with another field."""
    names = ("code", "chn", "seq", "iat", "rh")

    def fault(fields: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(changes.get(name, value) for name, value in zip(names, fields, strict=True))

    return fault


def _bare(hashes: list[bytes]) -> list[bytes]:
    """A tree over leaves that were hashed as nodes are."""
    return [hashlib.sha256(b"\x01" + each).digest() for each in hashes]


class _Twice(Story):
    """A log that shows two readers two trees."""

    def proofs(self) -> dict[str, str]:
        proofs = super().proofs()
        other = [*self.leaves()[:-1], hashlib.sha256(b"\0another leaf").digest()]
        text = tree.checkpoint(ORIGIN, len(other), tree.root(other))
        record = self.records[3]
        note = tree.note(text, ORIGIN, ed25519_key("log"))
        return {**proofs, record.rh: tree.proof(3, tree.path(other, 3), note)}


def _split_view() -> dict[str, Any]:
    story = _Twice()
    session(story)
    return story.bundle()


class _Grown(Story):
    """One proof is under a later checkpoint of the same tree."""

    def proofs(self) -> dict[str, str]:
        proofs = super().proofs()
        later = [*self.leaves(), *(seeded(f"a later leaf {number}", 32) for number in range(3))]
        text = tree.checkpoint(ORIGIN, len(later), tree.root(later))
        note = tree.note(text, ORIGIN, ed25519_key("log"))
        return {**proofs, self.records[3].rh: tree.proof(3, tree.path(later, 3), note)}


def _two_sizes() -> dict[str, Any]:
    story = _Grown()
    session(story)
    return story.bundle()


class _OnePlace(Story):
    """A second tree in which another record has the fourth one's place."""

    def proofs(self) -> dict[str, str]:
        proofs = super().proofs()
        hashes = self.leaves()
        hashes[3], hashes[4] = hashes[4], hashes[3]
        text = tree.checkpoint(ORIGIN, len(hashes), tree.root(hashes))
        note = tree.note(text, ORIGIN, ed25519_key("log"))
        return {**proofs, self.records[4].rh: tree.proof(3, tree.path(hashes, 3), note)}


def _one_place() -> dict[str, Any]:
    story = _OnePlace()
    session(story)
    return story.bundle()


def _receipts(change: Any) -> dict[str, Fault]:
    def fault(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        change(receipts)
        return receipts

    return {"receipts": fault}


def _exchange(receipts: list[dict[str, Any]]) -> None:
    receipts[1]["proof"], receipts[2]["proof"] = receipts[2]["proof"], receipts[1]["proof"]


def _lacks_one(receipts: list[dict[str, Any]]) -> None:
    receipts[2]["proof"] = None


def _origin_in_configuration(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"origin": "another.log.invalid"}


def _made(name: str, about: str, make: Any, refused: dict[str, str], **more: Any) -> Case:
    return Case(name, about, make, "valid/inference", refused, **more)


CASES = (
    one(
        "log/index-of-another-leaf",
        "The proof names its neighbour's index.",
        {"proof:inference": _text("index 5\n", "index 4\n")},
        _INCLUSION,
    ),
    one(
        "log/index-beyond-the-tree",
        "The proof names an index that the checkpoint's tree does not have.",
        {"proof:inference": _text("index 5\n", "index 8\n")},
        _PROOF,
    ),
    one(
        "log/index-negative",
        "An index below zero.",
        {"proof:inference": _text("index 5\n", "index -3\n")},
        _PROOF,
    ),
    one(
        "log/index-leading-zero",
        "Another spelling of the index.",
        {"proof:inference": _text("index 5\n", "index 05\n")},
        _PROOF,
    ),
    one(
        "log/another-size",
        "The log signed another number of leaves over this root.",
        {"tree": lambda tree_: (tree_[0] + 1, tree_[1])},
        _PROOF,
    ),
    one(
        "log/another-root",
        "The log signed another root.",
        {"tree": lambda tree_: (tree_[0], hashlib.sha256(b"another root").digest())},
        _INCLUSION,
    ),
    one(
        "log/truncated-proof",
        "A proof without its last hash.",
        {"proof:inference": _lines(lambda hashes: hashes[:-1])},
        _PROOF,
    ),
    one(
        "log/extra-hash",
        "A proof with a hash more.",
        {"proof:inference": _lines(lambda hashes: [*hashes, _LINE])},
        _PROOF,
    ),
    one(
        "log/reversed-hashes",
        "The hashes from the root down.",
        {"proof:inference": _lines(lambda hashes: hashes[::-1])},
        _INCLUSION,
    ),
    one(
        "log/no-hashes",
        "A proof without a hash, as of a tree of one leaf.",
        {"proof:inference": _lines(lambda _: [])},
        _PROOF,
    ),
    one(
        "log/node-for-leaf",
        "A tree over leaves that were hashed as nodes are.",
        {"leaves": _bare},
        _INCLUSION,
    ),
    one(
        "log/leaf-kind",
        "The log holds a leaf of another kind.",
        {"leaf:inference": _leaf(code=3)},
        _INCLUSION,
    ),
    one(
        "log/leaf-number",
        "The log holds a leaf of another number.",
        {"leaf:inference": _leaf(seq=9)},
        _INCLUSION,
    ),
    one(
        "log/leaf-time", "The log holds a leaf of another time.", {"leaf:inference": _leaf(iat=1)}, _INCLUSION
    ),
    one(
        "log/leaf-chain",
        "The log holds a leaf of another chain.",
        {"leaf:inference": _leaf(chn=seeded("another chain", 16))},
        _INCLUSION,
    ),
    one(
        "log/leaf-hash",
        "The log holds a leaf of another receipt.",
        {"leaf:inference": _leaf(rh=seeded("another receipt", 32))},
        _INCLUSION,
    ),
    one("log/exchanged", "Two receipts have each other's proof.", _receipts(_exchange), _INCLUSION),
    one(
        "log/unknown-origin",
        "A checkpoint of another log, signed by this log's key.",
        {"origin": lambda _: "another.log.invalid"},
        {"log.inclusion": "log.unbound"},
    ),
    one(
        "log/unsigned-checkpoint",
        "A checkpoint without a signature line.",
        {"note": _cut},
        _MALFORMED,
    ),
    one(
        "log/stranger",
        "A checkpoint signed by another key under this log's name.",
        {"note": _stranger},
        _NOTE,
    ),
    one(
        "log/key-id-collision",
        "A stranger's signature under the name and the key id of the log.",
        {"note": _collision},
        _NOTE,
    ),
    one(
        "log/signature-of-another-tree",
        "The line of the log's key under another root.",
        {"note": lambda text: text.replace("\n8\n", "\n9\n", 1)},
        _NOTE,
    ),
    one(
        "log/extension-line-added",
        "A line more in the checkpoint than the log has signed.",
        {"note": _text("\n\n", "\nan extension\n\n")},
        _NOTE,
    ),
    one("log/signed-twice", "One signature line, twice.", {"note": _again}, _MALFORMED),
    one(
        "log/empty-tree-with-a-root",
        "No leaves, and a root that is not that of no leaves.",
        {"tree": lambda tree_: (0, tree_[1])},
        {"log.inclusion": "checkpoint.malformed"},
    ),
    one(
        "log/size-spelled-otherwise",
        "A signed checkpoint whose size has a leading zero.",
        {"checkpoint": _text("\n8\n", "\n08\n")},
        {"log.inclusion": "checkpoint.malformed"},
    ),
    one(
        "log/proof-of-another-version",
        "Another version of the proof's form.",
        {"proof:inference": _text("@v1", "@v2")},
        _PROOF,
    ),
    one(
        "log/hash-spelled-otherwise",
        "A hash without its padding.",
        {"proof:inference": _lines(lambda hashes: [hashes[0].rstrip("="), *hashes[1:]])},
        _PROOF,
    ),
    one("log/no-proof", "Text that is no proof.", {"proof:inference": lambda _: "no proof"}, _PROOF),
    _made(
        "log/split-view",
        "Two roots over one number of leaves, both signed by the log.",
        _split_view,
        {"log.consistency": "log.split_view"},
    ),
    _made(
        "log/two-at-one-index",
        "Two receipts at one index, by two checkpoints that the log signed.",
        _one_place,
        {"log.inclusion": "log.split_view"},
    ),
    _made(
        "log/two-sizes",
        "Checkpoints of two sizes: one tree or a rollback, and nothing here to tell which.",
        _two_sizes,
        {},
        not_made=("log.consistency",),
    ),
    one(
        "log/one-without-proof",
        "One receipt has no proof.",
        _receipts(_lacks_one),
        {},
        not_made=("log.inclusion",),
    ),
    one(
        "log/not-accepted",
        "The trust file names another log's key.",
        None,
        {"log.inclusion": "log.not_accepted"},
        trust="trust-log-other.json",
        attested=False,
    ),
    one(
        "log/keyset-of-another-log",
        "Keyset and configuration name different logs.",
        {"document:config": _origin_in_configuration},
        {"conf.bound": "conf.unbound"},
    ),
    one(
        "log/keyset-without-log",
        "A gateway's keyset that names no log.",
        {"document:gateway-statement": put(log=None)},
        {"fmt.keysets": "fmt.profile"},
    ),
    one(
        "log/key-of-another-name",
        "The log's key in the keyset is of another name than its origin.",
        {"document:gateway-statement": put(log__origin="another.log.invalid")},
        {"fmt.keysets": "fmt.profile"},
    ),
)
