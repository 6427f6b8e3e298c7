"""Makes an agent's output safe to be shown on a terminal: it can be coloured, and it cannot steer.

Shown as they are: printable characters, CR, LF, TAB, and SGR (``ESC [ ... m``: colours and weight). Shown escaped:
every other control character (C0, DEL, C1 also in UTF-8), so that no sequence clears the screen, moves the cursor,
writes the clipboard (OSC 52) or asks the terminal for an answer; characters that change the reading direction or are
invisible; bytes that are not UTF-8.

No line can be made to look like one of affiant's own. ``affiant:`` gets a mark that says where it is from; anywhere in
a line, because a terminal wraps lines; in compatibility forms (``\\ufb00``) and with invisible characters in it, too.
A CR that no LF follows erases the line (``ESC [ K``), so that nothing is put together by overwriting.
Letters of other scripts that look like these are not looked for.

A stream comes in pieces of any length: what may be the begin of a character or of a sequence is held until the rest
comes, at most :data:`_LONGEST_SGR` bytes. Pure.

>>> shown = TerminalText(TerminalLine())
>>> shown.feed(b"\\x1b[31mred\\x1b[0m \\x1b]52;c;aGk=\\x07")
b'\\x1b[31mred\\x1b[0m \\\\x1b]52;c;aGk=\\\\x07'
>>> TerminalText(TerminalLine()).feed(b"affiant: nothing was denied\\n")
b"affiant (in the command's output): nothing was denied\\n"
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import Final

__all__ = ["TerminalLine", "TerminalText"]

_LONGEST_SGR: Final = 64
"""Characters; longer ones colour nothing that any terminal knows."""
_SGR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_SGR_BEGUN: Final = re.compile(r"\x1b(\[[0-9;:]*)?\Z")
_LONGEST_HELD: Final = 512
_RESET: Final = b"\x1b[0m"
_RESETS: Final = ("\x1b[m", "\x1b[0m")
_ERASE: Final = "\x1b[K"
_KEPT: Final = frozenset("\r\n\t")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Invisible, and without effect on order: emoji and several scripts need them."""
_BLANK: Final = _JOINERS | frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159")
"""Printable characters that show nothing; so do some of those that combine with the one before (Mn, Me)."""
_OURS: Final = "affiant:"
_MARK: Final = " (in the command's output)"


class TerminalLine:
    """The line that a terminal shows now. Both of a command's outputs write it."""

    def __init__(self) -> None:
        self._last = ""
        """The last characters of the line, as a reader takes them: shorter than the word."""
        self._returned = ""
        """A CR, and the colours after it, until it is known what follows."""
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
        plain = _SGR.sub("", "".join(shown))
        if plain or self._returned:
            self._is_ended = plain.endswith("\n") and not self._returned
        return "".join(shown)

    def end(self) -> bytes:
        """What is left when both streams have ended: what follows begins a line, in the terminal's own colours."""
        left = self._returned.encode("ascii")
        return left + (_RESET if self._is_coloured else b"") + (b"" if self._is_ended else b"\n")

    def _coloured(self, sgr: str) -> str:
        self._is_coloured = sgr not in _RESETS
        if not self._returned:
            return sgr
        self._returned += sgr
        return self._erased() if len(self._returned) > _LONGEST_HELD else ""

    def _character(self, char: str) -> str:
        if char == "\r":
            self._returned += "" if self._returned else char
            return ""
        if char == "\n":
            before, self._returned, self._last = self._returned, "", ""
            return before + char
        before, shown = self._erased(), _escaped(char)
        if shown in _BLANK or unicodedata.category(shown[0]) in {"Mn", "Me"}:
            return before + shown
        self._last += unicodedata.normalize("NFKC", shown).casefold()
        if _OURS in self._last:
            self._last = ""
            return before + _MARK + shown
        self._last = self._last[1 - len(_OURS) :]
        return before + shown

    def _erased(self) -> str:
        """A CR that is held, on its way: what follows begins an empty line."""
        if not self._returned:
            return ""
        returned, self._returned, self._last = self._returned, "", ""
        return returned[0] + _ERASE + returned[1:]


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
        return self._shown(self._decoder.decode(b"", final=True), last=True)

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
