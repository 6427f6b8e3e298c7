"""A token counts for exactly the bytes that it stamps, under exactly the roots that the reader names."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.anchors.conftest import AT, TEXT, root_of, stamped
from tests.raising import raises_code
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority
from tests.sigstore_authority.timestamps import tagged
from tests.timestamp_authority.authority import TimestampAuthority

from affiant.attestation.anchors.timestamp_request import timestamp_request
from affiant.attestation.signatures.timestamps.errors import (
    AnchorUntrusted,
)
from affiant.attestation.signatures.timestamps.imprint import Digest
from affiant.attestation.signatures.timestamps.response import MAX_RESPONSE, parse_response
from affiant.attestation.signatures.timestamps.roots import TSARoot, certificate_in
from affiant.attestation.signatures.timestamps.token import VerifiedToken, verify_token
from affiant.attestation.simulated.platform.der import integer, sequence
from affiant.errors import AffiantError

MESSAGE = TEXT.encode()


def roots(*accepted: TSARoot) -> Callable[[datetime], Sequence[TSARoot]]:
    return lambda _at: accepted


def root_file(authority: TimestampAuthority, policy: str | None = None) -> TSARoot:
    return TSARoot(certificate_in(authority.root.read_bytes()), policy)


def verified(response: bytes, *accepted: TSARoot, message: bytes = MESSAGE) -> VerifiedToken:
    return verify_token(response, message, roots=roots(*accepted))


@pytest.mark.parametrize("hashed", ["sha256", "sha512"])
def test_a_token_that_openssl_signs_is_verified(authority: TimestampAuthority, hashed: str) -> None:
    response = authority.stamp(MESSAGE, hashed=hashed)
    assert authority.holds(response, MESSAGE)
    before = datetime.now(UTC)
    found = verified(response, root_file(authority))
    assert abs(found.at - before) < timedelta(seconds=30)
    assert found.policy == authority.policy
    assert found.authority == "CN=tests tsa,O=affiant tests"
    assert found.not_after == int(found.at.timestamp()) + 2, "an accuracy of 1.5 s, rounded up"


@pytest.mark.parametrize("digest", list(Digest))
def test_openssl_reads_our_request_and_answers_with_its_nonce(
    authority: TimestampAuthority, digest: Digest
) -> None:
    nonce = bytes(range(200, 216))
    response = authority.answer(timestamp_request(MESSAGE, digest=digest, nonce=nonce))
    assert verified(response, root_file(authority)).nonce == int.from_bytes(nonce, "big")
    assert authority.holds(response, MESSAGE)


@pytest.mark.parametrize(
    "how", [{"rsa": True}, {"signer_digest": "sha384"}, {"ess": "sha1"}, {"ess": "sha512"}]
)
def test_other_keys_and_digests_of_authorities_are_read(tmp_path: Path, how: dict[str, object]) -> None:
    """Certificates in the order in which OpenSSL writes them, sorted or not."""
    other = TimestampAuthority(tmp_path, **how)
    assert verified(other.stamp(MESSAGE), root_file(other)).policy == other.policy


def test_a_token_about_other_bytes_is_refused(authority: TimestampAuthority) -> None:
    response = authority.stamp(MESSAGE + b"\n")
    with raises_code("anchor.imprint"):
        verified(response, root_file(authority))


def test_a_digest_that_is_no_sha_256_or_512_is_refused(tmp_path: Path) -> None:
    other = TimestampAuthority(tmp_path, digests="sha384, sha1")
    for hashed in ("sha384", "sha1"):
        with raises_code("anchor.imprint", match="another hash function"):
            verified(other.stamp(MESSAGE, hashed=hashed), root_file(other))


def test_a_token_of_another_authority_is_refused(
    authority: TimestampAuthority, dated: DatedAuthority
) -> None:
    response = authority.stamp(MESSAGE)
    with pytest.raises(AnchorUntrusted):
        verified(response, root_of(dated))
    with pytest.raises(AnchorUntrusted, match="a root that counts then"):
        verified(response)
    assert verified(response, root_of(dated), root_file(authority))


def test_a_pinned_policy_must_be_the_tokens(authority: TimestampAuthority) -> None:
    response = authority.stamp(MESSAGE)
    assert verified(response, root_file(authority, authority.policy))
    with raises_code("anchor.policy"):
        verified(response, root_file(authority, "1.2.3"))
    assert verified(response, root_file(authority, "1.2.3"), root_file(authority))


def test_a_refusal_of_the_authority_says_why(tmp_path: Path) -> None:
    strict = TimestampAuthority(tmp_path, digests="sha512")
    with raises_code("anchor.refused", match="PKIStatus 2.*badAlg"):
        verified(strict.stamp(MESSAGE), root_file(strict))


def test_a_token_without_its_certificate_is_refused(authority: TimestampAuthority) -> None:
    with raises_code("anchor.token"):
        verified(authority.stamp(MESSAGE, certificates=False), root_file(authority))


@pytest.mark.parametrize("at", [AT - timedelta(hours=2), AT + timedelta(hours=2)])
def test_a_certificate_that_did_not_count_at_the_tokens_time_is_refused(at: datetime) -> None:
    brief = DatedAuthority(begins=AT - timedelta(hours=1), ends=AT + timedelta(hours=1))
    assert verified(stamped(brief), root_of(brief)).at == AT
    with raises_code("anchor.expired"):
        verified(stamped(brief, at=at), root_of(brief))


@pytest.mark.parametrize(
    "how",
    [
        {"purposes": (ExtendedKeyUsageOID.CODE_SIGNING,)},
        {"purposes": (ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.CODE_SIGNING)},
        {"purposes_critical": False},
    ],
)
def test_a_certificate_for_anything_else_is_refused(how: dict[str, object]) -> None:
    other = DatedAuthority(**how)
    with raises_code("anchor.purpose"):
        verified(stamped(other), root_of(other))


def test_the_signed_attributes_must_name_the_signers_certificate(dated: DatedAuthority) -> None:
    """Certificates travel outside of the signature: a second one for the same key could have other dates."""
    with raises_code("anchor.purpose", match="ESSCertID"):
        verified(stamped(dated, named=b"another"), root_of(dated))


def test_two_certificates_that_could_be_the_signers_are_refused(dated: DatedAuthority) -> None:
    twice = dated.certificate.public_bytes(Encoding.DER)
    with raises_code("anchor.purpose", match="not exactly one"):
        verified(stamped(dated, more=(twice,)), root_of(dated))


def test_certificates_that_lead_nowhere_do_no_harm(dated: DatedAuthority) -> None:
    stranger = DatedAuthority().root.public_bytes(Encoding.DER)
    assert verified(stamped(dated, more=(stranger,)), root_of(dated)).at == AT


def test_accuracy_moves_not_after_and_is_bounded(dated: DatedAuthority) -> None:
    seconds = int(AT.timestamp())
    assert verified(stamped(dated), root_of(dated)).not_after == seconds
    minute = stamped(dated, accuracy=sequence(integer(60)))
    assert verified(minute, root_of(dated)).not_after == seconds + 60
    millisecond = stamped(dated, accuracy=sequence(tagged(0x80, b"\x01")))
    assert verified(millisecond, root_of(dated)).not_after == seconds + 1
    with raises_code("anchor.token", match="accuracy"):
        verified(stamped(dated, accuracy=sequence(integer(86_401))), root_of(dated))


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\x30\x80\x00\x00", b"\x30\x00", b"\x30\x02\x05\x00", b"\x00" * 70_000]
)
def test_what_is_no_response_is_refused(data: bytes, dated: DatedAuthority) -> None:
    with raises_code("anchor.token"):
        verified(data, root_of(dated))
    assert len(b"\x00" * 70_000) > MAX_RESPONSE


def test_a_cut_or_longer_response_is_refused(dated: DatedAuthority) -> None:
    whole = stamped(dated)
    for data in (whole + b"\x00", *(whole[:end] for end in range(0, len(whole), 37))):
        with pytest.raises(AffiantError):
            verified(data, root_of(dated))


def test_no_changed_byte_changes_what_is_verified(authority: TimestampAuthority) -> None:
    """What nobody signs (the status, certificates that lead nowhere) may change; what is verified may not."""
    response, root, chance = authority.stamp(MESSAGE), root_file(authority), random.Random(7)
    true = verified(response, root)
    refused = 0
    for _ in range(300):
        data = bytearray(response)
        data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
        try:
            assert verified(bytes(data), root) == true
        except AffiantError:
            refused += 1
    assert refused > 270


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_and_never_crash(data: bytes) -> None:
    with pytest.raises(AffiantError):
        parse_response(data)


def test_our_request_is_the_one_of_the_standard(authority: TimestampAuthority) -> None:
    """By value: what ``openssl ts -query`` writes, but for its nonce of eight bytes."""
    authority.stamp(MESSAGE)
    theirs = (authority.folder / "query").read_bytes()
    ours = timestamp_request(MESSAGE, digest=Digest.SHA256, nonce=b"\x00" * 16)
    imprint = hashlib.sha256(MESSAGE).digest()
    assert theirs[2 : theirs.index(imprint) + 32] == ours[2 : ours.index(imprint) + 32]
    assert theirs[-3:] == ours[-3:] == b"\x01\x01\xff"
