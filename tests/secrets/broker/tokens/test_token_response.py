"""Token endpoints' answers, honest and hostile: a token from the one kind, nothing repeated of the others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.model.token_exchange import GrantType
from affiant.secrets.broker.tokens.token_response import parse_token_response
from affiant.secrets.names.errors import TokenRejected, TokenResponseInvalid, TokenUnavailable

TOKEN = "at-9sX2kQ7vLm4TzR1bYwE6~+/.=="
JSON = [(b"content-type", b"application/json; charset=UTF-8")]
GOOD = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}


def parsed(
    members: object, *, status: int = 200, headers=JSON, grant: GrantType = GrantType.CLIENT_CREDENTIALS
):
    body = members if isinstance(members, bytes) else json.dumps(members).encode()
    return parse_token_response(status, headers, body, grant=grant)


@pytest.mark.parametrize(
    ("members", "lifetime"),
    [
        (GOOD, 3600),
        ({**GOOD, "token_type": "bearer"}, 3600),
        ({**GOOD, "token_type": "BEARER", "scope": "a b", "refresh_token": "r", "more": [None, {}]}, 3600),
        ({"access_token": TOKEN, "token_type": "Bearer"}, None),
    ],
)
def test_a_token_is_taken_from_an_answer_of_the_standard(members: object, lifetime: int | None) -> None:
    issued = parsed(members)
    assert (issued.value.reveal(), issued.lifetime_s) == (TOKEN.encode(), lifetime)
    assert TOKEN not in repr(issued)


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in GOOD.items() if key != name}


HOSTILE = {
    "no token": without("access_token"),
    "no type": without("token_type"),
    "another type": {**GOOD, "token_type": "DPoP"},
    "two types": {**GOOD, "token_type": ["Bearer"]},
    "a type with a blank": {**GOOD, "token_type": "Bearer "},
    "a type beyond ASCII": {**GOOD, "token_type": "Bea\u0280er"},
    "an empty token": {**GOOD, "access_token": ""},
    "a short token": {**GOOD, "access_token": "short"},
    "a regular token": {**GOOD, "access_token": "a" * 40},
    "a long token": {**GOOD, "access_token": TOKEN.rstrip("=") * 200},
    "a number for a token": {**GOOD, "access_token": 1},
    "a line break": {**GOOD, "access_token": f"{TOKEN}\r\nX-Evil: 1"},
    "a line break at the end": {**GOOD, "access_token": f"{TOKEN}\n"},
    "a NUL": {**GOOD, "access_token": f"{TOKEN}\0"},
    "a blank": {**GOOD, "access_token": f"{TOKEN[:-2]} {TOKEN}"},
    "a comma": {**GOOD, "access_token": f"{TOKEN[:-2]},{TOKEN}"},
    "beyond ASCII": {**GOOD, "access_token": f"\u00e9{TOKEN}"},
    "a fullwidth letter": {**GOOD, "access_token": f"\uff21{TOKEN}"},
    "text for seconds": {**GOOD, "expires_in": "3600"},
    "a fraction": {**GOOD, "expires_in": 3600.0},
    "a truth value": {**GOOD, "expires_in": True},
    "null seconds": {**GOOD, "expires_in": None},
    "no seconds": {**GOOD, "expires_in": 0},
    "seconds ago": {**GOOD, "expires_in": -1},
    "too many seconds": {**GOOD, "expires_in": 2**31 + 1},
    "a list": [GOOD],
    "text": TOKEN,
    "nothing": b"",
    "a form": b"access_token=%s&token_type=bearer" % TOKEN.encode(),
    "a token twice": b'{"access_token": "%s", "access_token": "x", "token_type": "Bearer"}' % TOKEN.encode(),
    "a token twice, escaped": b'{"access_token": "%s", "\\u0061ccess_token": "x", "token_type": "Bearer"}'
    % TOKEN.encode(),
    "a member twice below": b'{"access_token": "%s", "token_type": "Bearer", "x": {"a": 1, "a": 2}}'
    % TOKEN.encode(),
    "two documents": json.dumps(GOOD).encode() * 2,
    "a mark of order": b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
    "UTF-16": json.dumps(GOOD).encode("utf-16"),
    "not a number": b'{"access_token": "%s", "token_type": "Bearer", "expires_in": NaN}' % TOKEN.encode(),
    "bytes beyond UTF-8": b'{"access_token": "%s\xff", "token_type": "Bearer"}' % TOKEN.encode(),
    "deep": b'{"access_token": "%s", "token_type": "Bearer", "x": %s}'
    % (TOKEN.encode(), b"[" * 20_000 + b"]" * 20_000),
    "large": {**GOOD, "x": "x" * 70_000},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_anything_else_is_refused_and_not_repeated(case: str) -> None:
    with pytest.raises(TokenResponseInvalid) as refused:
        parsed(HOSTILE[case])
    shown = f"{refused.value!r}{refused.value}{refused.value.__cause__!r}{refused.value.to_json()}"
    assert "9sX2k" not in shown and "Evil" not in shown


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-type", b"text/html")],
        [(b"content-type", b"application/json; charset=utf-16")],
        [(b"content-type", b"application/problem+json")],
        [*JSON, (b"content-type", b"application/json")],
        [*JSON, (b"content-encoding", b"gzip")],
    ],
)
def test_an_answer_that_is_not_said_to_be_json_is_none(headers) -> None:
    with pytest.raises(TokenResponseInvalid):
        parsed(GOOD, headers=headers)


@pytest.mark.parametrize("status", [201, 202, 204, 206, 301, 302, 303, 304, 307, 308])
def test_another_success_and_a_redirect_are_no_answer(status: int) -> None:
    with pytest.raises(TokenResponseInvalid):
        parsed(GOOD, status=status, headers=[*JSON, (b"location", b"https://login.example.test/")])


@pytest.mark.parametrize(
    ("status", "members", "family", "named"),
    [
        (400, {"error": "invalid_grant", "error_description": "at-9sX2k"}, TokenRejected, "invalid_grant"),
        (401, {"error": "invalid_client"}, TokenRejected, "invalid_client"),
        (400, {"error": "at-9sX2k"}, TokenRejected, None),
        (400, {"error": ["invalid_grant"]}, TokenRejected, None),
        (403, b"<html>", TokenRejected, None),
        (404, GOOD, TokenRejected, None),
        (429, {"error": "invalid_client"}, TokenUnavailable, None),
        (500, GOOD, TokenUnavailable, None),
        (503, b"", TokenUnavailable, None),
    ],
)
def test_a_refusal_says_which_of_the_standards_words_it_is_and_no_other(
    status, members, family, named
) -> None:
    with pytest.raises(family) as refused:
        parsed(members, status=status)
    assert refused.value.found == named
    assert "9sX2k" not in f"{refused.value!r}{refused.value}"


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("urn:ietf:params:oauth:token-type:access_token", True),
        ("urn:ietf:params:oauth:token-type:jwt", True),
        ("urn:ietf:params:oauth:token-type:refresh_token", False),
        (None, False),
    ],
)
def test_what_a_token_was_exchanged_for_must_be_an_access_token(kind: str | None, taken: bool) -> None:
    members = GOOD if kind is None else {**GOOD, "issued_token_type": kind}
    if taken:
        assert parsed(members, grant=GrantType.TOKEN_EXCHANGE).lifetime_s == 3600
    else:
        with pytest.raises(TokenResponseInvalid):
            parsed(members, grant=GrantType.TOKEN_EXCHANGE)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(["access_token", "token_type", "expires_in", "error", "issued_token_type", "x"])


@thorough(60)
@given(
    st.integers(100, 599),
    st.binary(max_size=200) | st.dictionaries(_names, _json).map(json.dumps).map(str.encode),
)
def test_whatever_comes_is_a_token_that_fits_a_header_or_a_refusal_without_a_cause(
    status: int, body: bytes
) -> None:
    try:
        issued = parse_token_response(status, JSON, body, grant=GrantType.CLIENT_CREDENTIALS)
    except AffiantError as error:
        assert error.code.startswith("secret.exchange_")
        assert error.__cause__ is None and error.__suppress_context__ or error.__context__ is None
        return
    assert status == 200
    assert all(0x21 <= byte <= 0x7E for byte in issued.value.reveal())


@thorough(60)
@given(st.text(max_size=60).map(lambda text: f"at-9sX2kQ7vLm4TzR1bYwE6{text}"))
def test_no_character_that_could_end_a_header_passes(token: str) -> None:
    try:
        value = parsed({**GOOD, "access_token": token}).value.reveal()
    except TokenResponseInvalid:
        return
    assert value.decode() == token and token.isascii() and token.isprintable() and " " not in token
