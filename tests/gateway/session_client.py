"""A small real client of the gateway: a simulated TD, its keys, proofs, and TLS pinned to the keyset's key.

It does what a supervisor does and nothing a supervisor could not do, and lets a test do each step wrongly.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256, from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.proof import FORWARDED_HEADERS, PROOF_HEADER, Request, issue_proof
from affiant.attestation.records.receipt import Issued, receipt_hash
from affiant.attestation.records.sealed_disclosures import DisclosureReader, SessionSealing, recipient
from affiant.attestation.release.boot import Image, boot_log
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.statements.evidence import (
    ADMISSION_NONCE,
    Admission,
    Evidence,
    wrap_admission,
    wrap_evidence,
)
from affiant.attestation.statements.gateway_config import parse_gateway_config
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
from affiant.attestation.statements.statement import parse_statement, report_data, session_statement
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent, parse_event_log
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.supervisor.launch.provision import new_session_id

PROFILE = b"""
agent_configs:
  tester:
    tools: [read_file, run_tests]
    filesystem_access: read-write:/workspace
    network_egress: denied
    secrets_access: []
"""


class WrongKey(Exception):
    """The server's TLS key is not the pinned one."""


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json()["error"]["code"]


class PinnedConnection(http.client.HTTPSConnection):
    """HTTPS to one key, whatever the certificate says."""

    def __init__(self, host: str, port: int, spki: str | None, timeout: float = 20) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=timeout, context=context)
        self._spki = spki

    def connect(self) -> None:
        super().connect()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._spki is not None and spki_of(self.sock) != self._spki:
            self.close()
            raise WrongKey


def spki_of(sock: ssl.SSLSocket) -> str:
    der = sock.getpeercert(binary_form=True)
    public = x509.load_der_x509_certificate(der).public_key()
    info = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return b64u(hashlib.sha256(info).digest())


@dataclass
class Gateway:
    """Where a gateway is, as its ready line says."""

    url: str
    spki: str

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("https://").rpartition(":")
        return host, int(port)

    def connect(self, timeout: float = 20) -> PinnedConnection:
        return PinnedConnection(*self.address, self.spki, timeout)

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = self.connect()
        try:
            connection.request(method, target, body or None, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, lowered(response.getheaders()), response.read())
        finally:
            connection.close()

    def nonce(self) -> str:
        return self.ask("POST", "/v1/sessions/nonce").json()["nonce"]

    @property
    def config(self) -> bytes:
        return self.ask("GET", "/.well-known/affiant/config").body

    @property
    def keyset(self) -> bytes:
        return self.ask("GET", "/.well-known/affiant/keyset").body


