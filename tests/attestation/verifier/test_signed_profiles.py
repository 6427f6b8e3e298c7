"""`pol.accepted` by who signed the profile: through sigstore too, which the vectors do not hold."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.story import NOW, POLICY_DIGEST, Story, trust, trust_bytes
from tests.attestation.verifier.test_verify_bundle import judge, row
from tests.sigstore_authority.authority import Authority, encoded

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.signatures.profiles.statement import SignedProfiles
from affiant.attestation.verdict.trust_file import TrustFileMalformed
from affiant.attestation.verdict.verdict import Check, State

AUTHORITY = Authority()
IDENTITY, ISSUER = "reviewer@team.example", "https://accounts.team.example"
BEFORE = NOW.replace(microsecond=0) - timedelta(days=2)
SIGNED = SignedProfiles(
    source=sha256_name(b"profiles.yaml"),
    digest="sha384:" + "2" * 96,
    floor=None,
    profiles=(POLICY_DIGEST,),
    semantics="affiant.policy/1",
)


def key(number: int) -> SigningKey:
    private = ec.derive_private_key(number, ec.SECP256R1())
    return SigningKey(private, ProfileKey.of(private.public_key()))


@cache
def story_bundle() -> Bundle:
    return Story().bundle()


def with_signatures(*signatures: bytes) -> bytes:
    bundle = story_bundle()
    return replace(bundle, policies={**bundle.policies, **objects_by_digest(signatures)}).to_bytes()


def by_sigstore(**period: str) -> dict[str, object]:
    value = {"trusted_root": AUTHORITY.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    return {"value": value, **period}


def by_key(signer: SigningKey) -> dict[str, object]:
    return {"value": {"key": dict(signer.public.to_jwk())}}


def signed_by_identity(at: datetime = BEFORE, **changes: object) -> bytes:
    given = {"identity": IDENTITY, "issuer": ISSUER, "at": at, **changes}
    return encoded(AUTHORITY.sign(SIGNED.to_bytes(), **given))


def accepted(data: bytes, *signers: dict[str, object], profiles: object = ...) -> Check:
    changes = {"profiles": profiles, "profile_signers": list(signers)}
    return row(judge(data, changes=changes), "pol.accepted")


def shown(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def test_a_profile_that_an_accepted_identity_signed_is_accepted() -> None:
    found = accepted(with_signatures(signed_by_identity()), by_sigstore())
    assert found.state is State.HELD and "signed" in found.detail


@pytest.mark.parametrize(
    "period",
    [
        {"from": shown(BEFORE + timedelta(hours=1))},
        {"until": shown(BEFORE)},
        {"revoked_at": shown(BEFORE + timedelta(hours=1))},
    ],
)
def test_an_identity_counts_when_it_signed_and_if_nobody_knows_better_since(period: dict[str, str]) -> None:
    data = with_signatures(signed_by_identity())
    assert accepted(data, by_sigstore(**period)).state is State.REFUSED
    ends_later = {"from": shown(BEFORE), "until": shown(BEFORE + timedelta(hours=1))}
    assert accepted(data, by_sigstore(**ends_later)).state is State.HELD


@pytest.mark.parametrize(
    "signature",
    [
        signed_by_identity(identity="mallory@team.example"),
        signed_by_identity(issuer="https://accounts.google.com"),
        signed_by_identity(certified_at=BEFORE - timedelta(hours=1)),
        signed_by_identity(NOW.replace(microsecond=0) + timedelta(hours=1)),
        encoded(Authority().sign(SIGNED.to_bytes(), identity=IDENTITY, issuer=ISSUER, at=BEFORE)),
    ],
    ids=["identity", "issuer", "expired", "of the future", "deployment"],
)
def test_nobody_else_is_enough(signature: bytes) -> None:
    found = accepted(with_signatures(signature), by_sigstore())
    assert (found.state, found.reason) == (State.REFUSED, "pol.not_accepted")


def test_a_listed_digest_needs_no_signature_and_an_unlisted_one_does() -> None:
    listed = [{"value": POLICY_DIGEST}]
    assert accepted(with_signatures(), by_key(key(5)), profiles=listed).state is State.HELD
    other = [{"value": "sha384:" + "1" * 96}]
    assert accepted(with_signatures(), by_key(key(5)), profiles=other).state is State.REFUSED
    data = with_signatures(sign_envelope(SIGNED.to_bytes(), key(5)))
    assert accepted(data, by_key(key(5)), profiles=other).state is State.HELD


def test_who_makes_the_bundle_does_not_choose_how_long_its_reader_works() -> None:
    many = [sign_envelope(SIGNED.to_bytes(), key(number)) for number in range(100, 117)]
    found = accepted(with_signatures(*many), by_key(key(5)))
    assert found.state is State.REFUSED and "more than 16" in found.detail


@pytest.mark.slow
def test_without_the_library_a_signature_by_sigstore_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "b.affiant.json").write_bytes(with_signatures(signed_by_identity()))
    (tmp_path / "t.json").write_bytes(trust_bytes(profiles=..., profile_signers=[by_sigstore()]))
    code = (
        "import sys; sys.modules['sigstore'] = None; sys.argv = ['affiant', *sys.argv[1:]]\n"
        "from affiant.__main__ import main; main()\n"
    )
    command = ["verify", "b.affiant.json", "--trust", "t.json", "--at", shown(NOW), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *command], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    rows = {each["code"]: each for each in json.loads(done.stdout)["checks"]}
    assert rows["pol.accepted"]["state"] == "not made"


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"value": "*"}],
        [{"value": {}}],
        [{"value": {"key": "-----BEGIN PUBLIC KEY-----"}}],
        [{"value": {"trusted_root": {}, "identity": IDENTITY, "issuer": ISSUER}}],
        [{**by_key(key(5)), "note": 1}],
        [{**by_key(key(5)), "until": "2026"}],
    ],
)
def test_signers_that_cannot_be_meant_refuse_the_trust_file(entries: object) -> None:
    with pytest.raises(TrustFileMalformed):
        trust(profile_signers=entries)
