"""Fetches the collateral of one platform: four requests over one connection, verified together before it returns.

What comes back is verified: signatures and chains to the given roots, revocations, every window at the clock's
time, and that it is about the platform and the evaluation asked for. There is no other way out of here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from affiant.attestation.quote.collateral.errors import (
    ResponseRefused,
    ServiceUnavailable,
    ServiceUnreachable,
)
from affiant.attestation.quote.collateral.pcs_responses import Answer, assemble, read_answer
from affiant.attestation.quote.collateral.service import Question, Service, evaluation_questions, questions
from affiant.attestation.quote.collateral.transport import Transport
from affiant.attestation.quote.collateral.wanted import STANDARD, Edition, Evaluation, Platform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.tcb.evaluation_numbers import (
    VerifiedEvaluationNumbers,
    verify_evaluation_numbers,
)
from affiant.errors import NotAuthenticError

__all__ = ["Patience", "Progress", "fetch_collateral", "fetch_evaluation_numbers", "verify_as_asked"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a question is asked that gets no answer, and how long to wait in between at most."""

    attempts: int = 3
    longest_wait_s: int = 30


class Progress(Protocol):
    """Told what happens, as it happens."""

    def asking(self, question: Question) -> None:
        """A question is on its way."""
        ...

    def answered(self, question: Question, answer: Answer) -> None:
        """Its answer is whole."""
        ...

    def waiting(self, question: Question, seconds: int, why: ServiceUnreachable | ServiceUnavailable) -> None:
        """It will be asked again in so many seconds."""
        ...


class _Silent:
    def asking(self, question: Question) -> None: ...
    def answered(self, question: Question, answer: Answer) -> None: ...
    def waiting(
        self, question: Question, seconds: int, why: ServiceUnreachable | ServiceUnavailable
    ) -> None: ...


_SILENT: Final = _Silent()


async def fetch_collateral(
    transport: Transport,
    service: Service,
    platform: Platform,
    *,
    trust: TrustRoots,
    clock: Callable[[], datetime],
    edition: Edition = STANDARD,
    patience: Patience = Patience(),
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    progress: Progress = _SILENT,
) -> VerifiedCollateral:
    """The collateral of ``platform``, verified at the time at which the last answer is there.

    Args:
        trust: the roots that its chains must end in.
        clock: read after the answers, because a service may have signed them a moment ago.

    Raises:
        UnreachableError: the service did not answer, or has nothing for this platform.
        AffiantError: an answer is refused, or the collateral does not verify.
    """
    answers: dict[str, Answer] = {}
    for question in questions(service, platform, edition):
        answers[question.item] = await _ask(
            transport, question, clock=clock, patience=patience, sleep=sleep, progress=progress
        )
    collateral = assemble(answers)
    verified = verify_collateral(collateral, now=clock(), trust=trust)
    verify_as_asked(verified, platform, edition)
    return verified


async def fetch_evaluation_numbers(
    transport: Transport,
    service: Service,
    *,
    trust: TrustRoots,
    clock: Callable[[], datetime],
    patience: Patience = Patience(),
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    progress: Progress = _SILENT,
) -> VerifiedEvaluationNumbers:
    """Which TCB evaluations the service publishes, verified. Arguments and errors as above; no platform is named."""
    answers: dict[str, Answer] = {}
    for question in evaluation_questions(service):
        answers[question.item] = await _ask(
            transport, question, clock=clock, patience=patience, sleep=sleep, progress=progress
        )
    numbers = answers["evaluation_numbers"]
    return verify_evaluation_numbers(
        numbers.content,
        numbers.issuer_chain or b"",
        answers["root_ca_crl"].content,
        now=clock(),
        trust=trust,
    )


def verify_as_asked(verified: VerifiedCollateral, platform: Platform, edition: Edition = STANDARD) -> None:
    """Authentic is not enough: it must be about what was asked for.

    Raises:
        ``tcb.mismatch``: TCB Info of another FMSPC.
        ``crl.issuer``: the revocation list of the other PCK authority.
        ResponseRefused: another evaluation number than the one named.
    """
    if verified.tcb_info.fmspc != platform.fmspc:
        raise NotAuthenticError(
            "TCB Info is for another FMSPC",
            expected=platform.fmspc.hex(),
            found=verified.tcb_info.fmspc.hex(),
            code="tcb.mismatch",
        )
    if verified.pck_ca is not platform.authority.pck_ca:
        raise NotAuthenticError(
            "the PCK revocation list is of the other authority",
            expected=platform.authority.pck_ca.value,
            found=verified.pck_ca.value,
            code="crl.issuer",
        )
    if isinstance(edition, Evaluation):
        found = {verified.tcb_info.evaluation_number, verified.qe_identity.evaluation_number}
        if found != {edition.number}:
            raise ResponseRefused(
                "documents of another evaluation",
                expected=f"tcbEvaluationDataNumber {edition.number}",
                found=", ".join(map(str, sorted(found))),
            )


async def _ask(
    transport: Transport,
    question: Question,
    *,
    clock: Callable[[], datetime],
    patience: Patience,
    sleep: Callable[[float], Awaitable[None]],
    progress: Progress,
) -> Answer:
    """One answer. What may pass by itself is asked again; every other error is final."""
    for attempt in range(1, patience.attempts + 1):
        progress.asking(question)
        try:
            response = await transport.ask(question)
            answer = read_answer(question, response, now=clock())
        except (ServiceUnreachable, ServiceUnavailable) as error:
            seconds = _pause(error, attempt)
            if attempt == patience.attempts or seconds > patience.longest_wait_s:
                raise
            progress.waiting(question, seconds, error)
            await sleep(seconds)
        else:
            progress.answered(question, answer)
            return answer
    raise AssertionError("a patience without an attempt")


def _pause(error: ServiceUnreachable | ServiceUnavailable, attempt: int) -> int:
    """What the service asks for, else 1 s, 2 s, 4 s."""
    asked = error.retry_after_s if isinstance(error, ServiceUnavailable) else None
    return 1 << (attempt - 1) if asked is None else asked
