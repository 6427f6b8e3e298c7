"""Records erased by order and held ones, as a verifier finds them; the published vectors hold the other cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.story import NOW, REQUEST, Issued, Story, link, new_id, reference_bytes, trust
from tests.attestation.verifier.test_verify_bundle import CutOff

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.erasure.orders import sign_order
from affiant.attestation.statements.gateway_config import DEV_ECHO, make_gateway_config
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.report.text import render
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle

AUTHORITY = Signer(ec.derive_private_key(21, ec.SECP256R1()))


class Ordered(Story):
    """The usual session; ``orders`` come after its close."""

    orders: Callable[[Ordered], None] = staticmethod(lambda story: None)  # type: ignore[assignment]

    def close(self) -> None:
        super().close()
        type(self).orders(self)

    def order(self, kind: str, members: dict[str, object]) -> Issued:
        made = int(self.clock.now.timestamp())
        aut = sign_order(AUTHORITY, kind, members, origin=self.config.origin, made=made)
        return self.by_gateway(kind, kind, {**members, "aut": aut}, of_session=False)

    def item(self, record: Issued, level: int = 2) -> dict[str, object]:
        claims = record.payload
        agt = {"ses": self.session}
        if claims["role"] == "gateway":
            agt["seq"] = claims["agt"]["seq"]
        place = {"chn": claims["chn"], "seq": claims["seq"], "rh": record.rh}
        return {**place, "lvl": level, "basis": "an order", "agt": agt}

    def the(self, kind: str) -> Issued:
        return next(r for r in self.of_session() if r.payload["kind"] == kind)


def judge(bundle: Bundle, **more: object) -> Verdict:
    accepted = trust(erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}])
    return verify_bundle(
        bundle.to_bytes(), accepted, verifiers=STANDARD_VERIFIERS, at=NOW, build="build", **more
    )


def row(verdict: Verdict, code: str) -> Check:
    return next(check for check in verdict.checks if check.code == code)


def without(bundle: Bundle, *gone: Issued) -> Bundle:
    hashes = {record.jws for record in gone}
    kept = tuple(text for text in bundle.receipts if text.partition("~")[0] not in hashes)
    return Bundle(
        receipts=kept,
        proofs=bundle.proofs,
        **{
            name: getattr(bundle, name)
            for name in ("keysets", "evidence", "endorsements", "results", "policies", "checkpoints")
        },
    )


def beside(one: Bundle, other: Bundle) -> Bundle:
    """Both in one bundle."""
    names = ("keysets", "evidence", "endorsements", "results", "policies", "proofs")
    joined = {name: {**getattr(one, name), **getattr(other, name)} for name in names}
    return replace(one, receipts=one.receipts + other.receipts, **joined)


def story_with(orders: Callable[[Ordered], None]) -> Ordered:
    return type("Told", (Ordered,), {"orders": staticmethod(orders)})().tell()


def test_a_session_without_one_record_that_was_ordered_to_go_is_a_warning_and_says_so() -> None:
    story = story_with(lambda told: told.order("erasure", {"del": [told.item(told.the("inference"))]}))
    verdict = judge(without(story.bundle(), story.the("inference")), request=REQUEST)
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    for code in ("erasure.authority", "chain.contiguous", "session.close", "session.counter", "body.request"):
        assert row(verdict, code).tier is Tier.WARNING, row(verdict, code)
    assert "erased by order" in render(verdict) and "deleted" not in render(verdict)


def test_a_body_that_a_receipt_commits_to_holds_whatever_else_was_erased() -> None:
    story = story_with(lambda told: told.order("erasure", {"del": [told.item(told.the("refusal"))]}))
    verdict = judge(without(story.bundle(), story.the("refusal")), request=REQUEST)
    assert row(verdict, "erasure.authority").tier is Tier.WARNING
    assert (row(verdict, "body.request").state, row(verdict, "body.request").tier) == (
        State.HELD,
        Tier.AFFIRMING,
    )


def test_every_content_record_of_a_session_may_be_gone() -> None:
    kinds = ("inference", "refusal", "exec", "egress", "secret")

    def contents(told: Ordered) -> list[Issued]:
        records = [*told.of_session(), *told.session_records]
        return [record for record in records if record.payload["kind"] in kinds]

    story = story_with(lambda told: told.order("erasure", {"del": [told.item(r) for r in contents(told)]}))
    verdict = judge(without(story.bundle(), *contents(story)))
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []


@pytest.mark.parametrize("beyond", [0, 2])
def test_the_record_that_a_lost_sessions_close_names_as_its_supervisors_last_may_be_gone(beyond: int) -> None:
    """The supervisor died after it had signed ``beyond`` records more than were acknowledged."""
    acknowledged = 6 - beyond

    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [told.item(told.session_records[acknowledged - 1])]})

    members = {"orders": staticmethod(orders), "acknowledged": acknowledged}
    story = type("Told", (Ordered, CutOff), members)().tell()
    verdict = judge(without(story.bundle(), story.session_records[acknowledged - 1]))
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    assert row(verdict, "session.close").tier is Tier.WARNING


def test_a_lost_sessions_close_that_names_another_record_than_the_erased_one_is_refused() -> None:
    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [told.item(told.session_records[5])]})

    story = type("Told", (Ordered, CutOff), {"orders": staticmethod(orders), "acknowledged": 6})()
    story.alter = lambda name, said: (
        {**said, "sup": {**said["sup"], "rh": link("another")}} if name == "close" else said
    )
    story.tell()
    found = row(judge(without(story.bundle(), story.session_records[5])), "session.close")
    assert (found.state, found.reason) == (State.REFUSED, "session.close")


def test_one_more_record_than_was_ordered_is_a_gap() -> None:
    story = story_with(lambda told: told.order("erasure", {"del": [told.item(told.the("inference"))]}))
    verdict = judge(without(story.bundle(), story.the("inference"), story.the("refusal")))
    assert row(verdict, "chain.contiguous").reason == "chain.gap"
    assert row(verdict, "session.order").state is State.REFUSED


def test_an_order_excuses_no_second_request_without_a_record() -> None:
    """The supervisor signed for two requests; one record is gone by order, the other was never there."""

    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [told.item(told.the("inference"))]})

    story = type("Told", (Ordered,), {"orders": staticmethod(orders)})(alter=_with_more_requests).tell()
    verdict = judge(without(story.bundle(), story.the("inference")))
    assert row(verdict, "session.counter").state is State.REFUSED


def _with_more_requests(step: str, members: dict[str, object]) -> dict[str, object]:
    return {**members, "cseq": 3} if step == "session-end" else members


def test_an_order_excuses_no_request_beyond_the_last() -> None:
    """As many records are gone as requests are wrong; but one that the supervisor never counted is no erased one."""

    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [told.item(told.session_records[1])]})

    story = type("Told", (Ordered,), {"orders": staticmethod(orders)})(alter=_with_fewer_requests).tell()
    found = row(judge(without(story.bundle(), story.session_records[1])), "session.counter")
    assert (found.state, found.reason) == (State.REFUSED, "session.counter")


def _with_fewer_requests(step: str, members: dict[str, object]) -> dict[str, object]:
    return {**members, "cseq": 0} if step == "session-end" else members


def linked(link_of: Callable[[Ordered], dict[str, object]], step: str, *, gone: int) -> Verdict:
    """A session with ``peer`` of one of the gateway's records changed, and a supervisor's record erased by order."""

    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [told.item(told.session_records[gone])]})

    story = type("Told", (Ordered,), {"orders": staticmethod(orders)})()
    story.alter = lambda name, members: (
        {**members, "peer": {**members["peer"], **link_of(story)}} if name == step else members
    )
    story.tell()
    return judge(without(story.bundle(), story.session_records[gone]))


@pytest.mark.parametrize(("step", "gone"), [("refusal", 1), ("close", -1)])
def test_a_link_to_an_erased_record_is_held_to_what_the_order_says_of_it(step: str, gone: int) -> None:
    assert row(linked(lambda _: {}, step, gone=gone), "session.peer").state is State.HELD
    for other in ({"chn": new_id()}, {"seq": 0}, {"seq": 9}, {"rh": link("another")}):
        found = row(linked(lambda _, other=other: other, step, gone=gone), "session.peer")
        assert (found.state, found.reason) == (State.REFUSED, "session.peer")


def test_a_link_back_to_an_erased_record_is_a_link_that_goes_back() -> None:
    found = row(
        linked(lambda told: {"seq": 0, "rh": told.session_records[0].rh}, "refusal", gone=0), "session.peer"
    )
    assert (found.state, found.reason) == (State.REFUSED, "session.peer")


@pytest.mark.parametrize("level", [1, 2, 3])
def test_two_orders_that_name_two_records_of_one_number_excuse_neither(level: int) -> None:
    """One of them names what was never there; which one, nobody can tell who has not the record."""

    def orders(told: Ordered) -> None:
        lost = {**told.item(told.the("inference"), level), "chn": new_id(), "seq": 7}
        told.order("erasure", {"del": [lost]})
        told.order("erasure", {"del": [{**lost, "rh": link("another record")}]})

    assert row(judge(story_with(orders).bundle()), "erasure.authority").reason == "chain.gap"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_one_record_may_be_named_twice(level: int) -> None:
    def orders(told: Ordered) -> None:
        lost = {**told.item(told.the("inference"), level), "chn": new_id(), "seq": 7}
        for _ in range(2):
            told.order("erasure", {"del": [lost]})

    assert row(judge(story_with(orders).bundle()), "erasure.authority").tier is Tier.WARNING


def test_an_order_in_one_log_erases_nothing_of_another() -> None:
    """Whoever has a log of his own would else erase what his neighbour logged."""
    config = make_gateway_config(
        iss="urn:affiant:gateway:other",
        cls="simulated",
        origin="another.log.invalid",
        reference=sha256_name(reference_bytes()),
        upstreams=[DEV_ECHO],
    )
    other = Story(config=config).tell()
    record = next(r for r in other.gateway_records if r.payload["kind"] == "inference")
    foreign = {"chn": record.payload["chn"], "seq": record.payload["seq"], "rh": record.rh}

    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [{**told.item(told.the("inference")), **foreign}]})

    ours = story_with(orders).bundle()
    assert row(judge(ours), "erasure.authority").tier is Tier.WARNING
    assert row(judge(beside(ours, other.bundle())), "erasure.authority").reason == "chain.gap"
    own = story_with(lambda told: told.order("erasure", {"del": [told.item(told.the("inference"))]}))
    assert row(judge(beside(own.bundle(), other.bundle())), "erasure.authority").tier is Tier.WARNING


def test_a_chain_may_be_pruned_further_by_a_later_order() -> None:
    def orders(told: Ordered) -> None:
        chn = new_id()
        for seq in (7, 9, 8):
            lost = {"chn": chn, "seq": seq, "rh": link(f"record {seq}"), "lvl": 3, "basis": "a plan"}
            told.order("erasure", {"del": [lost]})

    found = row(judge(story_with(orders).bundle()), "erasure.authority")
    assert found.tier is Tier.WARNING
    assert "1 chains to be pruned" in found.detail


def test_holds_are_judged_only_where_the_log_shows_their_order() -> None:
    def orders(told: Ordered) -> None:
        told.order("hold", {"tgt": told.session, "basis": "a lawsuit"})

    bundle = story_with(orders).bundle()
    verdict = judge(replace(bundle, proofs=dict.fromkeys(bundle.proofs, "no proof")))
    assert row(verdict, "erasure.authority").state is State.HELD
    assert row(verdict, "log.inclusion").state is State.REFUSED
    assert (row(verdict, "hold.respected").state, row(verdict, "hold.respected").tier) == (
        State.NOT_MADE,
        Tier.NONE,
    )


def test_a_chain_may_be_pruned_up_to_the_record_before_a_held_one() -> None:
    """What is held is the record, and every order that would take it."""

    def up_to(step: int) -> Callable[[Ordered], None]:
        def orders(told: Ordered) -> None:
            of_chain = told.session_records
            told.order("hold", {"tgt": of_chain[2].rh, "basis": "a lawsuit"})
            item = told.item(of_chain[step], level=3)
            told.order("erasure", {"del": [item]})

        return orders

    assert row(judge(story_with(up_to(1)).bundle()), "hold.respected").tier is Tier.AFFIRMING
    for step in (2, 3):
        assert row(judge(story_with(up_to(step)).bundle()), "hold.respected").reason == "hold.broken"


def test_a_held_record_is_not_taken_by_the_erasure_of_a_later_one() -> None:
    def orders(told: Ordered) -> None:
        told.order("hold", {"tgt": told.session_records[1].rh, "basis": "a lawsuit"})
        told.order("erasure", {"del": [told.item(told.session_records[3])]})
        told.order("erasure", {"del": [told.item(told.the("refusal"), level=3)]})

    assert row(judge(story_with(orders).bundle()), "hold.respected").tier is Tier.AFFIRMING


@pytest.mark.parametrize("seq", [(1 << 53) - 1, 1 << 40])
def test_absurd_numbers_cost_nothing(seq: int) -> None:
    def orders(told: Ordered) -> None:
        lost = {**told.item(told.the("inference")), "seq": seq}
        del lost["agt"]
        told.order("erasure", {"del": [lost]})

    verdict = judge(story_with(orders).bundle())
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []


def test_a_hold_of_something_else_forbids_nothing() -> None:
    def orders(told: Ordered) -> None:
        told.order("hold", {"tgt": link("another record"), "basis": "a lawsuit"})
        told.order("erasure", {"del": [told.item(told.the("inference"))]})

    story = story_with(orders)
    assert (
        row(judge(without(story.bundle(), story.the("inference"))), "hold.respected").tier is Tier.AFFIRMING
    )


@pytest.mark.parametrize("target", ["session", "record", "supervisor's"])
def test_erasing_what_is_held_is_contraindicated(target: str) -> None:
    def orders(told: Ordered) -> None:
        record = told.session_records[1] if target == "supervisor's" else told.the("inference")
        held = record.rh if target == "record" else told.session
        told.order("hold", {"tgt": held, "basis": "a lawsuit"})
        item = told.item(record, level=1)
        if target == "supervisor's":
            del item["agt"]  # its chain is the session's all the same
        told.order("erasure", {"del": [item]})

    verdict = judge(story_with(orders).bundle())
    assert row(verdict, "hold.respected").reason == "hold.broken"
    assert verdict.exit_code == 20


def test_erasing_before_the_hold_and_after_its_end_is_allowed() -> None:
    def orders(told: Ordered) -> None:
        told.order("erasure", {"del": [told.item(told.the("inference"))]})
        hold = told.order("hold", {"tgt": told.session, "basis": "a lawsuit"})
        told.order("hold", {"tgt": told.session, "basis": "settled", "rel": hold.rh})
        told.order("erasure", {"del": [told.item(told.the("refusal"))]})

    story = story_with(orders)
    verdict = judge(without(story.bundle(), story.the("inference"), story.the("refusal")))
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
