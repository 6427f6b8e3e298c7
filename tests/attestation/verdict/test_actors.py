"""Who started, signed, approved and erased: as authentic records say it, bounded, and never as if it were our word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.attestation.story import Story, sha256_name
from tests.attestation.verifier.test_reports import HOSTILE, read
from tests.attestation.verifier.test_verify_bundle import at, judge

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.verdict.actors import Named
from affiant.attestation.verifier.case.actors_met import MAX_EACH, PeopleMet
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render


class Disclosed(Story):
    """The start discloses who started it."""

    def by_gateway(self, step: str, kind: str, members: Any, hidden: Any = None, **more: Any) -> Any:
        if step == "start":
            hidden = {**hidden, "ini": {"sub": self.activation.starter["sub"]}}
        return super().by_gateway(step, kind, members, hidden, **more)


def test_starters_and_signers_are_named_with_their_receipts() -> None:
    story = Disclosed()
    people = judge(story.bytes()).people
    (starter,) = people.started
    assert starter.facts == {"iss": "local", "method": "uid"}, "a salted digest of each session is no name"
    start = next(record for record in story.gateway_records if record.payload["kind"] == "session-start")
    assert (starter.count, starter.receipt) == (1, start.payload["jti"])
    gateway, session = people.signed
    assert gateway.facts["key"] == story.gateway_statement.receipt_kid
    assert gateway.facts["log"] == story.config.origin
    assert session.facts["keyset"] == story.session_statement.keyset_digest
    assert (gateway.count, session.count) == (len(story.gateway_records), len(story.session_records))
    assert {gateway.facts["quote"], session.facts["quote"]} == {"appraised"}
    assert (people.approved, people.erased) == ((), ())


def test_a_starter_who_is_not_disclosed_stays_unnamed() -> None:
    (starter,) = judge(Story().bytes()).people.started
    assert "sub" not in starter.facts


def test_a_signer_whose_quote_does_not_hold_is_not_called_appraised() -> None:
    people = judge(Story(session_mrtd=bytes(48)).bytes()).people
    quotes = {one.facts["role"]: one.facts["quote"] for one in people.signed}
    assert quotes["session"] == "not appraised"


def test_nobody_is_named_by_records_that_are_not_authentic() -> None:
    data = Story().bytes()
    place = data.index(b'"sdjwt"') + 400
    broken = data[:place] + (b"A" if data[place : place + 1] != b"A" else b"B") + data[place + 1 :]
    people = judge(broken).people
    assert not any(those for _, _, those, _ in people.lists())


APPROVAL = {"dig": sha256_name(b"shown"), "kid": "k" * 43, "sig": "s", "exp": 1, "via": "console"}


def approved() -> Story:
    class Approved(Story):
        def close(self) -> None:
            tool = {"act": {"typ": "tool", "end": "complete"}, "pol": self._pol(), "apr": dict(APPROVAL)}
            for _ in range(2):
                self.by_gateway("tool", "tool", dict(tool))
            super().close()

    return Approved()


def test_approvers_are_named_by_key_and_way() -> None:
    (one,) = judge(approved().bytes()).people.approved
    assert one.facts == {"key": "k" * 43, "via": "console"}
    assert one.count == 2


def test_who_approved_by_identity_is_named_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(APPROVAL, "sig", sha256_name(b"a bundle"))
    (one,) = judge(approved().bytes()).people.approved
    assert one.facts == {"identity": "k" * 43, "via": "console"}


def told(kind: str, members: dict[tuple[str, ...], str]) -> Any:
    """A record of ``kind`` as far as people are concerned."""
    nothing = SimpleNamespace(text=lambda _: None)
    return SimpleNamespace(kind=kind, jti="id", member=lambda *path: members.get(path), disclosed=nothing)


def order(header: bytes) -> str:
    return b64u(header) + ".payload.signature"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (order(b'{"alg":"ES256","kid":"authority","typ":"order"}'), "authority"),
        (order(b'{"kid":7}'), ""),
        (order(b"[" * 20_000), ""),
        (order(b"\xff"), ""),
        ("no order", ""),
        ("", ""),
    ],
)
def test_an_authority_is_the_key_that_its_order_names_or_nobody(text: str, key: str) -> None:
    met = PeopleMet()
    met.record(told("erasure", {("aut",): text}))
    assert met.people().erased == (Named({"did": "erasure", "key": key}, 1, "id"),)


def test_a_thousand_starters_are_bounded_and_the_rest_is_counted() -> None:
    met = PeopleMet()
    for number in range(MAX_EACH + 7):
        members = {("ini", "iss"): f"issuer {number}", ("ini", "method"): "x" * 10_000}
        met.record(told("session-start", members))
    people = met.people()
    assert len(people.started) == MAX_EACH
    assert people.more == {"started": 7}
    assert len(people.started[0].facts["method"]) == 255


def test_what_a_bundle_calls_people_stays_text() -> None:
    named = Story(alter=at("start", ini={"iss": HOSTILE, "method": "uid"}))
    verdict = judge(named.bytes())
    assert verdict.people.started[0].facts["iss"] == HOSTILE
    page = render_html(verdict)
    assert "<script" not in page
    read(page)
    assert repr(HOSTILE) in " ".join(render(verdict).split())


def test_every_exception_names_its_receipt_and_is_counted() -> None:
    verdict = judge(Story(alter=at("inference", lim=["tls-passthrough"])).bytes())
    exceptions = list(verdict.exceptions())
    passed = next(each for each in exceptions if each.check.code == "session.decisions")
    assert passed.where in render(verdict)
    assert passed.where in render_html(verdict)
    document = verdict.to_json()["exceptions"]
    assert len(document["shown"]) == len(exceptions) and document["more"] == 0
    assert {"check": "rfs.accepted", "reason": None, "tier": "warning", "where": None} in document["shown"]
