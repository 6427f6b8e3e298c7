"""Implements the verdict of ``affiant collateral check``: whether collateral is valid at one time under one root.

== =============== ============================================================================================
0  affirming       everything that does not need a quote holds, under Intel's root
10 warning         the same, but it expires within the time that was asked for
20 contraindicated an item is malformed, not authentic, revoked, or outside of its window
30 none            there was nothing to check
40 simulated       it holds under another root
== =============== ============================================================================================

(Trust rules, 13.) That it is the collateral of a given quote's platform, only `affiant quote verify` can say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.quote.checks import Check, held, not_made
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
from affiant.attestation.verdict.lines import field, heading, prose
from affiant.attestation.verdict.verdict import EXIT_CODES, EXIT_SIMULATED, Tier
from affiant.errors import AffiantError, ConfigurationError

__all__ = ["Candidate", "CollateralVerdict", "Judged", "judge"]

_HELD: Final = held((6, 11, 14, 15, 16, 17, 18, 20, 21))
_NEEDS_QUOTE: Final = "needs a quote"
_WIDTH: Final = 24
_ORDER: Final = (Tier.AFFIRMING, Tier.WARNING, Tier.NONE, Tier.CONTRAINDICATED)
"""Best to worst."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One collateral to be judged.

    Args:
        name: where it is from.
        digest: the collateral's, 43 characters; None if it cannot be read.
        verify: makes it verified collateral, or raises what refuses it.
    """

    name: str
    digest: str | None
    verify: Callable[[], VerifiedCollateral]

    @classmethod
    def unreadable(cls, name: str, refusal: AffiantError) -> Candidate:
        """One that is refused already."""

        def refuse() -> VerifiedCollateral:
            raise refusal

        return cls(name, None, refuse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One collateral: what it is called, and what became of it."""

    name: str
    digest: str | None
    """The collateral's digest, 43 characters; None if it could not be read."""
    verified: VerifiedCollateral | None
    refusal: AffiantError | None
    expires_soon: bool

    @property
    def tier(self) -> Tier:
        """What it is worth."""
        if self.verified is None:
            return Tier.CONTRAINDICATED
        return Tier.WARNING if self.expires_soon else Tier.AFFIRMING

    @property
    def simulated(self) -> bool:
        """Whether it holds under another root than Intel's."""
        return self.verified is not None and self.verified.evidence_class is EvidenceClass.SIMULATED

    def to_json(self) -> dict[str, object]:
        """A member of ``judged``."""
        members: dict[str, object] = {
            "name": self.name,
            "digest": self.digest,
            "tier": str(Tier.NONE if self.simulated else self.tier),
            "simulated": self.simulated,
        }
        if self.refusal is not None:
            members["refused"] = self.refusal.to_json()
        if (verified := self.verified) is not None:
            members |= {
                "fmspc": verified.tcb_info.fmspc.hex(),
                "authority": verified.pck_ca.value,
                "root": f"sha256:{verified.root_digest.hex()}",
                "evaluation_number": verified.evaluation_number,
                "expires": f"{verified.expiry:%Y-%m-%dT%H:%M:%SZ}",
                "expires_soon": self.expires_soon,
            }
        return members

    def lines(self) -> Iterator[str]:
        """A section of the table."""
        word = "refused" if self.verified is None else "simulated" if self.simulated else str(self.tier)
        yield from heading(f"{word.upper()}  {self.name}")
        yield field("digest", self.digest or "none: it could not be read", width=_WIDTH)
        if self.refusal is not None:
            yield from prose("refusal", f"[{self.refusal.code}] {self.refusal}", width=_WIDTH)
        if (verified := self.verified) is not None:
            yield field(
                "platform", f"FMSPC {verified.tcb_info.fmspc.hex()}, {verified.pck_ca.value}", width=_WIDTH
            )
            yield field("root", f"sha256:{verified.root_digest.hex()}", width=_WIDTH)
            yield field("evaluation number", verified.evaluation_number, width=_WIDTH)
            soon = ", within the time asked for" if self.expires_soon else ""
            yield field("holds until", f"{verified.expiry:%Y-%m-%dT%H:%M:%SZ}{soon}", width=_WIDTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollateralVerdict:
    """All that was judged, at one time, by one build."""

    at: datetime
    build: str
    judged: tuple[Judged, ...]
    rollback: bool
    """Whether each was compared with the newest seen (a cache remembers it, a file does not)."""

    @property
    def tier(self) -> Tier:
        """The worst."""
        return max((each.tier for each in self.judged), key=_ORDER.index, default=Tier.NONE)

    @property
    def simulated(self) -> bool:
        """Whether any of it holds under another root than Intel's."""
        return any(each.simulated for each in self.judged)

    @property
    def exit_code(self) -> int:
        """As in the module's table."""
        if self.tier is not Tier.CONTRAINDICATED and self.simulated:
            return EXIT_SIMULATED
        return EXIT_CODES[self.tier]

    @property
    def checks_not_made(self) -> tuple[Check, ...]:
        """What a check of collateral leaves open."""
        rollback = () if self.rollback else (not_made(22, "a file has no memory of what was seen before"),)
        return (*(not_made(point, _NEEDS_QUOTE) for point in (12, 13, 19)), *rollback)

    def to_json(self) -> dict[str, object]:
        """``affiant-collateral-verdict/1``."""
        any_held = any(each.verified is not None for each in self.judged)
        shown = self.tier if self.tier is Tier.CONTRAINDICATED or not self.simulated else Tier.NONE
        return {
            "typ": "affiant-collateral-verdict/1",
            "at": f"{self.at:%Y-%m-%dT%H:%M:%SZ}",
            "build": self.build,
            "tier": str(shown),
            "simulated": self.simulated,
            "exit_code": self.exit_code,
            "judged": [each.to_json() for each in self.judged],
            "checks_made": [check.to_json() for check in (_HELD if any_held else ())],
            "checks_not_made": [check.to_json() for check in self.checks_not_made],
        }

    def lines(self) -> Iterator[str]:
        """The table."""
        yield "collateral"
        yield field("judged at", f"{self.at:%Y-%m-%dT%H:%M:%SZ}", width=_WIDTH)
        yield field("verifier", self.build, width=_WIDTH)
        open_points = ", ".join(f"{check.code} ({check.detail})" for check in self.checks_not_made)
        yield from prose("not made", open_points, width=_WIDTH)
        for each in self.judged:
            yield from each.lines()
        yield ""
        yield _LAST_LINES[self.exit_code]


_LAST_LINES: Final = {
    0: "VERIFIED  tier affirming: authentic under Intel's root, in its time, no signer revoked",
    10: "tier warning: it holds, and expires within the time asked for",
    20: "REFUSED  tier contraindicated",
    30: "tier none: there was nothing to check",
    40: "SIMULATED  tier none: it holds, under another root than Intel's",
}


def judge(
    candidates: Sequence[Candidate],
    *,
    at: datetime,
    build: str,
    soon: timedelta | None,
    rollback: bool,
) -> CollateralVerdict:
    """The verdict over all ``candidates``, each verified (again) here.

    Raises:
        ConfigurationError: what the caller gave cannot be judged at all.
    """
    judged = []
    for candidate in candidates:
        try:
            verified, refusal = candidate.verify(), None
        except ConfigurationError:
            raise
        except AffiantError as error:
            verified, refusal = None, error
        close = soon is not None and verified is not None and verified.expiry - at < soon
        judged.append(
            Judged(
                name=candidate.name,
                digest=candidate.digest,
                verified=verified,
                refusal=refusal,
                expires_soon=close,
            )
        )
    return CollateralVerdict(at=at, build=build, judged=tuple(judged), rollback=rollback)
