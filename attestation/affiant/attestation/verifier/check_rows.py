"""Makes one check, of a single bundle or of a whole period, and turns whatever it ends in into its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.errors import NoPin, NotAsked, NotMade
from affiant.attestation.verdict.verdict import Check, Finding, State, Tier
from affiant.errors import AffiantError, StateError

__all__ = [
    "UNREADABLE",
    "RuleBroken",
    "make_check",
    "not_asked_check",
    "not_made_check",
    "refused_check",
    "requires",
    "verifier_fault",
]

UNREADABLE: Final = "the bundle could not be read"
"""Why no check is made of it."""


class VerifierFault(StateError):
    """A check ended in an error that it does not know: refused, never passed over."""

    code = "verifier.fault"


class RuleBroken(AffiantError):
    """One rule that several records break, raised once.

    Args:
        reason: the code of the first exception. records: the ids of all that are kept.
    """

    code = "verifier.exceptions"

    def __init__(self, message: str, *, reason: str, records: tuple[str, ...]) -> None:
        super().__init__(message)
        self.reason = reason
        self.records = records


def requires(trust: TrustFile, code: str) -> bool:
    """Whether ``trust`` requires a check; without a list it requires all (trust rules, 12)."""
    return trust.require is None or code in trust.require


def make_check(code: str, level: str | None, examine: Callable[[], Finding], trust: TrustFile) -> Check:
    """Make one check; whatever it ends in becomes its row."""
    try:
        finding = examine()
    except NotAsked as unasked:
        return not_asked_check(code, level, unasked.message, trust)
    except NotMade as missing:
        tier = None if isinstance(missing, NoPin) else Tier.NONE
        return not_made_check(code, level, missing.message, trust, tier=tier)
    except AffiantError as error:
        return refused_check(code, level, error, trust)
    except Exception as error:  # noqa: BLE001 - a mistake of ours must refuse the bundle, not leave it unjudged
        return refused_check(code, level, verifier_fault(error), trust)
    held = Check(code, level, State.HELD, finding.tier, finding.detail, required=requires(trust, code))
    return replace(held, where=finding.where, counted=finding.counted)


def verifier_fault(error: Exception) -> VerifierFault:
    """What a mistake of ours is refused as."""
    return VerifierFault("the verifier failed on this bundle", found=type(error).__name__)


def not_asked_check(code: str, level: str | None, reason: str, trust: TrustFile) -> Check:
    """The row of a check that the reader did not ask for."""
    return Check(code, level, State.NOT_ASKED, None, reason, required=requires(trust, code))


def not_made_check(
    code: str, level: str | None, reason: str, trust: TrustFile, *, tier: Tier | None = Tier.NONE
) -> Check:
    """The row of a check that could not be made."""
    return Check(code, level, State.NOT_MADE, tier, reason, required=requires(trust, code))


def refused_check(code: str, level: str | None, error: AffiantError, trust: TrustFile) -> Check:
    """The row of a check that refused."""
    reason = error.code
    where: tuple[str, ...] = () if error.where is None else (error.where,)
    if isinstance(error, RuleBroken):
        reason, where = error.reason, error.records
    return Check(
        code,
        level,
        State.REFUSED,
        Tier.CONTRAINDICATED,
        str(error),
        reason=reason,
        where=where,
        required=requires(trust, code),
    )
