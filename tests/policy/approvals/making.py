"""Actions, approvers and desks for the tests."""

from __future__ import annotations

import itertools

from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.policy.approvals.action import BoundSecret, Draft, egress_draft
from affiant.policy.approvals.queue import ApprovalQueue
from affiant.policy.model.profile import Approval

SESSION = "s" * 21 + "A"
POLICY = "sha384:" + "ab" * 48
NOW = 1_800_000_000
ANN, BOB, CID, SESSION_KEY = (Signer.generate() for _ in range(4))
_numbers = itertools.count()


def nonce() -> str:
    return f"{next(_numbers):021d}A"


def draft(**changes: object) -> Draft:
    members = {
        "session": SESSION,
        "agent": "dev",
        "policy": POLICY,
        "rules": ("egress/0",),
        "method": "POST",
        "url": "https://api.example.com/v1/x",
        "headers": ((b"Content-Type", b"application/json"),),
        "body": b'{"n": 1}',
        "secrets": (BoundSecret("KEY", "header:authorization", "api.example.com:443"),),
    }
    return egress_draft(**{**members, **changes})  # type: ignore[arg-type]


def desk(*approvers: Signer, quorum: int = 1, ttl: int = 600) -> ApprovalQueue:
    approval = Approval(False, ("POST",), tuple(each.kid for each in approvers), quorum, ttl)
    return ApprovalQueue(session=SESSION, policy=POLICY, approval=approval, never={SESSION_KEY.kid})


def says(
    signer: Signer, action: str, *, approves: bool = True, made: int = NOW, expires: int = NOW + 600
) -> str:
    return sign_statement(signer, action=action, approves=approves, made=made, expires=expires)
