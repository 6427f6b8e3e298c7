import base64
import html
import json
import random
import re
import time
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.redaction import RedactionStream, Redactor
from affiant.secrets.redaction.variants import variants

VALUE = b'gh/p+9sX2kQ7v&Lm4Tz"R1b<Yw'
OTHER = b"sk-live-77aZ0pQxX3nN"
PH, OTHER_PH = "affiant-ph-" + "0" * 32, "affiant-ph-" + "1" * 32
REDACTOR = Redactor([(SecretValue(VALUE), PH), (SecretValue(OTHER), OTHER_PH)])
TEXT = VALUE.decode()
JWT = b".".join(base64.urlsafe_b64encode(random.Random(seed).randbytes(60)) for seed in range(3))

ECHOES = {
    "plain": VALUE,
    "lower": VALUE.lower(),
    "upper": VALUE.upper(),
    "reversed": VALUE[::-1],
    "url": urllib.parse.quote(TEXT, safe="").encode(),
    "url-path": urllib.parse.quote(TEXT).encode(),
    "url-lower": re.sub("%..", lambda escape: escape[0].lower(), urllib.parse.quote(TEXT, safe="")).encode(),
    "url-every": "".join(f"%{byte:02X}" for byte in VALUE).encode(),
    "form": urllib.parse.urlencode({"k": TEXT}).encode(),
    "json": json.dumps(TEXT).encode(),
    "json-slash": json.dumps(TEXT).replace("/", "\\/").encode(),
    "json-u": "".join(f"\\u{byte:04x}" for byte in VALUE).encode(),
    "json-U": "".join(f"\\u{byte:04X}" for byte in VALUE).encode(),
    "html": html.escape(TEXT).encode(),
    "html-dec": "".join(f"&#{byte};" for byte in VALUE).encode(),
    "html-hex": "".join(f"&#x{byte:x};" for byte in VALUE).encode(),
    "json-go": TEXT.replace('"', '\\"').replace("&", "\\u0026").replace("<", "\\u003c").encode(),
    "json-net": "".join(f"\\u{ord(char):04X}" if char in "\"&+<" else char for char in TEXT).encode(),
    "html-go": TEXT.replace("&", "&amp;").replace('"', "&#34;").replace("<", "&lt;").replace("+", "&#43;").encode(),
    "hex": VALUE.hex().encode(),
    "HEX": VALUE.hex().upper().encode(),
    "json-json": json.dumps(json.dumps(TEXT)).encode(),
    "json-json-u": json.dumps("".join(f"\\u{byte:04x}" for byte in VALUE)).encode(),
    "html-html": html.escape(html.escape(TEXT)).encode(),
    "url-url": urllib.parse.quote(urllib.parse.quote(TEXT, safe=""), safe="").encode(),
    "hex with colons": VALUE.hex(":").encode(),
    "HEX with colons": VALUE.hex(":").upper().encode(),
    "bytes in JSON": json.dumps(list(VALUE)).encode(),
    "bytes in dense JSON": json.dumps(list(VALUE), separators=(",", ":")).encode(),
    "utf-32-le": TEXT.encode("utf-32-le"),
    "utf-32-be": TEXT.encode("utf-32-be"),
    "hex with blanks": VALUE.hex(" ").encode(),
    "HEX with blanks": VALUE.hex(" ").upper().encode(),
    "utf-16-le": TEXT.encode("utf-16-le"),
    "utf-16-be": TEXT.encode("utf-16-be"),
    "utf-16-bom": TEXT.encode("utf-16"),
    "base64": base64.b64encode(VALUE),
    "base64url": base64.urlsafe_b64encode(VALUE),
    "base64-bare": base64.b64encode(VALUE).rstrip(b"="),
    "basic": base64.b64encode(b"user:" + VALUE),
    "basic-1": base64.b64encode(b"u:" + VALUE),
    "basic-2": base64.b64encode(b"abc:" + VALUE),
    "basic-middle": base64.b64encode(b"abc:" + VALUE + b":tail"),
    "base64url-middle": base64.urlsafe_b64encode(b"abcd:" + VALUE + b":tail"),
}  # fmt: skip


def streamed(redactor: Redactor, chunks: list[bytes]) -> bytes:
    stream = RedactionStream(redactor)
    return b"".join([*map(stream.feed, chunks), stream.flush()])


@pytest.mark.parametrize("name", ECHOES)
def test_an_echo_in_any_spelling_is_redacted(name: str) -> None:
    redacted = REDACTOR.redact(b"before " + ECHOES[name] + b" after")
    assert redacted.replaced == 1
    assert PH.encode() in redacted.data
    for spelling in variants(VALUE):
        assert spelling not in redacted.data
    assert redacted.data.startswith(b"before ")
    assert redacted.data.endswith(b" after")


