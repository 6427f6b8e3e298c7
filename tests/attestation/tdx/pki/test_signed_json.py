"""The signed text is cut out byte for byte, and nothing but one object can stand in its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.tdx.pki.signed_json import SignedJSON, cut_signed_json
from affiant.attestation.tdx.quote.errors import TCBInfoMalformed

SIGNATURE = "ab" * 64


def cut(body: bytes) -> SignedJSON:
    return cut_signed_json(body, member="tcbInfo", refusal=TCBInfoMalformed)


def body_of(text: str, signature: str = SIGNATURE) -> bytes:
    return f'{{"tcbInfo":{text},"signature":"{signature}"}}'.encode()


def test_the_text_is_exactly_what_stands_there() -> None:
    text = '{"b" : 1,\n "a":[ ]}'
    assert cut(body_of(text)).text == text.encode()
    assert cut(f' {{ "tcbInfo" : {text} , "signature":"{SIGNATURE}" }}\n'.encode()).text == text.encode()


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-(2**53), 2**53), st.text()), max_size=4))
def test_any_object_survives(members: dict[str, object]) -> None:
    text = json.dumps(members)
    if any(isinstance(value, int) and abs(value) > 2**53 - 1 for value in members.values()):
        with pytest.raises(TCBInfoMalformed):
            cut(body_of(text))
        return
    assert cut(body_of(text)).text == text.encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        body_of("{}")[:-1],
        body_of("{}") + b"x",
        b"x" + body_of("{}"),
        body_of(""),
        body_of("[]"),
        body_of("1"),
        body_of("null"),
        body_of("{},{}"),
        body_of('{},"tcbInfo":{}'),
        body_of('{},"other":1'),
        body_of("{}", "ab" * 63),
        body_of("{}", "ab" * 65),
        body_of("{}", "a b" + "ab" * 62 + "a"),
        body_of("{}", "zz" * 64),
        body_of('{"a":1,"a":2}'),
        body_of('{"a":{"b":1,"b":1}}'),
        body_of('{"a":1.5}'),
        body_of('{"a":1e3}'),
        body_of('{"a":NaN}'),
        body_of('{"a":9007199254740993}'),
        body_of("{" + '"a":{' * 10_000 + "}" * 10_001),
        body_of('{"a":' + "[" * 10_000 + "]" * 10_000 + "}"),
        f'{{"signature":"{SIGNATURE}","tcbInfo":{{}}}}'.encode(),
        f'{{"enclaveIdentity":{{}},"signature":"{SIGNATURE}"}}'.encode(),
        b'{"tcbInfo":{"a":"\xff"},"signature":"' + SIGNATURE.encode() + b'"}',
        body_of('{"a":"' + "x" * (600 * 1024) + '"}'),
    ],
    ids=lambda body: body[:24].decode("latin-1") or "empty",
)
def test_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(TCBInfoMalformed):
        cut(body)


def test_the_size_is_bounded_before_anything_is_read() -> None:
    with pytest.raises(TCBInfoMalformed, match="too large"):
        cut(bytes(600 * 1024))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    with pytest.raises(TCBInfoMalformed):
        cut(data)


def test_members_are_typed_and_named_in_the_refusal() -> None:
    members = cut(body_of('{"n":7,"t":"x","h":"AbCd","o":{"i":true},"l":[{},1]}')).members
    assert members.integer("n", maximum=7) == 7
    assert members.hexadecimal("h", size=2) == b"\xab\xcd"
    assert members.texts("absent", maximum=1) == ()
    for refused in (
        lambda: members.integer("n", maximum=6),
        lambda: members.integer("t", maximum=6),
        lambda: members.object("o").integer("i", maximum=6),
        lambda: members.text("n"),
        lambda: members.text("absent"),
        lambda: members.hexadecimal("h", size=1),
        lambda: members.hexadecimal("t", size=1),
        lambda: members.object("n"),
        lambda: members.objects("l", maximum=9),
        lambda: members.objects("n", maximum=9),
        lambda: members.texts("n", maximum=9),
        lambda: members.texts("l", maximum=9),
        lambda: members.texts("l", maximum=1),
        lambda: members.instant("t"),
        lambda: members.component_svns("l"),
    ):
        with pytest.raises(TCBInfoMalformed, match=r"tcbInfo\."):
            refused()


@pytest.mark.parametrize("hexadecimal", ["a b", " ab", "ab ", "a", "0x", "gg", "ａb"])
def test_hexadecimal_has_no_spaces(hexadecimal: str) -> None:
    members = cut(body_of(json.dumps({"h": hexadecimal}, ensure_ascii=False))).members
    with pytest.raises(TCBInfoMalformed):
        members.hexadecimal("h", size=1)


@pytest.mark.parametrize(
    "svns",
    [
        "[]",
        "[{}]",
        '[{"svn":1}]',
        "1",
        "[" + ",".join(['{"svn":1}'] * 15) + "]",
        "[" + ",".join(['{"svn":1}'] * 17) + "]",
        "[" + ",".join(['{"svn":256}'] * 16) + "]",
        "[" + ",".join(['{"svn":-1}'] * 16) + "]",
        "[" + ",".join(['{"svn":true}'] * 16) + "]",
        "[" + ",".join(['{"svn":"1"}'] * 16) + "]",
        "[" + ",".join(["1"] * 16) + "]",
        "[" + ",".join(["{}"] * 16) + "]",
    ],
)
def test_components_are_exactly_sixteen_numbers(svns: str) -> None:
    members = cut(body_of(f'{{"c":{svns}}}')).members
    with pytest.raises(TCBInfoMalformed):
        members.component_svns("c")
