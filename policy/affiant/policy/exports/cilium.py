"""Writes a profile as a CiliumNetworkPolicy (``cilium.io/v2``), as of Cilium 1.20.

It selects pods with the label ``affiant.dev/agent`` and denies them whatever is not said. Cilium knows names from the
answers of the cluster's DNS, so each is also allowed to be asked there. Requests are judged for plain http alone:
inside TLS nothing is seen. A denial of a name cannot be said, so an allow that a denial cuts into is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from affiant.policy.canonical.addresses import forbidden_ranges
from affiant.policy.canonical.hosts import is_wildcard
from affiant.policy.exports.cilium_http import http_rules
from affiant.policy.exports.hosts import needs_approval, numbered_allows, taken, unseen
from affiant.policy.exports.model import PROFILE, Document, Export, Ledger, Target, header_lines
from affiant.policy.exports.unjudged import note_unjudged, omit_secrets
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import EgressRule, Scheme

__all__ = ["CILIUM", "export_cilium"]

_NAME: Final = "cilium"
_LABEL: Final = "affiant.dev/agent"
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z")
_DNS: Final = {"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}

_JSON = dict[str, Any]


def export_cilium(profile: Profile, wider: frozenset[str] = frozenset()) -> Export:
    """One policy (``.cilium.yaml``), for ``kubectl apply --namespace``."""
    ledger = Ledger(wider)
    said = [
        rule
        for rule_id, rule in numbered_allows(profile.policy.egress)
        if _is_said(rule_id, rule, profile, ledger)
    ]
    note_unjudged(
        profile,
        ledger,
        ["tools", "provider_tools", "models", "ports", "may_start", "filesystem", "resources"],
    )
    omit_secrets(profile, ledger, "no secret is handed over: what a pod holds, the agent can read")
    ledger.unjudged(
        PROFILE, "selector", f"only pods with the label {_LABEL}: {_label_value(profile)} are bound by it"
    )
    document = {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": {"name": _object_name(profile)},
        "spec": {
            "description": f"affiant profile {profile.name}, {profile.digest}",
            "endpointSelector": {"matchLabels": {_LABEL: _label_value(profile)}},
            "enableDefaultDeny": {"ingress": True, "egress": True},
            "ingress": [{}],
            "egress": _egress(said),
            "egressDeny": [{"toCIDR": list(map(str, forbidden_ranges()))}],
        },
    }
    header = "".join(f"# {line}\n" for line in header_lines(profile, _NAME))
    text = yaml.safe_dump(document, sort_keys=False, width=1000, allow_unicode=False)
    return ledger.export(profile, _NAME, [Document(".cilium.yaml", header + text)])


CILIUM: Final = Target(
    _NAME,
    {
        "approval": "what a person must approve first happens unasked",
        "dns": "allowed names are looked up at the cluster's DNS: a wildcard's labels carry data out",
        "protocol": "any protocol passes at an allowed host and port, plain http too",
        "requests": "methods and paths inside TLS are not judged",
        "wildcard": "labels with underscores match too",
    },
    export_cilium,
)


def _is_said(rule_id: str, rule: EgressRule, profile: Profile, ledger: Ledger) -> bool:
    if rule.address:
        ledger.omitted(rule_id, "address", "a name and its addresses cannot be demanded together")
        return False
    whole, parts = taken(rule, profile.policy.egress)
    for denial in parts:
        ledger.omitted(rule_id, "denial", f"{denial} takes a part of it, which cannot be said")
    if whole or parts:
        return False  # where all of it is denied, the profile allows nothing of it either
    more = {"dns": "its name is looked up at the cluster's DNS, which affiant's sandbox has none of"}
    if rule.scheme is Scheme.HTTPS:
        more |= unseen(rule, profile.policy.approval)
    elif needs_approval(profile.policy.approval, rule):
        more["approval"] = "nobody can be asked first"
    if is_wildcard(rule.host):
        more["wildcard"] = "labels with underscores match too"
    said = ledger.may_say(rule_id, more)
    if said and rule.scheme is Scheme.HTTP and any(path.endswith("/**") for path in rule.paths or ("/**",)):
        ledger.narrowed(rule_id, "escapes", "below a subtree, targets with escapes (%C3) do not match")
    return said


# -- the document ------------------------------------------------------------------------------------------------------


def _egress(said: Sequence[EgressRule]) -> list[_JSON]:
    """An empty rule selects nothing: with default deny, all egress is denied."""
    names = sorted({rule.host for rule in said})
    if not names:
        return [{}]
    dns = {
        "toEndpoints": [{"matchLabels": _DNS}],
        "toPorts": [
            {
                "ports": [{"port": "53", "protocol": "ANY"}],
                "rules": {"dns": [_selector(name) for name in names]},
            }
        ],
    }
    return [dns, *map(_allowed, said)]


def _allowed(rule: EgressRule) -> _JSON:
    ports: _JSON = {"ports": [{"port": str(rule.port), "protocol": "TCP"}]}
    if rule.scheme is Scheme.HTTP:
        ports["rules"] = {"http": http_rules(rule)}
    return {"toFQDNs": [_selector(rule.host)], "toPorts": [ports]}


def _selector(host: str) -> Mapping[str, str]:
    """``*.`` is one label there as here, ``**.`` one or more (since Cilium 1.19)."""
    return {"matchPattern" if is_wildcard(host) else "matchName": host}


def _label_value(profile: Profile) -> str:
    """The agent's name; where a label cannot hold it, the beginning of the policy's digest."""
    return profile.name if _LABEL_VALUE.match(profile.name) else _short_digest(profile)


def _object_name(profile: Profile) -> str:
    """A DNS name (RFC 1123) that two agents of one file do not share."""
    plain = re.sub(r"[^a-z0-9]+", "-", profile.name.lower()).strip("-")
    return f"affiant-{plain}-{_short_digest(profile)}"


def _short_digest(profile: Profile) -> str:
    return profile.digest.partition(":")[2][:12]
