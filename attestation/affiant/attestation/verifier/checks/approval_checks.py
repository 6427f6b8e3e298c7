"""Approvals: every one that a record names was signed by approvers of the session's profile, and used once.

What records hold of an approval is the digest of the action and the statement of an approver, which carries its key;
the action itself is in no bundle. So it is judged *that* approvers agreed to an action with this digest, before it was
begun, and not whether what was done is that action: whoever let it happen held that against its bytes. Nor is it judged
whether something was done that needed an approval and names none.

**Before** is what two chains can tell. A call that the gateway makes stands in its own order, behind what approvers
said of it. What a supervisor begins stands in another chain: an approval came after it if the gateway had received that
record by then (``peer``), or dated it more than a minute later.

Of an identity's statement a record holds the digest; the sigstore bundle lies among the bundle's ``policies``, as the
profile does whose trusted root it is verified under, offline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.signatures.approvers.clock_tolerance import CLOCK_TOLERANCE_S
from affiant.attestation.signatures.approvers.errors import (
    NotAnApprover,
    StatementForAnother,
    StatementStale,
)
from affiant.attestation.verdict.errors import EvidenceUnbound, NotAccepted, NotMade, SessionBroken
from affiant.attestation.verdict.summary import Count
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.epochs import epochs_of
from affiant.attestation.verifier.checks.policy_checks import profile_digest_of
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.signatures.approvers.named_approvers import NamedApprovers
    from affiant.attestation.signatures.approvers.statement import Statement

__all__ = ["check_approvals"]


class ApprovalUnbound(EvidenceUnbound):
    """A record says something else of an approval than the approver's statement in it."""

    code = "apr.unbound"


class QuorumMissing(NotAccepted):
    """An action was done without the approvals that its session's profile demands."""

    code = "apr.quorum"


class ApprovalRepeated(SessionBroken):
    """One approved action was begun twice."""

    code = "apr.repeated"


class ApprovalTooLate(SessionBroken):
    """A record rests on an approval that was recorded after it."""

    code = "apr.order"


class DoneAfterDenial(SessionBroken):
    """A gateway began what an approver had denied to it before."""

    code = "apr.denied"


class _Approval(NamedTuple):
    """A record that names an approval, and the statement in it, whose signature holds."""

    record: VerifiedReceipt
    statement: Statement

    @property
    def epoch(self) -> int:
        """Which of the session's profiles it is judged by."""
        return _epoch_of(self.record)

    @property
    def acts(self) -> bool:
        """Whether something was done by it; a record of the kind ``approval`` only keeps it."""
        return self.record.kind != "approval"


class _Kept:
    """What records of the kind ``approval`` keep of one session, by their ids, and the denials among them by action."""

    def __init__(self, found: Sequence[_Approval]) -> None:
        self.by_id = {each.record.jti: each for each in found if not each.acts}
        self.denials: dict[str, list[_Approval]] = {}
        for each in self.by_id.values():
            if not each.statement.approves:
                self.denials.setdefault(each.statement.action, []).append(each)


def _epoch_of(record: VerifiedReceipt) -> int:
    epoch = record.member("pol", "epoch")
    assert isinstance(epoch, int)
    return epoch


def check_approvals(case: Case) -> Finding:
    """``apr.bound``: each statement is signed by an approver of the profile, about that action and in its time; each
    action that was done has its quorum from before it, and was done once. What was approved on an operator's page is a
    warning."""
    case.need("session.order", "pol.bound")
    console: list[str] = []
    done: set[str] = set()
    identities: set[str] = set()
    for session in case.sessions:
        naming = [record for record in session.records if record.member("apr") is not None]
        if not naming:
            continue
        approvers = [_approvers_of(case, epoch.profile_digest) for epoch in epochs_of(session)]
        found = [_Approval(record, _statement_in(record, case, approvers)) for record in naming]
        for each in found:
            _judge(each, approvers[each.epoch])
            identities.update(_identity_of(each.statement, approvers[each.epoch]))
        erased, kept = bool(case.gone(session).gateway), _Kept(found)
        for each in found:
            if not each.acts:
                continue
            if each.statement.action in done:
                raise ApprovalRepeated("a second use of one approval", where=each.record.jti)
            done.add(each.statement.action)
            _judge_use(each, kept, approvers[each.epoch], erased=erased)
        console += [
            each.record.jti for each in found if each.statement.approves and each.statement.via == "console"
        ]
    if console:
        return Finding("approved on a page that the operator serves (console)", Tier.WARNING, tuple(console))
    text = "actions done by approval, each with its quorum and once"
    return Finding.of(Count(len(done), text, said="; signed by ", names=identities))


def _identity_of(statement: Statement, approvers: NamedApprovers) -> Iterator[str]:
    """Who signed, where it is no key."""
    named = approvers.identities
    return (str(who) for who in named.who if named.name_of(who) == statement.kid)


