"""Every quote goes through the verifier; every fault that a platform can have is refused by its own code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from tests.attestation.release_of_files import release_of
from tests.attestation.simulated.conftest import NOW, counting_bytes

from affiant.attestation.release.boot import Image, boot_log
from affiant.attestation.release.manifest import Release, reference_values
from affiant.attestation.release.platform_identity import (
    TD_ATTRIBUTES,
    XFAM,
    MachineIdentity,
    ModuleIdentity,
    PCKIssuer,
    QuotingEnclave,
)
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import (
    CollateralPart,
    SimulatedPlatform,
    current_collateral,
)
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.simulated.platform.tcb_documents import PlatformLevel
from affiant.attestation.tdx.appraise.appraisal import Appraisal, Tier, appraise
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.errors import AffiantError

MRCONFIGID = b"c" * 48
REPORT_DATA = bytes(range(64))
RELEASE: Release = release_of([("affiant/a.py", "00" * 32), ("affiant/b/c.py", "11" * 32)])
MRTD = RELEASE.images[Image.GATEWAY].mrtd

Change = Callable[[SimulatedPlatform], SimulatedPlatform]


def verify(
    platform: SimulatedPlatform,
    *,
    now: datetime = NOW,
    root: bytes | None = None,
    collateral_of: SimulatedPlatform | None = None,
    layout: QuoteLayout = QuoteLayout.V4,
    td_attributes: bytes = TD_ATTRIBUTES,
    xfam: bytes = XFAM,
) -> VerifiedQuote:
    """A gateway's quote, through the same two calls as a hardware one."""
    registers = platform.launch(
        Image.GATEWAY,
        mrconfigid=MRCONFIGID,
        mrtd=MRTD,
        td_id=bytes(32),
        td_attributes=td_attributes,
        xfam=xfam,
    )
    quote = parse_quote(platform.quote(registers, REPORT_DATA, layout=layout))
    trust = TrustRoots.pinned([root or platform.root_spki()])
    collateral = verify_collateral((collateral_of or platform).collateral(NOW), now=now, trust=trust)
    return verify_quote(quote, collateral, now=now)


def judge(
    platform: SimulatedPlatform, *, td_attributes: bytes = TD_ATTRIBUTES, xfam: bytes = XFAM
) -> Appraisal:
    """The same, appraised against the reference values of a build that knew no quote."""
    return appraise(
        verify(platform, td_attributes=td_attributes, xfam=xfam),
        parse_reference_values(reference_values(RELEASE, platform.root_spki())),
        image="gateway",
        mrconfigid=MRCONFIGID,
        report_data=REPORT_DATA,
        log=parse_event_log(boot_log(Image.GATEWAY)),
    )


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(AffiantError) as caught:
        call()
    return caught.value.code


# -- it holds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", list(QuoteLayout))
def test_a_quote_verifies_as_simulated_and_up_to_date(
    platform: SimulatedPlatform, layout: QuoteLayout
) -> None:
    verified = verify(platform, layout=layout)
    assert verified.evidence_class is EvidenceClass.SIMULATED
    assert verified.statuses.merged.value == "UpToDate"


def test_a_quote_meets_reference_values_made_at_build_time(platform: SimulatedPlatform) -> None:
    assert judge(platform).image == "gateway"


def test_the_best_tier_of_simulated_evidence_is_none(platform: SimulatedPlatform) -> None:
    assert judge(platform).tier is Tier.NONE


def test_the_processor_authority_verifies_too() -> None:
    platform = SimulatedPlatform.create(
        now=NOW, random_bytes=counting_bytes("p"), machine=MachineIdentity(issuer=PCKIssuer.PROCESSOR)
    )
    assert judge(platform).tier is Tier.NONE


@pytest.mark.parametrize("size", [0, 1, 64])
def test_qe_auth_data_of_any_size_verifies(size: int) -> None:
    platform = SimulatedPlatform.create(
        now=NOW, random_bytes=counting_bytes("a"), enclave=QuotingEnclave(auth_data=bytes(size))
    )
    assert verify(platform).statuses.merged.value == "UpToDate"


