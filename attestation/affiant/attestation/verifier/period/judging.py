"""In a worker process: receipts are verified, and sessions judged, each by the checks of a single bundle.

A session is one ``Case``: both signers' records of it, the gateway's boot
record, and the gap records of all. What no session has (epochs, refusals before admission, sessions whose supervisor is
not here) is judged in cases of gateways alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from sys import intern
from typing import Final, NamedTuple

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, recall_receipt
from affiant.attestation.schema.records import shape_of
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
from affiant.attestation.tlog.entry import KIND_OF_CODE
from affiant.attestation.verdict.since_archived import QuoteChanged
from affiant.attestation.verdict.timeline import Moment, moment_of
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verifier.case.case import Case, Newer, Party, Session
from affiant.attestation.verifier.case.question import Question, told
from affiant.attestation.verifier.case.signer_evidence import Quoted
from affiant.attestation.verifier.comparing import NOT_JUDGED, held_against, quotes_of, worth_of
from affiant.attestation.verifier.period.kept_records import KeptRecords, OnDisk
from affiant.attestation.verifier.period.log.seen import Refused, Seen, Statements, look
from affiant.attestation.verifier.period.work import Judged, Kept, Setting, Then, Work, case_rows
from affiant.attestation.verifier.population import state_of
from affiant.attestation.verifier.verify_bundle import BODIES, run_body, run_row

__all__ = ["begin", "judge", "look_at", "moments"]

_MANY: Final = 1_000
"""Records of one kind after which compiling its shape has taken no more time than it saves."""
_ORDERS: Final = frozenset({"erasure", "hold"})


class _Read(NamedTuple):
    """The records of one case, and those beside it."""

    records: Sequence[VerifiedReceipt]
    beside: Sequence[VerifiedReceipt]


@dataclass(slots=True)
class _Place:
    """This process."""

    setting: Setting
    bundle: PeriodBundle
    asked: Question
    statements: Statements
    collateral: dict[tuple[str, datetime], VerifiedCollateral] = field(default_factory=dict)
    profiles: frozenset[str] | None = None
    """Digests of the profiles of the archive, once a case asked for them."""
    appraised: dict[tuple[str, bool], list[Quoted]] = field(default_factory=dict)
    """Key of a gateway, and whether as of then -> what came of its quote, once that was reached."""
    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Kind, role and class of records -> how many were verified here."""
    of_then: tuple[datetime, dict[tuple[str, datetime], VerifiedCollateral]] | None = None

    def meet(self, records: Counter[tuple[str, int]]) -> None:
        """Count verified records, by key and leaf code; the shape of what comes often is compiled."""
        for (kid, code), count in records.items():
            signer = self.statements.by(kid)
            kind, role, cls = met = KIND_OF_CODE[code], signer.role, signer.cls
            self.met[met] += count
            if self.met[met] >= _MANY:
                shape_of(kind, role=role, cls=cls).compile()

    def collateral_as_of(self, at: datetime) -> dict[tuple[str, datetime], VerifiedCollateral]:
        """What was verified as of ``at``, kept until another instant is asked for: sessions have their own times."""
        if self.of_then is None or self.of_then[0] != at:
            self.of_then = at, {}
        return self.of_then[1]


_place: _Place | None = None


def begin(setting: Setting) -> None:
    """Get ready; called once in each process."""
    global _place  # noqa: PLW0603 - one process, one place
    bundle = PeriodBundle(setting.path)
    statements = Statements(setting.names, bundle.objects("keysets"))
    asked = Question(
        trust=parse_trust_file(setting.trust),
        verifiers=setting.verifiers,
        at=setting.at,
        build="",
        request=setting.request,
        response=setting.response,
    )
    _place = _Place(setting, bundle, asked, statements)


def _here() -> _Place:
    assert _place is not None, "begin() comes first"
    return _place


def look_at(texts: Sequence[str]) -> list[Seen | Refused]:
    """Verify receipts one by one."""
    place = _here()
    found = [look(text, place.statements) for text in texts]
    place.meet(Counter((each.kid, each.leaf[1]) for each in found if isinstance(each, Seen)))
    return found


def moments(kept: Sequence[Kept]) -> list[Moment]:
    """Receipts that were verified, for a timeline."""
    return [moment_of(_recalled(_here(), each)) for each in kept]


def judge(work: Work) -> Judged:
    """Make the checks of one case; where it is compared, at its own time before."""
    place = _here()
    if work.then is None:
        case = _case(place, work, _read(place, work))
        found = _judged(work, case)
        _keep(place, case, then=False)
        return found
    return _judged_twice(place, work, work.then)


