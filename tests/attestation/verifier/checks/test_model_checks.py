"""Which model answered: what the record names beside what was asked for, and what explains a difference."""

from __future__ import annotations

import json

import pytest
from tests.attestation.story import Story, reference_bytes
from tests.attestation.vectors.test_vectors import CASES, judged
from tests.attestation.verifier.checks.test_object_checks import without_keyset_of
from tests.attestation.verifier.test_verify_bundle import ANY_CONFIG, at, judge, row

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.attestation.statements.gateway_config import (
    GatewayConfig,
    local_gateway_config,
    parse_gateway_config,
)
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.verdict.verdict import State, Tier
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render

ECHO = "affiant-dev-echo"


def told(answered: object, **how: object) -> Story:
    """A session in which the echo was asked for, and an answer names ``answered``."""
    return Story(alter=at("inference", mdl={"id": ECHO, "ans": answered}), **how)


def configured(*aliases: str) -> GatewayConfig:
    """The configuration of the story's gateway, with these aliases of the echo."""
    reference = parse_reference_values(reference_bytes())
    return local_gateway_config(reference, model_aliases={ECHO: aliases})


def test_an_answer_by_another_model_is_a_warning_that_names_both_and_the_receipt() -> None:
    """An upstream answered a request for one model with another, and said so."""
    story = told("tiny-model-q4")
    verdict = judge(story.bytes())
    found = row(verdict, "model.answered")
    assert (found.state, found.tier, found.level) == (State.HELD, Tier.WARNING, "L1")
    assert f"1 of 1 (asked {ECHO}, answered tiny-model-q4: 1)" in found.detail
    (receipt,) = (record for record in story.gateway_records if record.payload["kind"] == "inference")
    assert found.where == (receipt.payload["jti"],)
    assert "tiny-model-q4" in render(verdict)
    page = render_html(verdict)
    assert "model that answered" in page and "tiny-model-q4" in page


def test_a_neighbours_answers_are_not_judged_with_a_session() -> None:
    """A session's bundle holds the gateway's records of the sessions beside it."""
    assert row(judged(CASES["valid/lost-beside-a-neighbour"]), "model.answered").tier is Tier.AFFIRMING


def test_answers_of_a_session_that_cannot_be_judged_are_told_where_there_is_no_other() -> None:
    story = told("tiny-model-q4")
    bundle = without_keyset_of("session")(story.bundle()).to_bytes()
    assert row(judge(bundle), "model.answered").tier is Tier.WARNING


@pytest.mark.parametrize("answered", [ECHO, None])
def test_the_model_that_was_asked_for_and_no_name_at_all_are_no_warning(answered: str | None) -> None:
    found = row(judge(told(answered).bytes()), "model.answered")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
    assert ("name no model: 1" in found.detail) == (answered is None)


def test_an_older_record_that_has_no_such_member_stays_valid_and_is_counted() -> None:
    found = row(judge(Story().bytes()), "model.answered")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
    assert found.detail == "answers that name the model that was asked for: 0; answers that name no model: 1"


@pytest.mark.parametrize(
    ("answered", "tier"),
    [
        ("echo-2026-11-20", Tier.AFFIRMING),
        ("echo-2026-11-21", Tier.WARNING),
        ("ECHO-2026-11-20", Tier.WARNING),
    ],
)
def test_an_alias_of_the_measured_configuration_explains_exactly_its_own_name(
    answered: str, tier: Tier
) -> None:
    config = configured("echo-2026-11-20")
    verdict = judge(told(answered, config=config).bytes(), **ANY_CONFIG)
    assert row(verdict, "conf.bound").state is State.HELD
    assert row(verdict, "model.answered").tier is tier


def test_an_alias_of_a_configuration_that_is_not_bound_explains_nothing() -> None:
    story = told("echo-2026-11-20", config=configured("echo-2026-11-20"), gateway_mrconfigid=bytes(48))
    verdict = judge(story.bytes(), **ANY_CONFIG)
    assert row(verdict, "conf.bound").state is State.REFUSED
    assert row(verdict, "model.answered").tier is Tier.WARNING


@pytest.mark.parametrize("answered", ["", 7, "a\x1b[31m", "x" * 257, ["echo"]])
def test_no_record_is_made_with_a_name_of_another_form(answered: object) -> None:
    with pytest.raises(ShapeMismatch, match="mdl.ans"):
        told(answered).bytes()


def test_a_configuration_without_aliases_has_the_digest_that_it_had() -> None:
    reference = parse_reference_values(reference_bytes())
    assert local_gateway_config(reference, model_aliases={}).raw == local_gateway_config(reference).raw
    assert b"model_aliases" not in local_gateway_config(reference).raw


@pytest.mark.parametrize(
    "aliases",
    [{"": ["b"]}, {"a": [""]}, {"a": []}, {"a b": ["c"]}, {"a": ["b c"]}, {"a": ["\u00e9"]}, {"a": "b"}, []],
)
def test_aliases_of_another_form_are_no_configuration(aliases: object) -> None:
    members = json.loads(local_gateway_config(parse_reference_values(reference_bytes())).raw)
    with pytest.raises(ShapeMismatch, match="model_aliases"):
        parse_gateway_config(canonical(members | {"model_aliases": aliases}))