def test_a_module_of_version_16_is_found_by_its_hexadecimal_name() -> None:
    module = ModuleIdentity(tee_tcb_svn=bytes((5, 0x10)) + bytes(14))
    platform = SimulatedPlatform.create(now=NOW, random_bytes=counting_bytes("m"), module=module)
    assert verify(platform).statuses.module is not None


def test_the_same_seed_gives_the_same_bytes(platform: SimulatedPlatform) -> None:
    again = SimulatedPlatform.from_seed(platform.seed, created=platform.created)
    registers = platform.launch(Image.SESSION, mrconfigid=MRCONFIGID, mrtd=MRTD, td_id=bytes(32))
    assert again.quote(registers, REPORT_DATA) == platform.quote(registers, REPORT_DATA)
    assert again.collateral(NOW) == platform.collateral(NOW)


def test_the_seed_stands_in_no_repr(platform: SimulatedPlatform) -> None:
    shown = repr(platform)
    assert "seed" not in shown
    assert platform.seed.hex() not in shown
    assert repr(platform.seed) not in shown


# -- it is refused ----------------------------------------------------------------------------------------------


def tcb_info(**changes: object) -> Change:
    return lambda platform: replace(platform, tcb_info=replace(platform.tcb_info, **changes))  # type: ignore[arg-type]


def qe_identity(**changes: object) -> Change:
    return lambda platform: replace(platform, qe_identity=replace(platform.qe_identity, **changes))  # type: ignore[arg-type]


def enclave(**changes: object) -> Change:
    return lambda platform: replace(platform, enclave=replace(platform.enclave, **changes))  # type: ignore[arg-type]


def module(**changes: object) -> Change:
    return lambda platform: replace(platform, module=replace(platform.module, **changes))  # type: ignore[arg-type]


def platform_status(status: str) -> Change:
    return lambda p: tcb_info(levels=(replace(p.tcb_info.levels[0], status=status),))(p)


def module_level(**changes: object) -> Change:
    def change(p: SimulatedPlatform) -> SimulatedPlatform:
        record = p.tcb_info.modules[0]
        return tcb_info(modules=(replace(record, levels=(replace(record.levels[0], **changes),)),))(p)  # type: ignore[arg-type]

    return change


def qe_level(**changes: object) -> Change:
    return lambda p: qe_identity(levels=(replace(p.qe_identity.levels[0], **changes),))(p)  # type: ignore[arg-type]


def revoking(role: CertificateRole) -> Change:
    return lambda platform: replace(platform, revoked=frozenset({role}))


def shifted(part: CollateralPart, days: int) -> Change:
    return lambda p: replace(p, shifts={part: timedelta(days=days)})


def raised_component(array: str, index: int) -> Change:
    """A level that demands one component more than the platform has, and less of the one before."""

    def change(p: SimulatedPlatform) -> SimulatedPlatform:
        level: PlatformLevel = p.tcb_info.levels[0]
        components = list(getattr(level, array))
        components[index] += 1
        components[index - 1] = 0
        return tcb_info(levels=(replace(level, **{array: tuple(components)}),))(p)  # type: ignore[arg-type]

    return change


