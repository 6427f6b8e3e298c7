"""Compact JWS: its size, its three parts, its one header, and the key that the header names."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.errors import AffiantError

KEY = Signer(ec.derive_private_key(7, ec.SECP256R1()))
TYP = "eat+jwt"


def signed(payload: bytes, *, kid: str = KEY.kid) -> str:
    """``payload`` as it is, signed by the key, under a header of the fixed form."""
    header = canonical({"alg": "ES256", "kid": kid, "typ": TYP})
    signing_input = f"{b64u(header)}.{b64u(payload)}"
    return f"{signing_input}.{b64u(KEY.sign(signing_input.encode()))}"


def refused(text: str, key: Signer = KEY) -> str:
    with pytest.raises(AffiantError) as caught:
        jws.verify(jws.split(text, typ=TYP), key.public_key)
    return caught.value.code


def of_size(size: int) -> dict[str, object]:
    """An object whose canonical form has ``size`` bytes."""
    return {"a": "x" * (size - len(canonical({"a": ""})))}


def test_a_payload_of_16_kib_holds_and_one_byte_more_is_neither_signed_nor_read() -> None:
    largest, larger = of_size(jws.MAX_PAYLOAD), of_size(jws.MAX_PAYLOAD + 1)
    assert jws.verify(jws.split(jws.sign(KEY, largest, typ=TYP), typ=TYP), KEY.public_key) == largest
    with pytest.raises(jws.JWSMalformed):
        jws.sign(KEY, larger, typ=TYP)
    with pytest.raises(jws.JWSMalformed) as caught:
        jws.split(signed(canonical(larger)), typ=TYP)
    assert caught.value.found == jws.MAX_PAYLOAD + 1


def test_text_is_measured_before_it_is_decoded() -> None:
    """What is too long costs nothing: the refusal does not depend on what stands there."""
    for text in ("!" * 30_000, signed(b"{}") + "." + "A" * 30_000):
        with pytest.raises(jws.JWSMalformed) as caught:
            jws.split(text, typ=TYP)
        assert "ASCII" in str(caught.value)


@pytest.mark.parametrize("place", [0, 200, -1])
def test_a_letter_that_is_no_ascii_is_no_part_of_a_jws(place: int) -> None:
    text = list(signed(canonical(of_size(200))))
    text[place] = "\u017f"
    assert refused("".join(text)) == "fmt.jws"


@pytest.mark.parametrize(
    "text", ["", ".", "..", "...", signed(b"{}").rpartition(".")[0], signed(b"{}") + "."]
)
def test_a_jws_has_three_parts_and_the_first_is_the_header(text: str) -> None:
    assert refused(text) == "fmt.jws"


@pytest.mark.parametrize("alg", ["none", "HS256", "ES384", "es256"])
def test_a_header_knows_one_algorithm_though_the_signature_holds(alg: str) -> None:
    header = canonical({"alg": alg, "kid": KEY.kid, "typ": TYP})
    signing_input = f"{b64u(header)}.{b64u(b'{}')}"
    assert refused(f"{signing_input}.{b64u(KEY.sign(signing_input.encode()))}") == "fmt.jws"


def test_a_signature_is_over_these_bytes_and_no_others() -> None:
    head, _, signature = signed(b'{"a":1}').split(".")
    assert refused(f"{head}.{b64u(b'{}')}.{signature}") == "sig.invalid"
    assert refused(f"{head}.{b64u(b'{}')}.{b64u(bytes(64))}") == "sig.invalid"


@pytest.mark.parametrize("kid", ["", KEY.kid[:-1], KEY.kid + "A", KEY.kid * 2])
def test_a_header_names_its_key_by_43_characters(kid: str) -> None:
    assert refused(signed(b"{}", kid=kid)) == "fmt.jws"


@pytest.mark.parametrize("kid", [KEY.kid[:-1] + "=", KEY.kid[:-1] + "+", "B" * 43])
def test_a_header_names_its_key_in_one_spelling(kid: str) -> None:
    assert refused(signed(b"{}", kid=kid)) == "fmt.encoding"


def test_a_header_that_names_another_key_is_refused_though_the_signature_holds() -> None:
    """Who signed is told by the name; under this key the signature itself holds."""
    assert refused(signed(b"{}", kid="A" * 43)) == "fmt.jws"


@pytest.mark.parametrize("payload", [b"[]", b'"x"', b"7", b"true", b"null"])
def test_a_payload_that_is_no_object_is_refused_though_signed(payload: bytes) -> None:
    assert refused(signed(payload)) == "fmt.jws"
