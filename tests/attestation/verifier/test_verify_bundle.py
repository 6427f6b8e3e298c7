"""Every check that can hold has a bundle that is wrong in exactly that fact, signed again, and refused for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation import story as story_module
from tests.attestation.story import (
    BUILD,
    NOW,
    PLATFORM,
    REQUEST,
    RESPONSE,
    Story,
    link,
    new_id,
    reference_bytes,
    trust,
)
from tests.properties import thorough

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.encoding.binary_text import b64u_sha256, sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.records.session_summary import session_root
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.statements.gateway_config import DEV_ECHO, GatewayConfig, make_gateway_config
from affiant.attestation.statements.manifest import GatewayIdentity
from affiant.attestation.statements.statement import LogIdentity, gateway_statement
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.verdict.codes import CODES
from affiant.attestation.verdict.verdict import Check, LevelState, State, Tier, Verdict
from affiant.attestation.verifier import verify_bundle as verify_bundle_module
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.checks.evidence_checks import check_class
from affiant.attestation.verifier.report.text import render
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import CHECKS, examine_case, verify_bundle
from affiant.errors import AffiantError


def judge(data: bytes, *, changes: Mapping[str, object] | None = None, **more: object) -> Verdict:
    return verify_bundle(
        data,
        trust(**(changes or {})),
        verifiers=STANDARD_VERIFIERS,
        at=more.pop("at", NOW),
        build="build",
        **more,
    )


def row(verdict: Verdict, code: str) -> Check:
    return next(check for check in verdict.checks if check.code == code)


def at(step: str, **changes: object) -> Callable[[str, dict[str, object]], dict[str, object]]:
    """An ``alter`` that changes members of one step; ``a__b`` reaches into ``a``."""

    def alter(name: str, members: dict[str, object]) -> dict[str, object]:
        if name != step:
            return members
        for path, value in changes.items():
            outer, _, inner = path.partition("__")
            if not inner:
                members[outer] = value
            else:
                members[outer] = {**members[outer], inner: value}
        return members

    return alter


def without(step: str, member: str) -> Callable[[str, dict[str, object]], dict[str, object]]:
    """An ``alter`` that leaves one member of one step out."""

    def alter(name: str, members: dict[str, object]) -> dict[str, object]:
        return members if name != step else {k: v for k, v in members.items() if k != member}

    return alter


def counting(kind: str, count: int) -> Callable[[str, dict[str, object]], dict[str, object]]:
    """An ``alter``: the close counts so many of a kind."""
    return lambda step, members: (
        {**members, "out": {**members["out"], kind: count}} if step == "close" else members
    )


def praised(step: str, members: dict[str, object]) -> dict[str, object]:
    """An ``alter``: the gateway calls simulated evidence affirming, in its result and wherever it rests on it."""
    if step == "ear":
        return {**members, "tier": "affirming"}
    if step in ("start", "inference"):
        return {**members, "att": {"ses": {**members["att"]["ses"], "tier": "affirming"}}}
    return members


def beside(one: Story, other: Story) -> tuple[bytes, str]:
    """Two stories in one bundle, and the session of the second."""
    first, second = one.bundle(), other.bundle()
    maps = ("keysets", "evidence", "endorsements", "results", "policies", "proofs")
    both = {name: {**getattr(first, name), **getattr(second, name)} for name in maps}
    return Bundle(receipts=(*first.receipts, *second.receipts), **both).to_bytes(), other.session


class Epochs(Story):
    """An epoch record that counts other records than there are."""

    def close(self) -> None:
        self.by_gateway("epoch", "epoch", {"n": 999, "inf": 0}, of_session=False)
        super().close()


class SecondStart(Story):
    def close(self) -> None:
        start = next(r for r in self.gateway_records if r.payload["kind"] == "session-start")
        names = ("pol", "att", "man", "ini", "iso", "rfs")
        self.by_gateway("start-again", "session-start", {n: start.payload[n] for n in names})
        super().close()


class AfterEnd(Story):
    def close(self) -> None:
        super().close()
        self.by_supervisor("late", "epoch", {"n": 1, "inf": 0}, of_session=False)


class AfterClose(Story):
    def close(self) -> None:
        super().close()
        self.by_gateway(
            "late",
            "refusal",
            {
                "rsn": "late",
                "req": {"m": "POST", "p": "/v1/chat/completions"},
                "res": {"st": 403, "end": "complete"},
            },
        )


class Silent(Story):
    def close(self) -> None:
        self.clock.step(1000)
        super().close()


class OtherEvidence(Story):
    def close(self) -> None:
        self.gateway.evd = link("other")
        super().close()


class SameId(Story):
    def make_gateway(self) -> None:
        super().make_gateway()
        self.gateway.new_id = lambda: "A" * 22


class EarlyRefusal(Story):
    """A refusal for the session before its start, though numbered after it."""

    def by_gateway(self, step: str, kind: str, *arguments: object, **more: object):
        if step != "start":
            return super().by_gateway(step, kind, *arguments, **more)
        self.next_seq = 1
        self.by_gateway("early", "refusal", {"rsn": "policy.model", "act": {"typ": "tool"}})
        self.next_seq = 0
        started = super().by_gateway(step, kind, *arguments, **more)
        self.next_seq = 2
        return started


class OwnLink(Story):
    """The close names a record of the gateway itself, in a chain that is longer than the supervisor's."""

    def close(self) -> None:
        for count in range(12):
            self.by_gateway("epoch", "epoch", {"n": count, "inf": 0}, of_session=False)
        last = self.of_session()[-1]
        own = {"chn": last.payload["chn"], "seq": last.payload["seq"], "rh": last.rh}
        self.alter = at("close", peer=own)
        super().close()


class TwoZeros(Story):
    """Two records with number 0 on the gateway's chain."""

    def by_gateway(self, step: str, *arguments: object, **more: object):
        if step == "start":
            self.gateway._next = 0
        return super().by_gateway(step, *arguments, **more)


class MadeUp(Story):
    """An inference of which no supervisor knows, after its end."""

    def close(self) -> None:
        told = next(r for r in self.gateway_records if r.payload["kind"] == "inference").payload
        names = ("req", "res", "mdl", "use", "pol", "up", "att")
        self.by_gateway("made-up", "inference", {name: told[name] for name in names}, cseq=self.made_up)
        super().close()

    made_up: int | None = None


class MadeUpCounted(MadeUp):
    made_up = 2


