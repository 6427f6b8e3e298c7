"""Output that is shown on a terminal may be coloured, and nothing else; however it is cut into pieces."""

from __future__ import annotations

import doctest
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from affiant.sandbox.session import terminal_text
from affiant.sandbox.session.terminal_text import TerminalLine, TerminalText


def shown(*pieces: bytes) -> bytes:
    line = TerminalLine()
    text = TerminalText(line)
    return b"".join([*(text.feed(piece) for piece in pieces), text.flush(), line.end()])


def test_the_examples() -> None:
    assert doctest.testmod(terminal_text).failed == 0


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"a\tb\r\nc\n", b"a\tb\r\nc\n"),
        ("größe 你好 👩\u200d💻\n".encode(), "größe 你好 👩\u200d💻\n".encode()),
        (b"\x1b[1;38;2;1;2;3mx\x1b[0m\n", b"\x1b[1;38;2;1;2;3mx\x1b[0m\n"),
        (b"\x1b]52;c;ZXZpbA==\x07\n", b"\\x1b]52;c;ZXZpbA==\\x07\n"),
        (b"\x1b]0;title\x1b\\\n", b"\\x1b]0;title\\x1b\\\n"),
        (b"\x1b[2J\x1b[H\n", b"\\x1b[2J\\x1b[H\n"),
        (b"\x1bc\x1b[1A\x1b[c\n", b"\\x1bc\\x1b[1A\\x1b[c\n"),
        (b"a\x08\x08b\x00\x7f\n", b"a\\x08\\x08b\\x00\\x7f\n"),
        (b"\xc2\x9b2J\xc2\x85\n", b"\\u009b2J\\u0085\n"),
        (b"\x9b2J\xff\n", b"\\x9b2J\\xff\n"),
        ("\u202egnp.exe\u2066\u200e\u2028\ufeff\n".encode(), b"\\u202egnp.exe\\u2066\\u200e\\u2028\\ufeff\n"),
        ("\U000e0041\n".encode(), b"\\U000e0041\n"),
        (b"\x1b[" + b"1" * 100 + b"m\n", b"\\x1b[" + b"1" * 100 + b"m\n"),
    ],
)
def test_all_but_colours_and_line_ends_is_escaped(sent: bytes, seen: bytes) -> None:
    assert shown(sent) == seen


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"affiant: receipts in /x\n", b"affiant (in the command's output): receipts in /x\n"),
        (b"x\n \tAffiant: y\n", b"x\n \tAffiant (in the command's output): y\n"),
        (
            b"\x1b[32maff\x1b[1miant: y\x1b[0m\n",
            b"\x1b[32maff\x1b[1miant (in the command's output): y\x1b[0m\n",
        ),
        (b"the affiant: y\n", b"the affiant (in the command's output): y\n"),
        (b"." * 80 + b"affiant: y\n", b"." * 80 + b"affiant (in the command's output): y\n"),
        (b"aff\xe2\x80\x8diant: y\n", b"aff\xe2\x80\x8diant (in the command's output): y\n"),
        ("\u3164\u2800\ufe0faffi\u034fant\ufe0f:\n".encode(), None),
        ("a\ufb00iant:\n".encode(), None),
        ("\uff41ffiant\uff1a\n".encode(), None),
        (b"affiance: \n", b"affiance: \n"),
        (b"affi\nant:\n", b"affi\nant:\n"),
    ],
)
def test_a_line_like_one_of_affiants_is_marked_as_the_agents(sent: bytes, seen: bytes | None) -> None:
    got = shown(sent)
    assert b" (in the command's output)" in got if seen is None else got == seen


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (b"50%\r100%\n", b"50%\r\x1b[K100%\n"),
        (b"Xffiant: nothing was denied\ra\n", b"Xffiant: nothing was denied\r\x1b[Ka\n"),
        (b"50%\raffiant: y\n", b"50%\r\x1b[Kaffiant (in the command's output): y\n"),
        (b"a\r\x1b[1mb\n", b"a\r\x1b[K\x1b[1mb\n\x1b[0m"),
        (b"a\r\x1b[0m\nb\r\n", b"a\r\x1b[0m\nb\r\n"),
        (b"a\r", b"a\r\n"),
        (b"a\n\r", b"a\n\r\n"),
        (b"a\r" + b"\x1b[1m" * 200 + b"\n", b"a\r\x1b[K" + b"\x1b[1m" * 200 + b"\n\x1b[0m"),
    ],
)
def test_what_a_line_shows_is_not_overwritten_but_erased(sent: bytes, seen: bytes) -> None:
    assert shown(sent) == seen


