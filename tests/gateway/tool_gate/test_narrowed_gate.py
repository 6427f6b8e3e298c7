"""Tools that a narrowing takes away: gone from the listing and from calls, with the limits of those that stay."""

from __future__ import annotations

from tests.gateway.in_process import InProcess
from tests.gateway.narrowing_client import NarrowingClient

from affiant.attestation.simulated.client import PlatformClient

from .conftest import PROFILE, Agent

NARROWER = PROFILE.replace(b"      - {name: slow, server: web}\n", b"").replace(
    b"args: {a: {max: 100}, b: any}", b"args: {a: {max: 10}, b: any}, rate: 3/min"
)


def listed(agent: Agent) -> set[str]:
    return {tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]}


def test_a_tool_that_is_taken_away_is_listed_and_called_no_more(
    gated: InProcess, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(gated, platform, profile=PROFILE) as client:
        agent = Agent(client)
        assert "slow" in listed(agent)
        assert agent.text("add", a=50, b=1) == "51"
        client.narrowed(NARROWER)
        assert "slow" not in listed(agent)
        assert "add" in listed(agent)
        assert agent.refused("slow") == "tool.not_allowed"
        assert agent.refused("add", a=50, b=1) == "tool.not_allowed"
        assert agent.text("add", a=5, b=1) == "6"
        epochs = [record["pol"]["epoch"] for record in agent.records() if "pol" in record]
        assert epochs == sorted(epochs)
        assert {*epochs} == {0, 1}


def test_what_was_called_before_counts_for_a_limit_that_comes(
    gated: InProcess, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(gated, platform, profile=PROFILE) as client:
        agent = Agent(client)
        for _ in range(2):
            agent.text("add", a=1, b=1)
        client.narrowed(NARROWER + b"    limits: {tool_calls: 3}\n")
        agent.text("add", a=1, b=1)
        assert agent.refused("add", a=1, b=1) == "limit_tool_calls"
