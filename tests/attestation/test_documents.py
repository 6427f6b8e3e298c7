"""Evidence, results, openings, configuration, bundles, chains, trees: each closed, each refusing the rest."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.story import NOW, Story, link, reference_bytes, trust_bytes

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding import jws, merkle
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.records.session_summary import session_root
from affiant.attestation.schema import records
from affiant.attestation.schema.records_page import record_page
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.attestation.statements.ear import issue_ear, verify_ear
from affiant.attestation.statements.evidence import (
    Admission,
    parse_admission,
    parse_endorsements,
    parse_evidence,
    wrap_admission,
    wrap_endorsements,
)
from affiant.attestation.statements.gateway_config import (
    local_gateway_config,
    local_log_origin,
    parse_gateway_config,
)
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.verdict.trust_file import parse_instant, parse_trust_file
from affiant.errors import AffiantError

ROOT = Path(__file__).resolve().parents[2]
STORY = Story().tell()


# -- evidence --------------------------------------------------------------------------------------------------


def test_evidence_comes_back_as_the_exact_bytes() -> None:
    evidence = parse_evidence(STORY.session_evidence)
    assert evidence.statement == STORY.session_statement.raw
    assert evidence.manifest == STORY.manifest.raw
    assert parse_evidence(STORY.gateway_evidence).manifest is None


def test_admission_and_endorsements_come_back() -> None:
    admission = Admission(STORY.session_evidence, b"policy")
    assert parse_admission(wrap_admission(admission)) == admission
    assert parse_endorsements(wrap_endorsements(b"collateral")) == b"collateral"


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("quote"),
        lambda d: d.pop("manifest"),
        lambda d: d.update(extra=["x", "", 4]),
        lambda d: d["quote"].__setitem__(0, "application/json"),
        lambda d: d["quote"].__setitem__(2, 2),
        lambda d: d["quote"].__setitem__(1, "AB"),
        lambda d: d["quote"].append(1),
        lambda d: d.update(__cmwc_t="tag:other"),
        lambda d: d.update(__cmwc_t=["tag:affiant.dev,2026:evidence/1"]),
        lambda d: d.update(quote=7),
        lambda d: d.update(quote="abc"),
        lambda d: d.update(quote=dict(enumerate_texts(d["quote"]))),
        lambda d: d["quote"].__setitem__(1, 7),
        lambda d: d["quote"].__setitem__(1, None),
        lambda d: d["quote"].__setitem__(1, [d["quote"][1]]),
        lambda d: d["quote"].__setitem__(2, "4"),
        lambda d: d["quote"].__setitem__(2, True),
    ],
)
def test_another_collection_is_refused(change: object) -> None:
    document = json.loads(STORY.session_evidence)
    change(document)
    with pytest.raises(AffiantError) as caught:
        parse_evidence(canonical(document))
    assert caught.value.code in ("fmt.cmw", "fmt.encoding")


def enumerate_texts(items: list[object]) -> list[tuple[str, object]]:
    return [(str(index), item) for index, item in enumerate(items)]


@pytest.mark.parametrize("value", [[], ["__cmwc_t"], "tag:affiant.dev,2026:evidence/1", 7, None, True])
def test_what_is_no_object_is_no_collection(value: object) -> None:
    for parse in (parse_evidence, parse_endorsements, parse_admission):
        with pytest.raises(AffiantError) as caught:
            parse(canonical(value))
        assert caught.value.code == "fmt.cmw"


# -- results and openings --------------------------------------------------------------------------------------


def test_a_result_under_another_key_is_refused() -> None:
    assert verify_ear(STORY.ear, STORY.ear_signer.public_key).tier == "none"
    with pytest.raises(AffiantError):
        verify_ear(STORY.ear, STORY.gateway_signer.public_key)


RESULT = json.loads(from_b64u(STORY.ear.split(".")[1]))
ABOUT = RESULT["submods"]["session"]


@pytest.mark.parametrize(
    "change",
    [
        {"submods": {}},
        {"submods": {"session": ABOUT, "gateway": ABOUT}},
        {"submods": [ABOUT]},
        {"submods": {"broker": ABOUT}},
        {"submods": {"session": {**ABOUT, "ear_status": "great"}}},
        {"submods": {"session": {**ABOUT, "ear.status": "none"}}},
        {"submods": {"session": {**ABOUT, "more": 1}}},
        {"submods": {"session": {**ABOUT, "eat_profile": "tag:affiant.dev,2026:ear/1"}}},
        {"submods": {"session": {**ABOUT, "ear_trustworthiness_vector": {}}}},
        {"submods": {"session": {**ABOUT, "ear_trustworthiness_vector": {"luck": 2}}}},
        {"submods": {"session": {**ABOUT, "ear_appraisal_policy_ids": []}}},
        {"submods": {"session": {**ABOUT, "affiant.dev/appraisal": {}}}},
        {"eat_profile": "tag:affiant.dev,2026:ear/1"},
        {"eat_profile": "tag:affiant.dev,2026:ear/2"},
        {"eat_profile": "tag:ietf.org,2026:rats/ear#03"},
        {"more": 1},
    ],
)
def test_a_result_of_another_form_is_refused_though_signed(change: dict[str, object]) -> None:
    text = jws.sign(STORY.ear_signer, {**RESULT, **change}, typ="affiant-ear+jwt")
    with pytest.raises(ShapeMismatch):
        verify_ear(text, STORY.ear_signer.public_key)


def test_a_result_has_the_names_of_the_draft_and_one_declared_extension() -> None:
    assert RESULT["eat_profile"] == "tag:ietf.org,2026:rats/ear#04"
    assert RESULT.keys() == {"eat_profile", "iss", "iat", "ear_verifier_id", "submods"}
    assert ABOUT["eat_profile"] == "tag:affiant.dev,2026:ear/2"
    assert ABOUT["ear_status"] == "none"
    assert isinstance(ABOUT["affiant.dev/appraisal"], dict)
    assert not [name for name in ABOUT if name.startswith("ear.")]


def before(result: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """The result in the form that was written before the draft's names."""
    said = {
        "ear.status": about["ear_status"],
        "ear.trustworthiness-vector": about["ear_trustworthiness_vector"],
        "ear.appraisal-policy-id": about["ear_appraisal_policy_ids"][0],
        **{f"affiant.{name}": value for name, value in about["affiant.dev/appraisal"].items()},
    }
    return {
        "eat_profile": "tag:affiant.dev,2026:ear/1",
        **{name: result[name] for name in ("iss", "iat")},
        "ear.verifier-id": result["ear_verifier_id"],
        "submods": {"session": said},
    }


