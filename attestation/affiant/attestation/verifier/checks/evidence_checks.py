"""L4: keys are bound to appraised TDX evidence, and what the evidence binds is what the records say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.ear import VerifiedEAR, ear_digest, verify_ear
from affiant.attestation.statements.evidence import parse_endorsements
from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.attestation.statements.manifest import (
    mrconfigid,
    parse_activation,
    parse_manifest,
    session_events,
)
from affiant.attestation.statements.restriction import NARROWING_EVENT
from affiant.attestation.statements.statement import report_data
from affiant.attestation.verdict.errors import EvidenceUnbound, NotAccepted, NotMade
from affiant.attestation.verdict.summary import Count
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Party, Session
from affiant.attestation.verifier.case.epochs import begun_by, received
from affiant.attestation.verifier.case.evidence_named import (
    evidence_of,
    object_named,
    quoted_beyond,
    quoted_by,
)
from affiant.attestation.verifier.case.signer_evidence import Quoted
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.tdx.appraise.appraisal import Appraisal
    from affiant.attestation.tdx.appraise.reference import ReferenceValues
    from affiant.attestation.tdx.tcb.collateral import Collateral
    from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral

__all__ = [
    "appraised_once",
    "check_appraisal",
    "check_class",
    "check_evidence",
    "check_expiry",
    "check_key_bound",
    "check_peer_bound",
    "check_results",
    "collateral_of",
    "result_named",
]


class ClassMismatch(EvidenceUnbound):
    """Evidence class of root, keyset, manifest and records do not agree; never a downgrade."""

    code = "tee.class_mismatch"


class KeyExpired(EvidenceUnbound):
    """A record was signed after its keyset's end."""

    code = "key.expired"


class PeerUnbound(EvidenceUnbound):
    """A session's records, start and keysets do not name each other."""

    code = "peer.unbound"


class ResultMismatch(EvidenceUnbound):
    """An attestation result is not the one that a receipt names, or says something else."""

    code = "peer.ear_mismatch"


def check_evidence(case: Case) -> Finding:
    """``key.evidence``: every record names its signer's evidence, and that evidence holds this very keyset.

    A session's changes at its narrowings, each time to one that was not named before.
    """
    case.need("sig.receipts")
    for party in case.parties:
        known, party.quoted = party.quoted, quoted_by(case, party)
        if [each.evd for each in known] == [each.evd for each in party.quoted]:
            party.quoted = (
                known  # with what came of it: a gateway of many sessions is appraised with the first
            )
    _read_sessions(case)
    more = sum(len(party.quoted) - 1 for party in case.parties)
    text = f"{len(case.parties)} keysets, each in the evidence that its records name"
    return Finding(f"{text}; {more} quoted again for restrictions" if more else text)


def _read_sessions(case: Case) -> None:
    for session in case.sessions:
        evidence = session.supervisor.quoted[0].evidence
        assert evidence.manifest is not None
        assert evidence.activation is not None
        session.manifest = parse_manifest(evidence.manifest)
        session.activation = parse_activation(evidence.activation)
        if (beyond := quoted_beyond(case, session)) is not None:
            session.supervisor.quoted.append(beyond)


def check_key_bound(case: Case) -> Finding:
    """``key.bound``: REPORTDATA of each quote is SHA-512 over the keyset statement, all 64 bytes."""
    case.need("key.evidence")
    for party in case.parties:
        for quoted in party.quoted:
            evidence = quoted.evidence
            if case.verifiers.quotes.parse(evidence.quote).body.report_data != report_data(
                evidence.statement
            ):
                raise EvidenceUnbound(
                    f"the {party.role}'s quote does not bind its keyset", where=party.records[0].jti
                )
    return Finding("each quote's REPORTDATA binds its keyset")


