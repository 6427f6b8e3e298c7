"""Two verifiers that share no code agree on every bundle, row by row; where they cannot, it is listed here and why."""

from __future__ import annotations

import hashlib
import importlib
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.attestation.story import NOW, REQUEST, RESPONSE, Story, trust_bytes
from tests.attestation.verifier_js.conftest import ROOT, Question, Verdicts
from tests.attestation.verifier_js.recorded import Recorded, asked_of, recorded
from tests.raising import raises_code

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.verdict.codes import CODES
from affiant.attestation.verdict.outcome import NO_DEMAND, Demand
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.errors import AffiantError

Ask = Callable[[Sequence[Question]], Verdicts]

APPRAISED = {"tee.appraisal", "tee.class", "peer.ear"}
"""Rows that rest on the appraisal of a quote, which the second verifier does not make: never held there."""

ANCHORED = {"time.tsa", "time.sigstore"}
"""Rows that rest on a timestamp token or a sigstore bundle, which the second verifier does not verify: never made."""

NOT_JUDGED = {
    ("tee.appraisal", "cert.revoked"): "revocation lists are not read",
    ("tee.appraisal", "crl.expired"): "collateral is not read",
    ("peer.ear", "peer.ear_mismatch"): "the TCB status that the result states is not known",
    (
        "tee.appraisal",
        "peer.ear_mismatch",
    ): "the collateral that the result names is not read; refused as peer.ear",
}
"""What Python refuses and the second verifier may leave as not made: (check, reason) -> why."""

ATTESTED = frozenset({"test_attested_counts_only_as_far_as_the_quote_that_binds_the_key"})
"""Tests that are about ``attested`` and so cannot be asked with the log pinned; their bundles are among the others."""

LEFT_OUT = frozenset({"unwitnessed", "exceptions", "people"})
"""Members of Python's document that the second verifier's does not have, as its README says."""

ALIKE = (
    "asked",
    "at",
    "bundle",
    "time",
    "trust",
    "requirements_off",
    "counts",
    "summary",
    "platform_class",
    "demand",
)


def pinning_its_log(question: Question) -> Question:
    """The same question under a trust file that pins the bundle's log by its key, where it says ``attested``.

    ``attested`` counts only as far as an appraised quote, so there the second verifier makes no log check.
    """
    document = json.loads(question.trust)
    if document.get("log", [{}])[0].get("value") != "attested":
        return question
    try:
        statements = [parse_statement(raw) for raw in parse_bundle(question.bundle).keysets.values()]
    except AffiantError:
        return question
    logs = sorted({statement.log.key.vkey() for statement in statements if statement.log is not None})
    if not logs:
        return question
    document["log"] = [{"value": vkey} for vkey in logs]
    return replace(question, trust=json.dumps(document).encode())


def python_says(question: Question) -> dict[str, Any]:
    bodies = {"request": question.request, "response": question.response}
    data = bytearray(question.bundle)
    for offset, mask in question.flip:
        data[offset] ^= mask
    trust, at = parse_trust_file(question.trust), question.at
    return as_json(
        verify_bundle(
            bytes(data),
            trust,
            verifiers=STANDARD_VERIFIERS,
            at=at,
            build="",
            session=question.session,
            demand=NO_DEMAND if question.require is None else Demand.parse(question.require),
            **bodies,
        )
    )


def as_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a reader of its JSON has it."""
    return dict(json.loads(json.dumps(verdict.to_json())))


def compared(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its words; a place in text that is no JSON is a matter of the reader."""
    members = {name: value for name, value in row.items() if name != "detail"}
    return members | {"where": [where for where in row["where"] if not where.startswith("line ")]}


def disagreements(ours: dict[str, Any], theirs: dict[str, Any]) -> list[object]:
    """What the two verdicts differ in, beside what is listed above; a wrong question is one for both."""
    if "usage" in ours or "usage" in theirs:
        return [] if ours == theirs else [(ours, theirs)]
    assert set(ours) - set(theirs) == LEFT_OUT and set(theirs) <= set(ours)
    both = [(name, ours.get(name), theirs.get(name)) for name in ALIKE]
    found: list[object] = [each for each in both if each[1] != each[2]]
    if ours["time"] != theirs["time"] and anchored(ours):
        found.remove(("time", ours["time"], theirs["time"]))  # narrower by the token
    assert [row["code"] for row in ours["checks"]] == [row["code"] for row in theirs["checks"]]
    listed = False
    for mine, other in zip(ours["checks"], theirs["checks"], strict=True):
        if compared(mine) == compared(other):
            continue
        if mine["code"] in ANCHORED and other["state"] == "not made":
            listed = listed or mine["state"] == "refused"
            continue
        if mine["code"] not in APPRAISED or other["state"] == "held":
            found.append((mine, other))
        elif mine["state"] == "refused" and other["state"] == "not made":
            listed = True
            if (mine["code"], mine["reason"]) not in NOT_JUDGED:
                found.append((mine, other))
        elif mine["state"] == "refused" and mine["reason"] != other["reason"]:
            found.append((mine, other))
    refused = {row["code"] for row in theirs["checks"] if row["state"] == "refused"}
    if outcome_of(ours) != theirs["outcome"] and not (listed and not refused):
        found.append(("outcome", ours["outcome"], theirs["outcome"]))
    if ours["exit_code"] != theirs["exit_code"] and not (listed and not refused):
        found.append(("exit_code", ours["exit_code"], theirs["exit_code"]))
    return found