def _statement_in(record: VerifiedReceipt, case: Case, approvers: Sequence[NamedApprovers]) -> Statement:
    """The statement that ``apr`` holds or names, if its other members say the same; ``approvers`` by epoch."""
    said = record.member("apr")
    assert isinstance(said, dict)
    text = _text_of(str(said["sig"]), case)
    try:
        statement = case.verifiers.approvals.read(text, approvers[_epoch_of(record)])
    except NotMade:
        raise
    except AffiantError as error:
        error.where = record.jti
        raise
    if statement.action != said["dig"]:
        raise StatementForAnother(
            "a statement about another action", expected=said["dig"], found=statement.action, where=record.jti
        )
    found = (statement.sig, statement.kid, statement.expires, statement.via)
    if found != (said["sig"], said["kid"], said["exp"], said["via"]):
        raise ApprovalUnbound("signer, end or way are not the statement's", where=record.jti)
    return statement


def _text_of(sig: str, case: Case) -> str:
    """A key's statement; or an identity's, which the record only names."""
    if not sig.startswith("sha256:"):
        return sig
    bundle = case.bundle.policies.get(sig)
    if bundle is None:
        raise NotMade("the bundle does not carry the signature of an identity that approved")
    return bundle.decode("utf-8", "replace")


def _approvers_of(case: Case, wanted: str) -> NamedApprovers:
    for raw in case.bundle.policies.values():
        if profile_digest_of(raw) == wanted:
            try:
                return case.verifiers.approvals.approvers_of(raw)
            except AffiantError as error:
                raise NotMade("the profile's normal form does not say here who may approve") from error
    raise NotMade("the bundle does not carry the profile's normal form")


def _judge(each: _Approval, approvers: NamedApprovers) -> None:
    """Who signed, when, and whether the record draws from it what was said."""
    record, statement = each
    if statement.kid not in approvers.kids:
        raise NotAnApprover(
            "signed by nobody whom the profile lets approve", found=statement.kid, where=record.jti
        )
    if not statement.made - CLOCK_TOLERANCE_S <= record.iat <= statement.expires + CLOCK_TOLERANCE_S:
        raise StatementStale(
            "recorded outside the statement's time",
            expected=f"from {statement.made} to {statement.expires}",
            found=record.iat,
            where=record.jti,
        )
    if each.acts:
        if record.member("pol", "dec") != "allow" or record.member("ph") == "outcome":
            raise ApprovalUnbound(
                "an approval is in the record that allows an action to begin", where=record.jti
            )
        if not statement.approves:
            raise ApprovalUnbound("done by a statement that denies it", where=record.jti)
        return
    kept = (record.member("pol", "dec"), record.member("act", "end"))
    if kept != (("allow", "complete") if statement.approves else ("deny", "refused")):
        raise ApprovalUnbound("recorded as another decision than was signed", where=record.jti)


def _judge_use(use: _Approval, found: _Kept, approvers: NamedApprovers, *, erased: bool) -> None:
    """That the action was begun by the recorded statements of as many approvers as must agree, by the profile that it
    names: what was agreed before a narrowing was about another action, which names another profile."""
    record, statement = use
    named = _named_by(record)
    kept = [found.by_id[jti] for jti in sorted(named) if jti in found.by_id]
    _demand_order(use, kept, found)
    basis = [each for each in kept if _agrees(each, statement.action) and each.epoch == use.epoch]
    agreed = {
        each.statement.kid for each in basis if record.iat <= each.statement.expires + CLOCK_TOLERANCE_S
    }
    if len(basis) == len(named) and statement.kid in agreed and len(agreed) >= approvers.quorum:
        return
    if erased:
        raise NotMade("records of approvals may be erased ones")
    raise QuorumMissing(
        "its approvals are not the recorded ones, or too few",
        expected=f"{approvers.quorum} different approvers",
        found=str(len(agreed)),
        where=record.jti,
    )


def _named_by(record: VerifiedReceipt) -> frozenset[str]:
    parents = record.member("par")
    return frozenset(map(str, parents)) if isinstance(parents, list) else frozenset()


def _agrees(each: _Approval, action: str) -> bool:
    return each.statement.approves and each.statement.action == action


def _demand_order(use: _Approval, kept: Sequence[_Approval], found: _Kept) -> None:
    """That each approval in ``kept`` came before ``use``; and where one signer made both, that no denial did.

    Of what a supervisor begins a denial may be recorded before its intent is: both are under way at once.
    """
    record, statement = use
    for each in kept:
        if not _precedes(each.record, record):
            raise ApprovalTooLate(
                "an approval that was recorded after what rests on it",
                found=each.record.jti,
                where=record.jti,
            )
    if record.role != "gateway":
        return
    for each in found.denials.get(statement.action, ()):
        if _precedes(each.record, record):
            raise DoneAfterDenial(
                "begun after an approver denied it", found=each.record.jti, where=record.jti
            )


def _precedes(kept: VerifiedReceipt, record: VerifiedReceipt) -> bool:
    """Whether the gateway's record of a statement was made before ``record``, as far as the chains tell."""
    if record.role == kept.role:
        return _number(kept) < _number(record)
    heard = kept.member("peer", "chn") == record.chn and _integer(kept.member("peer", "seq")) >= record.seq
    return not heard and kept.iat <= record.iat + CLOCK_TOLERANCE_S


def _number(record: VerifiedReceipt) -> int:
    return _integer(record.member("agt", "seq"))


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
