"""The place of a secret in a body: the whole value at exactly that place, or none."""

from __future__ import annotations

import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.secrets.injection.body_surface import BodySurface, media_type
from affiant.secrets.names.errors import SecretValueInvalid

PLACEHOLDER = b"affiant-ph-0123456789ABCDEFGHIJKLMNOPQRSTUV"
TEXT = PLACEHOLDER.decode()
VALUE = b'p"4\\ss\tw\xc3\xb6rd&+%'


def at(body: bytes, surface: BodySurface) -> bool:
    """Whether the placeholder has its place in ``body``; if so, only that is replaced."""
    place = surface.place(body, PLACEHOLDER)
    if place is None:
        return False
    assert body[place] == PLACEHOLDER
    filled = surface.substituted(body, place, b"x")
    assert filled == body[: place.start] + b"x" + body[place.stop :]
    return True


@pytest.mark.parametrize(
    ("pointer", "body"),
    [
        ("/token", '{"token": "%s"}'),
        ("/token", ' { "a" : 1.5e3, "token":\n"%s" , "b": [null, true, "ö", -0.0] } '),
        ("/auth/token", '{"auth": {"token": "%s"}}'),
        ("/keys/1", '{"keys": ["a", "%s", "b"]}'),
        ("/keys/0/k", '{"keys": [{"k": "%s"}]}'),
        ("/a~1b/~0c", '{"a/b": {"~c": "%s"}}'),
        ("/$ref", '{"$ref": "%s", "big": 123456789012345678901234567890}'),
    ],
)
def test_a_pointer_leads_to_its_value(pointer: str, body: str) -> None:
    assert at((body % TEXT).encode(), BodySurface(json=pointer))


@pytest.mark.parametrize(
    "body",
    [
        b'{"token": "Bearer %s"}' % PLACEHOLDER,
        b'{"token": "%s "}' % PLACEHOLDER,
        b'{"token": ["%s"]}' % PLACEHOLDER,
        b'{"token": {"token": "%s"}}' % PLACEHOLDER,
        b'{"other": "%s"}' % PLACEHOLDER,
        b'{"%s": 1}' % PLACEHOLDER,
        b'{"token": "%s", "other": "%s"}' % (PLACEHOLDER, PLACEHOLDER),
        b'{"token": "%s", "token": "x"}' % PLACEHOLDER,
        b'{"token": "x", "token": "%s"}' % PLACEHOLDER,
        b'{"token": "%s", "to\\u006ben": "x"}' % PLACEHOLDER,
        b'{"token": "%s", "Token": "x"}' % PLACEHOLDER,
        b'{"Token": "%s"}' % PLACEHOLDER,
        b'{"token": "%s", "o": {"a": 1, "a": 2}}' % PLACEHOLDER,
        b'{"token": "\\u0061%s"}' % PLACEHOLDER[1:],
        b'{"token": "\\u0061%s", "other": "%s"}' % (PLACEHOLDER[1:], PLACEHOLDER),
        b'{"token": "a-place-that-no-placeholder-has", "other": "%s"}' % PLACEHOLDER,
        b'["%s"]' % PLACEHOLDER,
        b'"%s"' % PLACEHOLDER,
        b'{"token": "%s"} x' % PLACEHOLDER,
        b'{"token": "%s"}{"token": "%s"}' % (PLACEHOLDER, PLACEHOLDER),
        b'{"token": "%s",}' % PLACEHOLDER,
        b'{"token": "%s", "n": NaN}' % PLACEHOLDER,
        b'{"token": "%s", "n": Infinity}' % PLACEHOLDER,
        b'{"token": "%s", "n": %s}' % (PLACEHOLDER, b"9" * 5000),
        b"{'token': '%s'}" % PLACEHOLDER,
        b'{"token": "%s" /* "other" */}' % PLACEHOLDER,
        b'{"token": "%s", "bad": "\xff"}' % PLACEHOLDER,
        b'\xef\xbb\xbf{"token": "%s"}' % PLACEHOLDER,
        json.dumps({"token": TEXT}).encode("utf-16"),
        b'{"token": "%s", "deep": %s}' % (PLACEHOLDER, b"[" * 100_000 + b"]" * 100_000),
        b"",
    ],
)
def test_anything_else_in_json_is_no_place(body: bytes) -> None:
    assert not at(body, BodySurface(json="/token"))


@pytest.mark.parametrize("pointer", ["/keys/2", "/keys/01", "/keys/-", "/keys/+1", "/keys/1_0", "/keys"])
def test_an_index_is_one_that_is_there(pointer: str) -> None:
    assert not at(b'{"keys": ["a", "%s"]}' % PLACEHOLDER, BodySurface(json=pointer))


