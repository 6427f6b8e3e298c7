"""Reads and writes anchors in a folder, usually ``anchors/`` beside a log's tiles. A reader verifies each one; the
folder itself is not trusted.

::

    <size>.note            the checkpoint, with its signatures
    <size>.tsr             RFC 3161 responses, one after the other: the first, then its renewals
    <size>.sigstore.json   a sigstore bundle over the same text
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.bundle.bundle_anchors import MAX_SIGSTORE
from affiant.attestation.signatures.timestamps.errors import AnchorAbsent, AnchorSettingsInvalid
from affiant.attestation.signatures.timestamps.response import MAX_RESPONSE, MAX_TOKENS, split_responses
from affiant.attestation.tlog.checkpoint import parse_checkpoint
from affiant.attestation.tlog.errors import NoteMalformed
from affiant.attestation.tlog.note import MAX_NOTE_BYTES, parse_note
from affiant.files import write_whole

__all__ = ["ANCHOR_FILE", "AnchorFile", "AnchorFolder", "SignedAnchorFile"]

ANCHOR_FILE: Final = re.compile(r"(0|[1-9][0-9]{0,18})\.(?:note|tsr|sigstore\.json)\Z")
_MAX_TOKENS: Final = MAX_TOKENS * MAX_RESPONSE
_MAX_FILES: Final = 100_000


@dataclass(frozen=True, slots=True)
class AnchorFile:
    """One anchored checkpoint, as read.

    Args:
        note: bytes; nothing in it is verified.
        tokens: responses, oldest first; empty where there are none.
    """

    size: int
    note: bytes
    tokens: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SignedAnchorFile:
    """One checkpoint that an identity signed through sigstore, as read; ``note`` as above. ``bundle``: never empty."""

    size: int
    note: bytes
    bundle: bytes


class AnchorFolder:
    """The anchors in ``path``, which need not be there until one is written."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def sizes(self) -> list[int]:
        """Sizes of the checkpoints that have a note and tokens here, ascending.

        Raises:
            AnchorSettingsInvalid: the folder cannot be read, or holds more than any log's.
        """
        return self._sizes(".tsr")

    def signed_sizes(self) -> list[int]:
        """Sizes of those that have a note and a sigstore bundle, ascending.

        Raises:
            AnchorSettingsInvalid: as :meth:`sizes`.
        """
        return self._sizes(".sigstore.json")

    def _sizes(self, suffix: str) -> list[int]:
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self.path, error) from error
        if len(names) > _MAX_FILES:
            raise AnchorSettingsInvalid(
                "too many files", where=str(self.path), expected=f"at most {_MAX_FILES}"
            )
        there = {name for name in names if ANCHOR_FILE.match(name)}
        sizes = [name.removesuffix(suffix) for name in there if name.endswith(suffix)]
        return sorted(int(size) for size in sizes if f"{size}.note" in there)

    def read(self, size: int) -> AnchorFile:
        """The anchor of the checkpoint with ``size`` leaves.

        Raises:
            ``anchor.token``: the responses do not follow one another; else as :meth:`read_note`.
        """
        return AnchorFile(
            size, self.read_note(size), split_responses(self._read(f"{size}.tsr", _MAX_TOKENS) or b"")
        )

    def read_signed(self, size: int) -> SignedAnchorFile:
        """The checkpoint with ``size`` leaves that an identity signed through sigstore.

        Raises:
            AnchorAbsent: none did; else as :meth:`read_note`.
        """
        note = self.read_note(size)
        name = f"{size}.sigstore.json"
        if not (bundle := self._read(name, MAX_SIGSTORE)):
            raise AnchorAbsent("the anchor has no sigstore bundle", where=name)
        return SignedAnchorFile(size, note, bundle)

    def read_note(self, size: int) -> bytes:
        """The anchored note with ``size`` leaves; nothing in it is verified.

        Raises:
            AnchorSettingsInvalid: a file cannot be read, or is no file.
            NoteMalformed, CheckpointMalformed: the note is none, or is of another size.
        """
        note = self._read(f"{size}.note", MAX_NOTE_BYTES)
        if note is None:
            raise AnchorSettingsInvalid(
                "a checkpoint's note is missing", where=str(self.path / f"{size}.note")
            )
        if (found := parse_checkpoint(parse_note(note).text).size) != size:
            raise NoteMalformed("a note under another size than its own", where=f"{size}.note", found=found)
        return note

    def write(self, size: int, note: bytes, tokens: Sequence[bytes]) -> Path:
        """Keep an anchor, note first: a token is never there without what it stamps. The path of the tokens.

        Raises:
            AnchorSettingsInvalid: it cannot be written.
        """
        return self._write(size, note, "tsr", b"".join(tokens))

    def write_signed(self, size: int, note: bytes, bundle: bytes) -> Path:
        """The same of a sigstore bundle over the note's text. The path of the bundle.

        Raises:
            AnchorSettingsInvalid: it cannot be written.
        """
        return self._write(size, note, "sigstore.json", bundle)

    def _write(self, size: int, note: bytes, suffix: str, content: bytes) -> Path:
        place = self.path / f"{size}.{suffix}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.path / f"{size}.note", note)
            write_whole(place, content)
        except OSError as error:
            raise AnchorSettingsInvalid(
                "the anchor cannot be written", where=str(self.path), found=error.strerror
            ) from error
        return place

    def _read(self, name: str, limit: int) -> bytes | None:
        try:
            descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                content = file.read(limit + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AnchorSettingsInvalid(
                "a file cannot be read", where=str(self.path / name), found=error.strerror
            ) from error
        if len(content) > limit:
            raise AnchorSettingsInvalid(
                "a file is too large", where=str(self.path / name), expected=f"{limit} bytes"
            )
        return content


def _unreadable(path: Path, error: OSError) -> AnchorSettingsInvalid:
    return AnchorSettingsInvalid("it cannot be read", where=str(path), found=error.strerror)
