"""Each policy decides its own question, refuses with its own code, and says which exceptions it needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.attestation.tdx.conftest import MRCONFIGID, NOW, REPORT_DATA, Genuine, quote_of, verify
from tests.attestation.tdx.policy.test_policy_file import (
    HARDWARE,
    HEX48,
    SIMULATED,
    deployed,
    parse,
    with_tcb,
)
from tests.attestation.tdx.verify.test_verify import SVNLevel, above_all, level, with_levels, with_qe_levels
from tests.raising import raises_code

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.tdx.appraise.appraisal import Tier
from affiant.attestation.tdx.appraise.expectations import Expectations
from affiant.attestation.tdx.policy.appraisal import PolicyAppraisal, appraise_by_policy, judge_by_policy
from affiant.attestation.tdx.policy.node_outcomes import Decision, judge_policies, require_accepted
from affiant.attestation.tdx.policy.policies import POLICIES
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote

NOTHING = Expectations()
SEPT_VE_DISABLE = 1 << 28


def refused(verified: VerifiedQuote, text: str, expected: Expectations = NOTHING) -> AppraisalRefused:
    with pytest.raises(AppraisalRefused) as refusal:
        appraise_by_policy(verified, (parse(text),), expected)
    return refusal.value


def accepted(verified: VerifiedQuote, text: str, expected: Expectations = NOTHING) -> PolicyAppraisal:
    return appraise_by_policy(verified, (parse(text),), expected)


def used(appraisal: PolicyAppraisal) -> list[str]:
    return [exception.name for exception in appraisal.exceptions]


@pytest.fixture(scope="module")
def good(platform: SimulatedPlatform) -> VerifiedQuote:
    return verify(platform)


@pytest.fixture(scope="module")
def out_of_date(platform: SimulatedPlatform) -> VerifiedQuote:
    """OutOfDate with one advisory, since 1 April."""
    return verify(
        with_levels(
            platform,
            above_all(platform, "UpToDate", datetime(2026, 4, 1, tzinfo=UTC)),
            level(platform, status="OutOfDate", advisories=("INTEL-SA-00837",)),
        )
    )


# -- composition ---------------------------------------------------------------------------------------------------


def test_every_policy_is_named_and_says_what_it_decided(good: VerifiedQuote) -> None:
    appraisal = accepted(good, SIMULATED)
    assert [outcome.policy for outcome in appraisal.outcomes] == list(POLICIES)
    names = [policy.name for policy in POLICIES]
    codes = [policy.code for policy in POLICIES]
    assert len(set(names)) == len(names)
    assert len(set(codes)) == len(codes)
    decisions = {outcome.policy.name: outcome.decision for outcome in appraisal.outcomes}
    not_limited = {name for name, decision in decisions.items() if decision is Decision.NOT_LIMITED}
    assert not_limited == {"machine", "pck-flags", "tdx-module"}
    assert set(decisions.values()) == {Decision.HELD, Decision.NOT_LIMITED}


def test_an_empty_set_of_policies_refuses(good: VerifiedQuote) -> None:
    with raises_code("appraisal.no_policy"):
        judge_policies(good, parse(SIMULATED), ())
    with raises_code("appraisal.no_policy"):
        require_accepted(())


def test_a_refusal_does_not_hide_the_next_one(good: VerifiedQuote) -> None:
    text = SIMULATED.replace("minimum_evaluation: 1", "minimum_evaluation: 9").replace("e702060", "e718060")
    outcomes = judge_by_policy(good, parse(text), NOTHING)
    codes = [outcome.refusal.code for outcome in outcomes if outcome.refusal is not None]
    assert codes == ["appraisal.xfam", "appraisal.evaluation_number"]
    assert refused(good, text).code == "appraisal.xfam"


def test_simulated_evidence_is_worth_none_and_every_point_is_accounted_for(good: VerifiedQuote) -> None:
    expected = Expectations(
        image="session",
        mrconfigid=MRCONFIGID,
        report_data=REPORT_DATA,
        rtmr3=good.quote.body.rtmrs[3],
    )
    for asked in (NOTHING, expected):
        appraisal = accepted(good, SIMULATED, asked)
        assert appraisal.tier is Tier.NONE
        points = {check.point for check in (*appraisal.checks_made, *appraisal.checks_not_made)}
        assert points == set(range(37, 45))
    with raises_code("appraisal.report_data"):
        accepted(good, SIMULATED, Expectations(report_data=b"\1" * 64))


# -- the image -----------------------------------------------------------------------------------------------------


def test_the_image_is_told_by_name_and_shape(good: VerifiedQuote, platform: SimulatedPlatform) -> None:
    appraisal = accepted(good, SIMULATED)
    assert [(image.name, image.shapes) for image in appraisal.images] == [("session", ("2cpu-4gb",))]
    gateway = verify(platform, quote_of(platform, image=Image.GATEWAY, events=()))
    assert [image.name for image in accepted(gateway, SIMULATED).images] == ["gateway"]
    assert refused(good, SIMULATED, Expectations(image="gateway")).code == "appraisal.image"
    with raises_code("appraisal.expectation"):
        accepted(good, SIMULATED, Expectations(image="other"))


def test_a_mix_of_two_accepted_images_is_none(good: VerifiedQuote) -> None:
    """The session's RTMR2 under the gateway's name, and the other way round, with another MRTD each."""
    session, gateway = parse(SIMULATED).images
    first, second = session.measurement.mrtd.hex(), "11" * 48
    text = SIMULATED.replace(first, second, 1)
    assert refused(good, text).code == "appraisal.image"
    assert gateway.measurement.rtmr2 != session.measurement.rtmr2


def test_an_image_that_was_revoked_is_none_and_the_refusal_says_why(good: VerifiedQuote) -> None:
    text = SIMULATED.replace("name: session\n", "name: session\n    revoked_at: 2026-05-01T00:00:00Z\n")
    refusal = refused(good, text)
    assert refusal.code == "appraisal.image"
    assert "revoked at 2026-05-01" in str(refusal)


# -- root, features, machine, flags, module ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("xfam: [e702060000000000]", "xfam: [e718060000000000]", "appraisal.xfam"),
        ("machines: any", "machines: [{fmspc: 00806f050000}]", "appraisal.machine"),
        ("machines: any", f"machines: [{{ppid: {'11' * 16}}}]", "appraisal.machine"),
        ("machines: any", f"machines: any\nmrseam: [{HEX48}]", "appraisal.tdx_module"),
        ("machines: any", 'machines: any\ntd_attributes: ["0000001080000000"]', "appraisal.td_attributes"),
        ("minimum_evaluation: 1", "minimum_evaluation: 2", "appraisal.evaluation_number"),
        ("minimum_evaluation: 1", "minimum_evaluation: 1\n  statuses: [OutOfDate]", "appraisal.tcb_status"),
        (
            "pck_flags: any",
            "pck_flags: {smt: false, cached_keys: any, dynamic_platform: any}",
            "appraisal.pck_flags",
        ),
    ],
)
def test_each_policy_refuses_with_its_own_code(good: VerifiedQuote, old: str, new: str, code: str) -> None:
    text = SIMULATED.replace(old, new)
    assert text != SIMULATED
    assert refused(good, text).code == code
    outcome = next(o for o in judge_by_policy(good, parse(text), NOTHING) if o.decision is Decision.REFUSED)
    assert outcome.policy.code == code


def test_each_policy_holds_where_its_list_names_what_is_there(good: VerifiedQuote) -> None:
    machine = f"machines: [{{ppid: {good.ppid.hex()}, fmspc: {good.fmspc.hex()}}}]"
    text = SIMULATED.replace("machines: any", machine).replace(
        "pck_flags: any",
        "pck_flags: {smt: true, cached_keys: any, dynamic_platform: true}\n"
        f"mrseam: [{good.quote.body.mrseam.hex()}]",
    )
    appraisal = accepted(good, text)
    assert {outcome.decision for outcome in appraisal.outcomes} == {Decision.HELD}
    assert 42 in {check.point for check in appraisal.checks_made}
    both = machine.replace(good.fmspc.hex(), "00806f050000")
    assert refused(good, SIMULATED.replace("machines: any", both)).code == "appraisal.machine"


def test_a_flag_that_the_certificate_does_not_say_is_not_as_demanded(good: VerifiedQuote) -> None:
    silent = replace(good, pck=replace(good.pck, smt_enabled=None))
    for word in ("true", "false"):
        text = SIMULATED.replace(
            "pck_flags: any", f"pck_flags: {{smt: {word}, cached_keys: any, dynamic_platform: any}}"
        )
        assert "not said" in str(refused(silent, text))


def test_class_and_root_are_refused_both_ways(good: VerifiedQuote, other_platform: SimulatedPlatform) -> None:
    assert refused(good, HARDWARE).code == "appraisal.evidence_class"
    assert refused(verify(other_platform), SIMULATED).code == "appraisal.root"


# -- the TCB -------------------------------------------------------------------------------------------------------

GRACE = "  grace:\n    - {status: OutOfDate, days: 40, reason: maintenance}\n"
ADVISORY = "  advisories:\n    - {id: INTEL-SA-00837, until: 2026-06-01T00:00:00Z, reason: not reachable}\n"
ACCEPTED = "  statuses: [UpToDate, OutOfDate]\n"


def test_a_status_is_not_accepted_unless_it_is_named(out_of_date: VerifiedQuote) -> None:
    refusal = refused(out_of_date, SIMULATED)
    assert refusal.code == "appraisal.tcb_status"
    assert "INTEL-SA-00837" in str(refusal)


def test_an_accepted_status_does_not_accept_its_advisories(out_of_date: VerifiedQuote) -> None:
    assert refused(out_of_date, with_tcb(ACCEPTED)).code == "appraisal.advisory"
    appraisal = accepted(out_of_date, with_tcb(ACCEPTED + ADVISORY))
    assert used(appraisal) == ["INTEL-SA-00837"]
    other = ADVISORY.replace("00837", "00838")
    assert refused(out_of_date, with_tcb(ACCEPTED + other)).code == "appraisal.advisory"


def test_an_advisory_exception_does_not_accept_the_status(out_of_date: VerifiedQuote) -> None:
    assert refused(out_of_date, with_tcb(ADVISORY)).code == "appraisal.tcb_status"


def test_an_exception_that_has_expired_refuses_and_says_so(out_of_date: VerifiedQuote) -> None:
    lapsed = ADVISORY.replace("2026-06-01", "2026-05-04")
    refusal = refused(out_of_date, with_tcb(ACCEPTED + lapsed))
    assert refusal.code == "appraisal.exception_lapsed"
    assert "expired at 2026-05-04T00:00:00Z" in str(refusal)
    assert "appraisal.advisory" in str(refusal)
    assert str(refusal.where).startswith("a.yaml:")
    revoked = ADVISORY.replace("reason:", "revoked_at: 2026-05-01T00:00:00Z, reason:")
    assert "revoked at" in str(refused(out_of_date, with_tcb(ACCEPTED + revoked)))
    renewed = lapsed + ADVISORY.splitlines()[1] + "\n"
    assert used(accepted(out_of_date, with_tcb(ACCEPTED + renewed))) == ["INTEL-SA-00837"]


def test_an_expired_exception_that_nobody_needs_does_not_matter(good: VerifiedQuote) -> None:
    assert used(accepted(good, with_tcb(ADVISORY.replace("2026-06-01", "2020-06-01")))) == []


def test_grace_is_counted_from_the_first_better_level_and_covers_what_the_update_closes(
    platform: SimulatedPlatform, out_of_date: VerifiedQuote
) -> None:
    appraisal = accepted(out_of_date, with_tcb(GRACE))
    assert used(appraisal) == ["grace of OutOfDate"]
    end = datetime(2026, 5, 11, tzinfo=UTC)
    assert appraisal.holds_until == appraisal.exceptions[0].until == end
    last = replace(out_of_date, judged_at=end - timedelta(seconds=1))
    assert used(accepted(last, with_tcb(GRACE))) == ["grace of OutOfDate"]
    refusal = refused(replace(out_of_date, judged_at=end), with_tcb(GRACE))
    assert refusal.code == "appraisal.grace_over"
    assert "before 2026-05-11" in str(refusal)


def test_a_grace_that_is_over_covers_no_advisory_either(out_of_date: VerifiedQuote) -> None:
    late = replace(out_of_date, judged_at=datetime(2026, 5, 11, tzinfo=UTC))
    outcomes = judge_by_policy(late, parse(with_tcb(GRACE)), NOTHING)
    codes = [outcome.refusal.code for outcome in outcomes if outcome.refusal is not None]
    assert codes == ["appraisal.grace_over", "appraisal.advisory"]


def test_the_permission_to_give_grace_ends_by_itself(out_of_date: VerifiedQuote) -> None:
    ended = GRACE.replace("reason:", "until: 2026-05-01T00:00:00Z, reason:")
    assert refused(out_of_date, with_tcb(ended)).code == "appraisal.exception_lapsed"


def test_there_is_no_grace_without_a_level_to_count_from(platform: SimulatedPlatform) -> None:
    alone = verify(with_levels(platform, level(platform, status="OutOfDate")))
    refusal = refused(alone, with_tcb(GRACE))
    assert refusal.code == "appraisal.tcb_status"
    assert "no newer level" in str(refusal)


def test_grace_for_one_status_is_none_for_another(platform: SimulatedPlatform) -> None:
    both = with_levels(
        platform,
        above_all(platform, "UpToDate", NOW - timedelta(days=1)),
        level(platform, status="OutOfDateConfigurationNeeded"),
    )
    assert refused(verify(both), with_tcb(GRACE)).code == "appraisal.tcb_status"
    named = GRACE.replace("OutOfDate,", "OutOfDateConfigurationNeeded,")
    assert used(accepted(verify(both), with_tcb(named))) == ["grace of OutOfDateConfigurationNeeded"]


def test_grace_covers_no_advisory_that_the_update_does_not_close(platform: SimulatedPlatform) -> None:
    """The platform needs software hardening for one advisory; only its enclave is out of date, for another one."""
    hardening = with_levels(
        platform, level(platform, status="SWHardeningNeeded", advisories=("INTEL-SA-00837",))
    )
    current = SVNLevel(isv_svn=200, date=datetime(2026, 4, 1, tzinfo=UTC))
    for closed in (("INTEL-SA-00999",), ("INTEL-SA-00999", "INTEL-SA-00837")):
        old = SVNLevel(isv_svn=0, status="OutOfDate", advisories=closed)
        found = verify(with_qe_levels(hardening, current, old))
        assert found.statuses.merged.value == "OutOfDate"
        assert found.due_advisories == {"INTEL-SA-00999"}
        refusal = refused(found, with_tcb(GRACE))
        assert (refusal.code, refusal.found) == ("appraisal.advisory", "INTEL-SA-00837")
        assert used(accepted(found, with_tcb(GRACE + ADVISORY))) == ["grace of OutOfDate", "INTEL-SA-00837"]


def test_grace_does_not_prolong_an_enclave_that_is_out_of_date_for_longer(
    platform: SimulatedPlatform,
) -> None:
    old = with_levels(
        platform,
        above_all(platform, "UpToDate", datetime(2026, 4, 1, tzinfo=UTC)),
        level(platform, status="OutOfDate"),
    )
    qe = (
        SVNLevel(isv_svn=200, date=datetime(2026, 1, 1, tzinfo=UTC)),
        SVNLevel(isv_svn=0, status="OutOfDate"),
    )
    assert refused(verify(with_qe_levels(old, *qe)), with_tcb(GRACE)).code == "appraisal.grace_over"


# -- attributes ----------------------------------------------------------------------------------------------------

PARAVISOR = "exceptions:\n  - {name: azure-paravisor, images: [session], reason: paravisor}\n"


def attributes(platform: SimulatedPlatform, bits: int) -> VerifiedQuote:
    return verify(platform, quote_of(platform, td={"td_attributes": bits.to_bytes(8, "little")}))


def test_sept_ve_disable_is_excepted_by_name_and_for_named_images_alone(platform: SimulatedPlatform) -> None:
    bare = attributes(platform, 0)
    assert refused(bare, SIMULATED).code == "appraisal.td_attributes"
    assert used(accepted(bare, SIMULATED + PARAVISOR)) == ["azure-paravisor"]
    other = PARAVISOR.replace("[session]", "[gateway]")
    assert refused(bare, SIMULATED + other).code == "appraisal.td_attributes"
    ended = PARAVISOR.replace("reason:", "until: 2026-05-01T00:00:00Z, reason:")
    assert refused(bare, SIMULATED + ended).code == "appraisal.exception_lapsed"


@pytest.mark.parametrize("bit", [0, 1, 4, 5, 6, 17, 29, 30, 31, 40, 63])
@pytest.mark.parametrize("rest", [0, SEPT_VE_DISABLE])
def test_the_exception_opens_no_other_bit(platform: SimulatedPlatform, bit: int, rest: int) -> None:
    refusal = refused(attributes(platform, 1 << bit | rest), SIMULATED + PARAVISOR)
    assert refusal.code in {"appraisal.debug", "appraisal.td_attributes"}


def test_no_list_of_values_opens_a_bit_that_nothing_can_except(platform: SimulatedPlatform) -> None:
    for bit in (0, 4, 17, 29, 40):
        value = (1 << bit | SEPT_VE_DISABLE).to_bytes(8, "little")
        text = SIMULATED + f'td_attributes: ["{value.hex()}"]\n'
        assert refused(attributes(platform, int.from_bytes(value, "little")), text)


def service_td(platform: SimulatedPlatform, mrservicetd: bytes) -> VerifiedQuote:
    return verify(platform, quote_of(platform, layout=QuoteLayout.V5_TD15, mrservicetd=mrservicetd))


def test_a_service_td_is_excepted_by_its_exact_measurement(platform: SimulatedPlatform) -> None:
    text = (
        SIMULATED
        + f"exceptions:\n  - {{name: service-td, images: [session], mrservicetd: {HEX48}, reason: r}}\n"
    )
    bound = service_td(platform, b"\x11" * 48)
    assert refused(bound, SIMULATED).code == "appraisal.service_td"
    assert used(accepted(bound, text)) == ["service-td"]
    assert refused(service_td(platform, b"\x11" * 47 + b"\x12"), text).code == "appraisal.service_td"
    assert used(accepted(service_td(platform, bytes(48)), text)) == []


# -- genuine quotes ------------------------------------------------------------------------------------------------


def genuine(vectors: Any, quote: str, collateral: str, now: int) -> tuple[Genuine, VerifiedQuote]:
    from tests.attestation.tdx.conftest import _genuine

    found = _genuine(vectors, quote, f"collateral/{collateral}.json", now)
    return found, verify_quote(found.quote, found.verified, now=found.now)


def test_azures_paravisor_is_a_warning_by_its_exception_and_its_grace(vectors: Any) -> None:
    _, azure = genuine(vectors, "azure_spr_v4", "00806f_2025-02", 1740714290)
    appraisal = accepted(azure, deployed(vectors))
    assert appraisal.tier is Tier.WARNING
    assert [image.name for image in appraisal.images] == ["azure-dcesv5"]
    assert used(appraisal) == ["azure-paravisor", "grace of OutOfDate"]
    assert appraisal.holds_until == datetime(2025, 3, 8, tzinfo=UTC)


def test_azures_paravisor_is_refused_without_either(vectors: Any) -> None:
    _, azure = genuine(vectors, "azure_spr_v4", "00806f_2025-02", 1740714290)
    assert refused(azure, deployed(vectors).replace("days: 360", "days: 300")).code == "appraisal.grace_over"
    other_image = deployed(vectors).replace("images: [azure-dcesv5]", "images: [bare-metal]")
    assert refused(azure, other_image).code == "appraisal.td_attributes"
    _, later = genuine(vectors, "azure_spr_v4", "00806f_2025-10", 1761920231)
    assert refused(later, deployed(vectors)).code == "appraisal.exception_lapsed"


def test_azure_by_named_status_and_advisories(vectors: Any) -> None:
    _, azure = genuine(vectors, "azure_spr_v4", "00806f_2025-02", 1740714290)
    text = deployed(vectors).replace("statuses: [UpToDate]", "statuses: [UpToDate, OutOfDate]")
    assert refused(azure, text).code == "appraisal.advisory"
    ids = sorted(azure.advisories)
    entries = "".join(f"    - {{id: {each}, reason: r, until: 2026-12-31T00:00:00Z}}\n" for each in ids)
    appraisal = accepted(azure, text.replace("  advisories:\n", "  advisories:\n" + entries))
    assert used(appraisal) == ["azure-paravisor", *ids]


def test_bare_metal_with_everything_asked_is_affirming(vectors: Any) -> None:
    found, verified = genuine(vectors, "phala_v5_td15ex", "b0c06f_2026-10", 1792714008)
    body = found.quote.body
    everything = Expectations(
        image="bare-metal",
        mrconfigid=body.mrconfigid,
        report_data=body.report_data,
        rtmr3=body.rtmrs[3],
    )
    assert accepted(verified, deployed(vectors), everything).tier is Tier.AFFIRMING
    assert accepted(verified, deployed(vectors)).tier is Tier.WARNING
    assert refused(verified, deployed(vectors).replace("minimum_evaluation: 17", "minimum_evaluation: 21"))


def test_a_genuine_service_td_of_a_level_below_all_is_refused_before_any_policy(vectors: Any) -> None:
    """The exception is for MRSERVICETD; nothing excepts a platform that reaches no TCB level."""
    from affiant.attestation.tdx.quote.errors import TCBUnsupported

    with pytest.raises(TCBUnsupported):
        genuine(vectors, "coco_v5_servicetd", "90c06f_2026-02-18", 1772707803)


def test_the_policies_on_a_genuine_service_td_by_themselves(vectors: Any) -> None:
    """Its platform does not verify with the collateral at hand, so its body is judged in another one's result."""
    from tests.attestation.tdx.conftest import _genuine

    _, good = genuine(vectors, "google_v5_emr", "90c06f_2026-02-18", 1772707803)
    alibaba = _genuine(vectors, "coco_v5_servicetd", "collateral/90c06f_2026-02-18.json", 1772707803)
    dressed = replace(good, quote=alibaba.quote)
    assert used(accepted(dressed, deployed(vectors))) == ["service-td"]
    found = alibaba.quote.body.mrservicetd
    assert found is not None
    other = deployed(vectors).replace(found.hex(), found[::-1].hex())
    assert refused(dressed, other).code == "appraisal.service_td"
