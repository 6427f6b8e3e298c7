"""A gateway that names profile signers admits no session under a profile that none of them signed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.session_client import (
    PROFILE,
    Answer,
    Draft,
    Gateway,
    SessionClient,
    admission_headers,
    draft,
    evidence_of,
)
from tests.sigstore_authority.authority import Authority, encoded

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.records.receipt import parse_receipt
from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.signatures.profiles.statement import SignedProfiles
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import Admission, wrap_admission
from affiant.attestation.statements.gateway_config import parse_gateway_config
from affiant.gateway.config.trusted_keys import read_named
from affiant.policy.loading.load import load_profiles
from affiant.policy.signing.signatures import signed_profiles

IDENTITY, ISSUER = "reviewer@team.example", "https://accounts.team.example"
FILE = load_profiles(PROFILE)
SIGNED = signed_profiles(FILE)
OTHER_DIGEST = "sha384:" + "0" * 96


def signing_key() -> SigningKey:
    key = ec.generate_private_key(ec.SECP256R1())
    return SigningKey(key, ProfileKey.of(key.public_key()))


REVIEWER, STRANGER, ENDED, REVOKED = signing_key(), signing_key(), signing_key(), signing_key()
AUTHORITY = Authority()


def entry(key: SigningKey, **period: str) -> dict[str, Any]:
    return {"value": {"key": dict(key.public.to_jwk())}, **period}


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    past = "2026-01-01T00:00:00Z"
    by_sigstore = {"trusted_root": AUTHORITY.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    items = [
        entry(REVIEWER, **{"from": past}),
        entry(ENDED, until=past),
        entry(REVOKED, revoked_at=past),
        {"value": by_sigstore},
    ]
    path = tmp_path_factory.mktemp("signers") / "signers.json"
    path.write_text(json.dumps({"typ": "affiant-profile-signers/1", "signers": items}))
    return path


@pytest.fixture(scope="module")
def demanding(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: Path, signers: Path
) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("gateway-home")
    with serving_gateway(home, platform_home, "--profile-signers", str(signers)) as started:
        yield started


def by_key(key: SigningKey = REVIEWER, signed: SignedProfiles = SIGNED) -> bytes:
    return sign_envelope(signed.to_bytes(), key)


def by_identity(**changes: Any) -> bytes:
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
    given = {"identity": IDENTITY, "issuer": ISSUER, "at": at, **changes}
    return encoded(AUTHORITY.sign(SIGNED.to_bytes(), **given))


def ask(gateway: Gateway, platform: PlatformClient, signature: bytes | None, **changes: object) -> Answer:
    made = draft(gateway, **changes)
    body = wrap_admission(Admission(evidence_of(made, platform), made.policy, signature))
    return gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce))


@pytest.mark.parametrize("signature", [by_key, by_identity, lambda: by_identity(tiled=True)])
def test_a_signed_profile_is_admitted(
    demanding: Running, platform: PlatformClient, signature: Callable[[], bytes]
) -> None:
    assert ask(demanding.gateway, platform, signature()).status == 201


REFUSED: dict[str, tuple[Callable[[], bytes | None], str]] = {
    "no signature": (lambda: None, "policy.unsigned"),
    "a key that is not named": (lambda: by_key(STRANGER), "policy.signer"),
    "a key whose time is over": (lambda: by_key(ENDED), "policy.signer"),
    "a key that was revoked": (lambda: by_key(REVOKED), "policy.signer"),
    "another identity": (lambda: by_identity(identity="mallory@team.example"), "policy.signer"),
    "another issuer": (lambda: by_identity(issuer="https://accounts.google.com"), "policy.signer"),
    "a certificate that had expired": (
        lambda: by_identity(certified_at=datetime.now(UTC) - timedelta(hours=2)),
        "policy.signer",
    ),
    "a deployment that is not named": (
        lambda: encoded(
            Authority().sign(SIGNED.to_bytes(), identity=IDENTITY, issuer=ISSUER, at=datetime.now(UTC))
        ),
        "policy.signer",
    ),
    "a signature of the future": (
        lambda: by_identity(at=datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)),
        "policy.signer",
    ),
    "a signature about another profile": (
        lambda: by_key(signed=replace(SIGNED, profiles=(OTHER_DIGEST,))),
        "policy.signature_other",
    ),
    "a signature about another file": (
        lambda: by_key(signed=replace(SIGNED, source="sha256:" + "0" * 64)),
        "policy.signature_other",
    ),
    "a signature with another floor": (
        lambda: by_key(signed=replace(SIGNED, floor=OTHER_DIGEST)),
        "policy.signature_other",
    ),
    "a signature for another version": (
        lambda: by_key(signed=replace(SIGNED, semantics="affiant.policy/2")),
        "policy.signature_other",
    ),
    "no signature at all": (lambda: b"{}", "policy.signature"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_any_other_is_refused_and_the_refusal_is_recorded(
    demanding: Running, platform: PlatformClient, name: str
) -> None:
    signature, code = REFUSED[name]
    answer = ask(demanding.gateway, platform, signature())
    assert answer.code == code, answer.body
    assert answer.status == (400 if code == "policy.signature" else 403)
    assert len(answer.headers["affiant-receipt-id"]) == 22


def test_a_signature_cannot_be_exchanged_for_another_profiles(
    demanding: Running, platform: PlatformClient
) -> None:
    """Manifest, events and quote are those of a profile that nobody signed; the signature is a good one."""
    wider = PROFILE.replace(b"run_tests", b"run_shell")
    assert ask(demanding.gateway, platform, by_key(), profile=wider).code == "policy.signature_other"
    comment = PROFILE + b"# reviewed\n"
    assert ask(demanding.gateway, platform, by_key(), profile=comment).code == "policy.signature_other"


def test_only_an_attested_callers_signature_is_verified(demanding: Running, platform: PlatformClient) -> None:
    def flip(raw: bytes) -> bytes:
        return raw[:200] + bytes([raw[200] ^ 1]) + raw[201:]

    answer = ask(demanding.gateway, platform, by_key(STRANGER), alter_quote=flip)
    assert not answer.code.startswith("policy."), answer.body


def test_the_signature_stands_in_the_sessions_bundle(demanding: Running, platform: PlatformClient) -> None:
    signature = by_key()
    made: Draft = draft(demanding.gateway)
    evidence = evidence_of(made, platform)
    body = wrap_admission(Admission(evidence, made.policy, signature))
    answer = demanding.gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce))
    session = SessionClient(demanding.gateway, made, evidence, answer.json())
    assert session.submit(session.boot_record()).status == 200
    policies = session.bundle()["bundle"]["policies"]
    assert from_b64u(policies[sha256_name(signature)]) == signature
    parse_receipt(str(answer.json()["start"]))


def test_whom_it_believes_is_what_its_td_was_launched_for(demanding: Running, signers: Path) -> None:
    config = parse_gateway_config(demanding.gateway.config)
    assert config.profile_signers == read_named((), signers).signers
    assert demanding.ready["config"] == config.digest


def test_without_named_signers_a_signature_is_not_asked_for_but_must_fit(
    gateway: Gateway, platform: PlatformClient
) -> None:
    assert ask(gateway, platform, by_key(STRANGER)).status == 201
    other = by_key(signed=replace(SIGNED, profiles=(OTHER_DIGEST,)))
    assert ask(gateway, platform, other).code == "policy.signature_other"


@pytest.mark.parametrize("content", ["{}", '{"typ": "affiant-profile-signers/1", "signers": []}', "not json"])
def test_a_gateway_does_not_start_with_signers_that_are_none(
    tmp_path: Path, platform_home: Path, platform: PlatformClient, content: str
) -> None:
    path = tmp_path / "signers.json"
    path.write_text(content)
    with (
        pytest.raises(AssertionError, match=r"policy\.signers"),
        serving_gateway(tmp_path / "g", platform_home, "--profile-signers", str(path)),
    ):
        pass


@pytest.mark.slow
def test_a_gateway_does_not_start_with_a_root_under_which_nothing_holds(
    tmp_path: Path, platform_home: Path, platform: PlatformClient
) -> None:
    root = {**AUTHORITY.trusted_root(), "tlogs": []}
    value = {"trusted_root": root, "identity": IDENTITY, "issuer": ISSUER}
    path = tmp_path / "signers.json"
    path.write_text(json.dumps({"typ": "affiant-profile-signers/1", "signers": [{"value": value}]}))
    with (
        pytest.raises(AssertionError, match=r"published\.trusted_root"),
        serving_gateway(tmp_path / "g", platform_home, "--profile-signers", str(path)),
    ):
        pass
