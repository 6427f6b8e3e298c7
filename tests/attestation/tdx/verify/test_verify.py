"""Known mistakes of verifiers in the field, one by one, on a platform that has the fault."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, key_of, quote_of, random_bytes, trust_of, verify
from tests.raising import raises_code

from affiant.attestation.release.platform_identity import (
    MachineIdentity,
    ModuleIdentity,
    PCKIssuer,
    QuotingEnclave,
)
from affiant.attestation.simulated.platform.keys import Role, sign_raw
from affiant.attestation.simulated.platform.pki import CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import CollateralPart, SimulatedPlatform
from affiant.attestation.simulated.platform.qe import encode_qe_report
from affiant.attestation.simulated.platform.quote_format import QuoteLayout, encode_quote
from affiant.attestation.simulated.platform.tcb_documents import ModuleRecord, PlatformLevel, SVNLevel
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
from affiant.attestation.tdx.quote.checks import APPRAISAL_POINTS, CHECKLIST
from affiant.attestation.tdx.quote.errors import (
    CertificateExpired,
    CollateralExpired,
    CollateralRollback,
    TCBRevoked,
    TCBUnsupported,
    UntrustedRoot,
)
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.tcb.rollback import mark_of
from affiant.attestation.tdx.tcb.tcb_status import ComponentStatus, TCBStatus
from affiant.attestation.tdx.verify.cache import VerificationCache
from affiant.attestation.tdx.verify.verify import verify_quote
from affiant.errors import AffiantError, NotFreshError

ONE = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
V4 = quote_of(ONE)
COLLATERAL = verify_collateral(ONE.collateral(NOW), now=NOW, trust=trust_of(ONE))
UNTIL_AUTH_END = len(V4)


def made_with(**parts: Any) -> SimulatedPlatform:
    return SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"), **parts)


def with_levels(platform: SimulatedPlatform, *levels: PlatformLevel) -> SimulatedPlatform:
    return replace(platform, tcb_info=replace(platform.tcb_info, levels=levels))


def with_module_levels(platform: SimulatedPlatform, *levels: SVNLevel) -> SimulatedPlatform:
    module = replace(platform.tcb_info.modules[0], levels=levels)
    return replace(platform, tcb_info=replace(platform.tcb_info, modules=(module,)))


def with_qe_levels(platform: SimulatedPlatform, *levels: SVNLevel) -> SimulatedPlatform:
    return replace(platform, qe_identity=replace(platform.qe_identity, levels=levels))


def level(platform: SimulatedPlatform, **changes: Any) -> PlatformLevel:
    return replace(platform.tcb_info.levels[0], **changes)


# -- what holds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", list(QuoteLayout))
def test_an_honest_platform_is_up_to_date_and_simulated(
    platform: SimulatedPlatform, layout: QuoteLayout
) -> None:
    verified = verify(platform, quote_of(platform, layout=layout))
    assert verified.statuses.merged is TCBStatus.UP_TO_DATE
    assert verified.evidence_class is EvidenceClass.SIMULATED
    assert verified.ppid == b"SIMULATED-NO-HW!"
    assert verified.advisories == frozenset()


def test_the_processor_authority_is_judged_like_the_platform_one() -> None:
    platform = made_with(machine=MachineIdentity(issuer=PCKIssuer.PROCESSOR))
    assert verify(platform).statuses.merged is TCBStatus.UP_TO_DATE
    with raises_code("cert.revoked"):
        verify(replace(platform, revoked=frozenset((CertificateRole.PCK,))))


def test_a_genuine_quote_is_hardware(v4: Any) -> None:
    verified = verify_quote(v4.quote, v4.verified, now=v4.now)
    assert verified.evidence_class is EvidenceClass.HARDWARE
    assert verified.fmspc.hex() == "b0c06f000000"
    assert verified.evaluation_number == 17
    assert verified.pck.smt_enabled is not None
    assert verified.earliest_expiry == min(v4.verified.expiry, verified.earliest_expiry)


def test_pinning_the_compiled_in_root_is_the_same_as_trusting_it(v4: Any, vectors: Any) -> None:
    root = vectors.read("root/intel_sgx_root_ca.der")
    again = verify_collateral(v4.collateral, now=v4.now, trust=TrustRoots.pinned((root,)))
    assert again.evidence_class is EvidenceClass.HARDWARE


def test_the_result_names_every_input(platform: SimulatedPlatform) -> None:
    raw, collateral = quote_of(platform), platform.collateral(NOW)
    verified = verify(platform, raw, collateral=collateral)
    assert verified.collateral_digest == collateral.digest
    assert verified.input_digests["quote"] == parse_quote(raw).digest
    assert len(verified.input_digests) == 9
    assert verified.judged_at == NOW


def test_every_point_of_the_checklist_is_held_or_said_to_be_open(platform: SimulatedPlatform) -> None:
    verified = verify(platform)
    made = {check.point for check in verified.checks_made}
    open_points = {check.point for check in verified.checks_not_made}
    assert made | open_points == set(CHECKLIST)
    assert not made & open_points
    assert set(APPRAISAL_POINTS) | {22, 33} == open_points
    td15 = verify(platform, quote_of(platform, layout=QuoteLayout.V5_TD15))
    assert 33 in {check.point for check in td15.checks_made}


@given(st.integers(0, UNTIL_AUTH_END - 1), st.integers(0, 7))
def test_any_flipped_bit_is_refused(offset: int, bit: int) -> None:
    changed = bytearray(V4)
    changed[offset] ^= 1 << bit
    with pytest.raises(AffiantError):
        verify_quote(parse_quote(bytes(changed)), COLLATERAL, now=NOW)


@given(st.integers(0, 5006), st.integers(0, 7))
def test_no_flipped_bit_of_a_genuine_quote_is_accepted(v4: Any, offset: int, bit: int) -> None:
    end = len(v4.raw) - v4.quote.trailing_bytes
    # Everything is signed, or bound, or a certificate; the PEM text may vary in white space alone.
    changed = bytearray(v4.raw[:end])
    changed[offset % end] ^= 1 << bit
    try:
        verify_quote(parse_quote(bytes(changed)), v4.verified, now=v4.now)
    except AffiantError:
        return
    assert chr(changed[offset % end]).isspace() or changed[offset % end] == 0


# -- 1: who may be the quoting enclave ----------------------------------------------------------------------------


def test_another_enclave_under_a_pck_key_is_no_quoting_enclave(platform: SimulatedPlatform) -> None:
    evil = replace(platform, enclave=QuotingEnclave(mrsigner=bytes(32)))
    with raises_code("qe.identity", match="MRSIGNER"):
        verify(evil)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"misc_select": b"\x01\0\0\0"}, "MISCSELECT"),
        ({"attributes": b"\x01" + bytes(15)}, "ATTRIBUTES"),
        ({"isv_prod_id": 1}, "ISVPRODID"),
    ],
)
def test_every_member_of_the_identity_counts(
    platform: SimulatedPlatform, changes: dict[str, Any], name: str
) -> None:
    with raises_code("qe.identity", match=name):
        verify(replace(platform, enclave=replace(platform.enclave, **changes)))


def test_a_debug_enclave_is_refused_though_the_mask_omits_the_bit(platform: SimulatedPlatform) -> None:
    debug = replace(platform, enclave=QuotingEnclave(attributes=b"\x13" + bytes(15)))
    assert (
        not platform.qe_identity.attributes_mask[0] & 0x02 or platform.qe_identity.attributes_mask[0] == 0xFB
    )
    with raises_code("qe.identity"):
        verify(debug)
    blind = replace(debug.qe_identity, attributes_mask=b"\xf9" + b"\xff" * 7 + bytes(8))
    with raises_code("qe.identity", match="debug"):
        verify(replace(debug, qe_identity=blind))


@pytest.mark.parametrize("size", [0, 1, 64, 1000])
def test_authentication_data_of_any_length_is_bound(platform: SimulatedPlatform, size: int) -> None:
    odd = replace(platform, enclave=replace(platform.enclave, auth_data=bytes(range(256))[:1] * size))
    assert verify(odd).statuses.merged is TCBStatus.UP_TO_DATE


def test_a_report_signed_by_another_key_is_refused(platform: SimulatedPlatform) -> None:
    signer = replace(platform.quote_signer(), pck_key=ec.generate_private_key(ec.SECP256R1()))
    raw = encode_quote(parse_quote(quote_of(platform)).signed[48:], QuoteLayout.V4, signer)
    with raises_code("qe.report_signature"):
        verify(platform, raw)


def test_a_quote_signed_by_another_key_than_the_bound_one_is_refused(platform: SimulatedPlatform) -> None:
    raw = quote_of(platform)
    attacker = ec.generate_private_key(ec.SECP256R1())
    signature = sign_raw(attacker, raw[:632])
    point = attacker.public_key().public_numbers()
    key = point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big")
    with raises_code("qe.binding"):
        verify(platform, raw[:636] + signature + key + raw[764:])
    with raises_code("quote.signature"):
        verify(platform, raw[:636] + signature + raw[700:])


def test_an_attestation_key_off_the_curve_is_refused_though_it_is_bound(platform: SimulatedPlatform) -> None:
    raw, point = quote_of(platform), b"\x01" * 64
    report = encode_qe_report(platform.enclave, point)
    signature = sign_raw(key_of(platform, Role.PCK), report)
    with raises_code("quote.malformed", match=r"P-256"):
        verify(platform, raw[:700] + point + raw[764:770] + report + signature + raw[1218:])


# -- 2 and 31: component by component -----------------------------------------------------------------------------


def test_a_lower_component_is_not_outweighed_by_an_earlier_higher_one() -> None:
    """The earlier component is above the level's, a later one below: the level is not reached."""
    components = (9, 3, 2, 2, 4, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0)
    platform = made_with(machine=MachineIdentity(sgx_components=components))
    current = level(platform, sgx_components=(3, 3, 2, 2, 4, 1, 0, 5, *[0] * 8))
    old = level(platform, sgx_components=(0,) * 16, pce_svn=0, tdx_components=(0,) * 16, status="OutOfDate")
    assert verify(with_levels(platform, current, old)).statuses.merged is TCBStatus.OUT_OF_DATE


