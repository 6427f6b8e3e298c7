"""Sessions whose profile was narrowed: each fact of a narrowing wrong, signed again, and refused for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.narrowed_story import NarrowedStory, digest_of, normal_form
from tests.attestation.story import NOW, POLICY_DIGEST, Story, link, trust

from affiant.attestation.bundle.bundle import objects_by_digest
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.receipt import Issued
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.attestation.tdx.event_log.eventlog import Event
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.judged_now import examine_now
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import examine_bundle, verify_bundle

OTHER = sha256_name(b"something else")
OTHER_PROFILE = digest_of(normal_form(99))
Made = Callable[[], bytes]


def judge(data: bytes, **changes: object) -> Verdict:
    return verify_bundle(data, trust(**changes), verifiers=STANDARD_VERIFIERS, at=NOW, build="build")


def row(verdict: Verdict, code: str) -> Check:
    return next(check for check in verdict.checks if check.code == code)


def refused(verdict: Verdict) -> dict[str, str]:
    return {check.code: str(check.reason) for check in verdict.checks if check.state is State.REFUSED}


def at(step: str, **changes: object) -> Callable[[str, dict[str, object]], dict[str, object]]:
    """An ``alter`` that changes members of one step; ``a__b`` reaches into ``a``."""

    def alter(name: str, members: dict[str, object]) -> dict[str, object]:
        if name == step:
            for path, value in changes.items():
                outer, _, inner = path.partition("__")
                members[outer] = {**members[outer], inner: value} if inner else value
        return members

    return alter


@pytest.mark.parametrize("count", [1, 2])
def test_a_narrowed_session_is_judged_like_any_other(count: int) -> None:
    verdict = judge(NarrowedStory(count=count).bytes())
    usual = judge(Story().bytes())
    assert refused(verdict) == {}
    assert {c.code: (c.state, c.tier) for c in verdict.checks} == {
        c.code: (c.state, c.tier) for c in usual.checks
    }
    assert verdict.exit_code == 40


def test_the_findings_say_how_many_narrowings_there_were() -> None:
    verdict = judge(NarrowedStory().bytes())
    assert "restricted 2 times, bound in RTMR3" in row(verdict, "pol.bound").detail
    assert "restricted 2 times since" in row(verdict, "pol.accepted").detail
    assert "not compared here" in row(verdict, "pol.accepted").detail
    assert row(verdict, "tee.appraisal").detail.startswith("4 quotes")
    assert "2 quoted again" in row(verdict, "key.evidence").detail
    for code in ("pol.bound", "pol.accepted", "key.evidence"):
        assert "narrow" not in row(judge(Story().bytes()), code).detail


def test_a_gateway_may_go_on_before_it_has_the_supervisors_record() -> None:
    verdict = judge(NarrowedStory(steps=("narrow", "answer", "policy")).bytes())
    assert refused(verdict) == {}


def test_an_epoch_without_an_answer_is_appraised_with_the_collateral_before() -> None:
    story = NarrowedStory(steps=("narrow", "policy")).tell()
    bundle = replace(story.bundle(), results=objects_by_digest([story.ears[0].encode()]))
    verdict = judge(bundle.to_bytes())
    assert refused(verdict) == {}
    assert row(verdict, "tee.appraisal").state is State.HELD


# -- key.evidence -------------------------------------------------------------------------------------------------


class Unrecorded(NarrowedStory):
    """The evidence changes, and no record says why."""

    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.steps, self.count = ("narrow", "answer"), 1


class GoneBack(NarrowedStory):
    """After the second narrowing the supervisor names the evidence of the first again."""

    def _answer(self, number: int, *, step: str = "answer") -> None:
        if number == 2:
            self.supervisor.evd = link_of(self.evidences[1])
        super()._answer(number, step=step)


def link_of(evidence: bytes) -> str:
    return link(evidence.decode())


class BackByNarrowing(NarrowedStory):
    """A narrowing to the evidence that the session was admitted with."""

    def _policy(self, number: int) -> None:
        if number == 2:
            self.supervisor.evd = link_of(self.evidences[0])
        super()._policy(number)


class SameEvidence(NarrowedStory):
    """A record of a narrowing, and no quote after it."""

    def _narrow(self, number: int) -> None:
        before = self.supervisor.evd
        super()._narrow(number)
        self.supervisor.evd = before


def other_keyset(_epoch: int, statement: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    statement["epoch_s"] = 61
    return parts


def same_nonce(_epoch: int, statement: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    statement["nonce"] = link("nonce")
    return parts


def other_manifest(_epoch: int, _: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    return parts | {"manifest": parts["manifest"].replace(b"host-usr", b"sha256:" + b"1" * 64)}


def other_activation(_epoch: int, _: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    return parts | {"activation": parts["activation"].replace(b'"uid"', b'"pid"')}


EVIDENCE: dict[str, Made] = {
    "changes without a record": lambda: Unrecorded().bytes(),
    "goes back": lambda: GoneBack().bytes(),
    "goes back by a narrowing": lambda: BackByNarrowing().bytes(),
    "does not change": lambda: SameEvidence().bytes(),
    "of another keyset": lambda: NarrowedStory(quote=other_keyset).bytes(),
    "over the nonce of before": lambda: NarrowedStory(quote=same_nonce).bytes(),
    "with another manifest": lambda: NarrowedStory(quote=other_manifest).bytes(),
    "with another activation": lambda: NarrowedStory(quote=other_activation).bytes(),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_evidence_changes_at_narrowings_alone_each_to_a_new_one_of_the_same_keys(name: str) -> None:
    assert refused(judge(EVIDENCE[name]())) == {"key.evidence": "key.unbound"}


def test_a_gateways_evidence_never_changes() -> None:
    class Other(NarrowedStory):
        def close(self) -> None:
            self.gateway.evd = self.supervisor.evd
            super().close()

    assert refused(judge(Other().bytes())) == {"key.evidence": "key.unbound"}


def test_an_evidence_that_is_not_here_is_not_judged() -> None:
    story = NarrowedStory().tell()
    bundle = replace(
        story.bundle(), evidence=objects_by_digest([story.gateway_evidence, *story.evidences[:2]])
    )
    verdict = judge(bundle.to_bytes())
    assert refused(verdict) == {}
    assert row(verdict, "key.evidence").state is State.NOT_MADE


# -- pol.bound ----------------------------------------------------------------------------------------------------


class GatewayGoesBack(NarrowedStory):
    """Before the close, a refusal of the epoch before."""

    def close(self) -> None:
        kept, self.session_evidence = self.session_evidence, self.evidences[1]
        self.by_gateway("late", "refusal", {"pol": self._pol("deny", epoch=1), "rsn": "policy.model"})
        self.session_evidence = kept
        super().close()


class GatewayWavers(NarrowedStory):
    """The gateway goes by the new profile and by the old again, before it has the supervisor's record of it."""

    def _waver(self, number: int) -> None:
        kept, self.session_evidence = self.session_evidence, self.evidences[number - 1]
        self.by_gateway(
            "late", "refusal", {"pol": self._pol("deny", epoch=number - 1), "rsn": "policy.model"}
        )
        self.session_evidence = kept


