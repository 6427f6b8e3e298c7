"""Reads and writes signed notes: text, and lines of signatures under names (C2SP signed-note v1.0.0).

A note is text that ends with a newline, an empty line, and signature lines::

    — <key name> base64(key id, 4 bytes || signature)

What it says counts only under a key that the reader holds (:class:`NoteVerifier`): name and key id choose the key, a
signature of a known key that does not hold refuses the whole note, and lines of unknown keys are ignored. Stricter than
the format demands: base64 in its canonical form; at most :data:`MAX_SIGNATURES` lines; no two lines of one key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from affiant.attestation.tlog.errors import NoteMalformed, NoteSignatureInvalid

__all__ = [
    "MAX_NOTE_BYTES",
    "MAX_SIGNATURES",
    "KeyName",
    "Note",
    "NoteSignature",
    "NoteSigner",
    "NoteVerifier",
    "from_base64",
    "key_id",
    "parse_note",
    "parse_signature_lines",
    "signed",
    "to_base64",
    "verify_note",
]

MAX_NOTE_BYTES: Final = 512 * 1024
MAX_SIGNATURES: Final = 64
"""The format demands at least 16; an ML-DSA-44 line has 3,266 bytes."""
_DASH: Final = "\u2014"
_NAME: Final = re.compile(r"[^\s+]{1,255}\Z")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}\Z")


@dataclass(frozen=True, slots=True)
class KeyName:
    """A key as signature lines name it: name, and id of 4 bytes."""

    name: str
    key_id: bytes

    def __post_init__(self) -> None:
        if _NAME.match(self.name) is None or not self.name.isprintable() or len(self.key_id) != 4:
            raise NoteMalformed(
                "not the name of a key",
                expected="1 to 255 characters without spaces and `+`, and an id of 4 bytes",
                found=repr(self.name[:60]),
            )


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line."""

    key: KeyName
    signature: bytes = field(repr=False)

    def line(self) -> str:
        """The line, with its newline."""
        return f"{_DASH} {self.key.name} {to_base64(self.key.key_id + self.signature)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A note as read; nothing in it counts before :func:`verify_note`.

    Args:
        text: with its last newline.
        signatures: in the order of the lines.
    """

    text: str
    signatures: tuple[NoteSignature, ...]

    def to_bytes(self) -> bytes:
        """The note's bytes."""
        return (self.text + "\n" + "".join(each.line() for each in self.signatures)).encode("utf-8")

    def with_signatures(self, more: Iterable[NoteSignature]) -> Note:
        """The same text, with further lines; one that is there already is not repeated."""
        return Note(self.text, tuple(dict.fromkeys((*self.signatures, *more))))


class NoteVerifier(Protocol):
    """A public key that a reader holds."""

    @property
    def key(self) -> KeyName:
        """What its lines are found by."""
        ...

    def holds(self, text: str, signature: bytes) -> bool:
        """Whether ``signature`` (as in the line, without the key id) is this key's over ``text``."""
        ...


class NoteSigner(Protocol):
    """A private key."""

    def sign(self, text: str) -> NoteSignature:
        """This key's line over ``text``."""
        ...


def key_id(name: str, algorithm: int, public_key: bytes) -> bytes:
    """SHA-256(name || newline || algorithm || public key), the first 4 bytes."""
    return hashlib.sha256(name.encode("utf-8") + b"\n" + bytes((algorithm,)) + public_key).digest()[:4]


def signed(text: str, *signers: NoteSigner) -> Note:
    """``text`` signed by each of ``signers``.

    Raises:
        NoteMalformed: text that no note can have.
    """
    note = Note(text, tuple(signer.sign(text) for signer in signers))
    return parse_note(note.to_bytes())


def parse_note(data: bytes) -> Note:
    """The note in ``data``.

    Raises:
        NoteMalformed: too large, not UTF-8, a control character, no signature, or a line of another form.
    """
    if len(data) > MAX_NOTE_BYTES:
        raise NoteMalformed(
            "a note is too large", expected=f"at most {MAX_NOTE_BYTES} bytes", found=len(data)
        )
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NoteMalformed("a note is not UTF-8") from error
    _refuse_controls(content)
    text, separator, lines = content.rpartition("\n\n")
    if not separator or not text or not lines:
        raise NoteMalformed("not a signed note", expected="text, an empty line, signature lines")
    return Note(text + "\n", parse_signature_lines(lines))


def parse_signature_lines(lines: str) -> tuple[NoteSignature, ...]:
    """One or more whole signature lines.

    Raises:
        NoteMalformed: none, too many, or one of another form.
    """
    if not lines.endswith("\n"):
        raise NoteMalformed("the last signature line has no end")
    rows = lines[:-1].split("\n")
    if len(rows) > MAX_SIGNATURES:
        raise NoteMalformed("too many signatures", expected=f"at most {MAX_SIGNATURES}", found=len(rows))
    found = tuple(_signature(row) for row in rows)
    if len({each.key for each in found}) != len(found):
        raise NoteMalformed("two signature lines of one key")
    return found


def verify_note(note: Note, verifiers: Iterable[NoteVerifier]) -> tuple[NoteVerifier, ...]:
    """Those of ``verifiers`` that have signed ``note``: one at least.

    Raises:
        NoteSignatureInvalid: none has, or a line names one of them and does not hold.
    """
    known = {verifier.key: verifier for verifier in verifiers}
    found: list[NoteVerifier] = []
    for each in note.signatures:
        if (verifier := known.get(each.key)) is None:
            continue
        if not verifier.holds(note.text, each.signature):
            raise NoteSignatureInvalid(
                "the signature of a known key does not hold", found=repr(each.key.name)
            )
        found.append(verifier)
    if not found:
        raise NoteSignatureInvalid(
            "no known key has signed",
            expected=" or ".join(sorted(repr(key.name) for key in known)) or "a known key",
            found=", ".join(repr(each.key.name[:60]) for each in note.signatures[:4]),
        )
    return tuple(found)


def to_base64(data: bytes) -> str:
    """Standard base64, padded (RFC 4648, section 4)."""
    return base64.b64encode(data).decode("ascii")


def from_base64(text: str) -> bytes:
    """The bytes of standard base64 in its canonical form.

    Raises:
        NoteMalformed: another encoding: no padding, spaces, foreign characters, unused bits that are set.
    """
    try:
        data = base64.b64decode(text, validate=True) if _BASE64.match(text) else b""
    except binascii.Error:
        data = b""
    if not data or to_base64(data) != text:
        raise NoteMalformed("not base64 in its canonical form", found=repr(text[:40]))
    return data


def _signature(row: str) -> NoteSignature:
    match row.split(" "):
        case [dash, name, text] if dash == _DASH:
            data = from_base64(text)
        case _:
            raise NoteMalformed(
                "not a signature line", expected="`\u2014 <name> <base64>`", found=repr(row[:60])
            )
    if len(data) <= 4:
        raise NoteMalformed("a signature line without a signature", found=repr(name[:60]))
    return NoteSignature(KeyName(name, data[:4]), data[4:])


def _refuse_controls(content: str) -> None:
    for char in content:
        if char < " " and char != "\n":
            raise NoteMalformed("a control character in a note", found=f"U+{ord(char):04X}")
