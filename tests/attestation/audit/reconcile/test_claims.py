"""What a receipt says left; what it hides or does not know is compared with nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.attestation.story import Story

from affiant.attestation.audit.reconcile.claims import Claim, claims_of
from affiant.attestation.records.receipt import parse_receipt, verify_receipt


def told(
    alter: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _, members: members, *, open_: bool = True
) -> dict:
    """The claims of a story by kind; the gateway's configuration is known."""
    story = Story(alter=alter).tell()
    records = []
    for statement, issued in (
        *((story.gateway_statement, each) for each in story.gateway_records),
        *((story.session_statement, each) for each in story.session_records),
    ):
        text = issued.sdjwt if open_ else issued.jws + "~"
        records.append(verify_receipt(parse_receipt(text), statement))
    found: dict[str, list[Claim]] = {}
    for claim in claims_of(records, {story.gateway.chn: story.config}):
        found.setdefault(claim.kind, []).append(claim)
    return found


def changed(step: str, **members: object) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    return lambda at, before: before | members if at == step else before


ATTEMPT = {"id": "affiant-dev-echo", "host": "affiant-dev-echo.internal", "bind": "none", "res": "ok"}


def test_an_answer_is_one_request_at_its_upstream_with_its_lengths() -> None:
    (claim,) = told()["inference"]
    assert (claim.expected, claim.answered, str(claim.authority)) == (
        True,
        True,
        "affiant-dev-echo.internal:80",
    )
    assert (claim.facts.method, claim.facts.status, claim.facts.model) == ("POST", 200, "affiant-dev-echo")
    assert (claim.facts.sent, claim.facts.received) == (42, 14)


def test_what_is_not_disclosed_is_not_known_and_is_named() -> None:
    (claim,) = told(open_=False)["inference"]
    assert (claim.facts.sent, claim.facts.received) == (None, None)
    assert set(claim.undisclosed) == {"sent", "received", "tokens_in", "tokens_out"}
    (egress,) = told(open_=False)["egress"]
    assert (egress.authority, egress.undisclosed) == (None, ("target",))


def test_every_attempt_is_a_request_and_a_failed_one_need_not_be_anywhere() -> None:
    failed = ATTEMPT | {"res": "upstream.timeout", "host": "other.internal"}
    one, two = told(changed("inference", up=[failed, ATTEMPT]))["inference"]
    assert (one.expected, one.answered, one.facts.status, one.facts.received) == (False, False, None, None)
    assert two.expected


@pytest.mark.parametrize("end", ["client_abort", "upstream_abort", "policy_stop", "gateway_error"])
def test_of_an_answer_that_was_cut_off_neither_status_nor_length_is_the_upstreams(end: str) -> None:
    (claim,) = told(changed("inference", res={"st": 200, "end": end}))["inference"]
    assert (claim.expected, claim.answered, claim.facts.status, claim.facts.received) == (
        False,
        True,
        None,
        None,
    )


def test_of_a_request_that_was_rewritten_no_length_is_known() -> None:
    def alter(step: str, members: dict) -> dict:
        return members | {"pol": members["pol"] | {"dec": "redact"}} if step == "inference" else members

    (claim,) = told(alter)["inference"]
    assert claim.facts.sent is None


def test_an_outcome_stands_for_its_intent_and_an_intent_alone_may_have_left() -> None:
    (claim,) = told()["egress"]
    assert (str(claim.authority), claim.facts.path, claim.expected) == ("api.example.com:443", "/", True)

    def intent(step: str, members: dict) -> dict:
        if step == "egress":
            return {name: value for name, value in members.items() if name != "par"} | {
                "ph": "intent",
                "act": {"typ": "egress"},
            }
        return members

    (alone,) = told(intent)["egress"]
    assert not alone.expected


def test_a_refusal_explains_what_names_it_and_is_never_expected() -> None:
    claims = told()["refusal"]
    assert {(claim.authority, claim.expected) for claim in claims} == {(None, False)}
    assert claims[0].facts.status == 403


def test_without_its_configuration_an_upstreams_path_is_not_known() -> None:
    story = Story().tell()
    records = [
        verify_receipt(parse_receipt(each.sdjwt), story.gateway_statement) for each in story.gateway_records
    ]
    (claim,) = (each for each in claims_of(records, {}) if each.kind == "inference")
    assert (claim.facts.path, claim.authority.port) == (None, None)
