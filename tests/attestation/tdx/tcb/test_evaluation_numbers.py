"""The list of TCB evaluations: Intel's own, read and verified; every way to sign or spell another one, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, Vectors
from tests.raising import raises_code

from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.pki import CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.tcb_documents import sign_document
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
from affiant.attestation.tdx.quote.errors import (
    CollateralExpired,
    CollateralMalformed,
    CollateralNotYetValid,
    CRLExpired,
    CRLNotYetValid,
    UntrustedRoot,
)
from affiant.attestation.tdx.tcb.evaluation_numbers import (
    VerifiedEvaluationNumbers,
    parse_evaluation_numbers,
    verify_evaluation_numbers,
)
from affiant.errors import AffiantError

MEMBER = "tcbEvaluationDataNumbers"


def entry(number: object = 20) -> dict[str, object]:
    return {
        "tcbEvaluationDataNumber": number,
        "tcbRecoveryEventDate": "2026-02-10T00:00:00Z",
        "tcbDate": "2026-02-11T00:00:00Z",
    }


def document(**changes: object) -> dict[str, object]:
    return {
        "id": "TDX",
        "version": 1,
        "issueDate": f"{NOW - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
        "nextUpdate": f"{NOW + timedelta(days=29):%Y-%m-%dT%H:%M:%SZ}",
        "tcbEvalNumbers": [entry(19), entry(20)],
        **changes,
    }


def body(platform: SimulatedPlatform, role: Role = Role.TCB_SIGNING, **changes: object) -> bytes:
    text = json.dumps(document(**changes), separators=(",", ":")).encode()
    return sign_document(MEMBER, text, derive_key(platform.seed, role))


def verified(
    platform: SimulatedPlatform,
    content: bytes | None = None,
    *,
    role: CertificateRole = CertificateRole.TCB_SIGNING,
    now: datetime = NOW,
) -> VerifiedEvaluationNumbers:
    return verify_evaluation_numbers(
        body(platform) if content is None else content,
        pem_chain(platform.certificates.chain(role)),
        platform.collateral(NOW).root_ca_crl,
        now=now,
        trust=TrustRoots.pinned((platform.root_spki(),)),
    )


def test_the_numbers_come_highest_first_with_their_dates(platform: SimulatedPlatform) -> None:
    found = verified(platform)
    assert [each.number for each in found.numbers] == [20, 19]
    assert found.numbers[0].recovery_event == datetime(2026, 2, 10, tzinfo=UTC)
    assert found.evidence_class is EvidenceClass.SIMULATED


def test_intels_recorded_list_verifies_under_intels_root(vectors: Vectors) -> None:
    items = vectors.collateral("collateral/00806f_2025-10.json")
    content = vectors.read("pcs/2025-10/tdx_tcb_evaluation_data_numbers.json")
    found = verify_evaluation_numbers(
        content,
        items.tcb_info_issuer_chain,
        items.root_ca_crl,
        now=datetime(2025, 10, 31, tzinfo=UTC),
        trust=TrustRoots.intel(),
    )
    assert [each.number for each in found.numbers] == [20, 19, 18, 17, 16, 15, 14, 13]
    assert found.evidence_class is EvidenceClass.HARDWARE
    with raises_code("collateral.signature"):
        verify_evaluation_numbers(
            content.replace(b'"tcbEvaluationDataNumber":20', b'"tcbEvaluationDataNumber":21'),
            items.tcb_info_issuer_chain,
            items.root_ca_crl,
            now=datetime(2025, 10, 31, tzinfo=UTC),
            trust=TrustRoots.intel(),
        )


def test_another_root_role_or_key_is_refused(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    with pytest.raises(UntrustedRoot):
        verify_evaluation_numbers(
            body(platform),
            pem_chain(platform.certificates.chain(CertificateRole.TCB_SIGNING)),
            platform.collateral(NOW).root_ca_crl,
            now=NOW,
            trust=TrustRoots.pinned((other_platform.root_spki(),)),
        )
    with raises_code("collateral.issuer", match="another role"):
        verified(platform, body(platform, Role.PCK_ISSUER), role=CertificateRole.PCK_ISSUER)
    with raises_code("collateral.issuer", match="another length"):
        verified(platform, body(platform, Role.PCK), role=CertificateRole.PCK)
    with raises_code("collateral.signature"):
        verified(platform, body(platform, Role.PCK))


def test_a_revoked_signer_is_refused(platform: SimulatedPlatform) -> None:
    revoked = replace(platform, revoked=frozenset((CertificateRole.TCB_SIGNING,)))
    with raises_code("cert.revoked"):
        verified(revoked)


def test_every_window_counts(platform: SimulatedPlatform) -> None:
    later = f"{NOW + timedelta(days=60):%Y-%m-%dT%H:%M:%SZ}"
    tomorrow = f"{NOW + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    with pytest.raises(CollateralNotYetValid):
        verified(platform, body(platform, issueDate=tomorrow))
    with pytest.raises(CRLNotYetValid):
        verified(platform, now=NOW - timedelta(hours=1))
    with pytest.raises(CollateralExpired):
        verified(platform, now=NOW + timedelta(days=29, seconds=1))
    with pytest.raises(CRLExpired):
        verified(platform, body(platform, nextUpdate=later), now=NOW + timedelta(days=31))


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "SGX"},
        {"version": 2},
        {"version": "1"},
        {"tcbEvalNumbers": []},
        {"tcbEvalNumbers": [entry(20), entry(20)]},
        {"tcbEvalNumbers": [entry(0)]},
        {"tcbEvalNumbers": [entry(65536)]},
        {"tcbEvalNumbers": [entry(True)]},
        {"tcbEvalNumbers": [entry() | {"tcbDate": "yesterday"}]},
        {"tcbEvalNumbers": [entry(number) for number in range(1, 258)]},
        {"tcbEvalNumbers": {"0": entry()}},
        {"issueDate": None},
    ],
    ids=str,
)
def test_a_signed_list_of_another_form_is_refused(platform: SimulatedPlatform, changes: Any) -> None:
    with pytest.raises(CollateralMalformed):
        verified(platform, body(platform, **changes))


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_no_changed_byte_gives_another_list(at: int, flip: int) -> None:
    content = bytearray(CONTENT)
    content[at % len(content)] ^= flip
    try:
        found = verified(PLATFORM, bytes(content))
    except AffiantError:
        return
    assert found == verified(PLATFORM, CONTENT)  # the case of the signature's digits, or blanks around it


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_only_refused(content: bytes) -> None:
    with pytest.raises(CollateralMalformed):
        parse_evaluation_numbers(content)


PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=bytes)
CONTENT = body(PLATFORM)
