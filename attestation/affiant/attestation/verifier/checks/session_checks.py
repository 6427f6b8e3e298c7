"""L1, the sessions: both signers' accounts of each session agree and leave nothing out (trust rules, 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.records.session_summary import session_counts, session_root
from affiant.attestation.schema.records import BEGINS, ENDS
from affiant.attestation.verdict.errors import NotMade, SessionBroken
from affiant.attestation.verdict.summary import Count
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Gone, Session
from affiant.attestation.verifier.checks.interrupted import covered_by_close, tail_is_open

__all__ = [
    "check_close",
    "check_counter",
    "check_decisions",
    "check_intents",
    "check_order",
    "check_peer",
    "check_sealed",
    "check_start",
    "check_supervisor",
    "is_lost",
]


_SHOWN: Final = 3
_ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    "exec": ("act.name", "act.arg"),
    "file": ("mov.dir", "mov.path"),
    "port": ("prt.num",),
}
"""Acts of which each outcome has one intent, of its own kind -> what both say alike, where both show it."""


class StartBroken(SessionBroken):
    """Not exactly one start record, or it is not the first."""

    code = "session.start"


class OrderBroken(SessionBroken):
    """``agt.seq`` has a gap or a number twice."""

    code = "session.order"


class CounterBroken(SessionBroken):
    """The supervisor's request counter has a gap, or two gateway records have the same counter."""

    code = "session.counter"


class CloseMismatch(SessionBroken):
    """The close record does not sum up the records that are here."""

    code = "session.close"


class AfterClose(SessionBroken):
    """A record of the session after its close or its expiry."""

    code = "session.after_close"


class PeerMismatch(SessionBroken):
    """A link to the other signer names a record that it did not make, or goes back in time."""

    code = "session.peer"


class DecisionMismatch(SessionBroken):
    """What was denied was done all the same, or a request rewritten that no decision says was."""

    code = "session.decision"


class IntentMismatch(SessionBroken):
    """An outcome without its intent, two outcomes of one, one that its intent contradicts, or a port opened twice."""

    code = "session.intent"


def _each(case: Case, examine: Callable[[Session], Finding | None]) -> list[Finding]:
    if not case.sessions:
        raise NotMade("no session whose supervisor's records are here")
    return [finding for session in case.sessions if (finding := examine(session)) is not None]


def _joined(findings: Sequence[Finding], good: str) -> Finding:
    if not findings:
        return Finding(good)
    where = tuple(jti for finding in findings for jti in finding.where)
    return Finding("; ".join(finding.detail for finding in findings), Tier.WARNING, where)


def check_start(case: Case) -> Finding:
    """``session.start``: exactly one start record, and it is the session's first."""
    case.need("sig.receipts")

    def examine(session: Session) -> None:
        starts = [record for record in session.gateway if record.kind == "session-start"]
        if len(starts) != 1:
            raise StartBroken("not exactly one start record", expected=1, found=len(starts), where=session.id)
        if session.gateway[0] is not starts[0] or starts[0].member("agt", "seq") != 0:
            raise StartBroken("a record of the session before its start", where=session.gateway[0].jti)

    _each(case, examine)
    return Finding.of(Count(len(case.sessions), "sessions, each with one start"))


def check_order(case: Case) -> Finding:
    """``session.order``: the gateway's numbers of each session's records are 0, 1, 2 ... without gap.

    Of a record that is erased by order, the order names the number.
    """
    case.need("session.start")

    def examine(session: Session) -> None:
        numbers = [_int(record.member("agt", "seq"), record) for record in session.gateway]
        numbers += [each.number for each in case.gone(session).gateway if each.number is not None]
        for expected, number in enumerate(sorted(numbers)):
            if number != expected:
                raise OrderBroken(
                    "the session's numbers have a gap or a repetition",
                    expected=f"agt.seq {expected}",
                    found=f"agt.seq {number}",
                    where=session.id,
                )

    _each(case, examine)
    return Finding("every session's records numbered without gap")