def test_a_body_is_an_object_and_no_array() -> None:
    assert not at(b'["%s"]' % PLACEHOLDER, BodySurface(json="/0"))
    assert at(b'{"0": "%s"}' % PLACEHOLDER, BodySurface(json="/0"))


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@thorough(100)
@given(st.dictionaries(st.text(max_size=4), _values, max_size=4), st.booleans(), st.text(max_size=20))
def test_a_value_that_is_put_into_json_is_that_value_and_nothing_else_changes(
    others: dict[str, object], spaced: bool, secret: str
) -> None:
    others = {name: value for name, value in others.items() if name.casefold() != "token"}
    body = json.dumps({**others, "token": TEXT}, indent=1 if spaced else None).encode()
    surface = BodySurface(json="/token")
    place = surface.place(body, PLACEHOLDER)
    assert place is not None
    spelled = secret.encode("utf-8", "replace")
    assert json.loads(surface.substituted(body, place, spelled)) == {**others, "token": spelled.decode()}


def test_a_value_that_is_no_text_is_not_put_into_json() -> None:
    body = b'{"token": "%s"}' % PLACEHOLDER
    surface = BodySurface(json="/token")
    place = surface.place(body, PLACEHOLDER)
    assert place is not None
    with pytest.raises(SecretValueInvalid) as refusal:
        surface.substituted(body, place, b"\xffhunter2")
    assert "hunter2" not in f"{refusal.value!r}{refusal.value.__cause__!r}"


@pytest.mark.parametrize(
    "body",
    [b"key=%s", b"a=1&key=%s&b=2", b"key=%s&", b"a=%%20&key=%s", b"a=?&key=%s"],
)
def test_a_field_of_a_form_is_filled_and_escaped(body: bytes) -> None:
    surface = BodySurface(form="key")
    form = body % PLACEHOLDER
    assert at(form, surface)
    place = surface.place(form, PLACEHOLDER)
    assert place is not None
    filled = surface.substituted(form, place, VALUE)
    assert urllib.parse.parse_qs(filled.decode("ascii"))["key"] == [VALUE.decode()]


@pytest.mark.parametrize(
    "body",
    [
        b"key=x%s",
        b"key=%s.",
        b"other=%s",
        b"KEY=%s",
        b"k%%65y=%s",
        b"key=%s&key=1",
        b"key=%s&Key=1",
        b"key=%s&key[]=1",
        b"key=%s&key%%5Ba%%5D=1",
        b"key=%s;a=1",
        b"key=%s&a=%%zz",
        b"key=%s&a=%%4",
        b"key=%s&a=\xff",
        b"key=%s\n",
        b" key=%s",
        b"key =%s",
        b"%s=key",
        b"key",
        b"",
    ],
)
def test_anything_else_in_a_form_is_no_place(body: bytes) -> None:
    form = body.replace(b"%s", PLACEHOLDER).replace(b"%%", b"%")
    assert not at(form, BodySurface(form="key"))


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        (b"application/json", b"application/json"),
        (b"Application/JSON ; charset=UTF-8", b"application/json"),
        (b'application/json;charset="utf-8"', b"application/json"),
        (b"application/json; charset=utf-16", None),
        (b"application/json; charset=utf-8; x=y", None),
        (b"application/json, text/plain", None),
        (b"application/problem+json", b"application/problem+json"),
        (b"", None),
    ],
)
def test_a_body_is_what_its_one_content_type_says(content_type: bytes, kind: bytes | None) -> None:
    assert media_type([(b"CONTENT-type", content_type)]) == kind
    assert media_type([(b"content-type", content_type), (b"Content-Encoding", b"identity")]) is None
    assert media_type([(b"content-type", content_type)] * 2) is None
    assert media_type([(b"accept", b"*/*")]) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"json": "/a", "form": "a"},
        {"json": ""},
        {"json": "a"},
        {"json": "/"},
        {"json": "/a/"},
        {"json": "/a b"},
        {"json": "/a~"},
        {"json": "/ä"},
        {"json": '/a"'},
        {"json": "/a" * 9},
        {"json": "/" + "a" * 65},
        {"json": ("/" + "a" * 60) * 5},
        {"form": ""},
        {"form": "a[b]"},
    ],
)
def test_no_other_place_can_be_named(arguments: dict[str, str]) -> None:
    with raises_code("secret.surface"):
        BodySurface(**arguments)
