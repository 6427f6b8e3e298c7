"""One receipt, one keyset: both verifiers accept the same, and refuse the same for the same reason, though signed."""

from __future__ import annotations

import importlib
import inspect
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.attestation.story import Story
from tests.attestation.verifier_js.recorded import arguments_of
from tests.attestation.verifier_js.test_foundations import Probe, probe, question

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.records.receipt import parse_receipt, verify_receipt
from affiant.attestation.statements.statement import KeysetStatement, parse_statement
from affiant.errors import AffiantError

__all__ = ["probe"]

STORY = Story().tell()

VALUES = (
    None,
    True,
    0,
    -1,
    2**53 - 1,
    "",
    "a",
    "A" * 22,
    "A" * 43,
    "\u0000",
    "\u00e4" * 257,
    [],
    ["x"],
    {},
    {"a": 1},
)


def python_says(text: str, statement: KeysetStatement) -> object:
    try:
        record = verify_receipt(parse_receipt(text), statement)
    except AffiantError as error:
        return error.code
    return [record.rh, record.leaf.to_bytes().hex(), sorted(record.disclosed.values)]


def agree(probe: Probe, cases: list[tuple[str, KeysetStatement]]) -> Counter[str]:
    answers = probe([question("receipt", text.encode(), statement=each.raw) for text, each in cases])
    seen = Counter[str]()
    for (text, statement), answer in zip(cases, answers, strict=True):
        theirs = answer.get("ok") or answer["code"]
        assert theirs == python_says(text, statement), text[:400]
        seen["ok" if "ok" in answer else str(theirs)] += 1
    return seen


def test_every_receipt_of_a_story_is_accepted_alike(probe: Probe) -> None:
    cases = [(record.sdjwt, STORY.gateway_statement) for record in STORY.gateway_records]
    cases += [(record.sdjwt, STORY.session_statement) for record in STORY.session_records]
    crossed = [
        (text, STORY.session_statement if own is STORY.gateway_statement else own) for text, own in cases
    ]
    assert agree(probe, cases) == {"ok": len(cases)}
    assert agree(probe, crossed)["sig.role"] >= 4


def test_every_receipt_of_the_receipts_own_tests_is_judged_alike(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("tests.attestation.records.test_receipt")
    texts: list[str] = []

    def record(text: str) -> object:
        texts.append(text)
        return parse_receipt(text)

    monkeypatch.setattr(module, "parse_receipt", record)
    for name, test in inspect.getmembers(module, inspect.isfunction):
        if (
            name.startswith("test_")
            and test.__module__ == module.__name__
            and not hasattr(test, "hypothesis")
        ):
            for arguments in arguments_of(test):
                test(**arguments)
    dice = random.Random(15)
    whole = module.INFERENCE.sdjwt
    for _ in range(200):
        place = dice.randrange(len(whole))
        texts.append(whole[:place] + dice.choice("AB09-_.~= \n\u00e4") + whole[place + 1 :])
    seen = agree(probe, [(text, module.STATEMENT) for text in texts])
    assert set(seen) >= {
        "ok",
        "fmt.jws",
        "fmt.json",
        "fmt.profile",
        "fmt.encoding",
        "sig.invalid",
        "sig.role",
        "sd.invalid",
    }


def changed(payload: Any, dice: random.Random) -> Iterator[Any]:
    """``payload`` with each member at each depth missing, of another value, and with one more beside it."""
    for name in payload:
        yield {key: value for key, value in payload.items() if key != name}
        for value in dice.sample(VALUES, 3):
            yield {**payload, name: value}
        if isinstance(payload[name], dict):
            yield from ({**payload, name: inner} for inner in changed(payload[name], dice))
        elif isinstance(payload[name], list) and payload[name]:
            yield {**payload, name: [*payload[name], payload[name][0]]}
            if isinstance(payload[name][0], dict):
                yield from ({**payload, name: [inner]} for inner in changed(payload[name][0], dice))
    for name in ("surprise", "__proto__", "constructor", "_sd", "...", "toString"):
        yield {**payload, name: dice.choice(VALUES)}


def test_every_member_of_every_record_is_judged_alike(probe: Probe) -> None:
    """The closed table, by both: what one of them lets through, or refuses, the other does too."""
    dice = random.Random(16)
    cases = []
    for records, statement, signer in (
        (STORY.gateway_records, STORY.gateway_statement, STORY.gateway_signer),
        (STORY.session_records, STORY.session_statement, STORY.session_signer),
    ):
        for record in records:
            variants = list(changed(record.payload, dice))
            for payload in dice.sample(variants, min(50, len(variants))):
                cases.append((jws.sign(signer, payload, typ="eat+jwt") + "~", statement))
    seen = agree(probe, cases)
    assert len(cases) > 500
    assert set(seen) >= {"ok", "fmt.profile", "sig.role"}


def test_keyset_statements_are_judged_alike(probe: Probe) -> None:
    dice = random.Random(17)
    key = Signer.generate()
    statements = [STORY.gateway_statement.raw, STORY.session_statement.raw]
    for raw in list(statements):
        value = parse_canonical(raw)
        statements += [canonical(each) for each in changed(value, dice)]
        for index, entry in enumerate(value["keys"]):
            for other in changed(entry, dice):
                statements.append(
                    canonical({**value, "keys": [*value["keys"][:index], other, *value["keys"][index + 1 :]]})
                )
        jwk = {**public_jwk(key.public_key), "y": b64u(bytes(32))}
        statements.append(canonical({**value, "keys": [{"kid": key.kid, "use": "ear", "jwk": jwk}]}))
    answers = probe([question("statement", raw) for raw in statements])
    accepted = 0
    for raw, answer in zip(statements, answers, strict=True):
        try:
            expected: dict[str, object] = {"ok": parse_statement(raw).keyset_digest}
        except AffiantError as error:
            expected = {"code": error.code}
        assert answer == expected, raw
        accepted += "ok" in answer
    assert 2 < accepted < len(statements) / 2
