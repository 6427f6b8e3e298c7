"""Approvers' statements, and who a profile names: both verifiers read the same, and refuse the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.verifier_js.conftest import Question, Verdicts
from tests.attestation.verifier_js.recorded import asked_of, recorded
from tests.attestation.verifier_js.test_foundations import Probe, probe, question

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.signatures.approvers.named_approvers import read_approvers
from affiant.attestation.signatures.approvers.statement import read_statement
from affiant.errors import AffiantError

__all__ = ["probe"]

ANN, EVE = (Signer(ec.derive_private_key(number, ec.SECP256R1())) for number in (41, 42))
SAID: dict[str, Any] = {
    "typ": "affiant-approval/1",
    "act": "sha256:" + "1" * 64,
    "dec": "approve",
    "iat": 1795262400,
    "exp": 1795263000,
    "via": "cli",
    "jwk": dict(public_jwk(ANN.public_key)),
}
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"dec": "deny", "via": "console"},
    {"typ": "affiant-approval/2"},
    {"act": "sha256:" + "g" * 64},
    {"dec": "maybe"},
    {"exp": "later"},
    {"exp": -1},
    {"iat": True},
    {"via": "phone"},
    {"note": "more"},
    {"jwk": None},
    {"jwk": dict(public_jwk(EVE.public_key))},
    {"jwk": {**public_jwk(ANN.public_key), "alg": "ES256"}},
    {"jwk": {**public_jwk(ANN.public_key), "crv": "P-384"}},
    {"jwk": {**public_jwk(ANN.public_key), "x": "A" * 43}},
    {"jwk": {**public_jwk(ANN.public_key), "y": 7}},
)
APPROVAL: dict[str, Any] = {
    "everything": False,
    "methods": ["POST"],
    "approvers": [ANN.kid, EVE.kid],
    "quorum": 2,
    "ttl": 600,
}
IDENTITIES: dict[str, Any] = APPROVAL | {
    "identities": [{"issuer": "https://id.example", "subject": "bob@example.org"}],
    "trusted_root": {"mediaType": "application/vnd.dev.sigstore.trustedroot+json"},
}
FORMS: tuple[Any, ...] = (
    APPROVAL,
    IDENTITIES,
    IDENTITIES | {"approvers": []},
    *(
        IDENTITIES | change
        for change in (
            {"identities": []},
            {"identities": [{"issuer": "https://id.example"}]},
            {"identities": [{"issuer": "x" * 256, "subject": "bob@example.org"}]},
            {"identities": IDENTITIES["identities"] * 65},
            {"identities": None},
            {"trusted_root": None},
            {"trusted_root": []},
            {"quorum": 0},
            {"more": 1},
        )
    ),
    {name: value for name, value in IDENTITIES.items() if name != "trusted_root"},
    {name: value for name, value in IDENTITIES.items() if name != "identities"},
    {name: value for name, value in IDENTITIES.items() if name != "approvers"},
    APPROVAL | {"trusted_root": None},
    {"everything": True, "methods": [], "trusted_root": {}},
    {"everything": True, "methods": []},
    {"everything": False},
    {"methods": []},
    None,
    [],
    *(
        APPROVAL | change
        for change in (
            {"everything": 0},
            {"everything": "no"},
            {"methods": "POST"},
            {"methods": [7]},
            {"approvers": []},
            {"approvers": [ANN.kid[:-1]]},
            {"approvers": [ANN.kid] * 65},
            {"quorum": 0},
            {"quorum": True},
            {"quorum": 65},
            {"ttl": None},
            {"deputies": []},
        )
    ),
)


def of_statement(text: str) -> Any:
    try:
        said = read_statement(text)
    except AffiantError as error:
        return error.code
    return [said.kid, said.action, said.approves, said.made, said.expires, said.via]


def of_approvers(form: bytes) -> Any:
    try:
        named = read_approvers(form)
    except AffiantError:
        return None
    return [sorted(named.kids - named.identities.names), named.quorum]


def told(answer: dict[str, Any]) -> Any:
    return answer["ok"] if "ok" in answer else answer["code"]


def test_statements_are_read_alike(probe: Probe) -> None:
    texts = [jws.sign(ANN, {**SAID, **change}, typ="affiant-approval+jwt") for change in CHANGES]
    texts += [jws.sign(ANN, SAID, typ="affiant-approver+jwt"), "", "a.b.c", "é" + texts[0]]
    found = [told(answer) for answer in probe([question("approval", text.encode()) for text in texts])]
    assert found == [of_statement(text) for text in texts]
    assert sum(isinstance(each, list) for each in found) == 2


def test_any_changed_character_of_a_statement_is_refused_alike(probe: Probe) -> None:
    whole = jws.sign(ANN, SAID, typ="affiant-approval+jwt")
    dice = random.Random(15)
    texts = []
    for place in dice.sample(range(len(whole)), 200):
        other = dice.choice([char for char in "AZaz09-_.=+ " if char != whole[place]])
        texts.append(whole[:place] + other + whole[place + 1 :])
    found = [told(answer) for answer in probe([question("approval", text.encode()) for text in texts])]
    assert found == [of_statement(text) for text in texts] == ["approval.statement"] * len(texts)


def test_who_a_profile_names_is_read_alike(probe: Probe) -> None:
    forms = [canonical({"semantics": "affiant.policy/1", "approval": each}) for each in FORMS]
    forms += [canonical({"semantics": "affiant.policy/1"}), canonical({"semantics": "affiant.policy/2"})]
    forms += [b"", b"[]", b"null", forms[0] + b" ", json.dumps({"semantics": "affiant.policy/1"}).encode()]
    found = [told(answer) for answer in probe([question("approvers", form) for form in forms])]
    assert found == [of_approvers(form) for form in forms]
    assert sum(each is not None for each in found) == 5


def test_the_sessions_of_the_first_verifiers_tests_are_judged_alike(
    judge_all: Callable[[Sequence[Question]], Verdicts],
) -> None:
    module = asked_of("test_approval_checks")
    cases = recorded(module, judging=module, asking=lambda question: question)
    states = set()
    for case, answer in zip(cases, judge_all([case.question for case in cases]), strict=True):
        one = next(check.to_json() for check in case.verdict.checks if check.code == "apr.bound")
        other = next(check for check in answer["checks"] if check["code"] == "apr.bound")
        names = ("state", "tier", "reason", "where", "level")
        assert [one[name] for name in names] == [other[name] for name in names], case.name
        states.add(one["state"])
    assert states == {"held", "refused", "not made"}


def test_of_what_identities_approved_the_second_verifier_says_nothing(
    judge_all: Callable[[Sequence[Question]], Verdicts],
) -> None:
    module = asked_of("test_identity_approvals")
    asked = {
        "test_what_a_key_and_an_identity_approved_holds",
        "test_one_identity_in_two_records_is_one_approver",
        "test_a_signature_that_the_bundle_does_not_carry_is_not_judged",
    }
    others = frozenset(name for name in vars(module) if name.startswith("test_")) - asked
    cases = recorded(module, judging=module, asking=lambda question: question, without=others)
    answers = judge_all([case.question for case in cases])
    told = {
        next(check["state"] for check in answer["checks"] if check["code"] == "apr.bound")
        for answer in answers
    }
    assert told == {"not made"}
    states = {
        row.to_json()["state"] for case in cases for row in case.verdict.checks if row.code == "apr.bound"
    }
    assert states == {"held", "refused", "not made"}