class Elsewhere(Story):
    """This session's key under another session's id, where nobody would look."""

    def close(self) -> None:
        super().close()
        told = next(r for r in self.gateway_records if r.payload["kind"] == "inference").payload
        names = ("req", "res", "mdl", "use", "pol", "up", "att", "agt")
        members = {name: told[name] for name in names}
        members["agt"] = {**told["agt"], "ses": "B" * 22, "seq": 0}
        self.by_gateway("elsewhere", "inference", members, of_session=False)


class Rewritten(Story):
    """What was forwarded is not what was received."""

    decision = "allow"

    def by_gateway(self, step: str, kind: str, members, hidden=None, **more: object):
        if step == "inference":
            members["pol"] = self._pol(self.decision)
            hidden = {**hidden, "req": {**hidden["req"], "fwd": sha256_name(b"something else")}}
        return super().by_gateway(step, kind, members, hidden, **more)


class Slower(Story):
    """The keyset promises an epoch every hour; the configuration, every minute."""

    def make_gateway(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(story_module, "gateway_statement", partial(slowed, gateway_statement))
            super().make_gateway()


def slowed(make: Callable[..., bytes], **members: object) -> bytes:
    return make(**(members | {"epoch_s": 3600}))


def told_with(maker: str, **changes: object) -> bytes:
    """A story told with other arguments to a function that makes one of its documents."""
    make = getattr(story_module, maker)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story_module, maker, lambda **members: make(**(members | changes)))
        return Story().bytes()


def another_log() -> LogIdentity:
    """A log of the operator's own, beside the one that the configuration names."""
    return LogIdentity(LogSigner("another.log", Ed25519PrivateKey.generate()).verifier, "file")