class GatewayBehind(NarrowedStory):
    """The gateway has the supervisor's record of a narrowing, and answers under the profile before it."""

    def _answer(self, number: int, *, step: str = "answer") -> None:
        kept = self.session_evidence, self.ears, self.narrowings
        self.session_evidence, self.ears, self.narrowings = (
            self.evidences[-2],
            self.ears[:-1],
            self.narrowings[:-1],
        )
        super()._answer(number, step=step)
        self.session_evidence, self.ears, self.narrowings = kept


class GatewayAhead(NarrowedStory):
    """The supervisor did not get the gateway's answer, and ended the session without a record of the narrowing."""

    def close(self) -> None:
        self._narrow(3)
        super().close()


class GatewayFarAhead(NarrowedStory):
    """A gateway that went on twice, the second time without the record of the first."""

    def close(self) -> None:
        self._narrow(3)
        self.by_gateway("between", "refusal", {"pol": self._pol("deny"), "rsn": "policy.model"})
        self._narrow(4)
        super().close()


POLICY: dict[str, tuple[Made, str]] = {
    "another old": (
        lambda: NarrowedStory(alter=at("policy-1", old=OTHER_PROFILE)).bytes(),
        "narrowing.order",
    ),
    "old of the first": (
        lambda: NarrowedStory(alter=at("policy-2", old=POLICY_DIGEST)).bytes(),
        "narrowing.order",
    ),
    "epoch skipped": (lambda: NarrowedStory(alter=at("policy-2", pol__epoch=3)).bytes(), "narrowing.order"),
    "epoch repeated": (lambda: NarrowedStory(alter=at("policy-2", pol__epoch=1)).bytes(), "narrowing.order"),
    "the first profile again": (
        lambda: NarrowedStory(alter=at("policy-2", pol__dig=POLICY_DIGEST)).bytes(),
        "narrowing.order",
    ),
    "another file": (lambda: NarrowedStory(alter=at("answer-1", pol__fil=OTHER)).bytes(), "pol.unbound"),
    "another profile": (
        lambda: NarrowedStory(alter=at("answer-1", pol__dig=OTHER_PROFILE)).bytes(),
        "pol.unbound",
    ),
    "another binding": (
        lambda: NarrowedStory(alter=at("answer-1", pol__bind="mrconfigid")).bytes(),
        "pol.unbound",
    ),
    "rtmr3 from the start": (
        lambda: NarrowedStory(alter=at("start", pol__bind="rtmr3")).bytes(),
        "pol.unbound",
    ),
    "an epoch too many": (lambda: NarrowedStory(alter=at("answer-2", pol__epoch=3)).bytes(), "pol.unbound"),
    "an epoch too few": (lambda: NarrowedStory(alter=at("answer-2", pol__epoch=1)).bytes(), "pol.unbound"),
    "an epoch of a session never narrowed": (
        lambda: Story(alter=at("inference", pol__epoch=1)).bytes(),
        "pol.unbound",
    ),
    "the supervisor ahead": (lambda: NarrowedStory(alter=at("secret", pol__epoch=1)).bytes(), "pol.unbound"),
    "the supervisor ahead, by the next profile": (
        lambda: NarrowedStory(
            alter=at(
                "secret",
                pol__epoch=1,
                pol__dig=digest_of(normal_form(1)),
                pol__fil=sha256_name(b"profiles.yaml 1"),
                pol__bind="rtmr3",
            )
        ).bytes(),
        "pol.unbound",
    ),
    "the gateway goes back": (lambda: GatewayGoesBack().bytes(), "pol.unbound"),
    "the gateway goes back before it must not": (
        lambda: GatewayWavers(steps=("narrow", "answer", "waver", "policy")).bytes(),
        "pol.unbound",
    ),
    "the gateway behind": (lambda: GatewayBehind().bytes(), "pol.unbound"),
}


