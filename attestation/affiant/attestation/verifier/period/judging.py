"""In a process of the crew: receipts are verified, and sessions judged, each by the checks of a single bundle.

A session is one :class:`~affiant.attestation.verifier.case.Case`: both signers' records of it, the gateway's boot
record, and the gap records of all. What no session has (epochs, refusals before admission, sessions whose supervisor is
not here) is judged in cases of gateways alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from affiant.attestation.period.reader import PeriodBundle
from affiant.attestation.receipt import VerifiedReceipt, parse_receipt, recall_receipt
from affiant.attestation.tdx.appraisal import Appraisal
from affiant.attestation.tdx.collateral_verification import VerifiedCollateral
from affiant.attestation.trust_file import TrustFile, parse_trust_file
from affiant.attestation.verifier.case import Case, Party, Session
from affiant.attestation.verifier.period.seen import Refused, Seen, Statements, look
from affiant.attestation.verifier.session_checks import is_lost
from affiant.attestation.verifier.timeline import Moment, timeline_of
from affiant.attestation.verifier.verdict import Check
from affiant.attestation.verifier.verify_bundle import BODIES, CHECKS, Row, run_body, run_row

__all__ = ["Judged", "Setting", "Work", "begin", "case_rows", "judge", "look_at", "moments"]

_WHOLE: Final = ("fmt.", "sig.", "chain.", "log.", "wit.", "time.")
"""Areas that are judged over the whole archive; all others session by session."""
_GATEWAY_ALONE: Final = frozenset(
    (
        *("kinds.judged", "key.evidence", "key.bound", "key.not_after", "conf.bound", "tee.appraisal"),
        *("tee.class", "conf.accepted", "erasure.authority", "hold.respected"),
    )
)
"""What is judged of a gateway without a session."""

_ORDERS: Final = frozenset({"erasure", "hold"})

Kept = tuple[str, str]
"""Receipt hash, SD-JWT."""


class Setting(NamedTuple):
    """What every process gets once."""

    path: Path
    trust: bytes
    at: datetime
    names: Mapping[str, str]
    """Key -> ``sha256:`` name of its statement."""
    request: bytes | None
    response: bytes | None


class Work(NamedTuple):
    """One case. ``session`` is empty for a gateway's alone; ``beside``: boot and gap records, erasures and holds."""

    session: str
    supervisor: str
    records: Sequence[Kept]
    beside: Sequence[Kept]
    established: frozenset[str]


class Judged(NamedTuple):
    """What became of it. ``state``: closed, lost or open; empty without a session. ``cls``: classes that were found.
    ``appraised``: the keys whose quote was.
    """

    session: str
    checks: Sequence[Check]
    state: str
    cls: frozenset[str]
    appraised: frozenset[str]
    erased: Mapping[str, str]
    """``<chain>:<number>`` -> receipt hash of what an accepted authority ordered to be erased as a whole."""
    pruned: Mapping[str, tuple[int, str]]
    """Chain -> number and receipt hash of the last record up to which it was ordered to be pruned."""


@dataclass(slots=True)
class _Place:
    """This process."""

    setting: Setting
    bundle: PeriodBundle
    trust: TrustFile
    statements: Statements
    collateral: dict[str, VerifiedCollateral] = field(default_factory=dict)
    appraised: dict[str, tuple[bytes, Appraisal]] = field(default_factory=dict)
    """Key of a gateway -> the collateral and appraisal of it, once that was reached."""


_place: _Place | None = None


def begin(setting: Setting) -> None:
    """Get ready; called once in each process."""
    global _place  # noqa: PLW0603 - one process, one place
    bundle = PeriodBundle(setting.path)
    statements = Statements(setting.names, bundle.objects("keysets"))
    _place = _Place(setting, bundle, parse_trust_file(setting.trust), statements)


def _here() -> _Place:
    assert _place is not None, "begin() comes first"
    return _place