def check_appraisal(case: Case) -> Finding:
    """``tee.appraisal``: each quote verifies under an accepted root and is appraised by accepted reference values.

    All 45 points of the TDX checklist, with the collateral as archived, at the instant judged at. What follows the
    barrier in a session's RTMR3 is exactly the narrowings until that quote.
    """
    case.need("key.bound", "conf.bound", "pol.bound")
    statuses: set[str] = set()
    for party, quoted in _quotes(case):
        statuses.add(appraised_once(case, party, quoted).verified.statuses.merged.value)
    own = sum(party.role == "session" for party, _ in _quotes(case))
    gateways = {quoted.evd for party in case.gateways for quoted in party.quoted}
    text = "quotes: chain, CRLs, image, registers"
    return Finding.of(Count(own, text, gateways, said="; TCB ", names=statuses))


def _quotes(case: Case) -> Iterator[tuple[Party, Quoted]]:
    for party in case.judged:
        for quoted in party.quoted:
            yield party, quoted


def appraised_once(case: Case, party: Party, quoted: Quoted) -> Appraisal:
    """As :func:`appraise_quoted`; what came of it is kept: a gateway of many sessions is appraised with the first."""
    if quoted.appraisal is None and quoted.refusal is None:
        try:
            quoted.appraisal = appraise_quoted(case, party, quoted)
        except AffiantError as error:
            quoted.refusal = error
    if quoted.appraisal is None:
        assert quoted.refusal is not None
        raise quoted.refusal.with_traceback(None)  # else it would grow by each who asks
    return quoted.appraisal


def appraise_quoted(case: Case, party: Party, quoted: Quoted) -> Appraisal:
    """Verify a signer's quote with the collateral that is meant, and appraise what runs in the TD.

    Raises:
        NotMade: something that this needs is not there.
        AffiantError: the quote is refused; ``quoted.verified`` says whether what runs in it was.
    """
    quoted.collateral = collateral_of(case, party, quoted)
    quotes, newer = case.verifiers.quotes, case.newer
    parsed = quotes.parse(quoted.evidence.quote)
    at, seen = party.at or case.at, None
    if newer is None or newer.collateral is None:
        raw = quoted.collateral
        collateral = _verified(
            case, sha256_name(raw), at, lambda: quotes.parse_collateral(parse_endorsements(raw))
        )
    else:
        # Old but valid collateral would hide what was published since: it is no newer look at anything.
        seen = newer.marks.get(quoted.evd)
        own = newer.collateral(parsed)
        collateral = _verified(case, own.digest, at, lambda: own)
    quoted.mark = quotes.mark_of(collateral)
    quote = quoted.verified = quotes.verify(parsed, collateral, now=at, seen=seen)
    wanted, boot, later = _expected(case, party, quoted)
    refusal: AffiantError | None = None
    for reference in _references(case, at):
        try:
            return quotes.appraise(
                quote,
                reference,
                image="gateway" if party.role == "gateway" else "session",
                mrconfigid=wanted,
                report_data=report_data(quoted.evidence.statement),
                log=quoted.evidence.eventlog,
                boot=boot,
                later=later,
            )
        except AffiantError as error:
            refusal = error
    if refusal is None:
        raise NotAccepted("no reference values are accepted at this time", where="trust.reference_values")
    raise refusal


def _verified(case: Case, name: str, at: datetime, read: Callable[[], Collateral]) -> VerifiedCollateral:
    """The collateral that ``read`` gives, verified once under its name."""
    if (known := case.collateral.get((name, at))) is None:
        roots = case.trust.root_names_at(at)
        known = case.verifiers.quotes.verify_collateral(read(), now=at, roots=roots)
        case.collateral[name, at] = known
    return known


def _references(case: Case, at: datetime) -> list[ReferenceValues]:
    return [reference for entry, reference in case.trust.reference_values if entry.counts_at(at)]


_Events = Sequence[tuple[str, Mapping[str, object]]]
"""Names and payloads."""


def _expected(case: Case, party: Party, quoted: Quoted) -> tuple[bytes, _Events, _Events]:
    """MRCONFIGID and RTMR3's events, up to the barrier and after it, as the bundle's documents demand them."""
    if party.role == "gateway":
        return config_of(case, party).mrconfigid, (), ()
    session = case.session_of(party)
    if session is None or session.manifest is None or session.activation is None:
        raise NotMade("a session that is not in focus")
    later = [(NARROWING_EVENT, each.payload) for each in session.narrowings[: quoted.epoch]]
    return mrconfigid(session.manifest), session_events(session.manifest, session.activation), later


