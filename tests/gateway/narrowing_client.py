"""A session whose TD stays at hand, so that its profile can be narrowed; each step can be done wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tests.gateway.session_client import (
    ADMISSION_TYPE,
    Answer,
    Draft,
    Gateway,
    SessionClient,
    admission_headers,
    draft,
)

from affiant.attestation.encoding.binary_text import b64u_sha256, from_b64u, sha256_name
from affiant.attestation.records.receipt import Issued
from affiant.attestation.release.boot import boot_log
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.statements.evidence import Admission, Evidence, wrap_admission, wrap_evidence
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import report_data
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent, parse_event_log
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.diff.restriction import compare_restriction, restriction_digest, restriction_document
from affiant.policy.loading.load import load_profiles

WIDE = b"""
agent_configs:
  tester:
    tools: [read_file, run_tests, deploy]
    filesystem_access: read-write:/workspace
    network_egress: [{host: api.example.com, methods: [GET, POST]}]
    models: [affiant-dev-echo]
    limits: {requests: 50}
"""
NARROW = WIDE.replace(b", deploy]", b"]")
NARROWEST = NARROW.replace(b"models: [affiant-dev-echo]", b"models: []")


@dataclass
class LivingTD:
    """One TD and what was extended into its RTMR3."""

    td: SimulatedTD
    made: Draft
    entries: list[LoggedEvent] = field(default_factory=list)

    def extend(self, name: str, payload) -> None:
        event = Event(name, payload)
        self.td.extend(event)
        self.entries.append(LoggedEvent(3, event))

    def evidence(self, made: Draft, *, entries: list[LoggedEvent] | None = None) -> bytes:
        statement = made.statement()
        return wrap_evidence(
            Evidence(
                quote=self.td.quote(report_data(statement)),
                eventlog=EventLog(tuple(self.entries if entries is None else entries)).to_bytes(),
                statement=statement,
                manifest=made.manifest.raw,
                activation=made.activation.raw,
            )
        )


class NarrowingClient(SessionClient):
    """An admitted session that can be narrowed."""

    living: LivingTD
    policy: CompiledPolicy
    narrowings: tuple[Narrowing, ...] = ()
    signature: bytes | None = None

    @classmethod
    @contextmanager
    def admitted_by(
        cls,
        gateway: Gateway,
        platform: PlatformClient,
        *,
        profile: bytes = WIDE,
        signed: Callable[[bytes], bytes] | None = None,
        **changes: object,
    ) -> Iterator[NarrowingClient]:
        made = draft(gateway, profile=profile, **changes)
        with SimulatedTD(platform.create_td(image=made.image, mrconfigid=made.mrconfigid)) as td:
            living = LivingTD(td, made, list(parse_event_log(boot_log(made.image)).entries))
            for name, payload in made.events:
                living.extend(name, payload)
            evidence = living.evidence(made)
            signature = None if signed is None else signed(profile)
            body = wrap_admission(Admission(evidence, made.policy, signature))
            answer = gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce))
            assert answer.status == 201, answer.body
            client = cls(gateway, made, evidence, answer.json())
            client.living, client.policy = living, parse_normal_form(made.policy)
            assert client.submit(client.boot_record()).status == 200
            yield client

    def next_narrowing(self, profile: bytes) -> Narrowing:
        new = load_profiles(profile).profile("tester")
        return Narrowing(len(self.narrowings) + 1, new.digest, sha256_name(profile), old=self.policy.digest)

    def narrow(
        self,
        profile: bytes,
        *,
        extend: bool = True,
        nonce: str | None = None,
        signature: bytes | None = None,
        alter: Callable[[Draft], Draft] = lambda made: made,
        narrowing: Narrowing | None = None,
        policy: bytes | None = None,
        entries: list[LoggedEvent] | None = None,
        evidence: bytes | None = None,
    ) -> Answer:
        """Ask to be narrowed to ``profile``; what the session believes of itself changes only if that is granted."""
        narrowing = narrowing or self.next_narrowing(profile)
        if extend:
            self.living.extend(narrowing.event.name, narrowing.event.payload)
        made = alter(replace(self.made, nonce=nonce or self.gateway.nonce()))
        evidence = evidence or self.living.evidence(made, entries=entries)
        new = load_profiles(profile).profile("tester")
        body = wrap_admission(Admission(evidence, policy or new.normal_form, signature))
        answer = self.send_narrowing(body)
        if answer.status == 200:
            self.made, self.evidence = made, evidence
            self.previous, self.policy = self.policy, new.compiled
            self.narrowings = (*self.narrowings, narrowing)
        return answer

    def send_narrowing(self, body: bytes, **proof: object) -> Answer:
        return self.ask("POST", f"/v1/sessions/{self.id}/narrow", body, content_type=ADMISSION_TYPE, **proof)

    def policy_record(self, **changes: object) -> Issued:
        """The record of the last narrowing; from it on the chain names the new evidence."""
        last = self.narrowings[-1]
        self.chain.evd = b64u_sha256(self.evidence)
        differences = compare_restriction(self.previous, self.policy)
        members: dict[str, object] = {
            "pol": {
                "dec": "allow",
                "dig": last.profile_digest,
                "fil": last.file_digest,
                "bind": "rtmr3",
                "epoch": last.epoch,
            },
            "old": last.old,
            "dif": restriction_digest(
                restriction_document(differences, old=self.previous.digest, new=self.policy.digest)
            ),
            "agt": self.agt(),
            "peer": self.head,
        }
        return self.chain.issue("policy", {**members, **changes}, {"pol": {"id": "tester", "rules": []}})

    def narrowed(self, profile: bytes) -> None:
        """Narrow, and record it."""
        answer = self.narrow(profile)
        assert answer.status == 200, answer.body
        recorded = self.submit(self.policy_record())
        assert recorded.status == 200, recorded.body

    @property
    def own_records(self) -> list[dict]:
        """The gateway's records about this session, in chain order."""
        found = []
        for text in self.bundle()["bundle"]["receipts"]:
            payload = payload_of(text["sdjwt"])
            if payload["role"] == "gateway" and payload.get("agt", {}).get("ses") == self.id:
                found.append(payload)
        return sorted(found, key=lambda payload: payload["seq"])


def payload_of(text: str) -> dict:
    """A receipt's payload, unverified."""
    return json.loads(from_b64u(text.split(".")[1]))