def _int(value: object, record: VerifiedReceipt) -> int:
    if not isinstance(value, int):
        raise OrderBroken("a gateway record of a session without its number", where=record.jti)
    return value


def _counters(records: Sequence[VerifiedReceipt]) -> list[tuple[int, VerifiedReceipt]]:
    return [
        (value, record)
        for record in records
        if record.kind in ("inference", "refusal", "tool")
        and isinstance(value := record.member("agt", "cseq"), int)
    ]


def check_counter(case: Case) -> Finding:
    """``session.counter``: every request that the supervisor signed has a record of one side or the other."""
    case.need("session.start")

    def examine(session: Session) -> Finding | None:
        seen: dict[int, VerifiedReceipt] = {}
        for record in session.gateway:
            if record.kind == "inference" and not isinstance(record.member("agt", "cseq"), int):
                raise CounterBroken("an inference that no supervisor signed for", where=record.jti)
        for number, record in _counters(session.gateway):
            if number in seen:
                raise CounterBroken("one counter in two gateway records", found=number, where=record.jti)
            seen[number] = record
        doubled = _accounts_of_both(session, seen)
        seen |= dict(_counters(session.supervisor.records))
        last = _last_counter(session)
        expected = max([*seen, -1]) if last is None else last
        missing, some = _missing(set(seen), expected)
        gone = len(case.gone(session))
        found = [doubled]
        if missing and missing <= gone and max(seen, default=-1) <= expected:
            text = f"{missing} requests of {session.id} whose records may be erased ones"
            found.append(Finding(text, Tier.WARNING))
        elif missing and not tail_is_open(session):
            raise CounterBroken("requests without a record, or beyond the last", found=some, where=session.id)
        elif missing:
            text = f"{missing} requests without a record when {session.id} was interrupted"
            found.append(Finding(text, Tier.WARNING))
        said = [each for each in found if each is not None]
        return _joined(said, "") if said else None

    return _joined(_each(case, examine), "every signed request has its record")


def _accounts_of_both(session: Session, gateway: Mapping[int, VerifiedReceipt]) -> Finding | None:
    """Requests of which the gateway has a record and the supervisor another, as when an answer was interrupted.

    Both are shown. The gateway received the request, so its record says how it ended.
    """
    both = [
        (number, gateway[number], own)
        for number, own in _counters(session.supervisor.records)
        if number in gateway
    ]
    if not both:
        return None
    shown = [f"request {number}: {_account(one)}; {_account(own)}" for number, one, own in both[:_SHOWN]]
    more = f"; and {len(both) - _SHOWN} more" if len(both) > _SHOWN else ""
    text = f"{len(both)} requests of {session.id} that both sides recorded; the gateway's record counts"
    where = tuple(record.jti for _, one, own in both for record in (one, own))
    return Finding(f"{text}: {'; '.join(shown)}{more}", Tier.WARNING, where)


def _account(record: VerifiedReceipt) -> str:
    """Who says what of a request: kind, end or reason, decision."""
    end = record.member("res", "end") or record.member("act", "end")
    said = [record.kind, record.member("rsn") or end, record.member("pol", "dec")]
    who = "gateway" if record.role == "gateway" else "supervisor"
    return f"{who} {' '.join(str(each) for each in said if each is not None)}"


def _missing(seen: set[int], last: int) -> tuple[int, Sequence[int]]:
    """How many counters are wrong, from 0 to ``last`` or seen beyond it, and up to five of them.

    ``last`` is whatever a supervisor signed, up to 2**53 - 1: nothing here grows with it (CWE-770).
    """
    beyond = sorted(number for number in seen if number > last)
    count = last + 1 - (len(seen) - len(beyond)) + len(beyond)
    first = [number for number in range(min(last + 1, len(seen) + 5)) if number not in seen]
    return count, [*first, *beyond][:5]