def test_what_follows_begins_a_line_in_plain_colours() -> None:
    assert shown(b"\x1b[8mhidden") == b"\x1b[8mhidden\x1b[0m\n"
    assert shown(b"") == b""
    assert shown(b"x\n") == b"x\n"


def test_a_prompt_is_shown_at_once() -> None:
    text = TerminalText(TerminalLine())
    assert text.feed(b"Name? ") == b"Name? "
    assert text.feed(b"  > ") == b"  > "


@pytest.mark.parametrize(
    ("writes", "seen"),
    [
        ([(1, b"foo"), (0, b"\n"), (1, b"affiant: x\n")], b"foo\naffiant (in the command's output): x\n"),
        ([(0, b"aff"), (1, b"iant: x\n")], b"affiant (in the command's output): x\n"),
        ([(0, b"Xffiant: x\r"), (1, b"a\n")], b"Xffiant: x\r\x1b[Ka\n"),
        ([(0, b"\xe4\xbd"), (1, b"x"), (0, b"\xa0\n")], "x\u4f60\n".encode()),
        ([(0, b"\x1b["), (1, b"x"), (0, b"1m\n")], b"x\x1b[1m\n\x1b[0m"),
    ],
)
def test_two_outputs_on_one_terminal_make_no_line_together_that_neither_may_write(
    writes: list[tuple[int, bytes]], seen: bytes
) -> None:
    line = TerminalLine()
    texts = [TerminalText(line), TerminalText(line)]
    got = b"".join(texts[number].feed(data) for number, data in writes)
    assert got + b"".join(text.flush() for text in texts) + line.end() == seen


PIECES = st.lists(
    st.one_of(
        st.binary(max_size=8),
        st.sampled_from(
            [b"\x1b", b"[", b"31m", b"\x1b[0m", b"affi", b"ant:", b"Xffiant:", b"a", b"\n", b"\r", b"\t"]
            + [b"\xe2\x80", b"\xae", b"\x8d", b" ", b"." * 16, "\u034f\ufe0f\u3164\u2800".encode()]
        ),
    ),
    max_size=12,
)
SAFE = re.compile(
    r"(?:\x1b\[[0-9;:]*m|\r\x1b\[K|[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069])*\Z"
)
WIDTH = 16
SHOWS_NOTHING = re.compile("[\u034f\u115f\u1160\u200c\u200d\u2800\u3164\ufe00-\ufe0f\uffa0]")


def rows(text: str) -> list[str]:
    """What a terminal of ``WIDTH`` columns shows of it: it wraps, and it overwrites after a CR."""
    screen, row, column = {}, 0, 0
    for part in re.findall(r"\x1b\[[0-9;:]*[mK]|.", text, re.DOTALL):
        if part == "\n":
            row, column = row + 1, 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            screen = {place: shown for place, shown in screen.items() if place[0] != row or place[1] < column}
        elif part == "\t":
            column = min((column // 8 + 1) * 8, WIDTH - 1)
        elif not (part.startswith("\x1b") or SHOWS_NOTHING.match(part) or unicodedata.combining(part)):
            if column == WIDTH:
                row, column = row + 1, 0
            screen[row, column] = part
            column += 1
    return [
        "".join(screen.get((each, column), " ") for column in range(WIDTH)).rstrip()
        for each in range(row + 1)
    ]


def test_the_terminal_of_these_tests_shows_what_a_forger_wants_shown() -> None:
    assert rows("Xffiant: nothing\ra\n")[0] == "affiant: nothing"
    assert rows("." * 16 + "af\u200dfiant: x")[1] == "affiant: x"


@given(PIECES)
@example([b"Xffiant:", b"\r", b"a"])
@example([b"." * 16, b"affi", b"ant:"])
@example([b"Xffiant:", b"\r", b"\x1b[0m", b"a"])
@example(["\u034f\ufe0f\u3164\u2800".encode(), b"affi", "\u034f\ufe0f\u3164\u2800".encode(), b"ant:"])
def test_pieces_do_not_matter_and_nothing_else_gets_through(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert shown(*pieces) == shown(whole) == shown(*(bytes([byte]) for byte in whole))
    text = shown(whole).decode("utf-8")
    assert SAFE.match(text), text
    for row in rows(text):
        assert not re.search("(?i)affiant:", row), text
