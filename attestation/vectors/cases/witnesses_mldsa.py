"""Class *witness*, with ML-DSA-44 keys (FIPS 204): what a line of theirs says, and the one spelling of a signature.

The trust file wants two of five witnesses, and pins the log. In every tampered case one line of Ed25519 holds, so that
the line of ML-DSA-44 decides; a verifier that passes over it finds too few, and one that believes it finds a quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vectors.making import tree
from vectors.making.case import Case, told
from vectors.making.documents import ORIGIN, START
from vectors.making.faults import Fault
from vectors.making.keys import ed25519_key
from vectors.making.mldsa44 import HINT_BYTES, MAX_HINTS
from vectors.making.trust import WITNESSED_MLDSA
from vectors.making.witnesses_mldsa import MLDSA, cosigned, message, mldsa_line, seen_boot, stated, true_line

__all__ = ["CASES"]

_BASE = "valid/witnessed-mldsa"
_SIGNATURE = {"wit.quorum": "note.signature"}
_NO_SESSION = (
    *(f"session.{name}" for name in ("start", "order", "counter", "close", "peer", "intents", "decisions")),
    *("session.supervisor", "pol.bound", "peer.bound"),
)
_BEFORE = cosigned({"a": -3, "m": -2})
_AFTER = 61
"""Seconds after the begin at which the witness saw the whole tree; the other one: a second before."""


def _case(name: str, about: str, note: Fault, *, before: Fault = _BEFORE, **how: Any) -> Case:
    """``note``: the lines of the last checkpoint; ``before``: those of the one that the keyset statement names."""
    make = told({"note": note, "document:gateway-statement": stated(before)}, seen_boot(before))
    how["not_made"] = (*_NO_SESSION, *how.get("not_made", ()))
    return Case(name, about, make, trust=WITNESSED_MLDSA, attested=False, **how)


def _text(note: str) -> str:
    return note.partition("\n\n")[0] + "\n"


def _with(line: Callable[[str], str]) -> Fault:
    """A true line of Ed25519, and another one."""
    return lambda note: cosigned({"a": _AFTER - 1})(note) + line(_text(note))


def _over(**otherwise: Any) -> Fault:
    """The other line is over a message in which something is otherwise."""
    return _with(lambda text: mldsa_line(message(text, START + _AFTER, **otherwise), _AFTER))


def _signed(**how: Any) -> Fault:
    """The other line is over the true message, and signed or spelled otherwise."""
    return _with(lambda text: mldsa_line(message(text, START + _AFTER), _AFTER, **how))


def _dated(signed: int, named: int | None) -> Fault:
    """The line names one time, and another one was signed."""
    return _with(lambda text: mldsa_line(message(text, signed), named))


def _flipped(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


def _spelled(change: Callable[[bytearray], Mapping[int, int]]) -> Fault:
    """Bytes of the hints set anew: 80 places, then where each of four rows ends."""

    def changed(signature: bytes) -> bytes:
        hints = bytearray(signature[-HINT_BYTES:])
        assert hints[MAX_HINTS] >= 2, "the first row has two hints"
        assert hints[-2] < hints[-1] < MAX_HINTS - 1, "the last row has one, and there is room after it"
        for at, value in change(hints).items():
            hints[at] = value
        return signature[:-HINT_BYTES] + hints

    return _signed(changed=changed)


def _extended(note: str) -> str:
    """The log adds a line of its own; the witness of ML-DSA-44 had cosigned the tree without it."""
    text = _text(note) + "a line of the log\n"
    signed = tree.note(text, ORIGIN, ed25519_key("log"))
    return signed + true_line(text, "a", _AFTER - 1) + true_line(_text(note), "m", _AFTER)


def _flipped_line(text: str, after: int = _AFTER) -> str:
    return mldsa_line(message(text, START + after), after, changed=_flipped(0))


_FORGED: tuple[tuple[str, str, Fault], ...] = (
    (
        "challenge-flipped",
        "A bit of the signature's challenge is flipped.",
        _with(_flipped_line),
    ),
    ("response-flipped", "A bit of the signature's response is flipped.", _signed(changed=_flipped(1000))),
    (
        "hint-left-out",
        "The last hint is left out: well spelled, and another commitment.",
        _spelled(lambda hints: {hints[-1] - 1: 0, HINT_BYTES - 1: hints[-1] - 1}),
    ),
    (
        "hints-exchanged",
        "Two hints of one row in the other order: the same hints, and a second spelling of one signature.",
        _spelled(lambda hints: {0: hints[1], 1: hints[0]}),
    ),
    (
        "hint-twice",
        "The last hint stands twice: the same hints again.",
        _spelled(lambda hints: {hints[-1]: hints[hints[-1] - 1], HINT_BYTES - 1: hints[-1] + 1}),
    ),
    (
        "hint-padding",
        "A byte after the last hint is not zero.",
        _spelled(lambda _: {MAX_HINTS - 1: 1}),
    ),
    (
        "hint-row-ends-late",
        "The second row ends after the third.",
        _spelled(lambda hints: {MAX_HINTS + 1: hints[MAX_HINTS + 2] + 1}),
    ),
    (
        "response-too-large",
        "The response has a coefficient that no signer gives away; everything else holds.",
        _signed(in_range=False),
    ),
    ("cut-short", "The signature is a byte too short.", _signed(changed=lambda data: data[:-1])),
    ("longer", "The signature is a byte too long.", _signed(changed=lambda data: data + b"\0")),
    ("with-context", "The signature is one with a context; a cosignature has none.", _signed(context=b"c")),
    ("forged", "Signed by another key, under the witness's key id.", _signed(key="somebody")),
    (
        "time-changed",
        "The line names a time a minute before the one that was signed.",
        _dated(START + _AFTER, _AFTER - 60),
    ),
    (
        "time-missing",
        "The time zero, and signed so: a statement about a tree, but not of when it was the largest.",
        _dated(0, None),
    ),
    ("of-another-size", "Signed over a tree of another size.", _over(size=3)),
    ("of-another-tree", "Signed over another root of the same size.", _over(root=bytes(32))),
    ("of-another-log", "Signed over the same tree of another log.", _over(origin="log.invalid/another")),
    ("of-another-witness", "Signed under another witness's name.", _over(name=MLDSA["long"])),
    (
        "of-a-subtree",
        "Signed over the second leaf alone: the subtree from 1 to the same end.",
        _over(start=1),
    ),
    (
        "of-the-text",
        "Signed over what an Ed25519 witness signs.",
        _with(
            lambda text: mldsa_line(f"cosignature/v1\ntime {START + _AFTER}\n{text}".encode(), _AFTER),
        ),
    ),
    (
        "name-too-long",
        "A witness whose name has 257 bytes signs a length that wraps around: the message has no room for the name.",
        _with(lambda text: true_line(text, "longer", _AFTER)),
    ),
)

CASES: tuple[Case, ...] = (
    _case(
        _BASE,
        "A witness of Ed25519 and one of ML-DSA-44 cosigned the log, before its gateway's boot and after it.",
        cosigned({"a": _AFTER - 1, "m": _AFTER}),
    ),
    _case(
        "valid/witnessed-mldsa-alone",
        "Two witnesses of ML-DSA-44, of whom one has a name of 255 bytes.",
        cosigned({"long": _AFTER - 1, "m": _AFTER}),
        stored_from=_BASE,
    ),
    _case(
        "valid/witnessed-mldsa-extension",
        "A cosignature of ML-DSA-44 says nothing of extension lines: it holds with one more of them.",
        _extended,
        stored_from=_BASE,
    ),
    *(
        _case(f"witness/mldsa-{name}", about, note, base=_BASE, refused=_SIGNATURE)
        for name, about, note in _FORGED
    ),
    _case(
        "witness/mldsa-beside-a-quorum",
        "Two witnesses of Ed25519 are a quorum; the line of ML-DSA-44 beside them does not hold.",
        lambda note: cosigned({"a": _AFTER - 1, "b": _AFTER})(note) + _flipped_line(_text(note)),
        base=_BASE,
        refused=_SIGNATURE,
    ),
    _case(
        "witness/mldsa-below-quorum",
        "One witness of ML-DSA-44 alone.",
        cosigned({"m": _AFTER}),
        base=_BASE,
        not_made=("wit.quorum",),
    ),
    _case(
        "witness/mldsa-stated-flipped",
        "The checkpoint that the keyset statement names has a line of ML-DSA-44 with a bit flipped.",
        cosigned({"a": _AFTER - 1, "m": _AFTER}),
        before=lambda note: cosigned({"a": -3})(note) + _flipped_line(_text(note), -2),
        base=_BASE,
        refused={"time.bracket": "note.signature"},
    ),
)