def _last_counter(session: Session) -> int | None:
    for record in session.supervisor.records:
        if record.kind == "end":
            value = record.member("cseq")
            if not isinstance(value, int):
                raise CounterBroken("the supervisor's end names no last counter", where=record.jti)
            return value
    return None


def check_close(case: Case) -> Finding:
    """``session.close``: count, outcomes, root, heads of both chains equal what is here; none: open."""
    case.need("session.order")

    def examine(session: Session) -> Finding | None:
        close = session.the("session-close")
        if close is None:
            state = "lost" if is_lost(case, session) else "open"
            return Finding(
                f"session {session.id} has no close: {state}", Tier.WARNING, (session.gateway[0].jti,)
            )
        before, covered = [r for r in session.gateway if r is not close], covered_by_close(session, close)
        gone = case.gone(session)
        heads = {_int(r.member("agt", "seq"), r): Head(r.chn, r.seq, r.rh) for r in before}
        heads |= {
            each.number: Head(each.chn, each.seq, each.rh) for each in gone.gateway if each.number is not None
        }
        expected: dict[str, object] = {
            "n": len(before) + len(gone.gateway),
            "root": session_root({number: head.rh for number, head in heads.items()}),
            "head": dict(heads[max(heads)].to_json()),
            "out": _outcomes(close, before, gone),
            "sup": _supervisors_last(session, covered, gone),
        }
        for member, value in expected.items():
            if close.member(member) != value:
                raise CloseMismatch(
                    f"the close record's {member} is not that of the records", where=close.jti
                )
        if len(gone):
            text = f"{len(gone)} records of {session.id}, closed: {close.member('why')}, are erased; their outcomes"
            text = f"{text} stand in its close alone"
            return Finding(text, Tier.WARNING, (close.jti,))
        if close.member("why") != "done":
            more = len(session.supervisor.records) - len(covered)
            beyond = f", and {more} records of its supervisor were never acknowledged" if more else ""
            text = f"session {session.id} closed: {close.member('why')}{beyond}"
            return Finding(text, Tier.WARNING, (close.jti,))
        return None

    return _joined(_each(case, examine), "counts, root and heads equal the records")


def _outcomes(close: VerifiedReceipt, before: Sequence[VerifiedReceipt], gone: Gone) -> object:
    """``out`` of a close: what is here; with as many more, of any outcome, as are erased."""
    counts = session_counts((record.kind, record.payload) for record in before)
    said = close.member("out")
    if not gone.gateway or not isinstance(said, dict):
        return counts
    more = sum(said.values()) - sum(counts.values())
    fits = all(said.get(name, 0) >= count for name, count in counts.items())
    return said if fits and more == len(gone.gateway) else counts


def _supervisors_last(session: Session, covered: Sequence[VerifiedReceipt], gone: Gone) -> dict[str, object]:
    """``sup`` of a close: the supervisor's last record; none was received: number 0 and the keyset digest."""
    statement = session.supervisor.statement
    last = max(covered, key=lambda record: record.seq, default=None)
    close = session.the("session-close")
    for each in gone.supervisor:
        later = last is None or each.seq > last.seq
        if later and close is not None and close.member("sup", "rh") == each.rh:
            return {"chn": each.chn, "seq": each.seq, "rh": each.rh, "end": 0}
    if last is None:
        return {"chn": min(statement.chn), "seq": 0, "rh": statement.keyset_digest, "end": 0}
    return {"chn": last.chn, "seq": last.seq, "rh": last.rh, "end": int(last.kind == "end")}


def is_lost(case: Case, session: Session) -> bool:
    """Whether a gap record of another chain names the chain of the gateway that had this session (trust rules, 1)."""
    return case.follow_up({record.chn for record in session.gateway})