@pytest.mark.parametrize("user", ["", "u", "us", "use", "x" * 10])
def test_basic_credentials_leave_less_than_a_character(user: str) -> None:
    echo = base64.b64encode(user.encode() + b":" + VALUE)
    redacted = REDACTOR.redact(echo).data
    assert redacted.endswith(PH.encode())
    kept = redacted[: -len(PH)]
    assert len(kept) * 6 - len(user + ":") * 8 <= 4


@pytest.mark.parametrize("length", [60, 64, 76])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\\n"])
@pytest.mark.parametrize("value", [VALUE, JWT], ids=["short", "long"])
def test_an_echo_in_lines_of_base64_leaves_less_than_a_character_wherever_it_begins(
    length: int, end: bytes, value: bytes
) -> None:
    redactor = Redactor([(SecretValue(value), PH)])
    for before in range(length):
        encoded = base64.b64encode(b"\0" * before + value + b"\0" * 60)
        lines = end.join(encoded[at : at + length] for at in range(0, len(encoded), length))
        redacted = redactor.redact(lines)
        kept = redacted.data.replace(PH.encode(), b"").replace(end, b"").rstrip(b"=")
        assert redacted.replaced == 1
        assert len(kept) * 6 - (before + 60) * 8 <= 12


@pytest.mark.parametrize("name", ECHOES)
def test_an_echo_split_anywhere_is_redacted(name: str) -> None:
    text = b"before " + ECHOES[name] + b" after"
    whole = REDACTOR.redact(text).data
    for at in range(len(text)):
        assert streamed(REDACTOR, [text[:at], text[at:]]) == whole
    assert streamed(REDACTOR, [bytes([byte]) for byte in text]) == whole


PIECES = st.lists(
    st.one_of(
        st.sampled_from(sorted(ECHOES.values())),
        st.sampled_from([VALUE, OTHER, VALUE[:10], VALUE[10:], OTHER[:-1], b"\\u00", b"%"]),
        st.binary(max_size=20),
    ),
    max_size=8,
)


@thorough(150)
@given(PIECES, st.lists(st.integers(0, 400), max_size=6))
def test_the_result_does_not_depend_on_the_chunks(pieces: list[bytes], cuts: list[int]) -> None:
    text = b"".join(pieces)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert streamed(REDACTOR, chunks) == REDACTOR.redact(text).data


@thorough(150)
@given(PIECES)
def test_nothing_that_was_known_remains(pieces: list[bytes]) -> None:
    redacted = REDACTOR.redact(b"".join(pieces)).data
    assert VALUE not in redacted
    assert OTHER not in redacted


@thorough(100)
@given(st.binary(max_size=2000))
def test_text_without_secrets_is_unchanged(text: bytes) -> None:
    assert REDACTOR.redact(text) == (text, 0)


@thorough(100)
@given(st.lists(st.binary(max_size=300), max_size=10))
def test_exactly_one_byte_fewer_than_the_longest_spelling_is_held_back(chunks: list[bytes]) -> None:
    stream = RedactionStream(REDACTOR)
    longest = max(len(spelling) for spelling in variants(VALUE) | variants(OTHER))
    seen = given_out = 0
    for chunk in chunks:
        seen += len(chunk)
        given_out += len(stream.feed(chunk))
        assert seen - given_out == min(seen, longest - 1)


@pytest.mark.parametrize("guess", [VALUE[:n] for n in range(1, len(VALUE))] + [b"x" * 12])
def test_what_is_held_back_answers_no_guess(guess: bytes) -> None:
    """A right beginning of a secret is held back no longer than a wrong one (no oracle by timing)."""
    text = b"y" * 500 + guess
    stream = RedactionStream(REDACTOR)
    assert len(stream.feed(text)) == len(text) - REDACTOR.held_back


def test_two_secrets_side_by_side_are_both_replaced() -> None:
    redacted = REDACTOR.redact(VALUE + OTHER + VALUE)
    assert redacted == ((PH + OTHER_PH + PH).encode(), 3)


def test_no_secrets_hold_nothing_back() -> None:
    stream = RedactionStream(Redactor([]))
    assert stream.feed(b"abc") == b"abc"
    assert not Redactor([])


def test_what_was_made_for_one_request_is_redacted_in_every_spelling() -> None:
    made = bytes(range(100, 132))
    redactor = Redactor.of_made([(made, b"of-this-request")])
    redacted = redactor.redact(b"a " + made + b" " + made.hex().encode() + b" " + base64.b64encode(made))
    assert redacted == (b"a of-this-request of-this-request of-this-request", 3)
    assert REDACTOR.redact(made) == (made, 0) and not Redactor.of_made(())