def _judged_twice(place: _Place, work: Work, asked: Then) -> Judged:
    read = _read(place, work)
    before = _case(place, work, read, then=asked)
    then = _judged(work, before)
    worths = {name: worth_of(before, *quote) for name, quote in quotes_of(before).items()}
    after = _case(place, work, read, newer=held_against(before, place.setting.collateral))
    found = _judged(work, after)
    quotes = tuple(
        QuoteChanged(
            party.role,
            kid,
            worths.get((kid, epoch), NOT_JUDGED),
            worth_of(after, party, quoted),
            session=work.session or None,
            then=told(asked.gateways.get(kid, asked.at)),
            epoch=epoch,
        )
        for (kid, epoch), (party, quoted) in quotes_of(after).items()
        if _is_told(work, party)
    )
    for case in (before, after):
        _keep(place, case, then=case is before)  # also of those that the checks did not come to
    return found._replace(then=then, quotes=quotes)


def _is_told(work: Work, party: Party) -> bool:
    """Gateways are told of once, by their own cases."""
    return party.role != "gateway" or not work.session


def _judged(work: Work, case: Case) -> Judged:
    checks = [run_row(row, case, case.trust) for row in case_rows(with_session=bool(work.session))]
    checks += [run_body(row, case, case.trust) for row in BODIES]
    appraisals = (each.appraisal for party in case.parties for each in party.quoted)
    classes = frozenset(each.evidence_class.value for each in appraisals if each is not None)
    erased = {f"{each.chn}:{each.seq}": each.rh for each in case.erased.values() if each.level == 2}
    held = "erasure.authority" in case.established
    pruned = {chn: (each.seq, each.rh) for chn, each in case.pruned.items()}
    if not held:
        erased, pruned = {}, {}
    appraised = frozenset(party.statement.receipt_kid for party in case.parties if party.appraised)
    state = state_of(case, case.sessions[0]) if case.sessions else ""
    return Judged(work.session, checks, state, classes, appraised, erased, pruned)


def _keep(place: _Place, case: Case, *, then: bool) -> None:
    """What came of the gateways' quotes, and what the archive holds."""
    place.profiles = place.profiles or case.profiles
    for party in case.gateways:
        if any(each.appraisal is not None or each.refusal is not None for each in party.quoted):
            place.appraised[party.statement.receipt_kid, then] = party.quoted


def _read(place: _Place, work: Work) -> _Read:
    beside = [_recalled(place, each) for each in work.beside]
    if isinstance(work.records, OnDisk):
        return _Read(KeptRecords(work.records, partial(_recalled, place)).all(), beside)
    return _Read([_recalled(place, each) for each in work.records], beside)


def _case(
    place: _Place, work: Work, read: _Read, *, then: Then | None = None, newer: Newer | None = None
) -> Case:
    asked = place.asked if then is None else replace(place.asked, at=then.at)
    case = Case(place.bundle.bundle((), {}), asked, newer, profiles=place.profiles)
    case.collateral = place.collateral if then is None else place.collateral_as_of(then.at)
    case.established = set((then or work).established) | (set() if work.session else {"pol.bound"})
    parties: dict[str, Party] = {}
    records, beside = read
    known = {record.rh for record in records}
    case.records = [*records, *(record for record in beside if record.rh not in known)]
    orders = [record for record in beside if record.kind in _ORDERS]
    case.along_log, case.unlogged = place.setting.along_log, work.unlogged
    for number, record in enumerate(orders):
        case.places.setdefault(record.rh, ("", number))  # a line that stands twice is where it stands first
    kids = [intern(record.text.split.kid) for record in case.records]  # once: a record on disk is read for it
    here = zip(case.records, kids, strict=True)
    signed = {kid for record, kid in here if record.rh in known or record.kind in _ORDERS}
    signed |= {work.supervisor} if work.supervisor else set()
    for record, kid in zip(case.records, kids, strict=True):
        if kid in signed and (record.rh in known or record.kind == "boot" or record.kind in _ORDERS):
            parties.setdefault(kid, Party(place.statements.by(kid))).records.append(record)
    if work.supervisor and work.supervisor not in parties:
        parties[work.supervisor] = Party(place.statements.by(work.supervisor))
    for kid, party in parties.items():
        party.records.sort(key=lambda record: (record.chn, record.seq))
        party.at = None if then is None else then.gateways.get(kid)
        party.quoted = place.appraised.get((kid, then is not None), [])
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
