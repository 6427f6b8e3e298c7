"""``bundle.objects``: what records and documents name by digest is in the bundle; else nothing is judged (30)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.attestation.story import NOW, PLATFORM, POLICY, Story
from tests.attestation.vector_bundles import vector_bundle
from tests.attestation.vectors.test_vectors import CASES, judged
from tests.attestation.verifier.test_verify_bundle import at, judge, row

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest, parse_bundle
from affiant.attestation.encoding.binary_text import b64u_sha256, from_b64u, sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.records.receipt import parse_receipt
from affiant.attestation.statements.evidence import wrap_endorsements
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.verdict.outcome import Outcome, Platform
from affiant.attestation.verdict.verdict import State, Tier, Verdict

Lacking = Callable[[Bundle], Bundle]


def without_policy(raw: bytes) -> Lacking:
    def change(bundle: Bundle) -> Bundle:
        left = {name: data for name, data in bundle.policies.items() if data != raw}
        return replace(bundle, policies=left)

    return change


def without_keyset_of(role: str) -> Lacking:
    """Without the keyset, and without the records that only it could prove authentic."""

    def change(bundle: Bundle) -> Bundle:
        left = {name: raw for name, raw in bundle.keysets.items() if f'"role":"{role}"'.encode() not in raw}
        receipts = tuple(text for text in bundle.receipts if f'"{role}"' not in _payload_of(text))
        return replace(bundle, keysets=left, receipts=receipts)

    return change


def _payload_of(text: str) -> str:
    return from_b64u(text.split(".")[1]).decode().partition('"role":')[2][:12]


def replaced_profile(bundle: Bundle) -> Bundle:
    other = canonical({"semantics": "affiant.policy/1", "tools": ["anything"]})
    kept = [raw for raw in bundle.policies.values() if raw != POLICY]
    return replace(bundle, policies=objects_by_digest([*kept, other]))


LACKING: dict[str, Lacking] = {
    "evidence": lambda bundle: replace(bundle, evidence={}),
    "endorsements": lambda bundle: replace(bundle, endorsements={}),
    "attestation result": lambda bundle: replace(bundle, results={}),
    "profile": without_policy(POLICY),
    "gateway's configuration": lambda bundle: replace(bundle, policies={sha256_name(POLICY): POLICY}),
    "keyset": without_keyset_of("session"),
}


def lacking(what: str) -> Verdict:
    return judge(LACKING[what](Story().bundle()).to_bytes())


def test_a_whole_bundle_has_every_object_that_it_names() -> None:
    verdict = judge(Story().bytes())
    assert row(verdict, "bundle.objects").state is State.HELD
    assert (verdict.exit_code, verdict.platform) == (40, Platform.SIMULATED)
    assert verdict.outcome is Outcome.IN_PART  # /usr of the host, no witnesses


@pytest.mark.parametrize("what", LACKING)
def test_a_simulated_bundle_without_an_object_that_it_names_cannot_be_judged(what: str) -> None:
    verdict = lacking(what)
    found = row(verdict, "bundle.objects")
    assert (found.state, found.tier) == (State.NOT_MADE, Tier.NONE)
    assert what in found.detail
    assert verdict.outcome is Outcome.UNJUDGED
    assert (verdict.exit_code, verdict.platform) == (30, Platform.SIMULATED)


def rests_on_other_collateral() -> tuple[Bundle, bytes]:
    """A bundle whose result rests on other collateral than the gateway's boot record names; and that collateral."""
    other = wrap_endorsements(PLATFORM.collateral(NOW + timedelta(minutes=1)).to_bytes())
    bundle = Story(alter=at("ear", col=b64u_sha256(other))).bundle()
    return bundle, other


def test_the_collateral_that_a_result_rests_on_is_an_object_of_the_bundle() -> None:
    bundle, other = rests_on_other_collateral()
    found = row(judge(bundle.to_bytes()), "bundle.objects")
    assert (found.state, "endorsements" in found.detail) == (State.NOT_MADE, True)
    whole = replace(bundle, endorsements={**bundle.endorsements, sha256_name(other): other})
    assert row(judge(whole.to_bytes()), "bundle.objects").state is State.HELD


def test_a_bundle_whose_profile_was_replaced_cannot_be_judged() -> None:
    verdict = judge(replaced_profile(Story().bundle()).to_bytes())
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNJUDGED, 30)


@pytest.mark.parametrize("what", ["evidence", "collateral", "documents", "profile", "keysets"])
def test_the_published_bundles_that_lack_objects_cannot_be_judged(what: str) -> None:
    verdict = judged(CASES[f"bundle/{what}-missing"])
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNJUDGED, 30)


def test_what_is_refused_stays_refused_whatever_is_missing() -> None:
    bundle = Story(gateway_report_data=lambda raw: bytes(64)).bundle()
    verdict = judge(replace(bundle, endorsements={}).to_bytes())
    assert row(verdict, "bundle.objects").state is State.NOT_MADE
    assert (verdict.outcome, verdict.exit_code) == (Outcome.REJECTED, 20)


def test_a_reader_may_switch_the_row_off_and_the_verdict_says_so() -> None:
    bundle = replace(Story().bundle(), endorsements={})
    verdict = judge(bundle.to_bytes(), changes={"require": ["sig.receipts"]})
    assert row(verdict, "bundle.objects").required is False
    assert verdict.exit_code == 40


def test_objects_of_sessions_beside_the_one_that_is_judged_are_not_demanded() -> None:
    """A session's bundle holds its neighbours' records of the gateway's chain, and none of their objects."""
    both = parse_bundle(vector_bundle("valid/two-sessions"))
    one = judge_vector(both.to_bytes())
    assert row(one, "bundle.objects").state is State.HELD
    first, second = sorted(name for name, raw in both.keysets.items() if b'"role":"session"' in raw)
    keysets = {name: raw for name, raw in both.keysets.items() if name != second}
    receipts = tuple(text for text in both.receipts if not _signed_under(text, both.keysets[second]))
    alone = judge_vector(replace(both, keysets=keysets, receipts=receipts).to_bytes())
    assert row(alone, "bundle.objects").state is State.HELD
    assert alone.population.foreign == 1


def judge_vector(data: bytes) -> Verdict:
    return judged(CASES["valid/two-sessions"], data)


def _signed_under(text: str, keyset: bytes) -> bool:
    return parse_receipt(text).split.kid == parse_statement(keyset).receipt_kid
