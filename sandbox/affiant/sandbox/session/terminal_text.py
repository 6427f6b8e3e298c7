"""Makes an agent's output safe to be shown on a terminal: it can be coloured, and it cannot steer.

Shown as they are: printable characters, CR, LF, TAB, and SGR (``ESC [ ... m``: colours and weight). Shown escaped:
every other control character (C0, DEL, C1 also in UTF-8), so that no sequence clears the screen, moves the cursor,
writes the clipboard (OSC 52) or asks the terminal for an answer; characters that change the reading direction or are
invisible; bytes that are not UTF-8. A line that begins like one of affiant's own (``affiant:``) is marked as the
agent's.

A stream comes in pieces of any length: what may be the begin of a character or of a sequence is held until the rest
comes, at most :data:`_LONGEST_SGR` bytes. Pure.

>>> shown = TerminalText(TerminalLine())
>>> shown.feed(b"\\x1b[31mred\\x1b[0m \\x1b]52;c;aGk=\\x07")
b'\\x1b[31mred\\x1b[0m \\\\x1b]52;c;aGk=\\\\x07'
>>> TerminalText(TerminalLine()).feed(b"affiant: nothing was denied\\n")
b'(agent) affiant: nothing was denied\\n'
"""

from __future__ import annotations

import codecs
import re
from typing import Final

__all__ = ["TerminalLine", "TerminalText"]

_LONGEST_SGR: Final = 64
"""Characters; longer ones colour nothing that any terminal knows."""
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_SGR_BEGUN: Final = re.compile(r"\x1b(\[[0-9;:]*)?\Z")
_LONGEST_HELD: Final = 512
_RESET: Final = b"\x1b[0m"
_RESETS: Final = ("\x1b[m", "\x1b[0m")
_KEPT: Final = frozenset("\r\n\t")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Invisible, and without effect on order: emoji and several scripts need them."""
_OURS: Final = "affiant:"
_MARK: Final = "(agent) "


class TerminalLine:
    """The line that a terminal shows now. Both of a command's outputs write it, so what begins a line is known once."""

    def __init__(self) -> None:
        self._begins = True
        """Whether the line shows nothing yet but blanks."""
        self._held = ""
        """The line's begin, while it may still become one of ours; and the same without SGR, in lower case."""
        self._word = ""
        self._is_coloured, self._is_ended = False, True

    def show(self, text: str) -> str:
        """What may be shown of ``text``, in which every escape sequence is whole."""
        shown, at = [], 0
        while at < len(text):
            sgr = _SGR.match(text, at, at + _LONGEST_SGR)
            if sgr is not None:
                shown.append(self._coloured(sgr[0]))
                at = sgr.end()
            else:
                shown.append(self._character(text[at]))
                at += 1
        return self._noted("".join(shown))

    def release(self) -> str:
        """What is still held: a stream has ended."""
        return self._noted(self._released())

    def end(self) -> bytes:
        """What is left when both streams have ended: what follows begins a line, in the terminal's own colours."""
        left = self.release().encode("utf-8")
        return left + (_RESET if self._is_coloured else b"") + (b"" if self._is_ended else b"\n")

    def _noted(self, shown: str) -> str:
        if plain := _SGR.sub("", shown):
            self._is_ended = plain.endswith("\n")
        return shown

    def _coloured(self, sgr: str) -> str:
        self._is_coloured = sgr not in _RESETS
        if not self._word:
            return sgr
        self._held += sgr
        return self._released() if len(self._held) > _LONGEST_HELD else ""

    def _character(self, char: str) -> str:
        if char in "\r\n":
            before, self._begins = self._released(), True
            return before + char
        if not self._begins or (char in " \t" and not self._word):
            return _escaped(char)
        self._held += _escaped(char)
        self._word += char.lower()
        if self._word == _OURS:
            self._held = _MARK + self._held
        elif _OURS.startswith(self._word):
            return ""
        return self._released()

    def _released(self) -> str:
        """The line's begin, now that it is known what it is, or is not."""
        shown, self._held = self._held, ""
        if self._word:
            self._word, self._begins = "", False
        return shown


class TerminalText:
    """One stream of output on its way to a terminal.

    Args:
        line: shared with the other stream.
    """

    def __init__(self, line: TerminalLine) -> None:
        self._line = line
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._begun = ""
        """A sequence that may become SGR."""

    def feed(self, data: bytes) -> bytes:
        """What may be shown of ``data`` and of what was held before."""
        return self._shown(self._decoder.decode(data), last=False)

    def flush(self) -> bytes:
        """What is left at the end of the stream."""
        left = self._shown(self._decoder.decode(b"", final=True), last=True)
        return left + self._line.release().encode("utf-8")

    def _shown(self, text: str, *, last: bool) -> bytes:
        text, self._begun = self._begun + text, ""
        begun = _SGR_BEGUN.search(text)
        if begun is not None and not last and len(text) - begun.start() < _LONGEST_SGR:
            text, self._begun = text[: begun.start()], text[begun.start() :]
        return self._line.show(text).encode("utf-8")


def _escaped(char: str) -> str:
    if char.isprintable() or char in _KEPT or char in _JOINERS:
        return char
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
