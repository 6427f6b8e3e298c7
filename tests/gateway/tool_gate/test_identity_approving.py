"""A call at the tool gate that an identity approves: made once, and accepted by a verifier under the profile's root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.attestation.approving.signing_identity import SigningIdentity, root_of
from tests.gateway.approvals.test_by_identity import ByIdentity
from tests.gateway.in_process import InProcess
from tests.gateway.session_client import SessionClient
from tests.gateway.test_bundles import with_openings
from tests.gateway.tool_gate.conftest import Agent
from tests.gateway.tool_gate.test_approving import PLACES, TOOLS, Place
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding import sha256_name
from affiant.attestation.simulated.client import PlatformClient
from affiant.attestation.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verifier.verdict import State
from affiant.attestation.verifier.verify_bundle import verify_bundle


@pytest.fixture(scope="module")
def place(gated: InProcess, platform: PlatformClient) -> Iterator[Place]:
    with ThreadPoolExecutor(2) as pool:
        yield Place(gated, platform, pool)


def test_a_call_that_an_identity_approved_is_made_once_and_verifies(place: Place) -> None:
    identity, key = SigningIdentity(Authority()), X25519PrivateKey.generate()
    root = json.dumps(root_of(identity.authority).decode())
    who = f"{place.ann.kid}, {{issuer: '{identity.issuer}', subject: '{identity.subject}'}}"
    profile = (
        f"agent_configs:\n  tester:\n    tools:{TOOLS}    {PLACES}\n"
        f"    requires_human_approval: {{approvers: [{who}], quorum: 2, trusted_root: {root}}}\n"
    )
    agent = Agent(SessionClient.start(place.gateway, place.platform, profile=profile.encode(), openings=key))
    answer = place.during(agent.text, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    bob = ByIdentity(place.gateway, identity=identity)
    assert bob.introduce().status == 200
    statement = bob.says(action)
    assert place.ann.decide(action).json()["state"] == "pending"
    assert bob.hand_over(action, statement).json()["state"] == "approved"
    assert answer.result(10) == "3"
    *_, approval, intent, _ = agent.records()
    assert (approval["kind"], intent["apr"]) == ("approval", approval["apr"])
    assert (intent["apr"]["kid"], intent["apr"]["sig"]) == (identity.name, sha256_name(statement.encode()))
    agent.session.submit(agent.session.exec_record())
    agent.session.submit(agent.session.end_record())
    agent.session.close()
    document, now, service = (
        with_openings(agent.session.bundle(), key),
        datetime.now(UTC),
        place.gateway.service,
    )
    reference = service.admissions.appraiser.reference.raw
    trust = simulated_trust_file(reference, now, gateway_configs=[service.config.digest])
    verdict = verify_bundle(json.dumps(document).encode(), parse_trust_file(trust), at=now, build="a test")
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    (bound,) = [check for check in verdict.checks if check.code == "apr.bound"]
    assert bound.state is State.HELD
    assert bound.detail.endswith("signed by ann@example.org (issuer https://accounts.tests)")