def test_a_result_of_an_earlier_release_says_the_same() -> None:
    text = jws.sign(STORY.ear_signer, before(RESULT, ABOUT), typ="affiant-ear+jwt")
    key = STORY.ear_signer.public_key
    assert verify_ear(text, key) == verify_ear(STORY.ear, key)


def test_a_result_of_two_forms_is_refused() -> None:
    """Else two readers could take two statuses from one signed text."""
    earlier = before(RESULT, ABOUT)
    for mixed in (
        earlier | {"eat_profile": RESULT["eat_profile"]},
        RESULT | {"ear.verifier-id": earlier["ear.verifier-id"]},
        RESULT | {"submods": {"session": {**ABOUT, **earlier["submods"]["session"]}}},
        earlier | {"submods": RESULT["submods"]},
    ):
        text = jws.sign(STORY.ear_signer, mixed, typ="affiant-ear+jwt")
        with pytest.raises(ShapeMismatch):
            verify_ear(text, STORY.ear_signer.public_key)


@pytest.mark.parametrize(
    "change",
    [
        {"tier": "great"},
        {"peer": "broker"},
        {"evd": "short"},
        {"cls": "soft"},
        {"vector": {}},
        {"vector": {"luck": 2}},
    ],
)
def test_no_result_of_another_form_is_issued(change: dict[str, str]) -> None:
    members = {
        "iss": "urn:gateway",
        "build": "build",
        "peer": "session",
        "tier": "none",
        "vector": {"hardware": 0},
        "policy": "sha256:" + "0" * 64,
        "evd": link("evd"),
        "col": link("col"),
        "cls": "simulated",
        "tcb_status": "UpToDate",
        "until": NOW,
        "now": NOW,
    }
    assert verify_ear(issue_ear(STORY.ear_signer, **members), STORY.ear_signer.public_key).peer == "session"
    with pytest.raises(ShapeMismatch):
        issue_ear(STORY.ear_signer, **(members | change))


# -- gateway configuration -------------------------------------------------------------------------------------


def test_the_local_configuration_is_the_same_bytes_each_time() -> None:
    reference = parse_reference_values(reference_bytes())
    made = local_gateway_config(reference)
    assert made.raw == local_gateway_config(reference).raw
    assert made.mrconfigid == hashlib.sha384(made.raw).digest()


def test_the_log_of_a_development_machine_is_named_after_its_platform() -> None:
    one, other = local_log_origin(["sha256:" + "0" * 64]), local_log_origin(["sha256:" + "1" * 64])
    assert one != other
    assert one.endswith(".affiant.invalid")


@pytest.mark.parametrize(
    "change",
    [{"upstreams": []}, {"origin": None}, {"origin": "a b"}, {"extra": 1}, {"cls": "x"}, {"epoch_s": 0}],
)
def test_another_configuration_is_refused(change: dict[str, object]) -> None:
    document = json.loads(local_gateway_config(parse_reference_values(reference_bytes())).raw)
    with pytest.raises(ShapeMismatch):
        parse_gateway_config(canonical({**document, **change}))


# -- bundles ---------------------------------------------------------------------------------------------------