class NoKeyForResults(Story):
    """The gateway's keyset names no key that results could be signed by."""

    def make_gateway(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(story_module, "gateway_statement", partial(keyless, gateway_statement))
            super().make_gateway()


def keyless(make: Callable[..., bytes], **members: object) -> bytes:
    statement = json.loads(make(**members))
    return canonical(statement | {"keys": [key for key in statement["keys"] if key["use"] != "ear"]})


class AnotherLog(Story):
    """The session's manifest names another log than the configuration that it names."""

    def make_session(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            identity = lambda origin, *more: GatewayIdentity("another.log", *more)  # noqa: E731
            patch.setattr(story_module, "GatewayIdentity", identity)
            super().make_session()


class RewrittenAndStopped(Rewritten):
    """A tool was taken out, the model called it all the same: one record, and its last decision."""

    decision = "deny"
    end = "policy_stop"

    def by_gateway(self, step: str, kind: str, members, hidden=None, **more: object):
        if step == "inference":
            members["res"] = {**members["res"], "end": self.end}
        return super().by_gateway(step, kind, members, hidden, **more)


class RewrittenByRule(Rewritten):
    decision = "redact"


FORGED = (b'{"model":"forged"}', b'{"forged":true}')


class Twin(Story):
    """A second keyset of the same session, by whoever made a key: its quote is of no accepted platform."""

    def close(self) -> None:
        super().close()
        forger = Story(platform=self.other)
        forger.session, forger.clock = self.session, self.clock
        forger.gateway, forger.gateway_statement = self.gateway, self.gateway_statement
        forger.ear_signer, forger.next_seq = self.ear_signer, 0
        forger.make_session()
        own = forger.session_statement.keyset_digest
        boot = {"ks": own, "gks": self.gateway_statement.keyset_digest, "bld": OTHER}
        forger.by_supervisor("boot", "boot", boot, of_session=False)
        asked, answered = FORGED
        forger.by_supervisor(
            "refusal",
            "refusal",
            {"rsn": "x", "req": {"m": "POST", "p": "/"}, "res": {"st": 200, "end": "complete"}},
            {"req": {"dig": sha256_name(asked)}, "res": {"dig": sha256_name(answered)}},
        )
        self.session_records = [*self.session_records, *forger.session_records]
        self.forger = forger

    other = type(PLATFORM).from_seed(b"another platform" * 2, created=NOW)

    def bundle(self):
        bundle = super().bundle()
        return replace(
            bundle,
            keysets={**bundle.keysets, **objects_by_digest([self.forger.session_statement.raw])},
            evidence={**bundle.evidence, **objects_by_digest([self.forger.session_evidence])},
        )


class Backwards(Story):
    def close(self) -> None:
        self.clock.step(-600)
        super().close()


class Erased(Story):
    def close(self) -> None:
        lost = {"chn": new_id(), "seq": 3, "rh": link("x"), "lvl": 2, "basis": "none"}
        self.by_gateway("erasure", "erasure", {"del": [lost], "aut": "nobody"}, of_session=False)
        super().close()


class Unexplained(Story):
    """An unsafe request without its intent."""

    def close(self) -> None:
        self.by_supervisor(
            "late",
            "egress",
            {"act": {"typ": "egress", "end": "complete"}, "pol": self._pol(), "ph": "outcome"},
            {"act": {"tgt": "POST https://api.example.com:443/"}},
        )
        self.by_supervisor("late-end", "end", {"why": "shutdown", "cseq": 1}, of_session=False)
        super().close()

    def by_supervisor(self, step: str, *arguments: object, **more: object):
        if step == "session-end":
            return None
        return super().by_supervisor(step, *arguments, **more)


def unlinked(role: str) -> bytes:
    def alter(step: str, members: dict[str, object]) -> dict[str, object]:
        mine = {"gateway": ("inference", "refusal", "close"), "session": ("exec-outcome",)}[role]
        return {k: v for k, v in members.items() if k != "peer" or step not in mine}

    return Story(alter=alter).bytes()


def dropping(index: int, records: str = "gateway_records") -> bytes:
    story = Story().tell()
    del getattr(story, records)[index]
    return story.bytes()


def with_keyset(raw: bytes) -> bytes:
    story = Story().tell()
    return replace(story.bundle(), keysets=objects_by_digest([story.gateway_statement.raw, raw])).to_bytes()


def claimed_twice(**changes: object) -> bytes:
    """A second keyset beside the gateway's, which leaves it one of its key and its chain."""
    story = Story().tell()
    bundle = story.bundle()
    raw = canonical(json.loads(story.gateway_statement.raw) | {"not_after": 2**40} | changes)
    return replace(bundle, keysets={**bundle.keysets, **objects_by_digest([raw])}).to_bytes()


def another_key() -> Mapping[str, object]:
    """A receipt key as a gateway's keyset names it."""
    key = Signer.generate()
    return {"kid": key.kid, "use": "receipt", "jwk": public_jwk(key.public_key)}


def hardware_claim() -> Story:
    reference = sha256_name(reference_bytes())
    config = make_gateway_config(
        iss="urn:affiant:gateway:local",
        cls="hardware",
        origin="log.example",
        reference=reference,
        upstreams=[DEV_ECHO],
    )
    return Story(cls="hardware", config=config)


OTHER = "sha256:" + "11" * 32
CALLED_ATTESTED = {"id": DEV_ECHO.id, "host": "affiant-dev-echo.internal", "bind": "attested", "res": "ok"}


def attesting_config(**changes: object) -> GatewayConfig:
    """A configuration whose upstream is to be attested, which no gateway accepts yet."""
    values = {
        "iss": "urn:affiant:gateway:local",
        "cls": "simulated",
        "origin": "log.example",
        "reference": sha256_name(reference_bytes()),
        "upstreams": [replace(DEV_ECHO, bind="attested")],
    }
    return make_gateway_config(**(values | changes))


ANY_CONFIG = {"changes": {"gateway_configs": ...}}
LATE = {"at": NOW - timedelta(hours=20)}
TIME = {"at": NOW + timedelta(days=60)}

REFUSED: list[tuple[str, str, Callable[[], bytes], dict[str, object]]] = [
    ("fmt.keysets", "fmt.json", lambda: with_keyset(b'{"typ": "affiant-keyset/1"}'), {}),
    ("fmt.keysets", "fmt.profile", lambda: with_keyset(b'{"role":"gateway","typ":"affiant-keyset/1"}'), {}),
    ("fmt.keysets", "chain.broken", lambda: Twin().bytes(), {"request": FORGED[0], "response": FORGED[1]}),
    ("fmt.keysets", "chain.broken", lambda: claimed_twice(chn=[new_id()]), {}),
    ("fmt.keysets", "chain.broken", lambda: claimed_twice(keys=[another_key()]), {}),
    ("sig.receipts", "sig.unknown_key", lambda: with_keyset(Story().tell().session_statement.raw), {}),
    ("erasure.authority", "chain.gap", lambda: Erased().bytes(), {}),
    ("chain.ids", "chain.repeated_id", lambda: SameId().bytes(), {}),
    ("chain.time", "chain.time", lambda: Backwards().bytes(), {}),
    ("chain.time", "chain.time", lambda: Story().bytes(), LATE),
    ("chain.boot", "chain.no_boot", lambda: Story(alter=at("gateway-boot", ks=link("other"))).bytes(), {}),
    ("chain.boot", "chain.no_boot", lambda: dropping(0), {}),
    ("chain.contiguous", "chain.gap", lambda: dropping(3), {}),
    ("chain.contiguous", "chain.gap", lambda: dropping(3, "session_records"), {}),
    ("chain.contiguous", "chain.gap", lambda: TwoZeros().bytes(), {}),
    ("chain.end", "chain.after_end", lambda: AfterEnd().bytes(), {}),
    ("chain.epochs", "chain.missing_epoch", lambda: Silent().bytes(), {}),
    ("chain.epochs", "chain.missing_epoch", lambda: Epochs().bytes(), {}),
    ("session.start", "session.start", lambda: SecondStart().bytes(), {}),
    ("session.start", "session.start", lambda: EarlyRefusal().bytes(), {}),
    ("session.start", "session.start", lambda: Story(alter=at("start", agt__seq=7)).bytes(), {}),
    ("session.order", "session.order", lambda: Story(alter=at("inference", agt__seq=7)).bytes(), {}),
    ("session.counter", "session.counter", lambda: Story(alter=at("inference", agt__cseq=1)).bytes(), {}),
    ("session.counter", "session.counter", lambda: Story(alter=at("refusal", agt__cseq=2)).bytes(), {}),
    ("session.counter", "session.counter", lambda: Story(alter=at("session-end", cseq=5)).bytes(), {}),
    ("session.counter", "session.counter", lambda: MadeUp().bytes(), {}),
    ("session.counter", "session.counter", lambda: MadeUpCounted().bytes(), {}),
    ("session.counter", "session.counter", lambda: Story(alter=without("session-end", "cseq")).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=at("close", n=9)).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=at("close", root=link("other"))).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=at("close", head__rh=link("other"))).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=at("close", sup__seq=2)).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=at("close", out={"refusal": 0})).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=counting("tool", 0)).bytes(), {}),
    ("session.close", "session.close", lambda: Story(alter=counting("refusal", 2)).bytes(), {}),
    ("session.sealed", "session.after_close", lambda: AfterClose().bytes(), {}),
    ("session.sealed", "session.after_close", lambda: Story(expires=timedelta(seconds=-100)).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=at("refusal", peer__rh=link("other"))).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=at("refusal", peer__seq=0)).bytes(), {}),
    (
        "session.intents",
        "session.intent",
        lambda: Story(alter=at("exec-outcome", par=[new_id()])).bytes(),
        {},
    ),
    ("session.intents", "session.intent", lambda: Story(alter=at("egress", par=[new_id()])).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=at("refusal", peer__chn=new_id())).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=at("refusal", peer__seq=2)).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=at("close", peer__seq=9)).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=without("refusal", "peer")).bytes(), {}),
    ("session.peer", "session.peer", lambda: Story(alter=without("exec-intent", "peer")).bytes(), {}),
    ("session.peer", "session.peer", lambda: OwnLink().bytes(), {}),
    ("session.peer", "session.peer", lambda: unlinked("gateway"), {}),
    ("session.peer", "session.peer", lambda: unlinked("session"), {}),
    ("session.intents", "session.intent", lambda: Unexplained().bytes(), {}),
    ("session.intents", "session.intent", lambda: Story(alter=at("egress", sec=[{"ver": "9"}])).bytes(), {}),
    ("session.intents", "session.intent", lambda: Story(alter=without("egress", "sec")).bytes(), {}),
    (
        "session.decisions",
        "session.decision",
        lambda: Story(alter=at("inference", pol__dec="deny")).bytes(),
        {},
    ),
    ("session.decisions", "session.decision", lambda: Story(alter=at("egress", pol__dec="ask")).bytes(), {}),
    ("session.decisions", "session.decision", lambda: Rewritten().bytes(), {}),
    ("session.decisions", "session.decision", lambda: Story(alter=at("secret", pol__dec="deny")).bytes(), {}),
    *(
        (
            "session.decisions",
            "session.decision",
            lambda how=how: Story(alter=at("inference", pol__dec="deny", res__end=how)).bytes(),
            {},
        )
        for how in ("client_abort", "upstream_abort", "gateway_error")
    ),
    ("key.evidence", "key.unbound", lambda: OtherEvidence().bytes(), {}),
    ("key.bound", "key.unbound", lambda: Story(session_report_data=lambda _: bytes(64)).bytes(), {}),
    ("key.bound", "key.unbound", lambda: Story(gateway_report_data=lambda _: b"x" * 64).bytes(), {}),
    ("key.not_after", "key.expired", lambda: Story(gateway_not_after=timedelta(seconds=1)).bytes(), {}),
    ("conf.bound", "conf.unbound", lambda: Story(gateway_mrconfigid=b"x" * 48).bytes(), {}),
    ("pol.bound", "pol.unbound", lambda: Story(session_mrconfigid=b"x" * 48).bytes(), {}),
    ("conf.bound", "conf.unbound", lambda: Story(gateway_mrconfigid=bytes(48)).bytes(), {}),
    ("pol.bound", "pol.unbound", lambda: Story(session_mrconfigid=bytes(48)).bytes(), {}),
    (
        "pol.bound",
        "pol.unbound",
        lambda: Story(alter=at("inference", pol__dig="sha384:" + "1" * 96)).bytes(),
        {},
    ),
    ("pol.bound", "pol.unbound", lambda: Story(alter=at("inference", pol__bind="gateway-only")).bytes(), {}),
    (
        "tee.appraisal",
        "cert.revoked",
        lambda: Story(platform=replace(PLATFORM, revoked=frozenset({CertificateRole.PCK}))).bytes(),
        {},
    ),
    ("tee.appraisal", "appraisal.image", lambda: Story(session_mrtd=b"x" * 48).bytes(), {}),
    ("tee.appraisal", "appraisal.rtmr3", lambda: Story(events=lambda e: e[::-1]).bytes(), {}),
    ("tee.appraisal", "appraisal.rtmr3", lambda: Story(events=lambda e: [*e, e[3]]).bytes(), {}),
    ("tee.appraisal", "crl.expired", lambda: Story().bytes(), TIME),
    (
        "tee.appraisal",
        "root.untrusted",
        lambda: Story().bytes(),
        {"changes": {"tee_roots": [{"value": "intel"}]}},
    ),
    ("tee.class", "tee.class_mismatch", lambda: hardware_claim().bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("inference", agt__key=link("other"))).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("inference", agt__bind="bearer")).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("start", man__act=link("other"))).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("start", man__man=link("other"))).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(gks=link("other")).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("session-boot", gks=link("other"))).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: dropping(0, "session_records"), {}),
    ("peer.bound", "peer.unbound", lambda: Elsewhere().bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("start", inp=OTHER)).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("start", ini__method="oidc")).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("start", ini__iss="urn:another")).bytes(), {}),
    ("peer.bound", "peer.unbound", lambda: Story(alter=at("session-boot", bld=OTHER)).bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("inference", att={})).bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("inference", up=[])).bytes(), {}),
    (
        "peer.ear",
        "peer.ear_mismatch",
        lambda: Story(config=attesting_config(), alter=at("inference", up=[CALLED_ATTESTED])).bytes(),
        ANY_CONFIG,
    ),
    ("conf.bound", "conf.unbound", lambda: Story(alter=at("inference", up=[CALLED_ATTESTED])).bytes(), {}),
    *(
        (
            "conf.bound",
            "conf.unbound",
            lambda upstream=upstream: Story(alter=at("inference", up=[upstream])).bytes(),
            {},
        )
        for upstream in (
            {**CALLED_ATTESTED, "bind": "tls"},
            {**CALLED_ATTESTED, "bind": "none", "id": "another"},
            {**CALLED_ATTESTED, "bind": "none", "host": "elsewhere.internal"},
        )
    ),
    ("conf.bound", "conf.unbound", lambda: Slower().bytes(), {}),
    ("conf.bound", "conf.unbound", lambda: told_with("gateway_statement", iss="urn:another"), {}),
    ("conf.bound", "conf.unbound", lambda: told_with("gateway_statement", cls="hardware"), {}),
    ("conf.bound", "conf.unbound", lambda: told_with("gateway_statement", log=another_log()), {}),
    ("pol.bound", "pol.unbound", lambda: told_with("session_statement", man=link("other")), {}),
    ("pol.bound", "pol.unbound", lambda: told_with("session_statement", act=link("other")), {}),
    ("pol.bound", "pol.unbound", lambda: told_with("make_activation", session=new_id()), {}),
    ("conf.accepted", "conf.not_accepted", lambda: AnotherLog().bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("ear", policy=OTHER)).bytes(), {}),
    (
        "peer.ear",
        "peer.ear_mismatch",
        lambda: Story(alter=at("ear", until=NOW - timedelta(days=1))).bytes(),
        {},
    ),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("ear", tcb_status="OutOfDate")).bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("ear", tier="affirming")).bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=praised).bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("ear", evd=link("other"))).bytes(), {}),
    ("peer.ear", "peer.ear_mismatch", lambda: Story(alter=at("ear", cls="hardware")).bytes(), {}),
    (
        "peer.ear",
        "peer.ear_mismatch",
        lambda: Story(
            alter=lambda step, m: (
                {**m, "att": {"ses": {**m["att"]["ses"], "tier": "warning"}}} if step == "inference" else m
            )
        ).bytes(),
        {},
    ),
    (
        "conf.accepted",
        "conf.not_accepted",
        lambda: Story().bytes(),
        {"changes": {"gateway_configs": [{"value": OTHER}]}},
    ),
    (
        "pol.accepted",
        "pol.not_accepted",
        lambda: Story().bytes(),
        {"changes": {"profiles": [{"value": "sha384:" + "1" * 96}]}},
    ),
    ("iso.floor", "iso.too_weak", lambda: Story(iso="none").bytes(), {}),
    ("iso.floor", "iso.too_weak", lambda: Story(iso="bwrap-landlock").bytes(), {}),
    (
        "iso.floor",
        "iso.too_weak",
        lambda: Story(iso="bwrap-landlock", floor="namespace").bytes(),
        {"changes": {"isolation_floor": "userspace-kernel"}},
    ),
    ("iso.floor", "iso.too_weak", lambda: Story(alter=at("inference", agt__iso="vm")).bytes(), {}),
    ("iso.floor", "iso.too_weak", lambda: Story(alter=at("start", iso="vm")).bytes(), {}),
    ("iso.floor", "iso.too_weak", lambda: Story(alter=at("exec-outcome", iso="vm")).bytes(), {}),
    ("iso.floor", "iso.too_weak", lambda: told_with("make_activation", isolation="none"), {}),
    (
        "rfs.accepted",
        "rfs.not_accepted",
        lambda: Story().bytes(),
        {"changes": {"rootfs": [{"value": OTHER}]}},
    ),
    ("rfs.accepted", "rfs.not_accepted", lambda: Story(alter=at("start", rfs=OTHER)).bytes(), {}),
    ("body.request", "body.mismatch", lambda: Story().bytes(), {"request": REQUEST + b" "}),
    ("body.response", "body.mismatch", lambda: Story().bytes(), {"response": RESPONSE + b" "}),
]
"""Check, code of the refusal, bundle, how it is judged."""