REFUSED_BY_THE_VERIFIER: dict[str, tuple[Change, str]] = {
    **{f"revoked {role.value}": (revoking(role), "cert.revoked") for role in CertificateRole},
    "platform revoked": (platform_status("Revoked"), "tcb.revoked"),
    "module revoked": (module_level(status="Revoked"), "tcb.revoked"),
    "qe revoked": (qe_level(status="Revoked"), "tcb.revoked"),
    "platform status unknown": (platform_status("Fine"), "tcb.malformed"),
    "sgx component too low": (raised_component("sgx_components", 7), "tcb.unsupported"),
    "tdx component too low": (raised_component("tdx_components", 2), "tcb.unsupported"),
    "fifteen components": (
        lambda p: tcb_info(levels=(replace(p.tcb_info.levels[0], sgx_components=(0,) * 15),))(p),
        "tcb.malformed",
    ),
    "no levels": (tcb_info(levels=()), "tcb.unsupported"),
    "module svn too low": (module_level(isv_svn=200), "tcb.unsupported"),
    "qe svn too low": (enclave(isv_svn=0), "tcb.unsupported"),
    "unknown module": (tcb_info(modules=()), "tdx_module.mismatch"),
    "module of another signer": (module(mrsignerseam=b"\x01" * 48), "tdx_module.mismatch"),
    "module with attributes": (module(seam_attributes=b"\x01" + bytes(7)), "tdx_module.mismatch"),
    "another fmspc": (tcb_info(fmspc=b"OTHERS"), "tcb.mismatch"),
    "another pceid": (tcb_info(pce_id=b"\x01\x00"), "tcb.mismatch"),
    "tcb info of sgx": (tcb_info(identifier="SGX"), "tcb.mismatch"),
    "identity of the sgx qe": (qe_identity(identifier="QE"), "qe.identity"),
    "qe of another signer": (enclave(mrsigner=b"\x01" * 32), "qe.identity"),
    "qe of another product": (enclave(isv_prod_id=1), "qe.identity"),
    "qe attributes": (enclave(attributes=b"\x01" + bytes(15)), "qe.identity"),
    "qe miscselect": (enclave(misc_select=b"\x01" + bytes(3)), "qe.identity"),
    "qe debug, masked out": (
        lambda p: qe_identity(attributes_mask=bytes(16), attributes=bytes(16))(
            enclave(attributes=b"\x13" + bytes(15))(p)
        ),
        "qe.identity",
    ),
    "tcb info signed by the pck key": (
        lambda p: replace(p, tcb_info_signer=CertificateRole.PCK),
        "collateral.issuer",
    ),
    "tcb info signed by the pck authority": (
        lambda p: replace(p, tcb_info_signer=CertificateRole.PCK_ISSUER),
        "collateral.issuer",
    ),
    "qe identity signed by the pck key": (
        lambda p: replace(p, qe_identity_signer=CertificateRole.PCK),
        "collateral.issuer",
    ),
    "tcb info expired": (shifted(CollateralPart.TCB_INFO, -31), "collateral.expired"),
    "tcb info of tomorrow": (shifted(CollateralPart.TCB_INFO, 1), "collateral.not_yet_valid"),
    "qe identity expired": (shifted(CollateralPart.QE_IDENTITY, -31), "collateral.expired"),
    "qe identity of tomorrow": (shifted(CollateralPart.QE_IDENTITY, 1), "collateral.not_yet_valid"),
    "root crl expired": (shifted(CollateralPart.ROOT_CRL, -31), "crl.expired"),
    "root crl of tomorrow": (shifted(CollateralPart.ROOT_CRL, 1), "crl.not_yet_valid"),
    "pck crl expired": (shifted(CollateralPart.PCK_CRL, -31), "crl.expired"),
    "pck crl of tomorrow": (shifted(CollateralPart.PCK_CRL, 1), "crl.not_yet_valid"),
}


@pytest.mark.parametrize("name", REFUSED_BY_THE_VERIFIER)
def test_a_platform_with_one_fault_is_refused_by_its_code(platform: SimulatedPlatform, name: str) -> None:
    change, code = REFUSED_BY_THE_VERIFIER[name]
    assert refusal(lambda: verify(change(platform))) == code


REFUSED_BY_APPRAISAL: dict[str, tuple[Change, dict[str, bytes], str]] = {
    **{
        f"status {status}": (platform_status(status), {}, "appraisal.tcb_status")
        for status in (
            "SWHardeningNeeded",
            "ConfigurationNeeded",
            "ConfigurationAndSWHardeningNeeded",
            "OutOfDate",
            "OutOfDateConfigurationNeeded",
        )
    },
    "module out of date": (module_level(status="OutOfDate"), {}, "appraisal.tcb_status"),
    "qe out of date": (qe_level(status="OutOfDate"), {}, "appraisal.tcb_status"),
    "evaluation number": (tcb_info(evaluation_number=0), {}, "appraisal.evaluation_number"),
    "debug": (lambda p: p, {"td_attributes": bytes.fromhex("0100001000000000")}, "appraisal.debug"),
    "migratable": (
        lambda p: p,
        {"td_attributes": bytes.fromhex("0000003000000000")},
        "appraisal.td_attributes",
    ),
    "another xfam": (lambda p: p, {"xfam": bytes.fromhex("e700060000000000")}, "appraisal.xfam"),
}


