import base64
import html
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.secrets.names.errors import SecretPartialEcho
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.parts import LEAST_PART, Parts, secret_spans
from affiant.secrets.redaction.redaction import RedactionStream, Redactor

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6hJ8nC5dF3gA0pUiO"
HEAD = 4
PH = "affiant-ph-" + "0" * 32
REDACTOR = Redactor([(SecretValue(VALUE), PH)])

SPELLED = {
    "plain": bytes,
    "hex": lambda part: part.hex().encode(),
    "HEX": lambda part: part.hex().upper().encode(),
    "base64": base64.b64encode,
    "base64 behind a user": lambda part: base64.b64encode(b"user:" + part),
    "base64 behind another": lambda part: base64.b64encode(b"me:" + part + b"."),
    "base64url": base64.urlsafe_b64encode,
    "url": lambda part: urllib.parse.quote(part, safe="").encode(),
    "json": lambda part: json.dumps(part.decode()).encode(),
    "html": lambda part: html.escape(part.decode()).encode(),
}


def parts_of(*values: bytes) -> Parts:
    parts = Parts()
    parts.know([(SecretValue(value), "TOKEN") for value in values])
    return parts


PARTS = parts_of(VALUE)


def streamed(chunks: list[bytes], parts: Parts = PARTS, redactor: Redactor = REDACTOR) -> bytes:
    """What is given out until the end, or until a part ends it."""
    stream, out = RedactionStream(redactor, parts=parts), b""
    try:
        for chunk in chunks:
            out += stream.feed(chunk)
        return out + stream.flush()
    except SecretPartialEcho:
        return out + b"<ended>"


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("cut", [slice(0, -1), slice(0, 20), slice(1, None), slice(-12, None), slice(10, 25)])
def test_a_part_ends_the_answer_wherever_it_was_cut_out(spelled: str, cut: slice) -> None:
    text = b"before " + SPELLED[spelled](VALUE[cut]) + b" after"
    with raises_code("secret.partial_echo"):
        REDACTOR.redact(text, parts=PARTS)
    assert streamed([text]) == b"<ended>"


@pytest.mark.parametrize("at", range(HEAD, len(VALUE) - LEAST_PART + 1))
def test_twelve_secret_bytes_are_a_part_and_eleven_are_not(at: int) -> None:
    with raises_code("secret.partial_echo"):
        PARTS.require_none(b"<" + VALUE[at : at + LEAST_PART] + b">")
    PARTS.require_none(b"<" + VALUE[at : at + LEAST_PART - 1] + b">")


def test_the_public_head_does_not_count() -> None:
    PARTS.require_none(VALUE[: HEAD + LEAST_PART - 1])
    with raises_code("secret.partial_echo"):
        PARTS.require_none(VALUE[: HEAD + LEAST_PART])


@pytest.mark.parametrize("cut", [slice(0, -1), slice(3, 30), slice(1, None)])
def test_a_part_is_found_and_kept_back_however_it_is_chunked(cut: slice) -> None:
    text = b"x" * 400 + VALUE[cut] + b"y" * 400
    for at in range(390, 460):
        for chunks in ([text[:at], text[at:]], [bytes([byte]) for byte in text] if at == 390 else [text]):
            out = streamed(chunks)
            assert out.endswith(b"<ended>")
            assert set(out.removesuffix(b"<ended>")) <= {ord("x")}, "not a byte of the part was given out"