@pytest.mark.parametrize(
    ("code", "reason", "make", "how"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_bundle_wrong_in_one_fact_is_refused_by_that_check(
    code: str, reason: str, make: Callable[[], bytes], how: dict[str, object]
) -> None:
    verdict = judge(make(), **how)
    found = row(verdict, code)
    assert (found.state, found.reason) == (State.REFUSED, reason), found
    assert verdict.exit_code == 20
    assert "REFUSED" in render(verdict)


def test_every_check_that_can_hold_has_a_refused_bundle() -> None:
    refused = {code for code, *_ in REFUSED}
    only_warns = {"kinds.judged", "chain.gaps", "model.answered", "session.supervisor", "pol.private"}
    only_missing = {"bundle.objects"}  # tests/attestation/verifier/checks/test_object_checks.py
    of_holds = {"hold.respected"}  # tests/attestation/verifier/checks/test_erasure_checks.py
    of_the_log = {"log.inclusion", "log.consistency"}  # tests/attestation/verifier/checks/test_log_checks.py
    of_witnesses = {"wit.quorum", "time.bracket"}  # tests/attestation/verifier/checks/test_witness_checks.py
    of_anchors = {"time.tsa", "time.sigstore"}  # test_anchor_checks.py, test_sigstore_anchors.py
    of_approvals = {"apr.bound"}  # tests/attestation/verifier/checks/test_approval_checks.py
    elsewhere = of_holds | of_the_log | of_witnesses | of_anchors | of_approvals
    assert {check.code for check in CHECKS} - refused == only_warns | only_missing | elsewhere


def test_a_true_story_is_simulated_and_never_verified() -> None:
    verdict = judge(Story().bytes(), request=REQUEST, response=RESPONSE)
    assert verdict.exit_code == 40
    assert verdict.tier is Tier.NONE
    assert verdict.level == "L2"
    assert verdict.level_state("L4") is LevelState.HELD
    assert verdict.level_state("L5") is LevelState.HELD
    found = row(verdict, "tee.class")
    assert (found.state, found.tier) == (State.HELD, Tier.NONE)
    assert "SIMULATED" in found.detail
    assert "hardware, everywhere" not in found.detail
    assert "UpToDate" in row(verdict, "tee.appraisal").detail
    text = render(verdict)
    assert "SIMULATED" in text
    assert "verified" not in text.lower()


def test_the_class_is_hardware_only_where_every_quote_is() -> None:
    """No test has the private key of genuine hardware: what an appraisal of it would say is put in its place."""
    question = Question(trust=trust(gateway_configs=...), verifiers=STANDARD_VERIFIERS, at=NOW, build="build")
    case = examine_case(hardware_claim().bundle(), question, name="name").case
    assert case is not None and case.established >= {"tee.appraisal"}
    quotes = [quoted for party in case.judged for quoted in party.quoted]
    simulated = [quoted.appraisal for quoted in quotes]
    genuine = [replace(each, evidence_class=EvidenceClass.HARDWARE) for each in simulated]
    assert len(genuine) == 2
    for appraisals in (simulated, [genuine[0], simulated[1]], [simulated[0], genuine[1]]):
        for quoted, appraisal in zip(quotes, appraisals, strict=True):
            quoted.appraisal = appraisal
        with pytest.raises(AffiantError) as refused:
            check_class(case)
        assert refused.value.code == "tee.class_mismatch"
    for quoted, appraisal in zip(quotes, genuine, strict=True):
        quoted.appraisal = appraisal
    finding = check_class(case)
    assert (finding.tier, finding.detail) == (Tier.AFFIRMING, "hardware, everywhere")


class TwoExchanges(Story):
    """The refused request is disclosed too, with an answer of its own."""

    bodies = (b'{"model":"another"}', b'{"error":{}}')

    def by_gateway(self, step: str, kind: str, members, hidden=None, **more):
        if step == "refusal":
            asked, answered = self.bodies
            hidden = {
                "req": {"dig": sha256_name(asked), "len": len(asked)},
                "res": {"dig": sha256_name(answered), "len": len(answered)},
            }
        return super().by_gateway(step, kind, members, hidden, **more)


def test_a_request_and_a_response_are_held_against_one_receipt() -> None:
    data, (asked, answered) = TwoExchanges().bytes(), TwoExchanges.bodies
    for request, response in ((REQUEST, RESPONSE), (asked, answered)):
        verdict = judge(data, request=request, response=response)
        assert verdict.level_state("L5") is LevelState.HELD
    for request, response in ((REQUEST, answered), (asked, RESPONSE)):
        verdict = judge(data, request=request, response=response)
        found = row(verdict, "body.response")
        assert (found.state, found.reason) == (State.REFUSED, "body.mismatch")
        assert "another request" in found.detail and verdict.exit_code == 20
        assert row(judge(data, response=response), "body.response").state is State.HELD


def test_a_rewrite_that_its_decision_names_is_no_contradiction() -> None:
    assert row(judge(RewrittenByRule().bytes()), "session.decisions").state is State.HELD
    assert row(judge(RewrittenAndStopped().bytes()), "session.decisions").state is State.HELD


def test_a_body_is_held_against_the_records_of_signers_that_are_judged_alone() -> None:
    """With one session asked for, another one's supervisor is a key that nobody appraised."""

    class Committed(Story):
        def by_supervisor(self, step: str, kind: str, members, hidden=None, **more: object):
            if step == "egress-refusal":
                members |= {"req": {"m": "POST", "p": "/"}, "res": {"st": 403, "end": "complete"}}
                hidden = {"req": {"dig": sha256_name(FORGED[0])}, "res": {"dig": sha256_name(FORGED[1])}}
            return super().by_supervisor(step, kind, members, hidden, **more)

    data, one = beside(Committed(), Story())
    assert row(judge(data, response=FORGED[1]), "body.response").state is State.HELD
    assert row(judge(data, response=FORGED[1], session=one), "body.response").reason == "body.mismatch"


def test_a_stream_that_policy_stopped_was_denied_and_is_no_contradiction() -> None:
    story = Story(alter=at("inference", pol__dec="deny", res__end="policy_stop"))
    assert row(judge(story.bytes()), "session.decisions").state is State.HELD


def test_a_result_about_another_peer_than_the_session_is_not_passed_over() -> None:
    result = {"ear": link("a result"), "tier": "affirming"}
    plain = Story(alter=at("inference", att__ups=result)).bytes()
    called = at("inference", att__ups=result, up=[CALLED_ATTESTED])
    attested = Story(config=attesting_config(), alter=called).bytes()
    for data, how in ((plain, {}), (attested, ANY_CONFIG)):
        found = row(judge(data, **how), "peer.ear")
        assert (found.state, found.tier) == (State.NOT_MADE, Tier.NONE)


def test_what_a_crash_disclosed_is_a_warning() -> None:
    class Crashed(Story):
        def close(self) -> None:
            lost = {"chn": new_id(), "seq": 3, "rh": link("lost")}
            self.by_gateway("gap", "gap", {"lst": lost, "src": "untrusted-store"}, of_session=False)
            super().close()

    verdict = judge(Crashed().bytes())
    assert row(verdict, "chain.gaps").tier is Tier.WARNING
    assert verdict.population.restarts == 1


def test_of_its_gateways_chain_a_bundle_holds_what_its_session_needs_and_calls_no_other_record_lost() -> None:
    class Crashed(Story):
        def close(self) -> None:
            super().close()
            head = self.gateway.head
            lost = {"chn": head.chn, "seq": head.seq + 4, "rh": link("lost")}
            self.by_gateway("gap", "gap", {"lst": lost, "src": "untrusted-store"}, of_session=False)

    assert row(judge(Crashed().bytes()), "chain.gaps").detail == "1 gap disclosed after a crash"


def test_a_gap_of_a_later_boot_makes_an_unclosed_session_lost() -> None:
    class Lost(Story):
        def close(self) -> None:
            """The gateway died here."""

    story = Lost().tell()
    later = Story(platform=story.platform)
    later.make_gateway()
    keyset = later.gateway_statement.keyset_digest
    last = story.gateway.head
    later.next_seq = 0
    later.by_gateway("boot", "boot", {"ks": keyset, "bld": OTHER, "col": later.col}, of_session=False)
    later.by_gateway("gap", "gap", {"lst": dict(last.to_json()), "src": "untrusted-store"}, of_session=False)
    both = story.bundle()
    data = replace(
        both,
        receipts=(*both.receipts, *(r.sdjwt for r in later.gateway_records)),
        keysets={**both.keysets, **objects_by_digest([later.gateway_statement.raw])},
        evidence={**both.evidence, **objects_by_digest([later.gateway_evidence])},
    ).to_bytes()
    verdict = judge(data)
    assert "lost" in row(verdict, "session.close").detail
    assert (verdict.population.lost, verdict.population.open) == (1, 0)


@pytest.mark.parametrize("signed", [0, 1])
def test_a_supervisor_that_died_before_its_first_record_was_acknowledged_is_a_warning(signed: int) -> None:
    class Died(Story):
        def by_supervisor(self, step: str, *arguments: object, **more: object):
            return super().by_supervisor(step, *arguments, **more) if step == "first" else None

        def by_gateway(self, step: str, kind: str, *arguments: object, **more: object):
            return (
                None
                if kind in ("inference", "refusal")
                else super().by_gateway(step, kind, *arguments, **more)
            )

        def tell(self) -> Story:
            self.next_seq = 0
            self.make_gateway()
            keyset = self.gateway_statement.keyset_digest
            self.by_gateway("boot", "boot", {"ks": keyset, "bld": OTHER, "col": self.col}, of_session=False)
            self.make_session()
            told = Story().tell()
            start = next(r for r in told.gateway_records if r.payload["kind"] == "session-start").payload
            members = {name: start[name] for name in ("ini", "iso", "rfs")}
            members |= {"pol": self._pol(), "att": {"ses": {"ear": link("ear"), "tier": "none"}}}
            members["man"] = {"man": self.manifest.digest, "act": self.activation.digest}
            self.by_gateway("start", "session-start", members)
            last, statement = self.gateway_records[-1], self.session_statement
            self.by_gateway(
                "close",
                "session-close",
                {
                    "out": {"session-start": 1},
                    "n": 1,
                    "head": dict(self.gateway.head.to_json()),
                    "root": session_root({0: last.rh}),
                    "sup": {"chn": min(statement.chn), "seq": 0, "rh": statement.keyset_digest, "end": 0},
                    "why": "lost",
                },
            )
            if signed:
                own = {"ks": statement.keyset_digest, "gks": keyset, "bld": BUILD}
                self.by_supervisor("first", "boot", own, of_session=False)
            return self

    verdict = judge(Died().bytes())
    assert row(verdict, "session.close").tier is Tier.WARNING
    assert row(verdict, "session.supervisor").tier is Tier.WARNING
    assert all(check.state is not State.REFUSED for check in verdict.checks)
    assert verdict.population.lost == 1


class CutOff(Story):
    """The supervisor died after it had signed more than its gateway had acknowledged; then the gateway closed it."""

    why = "lost"
    acknowledged = 4

    def by_supervisor(self, step: str, *arguments: object, **more: object):
        return None if step == "session-end" else super().by_supervisor(step, *arguments, **more)

    def by_gateway(self, step: str, kind: str, *arguments: object, **more: object):
        peer = self.session_records[: self.acknowledged][-1:] if step == "close" else []
        before = self.alter
        if peer:
            head = {"chn": peer[0].payload["chn"], "seq": peer[0].payload["seq"], "rh": peer[0].rh}
            sup = {**head, "end": 0}
            self.alter = lambda name, members: before(
                name, {**members, "peer": head, "sup": sup, "why": self.why}
            )
        try:
            return super().by_gateway(step, kind, *arguments, **more)
        finally:
            self.alter = before


def test_records_beyond_what_a_lost_sessions_gateway_had_acknowledged_are_a_warning() -> None:
    verdict = judge(CutOff().bytes())
    assert row(verdict, "session.close").tier is Tier.WARNING
    assert "2 records of its supervisor were never acknowledged" in row(verdict, "session.close").detail
    assert all(check.state is not State.REFUSED for check in verdict.checks)
    assert verdict.population.lost == 1


def test_a_lost_sessions_close_still_names_a_record_of_its_supervisors() -> None:
    found = row(judge(CutOff(alter=at("close", sup__rh=link("other"))).bytes()), "session.close")
    assert found.reason == "session.close"


@pytest.mark.parametrize("why", ["done", "killed", "policy", "lease"])
def test_every_other_close_speaks_for_all_records(why: str) -> None:
    class Closed(CutOff):
        pass

    Closed.why = why
    assert row(judge(Closed().bytes()), "session.close").reason == "session.close"


def test_a_request_that_a_killed_supervisor_sent_to_nobody_is_a_warning() -> None:
    found = row(judge(CutOff(alter=at("refusal", agt__cseq=4)).bytes()), "session.counter")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert "3 requests without a record" in found.detail
    assert (
        row(judge(Story(alter=at("refusal", agt__cseq=4)).bytes()), "session.counter").state is State.REFUSED
    )


def test_a_request_that_both_sides_recorded_is_a_warning_that_shows_both_accounts() -> None:
    verdict = judge(Story(alter=at("egress-refusal", agt__cseq=0, rsn="gateway.unreachable")).bytes())
    found = row(verdict, "session.counter")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    accounts = "gateway inference complete allow; supervisor refusal gateway.unreachable deny"
    assert accounts in found.detail
    kinds = {moment.jti: moment.kind for moment in verdict.timeline}
    assert [kinds[jti] for jti in found.where] == ["inference", "refusal"]


def test_what_both_sides_recorded_is_not_hidden_by_requests_without_a_record() -> None:
    def changed(step: str, members: dict[str, object]) -> dict[str, object]:
        return at("egress-refusal", agt__cseq=0)(step, at("refusal", agt__cseq=4)(step, members))

    found = row(judge(CutOff(alter=changed).bytes()), "session.counter")
    assert "both sides recorded" in found.detail and "3 requests without a record" in found.detail


def test_a_huge_last_counter_costs_nothing() -> None:
    """A supervisor signs what it likes: 2**53 - 1 requests must not be counted one by one."""
    found = row(judge(Story(alter=at("session-end", cseq=2**53 - 1)).bytes()), "session.counter")
    assert (found.state, found.reason) == (State.REFUSED, "session.counter")
    assert "found [2, 3, 4, 5, 6]" in found.detail


def test_an_own_gap_does_not_make_a_session_lost() -> None:
    class Own(Story):
        def close(self) -> None:
            lost = {"chn": new_id(), "seq": 3, "rh": link("lost")}
            self.by_gateway("gap", "gap", {"lst": lost, "src": "untrusted-store"}, of_session=False)

    assert judge(Own().bytes()).population.open == 1


@pytest.mark.parametrize("target", [None, "https://api.example.com:443/", "GET https://api.example.com:443/"])
def test_a_safe_request_or_one_that_is_not_shown_needs_no_intent(target: str | None) -> None:
    class Safe(Story):
        def by_supervisor(self, step: str, kind: str, members, hidden=None, **more: object):
            if step == "secret":
                return super().by_supervisor(
                    step, "refusal", {"act": {"typ": "secret"}, "rsn": "policy.secret"}
                )
            if step == "egress":
                members = {name: value for name, value in members.items() if name not in ("sec", "par")}
                hidden = {} if target is None else {"act": {"tgt": target}}
            return super().by_supervisor(step, kind, members, hidden, **more)

    found = row(judge(Safe().bytes()), "session.intents")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)


def test_a_close_may_come_after_the_expiry_and_nothing_else() -> None:
    last = [record.payload["iat"] for record in Story().tell().gateway_records][-1]
    for early, state in ((1, State.HELD), (2, State.REFUSED)):
        expires = timedelta(seconds=last - early - NOW.timestamp())
        found = row(judge(Story(expires=expires).bytes(), changes={"clock_tolerance_s": 0}), "session.sealed")
        assert found.state is state


def test_an_intent_without_outcome_is_a_warning() -> None:
    class Open(Story):
        def by_supervisor(self, step: str, *arguments: object, **more: object):
            return None if step == "egress" else super().by_supervisor(step, *arguments, **more)

    assert row(judge(Open().bytes()), "session.intents").tier is Tier.WARNING


def test_what_was_not_inspected_is_a_warning() -> None:
    found = row(judge(Story(alter=at("egress", lim=["tls-passthrough"])).bytes()), "session.decisions")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert len(found.where) == 1


def test_private_hosts_and_added_authorities_are_a_warning() -> None:
    found = row(judge(Story(hosts={"api.example.com": ["10.0.0.7"]}).bytes()), "pol.private")
    assert found.tier is Tier.WARNING
    assert "api.example.com" in found.detail
    added = row(judge(told_with("make_manifest", upstream_roots=[OTHER])), "pol.private")
    assert (added.state, added.tier) == (State.HELD, Tier.WARNING)
    assert "authorities added: 1" in added.detail
    assert row(judge(Story().bytes()), "pol.private").tier is Tier.AFFIRMING


def test_a_kind_that_is_not_judged_is_not_held() -> None:
    class Handed(Story):
        def by_supervisor(self, step: str, *arguments: object, **more: object):
            if step == "session-end":
                super().by_supervisor(
                    "handoff", "handoff", {"typ": "artifact", "to": new_id(), "art": [OTHER]}
                )
            return super().by_supervisor(step, *arguments, **more)

    assert row(judge(Handed().bytes()), "kinds.judged").state is State.NOT_MADE


def test_the_codes_that_a_trust_file_may_name_are_those_of_the_checks() -> None:
    verdict = judge(Story().bytes())
    assert {check.code for check in verdict.checks} == CODES


def test_a_session_without_close_is_open_and_a_warning() -> None:
    class Cut(Story):
        def close(self) -> None:
            """Not written."""

    verdict = judge(Cut().bytes())
    found = row(verdict, "session.close")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert verdict.population.open == 1


def test_an_unpinned_profile_is_a_warning() -> None:
    found = row(judge(Story().bytes(), changes={"profiles": ...}), "pol.accepted")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)


