"""A whole session as receipts: what a gateway and a supervisor sign, made in memory under a simulated platform.

``Story().bundle()`` is a bundle that the verifier accepts (as simulated). Every fact can be made wrong and the
whole signed again: by an attribute set before :meth:`Story.tell`, by ``alter`` (called with a step's name and
its members before it is signed), or by changing the list of records afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.encoding.binary_text import b64u, b64u_sha256, from_b64u, sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.receipt import Issued
from affiant.attestation.records.session_summary import session_counts, session_root
from affiant.attestation.records.task_label import TaskLabel
from affiant.attestation.release.boot import Image, boot_events, boot_registers
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.ear import ear_digest, issue_ear
from affiant.attestation.statements.evidence import Evidence, wrap_endorsements, wrap_evidence
from affiant.attestation.statements.gateway_config import GatewayConfig, local_gateway_config
from affiant.attestation.statements.manifest import (
    Activation,
    GatewayIdentity,
    Manifest,
    agent_commitment,
    make_activation,
    make_manifest,
    mrconfigid,
    session_events,
)
from affiant.attestation.statements.statement import (
    LogIdentity,
    gateway_statement,
    parse_statement,
    report_data,
    session_statement,
)
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent, event_digest, extend
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.entry import LogEntry
from affiant.attestation.tlog.note import signed
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path, range_hash
from affiant.attestation.verdict.trust_file import TrustFile, parse_trust_file, simulated_trust_file

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
MRTD = hashlib.sha384(b"the files of a release").digest()
PLATFORM = SimulatedPlatform.create(now=NOW - timedelta(days=1), random_bytes=lambda n: bytes(range(n)))
POLICY = canonical({"semantics": "affiant.policy/1", "tools": []})
POLICY_DIGEST = "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + POLICY).hexdigest()
BUILD = sha256_name(b"release manifest")
REQUEST = b'{"model":"affiant-dev-echo","messages":[]}'
RESPONSE = b'{"choices":[]}'

Alter = Callable[[str, dict[str, object]], dict[str, object]]


def keep(_step: str, members: dict[str, object]) -> dict[str, object]:
    return members


def reference_bytes(platform: SimulatedPlatform = PLATFORM, **changes: object) -> bytes:
    def image(role: str) -> dict[str, str]:
        rtmrs = boot_registers(Image(role))
        return {"mrtd": MRTD.hex(), **{f"rtmr{i}": rtmrs[i].hex() for i in range(3)}}

    from affiant.attestation.release.platform_identity import TD_ATTRIBUTES, XFAM

    document: dict[str, object] = {
        "typ": "affiant-reference-values/1",
        "cls": "simulated",
        "roots": [sha256_name(platform.root_spki())],
        "images": {"gateway": [image("gateway")], "session": [image("session")]},
        "tcb": {"statuses": ["UpToDate"], "min_evaluation": 1},
        "td_attributes": TD_ATTRIBUTES.hex(),
        "xfam": XFAM.hex(),
    }
    return canonical({**document, **changes})


def trust_bytes(**changes: object) -> bytes:
    import json

    document = json.loads(simulated_trust_file(reference_bytes(), NOW))
    document["profiles"] = [{"value": POLICY_DIGEST}]
    document |= changes
    return json.dumps({k: v for k, v in document.items() if v is not ...}).encode()


def trust(**changes: object) -> TrustFile:
    return parse_trust_file(trust_bytes(**changes))


def leaf_of(jws: str) -> LogEntry:
    claims = json.loads(from_b64u(jws.split(".")[1]))
    rh = hashlib.sha256(jws.encode()).digest()
    return LogEntry(claims["kind"], from_b64u(claims["chn"]), claims["seq"], claims["iat"], rh)


def link(text: str) -> str:
    return b64u_sha256(text.encode())


def new_id() -> str:
    return b64u(os.urandom(16))


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def step(self, seconds: float = 1) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class Story:
    """One gateway, one supervisor, one session. Set what shall be wrong, then :meth:`tell`."""

    alter: Alter = keep
    platform: SimulatedPlatform = PLATFORM
    collateral_at: datetime = NOW
    cls: str = "simulated"
    iso: str = "gvisor"
    floor: str = "userspace-kernel"
    rootfs: str = "host-usr"
    policy: bytes = POLICY
    policy_digest: str = POLICY_DIGEST
    expires: timedelta = timedelta(hours=1)
    task: TaskLabel | None = None
    gateway_not_after: timedelta = timedelta(days=1)
    gateway_mrconfigid: bytes | None = None
    session_mrconfigid: bytes | None = None
    gateway_report_data: Callable[[bytes], bytes] = report_data
    session_report_data: Callable[[bytes], bytes] = report_data
    session_mrtd: bytes = MRTD
    events: Callable[[list[tuple[str, Mapping[str, object]]]], list[tuple[str, Mapping[str, object]]]] = list
    gks: str | None = None
    hosts: Mapping[str, list[str]] = field(default_factory=dict)
    random_bytes: Callable[[int], bytes] = os.urandom
    config: GatewayConfig | None = None
    extra_session_key: bool = False
    clock: Clock = field(default_factory=Clock)
    gateway_records: list[Issued] = field(default_factory=list)
    session_records: list[Issued] = field(default_factory=list)

    def _id(self) -> str:
        return b64u(self.random_bytes(16))

    def _key(self) -> Signer:
        """A key of this story's own randomness, so that a seeded story is the same to the byte."""
        return Signer(ec.derive_private_key(int.from_bytes(self.random_bytes(31), "big") + 1, ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.session = self._id()
        self.reference = reference_bytes()
        if self.config is None:
            self.config = local_gateway_config(parse_reference_values(self.reference))
        self.endorsements = wrap_endorsements(self.platform.collateral(self.collateral_at).to_bytes())
        self.col = b64u_sha256(self.endorsements)

    # -- the parties -------------------------------------------------------------------------------------------

    def _quote(
        self, image: str, config: bytes, report: bytes, events: list[Event], mrtd: bytes
    ) -> tuple[bytes, bytes]:
        registers = self.platform.launch(
            Image(image), mrconfigid=config, mrtd=mrtd, td_id=self.random_bytes(32)
        )
        rtmr3 = bytes(48)
        for event in events:
            rtmr3 = extend(rtmr3, event_digest(event))
        registers = replace(registers, rtmrs=(*registers.rtmrs[:3], rtmr3))
        entries = [
            *(LoggedEvent(e.rtmr, Event(e.name, e.payload)) for e in boot_events(Image(image))),
            *(LoggedEvent(3, event) for event in events),
        ]
        return self.platform.quote(registers, report), EventLog(tuple(entries)).to_bytes()

    def make_gateway(self) -> None:
        self.gateway_signer, self.ear_signer = self._key(), self._key()
        self.log_signer = LogSigner(
            self.config.origin, Ed25519PrivateKey.from_private_bytes(self.random_bytes(32))
        )
        chn = self._id()
        raw = gateway_statement(
            iss=self.config.iss,
            cls=self.cls,
            chn=[chn],
            receipt=self.gateway_signer.public_key,
            ear=self.ear_signer.public_key,
            tls_spki=link("tls"),
            policy=self.config.digest,
            log=LogIdentity(self.log_signer.verifier, "file"),
            epoch_s=60,
            not_after=int((NOW + self.gateway_not_after).timestamp()),
            nonce=None,
        )
        self.gateway_statement = parse_statement(raw)
        config = self.gateway_mrconfigid or self.config.mrconfigid
        quote, log = self._quote("gateway", config, self.gateway_report_data(raw), [], MRTD)
        self.gateway_evidence = wrap_evidence(Evidence(quote, log, raw))
        self.gateway = ChainSigner(
            signer=self.gateway_signer,
            statement=self.gateway_statement,
            chn=chn,
            evd=b64u_sha256(self.gateway_evidence),
            random_bytes=self.random_bytes,
            clock=self.clock,
        )

    def make_session(self) -> None:
        self.manifest: Manifest = make_manifest(
            cls=self.cls,
            profile_digest=self.policy_digest,
            file_digest=sha256_name(b"profiles.yaml"),
            supervisor=BUILD,
            rootfs=self.rootfs,
            runtime=None,
            isolation_floor=self.floor,
            gateway=GatewayIdentity(self.config.origin, self.config.reference, self.config.digest, self.cls),
            hosts=self.hosts,
            upstream_roots=[],
        )
        self.activation: Activation = make_activation(
            session=self.session,
            agent=agent_commitment(bytes(16), "code_implementer"),
            input_digest=None,
            isolation=self.iso,
            challenge=link("challenge"),
            expires=int((NOW + self.expires).timestamp()),
            starter={"iss": "local", "method": "uid", "sub": link("uid")},
            openings=None,
            task=None if self.task is None else self.task.digests,
        )
        self.session_signer = self._key()
        chn = self._id()
        raw = session_statement(
            session=self.session,
            cls=self.cls,
            chn=chn,
            key=self.session_signer.public_key,
            man=self.manifest.digest,
            act=self.activation.digest,
            gks=self.gks or self.gateway_statement.keyset_digest,
            epoch_s=60,
            not_after=int((NOW + timedelta(days=1)).timestamp()),
            nonce=link("nonce"),
        )
        self.session_statement = parse_statement(raw)
        config = self.session_mrconfigid or mrconfigid(self.manifest)
        events = [Event(n, p) for n, p in self.events(list(session_events(self.manifest, self.activation)))]
        quote, log = self._quote("session", config, self.session_report_data(raw), events, self.session_mrtd)
        self.session_evidence = wrap_evidence(
            Evidence(quote, log, raw, self.manifest.raw, self.activation.raw)
        )
        self.supervisor = ChainSigner(
            signer=self.session_signer,
            statement=self.session_statement,
            chn=chn,
            evd=b64u_sha256(self.session_evidence),
            random_bytes=self.random_bytes,
            clock=self.clock,
        )
        self.ear = issue_ear(
            self.ear_signer,
            **self.alter(
                "ear",
                {
                    "iss": self.config.iss,
                    "build": BUILD,
                    "peer": "session",
                    "tier": "none",
                    "vector": {"instance-identity": 0},
                    "policy": self.config.reference,
                    "evd": b64u_sha256(self.session_evidence),
                    "col": self.col,
                    "cls": self.cls,
                    "tcb_status": "UpToDate",
                    "until": NOW + timedelta(days=29),
                    "now": NOW,
                },
            ),
        )

    # -- the records -------------------------------------------------------------------------------------------

    def _pol(self, decision: str = "allow") -> dict[str, object]:
        return {
            "dec": decision,
            "dig": self.manifest.profile_digest,
            "fil": self.manifest.file_digest,
            "bind": "mrconfigid",
            "epoch": 0,
        }

    def _agt(self, **more: object) -> dict[str, object]:
        return {
            "ses": self.session,
            "evd": b64u_sha256(self.session_evidence),
            "key": self.session_signer.kid,
            "bind": "pop",
            "iso": self.iso,
            **more,
        }

    def by_gateway(
        self,
        step: str,
        kind: str,
        members: dict[str, object],
        hidden: Mapping[str, Mapping[str, object]] | None = None,
        *,
        cseq: int | None = None,
        of_session: bool = True,
    ) -> Issued:
        self.clock.step()
        if of_session:
            number = {} if cseq is None else {"cseq": cseq}
            members["agt"] = self._agt(seq=self.next_seq, **number)
            self.next_seq += 1
            if (head := self.supervisor.head) is not None and kind != "session-start":
                members["peer"] = dict(head.to_json())
        issued = self.gateway.issue(kind, self.alter(step, members), hidden or {})
        self.gateway_records.append(issued)
        return issued

    def by_supervisor(
        self,
        step: str,
        kind: str,
        members: dict[str, object],
        hidden: Mapping[str, Mapping[str, object]] | None = None,
        *,
        of_session: bool = True,
    ) -> Issued:
        self.clock.step()
        if of_session:
            members["agt"] = self._agt() | members.pop("more", {})
            members["peer"] = dict(self.gateway.head.to_json())
        issued = self.supervisor.issue(kind, self.alter(step, members), hidden or {})
        self.session_records.append(issued)
        return issued

    def tell(self) -> Story:
        """The whole story: boot, start, one whole answer, one refusal, one secret used, end, close."""
        self.next_seq = 0
        self.make_gateway()
        keyset = self.gateway_statement.keyset_digest
        self.by_gateway(
            "gateway-boot", "boot", {"ks": keyset, "bld": BUILD, "col": self.col}, of_session=False
        )
        self.make_session()
        att = {"ses": {"ear": ear_digest(self.ear), "tier": "none"}}
        self.by_gateway(
            "start",
            "session-start",
            {
                "pol": self._pol(),
                "att": att,
                "man": {"man": self.manifest.digest, "act": self.activation.digest},
                "ini": {"iss": "local", "method": "uid"},
                "iso": self.iso,
                "rfs": self.rootfs,
                **({} if self.task is None else {"tsk": {"_sd": list(self.task.digests)}}),
            },
            {"agt": {"id": "code_implementer"}, "pol": {"id": "code_implementer"}},
        )
        if self.task is not None:
            start = self.gateway_records[-1]
            shown = (*start.disclosures, *self.task.disclosures)
            self.gateway_records[-1] = replace(start, disclosures=shown)
        own = self.session_statement.keyset_digest
        self.by_supervisor("session-boot", "boot", {"ks": own, "gks": keyset, "bld": BUILD}, of_session=False)
        begun = self.by_supervisor(
            "exec-intent",
            "exec",
            {"act": {"typ": "exec"}, "iso": self.iso, "ph": "intent"},
            {"act": {"name": "python3"}},
        )
        self.by_gateway(
            "inference",
            "inference",
            {
                "req": {"m": "POST", "p": "/v1/chat/completions"},
                "res": {"st": 200, "end": "complete"},
                "mdl": {"id": "affiant-dev-echo"},
                "use": {},
                "pol": self._pol(),
                "up": [
                    {
                        "id": "affiant-dev-echo",
                        "host": "affiant-dev-echo.internal",
                        "bind": "none",
                        "res": "ok",
                    }
                ],
                "att": att,
            },
            {
                "req": {"dig": sha256_name(REQUEST), "fwd": sha256_name(REQUEST), "len": len(REQUEST)},
                "res": {"dig": sha256_name(RESPONSE), "len": len(RESPONSE)},
            },
            cseq=0,
        )
        self.by_gateway(
            "refusal",
            "refusal",
            {
                "pol": self._pol("deny"),
                "rsn": "policy.model",
                "req": {"m": "POST", "p": "/v1/chat/completions"},
                "res": {"st": 403, "end": "complete"},
            },
            cseq=1,
        )
        self.by_supervisor(
            "egress-refusal",
            "refusal",
            {"pol": self._pol("deny"), "act": {"typ": "egress"}, "rsn": "policy.egress"},
        )
        sec = [{"ver": "1"}]
        used = self.by_supervisor(
            "secret",
            "secret",
            {"act": {"typ": "secret"}, "pol": self._pol(), "sec": sec},
            {"sec[0]": {"ref": "TOKEN"}},
        )
        self.by_supervisor(
            "egress",
            "egress",
            {
                "act": {"typ": "egress", "end": "complete"},
                "pol": self._pol(),
                "sec": sec,
                "ph": "outcome",
                "par": [used.payload["jti"]],
            },
            {"act": {"tgt": "https://api.example.com:443/"}},
        )
        self.by_supervisor(
            "exec-outcome",
            "exec",
            {
                "act": {"typ": "exec", "end": "complete"},
                "iso": self.iso,
                "ph": "outcome",
                "par": [begun.payload["jti"]],
            },
        )
        self.by_supervisor("session-end", "end", {"why": "shutdown", "cseq": 1}, of_session=False)
        self.close()
        return self

    def of_session(self) -> list[Issued]:
        return [r for r in self.gateway_records if r.payload.get("agt", {}).get("ses") == self.session]

    def close(self) -> None:
        before = self.of_session()
        last, sup = before[-1].payload, self.session_records[-1]
        self.by_gateway(
            "close",
            "session-close",
            {
                "out": dict(session_counts((r.payload["kind"], r.payload) for r in before)),
                "n": len(before),
                "head": {"chn": last["chn"], "seq": last["seq"], "rh": before[-1].rh},
                "root": session_root({r.payload["agt"]["seq"]: r.rh for r in before}),
                "sup": {"chn": sup.payload["chn"], "seq": sup.payload["seq"], "rh": sup.rh, "end": 1},
                "why": "done",
            },
        )

    # -- the bundle --------------------------------------------------------------------------------------------

    def bundle(self) -> Bundle:
        """The bundle of what was told."""
        if not self.gateway_records:
            self.tell()
        return Bundle(
            receipts=tuple(r.sdjwt for r in [*self.gateway_records, *self.session_records]),
            keysets=objects_by_digest([self.gateway_statement.raw, self.session_statement.raw]),
            evidence=objects_by_digest([self.gateway_evidence, self.session_evidence]),
            endorsements=objects_by_digest([self.endorsements]),
            results=objects_by_digest([self.ear.encode()]),
            policies=objects_by_digest([self.policy, self.config.raw, self.reference]),
            proofs=self.proofs(),
        )

    def proofs(self) -> Mapping[str, str]:
        """Every record in one log, under one checkpoint."""
        records = [*self.gateway_records, *self.session_records]
        nodes = MemoryNodes(leaf_of(record.jws).leaf_hash for record in records)
        size = len(records)
        text = Checkpoint(self.config.origin, size, range_hash(nodes, 0, size)).to_text()
        note = signed(text, self.log_signer)
        return {
            record.rh: LogProof(index, inclusion_path(nodes, index, size), note).to_bytes().decode()
            for index, record in enumerate(records)
        }

    def bytes(self) -> bytes:
        """The bundle file."""
        return self.bundle().to_bytes()