def look_at(texts: Sequence[str]) -> list[Seen | Refused]:
    """Verify receipts one by one."""
    statements = _here().statements
    return [look(text, statements) for text in texts]


def moments(kept: Sequence[Kept]) -> tuple[Moment, ...]:
    """The timeline of receipts that were verified."""
    return timeline_of([_recalled(_here(), each) for each in kept])


def case_rows(*, with_session: bool) -> Sequence[Row]:
    """The checks that are made case by case, in their order."""
    rows = [row for row in CHECKS if not row.code.startswith(_WHOLE)]
    return rows if with_session else [row for row in rows if row.code in _GATEWAY_ALONE]


def judge(work: Work) -> Judged:
    """Make the checks of one case."""
    place = _here()
    case = _case(place, work)
    checks = [run_row(row, case, place.trust) for row in case_rows(with_session=bool(work.session))]
    checks += [run_body(row, case, place.trust) for row in BODIES]
    if "tee.appraisal" in case.established:
        for party in case.gateways:
            assert party.appraisal is not None
            assert party.collateral is not None
            place.appraised[party.statement.receipt_kid] = party.collateral, party.appraisal
    appraisals = {
        party.statement.receipt_kid: party.appraisal for party in case.parties if party.appraisal is not None
    }
    classes = frozenset(each.evidence_class.value for each in appraisals.values())
    erased = {f"{each.chn}:{each.seq}": each.rh for each in case.erased.values() if each.level == 2}
    held = "erasure.authority" in case.established
    pruned = {chn: (each.seq, each.rh) for chn, each in case.pruned.items()}
    if not held:
        erased, pruned = {}, {}
    appraised = frozenset(appraisals)
    return Judged(work.session, checks, _state(case), classes, appraised, erased, pruned)


def _case(place: _Place, work: Work) -> Case:
    setting = place.setting
    case = Case(place.bundle.bundle((), {}), place.trust, setting.at, setting.request, setting.response, None)
    case.collateral = place.collateral
    case.established = set(work.established) | (set() if work.session else {"pol.bound"})
    parties: dict[str, Party] = {}
    beside = [_recalled(place, each) for each in work.beside]
    records = [_recalled(place, each) for each in work.records]
    known = {record.rh for record in records}
    case.records = [*records, *(record for record in beside if record.rh not in known)]
    orders = [record for record in beside if record.kind in _ORDERS]
    case.along_log = True
    case.places = {record.rh: ("", number) for number, record in enumerate(orders)}
    signed = {record.text.split.kid for record in [*records, *orders]}
    signed |= {work.supervisor} if work.supervisor else set()
    for record in case.records:
        kid = record.text.split.kid
        if kid in signed and (record.rh in known or record.kind == "boot" or record.kind in _ORDERS):
            parties.setdefault(kid, Party(place.statements.by(kid))).records.append(record)
    if work.supervisor and work.supervisor not in parties:
        parties[work.supervisor] = Party(place.statements.by(work.supervisor))
    for kid, party in parties.items():
        party.records.sort(key=lambda record: (record.chn, record.seq))
        if kid in place.appraised:
            party.collateral, party.appraisal = place.appraised[kid]
    case.parties = list(parties.values())
    if work.session:
        of_gateways = [
            record
            for party in case.gateways
            for record in party.records
            if record.member("agt", "ses") == work.session
        ]
        case.sessions = [Session(work.session, of_gateways, parties[work.supervisor])]
    return case


def _recalled(place: _Place, kept: Kept) -> VerifiedReceipt:
    rh, sdjwt = kept
    text = parse_receipt(sdjwt)
    return recall_receipt(text, place.statements.by(text.split.kid), rh=rh)


def _state(case: Case) -> str:
    if not case.sessions:
        return ""
    session = case.sessions[0]
    close = session.the("session-close")
    if close is not None:
        return "lost" if close.member("why") == "lost" else "closed"
    return "lost" if is_lost(case, session) else "open"
