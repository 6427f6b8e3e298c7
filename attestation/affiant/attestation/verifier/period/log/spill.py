"""Receipts that were verified, kept on disk by session until the session is judged: memory stays small.

A file without a name in the system's folder for temporary files, so that nobody else can open it and nothing is left of
it after a crash. It takes as much room as the receipts, unpacked.
"""

from __future__ import annotations

import os
import struct
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Self

__all__ = ["NothingKept", "Spill"]

_BUFFER: Final = 1 << 18
"""Bytes that are written at once: some hundred records."""
_USUAL: Final = 4 << 10
"""Bytes that most texts do not exceed: those are read at once."""
_LENGTH: Final = struct.Struct(">I43s")


class Spill:
    """Texts under names, each with its receipt hash. A context manager."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115 - closed by __exit__
        self._places: dict[str, array[int]] = {}
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def put(self, name: str, rh: str, text: str) -> None:
        """Keep ``text`` under ``name``."""
        data = text.encode("ascii")
        self._places.setdefault(name, array("Q")).append(self._end)
        self._file.write(_LENGTH.pack(len(data), rh.encode("ascii")) + data)
        self._end += _LENGTH.size + len(data)

    def count(self, name: str) -> int:
        """How many stand under ``name``."""
        return len(self._places.get(name, ()))

    def names(self) -> Sequence[str]:
        """Every name, sorted."""
        return sorted(self._places)

    def settle(self) -> None:
        """All that was put is in the file."""
        self._file.flush()

    def texts(self, name: str, first: int = 0, most: int | None = None) -> Iterator[tuple[str, str]]:
        """Receipt hash and text of what stands under ``name``, in the order in which it came."""
        self.settle()
        places = self._places.get(name, array("Q"))
        for place in places[first : None if most is None else first + most]:
            yield self._at(place)

    def text(self, name: str, number: int) -> tuple[str, str]:
        """One of them, by its number there; only once :meth:`settle` was called after the last :meth:`put`."""
        return self._at(self._places[name][number])

    def _at(self, place: int) -> tuple[str, str]:
        descriptor = self._file.fileno()
        data = os.pread(descriptor, _LENGTH.size + _USUAL, place)
        size, rh = _LENGTH.unpack_from(data)
        text = data[_LENGTH.size : _LENGTH.size + size]
        if len(text) < size:
            text = os.pread(descriptor, size, place + _LENGTH.size)
        return rh.decode("ascii"), text.decode("ascii")


class NothingKept(Spill):
    """For a look at receipts that are kept already."""

    def put(self, name: str, rh: str, text: str) -> None:
        """Keep nothing."""
