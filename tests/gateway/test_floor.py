"""A gateway that names a baseline policy admits only sessions whose profile contains all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.session_client import PROFILE, Answer, Gateway, admission_headers, draft, evidence_of

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import Admission, wrap_admission
from affiant.attestation.statements.gateway_config import parse_gateway_config
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.loading.load import load_baseline, load_profiles

KEY = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
FLOOR = f"tools: [{{deny: rm}}]\nlimits: {{tool_calls: 9}}\nrequires_human_approval: {{approvers: [{KEY}]}}\n"
BASELINE = load_baseline(FLOOR.encode(), source="org.yaml")
DIGEST = BASELINE.digest
assert DIGEST is not None
PLAIN = load_profiles(PROFILE).profile("tester").compiled
UNDER = load_profiles(PROFILE, floor=FLOOR.encode()).profile("tester").compiled


@pytest.fixture(scope="module")
def demanding(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: Path
) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("gateway-home")
    path = home / "org.yaml"
    path.write_text(FLOOR)
    with serving_gateway(home, platform_home, "--floor", str(path)) as started:
        yield started


def ask(gateway: Gateway, platform: PlatformClient, policy: CompiledPolicy) -> Answer:
    made = draft(gateway, policy=policy)
    body = wrap_admission(Admission(evidence_of(made, platform), made.policy, None))
    return gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce))


def test_a_profile_that_contains_it_is_admitted(demanding: Running, platform: PlatformClient) -> None:
    assert ask(demanding.gateway, platform, UNDER).status == 201


OTHERS = {
    "none": PLAIN,
    "only its digest": compile_policy(replace(PLAIN.policy, floor=DIGEST)),
    "not its denials": compile_policy(replace(UNDER.policy, tools=PLAIN.policy.tools)),
    "not its limits": compile_policy(replace(UNDER.policy, limits=PLAIN.policy.limits)),
    "not its approvers": compile_policy(replace(UNDER.policy, approval=PLAIN.policy.approval)),
    "another approver": compile_policy(
        replace(UNDER.policy, approval=replace(UNDER.policy.approval, approvers=("A" * 43,)))
    ),
    "its denials and another digest": compile_policy(replace(UNDER.policy, floor="sha384:" + "0" * 96)),
}


@pytest.mark.parametrize("what", OTHERS)
def test_any_other_is_rejected_and_the_refusal_is_recorded(
    demanding: Running, platform: PlatformClient, what: str
) -> None:
    answer = ask(demanding.gateway, platform, OTHERS[what])
    assert (answer.status, answer.code) == (403, "admission.floor"), answer.body
    assert len(answer.headers["affiant-receipt-id"]) == 22


def test_it_is_what_the_gateways_td_was_launched_for(demanding: Running) -> None:
    assert parse_gateway_config(demanding.gateway.config).floor == DIGEST


def test_without_one_any_profile_is_admitted(gateway: Gateway, platform: PlatformClient) -> None:
    assert ask(gateway, platform, PLAIN).status == 201


@pytest.mark.parametrize(
    ("content", "code"), [("tools: [run]", "policy.floor"), ("a: b", "policy.unknown_key")]
)
def test_a_gateway_does_not_start_with_a_baseline_policy_that_is_none(
    tmp_path: Path, platform_home: Path, platform: PlatformClient, content: str, code: str
) -> None:
    path = tmp_path / "org.yaml"
    path.write_text(content)
    with (
        pytest.raises(AssertionError, match=code.replace(".", "[.]")),
        serving_gateway(tmp_path / "g", platform_home, "--floor", str(path)),
    ):
        pass