@pytest.mark.parametrize("index", range(2, 16))
def test_each_tdx_component_counts(platform: SimulatedPlatform, index: int) -> None:
    wanted = list(platform.module.tee_tcb_svn)
    wanted[index] += 1
    with pytest.raises(TCBUnsupported):
        verify(with_levels(platform, level(platform, tdx_components=tuple(wanted))))


@pytest.mark.parametrize("index", range(16))
def test_each_sgx_component_counts(platform: SimulatedPlatform, index: int) -> None:
    wanted = list(platform.machine.sgx_components)
    wanted[index] += 1
    with pytest.raises(TCBUnsupported):
        verify(with_levels(platform, level(platform, sgx_components=tuple(wanted))))


def test_the_pce_counts(platform: SimulatedPlatform) -> None:
    with pytest.raises(TCBUnsupported):
        verify(with_levels(platform, level(platform, pce_svn=platform.machine.pce_svn + 1)))


def test_module_components_are_left_to_the_module_when_it_has_a_version(platform: SimulatedPlatform) -> None:
    svn = platform.module.tee_tcb_svn
    higher = level(platform, tdx_components=(255, 255, *svn[2:]))
    assert verify(with_levels(platform, higher)).statuses.merged is TCBStatus.UP_TO_DATE


def test_a_module_of_version_zero_is_judged_by_the_platform_levels() -> None:
    platform = made_with(module=ModuleIdentity(tee_tcb_svn=bytes((5, 0, 3)) + bytes(13)))
    verified = verify(platform)
    assert verified.statuses.module is None
    wanted = level(platform, tdx_components=(6, 0, 3, *[0] * 13))
    with pytest.raises(TCBUnsupported):
        verify(with_levels(platform, wanted))


