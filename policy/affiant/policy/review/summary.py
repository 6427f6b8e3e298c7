"""Describes each agent in a sentence or two: what it may call, use and reach, and with which secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.words import NOBODY_APPROVES
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import PathMode
from affiant.policy.review.phrases import Phrase, joined, listed, names, phrase
from affiant.policy.review.review import Review

__all__ = ["ANYTHING", "host_name", "said_of", "summary"]

ANYTHING: Final = "may do anything that host's API allows"
_SHOWN: Final = 4
"""Names of each kind in a sentence."""


def summary(review: Review) -> Mapping[str, object]:
    """One row for each agent, with the digest of its profile."""
    return {
        "agents": [
            {
                "agent": each.agent,
                "place": review.new.place(str(each.profile.mark)),
                "says": joined(said_of(each), " "),
                "digest": each.profile.digest,
            }
            for each in review.new.agents
        ],
        "note": f"{NOBODY_APPROVES}.".capitalize() if any(each.asks for each in review.new.agents) else "",
    }


def said_of(authority: Authority) -> Iterator[Phrase]:
    """Sentences about one agent."""
    yield phrase("May ", *listed([_tools(authority), *_files(authority), _models(authority)]), ".")
    yield _reaches(authority)
    if authority.profile.approval.everything:
        yield phrase("Whatever it calls or sends needs approval first.")
    elif authority.asks:
        yield phrase("Some of that needs approval first.")


def _tools(authority: Authority) -> Phrase:
    found = list(dict.fromkeys(tool.name for tool in authority.tools))
    return phrase("call ", *_some(found)) if found else phrase("call no tool")


def _files(authority: Authority) -> Iterator[Phrase]:
    if not authority.files:
        yield phrase("use no files of its own")
    for mode, verb in ((PathMode.READ, "read "), (PathMode.READ_WRITE, "read and write ")):
        found = [entry.path for entry in authority.files if entry.mode is mode]
        if found:
            yield phrase(verb, *_some(found))


def _models(authority: Authority) -> Phrase:
    if authority.models is None:
        return phrase("use any model that the gateway serves")
    if not authority.models:
        return phrase("use no model")
    many = "s" if len(authority.models) > 1 else ""
    return phrase(f"use the model{many} ", *_some(model.name for model in authority.models))


def _reaches(authority: Authority) -> Phrase:
    if not authority.hosts:
        unused = ("; ", *_unused(authority)) if authority.secrets else ()
        return phrase("Reaches no host", *unused, ".")
    free = [reach for reach in authority.hosts if reach.unrestricted]
    restricted = [reach for reach in authority.hosts if not reach.unrestricted]
    parts = []
    if free:
        but = ", except what a rule denies" if all(reach.denials for reach in free) else ""
        parts.append(phrase("At ", *_some(map(host_name, free)), f" it {ANYTHING}{but}"))
    if restricted:
        start = "at " if parts else "At "
        hosts = _some(map(host_name, restricted))
        parts.append(phrase(start, *hosts, " it may send what methods or paths name"))
    return (*joined([*parts, *_carries(authority)], "; "), ".")


def _carries(authority: Authority) -> Iterator[Phrase]:
    used = [secret for secret in authority.secrets if secret.sinks]
    if used:
        hosts = dict.fromkeys(sink.host for secret in used for sink in secret.sinks)
        secrets = _some(secret.grant.name for secret in used)
        yield phrase("it can use ", *secrets, " at ", *_some(hosts))
    if len(used) < len(authority.secrets):
        yield _unused(authority)


def _unused(authority: Authority) -> Phrase:
    found = [secret.grant.name for secret in authority.secrets if not secret.sinks]
    return (*_some(found), " can be used nowhere")


def _some(found: Iterable[str]) -> Phrase:
    return names(found, most=_SHOWN)


def host_name(reach: Reach) -> str:
    """An endpoint without what goes without saying: https, and port 443."""
    if reach.scheme.value == "https":
        return reach.names.pattern + ("" if reach.port == 443 else f":{reach.port}")
    return reach.text
