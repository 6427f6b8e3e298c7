"""A policy file means what it shows, limits what it leaves out, and is refused whole, at its place."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from affiant.attestation.encoding.strict_yaml import YAMLRefused
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI, EvidenceClass
from affiant.attestation.tdx.policy.policy_file import parse_appraisal_policy
from affiant.attestation.tdx.policy.settings import AppraisalPolicy, AttributeExceptionName, DemandedFlags
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.errors import AffiantError

EXAMPLES = Path(__file__).resolve().parents[4] / "docs" / "formats" / "appraisal"
SIMULATED = (EXAMPLES / "simulated.yaml").read_text()
HARDWARE = (EXAMPLES / "hardware.yaml").read_text()
HEX48 = "11" * 48


def deployed(vectors: Any) -> str:
    """The hardware example with measurements of genuine TDs in the place of the invented ones."""
    text = HARDWARE
    for image, quote in (
        ("bare-metal", "phala_v5_td15ex"),
        ("azure-dcesv5", "azure_spr_v4"),
        ("alibaba", "coco_v5_servicetd"),
    ):
        body = parse_quote(vectors.quote(quote)).body
        before, name, rest = text.partition(f"name: {image}")
        registers = {
            "mrtd": body.mrtd,
            "rtmr0": body.rtmrs[0],
            "rtmr1": body.rtmrs[1],
            "rtmr2": body.rtmrs[2],
        }
        if body.mrservicetd is not None and any(body.mrservicetd):
            registers["mrservicetd"] = body.mrservicetd
        for register, value in registers.items():
            rest = re.sub(rf"\b{register}: [0-9a-f]{{96}}", f"{register}: {value.hex()}", rest, count=1)
            assert value.hex() in rest
        text = before + name + rest
    return text


def parse(text: str) -> AppraisalPolicy:
    return parse_appraisal_policy(text.encode(), source="a.yaml")


def refused(text: str) -> AffiantError:
    with pytest.raises(AffiantError) as refusal:
        parse(text)
    assert re.match(r"a\.yaml:[0-9]+:[0-9]+\Z", str(refusal.value.where)), refusal.value
    return refusal.value


def test_what_is_left_out_has_its_strict_default() -> None:
    policy = parse(SIMULATED)
    assert policy.evidence_class is EvidenceClass.SIMULATED
    assert [entry.status for entry in policy.statuses] == [TCBStatus.UP_TO_DATE]
    assert [value.value.hex() for value in policy.td_attributes] == ["0000001000000000"]
    assert (policy.grace, policy.advisories, policy.exceptions) == ((), (), ())


def test_what_is_not_limited_was_written_so() -> None:
    policy = parse(SIMULATED.replace("xfam: [e702060000000000]", "xfam: any"))
    assert (policy.machines, policy.xfam, policy.mrseam) == (None, None, None)
    assert policy.flags.demands_nothing
    for name in ("xfam", "machines", "pck_flags", "images", "tcb", "class"):
        text = re.sub(rf"^{name}:.*\n((?: .*\n)*)", "", SIMULATED, flags=re.MULTILINE)
        refusal = refused(text)
        assert refusal.code == "appraisal_policy.key"
        assert name in str(refusal)


def test_the_hardware_example_reads_as_documented() -> None:
    policy = parse(HARDWARE)
    assert policy.evidence_class is EvidenceClass.HARDWARE
    assert [root.digest for root in policy.roots] == [hashlib.sha256(INTEL_SGX_ROOT_CA_SPKI).digest()]
    assert policy.image_names == ("bare-metal", "azure-dcesv5", "alibaba")
    assert policy.images[1].shapes == ("dc2es-v5", "dc4es-v5")
    assert policy.images[0].valid_from == datetime(2026, 10, 1, tzinfo=UTC)
    assert (policy.grace[0].status, policy.grace[0].days) == (TCBStatus.OUT_OF_DATE, 360)
    assert policy.exceptions[0].name is AttributeExceptionName.AZURE_PARAVISOR
    assert policy.exceptions[1].mrservicetd is not None
    assert policy.flags == DemandedFlags(dynamic_platform=True, cached_keys=None, smt=None)
    assert policy.digest == "sha256:" + hashlib.sha256(HARDWARE.encode()).hexdigest()


def test_an_entry_counts_from_its_beginning_until_its_end_and_before_its_revocation() -> None:
    text = HARDWARE.replace(
        "statuses: [UpToDate]",
        "statuses:\n    - value: UpToDate\n      from: 2026-01-01T00:00:00Z\n      until: 2026-03-01T00:00:00Z\n"
        "      revoked_at: 2026-02-01T00:00:00Z",
    )
    entry = parse(text).statuses[0]
    counts = {
        datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC): "begins at",
        datetime(2026, 1, 1, tzinfo=UTC): None,
        datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC): None,
        datetime(2026, 2, 1, tzinfo=UTC): "revoked at",
        datetime(2026, 3, 1, tzinfo=UTC): "revoked at",
    }
    for at, lapse in counts.items():
        assert (entry.lapse(at) or "").startswith(lapse or "")
        assert entry.counts_at(at) == (lapse is None)
    assert entry.end == datetime(2026, 2, 1, tzinfo=UTC)


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    refusal = refused(SIMULATED.replace("machines:", "machine:"))
    assert refusal.code == "appraisal_policy.key"
    assert (refusal.where, refusal.hint) == ("a.yaml:22:1", "Did you mean 'machines'?")
    refusal = refused(SIMULATED + "tcb_status: x\n")
    assert refusal.where == "a.yaml:24:1"


@pytest.mark.parametrize(
    ("old", "new", "code", "says"),
    [
        ("typ: affiant-appraisal/1", "typ: affiant-appraisal/2", "appraisal_policy.value", "another form"),
        ("class: simulated", "class: Simulated", "appraisal_policy.value", "Did you mean 'simulated'?"),
        ("class: simulated", "class: hardware", "appraisal_policy.value", "Intel's root alone"),
        ("shapes: [2cpu-4gb]", "shapes: []", "appraisal_policy.empty", "empty list"),
        ("shapes: [2cpu-4gb]", "shapes: 2cpu-4gb", "appraisal_policy.value", "not a list"),
        ("shapes: [2cpu-4gb]", "shapes: [a, a]", "appraisal_policy.value", "stands twice"),
        ("shapes: [2cpu-4gb]", "shapes: [a b]", "appraisal_policy.value", "not a name"),
        ("name: gateway", "name: ''", "appraisal_policy.value", "not a text"),
        ("minimum_evaluation: 1", "minimum_evaluation: '1'", "appraisal_policy.value", "not such a number"),
        ("minimum_evaluation: 1", "minimum_evaluation: 0x1", "appraisal_policy.value", "not such a number"),
        ("minimum_evaluation: 1", "minimum_evaluation: -1", "appraisal_policy.value", "not such a number"),
        ("minimum_evaluation: 1", "minimum: 1", "appraisal_policy.key", "minimum_evaluation"),
        (
            "minimum_evaluation: 1",
            "minimum_evaluation: 1\n  statuses: []",
            "appraisal_policy.empty",
            "empty list",
        ),
        (
            "minimum_evaluation: 1",
            "minimum_evaluation: 1\n  statuses: [Revoked]",
            "appraisal_policy.value",
            "never",
        ),
        (
            "minimum_evaluation: 1",
            "minimum_evaluation: 1\n  statuses: [uptodate]",
            "appraisal_policy.value",
            "Did you mean 'UpToDate'?",
        ),
        ("xfam: [e702060000000000]", "xfam: []", "appraisal_policy.empty", "empty list"),
        ("xfam: [e702060000000000]", "xfam: [E702060000000000]", "appraisal_policy.value", "lower-case"),
        ("xfam: [e702060000000000]", "xfam: [e7]", "appraisal_policy.value", "16 digits"),
        ("xfam: [e702060000000000]", "xfam: all", "appraisal_policy.value", "expected any"),
        ("machines: any", "machines: []", "appraisal_policy.empty", "empty list"),
        ("machines: any", "machines: [{}]", "appraisal_policy.key", "names no machine"),
        ("machines: any", "machines: [{fmspc: 00}]", "appraisal_policy.value", "12 digits"),
        ("pck_flags: any", "pck_flags: {smt: true}", "appraisal_policy.key", "dynamic_platform"),
        (
            "pck_flags: any",
            "pck_flags: {smt: 1, cached_keys: any, dynamic_platform: any}",
            "appraisal_policy.value",
            "smt",
        ),
        ("machines: any", "machines: any\nmrseam: []", "appraisal_policy.empty", "empty list"),
        ("machines: any", "machines: any\nroots2: []", "appraisal_policy.key", "Did you mean 'roots'?"),
    ],
)
def test_what_is_of_another_form_is_refused_at_its_place(old: str, new: str, code: str, says: str) -> None:
    assert old in SIMULATED
    refusal = refused(SIMULATED.replace(old, new, 1))
    assert refusal.code == code, refusal
    assert says in str(refusal)


GRACE = "  grace:\n    - {status: OutOfDate, days: 14, reason: r}\n"
ADVISORY = "  advisories:\n    - {id: INTEL-SA-00837, until: 2027-01-01T00:00:00Z, reason: r}\n"
PARAVISOR = "exceptions:\n  - {name: azure-paravisor, images: [session], reason: r}\n"
SERVICE_TD = f"exceptions:\n  - {{name: service-td, images: [session], mrservicetd: {HEX48}, reason: r}}\n"


def with_tcb(text: str) -> str:
    return SIMULATED.replace("xfam:", text + "xfam:")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (with_tcb(GRACE.replace("14", "0")), "1 to 365"),
        (with_tcb(GRACE.replace("14", "366")), "1 to 365"),
        (with_tcb(GRACE.replace("status: OutOfDate", "status: UpToDate")), "not a known word"),
        (with_tcb(GRACE.replace("status: OutOfDate", "status: ConfigurationNeeded")), "not a known word"),
        (with_tcb(GRACE.replace(", reason: r", "")), "'reason' is missing"),
        (with_tcb(ADVISORY.replace(", until: 2027-01-01T00:00:00Z", "")), "'until' is missing"),
        (with_tcb(ADVISORY.replace(", reason: r", "")), "'reason' is missing"),
        (with_tcb(ADVISORY.replace(", reason: r", ", reason: ''")), "not a text"),
        (with_tcb(ADVISORY.replace("INTEL-SA-00837", "INTEL-SA-*")), "not an advisory"),
        (with_tcb(ADVISORY.replace("2027-01-01T00:00:00Z", "2027-01-01")), "not a timestamp"),
        (
            with_tcb(ADVISORY.replace("reason: r", "reason: r, from: 2028-01-01T00:00:00Z")),
            "before it begins",
        ),
        (
            SIMULATED + PARAVISOR.replace("azure-paravisor", "azure-paravizor"),
            "Did you mean 'azure-paravisor'?",
        ),
        (SIMULATED + PARAVISOR.replace("[session]", "[sesion]"), "Did you mean 'session'?"),
        (SIMULATED + PARAVISOR.replace("images: [session], ", ""), "'images' is missing"),
        (SIMULATED + PARAVISOR.replace("reason: r", f"mrservicetd: {HEX48}, reason: r"), "unknown key"),
        (SIMULATED + SERVICE_TD.replace(f"mrservicetd: {HEX48}, ", ""), "'mrservicetd' is missing"),
        (SIMULATED + SERVICE_TD.replace(HEX48, "00" * 48), "no service TD is bound"),
        (re.sub(r"^roots:\n.*\n", "", SIMULATED, flags=re.MULTILINE), "has to be named"),
        (re.sub(r"sha256:[0-9a-f]{64}", "intel", SIMULATED), "no simulated one"),
    ],
)
def test_entries_say_everything_that_a_reviewer_needs(text: str, says: str) -> None:
    assert says in str(refused(text))


def test_the_entries_that_are_refused_above_are_accepted_when_whole() -> None:
    for text in (with_tcb(GRACE), with_tcb(ADVISORY), SIMULATED + PARAVISOR, SIMULATED + SERVICE_TD):
        parse(text)


def test_one_image_may_have_an_entry_for_each_shape_and_each_measurement_stands_once() -> None:
    assert parse(SIMULATED.replace("name: gateway", "name: session")).image_names == ("session",)
    first = SIMULATED[SIMULATED.index("  - name: session") : SIMULATED.index("  - name: gateway")]
    assert "stands twice" in str(refused(SIMULATED.replace("  - name: gateway", first + "  - name: gateway")))


def test_a_key_twice_and_an_anchor_are_refused_before_anything_is_read() -> None:
    assert "stands twice" in str(refused(SIMULATED + "machines: any\n"))
    assert "an anchor" in str(refused(SIMULATED.replace("xfam: [", "xfam: &x [")))


@pytest.mark.parametrize("data", [b"", b"# nothing\n"])
def test_a_file_that_says_nothing_is_refused(data: bytes) -> None:
    with pytest.raises(YAMLRefused, match="says nothing"):
        parse_appraisal_policy(data, source="p.yaml")
