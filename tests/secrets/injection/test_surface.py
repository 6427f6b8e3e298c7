import base64

import pytest
from tests.raising import raises_code

from affiant.secrets.injection.surface import AUTHORIZATION, QuerySurface, Surface
from affiant.secrets.names.errors import SecretValueInvalid

PH = b"affiant-ph-0123456789ABCDEFGHIJKLMNOPQRSTUV"
VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"


def basic(text: bytes) -> bytes:
    return b"Basic " + base64.b64encode(text)


@pytest.mark.parametrize(
    ("sent", "becomes"),
    [
        (b"Bearer " + PH, b"Bearer " + VALUE),
        (b"bearer " + PH, b"bearer " + VALUE),
        (b"token " + PH, b"token " + VALUE),
        (basic(b"user:" + PH), basic(b"user:" + VALUE)),
        (basic(b":" + PH), basic(b":" + VALUE)),
        (basic(PH + b":"), basic(VALUE + b":")),
        (basic(PH + b":x-oauth-basic"), basic(VALUE + b":x-oauth-basic")),
    ],
)
def test_the_whole_credential_of_authorization_is_replaced(sent: bytes, becomes: bytes) -> None:
    assert AUTHORIZATION.holds(sent, PH)
    assert AUTHORIZATION.substituted(sent, PH, VALUE) == becomes


@pytest.mark.parametrize(
    "sent",
    [
        PH,
        b"Bearer " + PH + b" ",
        b"Bearer  " + PH,
        b"Bearer x" + PH,
        b"Bearer " + PH + b"x",
        b"Bearer " + PH + b", " + PH,
        b"Digest " + PH,
        b'Digest username="' + PH + b'"',
        b"Bearer\t" + PH,
        basic(PH),
        basic(PH + b":secret"),
        basic(b"user:x" + PH),
        basic(b"user:" + PH + b"x"),
        basic(PH + b":" + PH),
        b"Basic " + base64.b64encode(b"user:" + PH).rstrip(b"=") + b"!",
        b"Basic !!!",
        b"",
    ],
)
def test_anything_but_the_whole_credential_is_not_a_use(sent: bytes) -> None:
    assert not AUTHORIZATION.holds(sent, PH)
    with raises_code("secret.surface"):
        AUTHORIZATION.substituted(sent, PH, VALUE)


def test_an_injected_header_matches_its_whole_format() -> None:
    surface = Surface.injected("X-Api-Key", "{}")
    assert surface.label == "header:x-api-key"
    assert surface.substituted(PH, PH, VALUE) == VALUE
    assert not surface.holds(b"x " + PH, PH)
    bearer = Surface.injected("Authorization", "Bearer {}")
    assert bearer.substituted(b"Bearer " + PH, PH, VALUE) == b"Bearer " + VALUE
    assert not bearer.holds(b"token " + PH, PH)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("X-Key", ""), ("X-Key", "Bearer"), ("X-Key", "{}{}"), ("X-Key", "{}\r\nX: y"), ("X-Key", "é{}"),
        ("X Key", "{}"), ("", "{}"), ("Host", "{}"), ("Content-Length", "{}"), ("User-Agent", "{}"), ("X\n", "{}"),
        ("Range", "{}"), ("If-Range", "{}"), ("X-Range-Key", "{}"),
    ],
)  # fmt: skip
def test_a_surface_that_cannot_carry_a_secret_is_refused(header: str, form: str) -> None:
    with raises_code("secret.surface"):
        Surface.injected(header, form)


def test_the_short_form_is_for_authorization_only() -> None:
    with raises_code("secret.surface"):
        Surface("x-api-key", None)


@pytest.mark.parametrize("value", [b"two words that are a secret", "pässwörter-ganz-geheim".encode()])
def test_a_value_that_cannot_stand_in_a_header_is_refused(value: bytes) -> None:
    with pytest.raises(SecretValueInvalid) as refusal:
        AUTHORIZATION.substituted(b"Bearer " + PH, PH, value)
    assert value.decode() not in str(refusal.value)
    assert AUTHORIZATION.substituted(basic(b"u:" + PH), PH, value) == basic(b"u:" + value)


GIT = Surface("authorization", None, "git")


def test_basic_of_one_user_is_that_users_password_and_nothing_else() -> None:
    assert GIT.substituted(basic(b"git:" + PH), PH, VALUE) == basic(b"git:" + VALUE)
    others = (
        basic(b"root:" + PH),
        basic(b":" + PH),
        basic(PH + b":"),
        basic(PH + b":x-oauth-basic"),
        b"Bearer " + PH,
    )
    for sent in (*others, basic(b"git:" + PH + b"x"), basic(b"git:git:" + PH), b"Basic " + PH):
        assert not GIT.holds(sent, PH)


def test_basic_of_a_user_has_no_format() -> None:
    for header, template in (("authorization", "{}"), ("x-key", "{}")):
        with raises_code("secret.surface"):
            Surface(header, template, "git")


KEY = QuerySurface("key")


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"", b""), (b"a=1&", b""), (b"", b"&b=2"), (b"a=1&", b"&b=%20&c"), (b"keys=1&", b"")],
)
def test_the_whole_value_of_one_parameter_is_replaced(before: bytes, after: bytes) -> None:
    target = b"/v1/x?" + before + b"key=" + PH + after
    place = KEY.place(target, PH)
    assert place is not None and target[place] == PH
    assert KEY.substituted(target, place, VALUE) == b"/v1/x?" + before + b"key=" + VALUE + after


def test_a_value_is_escaped_so_that_it_stays_one_value() -> None:
    target = b"/x?key=" + PH + b"&b=1"
    place = KEY.place(target, PH)
    assert place is not None
    assert (
        KEY.substituted(target, place, b"a&b=c#/?%+ \xff;") == b"/x?key=a%26b%3Dc%23%2F%3F%25%2B%20%FF%3B&b=1"
    )


@pytest.mark.parametrize(
    "query",
    [
        *(
            b"Key=" + PH,
            b"key=" + PH + b"x",
            b"key=x" + PH,
            b"key==" + PH,
            b"key=" + PH + b"=",
            b"k%65y=" + PH,
        ),
        *(b"key=" + PH + b"&key=1", b"key=1&key=" + PH, b"key=" + PH + b"&k%65y=1", b"key=" + PH + b"&KEY=1"),
        *(
            b"key=" + PH + b";key=1",
            b"a=1;key=" + PH,
            b"key=" + PH + b";b=1",
            b"key=" + PH + b"&+key=1",
            b"key",
        ),
        *(
            b"key=" + PH + rest
            for rest in (b"&key[]=1", b"&key%5Ba%5D=1", b"&KEY[a=1", b"&key%00=1", b"&key [0]")
        ),
        *(b"other=" + PH, PH + b"=key", b"", b"key=" + PH[:-1], b"key=" + PH + b"&%20key=1"),
    ],
)
def test_anything_but_the_whole_value_of_the_one_parameter_is_not_a_use(query: bytes) -> None:
    assert KEY.place(b"/v1/x?" + query, PH) is None


def test_a_path_is_no_query() -> None:
    assert KEY.place(b"/key=" + PH, PH) is None


@pytest.mark.parametrize("name", ["", "a b", "a&b", "a=b", "a%20", "\u00e9", "x" * 65])
def test_a_parameter_that_would_be_escaped_is_none(name: str) -> None:
    with raises_code("secret.surface"):
        QuerySurface(name)
