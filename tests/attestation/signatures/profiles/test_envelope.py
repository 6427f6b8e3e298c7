"""A DSSE envelope holds under the key that made it, in one spelling."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.signatures.profiles.conftest import SIGNED
from tests.properties import thorough

from affiant.attestation.signatures.in_toto import PAYLOAD_TYPE
from affiant.attestation.signatures.profiles.envelope import parse_envelope, sign_envelope
from affiant.attestation.signatures.profiles.errors import ProfileSignatureInvalid, ProfileSignatureMalformed
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.errors import AffiantError

LIMIT = 256 << 10


def test_an_envelope_is_what_other_tools_expect(key: SigningKey) -> None:
    document = json.loads(sign_envelope(SIGNED.to_bytes(), key))
    (signature,) = document["signatures"]
    payload = base64.b64decode(document["payload"])
    encoded = b"DSSEv1 28 application/vnd.in-toto+json %d %s" % (len(payload), payload)
    key.public.verify(encoded, base64.b64decode(signature["sig"]))
    assert (document["payloadType"], signature["keyid"]) == (PAYLOAD_TYPE, key.public.id)


def test_an_envelope_without_the_name_of_its_key_holds_too(p256: SigningKey) -> None:
    document = json.loads(sign_envelope(SIGNED.to_bytes(), p256))
    for named in ({"keyid": ""}, {}):
        document["signatures"] = [{"sig": document["signatures"][0]["sig"], **named}]
        parse_envelope(json.dumps(document).encode(), limit=LIMIT).verify(p256.public)
    document["signatures"][0]["keyid"] = "sha256:" + "0" * 64
    with pytest.raises(ProfileSignatureInvalid):
        parse_envelope(json.dumps(document).encode(), limit=LIMIT).verify(p256.public)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(more=1),
        lambda d: d.pop("payloadType"),
        lambda d: d.update(payloadType="application/json"),
        lambda d: d["signatures"].append(d["signatures"][0]),
        lambda d: d["signatures"].clear(),
        lambda d: d["signatures"][0].update(cert="x"),
        lambda d: d["signatures"][0].update(keyid=1),
        lambda d: d["signatures"][0].update(sig=""),
        lambda d: d["signatures"][0].update(sig=d["signatures"][0]["sig"] + "\n"),
        lambda d: d["signatures"][0].update(sig="A" * 4000),
        lambda d: d.update(payload=d["payload"].rstrip("=") + "!"),
        lambda d: d.update(payload=[d["payload"]]),
    ],
)
def test_an_envelope_of_another_form_is_refused(
    p256: SigningKey, change: Callable[[dict[str, Any]], object]
) -> None:
    document = json.loads(sign_envelope(SIGNED.to_bytes(), p256))
    change(document)
    with pytest.raises(ProfileSignatureMalformed):
        parse_envelope(json.dumps(document).encode(), limit=LIMIT)


@thorough(150)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_any_changed_byte_is_refused_or_changes_nothing(p256: SigningKey, place: float, byte: int) -> None:
    raw = bytearray(sign_envelope(SIGNED.to_bytes(), p256))
    raw[int(place * len(raw))] = byte
    try:
        envelope = parse_envelope(bytes(raw), limit=LIMIT)
        envelope.verify(p256.public)
    except AffiantError:
        return
    assert envelope.statement == SIGNED.to_bytes()
