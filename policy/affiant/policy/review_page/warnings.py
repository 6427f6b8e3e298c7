"""Warnings in plain words: each kind once, with what to do about it, and below it the places where it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from affiant.policy.lint.codes import ADVICE, WARNINGS
from affiant.policy.lint.lint import Finding
from affiant.policy.review.elements import Html, element, heading, name, text
from affiant.policy.review.review import Review

__all__ = ["TITLES", "warned"]

TITLES: Final[Mapping[str, str]] = {
    "outsiders_can_steer": "Private data, strangers' words and a way out, together",
    "host_unrestricted": "A host without limits",
    "host_shared": "A host at which everybody has an account",
    "host_wildcard": "Hosts by wildcard",
    "tls_passthrough": "Connections that nobody looks into",
    "scheme_http": "Plain HTTP",
    "secret_storable_sink": "A secret where a host may store it",
    "secret_token_endpoint": "A secret that is exchanged for tokens",
    "secret_signs": "A key that signs requests",
    "secret_mints": "A key with which others can be had",
    "secret_shared": "One secret's name, different hosts",
    "rw_hooks": "Files that other people's tools run",
    "rw_system_path": "Programs of the image may be changed",
    "limit_without_effect": "A limit that another rule takes away",
    "approval_unshowable": "Approval that nobody can be shown",
    "approvers_alike": "Approvers who may be one person",
    "approvers_unused": "Approvers of nothing",
    "argument_pattern": "Text that only a pattern holds back",
    "tool_unpinned": "A tool that its server may change",
    "approval_missing": "Changes that nobody approves",
    "approval_no_approver": "Approval that nobody can give",
    "secret_unreachable_host": "A secret bound to a host that is not reached",
    "secret_no_sink": "A secret that can be used nowhere",
    "denial_without_allow": "A denial of what nothing allows",
    "profile_twin": "Two agents that receipts do not tell apart",
}
"""Every warning code as a heading, in the order in which a reviewer should read them."""

_SERIOUS: Final = frozenset({"outsiders_can_steer", "host_unrestricted", "host_shared", "tls_passthrough"})


def warned(review: Review) -> Html:
    """All of them."""
    kinds: dict[str, list[Finding]] = {}
    for found in review.findings:
        kinds.setdefault(found.code, []).append(found)
    limits = "lists of hosts and words are never complete: no warning does not mean no danger."
    lead = f"None. {limits.capitalize()}"
    if kinds:
        lead = f"By kind, the most serious first. None of them changes a decision, and {limits}"
    return element(
        "section",
        heading(2, text("Warnings"), anchor="warnings"),
        element("p", text(lead), cls="dim"),
        *(_kind(review, code, kinds[code]) for code in sorted(kinds, key=_rank)),
        aria_labelledby="warnings",
    )


def _rank(code: str) -> tuple[bool, int]:
    """What is serious comes first. A code without a title comes last, and is told like any other."""
    return code not in _SERIOUS, list(TITLES).index(code) if code in TITLES else len(TITLES)


def _kind(review: Review, code: str, found: Sequence[Finding]) -> Html:
    look = "bad" if code in _SERIOUS else "warn"
    tag = element("span", text("serious" if code in _SERIOUS else "warning"), cls=f"tag {look}")
    said = f"{WARNINGS[code][0].upper()}{WARNINGS[code][1:]}."
    head = element(
        "tr", *(element("th", text(each), scope="col") for each in ("Agent", "What it is about, and where"))
    )
    agents: dict[str, list[Finding]] = {}
    for each in found:
        agents.setdefault(each.agent, []).append(each)
    rows = [_row(review, agent, those) for agent, those in agents.items()]
    return element(
        "section",
        heading(
            3, tag, text(f" {TITLES.get(code, code)} "), element("span", text(str(len(found))), cls="count")
        ),
        element("p", text(said)),
        element("p", element("b", text("What to do: ")), text(ADVICE[code])),
        element("table", element("thead", head), element("tbody", *rows)),
        cls=f"kind {look}",
    )


def _row(review: Review, agent: str, found: Sequence[Finding]) -> Html:
    items = (
        element(
            "li", name(each.subject), text(" "), element("span", review.new.place(each.where), cls="where")
        )
        for each in found
    )
    return element(
        "tr", element("th", name(agent), scope="row"), element("td", element("ul", *items, cls="those"))
    )
