"""An approver at a gateway in this process, who does each step rightly or wrongly."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from tests.gateway.in_process import SPKI
from tests.gateway.session_client import Answer, Gateway, SessionClient

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.reader_proof import READER_HEADER, sign_reader_proof
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.policy.approvals.action import Action, egress_draft

__all__ = ["Approver", "action_of", "profile"]


@dataclass
class Approver:
    gateway: Gateway
    signer: Signer = field(default_factory=Signer.generate)
    spki: str = SPKI

    @property
    def kid(self) -> str:
        return self.signer.kid

    def proof(self, method: str, target: str, body: bytes = b"", *, ahead: int = 0) -> str:
        return sign_reader_proof(
            self.signer,
            method,
            target,
            body,
            spki=self.spki,
            nonce=b64u(secrets.token_bytes(16)),
            now=int(time.time()) + ahead,
        )

    def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        given = {READER_HEADER: self.proof(method, target, body), **headers}
        if body:
            given.setdefault("Content-Type", "application/jose")
        return self.gateway.ask(method, target, body, given)

    def listed(self) -> list[dict]:
        answer = self.ask("GET", "/v1/approvals")
        assert answer.status == 200, answer.body
        return answer.json()["approvals"]

    def says(self, action: Action, *, approves: bool = True, of: str | None = None) -> str:
        now = int(time.time())
        return sign_statement(
            self.signer, action=of or action.name, approves=approves, made=now, expires=action.not_after
        )

    def decide(self, action: Action, *, approves: bool = True) -> Answer:
        return self.hand_over(action, self.says(action, approves=approves))

    def hand_over(self, action: Action, statement: str) -> Answer:
        return self.ask("POST", path_of(action), statement.encode())


def path_of(action: Action) -> str:
    return f"/v1/approvals/{action.name.removeprefix('sha256:')}"


def profile(*approvers: str, more: str = "", sections: str = "") -> bytes:
    who = f"requires_human_approval: {{egress: [POST], approvers: [{', '.join(approvers)}]{more}}}"
    return f"agent_configs: {{tester: {{{sections}{who}}}}}".encode()


def action_of(session: SessionClient, *, policy: str, body: bytes = b"{}", ttl: int = 600) -> Action:
    """What the session's supervisor would post."""
    made = int(time.time())
    return egress_draft(
        session=session.id,
        agent="tester",
        policy=policy,
        rules=("egress/0",),
        method="POST",
        url="https://api.example.com/v1/x",
        headers=((b"Content-Type", b"application/json"),),
        body=body,
    ).issue(nonce=b64u(secrets.token_bytes(16)), made=made, not_after=made + ttl)
