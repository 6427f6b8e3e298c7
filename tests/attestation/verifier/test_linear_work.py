"""The work of a verification grows as the length of its bundle does: counted in lines that are run, not in seconds."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest
from tests.attestation.period_builder import build
from tests.attestation.shared_gateway import SharedGateway
from tests.attestation.story import NOW, Clock, Issued, Story, trust
from tests.attestation.verifier.checks.test_erasure_checks import AUTHORITY, Ordered

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.bundle.period.layout import object_name
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.erasure.orders import sign_order
from affiant.attestation.verdict.verdict import Finding
from affiant.attestation.verifier import verify_bundle as verify_bundle_module
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.period.verify_period import examine_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import CHECKS, Row, verify_bundle

MAX_GROWTH = 2.3
"""Of the steps for twice the length; quadratic work would be 4."""
FEW = 50
LAST_BYTE = "attestation/bundle/period/deflate_end.py:last_byte"
BY_CHANCE = (f"{LAST_BYTE}.<locals>.<genexpr>", "attestation/bundle/period/deflate_end.py:_matters")
"""How many bits of a member's last byte are looked at, the compressed data decide: eight at most."""


def steps(data: bytes) -> Counter[str]:
    """Lines of affiant's own code that are run for each check, and for all together (``all``)."""
    count: Counter[str] = Counter()
    current = "before"

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            count["all"] += 1
            count[current] += 1
        return line

    def call(frame: FrameType, _event: str, _argument: object) -> Any:
        return line if "/affiant/" in frame.f_code.co_filename else None

    def named(row: Row) -> Row:
        def examine(case: Case) -> Finding:
            nonlocal current
            current = row.code
            return row.examine(case)

        return replace(row, examine=examine)

    before = sys.gettrace()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_bundle_module, "CHECKS", [named(row) for row in CHECKS])
        sys.settrace(call)
        try:
            judged(data)
        finally:
            sys.settrace(before)
    return count


def by_function(work: Callable[[], object]) -> Counter[str]:
    """Lines of affiant's own code that ``work`` runs, by function."""
    count: Counter[str] = Counter()

    def line(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            count[f"{frame.f_code.co_filename.rpartition('/affiant/')[2]}:{frame.f_code.co_qualname}"] += 1
        return line

    def call(frame: FrameType, _event: str, _argument: object) -> Any:
        return line if "/affiant/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def judged(data: bytes) -> int:
    accepted = trust(erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}])
    return verify_bundle(data, accepted, verifiers=STANDARD_VERIFIERS, at=NOW, build="b").exit_code


class Long(Story):
    """A session with many requests, intents, outcomes and refusals."""

    rounds: int = 1

    def by_supervisor(self, step, kind, members, hidden=None, **more):
        found = super().by_supervisor(step, kind, members, hidden, **more)
        if step == "egress-refusal":
            for number in range(self.rounds):
                self._once(number)
        return found

    def _once(self, number: int) -> None:
        pol = {"pol": self._pol()}
        intent = {"act": {"typ": "tool"}, "ph": "intent", **pol}
        begun = super().by_supervisor(f"tool-{number}", "tool", intent)
        outcome = {
            "act": {"typ": "tool", "end": "complete"},
            "ph": "outcome",
            "par": [begun.payload["jti"]],
            **pol,
        }
        super().by_supervisor(f"done-{number}", "tool", outcome)
        asked = {"req": {"m": "POST", "p": "/v1/chat/completions"}, "res": {"st": 403, "end": "complete"}}
        self.by_gateway(
            f"refused-{number}", "refusal", {"rsn": "policy.model", "pol": self._pol("deny"), **asked}
        )


class Slow(Clock):
    """So that however many records lie between two epochs."""

    def step(self, _seconds: float = 1) -> None:
        super().step(0.002)


def long(rounds: int) -> bytes:
    story = Long(clock=Slow())
    story.rounds = rounds
    return story.bytes()


