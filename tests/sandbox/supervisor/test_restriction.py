"""Each step of a narrowing, made to fail: before it has begun everything is as it was, after that the session ends.

The platform, the gateway, the broker and the chain are stand-ins here, because the real ones do not fail on demand;
``test_narrowed_session.py`` narrows with the real ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gateway.test_profile_signers import REVIEWER, STRANGER, entry
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256, sha256_name
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.profiles.accepted_signers import AcceptedSigner, parse_signers
from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.attestation.statements.ear import issue_ear
from affiant.attestation.statements.evidence import parse_admission, parse_evidence
from affiant.attestation.statements.restriction import MAX_NARROWINGS, logged_narrowings
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent, parse_event_log
from affiant.errors import AffiantError, ConfigurationError
from affiant.policy.decision.limit_errors import BytesSpent
from affiant.policy.diff.restriction import compare_restriction, restriction_digest, restriction_document
from affiant.policy.loading.load import load_profiles
from affiant.policy.signing.signatures import signed_profiles
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.gate import Gate
from affiant.sandbox.egress.limits import EgressMeters
from affiant.sandbox.egress.records_of_egress import PolicyFacts
from affiant.sandbox.supervisor.launch.errors import AdmissionError, RestrictionError
from affiant.sandbox.supervisor.launch.restriction_request import RestrictionRequest
from affiant.sandbox.supervisor.restriction import ProfileRestrictor, RestrictableSession, RestrictionTimes
from affiant.secrets.injection.placeholder import Binding, Endpoint, PlaceholderTable
from affiant.secrets.names.errors import BrokerGone

WIDE = """
tools: [read_file, deploy]
filesystem_access: read-write:/workspace
network_egress: [{host: api.example.com, methods: [GET, POST]}]
secrets_access: [{name: TOKEN, hosts: [api.example.com]}]
"""
NARROW = WIDE.replace(", deploy", "").replace("secrets_access: [{name: TOKEN, hosts: [api.example.com]}]", "")
EAR, OTHER = Signer.generate(), Signer.generate()
BARRIER = [
    ("affiant-manifest", {}),
    ("affiant-profile", {}),
    ("affiant-images", {}),
    ("affiant-activate", {}),
    ("affiant-ready", {}),
]


def file_of(text: str) -> bytes:
    return (
        "agent_configs:\n  dev:\n" + "".join(f"    {line}\n" for line in text.strip().splitlines())
    ).encode()


def compiled(text: str):
    return load_profiles(file_of(text)).profile("dev").compiled


def request(text: str, signature: bytes | None = None) -> RestrictionRequest:
    return RestrictionRequest(compiled(text).normal_form, sha256_name(file_of(text)), signature)


@dataclass
class World:
    """One session, with everything around it; ``fails`` raises at the step of that name."""

    fails: dict[str, BaseException] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    extended: list[Event] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    written: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    result_of: Callable[[str], str] = b64u_sha256  # noqa: RUF009
    signer: Signer = EAR
    peer: str = "session"
    hangs: str = ""
    settled_before: list[int] = field(default_factory=list)
    """How many steps were made each time that the chain was waited for."""
    nonces: list[str] = field(default_factory=list)
    approvals: Any = None
    decisions: Any = None
    wide: str = WIDE

    async def step(self, name: str) -> None:
        self.told.append(name)
        if name == self.hangs:
            await asyncio.sleep(60)
        if name in self.fails:
            raise self.fails[name]

    def sync(self, name: str) -> None:
        self.told.append(name)
        if name in self.fails:
            raise self.fails[name]

    # -- the TD --------------------------------------------------------------------------------------------------------

    def extend(self, event: Event) -> None:
        self.sync("extend")
        self.extended.append(event)

    def quote(self, report_data: bytes) -> bytes:
        self.sync("quote")
        return report_data

    def report(self) -> Any:
        raise AssertionError("nobody asks")

    # -- the gateway ---------------------------------------------------------------------------------------------------

    async def nonce(self) -> str:
        await self.step("nonce")
        self.nonces.append(b64u(hashlib.sha256(b"%d" % len(self.told)).digest()))
        return self.nonces[-1]

    async def narrow_at_gateway(self, admission: bytes) -> str:
        await self.step("gateway")
        self.sent.append(admission)
        now = datetime.now(UTC)
        return issue_ear(
            self.signer,
            iss="https://gateway",
            build="sha256:" + "0" * 64,
            peer=self.peer,
            tier="none",
            vector={"configuration": 2},
            policy="sha256:" + "0" * 64,
            evd=self.result_of(parse_admission(admission).evidence),
            col="A" * 43,
            cls="simulated",
            tcb_status="UpToDate",
            until=now,
            now=now,
        )

    # -- the rest ------------------------------------------------------------------------------------------------------

    async def narrow_broker(self, kept: Any) -> None:
        await self.step("broker")
        self.kept = kept

    async def record(self, kind: str, members: Any, hidden: Any, *, acknowledged: bool, evidence: str) -> str:
        assert (kind, acknowledged) == ("policy", True)
        await self.step("record")
        self.written.append((evidence, members))
        return "x" * 22

    async def settled(self, timeout_s: float) -> bool:
        self.settled_before.append(len(self.told))
        return True

    def session(self, *, signers: tuple[AcceptedSigner, ...] = ()) -> RestrictableSession:
        policy = compiled(self.wide)
        table = PlaceholderTable(
            [Binding("TOKEN", "affiant-ph-" + "0" * 32, frozenset({Endpoint("api.example.com", 443)}))]
        )
        meters = EgressMeters(policy, nanoseconds=time.monotonic_ns)
        self.facts: list[PolicyFacts] = []
        self.proxy = Proxy(
            Gate(),
            Forwarder(policy, table, meters, SimpleNamespace(follow=self.facts.append), self.approvals),
            self,
        )
        manifest = SimpleNamespace(cls="simulated", digest="M" * 43, raw=b"m")
        activation = SimpleNamespace(session="S" * 22, digest="A" * 43, raw=b"a", expires=2_000_000_000)
        self.placeholders = {"TOKEN": {"TOKEN": "p"}}
        return RestrictableSession(
            around=SimpleNamespace(td=self, clock=lambda: datetime.now(UTC)),  # type: ignore[arg-type]
            started=SimpleNamespace(
                launch=SimpleNamespace(
                    manifest=manifest,
                    activation=activation,
                    policy=policy,
                    facts=PolicyFacts("dev", policy.digest, "sha256:" + "1" * 64),
                ),
                pins=SimpleNamespace(config=SimpleNamespace(profile_signers=signers)),
                broker=SimpleNamespace(restrict=self.narrow_broker),
            ),  # type: ignore[arg-type]
            admitted=SimpleNamespace(
                identity=SimpleNamespace(signer=OTHER, chn="C" * 22),
                log=EventLog(tuple(LoggedEvent(3, Event(name, payload)) for name, payload in BARRIER)),
                gateway=SimpleNamespace(nonce=self.nonce, restrict=self.narrow_at_gateway),
                appraised=SimpleNamespace(
                    statement=SimpleNamespace(keyset_digest="G" * 43, ear_key=EAR.public_key)
                ),
            ),  # type: ignore[arg-type]
            records=self,  # type: ignore[arg-type]
            proxy=self.proxy,  # type: ignore[arg-type]
            decisions=self.decisions,
            placeholders=self.placeholders,
        )

    def restrictor(self, *, patience: float = 10.0, **more: Any) -> ProfileRestrictor:
        times = RestrictionTimes(drain=0.05, cut=0.05, nonce=patience, commit=patience)
        return ProfileRestrictor(self.session(**more), times=times)


@dataclass(frozen=True)
class Forwarder:
    policy: Any
    table: PlaceholderTable
    meters: Any
    records: Any
    approvals: Any = None


@dataclass
class Proxy:
    gate: Gate
    forwarder: Forwarder
    world: World

    def restrict(self, forwarder: Forwarder) -> None:
        self.world.sync("follow")
        self.forwarder = forwarder

    async def cut(self, *, within_s: float) -> bool:
        self.world.told.append("cut")
        self.gate.cut()
        return await self.gate.empty(within_s=within_s)


def run(scenario) -> Any:
    async def whole() -> object:
        async with asyncio.timeout(20):
            return await scenario

    return asyncio.run(whole())


async def open_gate(world: World) -> bool:
    """Whether a request passes now."""
    try:
        async with asyncio.timeout(0.05), world.proxy.gate.passing():
            return True
    except TimeoutError:
        return False


STEPS = ["nonce", "broker", "extend", "quote", "gateway", "record", "follow"]


def test_the_steps_are_in_their_order_and_everybody_follows() -> None:
    async def scenario() -> World:
        world = World()
        restrictor = world.restrictor()
        changed = restrictor.changed
        done = await restrictor.restrict(request(NARROW))
        assert (done.epoch, done.changed, done.profile_digest) == (1, True, compiled(NARROW).digest)
        assert changed.is_set()
        assert not restrictor.changed.is_set()
        assert await open_gate(world)
        return world

    world = run(scenario())
    assert world.told == STEPS
    assert world.settled_before == [0], "the gateway knows of everything before it gives a nonce"
    assert world.kept == ()
    assert world.placeholders == {}
    (binding,) = world.proxy.forwarder.table
    assert binding.endpoints == frozenset()  # known, and usable nowhere
    assert world.proxy.forwarder.policy.digest == compiled(NARROW).digest
    evidence = parse_evidence(parse_admission(world.sent[0]).evidence)
    first = compiled(WIDE).digest
    (narrowing,) = logged_narrowings(parse_event_log(evidence.eventlog), first=first)
    assert (narrowing.epoch, narrowing.old, narrowing.profile_digest) == (1, first, compiled(NARROW).digest)
    assert world.extended == [narrowing.event]
    ((evd, members),) = world.written
    assert evd == b64u_sha256(parse_admission(world.sent[0]).evidence)
    assert members["old"] == first
    assert members["pol"] == {
        "dec": "allow",
        "dig": compiled(NARROW).digest,
        "fil": sha256_name(file_of(NARROW)),
        "bind": "rtmr3",
        "epoch": 1,
    }
    differences = compare_restriction(compiled(WIDE), compiled(NARROW))
    document = restriction_document(differences, old=first, new=compiled(NARROW).digest)
    assert members["dif"] == restriction_digest(document)
    assert world.facts == [PolicyFacts("dev", narrowing.profile_digest, narrowing.file_digest, "rtmr3", 1)]
    statement = parse_statement(evidence.statement)
    assert (statement.receipt_kid, [statement.nonce]) == (OTHER.kid, world.nonces)


@dataclass
class Followers:
    """Approvals and the decision log: what each was told."""

    told: list[tuple[str, object]] = field(default_factory=list)

    def restrict(self, *, policy: str, approval: object) -> None:
        self.told.append((policy, approval))

    def follow(self, digest: str) -> None:
        self.told.append((digest, "log"))


def test_approvals_the_decision_log_and_limits_follow_and_what_was_sent_stays_sent() -> None:
    wide = "network_egress: [{host: a.example}, {host: b.example}]\nlimits: {bytes_out: 4KiB}"
    narrow = "network_egress: [{host: a.example}]\nlimits: {bytes_out: 1KiB}"

    async def scenario() -> World:
        followers = Followers()
        world = World(wide=wide, approvals=followers, decisions=followers)
        restrictor = world.restrictor()
        world.proxy.forwarder.meters.request(("egress/0",), 1000)
        await restrictor.restrict(request(narrow))
        with pytest.raises(BytesSpent):
            world.proxy.forwarder.meters.request(("egress/0",), 25)
        world.proxy.forwarder.meters.request(("egress/0",), 24)
        return world

    world = run(scenario())
    new = compiled(narrow)
    assert world.approvals.told == [(new.digest, "log"), (new.digest, new.policy.approval)]


def test_a_second_narrowing_goes_on_from_the_first() -> None:
    async def scenario() -> World:
        world = World()
        restrictor = world.restrictor()
        await restrictor.restrict(request(NARROW))
        await restrictor.restrict(request(NARROW.replace("GET, POST", "GET")))
        return world

    world = run(scenario())
    evidence = parse_evidence(parse_admission(world.sent[1]).evidence)
    found = logged_narrowings(parse_event_log(evidence.eventlog), first=compiled(WIDE).digest)
    assert [each.event for each in found] == world.extended
    assert [members["pol"]["epoch"] for _, members in world.written] == [1, 2]


FAILURES: dict[str, BaseException] = {
    "broker": BrokerGone("gone"),
    "extend": OSError("the platform is gone"),
    "quote": GatewayUnreachable("no quote"),
    "gateway": AdmissionError("no", gateway_code="policy.not_narrower"),
    "record": GatewayUnreachable("not acknowledged"),
    "follow": RuntimeError("a defect of ours"),
}


@pytest.mark.parametrize("step", [*FAILURES, "broker refuses", "gateway gone"])
def test_whatever_fails_once_it_has_begun_ends_the_session_and_nothing_goes_on(step: str) -> None:
    async def scenario() -> tuple[World, ProfileRestrictor]:
        failures = {
            **FAILURES,
            "broker refuses": ConfigurationError("more than before", code="secret.grants"),
            "gateway gone": GatewayUnreachable("gone"),
        }
        name = step.partition(" ")[0]
        world = World(fails={name: failures[step]})
        restrictor = world.restrictor()
        with pytest.raises(RestrictionError) as failed:
            await restrictor.restrict(request(NARROW))
        assert failed.value.code == "session.narrowing_failed"
        assert world.told[-1] == name
        assert not await open_gate(world)  # until the agent is ended
        assert world.proxy.forwarder.policy.digest == compiled(WIDE).digest
        with raises_code("session.narrowing_busy"):
            await restrictor.restrict(request(NARROW))
        return world, restrictor

    run(scenario())


@pytest.mark.parametrize("step", ["broker", "gateway", "record"])
def test_a_step_that_does_not_end_ends_the_session(step: str) -> None:
    async def scenario() -> None:
        world = World(hangs=step)
        with pytest.raises(RestrictionError):
            await world.restrictor(patience=0.2).restrict(request(NARROW))
        assert not await open_gate(world)

    run(scenario())


@pytest.mark.parametrize(
    "world",
    [
        lambda: World(signer=OTHER),
        lambda: World(result_of=lambda evidence: "Z" * 43),
        lambda: World(peer="gateway"),
    ],
)
def test_a_result_by_another_key_or_of_other_evidence_ends_the_session(world: Callable[[], World]) -> None:
    async def scenario() -> None:
        made = world()
        with pytest.raises(RestrictionError):
            await made.restrictor().restrict(request(NARROW))
        assert "record" not in made.told

    run(scenario())


UNCHANGED: dict[str, tuple[str, str]] = {
    "a wider profile": (WIDE.replace("deploy", "deploy, destroy"), "policy.not_narrower"),
    "less here, more there": (NARROW.replace("GET, POST", "GET, POST, PUT"), "policy.not_narrower"),
    "other files": (NARROW.replace("read-write:", "read:"), "policy.narrow_unenforced"),
}


@pytest.mark.parametrize(("text", "code"), UNCHANGED.values(), ids=UNCHANGED)
def test_what_is_refused_before_it_begins_changes_nothing(text: str, code: str) -> None:
    async def scenario() -> None:
        world = World()
        restrictor = world.restrictor()
        with pytest.raises(AffiantError) as refused:
            await restrictor.restrict(request(text))
        assert refused.value.code == code
        assert world.told == []
        assert await open_gate(world)
        assert (await restrictor.restrict(request(NARROW))).epoch == 1

    run(scenario())


def test_no_normal_form_is_no_profile() -> None:
    async def scenario() -> None:
        world = World()
        with pytest.raises(AffiantError) as refused:
            await world.restrictor().restrict(RestrictionRequest(b"{}", "sha256:" + "0" * 64, None))
        assert refused.value.code == "policy.normal_form"
        assert world.told == []

    run(scenario())


def test_the_same_again_is_no_change_and_no_event() -> None:
    async def scenario() -> None:
        world = World()
        restrictor = world.restrictor()
        for text in (WIDE, WIDE.replace("[read_file, deploy]", "[read_file, deploy, {deny: nothing}]")):
            done = await restrictor.restrict(request(text))
            assert (done.epoch, done.changed, done.profile_digest) == (0, False, compiled(WIDE).digest)
        await restrictor.restrict(request(NARROW))
        again = await restrictor.restrict(request(NARROW))
        assert (again.epoch, again.changed) == (1, False)
        assert len(world.extended) == 1

    run(scenario())


@pytest.mark.parametrize(("fails", "hangs"), [({"nonce": GatewayUnreachable("no")}, ""), ({}, "nonce")])
def test_without_a_nonce_everything_is_as_it_was(fails: dict[str, BaseException], hangs: str) -> None:
    async def scenario() -> None:
        world = World(fails=fails, hangs=hangs)
        restrictor = world.restrictor(patience=0.5)
        with pytest.raises(AffiantError):
            await restrictor.restrict(request(NARROW))
        assert await open_gate(world)
        assert world.told == ["nonce"]
        world.fails, world.hangs = {}, ""
        assert (await restrictor.restrict(request(NARROW))).epoch == 1

    run(scenario())


@pytest.mark.parametrize("obeys", [True, False])
def test_a_request_that_does_not_end_is_cut_and_one_that_cannot_be_stops_the_narrowing(obeys: bool) -> None:
    async def scenario() -> None:
        world = World()
        restrictor = world.restrictor()
        released = asyncio.Event()

        async def request_of_the_agent() -> None:
            async with world.proxy.gate.passing():
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    if not obeys:
                        await released.wait()
                    raise

        task = asyncio.create_task(request_of_the_agent())
        await asyncio.sleep(0)
        if obeys:
            assert (await restrictor.restrict(request(NARROW))).changed
        else:
            with raises_code("session.narrowing_busy"):
                await restrictor.restrict(request(NARROW))
            assert world.told == ["cut"]
            released.set()
        await asyncio.gather(task, return_exceptions=True)
        assert await open_gate(world)

    run(scenario())


def test_two_at_once_come_one_after_the_other() -> None:
    async def scenario() -> World:
        world = World()
        restrictor = world.restrictor()
        narrowest = NARROW.replace("GET, POST", "GET")
        done = await asyncio.gather(*(restrictor.restrict(request(text)) for text in (NARROW, narrowest)))
        assert [each.epoch for each in done] == [1, 2]
        return world

    assert run(scenario()).told == STEPS * 2


def test_a_session_is_narrowed_so_often_and_no_more() -> None:
    async def scenario() -> None:
        world = World()
        restrictor = world.restrictor()
        for most in range(MAX_NARROWINGS + 100, 100, -1):
            await restrictor.restrict(request(NARROW + f"limits: {{requests: {most}}}"))
        with raises_code("session.narrowing_busy", match="as often"):
            await restrictor.restrict(request(NARROW + "limits: {requests: 5}"))
        assert len(world.extended) == MAX_NARROWINGS
        assert await open_gate(world)

    run(scenario())


def test_where_the_gateway_asks_for_signatures_they_are_asked_for_here_first() -> None:
    def signed(text: str, key: Any) -> bytes:
        return sign_envelope(signed_profiles(load_profiles(file_of(text))).to_bytes(), key)

    async def scenario() -> None:
        world = World()
        restrictor = world.restrictor(signers=parse_signers([entry(REVIEWER)]))
        for signature, code in (
            (None, "policy.unsigned"),
            (signed(NARROW, STRANGER), "policy.signer"),
            (signed(WIDE, REVIEWER), "policy.signature_other"),
            (b"{}", "policy.signature"),
        ):
            with pytest.raises(AffiantError) as refused:
                await restrictor.restrict(request(NARROW, signature))
            assert (refused.value.code, world.told) == (code, [])
        good = signed(NARROW, REVIEWER)
        assert (await restrictor.restrict(request(NARROW, good))).changed
        assert parse_admission(world.sent[0]).signature == good

    run(scenario())
