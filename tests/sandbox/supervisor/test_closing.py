"""What a session's end says of denials: also that the gateway did not say its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from affiant.errors import AffiantError
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.records_of_egress import Denials
from affiant.sandbox.supervisor import closing
from affiant.sandbox.supervisor.launch.errors import AdmissionError

DENIED = {"kind": "tool", "name": "rm", "reason": "tool_not_listed", "count": 2}


def told(answer: Mapping[str, object] | AffiantError | None) -> Mapping[str, object]:
    """What the launcher gets where the gateway answers so; None: it does not in time."""

    async def decisions(_after: int | None) -> Mapping[str, object]:
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, AffiantError):
            raise answer
        return answer or {}

    session = SimpleNamespace(decisions=None, denials=Denials(), gateway=SimpleNamespace(decisions=decisions))
    session.denials.add("host", "a.test", "host_not_listed")
    assert asyncio.run(closing.account_for_decisions(session)) is None
    return session.denials.to_json()


def test_denials_of_both_sides_are_counted_together() -> None:
    said = told({"denied": [DENIED], "denied_more": 1, "lines": [], "next": 0, "waiting": 0})
    assert said["denied"] == [
        DENIED,
        {"kind": "host", "name": "a.test", "reason": "host_not_listed", "count": 1},
    ]
    assert (said["denied_more"], said["denied_unknown"]) == (1, False)


@pytest.mark.parametrize("answer", [GatewayUnreachable("no"), AdmissionError("no", gateway_code="x"), None])
def test_what_the_gateway_does_not_say_is_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch, answer: AffiantError | None
) -> None:
    monkeypatch.setattr(closing, "_DECISIONS_S", 0.05)
    said = told(answer)
    assert [entry["name"] for entry in said["denied"]] == ["a.test"]
    assert said["denied_unknown"] is True
