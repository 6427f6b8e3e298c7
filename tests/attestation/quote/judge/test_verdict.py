"""A verdict exists for every input, and none that is damaged is ever worth anything."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, log_of, quote_of, reference_of, trust_of
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.quote.collateral.single_file import parse_collateral_file
from affiant.attestation.quote.judge.verdict import Question, QuoteVerdict, Stage, judge_quote
from affiant.attestation.quote.show.verdict_text import render_verdict
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.verdict.verdict import Tier
from affiant.errors import ConfigurationError


def judge(
    platform: SimulatedPlatform, quote: bytes, collateral: bytes, log: bytes | None = None
) -> QuoteVerdict:
    question = Question(at=NOW, roots=trust_of(platform), references=(reference_of(platform),))
    return judge_quote(
        quote, lambda _: parse_collateral_file(collateral), question, build="test", event_log=log
    )


def damaged(data: Any, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    return bytes(changed)[: data.draw(st.integers(len(changed) - 3, len(changed)))]


@thorough(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_damaged_input_is_refused_or_was_not_signed(platform: SimulatedPlatform, data: Any) -> None:
    """Whatever byte of quote, collateral or log is changed: a verdict, printable, and never better than before."""
    inputs = {
        "quote": quote_of(platform),
        "collateral": platform.collateral(NOW).to_bytes(),
        "log": log_of().to_bytes(),
    }
    which = data.draw(st.sampled_from(sorted(inputs)))
    verdict = judge(platform, **(inputs | {which: damaged(data, inputs[which])}))
    assert verdict.exit_code in (20, 40)
    points = {check.point for check in (*verdict.checks_made, *verdict.checks_not_made)}
    assert points == set(range(1, 46))
    text = render_verdict(verdict)
    assert "verified" not in text.lower()
    assert json.dumps(verdict.to_json(), ensure_ascii=True)


def test_each_stage_keeps_what_the_stages_before_it_settled(platform: SimulatedPlatform) -> None:
    quote, collateral = quote_of(platform), platform.collateral(NOW).to_bytes()
    flipped = quote[:300] + bytes((quote[300] ^ 1,)) + quote[301:]
    verdicts = [
        judge(platform, b"no quote", collateral),
        judge(platform, quote, collateral[:-10]),
        judge(platform, flipped, collateral),
        judge(platform, quote, collateral, b"no log"),
        judge(platform, quote, collateral),
    ]
    assert [verdict.stage for verdict in verdicts] == list(Stage)
    made = [len(verdict.checks_made) for verdict in verdicts]
    assert made == sorted(made)
    assert made[0] == 0
    assert [verdict.tier for verdict in verdicts] == [Tier.CONTRAINDICATED] * 4 + [Tier.NONE]
    assert verdicts[2].verified is None
    assert verdicts[3].verified is not None, "verification stands where only appraisal is refused"


def test_what_the_reader_got_wrong_is_no_verdict_on_the_quote(platform: SimulatedPlatform) -> None:
    def wrong(_: object) -> Any:
        raise ConfigurationError("the reader's own mistake", code="appraisal.expectation")

    question = Question(at=NOW, roots=trust_of(platform))
    with raises_code("appraisal.expectation"):
        judge_quote(quote_of(platform), wrong, question, build="test")