def test_the_order_of_levels_proves_nothing(platform: SimulatedPlatform) -> None:
    shuffled = with_levels(platform, *reversed(platform.tcb_info.levels))
    shuffled = with_module_levels(shuffled, *reversed(platform.tcb_info.modules[0].levels))
    shuffled = with_qe_levels(shuffled, *reversed(platform.qe_identity.levels))
    assert verify(shuffled).statuses == verify(platform).statuses


# -- 3, 14, 21, 25, 26: statuses ----------------------------------------------------------------------------------


def test_revoked_in_any_part_refuses(platform: SimulatedPlatform) -> None:
    for revoked in (
        with_levels(platform, level(platform, status="Revoked")),
        with_module_levels(platform, SVNLevel(isv_svn=0, status="Revoked")),
        with_qe_levels(platform, SVNLevel(isv_svn=0, status="Revoked")),
    ):
        with pytest.raises(TCBRevoked):
            verify(revoked)


def test_an_up_to_date_module_does_not_hide_the_platform(platform: SimulatedPlatform) -> None:
    verified = verify(with_levels(platform, level(platform, status="OutOfDate", advisories=("INTEL-SA-1",))))
    assert verified.statuses.module is ComponentStatus.UP_TO_DATE
    assert verified.statuses.merged is TCBStatus.OUT_OF_DATE
    assert verified.advisories == {"INTEL-SA-1"}


