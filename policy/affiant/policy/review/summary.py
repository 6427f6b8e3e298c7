"""Each agent in a sentence or two: what it may call, use and reach, and with which secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.words import NOBODY_APPROVES
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import PathMode
from affiant.policy.review.elements import NOTHING, Html, element, heading, joined, listed, name, names, text
from affiant.policy.review.review import Review

__all__ = ["ANYTHING", "host_name", "said_of", "summary"]

ANYTHING: Final = "may do anything that host's API allows"
_SHOWN: Final = 4
"""Names of each kind in a sentence."""


def summary(review: Review) -> Html:
    """One row for each agent, with the digest of its profile."""
    head = element("tr", *(element("th", text(each), scope="col") for each in ("Agent", "What it may do")))
    rows = [_row(review, number, each) for number, each in enumerate(review.new.agents, 1)]
    table = element("table", element("thead", head), element("tbody", *rows), cls="short")
    nobody = element("p", text("The file has no profiles: nobody may do anything."))
    notes = [element("p", text(f"{NOBODY_APPROVES}.".capitalize()), cls="dim")]
    return element(
        "section",
        heading(2, text("In short"), anchor="short"),
        *([table] if rows else [nobody]),
        *(notes if any(each.asks for each in review.new.agents) else []),
        aria_labelledby="short",
    )


def _row(review: Review, number: int, authority: Authority) -> Html:
    who = element("a", name(authority.agent), href=f"#a{number}")
    place = element("span", review.new.place(str(authority.profile.mark)), cls="dim")
    digest = element("p", text("Profile "), element("code", text(authority.profile.digest)), cls="digest")
    said = element("p", joined(said_of(authority), " "))
    return element("tr", element("th", who, place, scope="row"), element("td", said, digest))


def said_of(authority: Authority) -> Iterator[Html]:
    """Sentences about one agent."""
    yield Html(f"May {listed([_tools(authority), *_files(authority), _models(authority)])}.")
    yield _reaches(authority)
    if authority.profile.approval.everything:
        yield text("Whatever it calls or sends needs approval first.")
    elif authority.asks:
        yield text("Some of that needs approval first.")


def _tools(authority: Authority) -> Html:
    found = list(dict.fromkeys(tool.name for tool in authority.tools))
    if not found:
        return text("call no tool")
    return Html(text("call ") + _some(found))


def _files(authority: Authority) -> Iterator[Html]:
    if not authority.files:
        yield text("use no files of its own")
    for mode, verb in ((PathMode.READ, "read "), (PathMode.READ_WRITE, "read and write ")):
        found = [entry.path for entry in authority.files if entry.mode is mode]
        if found:
            yield Html(text(verb) + _some(found))


def _models(authority: Authority) -> Html:
    if authority.models is None:
        return text("use any model that the gateway serves")
    if not authority.models:
        return text("use no model")
    many = "s" if len(authority.models) > 1 else ""
    return Html(text(f"use the model{many} ") + _some(model.name for model in authority.models))


def _reaches(authority: Authority) -> Html:
    if not authority.hosts:
        vain = Html(text("; ") + _vain(authority)) if authority.secrets else NOTHING
        return Html(text("Reaches no host") + vain + text("."))
    free = [reach for reach in authority.hosts if reach.unrestricted]
    narrow = [reach for reach in authority.hosts if not reach.unrestricted]
    parts = []
    if free:
        parts.append(Html(text("At ") + _some(map(host_name, free)) + text(f" it {ANYTHING}{_but(free)}")))
    if narrow:
        parts.append(
            Html(
                text("at " if parts else "At ")
                + _some(map(host_name, narrow))
                + text(" it may send what methods or paths name")
            )
        )
    return Html(joined([*parts, *_carries(authority)], "; ") + ".")


def _but(free: list[Reach]) -> str:
    return ", except what a rule denies" if all(reach.denials for reach in free) else ""


def _carries(authority: Authority) -> Iterator[Html]:
    used = [secret for secret in authority.secrets if secret.sinks]
    if used:
        hosts = dict.fromkeys(sink.host for secret in used for sink in secret.sinks)
        yield Html(
            text("it can use ") + _some(secret.grant.name for secret in used) + text(" at ") + _some(hosts)
        )
    if len(used) < len(authority.secrets):
        yield _vain(authority)


def _vain(authority: Authority) -> Html:
    found = [secret.grant.name for secret in authority.secrets if not secret.sinks]
    return Html(_some(found) + text(" can be used nowhere"))


def _some(found: Iterable[str]) -> Html:
    return names(found, most=_SHOWN)


def host_name(reach: Reach) -> str:
    """An endpoint without what goes without saying: https, and port 443."""
    if reach.scheme.value == "https":
        return reach.names.pattern + ("" if reach.port == 443 else f":{reach.port}")
    return reach.text
