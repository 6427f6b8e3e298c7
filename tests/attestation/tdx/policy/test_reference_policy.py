"""What was not asked is never affirmed, and what was asked is refused by the same steps as everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.attestation.tdx.conftest import (
    MRCONFIGID,
    REPORT_DATA,
    Genuine,
    quote_of,
    reference_of,
    verify,
)
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.appraise.appraisal import Tier
from affiant.attestation.tdx.appraise.expectations import Expectations
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI
from affiant.attestation.tdx.policy.appraisal import PolicyAppraisal, appraise_by_policy
from affiant.attestation.tdx.policy.settings import reference_policy
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote


def hardware(genuine: Genuine, **changes: Any) -> ReferenceValues:
    """Reference values that accept this very quote; only a test takes them from one."""
    body = genuine.quote.body
    image = {"mrtd": body.mrtd.hex()} | {f"rtmr{n}": body.rtmrs[n].hex() for n in range(3)}
    other = dict.fromkeys(image, "11" * 48)
    document = {
        "typ": "affiant-reference-values/1",
        "cls": "hardware",
        "roots": [sha256_name(INTEL_SGX_ROOT_CA_SPKI)],
        "images": {"gateway": [other], "session": [image]},
        "tcb": {"statuses": ["UpToDate"], "min_evaluation": 1},
        "td_attributes": body.td_attributes.hex(),
        "xfam": body.xfam.hex(),
    }
    return parse_reference_values(canonical(document | changes))


def appraise_asked(
    verified: VerifiedQuote, references: tuple[ReferenceValues, ...], expected: Expectations
) -> PolicyAppraisal:
    return appraise_by_policy(verified, tuple(map(reference_policy, references)), expected)


def names(appraisal: PolicyAppraisal) -> list[str]:
    return [image.name for image in appraisal.images]


def verified(genuine: Genuine) -> VerifiedQuote:
    return verify_quote(genuine.quote, genuine.verified, now=genuine.now)


def everything(genuine: Genuine) -> Expectations:
    body = genuine.quote.body
    mrconfigid = body.mrconfigid if any(body.mrconfigid) else None
    return Expectations(
        image="session", mrconfigid=mrconfigid, report_data=body.report_data, rtmr3=body.rtmrs[3]
    )


@pytest.fixture(scope="module")
def bound(vectors: Any) -> Genuine:
    """A genuine quote, UpToDate, whose launcher bound an MRCONFIGID."""
    from tests.attestation.tdx.conftest import _genuine

    return _genuine(vectors, "phala_v5_td15ex", "collateral/b0c06f_2026-10.json", 1792714008)


def test_without_reference_values_the_tier_is_none_however_good_the_platform(v4: Genuine) -> None:
    appraisal = appraise_asked(verified(v4), (), everything(v4))
    assert appraisal.tier is Tier.NONE
    assert {37, 38, 39, 40} <= {check.point for check in appraisal.checks_not_made}


def test_everything_asked_on_hardware_that_is_up_to_date_is_affirming(bound: Genuine) -> None:
    appraisal = appraise_asked(verified(bound), (hardware(bound),), everything(bound))
    assert appraisal.tier is Tier.AFFIRMING
    assert names(appraisal) == ["session"]
    assert {check.point for check in appraisal.checks_made} == {37, 38, 39, 40, 41, 44}
    assert {check.point for check in appraisal.checks_not_made} == {37, 40, 42, 43, 44}


@pytest.mark.parametrize("missing", ["mrconfigid", "report_data", "rtmr3"])
def test_one_expectation_less_is_a_warning_that_names_it(bound: Genuine, missing: str) -> None:
    asked = everything(bound)
    less = Expectations(
        **{
            name: None if name == missing else getattr(asked, name)
            for name in ("image", "mrconfigid", "report_data", "rtmr3")
        }
    )
    appraisal = appraise_asked(verified(bound), (hardware(bound),), less)
    assert appraisal.tier is Tier.WARNING
    assert any("no expected value" in check.detail for check in appraisal.checks_not_made)


def test_an_accepted_status_short_of_up_to_date_is_a_warning(vectors: Any) -> None:
    from tests.attestation.tdx.conftest import _genuine

    old = _genuine(vectors, "phala_emr_v4", "collateral/b0c06f_2026-10.json", 1792714008)
    accepting = hardware(old, tcb={"statuses": ["OutOfDate", "UpToDate"], "min_evaluation": 1})
    assert appraise_asked(verified(old), (accepting,), everything(old)).tier is Tier.WARNING
    with raises_code("appraisal.tcb_status"):
        appraise_asked(verified(old), (hardware(old),), everything(old))


def test_simulated_evidence_is_worth_nothing_whatever_was_asked(platform: SimulatedPlatform) -> None:
    found = verify(platform)
    asked = Expectations(
        image="session",
        mrconfigid=MRCONFIGID,
        report_data=REPORT_DATA,
        rtmr3=found.quote.body.rtmrs[3],
    )
    assert appraise_asked(found, (reference_of(platform),), asked).tier is Tier.NONE


def test_class_is_refused_both_ways(platform: SimulatedPlatform, v4: Genuine) -> None:
    with raises_code("appraisal.evidence_class"):
        appraise_asked(verify(platform), (hardware(v4),), Expectations())
    with raises_code("appraisal.evidence_class"):
        appraise_asked(verified(v4), (reference_of(platform),), Expectations())


def test_one_of_several_reference_values_must_accept(platform: SimulatedPlatform, v4: Genuine) -> None:
    both = (hardware(v4), reference_of(platform))
    policy = appraise_asked(verify(platform), both, Expectations()).policy
    assert policy is not None and policy.digest == both[1].digest


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (Expectations(mrconfigid=b"\1" * 48), "appraisal.mrconfigid"),
        (Expectations(report_data=bytes(64)), "appraisal.report_data"),
        (Expectations(rtmr3=bytes(48)), "appraisal.rtmr3"),
        (Expectations(image="gateway"), "appraisal.image"),
    ],
    ids=["mrconfigid", "report_data", "rtmr3", "image"],
)
def test_each_expectation_refuses(platform: SimulatedPlatform, expected: Expectations, code: str) -> None:
    with raises_code(code):
        appraise_asked(verify(platform), (reference_of(platform),), expected)
    if expected.image is None:
        with raises_code(code):
            appraise_asked(verify(platform), (), expected)


def test_a_gateway_extends_nothing_asked_or_not(platform: SimulatedPlatform) -> None:
    empty = verify(platform, quote_of(platform, image=Image.GATEWAY, events=()))
    appraisal = appraise_asked(empty, (reference_of(platform),), Expectations())
    assert names(appraisal) == ["gateway"]
    assert any("as a gateway's must be" in check.detail for check in appraisal.checks_made)
    with raises_code("appraisal.rtmr3"):
        appraise_asked(
            verify(platform, quote_of(platform, image=Image.GATEWAY)),
            (reference_of(platform),),
            Expectations(),
        )


def test_a_debuggable_td_is_refused_without_being_asked(platform: SimulatedPlatform) -> None:
    quote = quote_of(platform, td={"td_attributes": (1 | 1 << 28).to_bytes(8, "little")})
    with raises_code("appraisal.debug"):
        appraise_asked(verify(platform, quote), (), Expectations())


@pytest.mark.parametrize(
    "values",
    [
        {"mrconfigid": bytes(48)},
        {"mrconfigid": b"\1" * 47},
        {"report_data": b"\1" * 32},
        {"report_data": b""},
        {"rtmr3": bytes(49)},
    ],
)
def test_an_expectation_is_never_padded_cut_or_empty(values: Any) -> None:
    with raises_code("appraisal.expectation"):
        Expectations(**values)


def test_the_platform_is_refused_before_the_td(platform: SimulatedPlatform, v4: Genuine) -> None:
    """As in a measured program: a fixed rule, then class and root, TCB, configuration and image."""
    asked = reference_of(platform).raw
    document: Any = parse_canonical(asked)
    document["xfam"] = "e718060000000000"
    other = parse_reference_values(canonical(document))
    document["tcb"]["min_evaluation"] = 9
    newer = parse_reference_values(canonical(document))
    gateway = Expectations(image="gateway")
    with raises_code("appraisal.xfam"):
        appraise_asked(verify(platform), (other,), gateway)
    with raises_code("appraisal.evaluation_number"):
        appraise_asked(verify(platform), (newer, other), gateway)
    with raises_code("appraisal.evidence_class"):
        appraise_asked(verified(v4), (newer,), gateway)


def test_rows_of_reference_values_are_one_for_each_point(platform: SimulatedPlatform) -> None:
    appraisal = appraise_asked(verify(platform), (reference_of(platform),), Expectations())
    assert [check.point for check in appraisal.checks_made] == [37, 38, 39, 40]
    assert [check.point for check in appraisal.checks_not_made][:3] == [37, 42, 40]


def test_no_point_of_appraisal_is_lost(platform: SimulatedPlatform) -> None:
    """Each of points 37 to 44 is made or said not to be."""
    for references in ((), (reference_of(platform),)):
        appraisal = appraise_asked(verify(platform), references, Expectations())
        points = {check.point for check in (*appraisal.checks_made, *appraisal.checks_not_made)}
        assert points == set(range(37, 45))
        assert json.dumps([check.to_json() for check in appraisal.checks_made])