def test_bubblewrap_is_a_warning_where_the_floors_allow_it() -> None:
    found = row(judge(Story(iso="bwrap-landlock", floor="namespace").bytes()), "iso.floor")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)


def test_an_unnamed_release_of_gvisor_is_a_warning_under_the_trust_file_that_an_operator_gets() -> None:
    found = row(judge(Story().bytes()), "iso.floor")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert "releases before 20240729.0, and not every session names its release" in found.detail
    unasked = row(judge(Story().bytes(), changes={"isolation_releases": ...}), "iso.floor")
    assert unasked.tier is Tier.AFFIRMING


@pytest.mark.parametrize("missing", ["evidence", "endorsements", "results", "policies"])
def test_a_missing_object_makes_its_checks_none_not_held(missing: str) -> None:
    verdict = judge(replace(Story().bundle(), **{missing: {}}).to_bytes())
    not_made = [
        check for check in verdict.checks if check.state is State.NOT_MADE and check.tier is Tier.NONE
    ]
    assert not_made
    assert verdict.level_state("L4") is LevelState.NOT_MADE
    assert all(check.state is not State.REFUSED for check in verdict.checks)


def test_without_the_profile_itself_its_digest_is_not_enough() -> None:
    bundle = Story().bundle()
    others = {name: raw for name, raw in bundle.policies.items() if raw != story_module.POLICY}
    verdict = judge(replace(bundle, policies=others).to_bytes())
    found = row(verdict, "pol.bound")
    assert (found.state, found.tier) == (State.NOT_MADE, Tier.NONE)
    assert row(verdict, "conf.bound").state is State.HELD


