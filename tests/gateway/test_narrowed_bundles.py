"""Bundles of sessions that were narrowed, as a gateway gives them out: `affiant verify` refuses nothing in them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.gateway.narrowing_client import NARROW, NARROWEST, WIDE, NarrowingClient
from tests.gateway.session_client import Gateway

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import parse_gateway_config
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.policy.loading.load import load_profiles

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def client(gateway: Gateway, platform: PlatformClient) -> Iterator[NarrowingClient]:
    with NarrowingClient.admitted_by(gateway, platform) as made:
        yield made


def trust_for(raw: bytes, profile: str, now: datetime) -> bytes:
    """A trust file that accepts what the bundle's gateway was set up with, and one profile."""
    bundle = parse_bundle(raw)
    keyset = next(each for each in map(parse_statement, bundle.keysets.values()) if each.role == "gateway")
    config = parse_gateway_config(bundle.policies[str(keyset.policy)])
    trust = simulated_trust_file(bundle.policies[config.reference], now, gateway_configs=[config.digest])
    return json.dumps({**json.loads(trust), "profiles": [{"value": profile}]}).encode()


def judged(client: NarrowingClient, profile: bytes = WIDE) -> Verdict:
    """The session's bundle under a trust file that accepts the profile of its start, and no other."""
    raw, now = json.dumps(client.bundle()["bundle"]).encode(), datetime.now(UTC)
    trust = trust_for(raw, load_profiles(profile).profile("tester").digest, now)
    return verify_bundle(raw, parse_trust_file(trust), verifiers=STANDARD_VERIFIERS, at=now, build="a test")


def row(verdict: Verdict, code: str) -> Check:
    return next(check for check in verdict.checks if check.code == code)


def refused(verdict: Verdict) -> dict[str, str]:
    return {check.code: check.detail for check in verdict.checks if check.state is State.REFUSED}


def test_a_session_narrowed_twice_is_judged_whole(client: NarrowingClient) -> None:
    assert client.say("hello").status == 200
    client.narrowed(NARROW)
    assert client.say("hello").status == 200
    client.narrowed(NARROWEST)
    assert client.say("hello").code == "model.not_allowed"
    assert client.submit(client.end_record()).status == 200
    assert client.close().status == 200
    verdict = judged(client)
    assert refused(verdict) == {}
    for code in (
        "kinds.judged",
        "key.evidence",
        "key.bound",
        "pol.bound",
        "tee.appraisal",
        "peer.bound",
        "peer.ear",
    ):
        assert row(verdict, code).state is State.HELD, code
    assert row(verdict, "pol.accepted").tier is Tier.AFFIRMING
    assert "restricted 2 times since" in row(verdict, "pol.accepted").detail
    assert refused(judged(client, NARROW)).keys() == {"pol.accepted"}


def test_the_second_verifier_refuses_nothing_either(client: NarrowingClient, tmp_path: Path) -> None:
    client.narrowed(NARROW)
    assert client.say("hello").status == 200
    assert client.submit(client.end_record()).status == 200
    assert client.close().status == 200
    if (node := shutil.which("node")) is None:
        pytest.skip("no node: the other verifier is not asked")
    bundle, trust = tmp_path / "bundle.json", tmp_path / "trust.json"
    bundle.write_text(json.dumps(client.bundle()["bundle"]))
    accepted = load_profiles(WIDE).profile("tester").digest
    trust.write_bytes(trust_for(bundle.read_bytes(), accepted, datetime.now(UTC)))
    command = [
        node,
        str(ROOT / "attestation/verifier-js/verify.mjs"),
        str(bundle),
        "--trust",
        str(trust),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    told = {check["code"]: check for check in json.loads(done.stdout)["checks"]}
    assert [check for check in told.values() if check["state"] == "refused"] == []
    assert "restricted once" in told["pol.bound"]["detail"]


def test_a_session_that_is_still_open_is_judged_between_its_narrowings(client: NarrowingClient) -> None:
    client.narrowed(NARROW)
    verdict = judged(client)
    assert refused(verdict) == {}
    assert "restricted once" in row(verdict, "pol.bound").detail


def test_a_supervisor_that_never_heard_of_its_narrowing_is_no_forger(client: NarrowingClient) -> None:
    """The gateway's answer is lost, and the supervisor ends the session: its chain names the evidence of before."""
    assert client.say("hello").status == 200
    assert client.narrow(NARROW).status == 200
    assert client.submit(client.end_record()).status == 200
    assert client.close("policy").status == 200
    verdict = judged(client)
    assert refused(verdict) == {}
    found = row(verdict, "pol.bound")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert "did not come to record" in found.detail
