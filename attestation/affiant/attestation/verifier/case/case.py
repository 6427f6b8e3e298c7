"""What a verification works on: the bundle taken apart, and what earlier checks established.

A :class:`Case` is filled in the order of the checks; each check reads only what those before it put there, and
says *not made* when that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.ear import VerifiedEAR
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.manifest import Activation, Manifest
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import KeysetStatement, LogIdentity
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import Note
from affiant.attestation.tlog.quorum import Witnessed
from affiant.attestation.verdict.accepted_values import TrustFile
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.time_bounds import TimeBounds
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.case.signer_evidence import Quoted
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers

if TYPE_CHECKING:
    from affiant.attestation.tdx.appraise.appraisal import Appraisal
    from affiant.attestation.tdx.quote.quote import TDQuote
    from affiant.attestation.tdx.tcb.collateral import Collateral
    from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
    from affiant.attestation.tdx.tcb.rollback import CollateralMark

__all__ = ["Case", "Erased", "Gone", "Newer", "Party", "Session", "by_chain"]


@dataclass(slots=True)
class Party:
    """A signer: its keyset, its records, and the evidence that they name."""

    statement: KeysetStatement
    records: list[VerifiedReceipt] = field(default_factory=list)
    quoted: list[Quoted] = field(default_factory=list)
    """In the order in which its records name them: one, and one more for each narrowing of a session's profile."""
    at: datetime | None = None
    """The instant that its quotes are judged at, where that is another than the case's."""

    @property
    def role(self) -> str:
        """``gateway`` or ``session``."""
        return self.statement.role

    @property
    def appraised(self) -> bool:
        """Whether every one of its quotes was, and is what the trust file accepts."""
        return bool(self.quoted) and all(each.appraisal is not None for each in self.quoted)


@dataclass(frozen=True, slots=True)
class Erased:
    """What one logged order says of one record; ``level`` 1: its disclosures, 2: the record, 3: its chain up to it."""

    chn: str
    seq: int
    rh: str
    level: int
    session: str | None
    number: int | None
    """Its ``agt.seq``; of the gateway's records only."""
    order: str
    """Id of the ``erasure`` record."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Records of one session that are erased by order and not here."""

    gateway: tuple[Erased, ...]
    supervisor: tuple[Erased, ...]

    def __len__(self) -> int:
        return len(self.gateway) + len(self.supervisor)


@dataclass(frozen=True, slots=True)
class Newer:
    """What a reader holds an archived bundle against when it is judged again, later.

    Args:
        collateral: the reader's own for a quote; None: the archived one again.
        earlier: ``evd`` of a signer's records -> what that quote was worth at the bundle's own time, to which the
            gateway's results are held.
        marks: the same -> how new the archived collateral is; the reader's may not be older.
    """

    collateral: Callable[[TDQuote], Collateral] | None
    earlier: Mapping[str, Appraisal]
    marks: Mapping[str, CollateralMark]


@dataclass(slots=True)
class Session:
    """One session in focus: both signers' records of it."""

    id: str
    gateway: list[VerifiedReceipt]
    """The gateway's records with this ``agt.ses``, in the order of its chain."""
    supervisor: Party
    manifest: Manifest | None = None
    activation: Activation | None = None
    narrowings: tuple[Narrowing, ...] = ()
    """Of its profile, in order, once ``pol.bound`` has read them."""

    @property
    def records(self) -> Sequence[VerifiedReceipt]:
        """Both signers': the gateway's first."""
        return [*self.gateway, *self.supervisor.records]

    def the(self, kind: str) -> VerifiedReceipt | None:
        """The gateway's only record of ``kind``, if there is one."""
        return next((record for record in self.gateway if record.kind == kind), None)