@thorough(100)
@given(
    st.lists(
        st.sampled_from([VALUE, b"<p>", VALUE[:15], VALUE[-11:], b"ghp_", VALUE.hex().encode()]), max_size=8
    ),
    st.lists(st.integers(0, 300), max_size=5),
)
def test_whole_echoes_are_replaced_and_are_no_parts(pieces: list[bytes], cuts: list[int]) -> None:
    text = b" ".join(pieces)
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    chunks = [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    assert streamed(chunks) == REDACTOR.redact(text).data


def test_a_part_beside_a_whole_echo_is_one() -> None:
    for text in (VALUE + VALUE[:-1], VALUE[10:] + VALUE, VALUE[5:30] + b" " + VALUE):
        assert streamed([text]) == b"<ended>"


JWT = b"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlLW9mLXRoaXMtdG9rZW4tMDEyMzQ1Ng"
JWE = b"eyJhbGciOiJSU0EtT0FFUCJ9.OKOawDo13gRp2ojaHV7LFpZcgV7T6DVZ.48V1_ALb6US04U3b.5eym8TW_c8SuK0lt.XFBoMYUZo"
PEM = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDEyMzQ1Njc4OTA=\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        (VALUE, VALUE[4:]),
        (b"github_pat_11ABCDEFG0abcdefgh_ijklmnop", b"11ABCDEFG0abcdefgh_ijklmnop"),
        (b"sk-proj-AbCdEfGh0123456789", b"AbCdEfGh0123456789"),
        (b"sk-ant-api03-AbCdEfGh0123456789", b"AbCdEfGh0123456789"),
        (b"ya29.a0AfH6SMBx9sX2kQ7vLm4TzR1b", b"a0AfH6SMBx9sX2kQ7vLm4TzR1b"),
        (b"dop_v1_9sX2kQ7vLm4TzR1bYwE6", b"9sX2kQ7vLm4TzR1bYwE6"),
        (b"AKIAIOSFODNN7EXAMPLE", b"IOSFODNN7EXAMPLE"),
        (b"f47ac10b-58cc-4372-a567-0e02b2c3d479", b"f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        (JWT, JWT.rpartition(b".")[2]),
        (JWE, JWE.partition(b".")[2]),
        (PEM, b"MC4CAQAwBQYDK2VwBCIEIDEyMzQ1Njc4OTA="),
        (b"postgres://app:pa55w0rd-Qx7z@db.example.com/main", b"pa55w0rd-Qx7z/main"),
        (b"postgres://app:p@55w0rd-Qx7z@db.example.com/main", b"p@55w0rd-Qx7z/main"),
        (b"mongodb://app:pa55:w0rd-Qx7z@a.example.com:27017,b.example.com:27017/", b"pa55:w0rd-Qx7z/"),
        (b"redis://app:pa55w0rd-Qx7z@[2001:db8::7]:6379", b"pa55w0rd-Qx7z"),
        (b"https://ghx9sX2kQ7vLm4TzR1b@example.com/path", b"ghx9sX2kQ7vLm4TzR1b/path"),
        (b"https://ghx9sX2kQ7vLm4TzR1b:@example.com/path", b"ghx9sX2kQ7vLm4TzR1b/path"),
        (b"https://x:@api.example.com/?token=9sX2kQ7vLm4TzR1b", b"x/?token=9sX2kQ7vLm4TzR1b"),
        (b"https://hooks.example.com/services/T0/B0/9sX2kQ7v", b"/services/T0/B0/9sX2kQ7v"),
        (b"9sX2kQ7vLm4TzR1bYwE6", b"9sX2kQ7vLm4TzR1bYwE6"),
    ],
)  # fmt: skip
def test_what_is_public_of_a_value_is_known_by_its_form(value: bytes, secret: bytes) -> None:
    assert b"".join(value[span.start : span.stop] for span in secret_spans(value)) == secret


@pytest.mark.parametrize(
    "value",
    [
        b"correct-horse-battery-staple-7",
        b"ghp_9sX2kQ7vLm4",
        b"postgres://application:pa55w0rd@database.example.com/",
        b"postgres://application:pa55w0rd@database.example.com/main",
        b"postgres://app:12345@database.example.com/some/long/path",
        b"postgres://app:pa55/w0rd-Qx7z@db.example.com/main",
        b"https://token.example.com:8443",
        JWT.rpartition(b".")[0] + b".c2ln",
        PEM.replace(b"MC4CAQAwBQYDK2VwBCIEIDEyMzQ1Njc4OTA=", b"MC4CAQAwBQ=="[:11]),
    ],
)
def test_where_too_little_would_be_secret_the_whole_value_is(value: bytes) -> None:
    assert secret_spans(value) == (range(len(value)),)


def test_the_public_head_of_a_token_may_come_back() -> None:
    parts = parts_of(JWT)
    parts.require_none(JWT[: JWT.rindex(b".") + LEAST_PART])
    with raises_code("secret.partial_echo"):
        parts.require_none(JWT[: JWT.rindex(b".") + 1 + LEAST_PART])


def test_a_value_that_is_not_ascii_has_parts_too() -> None:
    value = "Zürich-Äpfel-€9sX2kQ7v-Straße".encode()
    for part in (value[8:], value[3:-2], json.dumps(value.decode(), ensure_ascii=False).encode()[2:-4]):
        with raises_code("secret.partial_echo"):
            parts_of(value).require_none(part)


def test_nothing_to_look_for_finds_nothing() -> None:
    Parts().require_none(VALUE[:-1])
    assert repr(PARTS) == "<Parts>"
