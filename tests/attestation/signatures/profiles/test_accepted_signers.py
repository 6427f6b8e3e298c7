"""Signers are named one by one, each with its time; nobody and anybody cannot be meant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.attestation.signatures.profiles.conftest import IDENTITY, ISSUER, PRIVATE, public_pem
from tests.attestation.story import trust
from tests.sigstore_authority.authority import Authority

from affiant.attestation.signatures.profiles.accepted_signers import (
    parse_signers,
    parse_signers_file,
    signer_name,
    signers_document,
)
from affiant.attestation.signatures.profiles.errors import SignersInvalid
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
from affiant.attestation.verdict.trust_file import TrustFileMalformed


def entry(key: SigningKey, **period: str) -> dict[str, Any]:
    return {"value": {"key": dict(key.public.to_jwk())}, **period}


def test_a_list_is_read_as_it_was_written(key: SigningKey, authority: Authority) -> None:
    by_sigstore = {"trusted_root": authority.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    items = [
        entry(key, **{"from": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z"}),
        {"value": by_sigstore},
    ]
    found = parse_signers(items)
    assert signers_document(found) == items
    assert parse_signers(signers_document(found)) == found
    assert found[0].entry.valid_from == datetime(2026, 1, 1, tzinfo=UTC)
    assert isinstance(found[1].signer, SigstoreRoot)
    assert [signer_name(each.signer) for each in found] == [
        f"key {key.public.id}",
        f"{IDENTITY} (issuer {ISSUER})",
    ]


def test_a_file_may_hold_a_key_as_pem(p256: SigningKey) -> None:
    pem = public_pem(PRIVATE["P-256"]).decode()
    document = {"typ": "affiant-profile-signers/1", "signers": [{"value": {"key": pem}}]}
    (found,) = parse_signers_file(json.dumps(document).encode())
    assert found.signer == p256.public
    assert signers_document([found]) == [entry(p256)]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"typ":"affiant-profile-signers/2","signers":[]}'])
def test_what_is_no_file_of_signers_is_refused(content: bytes) -> None:
    with pytest.raises(SignersInvalid):
        parse_signers_file(content)


def test_one_signer_twice_is_refused_whatever_the_time(key: SigningKey, authority: Authority) -> None:
    """Else a signer who is revoked in one entry would count by the other."""
    revoked = {"revoked_at": "2026-03-01T00:00:00Z"}
    before, after = {"until": "2026-01-01T00:00:00Z"}, {"from": "2026-02-01T00:00:00Z"}
    by_sigstore = {"trusted_root": authority.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    for one in (entry(key)["value"], by_sigstore):
        for first, second in ((revoked, {}), ({}, revoked), (before, after)):
            other = {"value": {**by_sigstore, "identity": "somebody-else@example.org"}}
            items = [{"value": one, **first}, other, {"value": one, **second}]
            with pytest.raises(SignersInvalid) as refused:
                parse_signers(items)
            assert refused.value.where == "signers[0], signers[2]"
            with pytest.raises(TrustFileMalformed, match="one signer twice"):
                trust(profile_signers=items)


def test_a_key_as_pem_and_as_jwk_is_one_signer(p256: SigningKey) -> None:
    pem = {"value": {"key": public_pem(PRIVATE["P-256"]).decode()}}
    document = {"typ": "affiant-profile-signers/1", "signers": [pem, entry(p256)]}
    with pytest.raises(SignersInvalid, match="one signer twice"):
        parse_signers_file(json.dumps(document).encode())


def test_lists_that_mean_nobody_or_anybody_are_refused(p256: SigningKey, authority: Authority) -> None:
    good, root = entry(p256), authority.trusted_root()
    bad: list[object] = [
        [],
        None,
        {},
        [good, good],
        [good] * 17,
        [{}],
        [{"value": {}}],
        [{"value": "*"}],
        [{**good, "note": 1}],
        [{**good, "from": "2026-02-30T00:00:00Z"}],
        [{**good, "until": 5}],
        [{"value": {"key": {}}}],
        [{"value": {"trusted_root": root, "identity": IDENTITY}}],
        [{"value": {"trusted_root": root, "identity": "", "issuer": ISSUER}}],
        [{"value": {"trusted_root": root, "identity": IDENTITY, "issuer": ""}}],
        [{"value": {"trusted_root": {}, "identity": IDENTITY, "issuer": ISSUER}}],
    ]
    for items in bad:
        with pytest.raises(SignersInvalid):
            parse_signers(items)