def test_without_a_key_for_results_nothing_rests_on_one() -> None:
    """Whoever signed it, the quote of the session is not judged by collateral that its result names."""
    verdict = judge(NoKeyForResults().bytes())
    for code in ("tee.appraisal", "tee.class", "peer.ear"):
        assert (row(verdict, code).state, row(verdict, code).tier) == (State.NOT_MADE, Tier.NONE)
    assert all(check.state is not State.REFUSED for check in verdict.checks)


def test_nothing_in_a_bundle_is_a_trust_anchor() -> None:
    other = replace(PLATFORM, seed=b"another platform" * 2)
    story = Story(platform=type(PLATFORM).from_seed(other.seed, created=NOW))
    assert row(judge(story.bytes()), "tee.appraisal").reason == "root.untrusted"


def test_an_entry_counts_only_between_its_instants() -> None:
    revoked = {"gateway_configs": [{"value": Story().config.digest, "revoked_at": "2026-11-21T11:59:59Z"}]}
    assert row(judge(Story().bytes(), changes=revoked), "conf.accepted").reason == "conf.not_accepted"


def test_a_requirement_switched_off_is_named_and_still_refuses_when_wrong() -> None:
    changes = {"require": ["sig.receipts"]}
    verdict = judge(Story().bytes(), changes=changes)
    assert "tee.class" in verdict.to_json()["requirements_off"]
    assert judge(Story(gks=link("other")).bytes(), changes=changes).exit_code == 20