def outcome_of(verdict: dict[str, Any]) -> str:
    """What the second verifier calls it: without an appraisal it never says that everything holds."""
    return "holds in part" if verdict["outcome"] == "holds" else str(verdict["outcome"])


def anchored(verdict: dict[str, Any]) -> bool:
    """Whether a token holds: then the time is narrower than what witnesses alone say."""
    return any(row["code"] in ANCHORED and row["state"] == "held" for row in verdict["checks"])


@pytest.fixture(scope="module")
def judged(judge_all: Ask) -> list[tuple[Recorded, dict[str, Any], dict[str, Any]]]:
    """Every bundle of the verifier's own tests, under its own trust file with the log pinned: both verdicts."""
    bundles = asked_of("test_verify_bundle")
    how: dict[str, Any] = {"judging": bundles, "asking": pinning_its_log, "without": ATTESTED}
    others = ("log", "witness", "object", "model", "session")
    modules = [bundles, *(asked_of(f"test_{name}_checks") for name in others)]
    cases = [case for module in modules for case in recorded(module, **how)]
    answers = judge_all([case.question for case in cases])
    return [(case, as_json(case.verdict), dict(answer)) for case, answer in zip(cases, answers, strict=True)]


@pytest.mark.slow
def test_every_bundle_of_the_verifiers_own_tests_gets_the_same_rows(judged: list[Any]) -> None:
    assert len(judged) > 165
    for case, ours, theirs in judged:
        assert not disagreements(ours, theirs), case.name


def test_a_bundle_with_tokens_gets_the_same_rows_but_for_those_that_rest_on_them(judge_all: Ask) -> None:
    """Read as strictly; never held, never refused, and not asked where the trust file does not ask."""
    flips = frozenset({"test_no_changed_byte_of_an_anchor_makes_the_time_earlier"})
    bundles = asked_of("test_verify_bundle")
    how: dict[str, Any] = {"judging": bundles, "asking": pinning_its_log, "without": flips}
    cases = recorded(asked_of("test_anchor_checks"), **how)
    assert len(cases) > 30
    states: Counter[tuple[str, str]] = Counter()
    for case, answer in zip(cases, judge_all([case.question for case in cases]), strict=True):
        ours, theirs = as_json(case.verdict), dict(answer)
        assert not disagreements(ours, theirs), case.name
        states.update(
            (mine["state"], other["state"])
            for mine, other in zip(ours["checks"], theirs["checks"], strict=True)
            if mine["code"] in ANCHORED
        )
    pairs = {
        ("held", "not made"),
        ("refused", "not made"),
        ("not made", "not made"),
        ("not asked", "not asked"),
    }
    assert set(states) == pairs


@pytest.mark.slow
def test_every_reason_that_python_knows_there_is_known_here(judged: list[Any]) -> None:
    """Each refusal is reached by the second verifier too, or listed; and each listed one is needed."""
    ours, theirs = (
        {
            (row["code"], row["reason"])
            for both in judged
            for row in both[n]["checks"]
            if row["state"] == "refused"
        }
        for n in (1, 2)
    )
    assert len(ours) > 40
    assert ours - theirs == set(NOT_JUDGED) - {("peer.ear", "peer.ear_mismatch")}
    assert theirs <= ours


@pytest.mark.slow
def test_nothing_that_is_refused_is_ever_called_better_than_not_made(judged: list[Any]) -> None:
    exits = Counter((ours["exit_code"], theirs["exit_code"]) for _, ours, theirs in judged)
    assert set(exits) == {(20, 20), (30, 30), (40, 40), (20, 40)}
    assert exits[20, 40] <= 4, exits
    for _, _, theirs in judged:
        assert "verifier.fault" not in {row["reason"] for row in theirs["checks"]}
        assert theirs["tier"] in ("none", "contraindicated")