@pytest.mark.parametrize("name", REFUSED_BY_APPRAISAL)
def test_an_authentic_quote_that_policy_forbids_is_refused_by_its_code(
    platform: SimulatedPlatform, name: str
) -> None:
    change, launch, code = REFUSED_BY_APPRAISAL[name]
    assert refusal(lambda: judge(change(platform), **launch)) == code


def test_a_bound_service_td_is_refused(platform: SimulatedPlatform) -> None:
    registers = platform.launch(Image.GATEWAY, mrconfigid=MRCONFIGID, mrtd=MRTD, td_id=bytes(32))
    quote = platform.quote(registers, REPORT_DATA, layout=QuoteLayout.V5_TD15, mrservicetd=b"\x01" * 48)
    trust = TrustRoots.pinned([platform.root_spki()])
    collateral = verify_collateral(platform.collateral(NOW), now=NOW, trust=trust)
    verified = verify_quote(parse_quote(quote), collateral, now=NOW)
    code = refusal(
        lambda: appraise(
            verified,
            parse_reference_values(reference_values(RELEASE, platform.root_spki())),
            image="gateway",
            mrconfigid=MRCONFIGID,
            report_data=REPORT_DATA,
            log=parse_event_log(boot_log(Image.GATEWAY)),
        )
    )
    assert code == "appraisal.service_td"


def test_a_second_root_with_the_same_names_is_refused(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    assert refusal(lambda: verify(other_platform, root=platform.root_spki())) == "root.untrusted"


def test_a_quote_of_one_platform_under_the_collateral_of_another_is_refused(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform
) -> None:
    code = refusal(lambda: verify(other_platform, root=platform.root_spki(), collateral_of=platform))
    assert code in {"pck.chain", "root.untrusted"}


def test_no_simulated_root_is_ever_hardware(platform: SimulatedPlatform) -> None:
    trust = TrustRoots.intel()
    assert (
        refusal(lambda: verify_collateral(platform.collateral(NOW), now=NOW, trust=trust)) == "root.untrusted"
    )


def test_another_vendor_id_is_refused(platform: SimulatedPlatform) -> None:
    registers = platform.launch(Image.GATEWAY, mrconfigid=MRCONFIGID, mrtd=MRTD, td_id=bytes(32))
    quote = bytearray(platform.quote(registers, REPORT_DATA))
    quote[12] ^= 1
    assert refusal(lambda: parse_quote(bytes(quote))) == "quote.malformed"


# -- collateral over time ---------------------------------------------------------------------------------------


def test_collateral_is_valid_for_thirty_days_and_no_longer(platform: SimulatedPlatform) -> None:
    trust = TrustRoots.pinned([platform.root_spki()])
    verify_collateral(platform.collateral(NOW), now=NOW + timedelta(days=29, hours=23), trust=trust)
    late = NOW + timedelta(days=30)
    with pytest.raises(AffiantError) as caught:
        verify_collateral(platform.collateral(NOW), now=late, trust=trust)
    assert caught.value.code in {"collateral.expired", "crl.expired"}


@pytest.mark.parametrize(
    ("days", "fresh"), [(0, False), (1, False), (22, False), (23, True), (40, True), (-0.02, True)]
)
def test_collateral_is_renewed_within_a_week_of_its_end(
    platform: SimulatedPlatform, days: float, fresh: bool
) -> None:
    held = current_collateral(platform, None, now=NOW)
    later = current_collateral(platform, held, now=NOW + timedelta(days=days))
    assert (later is not held) == fresh
    trust = TrustRoots.pinned([platform.root_spki()])
    verify_collateral(later.collateral, now=NOW + timedelta(days=days), trust=trust)


def test_both_documents_carry_the_same_dates_as_the_lists(platform: SimulatedPlatform) -> None:
    collateral = platform.collateral(NOW)
    crl = x509.load_der_x509_crl(collateral.pck_crl)
    assert crl.next_update_utc is not None
    for body, member in ((collateral.tcb_info, "tcbInfo"), (collateral.qe_identity, "enclaveIdentity")):
        document = json.loads(body)[member]
        assert datetime.fromisoformat(document["issueDate"]) == crl.last_update_utc
        assert datetime.fromisoformat(document["nextUpdate"]) == crl.next_update_utc
