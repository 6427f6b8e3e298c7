"""How a session's own client of its gateway is made."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from affiant.policy.loading.load import load_profiles
from affiant.sandbox.supervisor import attesting
from affiant.sandbox.supervisor.gateway.gateway_client import Timing
from affiant.sandbox.supervisor.launch.launch_check import CheckedTemplate
from affiant.sandbox.supervisor.starting import Warming

APPROVER = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


class Made(Exception):
    """A client was made."""


@pytest.mark.parametrize(
    ("asks", "seconds"),
    [
        (f"{{tools: [a], approvers: [{APPROVER}], ttl: 30s}}", 630),
        (f"{{tools: [a], approvers: [{APPROVER}]}}", 1200),
        ("true", 600),
        ("false", 600),
    ],
)
def test_a_session_waits_for_a_response_as_long_as_its_profile_lets_an_approval_take(
    monkeypatch: pytest.MonkeyPatch, asks: str, seconds: float
) -> None:
    async def appraised(*_: object) -> Any:
        tier = SimpleNamespace(value="simulated")
        return SimpleNamespace(spki="A", keyset_digest="k", appraisal=SimpleNamespace(tier=tier))

    async def progress(*_: object) -> None:
        pass

    def made(_url: str, *, spki: str, timing: Timing) -> Any:
        assert spki == "A"
        raise Made(timing.answer)

    monkeypatch.setattr(attesting, "_appraised_gateway", appraised)
    monkeypatch.setattr(attesting, "GatewayClient", made)
    profile = f"agent_configs: {{tester: {{tools: [a], requires_human_approval: {asks}}}}}".encode()
    policy = load_profiles(profile).profile("tester").compiled
    checked = SimpleNamespace(policy=policy)
    opening = SimpleNamespace(around=None, progress=progress, provision=SimpleNamespace(gateway_url="u"))
    upstream = SimpleNamespace(total_s=300.0, idle_s=1.0)
    pins = SimpleNamespace(config=SimpleNamespace(upstreams=(upstream,)))
    meeting = attesting.meet_gateway(
        cast("Warming", opening), cast("CheckedTemplate", checked), cast("Any", pins)
    )
    with pytest.raises(Made) as found:
        asyncio.run(meeting)
    assert found.value.args == (seconds,)
