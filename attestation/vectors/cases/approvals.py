"""Class *session*, of approvals: each is an approver's of the profile, about that action, in time, and used once."""

from __future__ import annotations

from typing import Any

from vectors.cases.edits import one
from vectors.making.approvals import ANOTHER, approval_record, approvals, intent, statement
from vectors.making.case import Case, told
from vectors.making.documents import START, identifier
from vectors.making.encoding import sha256_name
from vectors.making.faults import put
from vectors.making.scripts import ids
from vectors.making.story import Story
from vectors.making.trust import ANY_PROFILE

__all__ = ["CASES", "VALID"]

_BASE = "valid/approvals"
_ELSE = sha256_name(b"affiant vectors: the bytes of something else")
_UNLOGGED: dict[str, Any] = {"logged": False, "not_made": ("log.inclusion",)}
"""Without proofs of inclusion, of which each would be another: a much smaller file."""
_WARNINGS = ("pol.accepted", "rfs.accepted")


def _valid(name: str, about: str, faults: dict[str, Any] | None, *warnings: str, **more: Any) -> Case:
    return Case(
        f"valid/{name}",
        about,
        told(faults, approvals),
        trust=ANY_PROFILE,
        warnings=(*warnings, *_WARNINGS),
        **more,
    )


def _refused(name: str, about: str, faults: dict[str, Any], reason: str, **more: Any) -> Case:
    return one(
        f"session/approval-{name}",
        about,
        faults,
        {"apr.bound": reason},
        base=_BASE,
        script=approvals,
        trust=ANY_PROFILE,
        **more,
    )


def _named(*steps: int) -> Any:
    """The intent names these of its approvals: 0 the first, 1 the second."""

    def fault(members: dict[str, Any]) -> dict[str, Any]:
        return members | {"par": [members["par"][step] for step in steps]}

    return fault


def _again(story: Story) -> None:
    """A second request by the same approvals."""
    session = story.sessions["session"]
    apr = statement(story, "again", "bob")
    intent(story, session, "again", apr, *(r for r in session.gateway_records if "approval" in r.step))


def _late(story: Story) -> None:
    """A request, and then the approval that it names."""
    session = story.sessions["session"]
    apr = statement(story, "late", "bob", act=_ELSE)
    intent(story, session, "late-intent", apr)
    approval_record(story, session, "late-approval", apr)


def _despite_denial(story: Story) -> None:
    """A call that the gateway makes although one approver has denied it: two others agree."""
    session = story.sessions["session"]
    kept = [
        approval_record(story, session, f"{name}-all-the-same", statement(story, name, name, act=ANOTHER))
        for name in ("ann", "bob")
    ]
    story.gateway_says(
        "despite-denial",
        "tool",
        {
            "act": {"typ": "tool"},
            "pol": story.policy(session),
            "ph": "intent",
            "apr": kept[1].payload["apr"],
            "par": ids(*kept),
        },
        {"act": {"name": "call"}, "pol": {"rules": ["tools/0"]}},
        of=session,
    )


def _outcome_rests_on_it() -> dict[str, Any]:
    """The intent names no approval, and the outcome does."""
    kept: dict[str, Any] = {}

    def first(members: dict[str, Any]) -> dict[str, Any]:
        kept.update({name: members.pop(name) for name in ("apr", "par")})
        return members

    return {
        "members:approved-intent": first,
        "members:approved-outcome": lambda members: {**members, "apr": kept["apr"]},
    }


VALID = (
    _valid(
        "approvals",
        "Two of three approvers agree to a request, which is sent; one denies another.",
        None,
    ),
    _valid(
        "approval-from-a-page",
        "One of the two used a page that the operator serves, and the record says so.",
        {"statement:second": put(via="console")},
        "apr.bound",
        stored_from=_BASE,
    ),
    _valid(
        "approval-within-tolerance",
        "The approvers' clocks are a minute off; the records follow within that minute.",
        {"statement:first": put(iat=START + 60), "statement:second": put(exp=START - 50, iat=START - 600)},
        stored_from=_BASE,
    ),
)

