"""Reads which TCB evaluations Intel publishes, as Intel signs the list: a number, and since when it counts.

Source: Intel PCS API v4, "Get TDX TCB Evaluation Data Numbers", model version 1. A verifier judges by one evaluation,
``tcbEvaluationDataNumber``. This list says which ones there are, so that a policy's minimum can be chosen: the highest
whose recovery event lies as far back as its owner gives platforms time to update.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from affiant.attestation.tdx.pki.crl import parse_crl
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots, evidence_class_of, verify_root
from affiant.attestation.tdx.pki.signed_json import Members, SignedJSON, cut_signed_json
from affiant.attestation.tdx.pki.tcb_signer import parse_issuer_chain, verify_tcb_signer
from affiant.attestation.tdx.pki.times import Window, check_windows, utc
from affiant.attestation.tdx.quote.errors import CollateralExpired, CollateralMalformed, CollateralNotYetValid

__all__ = [
    "EvaluationNumber",
    "EvaluationNumbers",
    "VerifiedEvaluationNumbers",
    "parse_evaluation_numbers",
    "verify_evaluation_numbers",
]

_NAME: Final = "TCB evaluation data numbers"
_MAX_NUMBERS: Final = 256
"""Eight are published at a time."""


@dataclass(frozen=True, slots=True)
class EvaluationNumber:
    """One evaluation: 1 to 65535; when its recovery event was announced; the TCB date that it asks for."""

    number: int
    recovery_event: datetime
    tcb_date: datetime


@dataclass(frozen=True, slots=True)
class EvaluationNumbers:
    """The list as read, highest first; authentic only inside of :class:`VerifiedEvaluationNumbers`."""

    signed: SignedJSON = field(repr=False)
    issue_date: datetime
    next_update: datetime
    numbers: tuple[EvaluationNumber, ...]

    @property
    def window(self) -> Window:
        """From issueDate to nextUpdate."""
        return Window(_NAME, self.issue_date, self.next_update, CollateralNotYetValid, CollateralExpired)


@dataclass(frozen=True, slots=True)
class VerifiedEvaluationNumbers:
    """A list that Intel, or the root that was accepted instead, has signed. Only the function below makes one."""

    numbers: tuple[EvaluationNumber, ...]
    issue_date: datetime
    next_update: datetime
    evidence_class: EvidenceClass


def parse_evaluation_numbers(body: bytes) -> EvaluationNumbers:
    """The list in a PCS response body.

    Raises:
        CollateralMalformed: not a list for TDX of version 1 in which every member has its form; an empty one; a
            number that stands twice.
    """
    signed = cut_signed_json(body, member="tcbEvaluationDataNumbers", refusal=CollateralMalformed)
    members = signed.members
    if (identifier := members.text("id")) != "TDX":
        raise CollateralMalformed(f"{_NAME} for another TEE", expected="id TDX", found=repr(identifier[:16]))
    if members.integer("version", maximum=255) != 1:
        raise CollateralMalformed(f"{_NAME} of another version", expected="version 1")
    numbers = tuple(_number(each) for each in members.objects("tcbEvalNumbers", maximum=_MAX_NUMBERS))
    if not numbers or len({each.number for each in numbers}) != len(numbers):
        raise members.refuse("tcbEvalNumbers", "at least one number, and each once")
    return EvaluationNumbers(
        signed=signed,
        issue_date=members.instant("issueDate"),
        next_update=members.instant("nextUpdate"),
        numbers=tuple(sorted(numbers, key=lambda each: -each.number)),
    )


def _number(members: Members) -> EvaluationNumber:
    if (number := members.integer("tcbEvaluationDataNumber", maximum=0xFFFF)) == 0:
        raise members.refuse("tcbEvaluationDataNumber", "1 to 65535")
    return EvaluationNumber(number, members.instant("tcbRecoveryEventDate"), members.instant("tcbDate"))


def verify_evaluation_numbers(
    body: bytes, issuer_chain: bytes, root_ca_crl: bytes, *, now: datetime, trust: TrustRoots
) -> VerifiedEvaluationNumbers:
    """The list in ``body``, judged as every document of collateral is: role, root, revocation, signature, dates.

    Args:
        body: the response as received.
        issuer_chain: PEM of signer and root.
        root_ca_crl: the root's revocation list, DER.

    Raises:
        MalformedError: one of the three cannot be read.
        NotAuthenticError: chain, role, revocation list or signature do not hold, or the signer is revoked.
        NotFreshError: a part is outside of its window.
        ``tdx.naive_time``: ``now`` has no zone.
    """
    now = utc(now)
    document, crl = parse_evaluation_numbers(body), parse_crl(root_ca_crl, name="root CA CRL")
    signer, root = parse_issuer_chain(issuer_chain, _NAME)
    verify_root(root, trust)
    verify_tcb_signer(signer, root)
    crl.verify(root)
    for certificate in (root, signer):
        crl.refuse_revoked(certificate)
    document.signed.verify(signer)
    check_windows((crl.window, document.window, root.window, signer.window), now)
    return VerifiedEvaluationNumbers(
        document.numbers, document.issue_date, document.next_update, evidence_class_of(root.spki)
    )
