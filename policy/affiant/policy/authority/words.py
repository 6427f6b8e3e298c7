"""Describes the entries of an authority to a reviewer, in the same words for every report.

The JSON document leaves nothing out; the words shorten long lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

from affiant.policy.authority.authority import Authority, ModelAuthority, StartAuthority
from affiant.policy.canonical.targets import METHODS
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.limit_words import most_words, profile_limits, size_words
from affiant.policy.diff.reachable import HostNames, Labels, Reach
from affiant.policy.diff.request_groups import Requests
from affiant.policy.model.limits import Bound
from affiant.policy.model.profile import Injection, TLSMode
from affiant.policy.model.profile_limits import rule_limits
from affiant.policy.model.share import NO_SHARE, share_words
from affiant.policy.rendering.terminal import some

__all__ = [
    "ANYTHING",
    "APPROVERS",
    "BOUNDS",
    "LIMITS",
    "NOBODY_APPROVES",
    "OWNER_REACHES",
    "PROVIDER_FETCHES",
    "QUEUE",
    "SIGNING_WORDS",
    "approved",
    "endpoint_words",
    "model_words",
    "names_words",
    "path_words",
    "place_words",
    "requests_words",
    "rule_limit_words",
    "settings",
    "settings_lines",
    "start_words",
    "unrestricted_words",
]

ANYTHING: Final = "may do anything that this host's API allows"
NOBODY_APPROVES: Final = (
    "after approval: a person must approve it first; where no approver is named, it is denied"
)
PROVIDER_FETCHES: Final = "the provider may fetch anything for it"
OWNER_REACHES: Final = "the session's owner may reach the agent's server there"
APPROVERS: Final = "approver"
LIMITS: Final = "limits of a session"
QUEUE: Final = "in the queue for an upstream"
BOUNDS: Final = ("cpus", "memory", "disk", "pids")


def approved(effect: Effect) -> str:
    """What is said after an entry that a person must approve."""
    return ", after approval" if effect is Effect.ASK else ""


def _approval_words(authority: Authority) -> Iterator[str]:
    """What this agent may do only after approval as a whole, and who approves it; nothing where nothing needs it."""
    approval = authority.profile.policy.approval
    if approval.everything:
        yield "needed for every tool and request"
    elif approval.methods:
        yield f"needed for requests with {', '.join(approval.methods)}"
    if approval.approvers:
        many = "1 approver" if len(approval.approvers) == 1 else f"{len(approval.approvers)} approvers"
        yield f"by {approval.quorum} of {many}; a request waits {approval.ttl} s, and its approval holds as long"
    elif authority.asks:
        yield "no approver is named, so it is denied"


def settings(authority: Authority, *, shares: bool = False) -> Mapping[str, Mapping[str, str]]:
    """What a profile says beside its rules, by titles and names; a name is empty where the title says it all.

    Args:
        shares: whether to say the share of an upstream also where it is the default: another profile has another.
    """
    share = authority.compiled.share
    found = profile_limits(authority.compiled.limits)
    return {
        "approval": {"": "; ".join(_approval_words(authority)) or "not needed"},
        APPROVERS: {str(each): "may approve" for each in authority.profile.policy.approval.approvers},
        LIMITS: {name: most_words(name, bounds) for name, bounds in found if bounds},
        QUEUE: {} if share == NO_SHARE and not shares else {"": share_words(share)},
        "bounds": {name: _bound_words(authority, name) for name in BOUNDS},
    }


def settings_lines(authority: Authority) -> Iterator[str]:
    """Each title with all that is under it; a line for each approver, so that none is cut off."""
    for title, entries in settings(authority).items():
        if title == APPROVERS:
            yield from (f"{title}: {name}" for name in entries)
            continue
        said = "; ".join(f"{name} {words}".strip() for name, words in entries.items())
        if said or title != QUEUE:
            yield f"{title}: {said or 'none'}"


def path_words(path: str) -> str:
    """``path``, in quotes if it holds a space and could be read as more than a path; no path holds a quote."""
    return f"'{path}'" if " " in path else path


def names_words(names: HostNames) -> str:
    """Which hosts a pattern means, where that is not the pattern alone."""
    others = f"other than {some(names.other_than)}" if names.other_than else ""
    labels = "two labels or more before it" if names.labels is Labels.TWO_OR_MORE else ""
    return "; ".join(filter(None, (labels, others)))


def endpoint_words(reach: Reach) -> str:
    """TLS and addresses of an endpoint."""
    match reach.tls:
        case None:
            seen = "plain HTTP, which can be read and changed on its way"
        case TLSMode.INSPECT:
            seen = "TLS inspected"
        case TLSMode.PASSTHROUGH:
            seen = "TLS passed through: requests are not seen, the host is not checked"
        case _:
            assert_never(reach.tls)
    return f"{seen}; at {some(reach.addresses) if reach.addresses else 'any public address'}"


def requests_words(group: Requests) -> str:
    """Methods and paths of a group of requests."""
    paths = "any path" if group.paths is None else some(group.paths)
    but = f" but {some([each.path for each in group.exceptions])}" if group.exceptions else ""
    return f"{_methods(group.methods)} {paths}{but}{approved(group.effect)}"


def _methods(methods: tuple[str, ...] | None) -> str:
    if methods is None:
        return "any method,"
    left = sorted(METHODS.difference(methods))
    if len(left) < len(methods):
        return f"any method but {', '.join(left)},"
    return ", ".join(methods)


def unrestricted_words(reach: Reach) -> str:
    """What a host means whose methods and paths no rule narrows; empty for others."""
    if not reach.unrestricted:
        return ""
    return ANYTHING + (", except what a rule denies" if reach.denials else "")


SIGNING_WORDS: Final = "with which the agent may do whatever the key's own policy allows there"
"""What a key that signs requests lets an agent do (AWS Signature Version 4)."""


_PLAIN_FORMATS: Final = frozenset({"{}", "Bearer {}", "Basic {}", "token {}", "Token {}"})


def place_words(inject: Injection, *, formats: bool = True) -> str:
    """The one place of a request in which a secret's placeholder stands for it, or for the token in its stead.

    Args:
        formats: whether to show a format that is no well-known word: a value may have been pasted there.
    """
    if inject.exchange is not None:
        return f"header {inject.header}, as Bearer, where a token stands for it"
    if inject.query is not None:
        return f"parameter {inject.query} of the query, as its whole value"
    if inject.json is not None:
        return f"the body's JSON at {inject.json}, as the whole text"
    if inject.form is not None:
        return f"field {inject.form} of the body's form, as its whole value"
    if inject.sigv4 is not None:
        scope = inject.sigv4
        return f"signatures of requests to {scope.service} in {scope.region}, {SIGNING_WORDS}"
    if inject.user is not None:
        return f"header authorization, as the Basic password of {inject.user}"
    if inject.format is None:
        return f"header {inject.header}, as the whole credential (Bearer, Basic or token)"
    shown = formats or inject.format in _PLAIN_FORMATS
    return f"header {inject.header}, {f'as {inject.format!r}' if shown else 'within a text of its own'}"


def model_words(model: ModelAuthority) -> str:
    """On what conditions a model may be called; empty where there are none."""
    only = ", at an attested upstream only" if model.attested else ""
    most = "" if model.max_tokens is None else f", {most_words('max_tokens', (Bound(model.max_tokens),))}"
    return only + most


def start_words(start: StartAuthority) -> str:
    """How many sessions of an agent may be started; empty where any number may."""
    return "" if start.at_most is None else f", {most_words('at_most', (Bound(start.at_most),))}"


def rule_limit_words(authority: Authority, rules: Sequence[str]) -> str:
    """The limits of rules that let the same through: they hold only where none of the rules is without."""
    found: dict[str, list[str]] = {rule: [] for rule in rules}
    for rule, name, bounds in rule_limits(authority.compiled.policy):
        if rule in found:
            found[rule].append(most_words(name, bounds))
    if not found or not all(found.values()):
        return ""
    return ", " + "; or ".join(" and ".join(words) for words in found.values())


def _bound_words(authority: Authority, name: str) -> str:
    """One bound of the sandbox: a count, or a size."""
    value: int | None = getattr(authority.compiled.resources, name)
    if value is None:
        return "default"
    return size_words(value) if name in ("memory", "disk") else str(value)