def test_an_old_enclave_and_a_configuration_need_both_show(platform: SimulatedPlatform) -> None:
    both = with_levels(platform, level(platform, status="ConfigurationNeeded"))
    both = with_qe_levels(both, SVNLevel(isv_svn=0, status="OutOfDate", advisories=("INTEL-SA-2",)))
    verified = verify(both)
    assert verified.statuses.merged is TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED
    assert verified.advisories == {"INTEL-SA-2"}


def relaunched(platform: SimulatedPlatform, **options: Any) -> Any:
    svn = bytes((4,)) + platform.module.tee_tcb_svn[1:]
    old = replace(platform, module=replace(platform.module, tee_tcb_svn=svn))
    raw = quote_of(old, layout=QuoteLayout.V5_TD15, current_tee_tcb_svn=platform.module.tee_tcb_svn)
    return verify(platform, raw, **options)


def test_a_module_updated_below_a_running_td_advises_a_relaunch(platform: SimulatedPlatform) -> None:
    verified = relaunched(platform)
    assert verified.statuses.merged is TCBStatus.TD_RELAUNCH_ADVISED
    assert verified.statuses.module is ComponentStatus.OUT_OF_DATE
    assert verified.statuses.current_module is ComponentStatus.UP_TO_DATE


def test_an_old_enclave_outweighs_the_advice_to_relaunch(platform: SimulatedPlatform) -> None:
    old_enclave = with_qe_levels(platform, SVNLevel(isv_svn=0, status="OutOfDate"))
    assert relaunched(old_enclave).statuses.merged is TCBStatus.OUT_OF_DATE


def test_a_module_revoked_now_refuses_though_it_was_good_at_launch(platform: SimulatedPlatform) -> None:
    levels = (SVNLevel(isv_svn=5), SVNLevel(isv_svn=0, status="Revoked"))
    older = bytes((4,)) + platform.module.tee_tcb_svn[1:]
    raw = quote_of(platform, layout=QuoteLayout.V5_TD15, current_tee_tcb_svn=older)
    with pytest.raises(TCBRevoked):
        verify(with_module_levels(platform, *levels), raw)


def test_dates_are_the_earliest_of_all_matched_levels(platform: SimulatedPlatform) -> None:
    early = datetime(2020, 1, 1, tzinfo=NOW.tzinfo)
    assert verify(with_qe_levels(platform, SVNLevel(isv_svn=0, date=early))).tcb_date == early