def config_of(case: Case, party: Party) -> GatewayConfig:
    """The gateway's configuration document, by the digest in its keyset.

    Raises:
        NotMade: the bundle does not carry it.
    """
    name = str(party.statement.policy)
    known = case.configs.get(name)
    if known is None:
        raw = case.bundle.policies.get(name)
        if raw is None:
            raise NotMade("the bundle does not carry the gateway's configuration")
        known = case.configs[name] = parse_gateway_config(raw)
    return known


def collateral_of(case: Case, party: Party, quoted: Quoted) -> bytes:
    """What the gateway was appraised with (its boot record's ``col``), or the session in focus (its result's).

    A narrowed session's quote was appraised anew; where no record rests on the result of that, with what was taken for
    the quote before it: both are judged at one instant.

    Raises:
        NotMade: a record, a key or an object that names it is not there.
    """
    if party.role == "gateway":
        col = next((r.member("col") for r in party.records if r.kind == "boot"), None)
        if col is None:
            raise NotMade("the gateway's boot record names no collateral")
        return object_named(case.bundle.endorsements, col, "collateral")
    session = case.session_of(party)
    assert session is not None, "quotes of signers in focus alone are judged"
    gateway, link = _gateway_of(case, session), _result_of(session, quoted)
    if link is None and quoted.epoch > 0:
        return collateral_of(case, party, party.quoted[quoted.epoch - 1])
    if link is None or gateway.statement.ear_key is None:
        raise NotMade("no session-start record, or no key for results")
    result = object_named(case.bundle.results, link, "attestation result")
    return object_named(
        case.bundle.endorsements,
        verify_ear(_text(result), gateway.statement.ear_key).col,
        "collateral",
    )


def _result_of(session: Session, quoted: Quoted) -> object:
    """The result that the gateway's first record to rest on one of this evidence names; of epoch 0 the start record."""
    if quoted.epoch == 0:
        start = session.the("session-start")
        return None if start is None else start.member("att", "ses", "ear")
    named = (
        record.member("att", "ses", "ear")
        for record in session.gateway
        if record.member("agt", "evd") == quoted.evd
    )
    return next((link for link in named if link is not None), None)


def _text(result: bytes) -> str:
    try:
        return result.decode("ascii")
    except UnicodeDecodeError as error:
        raise ResultMismatch("an attestation result that is no text") from error


def _gateway_of(case: Case, session: Session) -> Party:
    found = case.gateway_of(session.gateway[0].chn) if session.gateway else None
    if found is None:
        raise NotMade("the session's gateway is not in the bundle")
    return found


def check_class(case: Case) -> Finding:
    """``tee.class``: root, keyset, manifest and records agree on the evidence class.

    What is simulated says nothing about hardware: the check holds with the tier none.
    """
    case.need("tee.appraisal")
    manifests = {session.manifest.cls for session in case.sessions if session.manifest is not None}
    for party, quoted in _quotes(case):
        assert quoted.appraisal is not None
        found = quoted.appraisal.evidence_class.value
        said = {party.statement.cls, *manifests} | {record.cls for record in party.records}
        if said != {found}:
            raise ClassMismatch(
                "evidence class disagrees", expected=found, found=", ".join(sorted(said - {found}))
            )
    classes = {quoted.appraisal.evidence_class.value for _, quoted in _quotes(case) if quoted.appraisal}
    if classes == {"hardware"}:
        return Finding("hardware, everywhere")
    return Finding("SIMULATED, everywhere: proves nothing about hardware", Tier.NONE)


def check_expiry(case: Case) -> Finding:
    """``key.not_after``: no record was signed after the end that its keyset names."""
    case.need("key.evidence")
    for party in case.parties:
        for record in party.records:
            if record.iat > party.statement.not_after:
                raise KeyExpired("signed after the keyset's end", where=record.jti)
    return Finding("every record within its keyset's time")