def many(sessions: int) -> bytes:
    """Sessions that are open, each with its gateway; none is in a log."""
    bundles = []
    for _ in range(sessions):
        story = Story().tell()
        bundle, receipts = story.bundle(), [*story.gateway_records[:-1], *story.session_records]
        bundles.append((bundle, tuple(each.sdjwt for each in receipts)))
    maps = ("keysets", "evidence", "endorsements", "results", "policies")
    both = {name: {k: v for one, _ in bundles for k, v in getattr(one, name).items()} for name in maps}
    return Bundle(receipts=tuple(text for _, texts in bundles for text in texts), **both).to_bytes()


def erased(sessions: int) -> bytes:
    """Sessions of one gateway, of each of which a record is erased by order."""
    shared, kept, bundles = SharedGateway(clock=Slow()), list[Issued](), list[Bundle]()
    for _ in range(sessions):
        shared.tell()
        bundles.append(shared.bundle())
        gone = next(each for each in shared.of_session() if each.payload["kind"] == "inference")
        made = int(shared.clock.now.timestamp())
        members = {"del": [Ordered.item(cast("Ordered", shared), gone)]}
        aut = sign_order(AUTHORITY, "erasure", members, origin=shared.config.origin, made=made)
        shared.by_gateway("erasure", "erasure", {**members, "aut": aut}, of_session=False)
        kept += [each for each in shared.session_records if each is not gone]
    orders = [each for each in shared.gateway_records if each.payload["kind"] == "erasure"]
    kept += [each for each in shared.gateway_records if each.payload["kind"] != "inference"]
    maps = ("keysets", "evidence", "endorsements", "results", "policies")
    both = {name: {k: v for one in bundles for k, v in getattr(one, name).items()} for name in maps}
    receipts = tuple(each.sdjwt for each in kept)
    return Bundle(receipts=receipts, proofs=shared.proofs_of(orders), **both).to_bytes()


def repeated(times: int) -> bytes:
    """One receipt, again and again."""
    document = json.loads(Story().bytes())
    document["receipts"] += document["receipts"][-1:] * times
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("make", "length", "exit_code"),
    [(long, 40, 40), (many, 8, 40), (erased, 16, 40), (repeated, 400, 20)],
    ids=["long", "many", "erased", "repeated"],
)
def test_twice_the_bundle_is_twice_the_work(
    make: Callable[[int], bytes], length: int, exit_code: int
) -> None:
    one, two = make(length), make(2 * length)
    assert judged(one) == judged(two) == exit_code  # and everything that is imported late is loaded
    once, twice = steps(one), steps(two)
    assert {code: count for code, count in twice.items() if count > MAX_GROWTH * once[code] + FEW} == {}


def of_sessions(sessions: int, folder: Path) -> Path:
    """The period of sessions of one gateway."""
    shared, objects = SharedGateway(clock=Slow()), dict[str, bytes]()
    for _ in range(sessions):
        shared.tell()
        bundle = shared.bundle()
        for name in ("keysets", "evidence", "endorsements", "results", "policies"):
            objects |= {object_name(name, digest): data for digest, data in getattr(bundle, name).items()}
    folder.mkdir()
    return build(folder, shared, records=shared.log, extra=objects)


def test_twice_the_sessions_of_a_period_are_twice_the_work_of_each_function(tmp_path: Path) -> None:
    found = []
    for sessions in (24, 48):  # one full tile of the log, and two
        archive = of_sessions(sessions, tmp_path / str(sessions))
        question = Question(trust=trust(), verifiers=STANDARD_VERIFIERS, at=NOW, build="b")
        assert examine_period(archive, question).verdict.population.started == sessions
        found.append(by_function(lambda: examine_period(archive, question)))  # noqa: B023 - called at once
    once, twice = found
    grown = {
        name: (once[name], count)
        for name, count in twice.items()
        if count > MAX_GROWTH * once[name] + FEW and name not in BY_CHANCE
    }
    assert grown == {}
    assert all(twice[name] <= 8 * twice[LAST_BYTE] for name in BY_CHANCE), (
        "of each last byte at most eight bits"
    )


def test_a_receipt_that_stands_twice_costs_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[object] = []
    name = "affiant.attestation.verifier.checks.receipt_checks.verify_receipt"
    monkeypatch.setattr(name, lambda *given: verified.append(given))
    assert judged(repeated(400)) == 20
    assert verified == []