@pytest.mark.parametrize("name", POLICY)
def test_each_decision_is_of_the_profile_of_its_epoch(name: str) -> None:
    made, reason = POLICY[name]
    assert refused(judge(made()))["pol.bound"] == reason


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_the_normal_form_of_every_epoch_is_needed(missing: int) -> None:
    story = NarrowedStory().tell()
    profiles = [story.policy, *story.policies]
    del profiles[missing]
    bundle = replace(
        story.bundle(), policies=objects_by_digest([*profiles, story.config.raw, story.reference])
    )
    verdict = judge(bundle.to_bytes())
    assert refused(verdict) == {}
    assert row(verdict, "pol.bound").state is State.NOT_MADE


# -- tee.appraisal ------------------------------------------------------------------------------------------------


def changed(**members: object) -> Callable[[int, Event], tuple[Event, ...]]:
    return lambda _epoch, event: (Event(event.name, {**event.payload, **members}),)


EXTENDED: dict[str, Callable[[int, Event], tuple[Event, ...]]] = {
    "nothing": lambda _epoch, _: (),
    "twice": lambda _epoch, event: (event, event),
    "another profile": changed(dig=OTHER_PROFILE),
    "another file": changed(fil=OTHER),
    "another old": changed(old=OTHER_PROFILE),
    "another epoch": changed(epoch=7),
    "a member more": changed(more=1),
    "under another name": lambda _epoch, event: (Event("affiant-fork", event.payload),),
    "with a child before it": lambda _epoch, event: (Event("affiant-fork", {"ses": "x"}), event),
    "with a child after it": lambda _epoch, event: (event, Event("affiant-fork", {"ses": "x"})),
}