def check_peer_bound(case: Case) -> Finding:
    """``peer.bound``: a session's records name the session key and evidence that the gateway appraised, its start
    record the manifest and activation, its keyset and boot record the gateway's keyset."""
    case.need("key.evidence", "session.start")
    for session in case.sessions:
        gateway, supervisor = _gateway_of(case, session), session.supervisor
        keyset = gateway.statement.keyset_digest
        start = session.the("session-start")
        assert start is not None
        _agents_bound(session)
        if (
            start.member("man", "man") != supervisor.statement.man
            or start.member("man", "act") != supervisor.statement.act
        ):
            raise PeerUnbound("the start names another manifest or activation", where=start.jti)
        boot = next((record for record in supervisor.records if record.kind == "boot"), None)
        if boot is None or boot.member("gks") != keyset or supervisor.statement.gks != keyset:
            raise PeerUnbound(
                "the session appraised another gateway keyset", expected=keyset, where=session.id
            )
        _start_bound(session, start, boot)
    _keys_used_once(case)
    return Finding("gateway and session name each other's keys and evidence")


def _start_bound(session: Session, start: VerifiedReceipt, boot: VerifiedReceipt) -> None:
    """Input, starter, task label and build are those of the activation and the manifest."""
    assert session.activation is not None
    assert session.manifest is not None
    task = None if session.activation.task is None else list(session.activation.task)
    starter = session.activation.starter
    facts = {
        "input": (start.member("inp"), session.activation.input_digest),
        "starter's issuer": (start.member("ini", "iss"), starter["iss"]),
        "starter's method": (start.member("ini", "method"), starter["method"]),
        "starter": (start.disclosed.get("ini.sub") or starter["sub"], starter["sub"]),
        "task label": (start.member("tsk", "_sd"), task),
        "supervisor's build": (boot.member("bld"), session.manifest.supervisor),
    }
    for what, (found, expected) in facts.items():
        if found != expected:
            raise PeerUnbound(f"the {what} is another than was activated", expected=expected, where=start.jti)


def _keys_used_once(case: Case) -> None:
    """No record anywhere uses the key or an evidence of a session in focus under another session's id."""
    ours = {
        name: session.id
        for session in case.sessions
        for name in (
            session.supervisor.statement.receipt_kid,
            *(each.evd for each in session.supervisor.quoted),
        )
    }
    for record in case.records:
        agent = record.member("agt")
        if not isinstance(agent, dict):
            continue
        for member in ("key", "evd"):
            owner = ours.get(agent[member])
            if owner is not None and agent["ses"] != owner:
                raise PeerUnbound("a session's key under another session's id", where=record.jti)


def _agents_bound(session: Session) -> None:
    """``agt`` names the session's key and the evidence of its epoch: the supervisor's own, and in the gateway's records
    none from before what was named already or received."""
    for record in session.supervisor.records:
        if (agent := _agent(record, session)) is not None and agent["evd"] != record.member("evd"):
            raise PeerUnbound("a record that names another evidence than its own", where=record.jti)
    begun, least = begun_by(session), 0
    for record in session.gateway:
        agent, least = _agent(record, session), max(least, received(record, begun))
        quoted = None if agent is None else evidence_of(session, agent["evd"])
        if quoted is None:
            raise PeerUnbound("a record that names another session key or evidence", where=record.jti)
        if quoted.epoch < least or record.member("pol", "epoch") not in (None, quoted.epoch):
            raise PeerUnbound("a record that names the evidence of another epoch", where=record.jti)
        least = quoted.epoch


def _agent(record: VerifiedReceipt, session: Session) -> Mapping[str, object] | None:
    """``agt`` of a record, with this session's key and id; None: it has none."""
    agent = record.member("agt")
    if agent is None:
        return None
    assert isinstance(agent, dict)
    if agent["key"] != session.supervisor.statement.receipt_kid or agent["bind"] != "pop":
        raise PeerUnbound("a record that names another session key or evidence", where=record.jti)
    if agent["ses"] != session.supervisor.statement.iss.rpartition(":")[2]:
        raise PeerUnbound("a record of another session in this one's chain", where=record.jti)
    return agent


