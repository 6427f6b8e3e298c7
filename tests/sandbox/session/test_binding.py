"""How long a session may last follows its starter, and the profile's ``wall``."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from affiant.policy.model.limits import Limits
from affiant.sandbox.session import binding

DAY = 24 * 3600


@pytest.mark.parametrize(
    ("lease_s", "wall", "expected"),
    [
        (900, None, 900),
        (900, 30 * DAY, 900),
        (40 * DAY, 60, 40 * DAY),
        (None, 30 * DAY, 30 * DAY + 600),
        (None, 60, 660),
        (None, None, DAY // 2),
    ],
)
def test_a_session_may_last_as_its_starter_says_else_as_its_profile_does(
    lease_s: int | None, wall: int | None, expected: int
) -> None:
    limits = replace(Limits(), wall=wall)
    plan = SimpleNamespace(
        request=SimpleNamespace(lease_s=lease_s),
        profile=SimpleNamespace(compiled=SimpleNamespace(limits=limits)),
    )
    assert binding._lease_s(cast("Any", plan)) == expected
