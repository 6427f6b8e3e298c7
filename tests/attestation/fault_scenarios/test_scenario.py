from __future__ import annotations

import pytest

from affiant.attestation.quote.judge.verdict import Stage
from fault_scenarios.changes import unchanged
from fault_scenarios.scenario import Accepted, Refused, Scenario


def test_an_outcome_reads_like_a_sentence() -> None:
    assert str(Accepted("OutOfDate", frozenset({"B", "A"}))) == "accepted, OutOfDate A B"
    assert str(Refused("cert.revoked", Stage.VERIFICATION)) == "refused, cert.revoked (verification)"


@pytest.mark.parametrize(
    ("name", "description", "points"),
    [
        ("Upper", "Wrong.", (1,)),
        ("double--dash", "Wrong.", (1,)),
        ("", "Wrong.", (1,)),
        ("good", "without an end", (1,)),
        ("good", "Wrong.", ()),
        ("good", "Wrong.", (46,)),
        ("good", "Wrong.", (0,)),
    ],
)
def test_a_scenario_of_another_form_cannot_be_made(
    name: str, description: str, points: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="scenario"):
        Scenario(name, description, points, Accepted(), unchanged)