def check_sealed(case: Case) -> Finding:
    """``session.sealed``: no record after the close, and none after the session's expiry."""
    case.need("session.order", "pol.bound")

    def examine(session: Session) -> None:
        close = session.the("session-close")
        assert session.activation is not None
        for record in session.records:
            if close is not None and record.role == "gateway" and record.seq > close.seq:
                raise AfterClose("a record after the close", where=record.jti)
            if record.iat > session.activation.expires + case.trust.clock_tolerance_s and record is not close:
                raise AfterClose("a record after the session's expiry", where=record.jti)

    _each(case, examine)
    return Finding("nothing after close or expiry")


def check_peer(case: Case) -> Finding:
    """``session.peer``: each side's links name records that the other made, and only forward."""
    case.need("session.order")

    def examine(session: Session) -> None:
        both = {record.rh: record for record in session.records}
        gone = case.gone(session)
        erased = {
            "gateway": {Head(each.chn, each.seq, each.rh) for each in gone.supervisor},
            "session": {Head(each.chn, each.seq, each.rh) for each in gone.gateway},
        }
        known = {
            "gateway": _known_before(session.gateway),
            "session": _known_before(session.supervisor.records),
        }
        for records in (session.gateway, session.supervisor.records):
            highest: dict[str, int] = {}
            for record in sorted(records, key=lambda item: item.seq):
                peer = record.member("peer")
                if record.kind == "session-close":
                    _demand_closing_link(record, session)
                if peer is None:
                    _may_lack_peer(record, session, after_one=bool(highest))
                    continue
                assert isinstance(peer, dict)
                named = both.get(peer["rh"])
                if gone and Head(peer["chn"], peer["seq"], peer["rh"]) in erased[record.role]:
                    _demand_forward(peer, highest, record)
                    continue
                if (
                    named is None
                    or named.role == record.role
                    or (named.chn, named.seq) != (peer["chn"], peer["seq"])
                ):
                    raise PeerMismatch(
                        "a link to a record that the other side did not make", where=record.jti
                    )
                _demand_forward(peer, highest, record)
                if known[named.role].get(named.seq, -1) >= record.seq:
                    raise PeerMismatch("two records that each claim to follow the other", where=record.jti)

    _each(case, examine)
    return Finding("links between the two chains agree, in both directions")


def _demand_forward(peer: dict[str, Any], highest: dict[str, int], record: VerifiedReceipt) -> None:
    if peer["seq"] < highest.get(peer["chn"], -1):
        raise PeerMismatch("a link that goes back", where=record.jti)
    highest[peer["chn"]] = peer["seq"]


def _may_lack_peer(record: VerifiedReceipt, session: Session, *, after_one: bool) -> None:
    """A link is left out only before the other side was heard.

    By the gateway, that is until it acknowledged the supervisor's first record.
    """
    if record.member("agt") is None:
        return
    closing = record.kind == "session-close" and _heard(record, session)
    if record.role == "session" or after_one or closing:
        raise PeerMismatch("a record without a link to the other side", where=record.jti)


def _heard(close: VerifiedReceipt, session: Session) -> bool:
    """Whether the gateway had received a record of the supervisor, by its close."""
    return close.member("sup", "rh") != session.supervisor.statement.keyset_digest


def _demand_closing_link(close: VerifiedReceipt, session: Session) -> None:
    """A ``lost`` close links to the record that it calls the supervisor's last, or to none where none was received."""
    if close.member("why") != "lost":
        return
    last = (
        {name: close.member("sup", name) for name in ("chn", "seq", "rh")} if _heard(close, session) else None
    )
    if close.member("peer") != last:
        raise PeerMismatch("a close that links to another record than it calls the last", where=close.jti)


def _known_before(records: Sequence[VerifiedReceipt]) -> dict[int, int]:
    """``seq`` -> the highest ``seq`` of the other side that its signer had received by then."""
    known: dict[int, int] = {}
    highest = -1
    for record in sorted(records, key=lambda item: item.seq):
        peer = record.member("peer", "seq")
        highest = max(highest, peer if isinstance(peer, int) else -1)
        known[record.seq] = highest
    return known