def lowered(headers: list[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


@dataclass
class Draft:
    """Everything an admission says; a test replaces one fact and sees the refusal."""

    manifest: Manifest
    activation: Activation
    policy: bytes
    nonce: str
    gks: str
    chn: str
    key: Signer
    events: list[tuple[str, Mapping[str, object]]]
    mrconfigid: bytes
    cls: str = "simulated"
    not_after: int = field(default_factory=lambda: int(time.time()) + 3600)
    statement_session: str | None = None
    alter_statement: Callable[[bytes], bytes] = lambda raw: raw
    alter_quote: Callable[[bytes], bytes] = lambda raw: raw
    alter_log: Callable[[bytes], bytes] = lambda raw: raw
    image: Image = Image.SESSION
    man: str | None = None
    act: str | None = None

    def statement(self) -> bytes:
        return self.alter_statement(
            session_statement(
                session=self.statement_session or self.activation.session,
                cls=self.cls,
                chn=self.chn,
                key=self.key.public_key,
                man=self.man or self.manifest.digest,
                act=self.act or self.activation.digest,
                gks=self.gks,
                epoch_s=60,
                not_after=self.not_after,
                nonce=self.nonce,
            )
        )


def draft(
    gateway: Gateway,
    *,
    profile: bytes = PROFILE,
    agent: str = "tester",
    policy: CompiledPolicy | None = None,
    openings: X25519PrivateKey | None = None,
    nonce: str | None = None,
    floor: bytes | None = None,
    session: str | None = None,
    **changes: object,
) -> Draft:
    """An admission that is in order, but for ``changes``; ``policy``: in place of the profile's own."""
    profiles = load_profiles(profile, floor=floor)
    chosen = policy or profiles.profile(agent).compiled
    config = parse_gateway_config(gateway.config)
    manifest = make_manifest(
        cls="simulated",
        profile_digest=chosen.digest,
        file_digest=profiles.source_digest,
        supervisor="sha256:" + "5" * 64,
        rootfs="host-usr",
        runtime=None,
        isolation_floor="namespace",
        gateway=GatewayIdentity(config.origin, config.reference, config.digest, config.cls),
        hosts={},
        upstream_roots=(),
    )
    activation = make_activation(
        session=session or new_session_id(secrets.token_bytes),
        agent=agent_commitment(secrets.token_bytes(16), agent),
        input_digest=None,
        isolation="bwrap-landlock",
        challenge=b64u(secrets.token_bytes(32)),
        expires=int(time.time()) + 3600,
        starter={"iss": "local", "method": "uid", "sub": b64u(secrets.token_bytes(32))},
        openings=None if openings is None else recipient(openings),
    )
    made = Draft(
        manifest=manifest,
        activation=activation,
        policy=chosen.normal_form,
        nonce=nonce or gateway.nonce(),
        gks=parse_statement(gateway.keyset).keyset_digest,
        chn=b64u(secrets.token_bytes(16)),
        key=Signer.generate(),
        events=list(session_events(manifest, activation)),
        mrconfigid=mrconfigid(manifest),
    )
    return replace(made, **changes)


def evidence_of(made: Draft, platform: PlatformClient) -> bytes:
    """The evidence of a TD that was launched as ``made`` says."""
    td = SimulatedTD(platform.create_td(image=made.image, mrconfigid=made.mrconfigid))
    with td:
        entries = list(parse_event_log(boot_log(made.image)).entries)
        for name, payload in made.events:
            event = Event(name, payload)
            td.extend(event)
            entries.append(LoggedEvent(3, event))
        statement = made.statement()
        quote = td.quote(report_data(statement))
    return wrap_evidence(
        Evidence(
            quote=made.alter_quote(quote),
            eventlog=made.alter_log(EventLog(tuple(entries)).to_bytes()),
            statement=statement,
            manifest=made.manifest.raw,
            activation=made.activation.raw,
        )
    )


def admission_of(made: Draft, platform: PlatformClient) -> bytes:
    return wrap_admission(Admission(evidence_of(made, platform), made.policy))


ADMISSION_TYPE = "application/vnd.affiant.admission+cmw"


def admit(gateway: Gateway, made: Draft, platform: PlatformClient) -> Answer:
    return gateway.ask("POST", "/v1/sessions", admission_of(made, platform), admission_headers(made.nonce))


def admission_headers(nonce: str) -> dict[str, str]:
    return {"Content-Type": ADMISSION_TYPE, ADMISSION_NONCE: nonce}


class SessionClient:
    """An admitted session, with its own chain."""

    def __init__(
        self, gateway: Gateway, made: Draft, evidence: bytes, admitted: Mapping[str, object]
    ) -> None:
        self.gateway = gateway
        self.made = made
        self.id = made.activation.session
        self.key = made.key
        self.ksd = str(admitted["ksd"])
        self.admitted = admitted
        self.statement = parse_statement(made.statement())
        self.evidence = evidence
        self.cseq = 0
        self.head = admitted["head"]
        self.sealing: SessionSealing | None = None
        self.chain = ChainSigner(
            signer=made.key,
            statement=self.statement,
            chn=made.chn,
            evd=b64u_sha256(evidence),
            random_bytes=secrets.token_bytes,
            clock=lambda: datetime.now(UTC),
        )

    @classmethod
    def start(
        cls,
        gateway: Gateway,
        platform: PlatformClient,
        *,
        openings: X25519PrivateKey | None = None,
        boot: bool = True,
        **changes: object,
    ) -> SessionClient:
        made = draft(gateway, openings=openings, **changes)
        evidence = evidence_of(made, platform)
        body = wrap_admission(Admission(evidence, made.policy))
        answer = gateway.ask("POST", "/v1/sessions", body, admission_headers(made.nonce))
        assert answer.status == 201, answer.body
        session = cls(gateway, made, evidence, answer.json())
        if boot:
            assert session.submit(session.boot_record()).status == 200
        return session

    # -- proofs --------------------------------------------------------------------------------------------

    def proof(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        content_type: str | None = None,
        nonce: str | None = None,
        forwarded: Mapping[str, str] | None = None,
        counted: bool = False,
        cseq: int | None = None,
        key: Signer | None = None,
        session: str | None = None,
        ksd: str | None = None,
        now: datetime | None = None,
    ) -> str:
        if counted and cseq is None:
            cseq, self.cseq = self.cseq, self.cseq + 1
        return issue_proof(
            key or self.key,
            Request.of(method, target, body, content_type=content_type, nonce=nonce, forwarded=forwarded),
            session=session or self.id,
            cseq=cseq,
            keyset_digest=ksd or self.ksd,
            now=now or datetime.now(UTC),
        )

    def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        content_type: str | None = None,
        headers: Mapping[str, str] | None = None,
        **proof: object,
    ) -> Answer:
        given = dict(headers or {})
        proof.setdefault("forwarded", {name: given[name] for name in FORWARDED_HEADERS if name in given})
        given[PROOF_HEADER] = self.proof(method, target, body, content_type=content_type, **proof)
        if content_type is not None:
            given["Content-Type"] = content_type
        return self.gateway.ask(method, target, body, given)

    # -- inference -----------------------------------------------------------------------------------------

    def chat(
        self,
        request: Mapping[str, object] | bytes,
        *,
        headers: Mapping[str, str] | None = None,
        **proof: object,
    ) -> Answer:
        return self.post("/v1/chat/completions", request, headers=headers, **proof)

    def post(
        self,
        target: str,
        request: Mapping[str, object] | bytes,
        *,
        headers: Mapping[str, str] | None = None,
        **proof: object,
    ) -> Answer:
        """A request of any dialect."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return self.ask(
            "POST",
            target,
            body,
            content_type="application/json",
            headers=headers,
            counted=True,
            **proof,
        )

    def say(self, text: str, *, stream: bool = False, **more: object) -> Answer:
        message = {"role": "user", "content": text}
        return self.chat({"model": "affiant-dev-echo", "stream": stream, "messages": [message], **more})

    @contextmanager
    def streaming(self, text: str, **more: object) -> Iterator[http.client.HTTPResponse]:
        """A streamed answer that the caller reads itself."""
        request = {
            "model": "affiant-dev-echo",
            "stream": True,
            "messages": [{"role": "user", "content": text}],
            **more,
        }
        body = json.dumps(request).encode()
        target, content_type = "/v1/chat/completions", "application/json"
        proof = self.proof("POST", target, body, content_type=content_type, counted=True)
        connection = self.gateway.connect()
        try:
            connection.request("POST", target, body, {"Content-Type": content_type, PROOF_HEADER: proof})
            response = connection.getresponse()
            with response:
                yield response
        finally:
            connection.close()

    # -- the session's own chain ---------------------------------------------------------------------------

    def agt(self, **more: object) -> dict[str, object]:
        return {
            "ses": self.id,
            "evd": self.chain.evd,
            "key": self.key.kid,
            "bind": "pop",
            "iso": "bwrap-landlock",
            **more,
        }

    def boot_record(self) -> Issued:
        members = {"ks": self.statement.keyset_digest, "gks": self.ksd, "bld": "sha256:" + "5" * 64}
        return self.chain.issue("boot", members)

    def exec_record(self, phase: str = "intent") -> Issued:
        return self.chain.issue(
            "exec",
            {
                "act": {"typ": "exec"},
                "iso": "bwrap-landlock",
                "ph": phase,
                "agt": self.agt(),
                "peer": self.head,
            },
            {"act": {"name": "python3"}},
        )

    def end_record(self) -> Issued:
        return self.chain.issue("end", {"why": "shutdown", "cseq": self.cseq - 1})

    def submit(self, record: Issued, *, jws: str | None = None, sealed: str | None = None) -> Answer:
        if sealed is None and self.made.activation.openings is not None and record.disclosures:
            if self.sealing is None:
                self.sealing = self.chain.sealing(to=self.made.activation.openings, session=self.id)
            sealed = self.sealing.handed_on(record.disclosures, rh=record.rh)
        answer = self.ask(
            "POST",
            f"/v1/sessions/{self.id}/records",
            (jws or record.jws).encode(),
            content_type="application/jose",
            headers={"Affiant-Openings": sealed} if sealed else {},
        )
        if answer.status == 200:
            self.head = answer.json()["head"]
        return answer

    def close(self, why: str = "done") -> Answer:
        body = json.dumps({"why": why}).encode()
        return self.ask("POST", f"/v1/sessions/{self.id}/close", body, content_type="application/json")

    def receipt(self, jti: str, **more: object) -> Answer:
        return self.ask("GET", f"/v1/receipts/{jti}", **more)

    def bundle(self) -> dict:
        answer = self.ask("GET", f"/v1/sessions/{self.id}/bundle")
        assert answer.status == 200, answer.body
        return answer.json()


def opened(bundle: Mapping[str, dict], key: X25519PrivateKey) -> dict[str, tuple[str, ...]]:
    """Receipt hash -> disclosures."""
    reader = DisclosureReader(key)
    records = [each["sdjwt"].partition("~")[0] for each in bundle["bundle"]["receipts"]]
    found = {receipt_hash(jws): reader.open(jws, bundle["openings"].get) for jws in records}
    return {rh: shown for rh, shown in found.items() if shown is not None}


def start_of(session: SessionClient) -> Mapping[str, object]:
    return parse_object(from_b64u(str(session.admitted["start"]).split(".")[1]))