def check_results(case: Case) -> Finding:
    """``peer.ear``: each attestation result named by a record is signed by the gateway, is of this session's
    evidence, and has the tier that the record repeats and this verifier found.

    A result about another peer (``ups``, ``gw``) is not judged by this version, and so the check is not made.
    """
    case.need("peer.bound", "tee.appraisal")
    count = 0
    others: set[str] = set()
    for session in case.sessions:
        gateway = _gateway_of(case, session)
        judged: dict[tuple[object, ...], VerifiedEAR] = {}
        for record in session.gateway:
            if record.kind not in ("session-start", "inference"):
                continue
            named = record.member("att", "ses")
            if not isinstance(named, dict):
                raise ResultMismatch("a record that rests on no attestation result", where=record.jti)
            if record.member("res", "end") == "complete" and not record.member("up"):
                raise ResultMismatch("an answer that came from no upstream", where=record.jti)
            quoted = evidence_of(session, record.member("agt", "evd"))
            assert quoted is not None, "peer.bound holds"
            claim = (named["ear"], named["tier"], quoted.evd)
            if (result := judged.get(claim)) is None:  # most records rest on one result
                result = judged[claim] = _result_of_record(case, quoted, gateway, record, named)
            if result.until < record.iat:
                raise ResultMismatch(
                    "the attestation result had expired", found=result.until, where=record.jti
                )
            others |= _others(record)
            count += 1
    if others:  # last, so that it hides no refusal
        raise NotMade(f"results that this version does not judge: {', '.join(sorted(others))}")
    return Finding.of(Count(count, "records rest on a result that this verifier reached too"))


def _others(record: VerifiedReceipt) -> set[str]:
    """The peers beside the session that a record rests on. An upstream is called attested on the word of a result."""
    results, attempts = record.member("att"), record.member("up") or ()
    assert isinstance(results, dict)
    assert isinstance(attempts, (list, tuple))
    if "ups" not in results:
        for attempt in attempts:
            if attempt["bind"] == "attested":
                text = "an upstream called attested, on the word of no result"
                raise ResultMismatch(text, where=record.jti)
    return results.keys() - {"ses"}


def result_named(case: Case, gateway: Party, link: str) -> tuple[str, VerifiedEAR]:
    """The result that ``link`` names: its text, and what it says; verified once for all records that rest on it."""
    name = (link, gateway.statement.receipt_kid)
    known = case.results.get(name)
    if known is None:
        raw = _text(object_named(case.bundle.results, link, "attestation result"))
        if gateway.statement.ear_key is None:
            raise NotMade("the gateway's keyset names no key for results")
        known = case.results[name] = raw, verify_ear(raw, gateway.statement.ear_key)
    return known


def _result_of_record(
    case: Case, quoted: Quoted, gateway: Party, record: VerifiedReceipt, named: dict[str, object]
) -> VerifiedEAR:
    """The result that a record names, which says what this verifier found."""
    raw, result = result_named(case, gateway, str(named["ear"]))
    appraised = _appraised_then(case, quoted)
    expected = {
        "peer": "session",
        "evd": quoted.evd,
        "tier": appraised.tier.value,
        "cls": appraised.evidence_class.value,
        "tcb": appraised.verified.statuses.merged.value,
        "policy": config_of(case, gateway).reference,
    }
    for member, value in expected.items():
        if getattr(result, member) != value:
            raise ResultMismatch(
                f"the attestation result's {member} is another",
                expected=value,
                found=getattr(result, member),
                where=record.jti,
            )
    if named["tier"] != result.tier or ear_digest(raw) != named["ear"]:
        raise ResultMismatch("the record repeats another tier than its result", where=record.jti)
    return result


def _appraised_then(case: Case, quoted: Quoted) -> Appraisal:
    """What the session's quote was worth when the gateway said what it is worth: a result is not wrong because a
    vulnerability was found later."""
    found = quoted.appraisal if case.newer is None else case.newer.earlier.get(quoted.evd)
    if found is None:
        raise NotMade("the session's quote does not hold at the bundle's own time")
    return found
