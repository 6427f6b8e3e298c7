"""A bundle is taken apart in one form, before any library sees it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.attestation.signatures.sigstore.conftest import STATEMENT, Vendor, entry_of
from tests.sigstore_authority.authority import encoded

from affiant.attestation.signatures.sigstore.bundle import MAX_BUNDLE, looks_like_bundle, parse_bundle
from affiant.attestation.signatures.sigstore.errors import BundleMalformed, NotLogged

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def signed(vendor: Vendor) -> dict[str, Any]:
    return vendor.sign()


def material(bundle: dict[str, Any]) -> dict[str, Any]:
    return bundle["verificationMaterial"]


def test_both_generations_of_the_log_are_read(vendor: Vendor) -> None:
    promised, stamped = (parse_bundle(encoded(vendor.sign(tiled=tiled))) for tiled in (False, True))
    assert promised.statement == stamped.statement == STATEMENT
    assert (promised.entry.kind, promised.entry.version) == ("dsse", "0.0.1")
    assert (stamped.entry.kind, stamped.entry.version) == ("hashedrekord", "0.0.2")
    assert promised.entry.promised_at is not None
    assert (stamped.entry.promised_at, len(stamped.timestamps)) == (None, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.1"),
        lambda b: b.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.2"),
        lambda b: b.update(mediaType=3),
        lambda b: b.pop("dsseEnvelope"),
        lambda b: b.update(messageSignature={"signature": "AAAA"}),
        lambda b: b.update(trustedRoot={}),
        lambda b: material(b).update(x509CertificateChain={"certificates": []}),
        lambda b: material(b).update(publicKey={"hint": "me"}),
        lambda b: material(b)["certificate"].update(rawBytes=""),
        lambda b: material(b)["tlogEntries"].append(entry_of(b)),
        lambda b: material(b).update(tlogEntries=[]),
        lambda b: material(b).update(tlogEntries=None),
        lambda b: b["dsseEnvelope"].update(payloadType="text/plain"),
        lambda b: b["dsseEnvelope"].update(signatures=[]),
        lambda b: b["dsseEnvelope"]["signatures"].append(b["dsseEnvelope"]["signatures"][0]),
        lambda b: b["dsseEnvelope"]["signatures"][0].update(keyid="somebody"),
        lambda b: b["dsseEnvelope"].update(payload=b["dsseEnvelope"]["payload"] + "\n"),
        lambda b: entry_of(b).update(log_index="1"),
        lambda b: entry_of(b).update(logIndex=1),
        lambda b: entry_of(b).update(logIndex="01"),
        lambda b: entry_of(b).update(logIndex=" 1"),
        lambda b: entry_of(b).update(logIndex="1_0"),
        lambda b: entry_of(b).update(logIndex="-1"),
        lambda b: entry_of(b).update(logIndex="9" * 30),
        lambda b: entry_of(b).update(integratedTime="0"),
        lambda b: entry_of(b).update(integratedTime="999999999999999999"),
        lambda b: entry_of(b)["inclusionProof"].update(rootHash="AAAA"),
        lambda b: entry_of(b)["inclusionProof"].update(hashes=["AAAA"]),
        lambda b: entry_of(b)["inclusionProof"].update(hashes=["A" * 43 + "="] * 65),
        lambda b: entry_of(b)["inclusionProof"].update(tree_size="5"),
        lambda b: material(b).update(timestampVerificationData={"rfc3161Timestamps": [{}]}),
        lambda b: material(b).update(
            timestampVerificationData={"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}] * 9}
        ),
    ],
)
def test_any_other_form_is_refused(signed: dict[str, Any], change: Change) -> None:
    bundle = copy.deepcopy(signed)
    change(bundle)
    with pytest.raises(BundleMalformed) as refused:
        parse_bundle(encoded(bundle))
    assert refused.value.code == "published.bundle"


@pytest.mark.parametrize(
    "change",
    [
        lambda b: entry_of(b).pop("inclusionProof"),
        lambda b: entry_of(b)["inclusionProof"].pop("checkpoint"),
        lambda b: entry_of(b).pop("inclusionPromise"),
    ],
)
def test_an_entry_that_nobody_proves_is_not_logged(signed: dict[str, Any], change: Change) -> None:
    bundle = copy.deepcopy(signed)
    change(bundle)
    with pytest.raises(NotLogged) as refused:
        parse_bundle(encoded(bundle))
    assert refused.value.code == "published.not_logged"


def test_what_is_no_strict_json_is_refused(signed: dict[str, Any]) -> None:
    text = encoded(signed)
    twice = text.replace(b'"mediaType"', b'"mediaType": "x", "mediaType"', 1)
    for raw in (
        b"",
        b"[]",
        twice,
        b'{"a":' * 100_000,
        text + b" " * MAX_BUNDLE,
        b"\xef\xbb\xbf" + text,
        b"NaN",
    ):
        with pytest.raises(BundleMalformed):
            parse_bundle(raw)


def test_a_bundle_of_any_version_is_known_as_one(signed: dict[str, Any]) -> None:
    assert looks_like_bundle(encoded(signed))
    assert looks_like_bundle(
        json.dumps({"mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1"}).encode()
    )
    for other in (
        b"",
        b"typ: affiant-appraisal/1\n",
        b'{"typ":"affiant-trust/1"}',
        b'{"mediaType":5}',
        b"[]",
    ):
        assert not looks_like_bundle(other)