CASES = (
    _refused(
        "signed-by-another-key",
        "A statement that shows an approver's key, and is signed by another.",
        {"pen:first": lambda _: "a stranger"},
        "approval.statement",
    ),
    _refused(
        "of-another-action",
        "The record names another action than the approver signed.",
        {"members:first-approval": put(apr__dig=_ELSE)},
        "approval.other_action",
    ),
    _refused(
        "by-a-stranger",
        "Signed by somebody whom the profile does not name.",
        {"approver:first": lambda _: "a stranger"},
        "approval.not_an_approver",
    ),
    _refused(
        "by-nobody",
        "The profile names no approvers.",
        {"normal form": put(approval={"everything": False, "methods": ["POST"]})},
        "approval.not_an_approver",
    ),
    _refused(
        "too-few",
        "The intent names one approval, and two must agree.",
        {"members:approved-intent": _named(1)},
        "apr.quorum",
    ),
    _refused(
        "of-others",
        "The intent rests on a statement whose record it does not name.",
        {"members:approved-intent": _named(0)},
        "apr.quorum",
    ),
    _refused(
        "of-others-where-one-must",
        "One must agree. The intent names the record of one who did, and rests on the statement of another.",
        {"normal form": put(approval__quorum=1), "members:approved-intent": _named(0)},
        "apr.quorum",
    ),
    _refused(
        "lapsed-before-use",
        "One of the two approvals was over for more than a minute when the request began.",
        {"statement:first": put(exp=START - 55, iat=START - 600)},
        "apr.quorum",
    ),
    _refused(
        "in-a-denial",
        "A record that denies the request rests on the approval.",
        {"members:approved-intent": put(pol__dec="deny")},
        "apr.unbound",
    ),
    _refused(
        "twice-by-one",
        "One approver twice, where two must agree.",
        {"approver:first": lambda _: "bob", "statement:first": put(iat=START + 1)},
        "apr.quorum",
    ),
    _refused(
        "quorum-of-another-action",
        "One of the two agreed to another action.",
        {"statement:first": put(act=_ELSE)},
        "apr.quorum",
    ),
    _refused(
        "quorum-with-a-denial",
        "One of the two denied it.",
        {
            "statement:first": put(dec="deny"),
            "members:first-approval": put(act__end="refused", pol__dec="deny"),
        },
        "apr.quorum",
    ),
    _refused(
        "over",
        "Recorded more than a minute after the statement's time.",
        {"statement:second": put(exp=START - 70, iat=START - 600)},
        "approval.stale",
    ),
    _refused(
        "ahead",
        "A statement of a time that was not yet.",
        {"statement:first": put(iat=START + 120)},
        "approval.stale",
    ),
    _refused(
        "denied-and-done",
        "Done by a statement that denies it.",
        {
            "statement:second": put(dec="deny"),
            "members:second-approval": put(act__end="refused", pol__dec="deny"),
        },
        "apr.unbound",
    ),
    _refused(
        "recorded-as-denial",
        "An approval that is recorded as a denial.",
        {"members:first-approval": put(act__end="refused", pol__dec="deny")},
        "apr.unbound",
    ),
    _refused(
        "end-moved",
        "The record gives the statement more time than the approver did.",
        {"members:second-approval": put(apr__exp=START + 900)},
        "apr.unbound",
    ),
    _refused(
        "page-hidden",
        "The record hides that the approver used a page that the operator serves.",
        {"statement:first": put(via="console"), "members:first-approval": put(apr__via="cli")},
        "apr.unbound",
    ),
    _refused(
        "after-the-fact",
        "The outcome names the approval, and the intent before it does not.",
        _outcome_rests_on_it(),
        "apr.unbound",
    ),
    _refused(
        "used-twice", "Two requests by one approval.", {"before:approvals-done": _again}, "apr.repeated"
    ),
    _refused(
        "after-its-use",
        "A request that names an approval which the gateway recorded once it knew of the request.",
        {
            "before:approvals-done": _late,
            "members:late-intent": put(par=[identifier("gateway late-approval jti")]),
        },
        "apr.order",
        **_UNLOGGED,
    ),
    _refused(
        "after-a-denial",
        "A call that the gateway makes after one approver has denied it, and two have agreed.",
        {"before:approvals-done": _despite_denial},
        "apr.denied",
        **_UNLOGGED,
    ),
    one(
        "session/approval-unreadable-profile",
        "The profile says who may approve in a form that nobody knows.",
        {"normal form": put(approval__quorum="2")},
        {},
        base=_BASE,
        script=approvals,
        trust=ANY_PROFILE,
        not_made=("apr.bound",),
    ),
)