def check_intents(case: Case) -> Finding:
    """``session.intents``: an outcome names its one intent, of its own signer; one without outcome is a warning."""
    case.need("session.start")

    def examine(session: Session) -> Finding | None:
        gone = case.gone(session)
        of_supervisor = _examine_intents(session.supervisor.records, len(gone.supervisor))
        of_gateway = _examine_intents(session.gateway, len(gone.gateway))
        return of_supervisor or of_gateway

    return _joined(_each(case, examine), "every outcome follows its intent")


def _examine_intents(records: Sequence[VerifiedReceipt], erased: int) -> Finding | None:
    """What is to be said of the intents of one signer's ``records``, of which ``erased`` are gone."""
    intents: dict[str, VerifiedReceipt] = {}
    done, unknown = set[str](), set[str]()
    ports: dict[object, str] = {}
    reopened = 0
    for record in sorted(records, key=lambda item: item.seq):
        if _is_intent(record):
            intents[record.jti] = record
        if record.kind == "file" and record.shown("mov.n") == 0 and record.shown("mov.len"):
            raise IntentMismatch("bytes of no file", where=record.jti)
        if record.member("ph") == "opened" and (number := record.shown("prt.num")) is not None:
            if (reopened := reopened + (number in ports and ports[number] not in done)) > erased:
                raise IntentMismatch("a port that was open already", where=record.jti)
            ports[number] = record.jti
        if record.member("ph") in ENDS:
            unknown |= {jti for jti in _named(record) if jti not in intents}
            if len(unknown) <= erased and _named(record) & unknown:
                done |= _named(record)  # of an intent that is erased nothing more is known
                continue
            done |= _intents_of(record, intents, done)
    open_ones = tuple(jti for jti, intent in intents.items() if intent.kind != "file" and jti not in done)
    if open_ones:
        return Finding(f"{len(open_ones)} intents without outcome", Tier.WARNING, open_ones)
    if unknown:
        return Finding(f"{len(unknown)} outcomes whose intents may be erased ones", Tier.WARNING)
    return None


def _is_intent(record: VerifiedReceipt) -> bool:
    """Whether something begins here. A file's record stands for the whole call, unless an outcome follows."""
    phase = record.member("ph")
    return phase in BEGINS or record.kind == "secret" or (record.kind == "file" and phase is None)


def _named(record: VerifiedReceipt) -> set[str]:
    parents = record.member("par")
    return set(parents) if isinstance(parents, list) else set()


def _intents_of(record: VerifiedReceipt, intents: dict[str, VerifiedReceipt], done: set[str]) -> set[str]:
    named = _named(record)
    for jti in named:
        if jti not in intents or intents[jti].chn != record.chn:
            raise IntentMismatch("an outcome that names no intent before it", where=record.jti)
        if jti in done:
            raise IntentMismatch("a second outcome of one intent", where=record.jti)
    kinds = {intents[jti].kind for jti in named}
    if record.kind in _ALIKE or kinds & _ALIKE.keys():
        _demand_own_intent(record, [intents[jti] for jti in named])
    if record.kind == "tool" and "tool" not in kinds:
        raise IntentMismatch("an outcome without its intent", where=record.jti)
    uses = [intents[jti] for jti in named if intents[jti].kind == "secret"]
    if _versions([record]) != _versions(uses):
        raise IntentMismatch("the secrets that were used are not those of its intents", where=record.jti)
    if _is_unsafe(record) and not kinds & {"egress", "secret"}:
        raise IntentMismatch("an unsafe request without its intent", where=record.jti)
    return named


