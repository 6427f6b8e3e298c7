"""Nothing is started for what the TD was not launched for: no runner, and no broker, which is what reads secrets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.sandbox.supervisor.launch.test_launch_check import (
    BUILD,
    NOW,
    OTHER,
    manifest,
    provision,
    registers,
)

from affiant.errors import AffiantError
from affiant.sandbox.supervisor import starting
from affiant.sandbox.supervisor.starting import Opening, start

WRONG = {
    "a profile that the manifest does not name": (
        {"given": provision(policy=OTHER.normal_form)},
        "session.profile_mismatch",
    ),
    "a manifest that the TD was not launched for": (
        {"given": provision(manifest=manifest(profile_digest=OTHER.digest).raw, policy=OTHER.normal_form)},
        "session.mrconfigid_mismatch",
    ),
    "a TD that was launched for nothing": (
        {"found": registers(mrconfigid=bytes(48))},
        "session.mrconfigid_mismatch",
    ),
    "another build": ({"build": "sha256:" + "0" * 64}, "session.provision_mismatch"),
}


@pytest.mark.parametrize(("wrong", "code"), WRONG.values(), ids=WRONG.keys())
def test_no_broker_is_started_for_another_profile_than_the_td_was_launched_for(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], code: str
) -> None:
    monkeypatch.setattr(starting, "spawn_children", lambda *_: pytest.fail("the children were started"))
    td = SimpleNamespace(report=lambda: wrong.get("found", registers()))
    around = SimpleNamespace(td=td, build=wrong.get("build", BUILD), clock=lambda: NOW)
    opening = SimpleNamespace(provision=wrong.get("given", provision()), around=around)
    with pytest.raises(AffiantError) as refused:
        start(cast("Opening", opening))
    assert refused.value.code == code
