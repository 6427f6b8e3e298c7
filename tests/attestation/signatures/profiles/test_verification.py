"""A signature is believed for who made it, when, under the reader's own roots; everything else has its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.attestation.signatures.profiles.conftest import AT, IDENTITY, ISSUER, SIGNED
from tests.sigstore_authority.authority import Authority, encoded

from affiant.attestation.signatures.profiles.accepted_signers import parse_signers
from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.attestation.signatures.profiles.errors import ProfileSignerRefused
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.profiles.verification import (
    MAX_SIGNATURE,
    ProfileSignature,
    parse_profile_signature,
    require_usable,
    verify_by,
    verify_by_one_of,
)
from affiant.attestation.signatures.sigstore.errors import TrustedRootUnusable
from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.errors import AffiantError

DAY = timedelta(days=1)


def bundle(authority: Authority, **changes: Any) -> ProfileSignature:
    given = {"identity": IDENTITY, "issuer": ISSUER, "at": AT, **changes}
    return parse_profile_signature(encoded(authority.sign(SIGNED.to_bytes(), **given)))


def envelope(key: SigningKey) -> ProfileSignature:
    return parse_profile_signature(sign_envelope(SIGNED.to_bytes(), key))


def root(authority: Authority, identity: str = IDENTITY, issuer: str = ISSUER) -> SigstoreRoot:
    return SigstoreRoot(encoded(authority.trusted_root()), Signer(identity, issuer))


def listed(authority: Authority, **period: str) -> list[dict[str, Any]]:
    value = {"trusted_root": authority.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    return [{"value": value, **period}]


def keyed(key: SigningKey, **period: str) -> list[dict[str, Any]]:
    return [{"value": {"key": dict(key.public.to_jwk())}, **period}]


def shown(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("tiled", [False, True], ids=["promise", "timestamp"])
def test_an_identitys_signature_holds_and_says_when(authority: Authority, tiled: bool) -> None:
    found = verify_by(bundle(authority, tiled=tiled), root(authority))
    assert found.signed == SIGNED
    told = found.to_json()
    assert told["signer"] == {"identity": IDENTITY, "issuer": ISSUER}
    assert told["signed_at"] == shown(AT)
    assert told["at_from"] == ("timestamp-authority" if tiled else "log")


def test_a_keys_signature_holds_and_says_no_time(key: SigningKey) -> None:
    found = verify_by(envelope(key), key.public)
    assert (found.signed, found.log) == (SIGNED, None)
    told = found.to_json()
    assert (told["signer"], told["signed_at"]) == ({"key": key.public.id, "kind": key.public.kind}, None)


@pytest.mark.parametrize(
    ("signer", "code"),
    [
        (lambda a: root(a, issuer="https://accounts.google.com"), "published.signer"),
        (lambda a: root(a, identity="Reviewer@team.example"), "published.signer"),
        (lambda _: root(Authority()), "published.not_logged"),
    ],
)
def test_any_other_identity_issuer_or_root_is_refused(
    authority: Authority, signer: Callable[[Authority], SigstoreRoot], code: str
) -> None:
    with pytest.raises(AffiantError) as found:
        verify_by(bundle(authority), signer(authority))
    assert found.value.code == code


def test_a_certificate_that_had_expired_when_it_signed_is_refused(authority: Authority) -> None:
    late = bundle(authority, certified_at=AT - timedelta(hours=1))
    with pytest.raises(AffiantError) as found:
        verify_by(late, root(authority))
    assert found.value.code == "published.validity"
    with pytest.raises(ProfileSignerRefused, match="published.validity"):
        verify_by_one_of(late, parse_signers(listed(authority)), at=AT)


def test_a_key_is_no_identity_and_an_identity_no_key(authority: Authority, p256: SigningKey) -> None:
    for signature, signer in ((envelope(p256), root(authority)), (bundle(authority), p256.public)):
        with pytest.raises(ProfileSignerRefused):
            verify_by(signature, signer)


def test_a_signature_by_another_key_is_refused(key: SigningKey, p256: SigningKey) -> None:
    if key.public == p256.public:
        verify_by(envelope(p256), key.public)
        return
    with pytest.raises(AffiantError) as found:
        verify_by(envelope(p256), key.public)
    assert found.value.code == "policy.signature_invalid"


def test_the_statement_of_another_bundle_is_refused(authority: Authority) -> None:
    """A bundle whose envelope was exchanged for another, that was signed too."""
    given = {"identity": IDENTITY, "issuer": ISSUER, "at": AT}
    first = authority.sign(SIGNED.to_bytes(), **given)
    first["dsseEnvelope"] = authority.sign(SIGNED.to_bytes() + b" ", **given)["dsseEnvelope"]
    with pytest.raises(AffiantError) as found:
        verify_by(parse_profile_signature(encoded(first)), root(authority))
    assert found.value.code in {"published.not_authentic", "published.not_logged"}


def test_a_signed_statement_about_something_else_is_refused(authority: Authority) -> None:
    for statement in (b"{}", SIGNED.to_bytes().replace(b"policy-signature/1", b"publication/1")):
        raw = encoded(authority.sign(statement, identity=IDENTITY, issuer=ISSUER, at=AT))
        with pytest.raises(AffiantError) as found:
            parse_profile_signature(raw)
        assert found.value.code == "policy.signature"


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"null", b"x" * (MAX_SIGNATURE + 1), b'{"mediaType":"text/plain"}']
)
def test_what_is_no_signature_is_refused(raw: bytes) -> None:
    with pytest.raises(AffiantError) as found:
        parse_profile_signature(raw)
    assert found.value.code == "policy.signature"


# -- lists ---------------------------------------------------------------------------------------------------------


def test_nobody_in_the_list_is_refused(p256: SigningKey) -> None:
    with pytest.raises(ProfileSignerRefused):
        verify_by_one_of(envelope(p256), (), at=AT)


def test_the_one_of_a_list_who_signed_is_found(authority: Authority, p256: SigningKey) -> None:
    signers = parse_signers([*listed(authority), *keyed(p256)])
    assert verify_by_one_of(bundle(authority), signers, at=AT).log is not None
    assert verify_by_one_of(envelope(p256), signers, at=AT).signer == p256.public


@pytest.mark.parametrize(
    ("period", "judged", "holds"),
    [
        ({"from": shown(AT), "until": shown(AT + DAY)}, AT + 30 * DAY, True),  # signed while they counted
        ({"from": shown(AT + DAY)}, AT + 30 * DAY, False),
        ({"until": shown(AT)}, AT + 30 * DAY, False),
        ({"revoked_at": shown(AT + DAY)}, AT + 30 * DAY, False),  # who was revoked may date things back
        ({"revoked_at": shown(AT + DAY)}, AT, True),
        ({}, AT - DAY, False),  # not signed yet, at the instant that is judged at
        ({}, AT - timedelta(seconds=30), True),  # clocks differ a little
    ],
)
def test_an_identity_counts_for_when_it_signed_unless_revoked_by_now(
    authority: Authority, period: dict[str, str], judged: datetime, holds: bool
) -> None:
    signers = parse_signers(listed(authority, **period))
    if holds:
        verify_by_one_of(bundle(authority), signers, at=judged)
    else:
        with pytest.raises(ProfileSignerRefused):
            verify_by_one_of(bundle(authority), signers, at=judged)


@pytest.mark.parametrize(
    ("period", "holds"),
    [
        ({"from": shown(AT), "until": shown(AT + DAY), "revoked_at": shown(AT + DAY)}, True),
        ({"from": shown(AT + DAY)}, False),
        ({"until": shown(AT)}, False),
        ({"revoked_at": shown(AT)}, False),
    ],
)
def test_a_key_counts_for_the_instant_that_is_judged_at(
    p256: SigningKey, period: dict[str, str], holds: bool
) -> None:
    """It says no time of its own: whoever has it could sign into the past."""
    signers = parse_signers(keyed(p256, **period))
    if holds:
        verify_by_one_of(envelope(p256), signers, at=AT)
    else:
        with pytest.raises(ProfileSignerRefused):
            verify_by_one_of(envelope(p256), signers, at=AT)


def test_a_root_under_which_nothing_could_hold_is_refused_at_the_start(
    authority: Authority, p256: SigningKey
) -> None:
    require_usable(())
    require_usable(parse_signers([*keyed(p256), *listed(authority)]))
    (item,) = listed(authority)
    item["value"]["trusted_root"] = {**item["value"]["trusted_root"], "tlogs": []}
    with pytest.raises(TrustedRootUnusable):
        require_usable(parse_signers([item]))


def test_a_signature_is_named_by_its_bytes(p256: SigningKey) -> None:
    signature = envelope(p256)
    laid_out = parse_profile_signature(json.dumps(json.loads(signature.raw)).encode())
    assert laid_out.digest != signature.digest and laid_out.claimed == signature.claimed
