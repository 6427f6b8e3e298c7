"""One line of a document as an error shows it, with a caret under the place.

The text is printable ASCII, so that no terminal is steered and one character is one column. What may be in it is
decided by the reader of the document: a line may hold a secret.

>>> print(*LineExcerpt(number=3, text="    tool: [x]", column=5).lines(width=80), sep="\\n")
  3 |     tool: [x]
    |     ^
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LineExcerpt"]

_NARROWEST: Final = 24
_WIDEST: Final = 160
_CUT: Final = "..."


@dataclass(frozen=True, slots=True)
class LineExcerpt:
    """A line of a document; ``number`` and ``column`` count from 1, the column in ``text``.

    Raises:
        ValueError: ``text`` is not printable ASCII, or the column is not in it or just behind it.
    """

    number: int
    text: str
    column: int

    def __post_init__(self) -> None:
        if not (self.text.isascii() and (self.text.isprintable() or not self.text)):
            raise ValueError("an excerpt is printable ASCII")
        if not 1 <= self.column <= len(self.text) + 1:
            raise ValueError("the column is not in the line")

    def lines(self, *, width: int) -> tuple[str, str]:
        """The line and its caret, of at most ``width`` columns each (24 to 160); what is far from the caret is cut."""
        number = str(self.number)
        room = min(max(width, _NARROWEST), _WIDEST) - len(number) - 6
        shown, column = self._around(max(room, len(_CUT) * 2 + 1))
        return f"  {number} | {shown}".rstrip(), f"  {' ' * len(number)} | {' ' * (column - 1)}^"

    def _around(self, room: int) -> tuple[str, int]:
        """At most ``room`` characters around the column, and the column in them."""
        if len(self.text) <= room:
            return self.text, self.column
        start = min(max(self.column - 1 - room // 2, 0), len(self.text) - room)
        shown = self.text[start : start + room]
        if start > 0:
            shown = _CUT + shown[len(_CUT) :]
        if start + room < len(self.text):
            shown = shown[: -len(_CUT)] + _CUT
        return shown, self.column - start
