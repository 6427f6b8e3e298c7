"""What is sealed opens for one person, record, session and signer; everything else is refused, absent, or padding."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.attestation.sealed_before import seal_before
from tests.attestation.story import Story

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.records.sealed_disclosures import (
    DisclosureReader,
    SessionSealing,
    apart,
    key_name,
    recipient,
    require_recipient,
)
from affiant.errors import AffiantError, MalformedError

VECTORS = json.loads((Path(__file__).parents[3] / "attestation/vectors/receipts/openings.json").read_text())
KEY = X25519PrivateKey.generate()
SESSION, KID = "A" * 22, "B" * 43


def sealing(key: X25519PrivateKey = KEY, *, session: str = SESSION, kid: str = KID) -> SessionSealing:
    return SessionSealing(to=recipient(key), session=session, kid=kid, random_bytes=os.urandom)


def text_of(name: str) -> str:
    match VECTORS["texts"][name]:
        case str(text):
            return text
        case {"of": other, "cut": count}:
            return text_of(other)[:-count]
        case {"of": other, "flip": at}:
            mark, _, body = text_of(other).partition(".")
            data = bytearray(from_b64u(body))
            data[at] ^= 1
            return f"{mark}.{b64u(data)}"
    raise AssertionError(name)


def came_of(case: dict[str, Any], tenant: str = "tenant") -> str:
    record = VECTORS["records"][case["record"]]
    named = {record["rh"]: case["kept"]["record"], record["key_name"]: case["kept"]["key"]}
    kept = {name: text_of(text) for name, text in named.items() if text is not None}
    reader = DisclosureReader(X25519PrivateKey.from_private_bytes(from_b64u(VECTORS["keys"][tenant])))
    try:
        found = reader.open(record["jws"], kept.get)
    except AffiantError as error:
        return error.code
    if found is None:
        return "absent"
    assert found == tuple(record["disclosures"])
    return "opened"


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["id"])
def test_every_vector_has_its_result(case: dict[str, Any]) -> None:
    assert came_of(case) == case["expect"]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["id"])
def test_another_tenant_opens_none_of_them(case: dict[str, Any]) -> None:
    if case["kept"]["key"] != "key of another tenant":
        assert came_of(case, "another tenant") in {"sd.opening", "absent", "fmt.encoding"}


def test_what_is_sealed_opens_again_and_for_its_record_alone() -> None:
    story = Story().tell()
    one, two = [record for record in story.session_records if record.payload["kind"] == "exec"]
    to = sealing(session=story.session, kid=story.session_signer.kid)
    kept = dict(apart(one.jws, to.handed_on(one.disclosures, rh=one.rh)))
    assert kept == {to.name: to.sealed_key, one.rh: kept[one.rh]}
    assert DisclosureReader(KEY).open(one.jws, kept.get) == one.disclosures
    assert DisclosureReader(KEY).open(two.jws, kept.get) is None
    with pytest.raises(AffiantError, match="another receipt"):
        DisclosureReader(KEY).open(two.jws, {**kept, two.rh: kept[one.rh]}.get)


def test_no_two_records_of_a_session_are_sealed_under_one_key() -> None:
    """The nonce is always zero: under one key, equal plaintexts would be equal ciphertexts."""
    to = sealing()
    texts = {to.seal(["same"], rh=b64u(os.urandom(32))) for _ in range(200)}
    assert len(texts) == 200
    assert to.seal(["same"], rh=KID) == to.seal(["same"], rh=KID)


def test_each_session_and_signer_has_a_key_of_its_own() -> None:
    made = [sealing(), sealing(), sealing(session="C" * 21 + "A"), sealing(kid="D" * 43)]
    assert len({each.sealed_key for each in made}) == 4
    assert [each.name for each in made] == [
        key_name(session=SESSION, kid=KID),
        key_name(session=SESSION, kid=KID),
        key_name(session="C" * 21 + "A", kid=KID),
        key_name(session=SESSION, kid="D" * 43),
    ]
    assert len({each.name for each in made}) == 3


def test_the_length_of_what_is_sealed_tells_nothing() -> None:
    to = sealing()
    assert len({len(to.seal(texts, rh=KID)) for texts in ([], ["a"], ["a" * 500, "b" * 400])}) == 1


@pytest.mark.parametrize(
    "text",
    ["2k.AAAA", "2k.AAAA.3.AAAA", "2k.AAAA.AAAA", "2k.A.2.AAAA", "2k.AAAA.2.A", "2.A", "2.=", "A", "x.y"],
)
def test_what_is_handed_on_in_another_form_is_refused(text: str) -> None:
    record = Story().tell().session_records[1]
    with pytest.raises(MalformedError):
        apart(record.jws, text)


def test_a_record_of_no_session_has_no_key() -> None:
    boot = Story().tell().session_records[0]
    with pytest.raises(MalformedError, match="no session"):
        apart(boot.jws, f"{sealing().sealed_key}.2.AAAA")
    assert apart(boot.jws, "AAAA") == {boot.rh: "AAAA"}


def test_what_version_1_sealed_is_handed_on_as_it_is() -> None:
    record = Story().tell().session_records[1]
    text = seal_before(record.disclosures, to=recipient(KEY), rh=record.rh)
    assert apart(record.jws, text) == {record.rh: text}
    assert DisclosureReader(KEY).open(record.jws, {record.rh: text}.get) == record.disclosures


def test_keys_are_neither_shown_nor_copied() -> None:
    drawn = []

    def random_bytes(size: int) -> bytes:
        drawn.append(os.urandom(size))
        return drawn[-1]

    to = SessionSealing(to=recipient(KEY), session=SESSION, kid=KID, random_bytes=random_bytes)
    assert [len(each) for each in drawn] == [32]
    for secret in (to, DisclosureReader(KEY)):
        assert b64u(drawn[0]) not in repr(secret) and drawn[0].hex() not in repr(secret)
        with pytest.raises(TypeError):
            pickle.dumps(secret)


@pytest.mark.parametrize("text", ["", "A", "A" * 42, b64u(bytes(32)), b64u(b"\1" + bytes(31))])
def test_what_cannot_be_sealed_to_is_no_recipient(text: str) -> None:
    """The last two are points of small order: they give every sender the same secret (RFC 7748, section 6.1)."""
    with pytest.raises((MalformedError, ValueError)):
        require_recipient(text)
    require_recipient(recipient(KEY))