def test_a_log_that_counts_as_attested_is_not_judged_without_the_quote(judge_all: Ask) -> None:
    (verdict,) = judge_all([Question(Story().bytes(), trust_bytes(), NOW)])
    rows = {row["code"]: row for row in verdict["checks"]}
    assert rows["log.inclusion"]["state"] == rows["log.consistency"]["state"] == "not made"
    assert verdict["level"] == "L1"
    assert verdict["exit_code"] == 40


VECTORS = ROOT / "docs/formats/vectors"
VECTOR = Question(
    (VECTORS / "session.affiant.json").read_bytes(),
    (VECTORS / "trust.json").read_bytes(),
    datetime(2026, 11, 21, 12, tzinfo=UTC),
)


def test_the_published_vector_gets_the_same_verdict(judge_all: Ask) -> None:
    question = pinning_its_log(replace(VECTOR, request=REQUEST, response=RESPONSE))
    (theirs,) = judge_all([question])
    ours = python_says(question)
    assert not disagreements(ours, dict(theirs))
    assert (theirs["exit_code"], theirs["level"], theirs["simulated"]) == (40, "L2", True)
    assert theirs["levels"]["L5"] == "held"


@pytest.mark.parametrize("require", [..., ["sig.receipts"], ["sig.receipts", "log.inclusion"]])
def test_claimed_hardware_is_never_affirmed_whatever_is_required(judge_all: Ask, require: object) -> None:
    """With its quotes it is found out; without them it stays a claim."""
    story = asked_of("test_verify_bundle").hardware_claim()
    trust = trust_bytes(**({} if require is ... else {"require": require}))
    bundles = [story.bytes(), replace(story.bundle(), evidence={}).to_bytes()]
    found_out, claimed = judge_all([Question(data, trust, NOW) for data in bundles])
    assert (found_out["evidence_class"], found_out["exit_code"]) == ("simulated", 20)
    assert claimed["evidence_class"] == "hardware"
    assert claimed["tier"] != "affirming" and claimed["exit_code"] in (10, 20, 30)


WHOLE = Story().tell()
CUT = replace(
    WHOLE.bundle(),
    receipts=tuple(each.sdjwt for each in (*WHOLE.gateway_records[:3], *WHOLE.session_records[:2])),
).to_bytes()
"""Without the tails of both chains."""
BARE = {
    "evidence": replace(WHOLE.bundle(), evidence={}),
    "endorsements": replace(WHOLE.bundle(), endorsements={}),
    "results": replace(WHOLE.bundle(), results={}),
    "policies": replace(WHOLE.bundle(), policies={}),
}


def without_a_signature() -> Question:
    """What an identity approved, without the signature that the record names by digest."""
    identities = asked_of("test_identity_approvals")
    digest = "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + identities.FORM).hexdigest()
    bundle = identities.ByIdentity(policy=identities.FORM, policy_digest=digest).bundle()
    return Question(bundle.to_bytes(), trust_bytes(profiles=[{"value": digest}]), NOW)


def without_collateral_of_a_result() -> Question:
    bundle, _ = asked_of("test_object_checks").rests_on_other_collateral()
    return Question(bundle.to_bytes(), trust_bytes(), NOW)


LACKING: dict[str, Callable[[], Question]] = {
    **{
        what: lambda bundle=bundle: Question(bundle.to_bytes(), trust_bytes(), NOW)
        for what, bundle in BARE.items()
    },
    "an approver's signature": without_a_signature,
    "a result's endorsements": without_collateral_of_a_result,
}


@pytest.mark.parametrize("what", LACKING)
def test_a_bundle_without_objects_that_it_names_cannot_be_judged_by_either(judge_all: Ask, what: str) -> None:
    question = pinning_its_log(LACKING[what]())
    (theirs,) = judge_all([question])
    ours = python_says(question)
    assert not disagreements(ours, dict(theirs))
    assert ours["outcome"] == theirs["outcome"] == "cannot be judged"
    assert ours["exit_code"] == theirs["exit_code"] == 30


@pytest.mark.parametrize("require", [None, "L1", "complete", "L2,complete", "L3", "L3,complete"])
@pytest.mark.parametrize("bundle", [WHOLE.bytes(), CUT], ids=["whole", "cut"])
def test_both_say_which_sessions_have_no_end_and_what_is_not_reached(
    judge_all: Ask, bundle: bytes, require: str | None
) -> None:
    question = pinning_its_log(Question(bundle, trust_bytes(), NOW, require=require))
    (theirs,) = judge_all([question])
    ours = python_says(question)
    assert not disagreements(ours, dict(theirs))
    assert ours["exit_code"] == theirs["exit_code"]
    assert ours["levels"]["L1"] == theirs["levels"]["L1"] == ("open" if bundle is CUT else "held")