def test_a_foreign_session_is_counted_and_not_judged() -> None:
    data, one = beside(Story(), Story())
    verdict = judge(data, session=one)
    assert (verdict.population.started, verdict.population.foreign) == (1, 1)
    assert row(verdict, "session.start").detail.startswith("1 sessions")


TRUE_STORY = Story().bytes()


@thorough(150)
@given(st.integers(0, len(TRUE_STORY) - 1), st.integers(1, 255))
def test_any_changed_byte_never_raises_tier_or_level(position: int, change: int) -> None:
    data = bytearray(TRUE_STORY)
    data[position] ^= change
    verdict = judge(bytes(data))
    if json_equal(bytes(data), TRUE_STORY):
        assert verdict.exit_code == 40
        return
    held = {check.code for check in verdict.checks if check.state is State.HELD}
    assert held < HELD
    assert verdict.exit_code in (20, 40)
    assert verdict.level in (None, "L0", "L1")


HELD = {check.code for check in judge(TRUE_STORY).checks if check.state is State.HELD}


def json_equal(one: bytes, other: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@thorough(40)
@given(st.data())
def test_omitting_or_doubling_any_record_is_seen(data: st.DataObject) -> None:
    story = Story().tell()
    records = data.draw(st.sampled_from([story.gateway_records, story.session_records]))
    index = data.draw(st.integers(0, len(records) - 1))
    if data.draw(st.booleans()):
        del records[index]
    else:
        records.insert(data.draw(st.integers(0, len(records))), records[index])
    verdict = judge(story.bytes())
    refused = [check for check in verdict.checks if check.state is State.REFUSED]
    warned = [
        check for check in verdict.checks if check.tier is Tier.WARNING and check.code.startswith("session.")
    ]
    assert refused or warned


@thorough(60)
@given(st.binary(max_size=300))
def test_garbage_is_a_refusal_not_a_crash(data: bytes) -> None:
    assert judge(data).exit_code == 20


def test_hostile_strings_reach_the_terminal_escaped() -> None:
    story = Story(alter=at("inference", mdl__id="\u202egnp.exe")).bytes()
    assert "\u202e" not in render(judge(story))


def two_sessions() -> tuple[Story, bytes]:
    one, other = Story().tell(), Story().tell()
    first, second = one.bundle(), other.bundle()
    maps = ("keysets", "evidence", "endorsements", "results", "policies")
    joined = {name: {**getattr(first, name), **getattr(second, name)} for name in maps}
    return one, replace(first, receipts=first.receipts + second.receipts, **joined).to_bytes()


def test_one_session_of_two_is_judged_alone() -> None:
    story, data = two_sessions()
    verdict = judge(data, session=story.session)
    assert verdict.exit_code == 40, [c for c in verdict.checks if c.state is State.REFUSED]
    assert row(verdict, "tee.appraisal").state is State.HELD
    assert verdict.population.foreign == 1


def test_a_result_that_is_no_text_is_refused_and_no_crash() -> None:
    raw = b"\xff\xfe"

    def alter(step: str, members: dict[str, object]) -> dict[str, object]:
        if step == "start":
            members["att"] = {"ses": {"ear": b64u_sha256(raw), "tier": "none"}}
        return members

    story = Story(alter=alter).tell()
    bundle = replace(story.bundle(), results={**story.bundle().results, **objects_by_digest([raw])})
    assert row(judge(bundle.to_bytes()), "tee.appraisal").reason == "peer.ear_mismatch"


def test_a_mistake_of_the_verifier_refuses_and_does_not_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: object) -> None:
        raise KeyError("surprise")

    rows = [replace(check, examine=broken) if check.code == "chain.end" else check for check in CHECKS]
    monkeypatch.setattr(verify_bundle_module, "CHECKS", rows)
    verdict = judge(TRUE_STORY)
    assert row(verdict, "chain.end").reason == "verifier.fault"
    assert verdict.exit_code == 20
    assert "surprise" not in render(verdict)