def _demand_own_intent(record: VerifiedReceipt, named: Sequence[VerifiedReceipt]) -> None:
    """The outcome of a command, of files or of a port has one intent, of its own kind, and speaks of the same."""
    if [intent.kind for intent in named] != [record.kind]:
        raise IntentMismatch("an outcome without its intent", where=record.jti)
    for path in _ALIKE[record.kind]:
        before, after = named[0].shown(path), record.shown(path)
        if before is not None and after is not None and before != after:
            raise IntentMismatch(f"an outcome of another {path} than its intent", where=record.jti)
    for path in ("mov.n", "mov.len"):
        begun, moved = named[0].shown(path), record.shown(path)
        if isinstance(begun, int) and isinstance(moved, int) and moved > begun:
            raise IntentMismatch("more was moved than was begun", where=record.jti)


def _versions(records: Sequence[VerifiedReceipt]) -> list[str]:
    """The ``ver`` of every secret that these records name, sorted."""
    found = []
    for record in records:
        uses = record.member("sec")
        found += [str(use["ver"]) for use in uses] if isinstance(uses, list) else []
    return sorted(found)


def _is_unsafe(record: VerifiedReceipt) -> bool:
    """Whether an egress outcome is of a method that changes things (RFC 9110, section 9.2.1), where it is opened."""
    target = record.disclosed.text("act.tgt")
    if record.kind != "egress" or target is None or " " not in target:
        return False
    return target.partition(" ")[0] not in ("GET", "HEAD", "OPTIONS")


def check_decisions(case: Case) -> Finding:
    """``session.decisions``: nothing that was denied was done, nothing was rewritten but by a decision that says so;
    what was not inspected is a warning."""
    case.need("session.start")

    def examine(session: Session) -> Finding | None:
        opaque = []
        for record in session.records:
            denied = record.member("pol", "dec") in ("deny", "ask")
            if denied and _is_done(record):
                raise DecisionMismatch("done although it was denied", where=record.jti)
            if _is_rewritten(record) and not _says_so(record):
                raise DecisionMismatch(
                    "another request was forwarded than was received",
                    expected="dec redact, or an answer that policy stopped",
                    found=f"dec {record.member('pol', 'dec')}",
                    where=record.jti,
                )
            limits = record.member("lim")
            if isinstance(limits, list) and "tls-passthrough" in limits:
                opaque.append(record.jti)
        if opaque:
            return Finding("connections whose content was not inspected", Tier.WARNING, tuple(opaque))
        return None

    return _joined(_each(case, examine), "nothing denied was done, nothing rewritten unsaid")


def _is_done(record: VerifiedReceipt) -> bool:
    """Whether it happened: an answer that began reached somebody, unless policy itself cut it off; a secret's record
    is acknowledged before the secret is used."""
    if record.kind == "inference":
        return record.member("res", "end") != "policy_stop"
    return record.kind == "secret" or (record.kind != "refusal" and record.member("act", "end") == "complete")


def _is_rewritten(record: VerifiedReceipt) -> bool:
    """Whether what was forwarded is not what was received, where both are opened."""
    received, forwarded = record.disclosed.text("req.dig"), record.disclosed.text("req.fwd")
    return received is not None and forwarded is not None and received != forwarded


def _says_so(record: VerifiedReceipt) -> bool:
    """Whether the decision allows for a rewritten request.

    One record has one decision, the last: where tools were taken out and the answer was stopped, it is ``deny``.
    """
    decision, end = record.member("pol", "dec"), record.member("res", "end")
    return decision == "redact" or (decision == "deny" and end == "policy_stop")


def check_supervisor(case: Case) -> Finding:
    """``session.supervisor``: the supervisor's own chain of each session is ended; else it is open: a warning."""
    case.need("chain.contiguous", "session.start")

    def examine(session: Session) -> Finding | None:
        if not session.supervisor.records:
            return Finding(f"no record of the supervisor of {session.id}", Tier.WARNING, (session.id,))
        if not any(record.kind == "end" for record in session.supervisor.records):
            return Finding(f"the supervisor's chain of {session.id} is open", Tier.WARNING, (session.id,))
        return None

    return _joined(_each(case, examine), "every supervisor's chain is here from boot to end")
