"""Writes a profile as settings of Anthropic's sandbox-runtime (``srt``), as of version 0.0.83.

What srt judges: for reading, everything but ``denyRead``, in which ``allowRead`` opens parts again; for writing,
``allowWrite`` without ``denyWrite``; for the network, host and port, denials first, ``*.x`` at any depth. It answers
from its own lists alone with ``strictAllowlist``. A key that it does not know (``$comment``) it drops.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from affiant.policy.canonical.addresses import forbidden_ranges
from affiant.policy.canonical.hosts import suffix_of
from affiant.policy.canonical.paths import covers
from affiant.policy.exports.hosts import numbered_allows, numbered_denials, unseen
from affiant.policy.exports.model import PROFILE, Document, Export, Ledger, Target, header_lines
from affiant.policy.exports.unjudged import note_unjudged, omit_secrets
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import EgressDenial, EgressRule, PathMode

__all__ = ["SRT", "export_srt"]

_NAME: Final = "srt"
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ssl/certs")
"""What an affiant sandbox shows of the machine to processes, so that programs run at all."""


def export_srt(profile: Profile, wider: frozenset[str] = frozenset()) -> Export:
    """One file of settings (``.srt.json``), for ``srt --settings``."""
    ledger = Ledger(wider)
    settings = {
        "$comment": " ".join(header_lines(profile, _NAME)),
        "filesystem": _filesystem(profile, ledger),
        "network": _network(profile, ledger),
    }
    note_unjudged(profile, ledger, ["tools", "provider_tools", "models", "ports", "may_start", "resources"])
    omit_secrets(profile, ledger, "no secret is handed over: what the sandbox holds, the agent can read")
    return ledger.export(profile, _NAME, [Document(".srt.json", json.dumps(settings, indent=2) + "\n")])


SRT: Final = Target(
    _NAME,
    {
        "approval": "what a person must approve first happens unasked",
        "protocol": "any protocol passes at an allowed host and port, plain http too",
        "requests": "methods and paths are not judged",
        "wildcard": "'*.' covers any number of labels",
    },
    export_srt,
)


def _filesystem(profile: Profile, ledger: Ledger) -> Mapping[str, object]:
    """Effective modes; a carve-out is denied by name, below whatever opens a part of the denied root."""
    mounts = profile.compiled.mounts()
    carved = [grant.path for grant in mounts if grant.mode is PathMode.NONE]
    written = [grant.path for grant in mounts if grant.mode is PathMode.READ_WRITE]
    readable = [grant.path for grant in mounts if grant.mode is not PathMode.NONE]
    for position, rule in enumerate(profile.policy.filesystem):
        if rule.mode is PathMode.READ_WRITE:
            ledger.narrowed(
                f"filesystem/{position}",
                "protected_files",
                "srt never lets its protected names be written there (.git/hooks, .bashrc, .vscode ...)",
            )
    for kind, text in (
        (
            "image",
            "the machine's own system folders stand in for the measured image, and /proc and /sys are readable",
        ),
        (
            "scratch",
            "folders that are hidden, carve-outs among them, are empty and writable inside, and thrown away",
        ),
    ):
        ledger.unjudged(PROFILE, kind, text)
    # On Linux srt mounts what may be read over what may be written: a tree that is to be written below one that is to
    # be read is hidden by itself too, and then mounted back last.
    below = [path for path in written if any(path != tree and covers(tree, path) for tree in readable)]
    return {
        "denyRead": ["/", *sorted([*carved, *below])],
        "allowRead": [
            *(path for path in _SYSTEM if not any(covers(tree, path) for tree in carved)),
            *readable,
        ],
        "allowWrite": written,
        "denyWrite": carved,
    }


def _network(profile: Profile, ledger: Ledger) -> Mapping[str, object]:
    allowed = {
        _domain(rule)
        for rule_id, rule in numbered_allows(profile.policy.egress)
        if _is_said(rule_id, rule, profile, ledger)
    }
    denied = {
        _denial(rule_id, rule, ledger)
        for rule_id, rule in numbered_denials(profile.policy.egress)
        if "." in rule.host  # srt refuses a file with a host of one label; none is ever allowed there
    }
    return {
        "allowedDomains": sorted(allowed),
        "deniedDomains": sorted(denied),
        "strictAllowlist": True,
        "deniedResolvedAddresses": list(map(str, forbidden_ranges())),
        "allowUnixSockets": [],
        "allowAllUnixSockets": False,
        "allowLocalBinding": False,
    }


def _is_said(rule_id: str, rule: EgressRule, profile: Profile, ledger: Ledger) -> bool:
    if rule.address:
        ledger.omitted(rule_id, "address", "srt cannot bind one host to its own addresses")
        return False
    more = dict(unseen(rule, profile.policy.approval))
    if rule.host.startswith("*."):
        more["wildcard"] = "'*.' stands for any number of labels there, here for exactly one"
    return ledger.may_say(rule_id, more)


def _domain(rule: EgressRule) -> str:
    return f"{_pattern(rule.host)}:{rule.port}"


def _pattern(host: str) -> str:
    return f"*.{suffix_of(host)}" if host.startswith("*") else host


def _denial(rule_id: str, rule: EgressDenial, ledger: Ledger) -> str:
    """Of a whole host: a part of one cannot be denied."""
    if rule.methods is not None or rule.paths is not None:
        ledger.narrowed(rule_id, "requests", "a part of a host cannot be denied: all of it is")
    if rule.host.startswith("*."):
        ledger.narrowed(rule_id, "wildcard", "names of more labels are denied too")
    port = "" if rule.port is None else f":{rule.port}"
    return f"{_pattern(rule.host)}{port}"
