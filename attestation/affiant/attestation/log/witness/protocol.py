"""Computes what a witness responds (C2SP tlog-witness) from bytes, keys, its stored state and the time. Pure.

1. ``parse_submission``: the form, or 400.
2. :func:`admit`: a log that it knows, or 404; a signature of that log that holds, and none that does not, or 403; an
   older size that is not the larger, or 400.
3. :func:`advance`: the older size is the one that it stored, or 409 with that size; the tree grows from the stored one,
   or 422. Then, and only then, there is something new to store, and after it is stored something to sign.

Step 3 and storing are one transaction of the caller's: two that run side by side would otherwise each see the old size,
and the smaller tree could be stored last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.log.witness.checkpoint_request import Submission
from affiant.attestation.log.witness.errors import WitnessClockBehind
from affiant.attestation.tlog.errors import ConsistencyInvalid, NoteSignatureInvalid, ProofMalformed
from affiant.attestation.tlog.note import Note, verify_note
from affiant.attestation.tlog.note_keys import LogKey
from affiant.attestation.tlog.tree import EMPTY_ROOT, verify_consistency

__all__ = [
    "SIZE_TYPE",
    "Accepted",
    "Admitted",
    "Contradiction",
    "Logs",
    "Refused",
    "Stored",
    "WitnessResponse",
    "admit",
    "advance",
    "contradiction",
]

SIZE_TYPE: Final = "text/x.tlog.size"
_TEXT: Final = "text/plain; charset=utf-8"
_CLOCK_TOLERANCE_S: Final = 60
"""Steps of a clock that is being set; beyond them nothing is signed until it has caught up."""

Logs = Mapping[str, tuple[LogKey, ...]]
"""Origin -> the keys of that log."""


@dataclass(frozen=True, slots=True)
class WitnessResponse:
    """What goes over the wire. ``code`` says why, for the witness's operator."""

    status: int
    body: bytes
    media_type: str = _TEXT
    code: str = "ok"


@dataclass(frozen=True, slots=True)
class Stored:
    """The latest tree of one log that this witness has cosigned, or is about to.

    Args:
        note: the checkpoint as the log signed it.
        seconds: since 1970, no earlier than any cosignature for this log.
    """

    origin: str
    size: int
    root: bytes
    note: bytes
    seconds: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """A submission that the log has signed. Only :func:`admit` makes one.

    Args:
        signed: the checkpoint with the log's own signatures that hold, and no other line.
    """

    submission: Submission
    signed: Note


@dataclass(frozen=True, slots=True)
class Accepted:
    """A tree to be stored, and then cosigned. Only :func:`advance` makes one."""

    stored: Stored
    signed: Note


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two notes of one log that contradict each other.

    Args:
        certain: two roots over one size prove by themselves that the log has signed two histories. Otherwise the later
            note came with a proof that does not hold; a log that is honest can show one that does.
    """

    held: bytes
    submitted: bytes
    certain: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """No cosignature."""

    answer: WitnessResponse
    contradiction: Contradiction | None = None


def admit(submission: Submission, logs: Logs) -> Admitted | WitnessResponse:
    """``submission`` if a log that is known has signed it, or what is answered instead."""
    keys = logs.get(submission.origin)
    if not keys:
        return _text(404, "witness.unknown_log", "this witness does not know the log")
    try:
        holding = {key.key for key in verify_note(submission.note, keys)}
    except NoteSignatureInvalid:
        return _text(403, "note.signature", "no known key of the log has signed this, or one did not sign it")
    if submission.old > submission.size:
        return _text(400, "witness.request", "the older size is the larger")
    lines = tuple(each for each in submission.note.signatures if each.key in holding)
    return Admitted(submission, Note(submission.note.text, lines))


def advance(admitted: Admitted, stored: Stored | None, *, now: int) -> Accepted | Refused:
    """The tree to store, or why there is none.

    Args:
        stored: the latest of this log; None if there is none.
        now: seconds since 1970.

    Raises:
        WitnessClockBehind: the clock is before the last cosignature.
    """
    asked = admitted.submission
    size, root, last = (0, EMPTY_ROOT, 0) if stored is None else (stored.size, stored.root, stored.seconds)
    found = contradiction(admitted, stored)
    if asked.old != size:
        return Refused(WitnessResponse(409, f"{size}\n".encode("ascii"), SIZE_TYPE, "witness.size"), found)
    if asked.size == 0 and asked.root != EMPTY_ROOT:
        return Refused(_text(422, "log.consistency", "the root of a tree without leaves is another"), found)
    try:
        verify_consistency(old=size, old_root=root, new=asked.size, new_root=asked.root, path=asked.path)
    except ProofMalformed as error:
        return Refused(_text(422, error.code, error.message), found)
    except ConsistencyInvalid as error:
        if found is None and stored is not None:
            found = Contradiction(stored.note, admitted.signed.to_bytes(), certain=False)
        return Refused(_text(422, error.code, error.message), found)
    if now + _CLOCK_TOLERANCE_S < last:
        raise WitnessClockBehind(
            "the clock is before the last cosignature", expected=f"at least {last}", found=now
        )
    return Accepted(
        Stored(asked.origin, asked.size, asked.root, admitted.signed.to_bytes(), max(now, last)),
        admitted.signed,
    )


def contradiction(admitted: Admitted, stored: Stored | None) -> Contradiction | None:
    """Another root over the size that is stored: proof by itself, whatever else is wrong with the request."""
    asked = admitted.submission
    if stored is None or asked.size != stored.size or asked.root == stored.root:
        return None
    return Contradiction(stored.note, admitted.signed.to_bytes(), certain=True)


def _text(status: int, code: str, text: str) -> WitnessResponse:
    return WitnessResponse(status, f"{text} [{code}]\n".encode(), code=code)
