"""Uses of secrets: exactly as many as there are, also after the session's profile was narrowed."""

from __future__ import annotations

import pytest
from tests.raising import raises_code

from affiant.secrets.broker.uses import Uses


@pytest.mark.parametrize("before", [None, 9])
def test_what_was_used_before_a_narrowing_stays_used(before: int | None) -> None:
    uses = Uses({"A": before, "B": None})
    for _ in range(3):
        uses.take(["A"])
    left = uses.restricted({"A": 4})
    left.take(["A"])
    with raises_code("limit_secret_uses"):
        left.take(["A"])
    left.take(["B"])  # which the broker does not hold any more: nothing is counted for it
