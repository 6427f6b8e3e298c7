"""The desk: what was approved is done once, by whoever came first, in its time, or never."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.approvals.making import (
    ANN,
    BOB,
    CID,
    NOW,
    POLICY,
    SESSION,
    SESSION_KEY,
    desk,
    draft,
    nonce,
    says,
)
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.approvals.action import Action, BoundPath, Draft, tool_draft
from affiant.policy.approvals.queue import MAX_ASKED, MAX_KEPT, MAX_WAITING, TRANSITIONS, ApprovalQueue, Phase


def asked(at: ApprovalQueue, what: Draft | None = None, *, now: float = NOW) -> str:
    return at.ask(what or draft(), nonce=nonce, now=now).action.name


def refused(do) -> str:
    with pytest.raises(AffiantError) as caught:
        do()
    return caught.value.code


def test_an_approved_action_is_claimed_once() -> None:
    at = desk(ANN)
    name = asked(at)
    assert refused(lambda: at.claim(name, now=NOW)) == "approval.pending"
    assert at.decide(says(ANN, name), now=NOW).phase is Phase.APPROVED
    grant = at.claim(name, now=NOW)
    assert [each.kid for each in grant.statements] == [ANN.kid]
    assert refused(lambda: at.claim(name, now=NOW)) == "approval.used"
    at.dispatched(grant)
    at.done(grant)
    assert at.look(name, now=NOW).phase is Phase.DONE
    for again in (at.dispatched, at.done):
        assert refused(lambda again=again: again(grant)) == "approval.used"


def test_of_many_who_claim_at_once_one_wins() -> None:
    for _ in range(20):
        at = desk(ANN)
        name = asked(at)
        at.decide(says(ANN, name), now=NOW)
        start, won = threading.Barrier(8), []

        def claim(at=at, name=name, start=start, won=won) -> None:
            start.wait()
            try:
                won.append(at.claim(name, now=NOW))
            except AffiantError as error:
                assert error.code == "approval.used"  # noqa: PT017 - in a thread

        threads = [threading.Thread(target=claim) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1


def test_several_are_claimed_together_or_none_is() -> None:
    at = desk(ANN)
    drafts = [draft(body=b"%d" % number) for number in range(3)]
    names = [each.action.name for each in at.ask_all(drafts, nonce=nonce, now=NOW)]
    for name in names[:2]:
        at.decide(says(ANN, name), now=NOW)
    assert refused(lambda: at.claim_all(names, now=NOW)) == "approval.pending"
    assert {at.look(name, now=NOW).phase for name in names[:2]} == {Phase.APPROVED}
    at.decide(says(ANN, names[2]), now=NOW)
    assert [each.action.name for each in at.claim_all(names, now=NOW)] == names
    assert refused(lambda: at.claim_all(names[1:], now=NOW)) == "approval.used"


def test_several_are_asked_for_together_or_none_is() -> None:
    at = desk(ANN)
    denied = asked(at)
    at.decide(says(ANN, denied, approves=False), now=NOW)
    large = draft(body=b"x" * 32_500)
    many = [draft(body=b"%d" % number) for number in range(MAX_WAITING + 1)]
    for drafts, code in (
        ([many[0], draft()], "approval.denied"),
        ([many[0], large], "approval.unshowable"),
        (many, "approval.too_many"),
    ):
        assert refused(lambda drafts=drafts: at.ask_all(drafts, nonce=nonce, now=NOW)) == code
        assert [each.action.name for each in at.all(now=NOW)] == [denied]
    first = at.ask_all(many[:2], nonce=nonce, now=NOW)
    again = at.ask_all(many[:3], nonce=nonce, now=NOW)
    assert again[:2] == first


def test_a_quorum_is_of_different_approvers() -> None:
    at = desk(ANN, BOB, CID, quorum=2)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW)
    assert at.decide(says(ANN, name, made=NOW + 1), now=NOW + 1).phase is Phase.PENDING
    assert refused(lambda: at.claim(name, now=NOW)) == "approval.pending"
    assert at.decide(says(BOB, name), now=NOW).phase is Phase.APPROVED
    assert {each.kid for each in at.claim(name, now=NOW).statements} == {ANN.kid, BOB.kid}


def test_one_denial_ends_it_whoever_approved_before() -> None:
    at = desk(ANN, BOB)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW)
    assert at.decide(says(BOB, name, approves=False), now=NOW).phase is Phase.DENIED
    assert refused(lambda: at.claim(name, now=NOW)) == "approval.denied"
    assert refused(lambda: at.decide(says(ANN, name), now=NOW)) == "approval.denied"
    assert refused(lambda: asked(at)) == "approval.denied"  # not asked again while the denial's time lasts
    assert asked(at, now=NOW + 600) != name


def test_what_nobody_approved_in_time_is_denied() -> None:
    at = desk(ANN)
    name = asked(at)
    assert refused(lambda: at.decide(says(ANN, name), now=NOW + 600)) == "approval.expired"
    assert refused(lambda: at.claim(name, now=NOW + 600)) == "approval.expired"
    at = desk(ANN)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW)
    assert refused(lambda: at.claim(name, now=NOW + 600)) == "approval.expired"
    assert at.look(name, now=NOW).phase is Phase.EXPIRED, "a clock that is set back revives nothing"


def test_an_approval_that_ends_sooner_is_not_counted_after_that() -> None:
    at = desk(ANN)
    name = asked(at)
    at.decide(says(ANN, name, expires=NOW + 10), now=NOW)
    assert refused(lambda: at.claim(name, now=NOW + 10)) == "approval.pending"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (lambda name: says(CID, name), "approval.not_an_approver"),
        (lambda name: says(SESSION_KEY, name), "approval.not_an_approver"),
        (lambda name: says(ANN, "sha256:" + "0" * 64), "approval.unknown"),
        (lambda name: says(ANN, name, expires=NOW + 601), "approval.stale"),
        (lambda name: says(ANN, name, expires=NOW), "approval.stale"),
        (lambda name: says(ANN, name, made=NOW + 61), "approval.stale"),
        (lambda name: says(ANN, name, made=NOW - 61), "approval.stale"),
        (lambda name: says(ANN, name) + "A", "approval.statement"),
        (lambda name: "", "approval.statement"),
        (lambda name: "e30.e30.e30", "approval.statement"),
    ],
)
def test_a_statement_that_does_not_count_changes_nothing(statement, code) -> None:
    at = desk(ANN, SESSION_KEY)  # the profile names the session's own key: it does not count all the same
    name = asked(at)
    assert refused(lambda: at.decide(statement(name), now=NOW)) == code
    assert at.look(name, now=NOW).phase is Phase.PENDING


@pytest.mark.parametrize(
    "changes",
    [
        {"session": "t" * 21 + "A"},
        {"policy": "sha384:" + "cd" * 48},
        {"url": "https://api.example.com/v1/y"},
        {"method": "PUT"},
        {"body": b'{"n": 2}'},
        {"headers": ((b"Content-Type", b"text/plain"),)},
        {"secrets": ()},
        {"rules": ("egress/1",)},
    ],
)
def test_any_change_is_another_action_for_which_no_approval_holds(changes) -> None:
    at = desk(ANN)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW)
    other = at.ask(draft(**changes), nonce=nonce, now=NOW)
    assert other.phase is Phase.PENDING
    assert other.action.name != name
    assert refused(lambda: at.claim(other.action.name, now=NOW)) == "approval.pending"


def call(**changes: object) -> Draft:
    members = {
        "session": SESSION,
        "agent": None,
        "policy": POLICY,
        "rules": ("tools/0",),
        "tool": "pay",
        "server": "bank",
        "schema": "sha256:" + "ab" * 32,
        "arguments": '{"amount":1}',
        "paths": (BoundPath("file", "/w/a", b"one"),),
    }
    return tool_draft(**{**members, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": '{"amount":2}'},
        {"arguments": '{"amount":"1"}'},
        {"tool": "refund"},
        {"server": "other"},
        {"schema": "sha256:" + "cd" * 32},
        {"paths": (BoundPath("file", "/w/a", b"two"),)},
        {"paths": (BoundPath("file", "/w/b", b"one"),)},
        {"paths": ()},
        {"rules": ("tools/1",)},
        {"session": "t" * 21 + "A"},
        {"policy": "sha384:" + "cd" * 48},
    ],
)
def test_any_change_of_a_call_or_of_its_tool_is_another_action(changes) -> None:
    at = desk(ANN)
    name = asked(at, call())
    at.decide(says(ANN, name), now=NOW)
    assert asked(at, call()) == name
    other = asked(at, call(**changes))
    assert other != name
    assert refused(lambda: at.claim(other, now=NOW)) == "approval.pending"


def test_the_same_asked_again_is_the_same_while_it_waits_and_another_after_it_was_used() -> None:
    at = desk(ANN)
    name = asked(at)
    assert asked(at, now=NOW + 5) == name
    at.decide(says(ANN, name), now=NOW)
    assert asked(at) == name
    at.claim(name, now=NOW)
    again = asked(at)
    assert again != name
    assert refused(lambda: at.claim(again, now=NOW)) == "approval.pending"
    assert refused(lambda: at.decide(says(ANN, name), now=NOW)) == "approval.used"


def test_whoever_asks_is_no_approver_and_reads_nothing() -> None:
    at = desk(ANN, SESSION_KEY)
    assert [at.may_approve(each.kid) for each in (ANN, SESSION_KEY, BOB)] == [True, False, False]


def test_what_is_said_to_have_begun_without_approval_changes_nothing() -> None:
    at = desk(ANN)
    names = [asked(at, draft(body=b"%d" % number)) for number in range(3)]
    at.decide(says(ANN, names[1], approves=False), now=NOW)
    at.decide(says(ANN, names[2]), now=NOW)
    for name in (*names, "sha256:" + "0" * 64):
        at.observed(name, Phase.DISPATCHED)
        at.observed(name, Phase.DISPATCHED)
    assert [at.look(name, now=NOW).phase.value for name in names] == ["pending", "denied", "dispatched"]


def test_another_desk_knows_no_approval_of_this_one() -> None:
    """After a restart nothing that waited is done: every action has a nonce that the new desk never drew."""
    first, second = desk(ANN), desk(ANN)
    name = asked(first)
    text = says(ANN, name)
    first.decide(text, now=NOW)
    asked(second)
    assert refused(lambda: second.decide(text, now=NOW)) == "approval.unknown"


def test_when_the_session_ends_nothing_waits_any_more() -> None:
    at = desk(ANN)
    names = [asked(at, draft(body=b"%d" % number)) for number in range(4)]
    for name in names[1:]:
        at.decide(says(ANN, name), now=NOW)
    consumed, sent = (at.claim(name, now=NOW) for name in names[2:])
    at.dispatched(sent)
    at.close()
    assert [at.look(name, now=NOW).phase.value for name in names] == [
        "expired",
        "expired",
        "unknown",
        "unknown",
    ]
    for grant in (consumed, sent):
        at.lost(grant)
        assert refused(lambda grant=grant: at.done(grant)) == "approval.used"


def test_what_one_session_asks_for_is_bounded() -> None:
    at = desk(ANN)
    for number in range(MAX_WAITING):
        asked(at, draft(body=b"%d" % number))
    assert refused(lambda: asked(at)) == "approval.too_many"
    at = desk(ANN, ttl=30)
    for number in range(MAX_ASKED):
        asked(at, draft(body=b"%d" % number), now=NOW + number * 30)
    assert refused(lambda: asked(at, now=NOW + 10**6)) == "approval.too_many"


def test_what_one_session_makes_others_keep_is_bounded() -> None:
    at, kept = desk(ANN, ttl=30), 0
    for number in range(MAX_ASKED):
        try:
            asked(at, draft(body=b"%d" % number + b"x" * 30_000), now=NOW + number * 30)
        except AffiantError as error:
            assert error.code == "approval.too_many"
            break
    kept = sum(len(each.action.raw) for each in at.all(now=NOW))
    assert MAX_KEPT - 32_000 < kept <= MAX_KEPT
    elsewhere = desk(ANN, ttl=30)
    mailbox = desk(ANN, ttl=30)
    now = NOW
    with pytest.raises(AffiantError, match="too many"):
        for number in range(MAX_ASKED):
            now += 30
            elsewhere = desk(ANN, ttl=30)
            large = draft(body=b"%d" % number + b"x" * 30_000)
            mailbox.post(elsewhere.ask(large, nonce=nonce, now=now).action, now=now)
    assert len(mailbox.all(now=now)) == len(at.all(now=NOW))


def test_what_was_taken_is_begun_in_its_time_and_in_that_of_its_approvals_only() -> None:
    at = desk(ANN, BOB, CID, quorum=2)
    name = asked(at)
    for who, expires in ((ANN, NOW + 600), (BOB, NOW + 10), (CID, NOW + 20)):
        at.decide(says(who, name, expires=expires), now=NOW)
    grant = at.claim(name, now=NOW)
    at.require_time(grant, now=NOW + 19)
    assert refused(lambda: at.require_time(grant, now=NOW + 20)) == "approval.expired"
    at = desk(ANN)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW)
    grant = at.claim(name, now=NOW)
    at.require_time(grant, now=NOW + 599)
    assert refused(lambda: at.require_time(grant, now=NOW + 600)) == "approval.expired"


def test_an_action_that_somebody_else_asked_for_is_of_this_session_profile_and_time() -> None:
    at, other = desk(ANN), desk(ANN, ttl=601)
    action = at.ask(draft(), nonce=nonce, now=NOW).action
    mailbox = desk(ANN)
    assert mailbox.post(action, now=NOW).phase is Phase.PENDING
    assert mailbox.post(action, now=NOW).action == action
    assert refused(lambda: desk(ANN).post(action, now=NOW + 600)) == "approval.expired"
    ahead = other.ask(draft(), nonce=nonce, now=NOW + 61).action
    assert refused(lambda: other.post(ahead, now=NOW)) == "approval.action"
    longer = other.ask(draft(), nonce=nonce, now=NOW).action
    assert refused(lambda: mailbox.post(longer, now=NOW)) == "approval.action"
    for foreign in (draft(session="t" * 21 + "A"), draft(policy=POLICY.replace("ab", "cd", 1))):
        issued = foreign.issue(nonce=nonce(), made=NOW, not_after=NOW + 600)
        assert refused(lambda issued=issued: mailbox.post(issued, now=NOW)) == "approval.action"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("approve"), st.sampled_from([ANN, BOB, CID])),
        st.tuples(st.just("deny"), st.sampled_from([ANN, BOB, CID])),
        st.tuples(st.just("claim"), st.none()),
        st.tuples(st.just("dispatch"), st.none()),
        st.tuples(st.just("done"), st.none()),
        st.tuples(st.just("wait"), st.integers(0, 400)),
        st.tuples(st.just("close"), st.none()),
    ),
    max_size=12,
)


@thorough(150)
@given(steps=STEPS, quorum=st.integers(1, 2))
def test_whatever_the_order_it_is_sent_at_most_once_and_only_after_a_quorum(steps, quorum) -> None:
    at, now = desk(ANN, BOB, quorum=quorum), NOW
    name = asked(at)
    agreed, denied, grants, sent, phases = set(), False, [], 0, [Phase.PENDING]
    for what, of in steps:
        try:
            match what:
                case "approve":
                    at.decide(says(of, name, made=now, expires=NOW + 600), now=now)
                    agreed.add(of.kid)
                case "deny":
                    at.decide(says(of, name, approves=False, made=now, expires=NOW + 600), now=now)
                    denied = True
                case "claim":
                    grants.append(at.claim(name, now=now))
                    assert len(agreed) >= quorum
                    assert CID.kid not in agreed
                    assert not denied
                    assert now < NOW + 600
                case "dispatch" if grants:
                    at.dispatched(grants[0])
                    sent += 1
                case "done" if grants:
                    at.done(grants[0])
                case "wait":
                    now += of
                case "close":
                    at.close()
        except AffiantError:
            pass
        phases.append(at.look(name, now=now).phase)
    assert len(grants) <= 1
    assert sent <= len(grants)
    for before, after in zip(phases, phases[1:], strict=False):
        assert before is after or after in TRANSITIONS[before] or Phase.EXPIRED is after


def test_what_waits_when_the_profile_is_narrowed_is_never_done() -> None:
    at = desk(ANN, BOB)
    waiting, approved, taken = (asked(at, draft(body=body)) for body in (b"1", b"2", b"3"))
    for name in (approved, taken):
        at.decide(says(ANN, name), now=NOW)
    at.claim(taken, now=NOW)
    narrower = desk(ANN, ttl=60)
    at.narrow(policy="sha384:" + "d" * 96, approval=narrower.approval)
    phases = [at.look(name, now=NOW).phase for name in (waiting, approved, taken)]
    assert phases == [Phase.EXPIRED, Phase.EXPIRED, Phase.UNKNOWN]
    assert refused(lambda: at.claim(approved, now=NOW)) == "approval.expired"
    assert refused(lambda: at.decide(says(ANN, waiting), now=NOW)) == "approval.expired"
    again = asked(at, draft(body=b"2"))
    assert again != approved
    assert at.look(again, now=NOW).action.not_after == int(NOW) + 60
    assert (
        refused(lambda: at.decide(says(BOB, again, expires=NOW + 60), now=NOW)) == "approval.not_an_approver"
    )
    assert at.decide(says(ANN, again, expires=NOW + 60), now=NOW).phase is Phase.APPROVED


def test_after_a_narrowing_only_actions_of_the_narrower_profile_are_taken() -> None:
    at, other = desk(ANN), "sha384:" + "d" * 96
    at.narrow(policy=other, approval=at.approval)

    def made(policy: str) -> Action:
        return draft(policy=policy).issue(nonce=nonce(), made=NOW, not_after=NOW + 600)

    assert refused(lambda: at.post(made(POLICY), now=NOW)) == "approval.action"
    assert at.post(made(other), now=NOW).phase is Phase.PENDING


def test_nothing_that_was_taken_can_be_taken_again() -> None:
    taken = {Phase.CONSUMED, Phase.DISPATCHED, Phase.DONE, Phase.UNKNOWN, Phase.DENIED, Phase.EXPIRED}
    for before in taken:
        assert not TRANSITIONS[before] & {before, Phase.PENDING, Phase.APPROVED, Phase.CONSUMED}