@pytest.mark.parametrize("name", EXTENDED)
def test_what_follows_the_barrier_is_exactly_the_narrowings(name: str) -> None:
    assert refused(judge(NarrowedStory(event=EXTENDED[name]).bytes())) == {"tee.appraisal": "appraisal.rtmr3"}


def test_an_event_that_no_record_tells_is_refused_at_admission_too() -> None:
    narrowing = ("affiant-policy", {"dig": OTHER_PROFILE, "epoch": 1, "fil": OTHER, "old": POLICY_DIGEST})
    story = Story(events=lambda events: [*events, narrowing])
    assert refused(judge(story.bytes())) == {"tee.appraisal": "appraisal.rtmr3"}


def test_a_narrowing_that_was_extended_earlier_than_recorded_is_refused() -> None:
    class Early(NarrowedStory):
        """Both events are in the first quote already."""

        def _narrow(self, number: int) -> None:
            if number == 1:
                second = {"dig": digest_of(normal_form(2)), "epoch": 2, "fil": OTHER, "old": OTHER_PROFILE}
                self.event = lambda epoch, event: (
                    (event, Event("affiant-policy", second)) if epoch == 1 else ()
                )
            super()._narrow(number)

    assert refused(judge(Early().bytes())) == {"tee.appraisal": "appraisal.rtmr3"}