def test_a_bundle_comes_back_and_its_bytes_are_reproducible() -> None:
    bundle = STORY.bundle()
    assert parse_bundle(bundle.to_bytes()) == bundle
    assert parse_bundle(bundle.to_bytes()).to_bytes() == bundle.to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(typ="other"),
        lambda d: d.update(trust={}),
        lambda d: d.pop("anchors"),
        lambda d: d.update(receipts=[]),
        lambda d: d.update(receipts=7),
        lambda d: d.update(receipts={"sdjwt": "x", "proof": None}),
        lambda d: d["receipts"].append(7),
        lambda d: d["receipts"].append(["sdjwt", "proof"]),
        lambda d: d["receipts"][0].update(sdjwt=7),
        lambda d: d["receipts"][0].update(sdjwt=None),
        lambda d: d["receipts"][0].update(proof=7),
        lambda d: d["receipts"][0].update(more=1),
        lambda d: d["keysets"].update({"sha256:" + "0" * 64: "AA"}),
        lambda d: d["keysets"].update({"../x": "AA"}),
        lambda d: d["evidence"].update({next(iter(d["evidence"])): "A"}),
        lambda d: d["evidence"].update({next(iter(d["evidence"])): 7}),
        lambda d: d["evidence"].update({next(iter(d["evidence"])): ["AA"]}),
        lambda d: d["checkpoints"].update({"1": "x"}),
        lambda d: d.update(policies=[]),
    ],
)
def test_a_bundle_of_another_form_is_refused(change: object) -> None:
    document = json.loads(STORY.bytes())
    change(document)
    with pytest.raises(AffiantError) as caught:
        parse_bundle(json.dumps(document).encode())
    assert caught.value.code == "bundle.malformed"


@pytest.mark.parametrize("data", [b"[]", b'["typ"]', b'"x"', b"7", b"null", b"true", b"{}"])
def test_what_is_no_object_of_the_type_is_no_bundle(data: bytes) -> None:
    with pytest.raises(AffiantError) as caught:
        parse_bundle(data)
    assert caught.value.code == "bundle.malformed"


# -- trust files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"typ": "affiant-trust/2"},
        {"tee_roots": []},
        {"tee_roots": ...},
        {"reference_values": []},
        {"reference_values": ...},
        {"profiles": []},
        {"require": []},
        {"require": ["no.such.check"]},
        {"log": {"origin": "x"}},
        {"log": [{"value": "anybody"}]},
        {"log": [{"value": 7}]},
        {"log": []},
        {"witnesses": ["x"]},
        {"unheard": 1},
        {"tee_roots": [{"value": "sha256:xx"}]},
        {"tee_roots": [{"value": "intel", "form": "2026-01-01T00:00:00Z"}]},
        {"tee_roots": [{"value": "intel", "from": "2026-01-01"}]},
        {"profiles": [{"value": 5}]},
        {"isolation_floor": "none"},
        {"clock_tolerance_s": -1},
        {"clock_tolerance_s": True},
    ],
)
def test_a_trust_file_of_another_form_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(AffiantError):
        parse_trust_file(trust_bytes(**changes))


@pytest.mark.parametrize(
    "text",
    [
        "2026-1-1T3:0:0Z",
        "2026-11-21T03:00:00z",
        "2026-11-21T03:00:00+00:00",
        "2026-11-31T03:00:00Z",
        "202\u0666-11-21T03:00:00Z",
    ],
)
def test_an_instant_has_one_spelling(text: str) -> None:
    with pytest.raises(AffiantError) as refused:
        parse_instant(text)
    assert refused.value.code == "trust.malformed"


def test_no_root_left_at_an_instant_refuses() -> None:
    roots = json.loads(trust_bytes())["tee_roots"]
    trust = parse_trust_file(trust_bytes(tee_roots=[{**roots[0], "until": "2026-11-21T12:00:00Z"}]))
    assert TrustRoots.named(trust.root_names_at(NOW - timedelta(seconds=1)))
    with pytest.raises(AffiantError):
        TrustRoots.named(trust.root_names_at(NOW))


# -- trees -----------------------------------------------------------------------------------------------------


def reference_root(leaves: list[bytes]) -> bytes:
    """RFC 9162, section 2.1.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + reference_root(leaves[:k]) + reference_root(leaves[k:])).digest()


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_the_root_is_that_of_the_rfc(leaves: list[bytes]) -> None:
    assert merkle.root(leaves) == reference_root(leaves)


def test_a_leaf_is_never_a_node() -> None:
    left, right = merkle.leaf_hash(b"a"), merkle.leaf_hash(b"b")
    assert merkle.root([b"a", b"b"]) != merkle.root([left + right])


def test_a_sessions_root_is_over_its_numbers_not_its_arrival() -> None:
    hashes = {i: b64u(os.urandom(32)) for i in range(5)}
    assert session_root(hashes) == session_root(dict(reversed(hashes.items())))
    assert session_root(hashes) != session_root({**hashes, 0: hashes[1], 1: hashes[0]})


# -- the published table ---------------------------------------------------------------------------------------


def test_the_published_table_is_the_code() -> None:
    assert (ROOT / "docs/formats/records.md").read_text() == record_page()


def test_leaf_codes_are_unique_and_never_change() -> None:
    assert [row.leaf for row in records.KINDS.values()] == list(range(1, 22))


def test_the_published_examples_are_what_the_code_makes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "format_examples.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