def test_a_redactor_shows_nothing() -> None:
    assert TEXT not in repr(REDACTOR)


def test_redaction_keeps_up_with_thirty_secrets() -> None:
    """The goal is 40 MB/s; a quarter of it here, because test machines are slow."""
    source = random.Random(1)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    values = ["ghp_" + "".join(source.choice(letters) for _ in range(36)) for _ in range(30)]
    redactor = Redactor(
        (SecretValue(value.encode()), f"affiant-ph-{at:032}") for at, value in enumerate(values)
    )
    text = json.dumps([{"id": at, "url": f"https://example.com/é/{at}"} for at in range(20000)]).encode()
    stream = RedactionStream(redactor)
    start = time.process_time()
    for at in range(0, len(text), 1 << 16):
        stream.feed(text[at : at + (1 << 16)])
    assert len(text) / (time.process_time() - start) > 10e6


@thorough(150)
@given(PIECES, st.lists(st.integers(0, 400), max_size=6))
def test_a_live_stream_gives_out_the_same_bytes(pieces: list[bytes], cuts: list[int]) -> None:
    text = b"".join(pieces)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream = RedactionStream(REDACTOR, live=True)
    out = [stream.feed(text[start:end]) for start, end in zip(edges, edges[1:], strict=False)]
    assert b"".join([*out, stream.flush()]) == REDACTOR.redact(text).data


def test_a_live_stream_holds_back_only_the_beginning_of_a_secret() -> None:
    stream = RedactionStream(REDACTOR, live=True)
    assert stream.feed(b"Your name: ") == b"Your name: "
    assert stream.feed(b"so " + VALUE[:9]) == b"so "
    assert stream.feed(b"? ") == VALUE[:9] + b"? "
    assert stream.feed(VALUE[:-1]) == b""
    assert stream.feed(VALUE[-1:] + b".") == PH.encode() + b"."


def test_a_line_that_ends_like_an_encoding_by_chance_is_given_out_when_nothing_comes() -> None:
    first = base64.b64encode(b"\0\0" + VALUE)[3:4]
    for live, expected in ((True, first + b"\n"), (False, b"")):
        stream = RedactionStream(REDACTOR, live=live)
        assert stream.feed(first + b"\n") == b""
        assert stream.settle() == expected
    stream = RedactionStream(REDACTOR, live=True)
    assert stream.feed(VALUE[:12]) + stream.settle() == b"", "only a line that has ended, and a short one"


@pytest.mark.parametrize("length", [60, 64, 76])
def test_an_echo_in_lines_with_pauses_shows_at_most_its_first_short_line(length: int) -> None:
    """Without this, a pause behind a short first line showed all of the token, and counted nothing."""
    redactor = Redactor([(SecretValue(JWT), PH)])
    for before in range(length):
        encoded = base64.b64encode(b"\0" * before + JWT + b"\0" * 60)
        lines = [encoded[at : at + length] + b"\n" for at in range(0, len(encoded), length)]
        stream = RedactionStream(redactor, live=True)
        out = b"".join(stream.feed(line) + stream.settle() + stream.settle() for line in lines)
        whole = redactor.redact(b"".join(lines)).data
        head, tail = whole.split(PH.encode())
        shown = (out + stream.flush()).removeprefix(head).removesuffix(PH.encode() + tail)
        assert stream.count == 1
        assert len(shown) <= 8 and shown in b"".join(lines)


@thorough(150)
@given(PIECES, st.lists(st.integers(0, 400), max_size=6))
def test_pauses_repeat_no_byte_and_change_no_count(pieces: list[bytes], cuts: list[int]) -> None:
    text = b"".join(pieces).replace(b"\\", b"\n")
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream = RedactionStream(REDACTOR, live=True)
    out = b"".join(
        stream.feed(text[start:end]) + stream.settle() for start, end in zip(edges, edges[1:], strict=False)
    )
    out += stream.flush()
    redacted = REDACTOR.redact(text)
    assert stream.count == redacted.replaced
    assert len(out) - len(redacted.data) in range(8 * (stream.count + 1))
    if stream.count == 0:
        assert out == text


@pytest.mark.parametrize("name", ECHOES)
def test_a_live_stream_redacts_an_echo_that_comes_byte_by_byte(name: str) -> None:
    stream = RedactionStream(REDACTOR, live=True)
    out = b"".join(stream.feed(bytes([byte])) for byte in b"<" + ECHOES[name] + b">")
    assert out + stream.flush() == REDACTOR.redact(b"<" + ECHOES[name] + b">").data
