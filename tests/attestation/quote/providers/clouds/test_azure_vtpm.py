"""Azure's vTPM profile: each link from the TD quote to the nonce holds, or the evidence is refused at it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.quote.providers.azure import hcl_report, runtime_data
from tests.attestation.quote.providers.conftest import random_bytes
from tests.properties import thorough

from affiant.attestation.quote.providers.base.errors import SettingsInvalid
from affiant.attestation.quote.providers.clouds.azure_hcl import parse_hcl_report
from affiant.attestation.quote.providers.clouds.azure_vtpm import (
    PROFILE,
    AzureVTPMEvidence,
    appraise_azure_vtpm,
    verify_azure_vtpm,
)
from affiant.attestation.quote.providers.tpm.tpm_quote import parse_tpm_quote
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.errors import AffiantError

NOW = datetime(2026, 5, 4, tzinfo=UTC)
NONCE = hashlib.sha256(b"nonce").digest()
PCRS = {number: hashlib.sha256(bytes([number])).digest() for number in (0, 4, 9, 11, 16)}
VECTORS = Path(__file__).resolve().parents[6] / "shared" / "vectors" / "tdx"


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def platform() -> SimulatedPlatform:
    return SimulatedPlatform.create(now=NOW, random_bytes=random_bytes)


def attest(nonce: bytes = NONCE, pcrs: Mapping[int, bytes] = PCRS, *, bank: int = 0x000B) -> bytes:
    bits = sum(1 << number for number in pcrs).to_bytes(3, "little")
    digest = hashlib.sha256(b"".join(pcrs[number] for number in sorted(pcrs))).digest()
    return b"".join(
        (
            bytes.fromhex("ff5443478018"),
            struct.pack(">H", 34) + bytes(34),
            struct.pack(">H", len(nonce)) + nonce,
            bytes(17) + bytes(8),
            struct.pack(">IHB", 1, bank, 3) + bits,
            struct.pack(">H", 32) + digest,
        )
    )


def signature(key: rsa.RSAPrivateKey, message: bytes) -> bytes:
    value = key.sign(message, PKCS1v15(), SHA256())
    return struct.pack(">HHH", 0x0014, 0x000B, len(value)) + value


def verified_quote(platform: SimulatedPlatform, report_data: bytes) -> VerifiedQuote:
    registers = platform.launch(Image.SESSION, mrconfigid=b"\x01" * 48, mrtd=b"\x02" * 48, td_id=bytes(32))
    trust = TrustRoots.pinned((platform.root_spki(),))
    collateral = verify_collateral(platform.collateral(NOW), now=NOW, trust=trust)
    return verify_quote(parse_quote(platform.quote(registers, report_data)), collateral, now=NOW)


@pytest.fixture(scope="module")
def quote(platform: SimulatedPlatform, key: rsa.RSAPrivateKey) -> VerifiedQuote:
    return verified_quote(platform, hashlib.sha256(runtime_data(key)).digest() + bytes(32))


@pytest.fixture(scope="module")
def evidence(key: rsa.RSAPrivateKey) -> AzureVTPMEvidence:
    message = attest()
    return AzureVTPMEvidence(hcl_report(runtime_data(key)), message, signature(key, message), PCRS)


def refusal(evidence: AzureVTPMEvidence, quote: VerifiedQuote, nonce: bytes = NONCE) -> str:
    with pytest.raises(AffiantError) as refused:
        verify_azure_vtpm(evidence, quote, nonce=nonce)
    return refused.value.code


def test_evidence_that_holds_is_of_this_profile(evidence: AzureVTPMEvidence, quote: VerifiedQuote) -> None:
    verified = verify_azure_vtpm(evidence, quote, nonce=NONCE)
    assert (verified.profile, verified.pcrs, verified.nonce) == (PROFILE, PCRS, NONCE)
    assert not isinstance(verified, VerifiedQuote)


def test_a_genuine_azure_quote_has_the_tail_that_the_profile_demands() -> None:
    path = VECTORS / "quotes" / "azure_spr_v4.bin"
    if not path.is_file():
        pytest.skip("the TDX vectors (../shared/vectors/tdx) are not there")
    assert parse_quote(path.read_bytes()).body.report_data[32:] == bytes(32)


def test_a_quote_that_vouches_for_other_data_is_refused(
    evidence: AzureVTPMEvidence, platform: SimulatedPlatform, key: rsa.RSAPrivateKey
) -> None:
    digest = hashlib.sha256(runtime_data(key)).digest()
    for report_data in (bytes(64), digest + b"\x01" * 32, digest[:31] + b"\0" * 33, NONCE + bytes(32)):
        assert refusal(evidence, verified_quote(platform, report_data)) == "azure.binding"


def test_runtime_data_with_one_changed_byte_is_refused(
    evidence: AzureVTPMEvidence, quote: VerifiedQuote, key: rsa.RSAPrivateKey
) -> None:
    changed = hcl_report(runtime_data(key).replace(b'"00', b'"01', 1))
    assert refusal(replace(evidence, hcl_report=changed), quote) == "azure.binding"


def test_another_key_than_the_vouched_one_is_refused(
    evidence: AzureVTPMEvidence, quote: VerifiedQuote
) -> None:
    other = rsa.generate_private_key(65537, 2048)
    swapped = replace(evidence, tpm_signature=signature(other, evidence.tpm_quote))
    assert refusal(swapped, quote) == "azure.signature"
    whole = replace(swapped, hcl_report=hcl_report(runtime_data(other)))
    assert refusal(whole, quote) == "azure.binding"


def test_a_changed_tpm_quote_is_refused(evidence: AzureVTPMEvidence, quote: VerifiedQuote) -> None:
    assert refusal(replace(evidence, tpm_quote=attest(bytes(32))), quote) == "azure.signature"


@pytest.mark.parametrize("nonce", [bytes(32), NONCE[:31], NONCE + b"\0", NONCE[:16]])
def test_another_nonce_is_refused(evidence: AzureVTPMEvidence, quote: VerifiedQuote, nonce: bytes) -> None:
    assert refusal(evidence, quote, nonce) == "azure.nonce"


@pytest.mark.parametrize("size", [0, 15, 65])
def test_a_nonce_that_is_none_is_refused(
    evidence: AzureVTPMEvidence, quote: VerifiedQuote, size: int
) -> None:
    with pytest.raises(SettingsInvalid):
        verify_azure_vtpm(evidence, quote, nonce=bytes(size))


@pytest.mark.parametrize(
    "pcrs",
    [
        {},
        {number: PCRS[number] for number in (0, 4, 9, 11)},
        {**PCRS, 23: bytes(32)},
        {**PCRS, 11: bytes(32)},
        {**PCRS, 11: PCRS[11][:31]},
        {**PCRS, 4: PCRS[9], 9: PCRS[4]},
    ],
)
def test_other_pcr_values_are_refused(
    evidence: AzureVTPMEvidence, quote: VerifiedQuote, pcrs: dict[int, bytes]
) -> None:
    assert refusal(replace(evidence, pcrs=pcrs), quote) == "azure.pcrs"


def test_an_hcl_report_of_another_form_is_refused(key: rsa.RSAPrivateKey) -> None:
    runtime = runtime_data(key)
    whole = hcl_report(runtime)
    parse_hcl_report(whole)
    parse_hcl_report(hcl_report(runtime, tail=0))
    for data in (
        b"",
        whole[:1236],
        b"HCLB" + whole[4:],
        hcl_report(runtime, report_type=2),
        hcl_report(runtime, hash_type=2),
        hcl_report(runtime, tail=0)[:-1],
        whole + b"\x01",
        whole + bytes(20_000),
        hcl_report(b""),
        hcl_report(b"{}"),
        hcl_report(b"[]"),
        hcl_report(b'{"keys":{}}'),
        hcl_report(b'{"keys":[1]}'),
        hcl_report(b'{"keys":[],"keys":[]}'),
        hcl_report(b'{"keys":[' * 4000),
        hcl_report(runtime_data(key, kid="HCLEkPub")),
        hcl_report(runtime_data(key, kty="EC")),
        hcl_report(runtime_data(key, e="Aw")),
        hcl_report(runtime_data(key, n="AQAB")),
        hcl_report(runtime_data(key, n=None)),
        hcl_report(runtime.replace(b"HCLEkPub", b"HCLAkPub")),
    ):
        with pytest.raises(AffiantError) as refused:
            parse_hcl_report(data)
        assert refused.value.code == "azure.malformed"


def test_user_data_is_64_bytes_or_not_there(key: rsa.RSAPrivateKey) -> None:
    runtime = runtime_data(key, user_data="aB" * 64)
    assert parse_hcl_report(hcl_report(runtime)).user_data == b"\xab" * 64
    absent = runtime.replace(b'"user-data"', b'"other-data"')
    assert parse_hcl_report(hcl_report(absent)).user_data is None
    text = b'"' + b"aB" * 64 + b'"'
    for other in (text[:-3] + b'"', text[:-1] + b'00"', b'"' + b"zz" * 64 + b'"', b"7" * 15, b"{}", b'""'):
        with pytest.raises(AffiantError) as refused:
            parse_hcl_report(hcl_report(runtime.replace(text, other)))
        assert refused.value.code == "azure.malformed"


def test_a_tpm_quote_of_another_form_is_refused(key: rsa.RSAPrivateKey) -> None:
    message = attest()
    signed = signature(key, message)
    parse_tpm_quote(message, signed)
    for one, two in (
        (message + b"\0", signed),
        (message, signed + b"\0"),
        (b"\0" + message[1:], signed),
        (message[:5] + b"\x17" + message[6:], signed),
        (attest(bank=0x0004), signed),
        (attest(pcrs={}), signed),
        (message, b"\x00\x16" + signed[2:]),
        (message, signed[:2] + b"\x00\x04" + signed[4:]),
        (message + bytes(2000), signed),
    ):
        with pytest.raises(AffiantError) as refused:
            parse_tpm_quote(one, two)
        assert refused.value.code == "azure.malformed"
    for size in range(len(message)):
        with pytest.raises(AffiantError):
            parse_tpm_quote(message[:size], signed)
    for size in range(6, len(signed)):
        with pytest.raises(AffiantError):
            parse_tpm_quote(message, signed[:size])


@thorough(80)
@given(message=st.binary(max_size=200), signed=st.binary(max_size=40), report=st.binary(max_size=200))
def test_no_bytes_cause_anything_but_a_refusal(message: bytes, signed: bytes, report: bytes) -> None:
    for call in (
        lambda: parse_tpm_quote(bytes.fromhex("ff5443478018") + message, signed),
        lambda: parse_hcl_report(b"HCLA" + bytes(1212) + report),
    ):
        try:
            call()
        except AffiantError as refusal:
            assert refusal.code == "azure.malformed"


def test_appraisal_demands_every_pinned_pcr(evidence: AzureVTPMEvidence, quote: VerifiedQuote) -> None:
    verified = verify_azure_vtpm(evidence, quote, nonce=NONCE)
    appraise_azure_vtpm(verified, {4: frozenset((PCRS[4],)), 11: frozenset((bytes(32), PCRS[11]))})
    for pinned in (
        {},
        {4: frozenset()},
        {4: frozenset((bytes(32),))},
        {7: frozenset((bytes(32),))},
        {4: frozenset((PCRS[4],)), 11: frozenset((PCRS[4],))},
    ):
        with pytest.raises(AffiantError) as refused:
            appraise_azure_vtpm(verified, pinned)
        assert refused.value.code == "azure.appraisal"