def other_statement(epoch: int, statement: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    return parts | {"statement": canonical(statement | {"nonce": link(f"another nonce {epoch}")})}


def other_mrconfigid(_epoch: int, _: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    return parts | {"mrconfigid": bytes(47) + b"1"}


def test_each_quote_binds_its_own_statement_and_the_same_manifest() -> None:
    assert refused(judge(NarrowedStory(quote=other_statement).bytes())) == {"key.bound": "key.unbound"}
    assert refused(judge(NarrowedStory(quote=other_mrconfigid).bytes())) == {"pol.bound": "pol.unbound"}


def test_every_quote_is_appraised_with_the_narrowings_until_it() -> None:
    question = Question(trust=trust(), verifiers=STANDARD_VERIFIERS, at=NOW, build="build")
    case = examine_bundle(NarrowedStory().bytes(), question).case
    assert case is not None
    quoted = case.sessions[0].supervisor.quoted
    assert [each.epoch for each in quoted] == [0, 1, 2]
    assert [len(each.appraisal.later_events) for each in quoted if each.appraisal] == [0, 1, 2]


# -- peer.bound and peer.ear --------------------------------------------------------------------------------------


class ResultOfBefore(NarrowedStory):
    """After the narrowing an answer rests on the result about the evidence before it."""

    def _answer(self, number: int, *, step: str = "answer") -> None:
        kept, self.ears = self.ears, self.ears[:1]
        super()._answer(number, step=step)
        self.ears = kept


class EvidenceOfBefore(NarrowedStory):
    """The gateway's record of the new epoch names the evidence of the old one."""

    def _answer(self, number: int, *, step: str = "answer") -> None:
        kept, self.session_evidence = self.session_evidence, self.evidences[-2]
        super()._answer(number, step=step)
        self.session_evidence = kept


class CloseOfBefore(NarrowedStory):
    """A record without decision, the close, names an evidence of before."""

    def close(self) -> None:
        self.session_evidence = self.evidences[0]
        super().close()


def agent_of_before(story: NarrowedStory) -> NarrowedStory:
    """The supervisor's record of a narrowing names the evidence before it as the session's."""

    def alter(step: str, members: dict[str, object]) -> dict[str, object]:
        if step == "policy-1":
            members["agt"] = {**members["agt"], "evd": link_of(story.evidences[0])}
        return members

    story.alter = alter
    return story


PEERS: dict[str, tuple[Made, dict[str, str]]] = {
    "a result about the evidence before": (
        lambda: ResultOfBefore().bytes(),
        {"peer.ear": "peer.ear_mismatch"},
    ),
    "a result about something else": (
        lambda: NarrowedStory(alter=at("ear-1", evd=link("other"))).bytes(),
        {"peer.ear": "peer.ear_mismatch"},
    ),
    "the evidence of before in an answer": (
        lambda: EvidenceOfBefore().bytes(),
        {"peer.bound": "peer.unbound"},
    ),
    "the evidence of before in a close": (lambda: CloseOfBefore().bytes(), {"peer.bound": "peer.unbound"}),
    "the evidence of before in the record of a narrowing": (
        lambda: agent_of_before(NarrowedStory()).bytes(),
        {"peer.bound": "peer.unbound"},
    ),
    "two epochs more than are recorded": (lambda: GatewayFarAhead().bytes(), {"peer.bound": "peer.unbound"}),
}


@pytest.mark.parametrize("name", PEERS)
def test_gateway_and_session_name_the_evidence_of_one_epoch(name: str) -> None:
    made, expected = PEERS[name]
    assert refused(judge(made())) == expected


# -- pol.accepted -------------------------------------------------------------------------------------------------


def test_a_narrowed_profile_is_accepted_with_the_one_it_was_narrowed_from() -> None:
    verdict = judge(NarrowedStory().bytes(), profiles=[{"value": POLICY_DIGEST}])
    assert row(verdict, "pol.accepted").tier is Tier.AFFIRMING
    narrowed = [{"value": digest_of(normal_form(number))} for number in (1, 2)]
    verdict = judge(NarrowedStory().bytes(), profiles=narrowed)
    assert refused(verdict) == {"pol.accepted": "pol.not_accepted"}


def test_without_pins_the_finding_counts_narrowings_too() -> None:
    found = row(judge(NarrowedStory().bytes(), profiles=...), "pol.accepted")
    assert found.tier is Tier.WARNING
    assert "restricted 2 times since" in found.detail


# -- cut off in the middle ----------------------------------------------------------------------------------------


class CutOff(NarrowedStory):
    """The supervisor dies after the gateway went on, before its record of the narrowing got anywhere."""

    why = "lost"

    def by_supervisor(self, step: str, kind: str, members, hidden=None, **more) -> Issued:
        if step == "session-end":
            self._narrow(1)
            self._policy(1)
            self._narrow(2)
            return self.session_records[-1]
        return super().by_supervisor(step, kind, members, hidden, **more)

    def by_gateway(self, step: str, kind: str, members, hidden=None, **more) -> Issued:
        if step == "close":
            members |= {"why": self.why, "sup": {**members["sup"], "end": 0}}
        return super().by_gateway(step, kind, members, hidden, **more)


class NoClose(CutOff):
    """The gateway died as well, after one answer of the new epoch."""

    def close(self) -> None:
        self._answer(1, step="last")


@pytest.mark.parametrize(("story", "count"), [(CutOff, 2), (NoClose, 2), (GatewayAhead, 3)])
def test_a_narrowing_that_its_supervisor_did_not_record_is_judged_by_what_its_quote_shows(
    story: type[NarrowedStory], count: int
) -> None:
    verdict = judge(story().bytes())
    assert refused(verdict) == {}
    found = row(verdict, "pol.bound")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert f"restricted {count} times" in found.detail
    assert "did not come to record" in found.detail
    assert row(verdict, "tee.appraisal").detail.startswith(f"{count + 2} quotes")


CUT: dict[str, tuple[Made, dict[str, str]]] = {
    "other narrowings before": (
        lambda: CutOff(event=changed(fil=OTHER)).bytes(),
        {"pol.bound": "narrowing.order"},
    ),
    "no narrowing": (
        lambda: CutOff(event=lambda k, e: (e,) if k == 1 else ()).bytes(),
        {"pol.bound": "narrowing.order"},
    ),
    "two at once": (
        lambda: CutOff(event=lambda k, e: (e,) if k == 1 else (e, Event(e.name, e.payload))).bytes(),
        {"pol.bound": "narrowing.order"},
    ),
    "a child": (
        lambda: CutOff(event=lambda k, e: (e,) if k == 1 else (Event("affiant-fork", e.payload),)).bytes(),
        {"pol.bound": "narrowing.event"},
    ),
    "a member more": (
        lambda: CutOff(
            event=lambda k, e: (e if k == 1 else Event(e.name, {**e.payload, "more": 1}),)
        ).bytes(),
        {"pol.bound": "narrowing.malformed"},
    ),
    "of another keyset": (
        lambda: CutOff(quote=only_second(other_keyset)).bytes(),
        {"peer.bound": "peer.unbound"},
    ),
}


def only_second(change: Callable[..., dict[str, bytes]]) -> Callable[..., dict[str, bytes]]:
    return lambda epoch, statement, parts: change(epoch, statement, parts) if epoch == 2 else parts


@pytest.mark.parametrize("name", CUT)
def test_of_one_cut_off_no_more_is_believed_than_its_quote_shows(name: str) -> None:
    made, expected = CUT[name]
    found = refused(judge(made()))
    assert found.items() >= expected.items()


# -- approvals ----------------------------------------------------------------------------------------------------

ANN, BOB, CEM = (Signer(ec.derive_private_key(number, ec.SECP256R1())) for number in (51, 52, 53))
ACTION = sha256_name(b"an action")
TARGET = {"name": "api.example.com", "tgt": "POST https://api.example.com:443/"}


def asking(*approvers: Signer, quorum: int = 2) -> Callable[[int], bytes]:
    """A profile in which so many of these must agree."""
    approval = {"everything": True, "methods": [], "quorum": quorum, "ttl": 600}
    approval["approvers"] = sorted(each.kid for each in approvers)
    return lambda number: canonical({"semantics": "affiant.policy/1", "number": number, "approval": approval})


class Approved(NarrowedStory):
    """Two agree before the narrowing; what they agreed to is begun after it."""

    def _narrow(self, number: int) -> None:
        self.kept = [self._agree(each) for each in (ANN, BOB)]
        super()._narrow(number)

    def _agree(self, signer: Signer) -> Issued:
        made = int(self.clock.now.timestamp())
        text = sign_statement(signer, action=ACTION, approves=True, made=made, expires=made + 600)
        self.apr = {"dig": ACTION, "kid": signer.kid, "sig": text, "exp": made + 600, "via": "cli"}
        members = {"act": {"typ": "approval", "end": "complete"}, "pol": self._pol(), "apr": self.apr}
        return self.by_gateway("approval", "approval", members, {"act": TARGET})

    def _answer(self, number: int, *, step: str = "answer") -> None:
        super()._answer(number, step=step)
        named = [each.payload["jti"] for each in self.kept]
        members = {
            "act": {"typ": "egress"},
            "pol": self._pol(),
            "ph": "intent",
            "apr": self.apr,
            "par": named,
        }
        begun = self.by_supervisor("intent", "egress", members, {"act": TARGET})
        members = {"act": {"typ": "egress", "end": "complete"}, "pol": self._pol(), "ph": "outcome"}
        members["par"] = [begun.payload["jti"]]
        self.by_supervisor("outcome", "egress", members, {"act": TARGET})


def approved(form: Callable[[int], bytes]) -> Check:
    policy = asking(ANN, BOB)(0)
    story = Approved(count=1, form=form, policy=policy, policy_digest=digest_of(policy))
    return row(judge(story.bytes(), profiles=[{"value": digest_of(policy)}]), "apr.bound")


def test_what_was_agreed_before_a_narrowing_counts_for_nothing_after_it() -> None:
    """The action that they were shown names the profile: under another profile it is another action."""
    assert approved(asking(ANN, BOB)).reason == "apr.quorum"
    assert approved(asking(BOB, quorum=1)).reason == "apr.quorum"
    assert approved(asking(BOB, CEM)).reason == "apr.quorum"
    assert approved(asking(ANN, BOB, CEM, quorum=3)).reason == "apr.quorum"
    assert approved(asking(ANN, CEM)).reason == "approval.not_an_approver"


# -- judged again -------------------------------------------------------------------------------------------------


def test_judged_again_each_quote_of_a_narrowed_session_is_named() -> None:
    question = Question(
        trust=trust(), verifiers=STANDARD_VERIFIERS, at=NOW, build="build", compared=Comparison()
    )
    found = examine_now(NarrowedStory().bytes(), question).verdict
    assert found.changed is not None
    quotes = [(quote.role, quote.epoch) for quote in found.changed.quotes]
    assert sorted(quotes) == [("gateway", 0), ("session", 0), ("session", 1), ("session", 2)]
    documents = [quote.to_json() for quote in found.changed.quotes]
    assert sorted(document.get("epoch", 0) for document in documents) == [0, 0, 1, 2]