# -- 4, 24: revocation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(CertificateRole))
def test_each_revoked_certificate_refuses(platform: SimulatedPlatform, role: CertificateRole) -> None:
    with raises_code("cert.revoked"):
        verify(replace(platform, revoked=frozenset((role,))))


def test_the_list_of_the_other_authority_does_not_cover_the_leaf() -> None:
    platform, processor = (
        made_with(machine=MachineIdentity(issuer=issuer))
        for issuer in (PCKIssuer.PLATFORM, PCKIssuer.PROCESSOR)
    )
    mine, theirs = platform.collateral(NOW), processor.collateral(NOW)
    assert mine.root_ca_crl == theirs.root_ca_crl
    other = replace(mine, pck_crl=theirs.pck_crl, pck_crl_issuer_chain=theirs.pck_crl_issuer_chain)
    with raises_code("crl.issuer"):
        verify(platform, collateral=other)


# -- 5, 16, 18, 27: chains ----------------------------------------------------------------------------------------


def test_names_without_the_key_are_worth_nothing(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    for trust in (TrustRoots.intel(), trust_of(platform)):
        with pytest.raises(UntrustedRoot):
            verify(other_platform, trust=trust)


def test_a_quote_of_another_root_is_refused_even_if_that_root_is_trusted(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    trust = TrustRoots(trust_of(platform).spki_sha256 | trust_of(other_platform).spki_sha256)
    with pytest.raises(UntrustedRoot):
        verify(platform, quote_of(other_platform), trust=trust)


def requoted(platform: SimulatedPlatform, chain: bytes) -> bytes:
    body = parse_quote(quote_of(platform)).signed[48:]
    return encode_quote(body, QuoteLayout.V4, replace(platform.quote_signer(), pck_chain=chain))


def test_only_leaf_intermediate_root_in_this_order_is_a_chain(platform: SimulatedPlatform) -> None:
    leaf, authority, root = platform.certificates.chain(CertificateRole.PCK)
    assert verify(platform, requoted(platform, pem_chain((leaf, authority)))).fmspc
    assert verify(platform, requoted(platform, pem_chain((leaf, authority, root)) + b"\0")).fmspc
    signing = platform.certificates.tcb_signing
    for members in (
        (leaf,),
        (leaf, root),
        (authority, leaf, root),
        (leaf, leaf, root),
        (authority, authority, root),
        (leaf, authority, authority),
        (leaf, signing, root),
        (signing, authority, root),
        (signing, root),
        (leaf, authority, leaf),
    ):
        with raises_code("pck.chain", "root.untrusted"):
            verify(platform, requoted(platform, pem_chain(members)))


# -- 15, 19: which platform ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"fmspc": bytes(6)}, {"pce_id": b"\0\x01"}])
def test_tcb_info_of_another_platform_is_refused(
    platform: SimulatedPlatform, changes: dict[str, Any]
) -> None:
    with raises_code("tcb.mismatch"):
        verify(replace(platform, tcb_info=replace(platform.tcb_info, **changes)))


# -- 8, 23: which module ------------------------------------------------------------------------------------------


def test_the_module_version_is_hexadecimal_and_its_case_is_free() -> None:
    platform = made_with(module=ModuleIdentity(tee_tcb_svn=bytes((5, 0x1B, 3)) + bytes(13)))
    for identifier in ("TDX_1b", "TDX_1B"):
        module = replace(platform.tcb_info.modules[0], identifier=identifier)
        named = replace(platform, tcb_info=replace(platform.tcb_info, modules=(module,)))
        assert verify(named).statuses.module is ComponentStatus.UP_TO_DATE
    decimal = replace(platform.tcb_info.modules[0], identifier="TDX_27")
    with raises_code("tdx_module.mismatch", match="TDX_1B"):
        verify(replace(platform, tcb_info=replace(platform.tcb_info, modules=(decimal,))))


@pytest.mark.parametrize("changes", [{"mrsignerseam": b"\x01" * 48}, {"seam_attributes": b"\x01" + bytes(7)}])
def test_a_module_that_is_not_the_vendors_is_refused(changes: dict[str, bytes]) -> None:
    with raises_code("tdx_module.mismatch"):
        verify(made_with(module=replace(ModuleIdentity(), **changes)))


def test_attributes_that_the_mask_hides_are_refused(platform: SimulatedPlatform) -> None:
    odd = made_with(module=ModuleIdentity(seam_attributes=b"\x01" + bytes(7)))
    record = ModuleRecord(identifier="TDX_01", attributes_mask=bytes(8), levels=(SVNLevel(isv_svn=0),))
    with raises_code("tdx_module.mismatch", match="attributes"):
        verify(replace(odd, tcb_info=replace(odd.tcb_info, modules=(record,))))


def test_a_module_below_every_level_is_refused(platform: SimulatedPlatform) -> None:
    with pytest.raises(TCBUnsupported):
        verify(with_module_levels(platform, SVNLevel(isv_svn=6)))


# -- time ---------------------------------------------------------------------------------------------------------


def test_verified_collateral_is_judged_again_at_each_use(platform: SimulatedPlatform) -> None:
    collateral = verify_collateral(platform.collateral(NOW), now=NOW, trust=trust_of(platform))
    quote = parse_quote(quote_of(platform))
    with pytest.raises(NotFreshError):
        verify_quote(quote, collateral, now=NOW + timedelta(days=31))
    with pytest.raises(NotFreshError):
        verify_quote(quote, collateral, now=NOW - timedelta(days=1))


def renewed(platform: SimulatedPlatform, years: int) -> SimulatedPlatform:
    """The same keys and names under certificates that were issued later."""
    return SimulatedPlatform.from_seed(platform.seed, created=NOW + timedelta(days=365 * years))


def test_a_chain_under_a_renewed_authority_is_accepted_while_it_lives(platform: SimulatedPlatform) -> None:
    later = NOW + timedelta(days=365 * 3)
    verified = verify(renewed(platform, 3), quote_of(platform), now=later, issued=later)
    assert verified.statuses.merged is TCBStatus.UP_TO_DATE


def test_the_pck_chain_has_a_time_of_its_own_even_from_the_cache(platform: SimulatedPlatform) -> None:
    cache, after = VerificationCache(), renewed(platform, 3)
    alive, expired = NOW + timedelta(days=365 * 3), NOW + timedelta(days=365 * 7)
    assert verify(after, quote_of(platform), now=alive, issued=alive, cache=cache).fmspc
    with pytest.raises(CertificateExpired, match="PCK Certificate"):
        verify(after, quote_of(platform), now=expired, issued=expired, cache=cache)


def test_the_expiry_is_exact(platform: SimulatedPlatform) -> None:
    collateral = platform.collateral(NOW)
    expiry = verify(platform, collateral=collateral).earliest_expiry
    assert verify(platform, collateral=collateral, now=expiry).earliest_expiry == expiry
    with pytest.raises(NotFreshError):
        verify(platform, collateral=collateral, now=expiry + timedelta(seconds=1))


@pytest.mark.parametrize("part", list(CollateralPart))
@pytest.mark.parametrize("days", [-60, 60])
def test_each_part_has_its_window(platform: SimulatedPlatform, part: CollateralPart, days: int) -> None:
    with pytest.raises(NotFreshError):
        verify(replace(platform, shifts={part: timedelta(days=days)}))


def test_a_time_without_a_zone_is_refused(platform: SimulatedPlatform) -> None:
    collateral = verify_collateral(platform.collateral(NOW), now=NOW, trust=trust_of(platform))
    with raises_code("tdx.naive_time"):
        verify_quote(parse_quote(quote_of(platform)), collateral, now=NOW.replace(tzinfo=None))
    with raises_code("tdx.naive_time"):
        verify_collateral(platform.collateral(NOW), now=NOW.replace(tzinfo=None), trust=trust_of(platform))


# -- 22: step-back ------------------------------------------------------------------------------------------------


def test_collateral_older_than_seen_is_refused(platform: SimulatedPlatform) -> None:
    earlier, later = NOW, NOW + timedelta(days=3)
    new = verify_collateral(platform.collateral(later), now=later, trust=trust_of(platform))
    old = verify_collateral(platform.collateral(earlier), now=later, trust=trust_of(platform))
    quote, seen = parse_quote(quote_of(platform)), mark_of(new)
    assert 22 in {check.point for check in verify_quote(quote, new, now=later, seen=seen).checks_made}
    assert verify_quote(quote, new, now=later, seen=mark_of(old)).fmspc
    with pytest.raises(CollateralRollback):
        verify_quote(quote, old, now=later, seen=seen)


# -- a cached verdict is the same verdict -------------------------------------------------------------------------


def test_the_cache_changes_nothing_but_the_work(platform: SimulatedPlatform) -> None:
    cache = VerificationCache(capacity=1)
    first, second = verify(platform, cache=cache), verify(platform, cache=cache)
    assert first == second == verify(platform)


def test_revocation_is_judged_again_for_a_cached_chain(platform: SimulatedPlatform) -> None:
    cache = VerificationCache()
    assert verify(platform, cache=cache).fmspc
    with raises_code("cert.revoked"):
        verify(replace(platform, revoked=frozenset((CertificateRole.PCK,))), cache=cache)


def test_an_expired_document_names_itself(platform: SimulatedPlatform) -> None:
    with pytest.raises(CollateralExpired, match="TCB Info"):
        verify(replace(platform, shifts={CollateralPart.TCB_INFO: timedelta(days=-60)}))


# -- since when an update is due ----------------------------------------------------------------------------------

FIRST, SECOND = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


def above_all(platform: SimulatedPlatform, status: str, date: datetime, step: int = 1) -> PlatformLevel:
    return level(platform, pce_svn=platform.machine.pce_svn + step, status=status, date=date)


def test_nothing_is_due_where_nothing_is_out_of_date(platform: SimulatedPlatform) -> None:
    newer = with_levels(platform, above_all(platform, "UpToDate", FIRST), level(platform))
    assert verify(newer).newer_level_since is None
    configuration = with_levels(platform, level(platform, status="ConfigurationNeeded"))
    assert verify(configuration).newer_level_since is None


def test_an_update_is_due_since_the_first_level_that_is_not_out_of_date(platform: SimulatedPlatform) -> None:
    """A second update never prolongs what the first one began; levels that are out of date themselves do not count."""
    old = with_levels(
        platform,
        above_all(platform, "UpToDate", SECOND, step=3),
        above_all(platform, "SWHardeningNeeded", FIRST, step=2),
        above_all(platform, "OutOfDate", datetime(2026, 1, 15, tzinfo=UTC)),
        level(platform, status="OutOfDate"),
    )
    assert verify(old).newer_level_since == FIRST


def test_the_part_that_has_been_due_for_longest_counts(platform: SimulatedPlatform) -> None:
    old = with_levels(platform, above_all(platform, "UpToDate", SECOND), level(platform, status="OutOfDate"))
    qe = (SVNLevel(isv_svn=200, date=FIRST), SVNLevel(isv_svn=0, status="OutOfDate"))
    assert verify(old).newer_level_since == SECOND
    assert verify(with_qe_levels(old, *qe)).newer_level_since == FIRST


def test_a_part_without_a_better_level_has_no_date_to_count_from(platform: SimulatedPlatform) -> None:
    old = with_levels(platform, above_all(platform, "UpToDate", SECOND), level(platform, status="OutOfDate"))
    assert verify(with_qe_levels(old, SVNLevel(isv_svn=0, status="OutOfDate"))).newer_level_since is None


def test_a_module_that_was_updated_below_its_td_is_due_since_the_update(platform: SimulatedPlatform) -> None:
    levels = (SVNLevel(isv_svn=5, date=SECOND), SVNLevel(isv_svn=0, status="OutOfDate"))
    assert relaunched(with_module_levels(platform, *levels)).newer_level_since == SECOND