def test_both_tell_a_session_without_its_neighbours(judge_all: Ask) -> None:
    vectors = importlib.import_module("tests.attestation.verifier_js.test_vectors")
    question = pinning_its_log(vectors.question_of(vectors.vectors.CASES["valid/lost-beside-a-neighbour"]))
    (theirs,) = judge_all([question])
    assert not disagreements(python_says(question), dict(theirs))
    assert theirs["counts"]["sessions"] == {"started": 1, "closed": 0, "lost": 1, "open": 0, "not_judged": 1}
    assert theirs["summary"]["uses"]["model"] == {"echo": 1} and "end" not in theirs["summary"]["uses"]


def test_both_take_the_demand_of_a_trust_file(judge_all: Ask) -> None:
    question = pinning_its_log(Question(CUT, trust_bytes(sessions="complete"), NOW))
    (theirs,) = judge_all([question])
    assert python_says(question)["demand"] == theirs["demand"]
    assert theirs["demand"] == {"level": None, "complete": True, "unmet": ["complete"]}
    assert theirs["exit_code"] == 30
    (other,) = judge_all([replace(question, trust=trust_bytes(sessions="open"))])
    assert other == {"usage": "trust.malformed"}


def test_every_code_of_a_row_may_stand_in_require_of_a_trust_file(judge_all: Ask) -> None:
    (found,) = judge_all([Question(WHOLE.bytes(), trust_bytes(require=sorted(CODES)), NOW)])
    assert found["exit_code"] == 40


def test_a_session_that_the_bundle_does_not_have_is_usage_for_both(judge_all: Ask) -> None:
    asked = [Question(WHOLE.bytes(), trust_bytes(), NOW, session=name) for name in (WHOLE.session, "A" * 22)]
    known, unknown = judge_all(asked)
    assert known["exit_code"] == 40
    assert unknown == {"usage": "verifier.session"}
    with raises_code("verifier.session"):
        python_says(asked[1])


def test_both_say_what_was_asked_where_it_is_not_the_whole_bundle(judge_all: Ask) -> None:
    asked = Question(WHOLE.bytes(), trust_bytes(), NOW, session=WHOLE.session, request=REQUEST)
    part, whole = judge_all([asked, Question(WHOLE.bytes(), trust_bytes(), NOW)])
    assert not disagreements(
        python_says(pinning_its_log(asked)), dict(judge_all([pinning_its_log(asked)])[0])
    )
    assert part["asked"] == {"session": WHOLE.session, "request": sha256_name(REQUEST)}
    assert "asked" not in whole


def json_equal(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_any_flipped_byte_never_raises_tier_or_level(judge_all: Ask) -> None:
    whole = pinning_its_log(replace(VECTOR, request=REQUEST, response=RESPONSE))
    dice = random.Random(11)
    flips = [(dice.randrange(len(whole.bundle)), dice.randrange(1, 256)) for _ in range(200)]
    best, *verdicts = judge_all([whole, *(replace(whole, flip=[flip]) for flip in flips)])
    held = {row["code"] for row in best["checks"] if row["state"] == "held"}
    seen = Counter[str]()
    for (offset, mask), verdict in zip(flips, verdicts, strict=True):
        data = bytearray(whole.bundle)
        data[offset] ^= mask
        if json_equal(bytes(data), whole.bundle):
            assert verdict["checks"] == best["checks"]
            continue
        assert {row["code"] for row in verdict["checks"] if row["state"] == "held"} < held
        assert verdict["level"] in (None, "L0", "L1")
        assert verdict["exit_code"] == 20
        seen[next(row["code"] for row in verdict["checks"] if row["state"] == "refused")] += 1
    assert len(seen) >= 3, seen


def test_flipped_bytes_are_refused_by_the_same_check(judge_all: Ask) -> None:
    whole = pinning_its_log(VECTOR)
    dice = random.Random(12)
    questions = [
        replace(whole, flip=[(dice.randrange(len(whole.bundle)), 1 << dice.randrange(8))]) for _ in range(40)
    ]
    for question, theirs in zip(questions, judge_all(questions), strict=True):
        assert not disagreements(python_says(question), dict(theirs)), question.flip


def test_garbage_is_a_refusal_and_no_crash(judge_all: Ask) -> None:
    dice = random.Random(13)
    data = [b"", b"{}", b"[]", b"null", b'{"typ":"application/vnd.affiant.bundle.v1+json"}']
    data += [dice.randbytes(dice.randrange(200)) for _ in range(40)]
    for verdict in judge_all([Question(each, trust_bytes(), NOW) for each in data]):
        assert verdict["exit_code"] == 20
        assert verdict["checks"][0]["state"] == "refused"
