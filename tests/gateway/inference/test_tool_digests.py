"""The digest of an offered tool's definition takes long to compute: it is, once, where something reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.dialects import dialect
from affiant.policy.canonical.tool_origin import tool_digest

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
NAMES = [f"tool_{number}" for number in range(20)]
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": PARAMETERS}}
    for name in NAMES
]
BODY = json.dumps({"model": "m", "messages": [], "tools": TOOLS}).encode()
PINNED = f"{{name: tool_0, schema: '{tool_digest('tool_0', 'd', PARAMETERS)}'}}"


@pytest.mark.parametrize(
    ("tools", "most"),
    [(", ".join(NAMES), 0), (", ".join([PINNED, *NAMES[1:]]), 1)],
    ids=["by name", "pinned"],
)
def test_a_definition_is_digested_only_for_a_rule_that_pins_one_and_once(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: str, most: int
) -> None:
    counted: dict[str, int] = {}

    def counting(name: str, *members: object) -> str:
        counted[name] = counted.get(name, 0) + 1
        return tool_digest(name, *members)  # type: ignore[arg-type]

    monkeypatch.setattr(dialect, "tool_digest", counting)
    profile = f"agent_configs: {{tester: {{tools: [{tools}]}}}}"
    with in_process(platform, tmp_path / "store") as gateway:
        session = SessionClient.start(gateway, platform, profile=profile.encode())
        assert session.chat(BODY).status == 200
    assert max(counted.values(), default=0) == most