@dataclass(slots=True)
class Case:
    """One bundle under examination."""

    bundle: Bundle
    asked: Question
    newer: Newer | None = None
    """What is held against the archived collateral; None: it is judged as archived."""
    records: list[VerifiedReceipt] = field(default_factory=list)
    parties: list[Party] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    foreign: frozenset[str] = frozenset()
    checkpoints: dict[tuple[bytes, str], Checkpoint] = field(default_factory=dict)
    """Note and key -> the checkpoint, its signature verified."""
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Receipt hash -> origin of the log and the index that its proof of inclusion holds for."""
    proven: dict[str, tuple[Note, LogIdentity]] = field(default_factory=dict)
    """Receipt hash -> the note that its proof of inclusion holds under, and the log."""
    witnessed: dict[tuple[bytes, str], Witnessed] = field(default_factory=dict)
    """Note and key -> the checkpoint under the trust file's witnesses."""
    time_bounds: dict[str, TimeBounds] = field(default_factory=dict)
    """Receipt hash -> when the record existed, by witnesses."""
    stamps: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    """Code of a check of anchors -> receipt hash -> by when it existed, in seconds since 1970, and by whose word."""
    collateral: dict[tuple[str, datetime], VerifiedCollateral] = field(default_factory=dict)
    """``sha256:`` name of an endorsements collection, or digest of the reader's own collateral, and the instant -> what
    it was verified as, under :attr:`trust`."""
    results: dict[tuple[str, str], tuple[str, VerifiedEAR]] = field(default_factory=dict)
    """Link of an attestation result and key of the gateway that signed it -> its text, and what it says, verified."""
    configs: dict[str, GatewayConfig] = field(default_factory=dict)
    """``sha256:`` name of a gateway's configuration -> what it says."""
    profiles: frozenset[str] | None = None
    """Digests of the profiles whose normal form the bundle holds, once they were asked for."""
    along_log: bool = False
    """A period bundle: each record is held against its leaf as the log is walked, and ``log.inclusion`` says so."""
    unlogged: frozenset[str] = frozenset()
    """Of a period bundle: hashes of the erasures and holds that had no leaf in it."""
    erased: dict[tuple[str, int], Erased] = field(default_factory=dict)
    """Chain and number -> what an accepted authority ordered to be erased, whether it is here or not."""
    pruned: dict[str, Erased] = field(default_factory=dict)
    """Chain -> the last of its records that an accepted authority ordered to be pruned. It excuses nothing in a bundle:
    whole chains are pruned, and only a log shows that one is missing."""
    absent: dict[tuple[str, str | None], list[Erased]] | None = None
    """Chain, and session or None for all of it -> what was ordered to be erased and is not here, once :meth:`gone` was
    asked."""
    gaps: dict[str, set[str]] | None = None
    """Chain that a gap record names -> chains of those records, once :meth:`follow_up` was asked."""
    by_gateway: dict[str, Party] | None = None
    """Chain of a gateway -> the gateway, once :meth:`gateway_of` was asked."""
    by_key: dict[str, Session] | None = None
    """Key of a supervisor -> its session in focus, once :meth:`session_of` was asked."""
    established: set[str] = field(default_factory=set)
    """Codes of the checks that held."""

    @property
    def trust(self) -> TrustFile:
        """What the reader accepts."""
        return self.asked.trust

    @property
    def verifiers(self) -> StatementVerifiers:
        """Of statements that others signed."""
        return self.asked.verifiers

    @property
    def at(self) -> datetime:
        """The time judged at."""
        return self.asked.at

    @property
    def in_question(self) -> Collection[str]:
        """Ids of the sessions in focus; where there is none, of the one that was asked for, or of all."""
        if self.sessions:
            return {session.id for session in self.sessions}
        return self.foreign if self.asked.session is None else {self.asked.session}

    def gone(self, session: Session) -> Gone:
        """What of ``session`` is erased by order and not here."""
        if not self.erased:
            return Gone((), ())
        if self.absent is None:
            here = {(record.chn, record.seq) for record in self.records}
            self.absent = {}
            for place, each in self.erased.items():
                if each.level == 2 and place not in here:
                    for name in {(each.chn, each.session), (each.chn, None)}:
                        self.absent.setdefault(name, []).append(each)
        absent = self.absent
        chains = sorted({record.chn for record in session.gateway})
        return Gone(
            tuple(each for chn in chains for each in absent.get((chn, session.id), ())),
            tuple(each for chn in session.supervisor.statement.chn for each in absent.get((chn, None), ())),
        )

    def follow_up(self, chains: Collection[str]) -> bool:
        """Whether a gap record of another chain names one of ``chains`` (trust rules, 1)."""
        if self.gaps is None:
            self.gaps = {}
            for record in self.records:
                if record.kind == "gap":
                    self.gaps.setdefault(str(record.member("lst", "chn")), set()).add(record.chn)
        return any(self.gaps.get(chn, set()) - set(chains) for chn in chains)

    def gateway_of(self, chn: str) -> Party | None:
        """The gateway whose chain it is, if it is here."""
        if self.by_gateway is None:
            self.by_gateway = {chain: party for party in self.gateways for chain in party.statement.chn}
        return self.by_gateway.get(chn)

    def session_of(self, party: Party) -> Session | None:
        """The session in focus whose supervisor ``party`` is."""
        if self.by_key is None:
            self.by_key = {session.supervisor.statement.receipt_kid: session for session in self.sessions}
        return self.by_key.get(party.statement.receipt_kid)

    def need(self, *codes: str) -> None:
        """Go on only if the checks with these codes held.

        Raises:
            NotMade: one did not.
        """
        for code in codes:
            if code not in self.established:
                raise NotMade(f"needs {code}, which did not hold")

    @property
    def gateways(self) -> Sequence[Party]:
        """The signers in the role ``gateway``."""
        return [party for party in self.parties if party.role == "gateway"]

    @property
    def judged(self) -> Sequence[Party]:
        """Gateways, and the supervisors of the sessions in focus: the signers whose quotes are appraised."""
        return [
            party for party in self.parties if party.role == "gateway" or self.session_of(party) is not None
        ]


def by_chain(records: Sequence[VerifiedReceipt]) -> Mapping[str, list[VerifiedReceipt]]:
    """Records by chain, each sorted by ``seq``."""
    chains: dict[str, list[VerifiedReceipt]] = {}
    for record in records:
        chains.setdefault(record.chn, []).append(record)
    for chain in chains.values():
        chain.sort(key=lambda record: record.seq)
    return chains
