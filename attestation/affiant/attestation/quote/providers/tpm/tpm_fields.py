"""Reads fields of TPM 2.0 structures: big-endian, each to its exact end, never past it.

Source: TPM 2.0 Library, part 2, 10.4: a TPM2B is a length of 16 bits and as many bytes.
"""

from __future__ import annotations

from affiant.errors import AffiantError

__all__ = ["TPMFields", "sized"]


class TPMFields:
    """Reads ``data`` from its beginning.

    Args:
        name: what it is, in errors.
        error: what is raised when it is cut short, or too long.
    """

    def __init__(self, data: bytes, *, name: str, refusal: type[AffiantError]) -> None:
        self._data = data
        self._at = 0
        self._name = name
        self._refusal = refusal

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if size > len(self._data) - self._at:
            raise self._refusal(f"{self._name} is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        """The next ``size`` bytes as a number."""
        return int.from_bytes(self.take(size), "big")

    def sized(self) -> bytes:
        """The next TPM2B."""
        return self.take(self.number(2))

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Nothing may be left."""
        if self._at != len(self._data):
            raise self._refusal(f"{self._name} has more bytes than it needs")


def sized(data: bytes) -> bytes:
    """``data`` as a TPM2B; at most 65,535 bytes."""
    return len(data).to_bytes(2, "big") + data
