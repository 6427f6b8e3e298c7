"""The stable codes of warnings, with their text and advice. FORMAT.md lists them word by word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ADVICE", "WARNINGS"]

WARNINGS: Final[Mapping[str, str]] = {
    "secret_no_sink": "the profile has no https host at which this secret may be used",
    "secret_unreachable_host": "no rule of the profile reaches a host to which this secret is bound",
    "secret_storable_sink": "what a host stores, an agent can read back: prefer the Authorization header",
    "secret_token_endpoint": "the broker proves itself there with this secret, and no egress rule is asked",
    "secret_signs": "with requests that this key signs the agent may do whatever the key's own policy allows there",
    "secret_mints": "this service gives out credentials: the agent would hold those itself, beyond any placeholder",
    "secret_shared": "another profile sends a secret of this name to other hosts",
    "host_unrestricted": "the agent may do anything that this host's API allows; methods and paths narrow it",
    "host_shared": "everybody can store data at this host: to reach it is to reach anyone",
    "host_wildcard": "every name under a wildcard can carry data out",
    "upstream_resolves": (
        "a model's server that fetches from there looks up the name and follows redirects itself: "
        "'address' does not bind it"
    ),
    "tls_passthrough": "requests inside the connection are not seen, and its host is not checked",
    "scheme_http": "plain HTTP can be read and changed on its way",
    "rw_hooks": "what the agent writes there, somebody else's tools may run",
    "rw_system_path": "programs of the image live there",
    "tool_unpinned": "the server may change what this tool says and does, and the agent would follow it",
    "provider_tool": "the provider may fetch anything for it, and no rule for hosts is asked",
    "port_system": "ports below 1024 belong to services of the system, not to an agent's own servers",
    "port_range_wide": "whatever listens in so wide a range can be reached, also what was not meant to be",
    "start_unlimited": "nothing bounds how many sessions of this agent it starts",
    "start_wider": "that agent may do more than the one that starts it, so no such session ever begins",
    "argument_pattern": "a pattern often fits more than was meant",
    "approval_missing": "by its name this tool changes or sends something, and nobody is asked first",
    "approval_no_approver": "nobody is named who may approve: what needs approval is denied",
    "approval_unshowable": "no approver can be shown all of it, so it is denied although approvers are named",
    "approvers_unused": "approvers are named, and nothing needs approval",
    "approvers_alike": "an issuer may take these for one, and then one person counts as that many",
    "denial_without_allow": "no rule allows what this rule denies",
    "limit_without_effect": "another rule lets the same through without this limit",
    "outsiders_can_steer": "whoever writes there can tell the agent to send out what it may read",
    "profile_twin": "nothing distinguishes this profile from another: a receipt of one fits the other",
}
"""Every warning code and what it says."""

ADVICE: Final[Mapping[str, str]] = {
    "secret_no_sink": "Allow the https host that needs the secret, or take the secret out.",
    "secret_unreachable_host": "Allow that host and port, or take it out of the secret's 'hosts'.",
    "secret_storable_sink": "Leave 'inject' out if the host takes an Authorization header.",
    "secret_token_endpoint": "Check that it is the issuer's own address: whoever answers there gets what it is sent.",
    "secret_signs": "Give the key its least policy at AWS; name the rule's 'methods' and 'paths'.",
    "secret_mints": "Deny the requests that ask for credentials, or use a key whose policy does.",
    "secret_shared": "Give two secrets two names, or bind both to the same hosts with 'hosts'.",
    "host_unrestricted": "Name the 'methods' and 'paths' that the agent needs.",
    "host_shared": "Name the bucket's or account's own host and 'paths', and only GET where nothing is stored.",
    "host_wildcard": "Name each host in full.",
    "upstream_resolves": "Give that server no route to the private network, or allow the agent no GET there.",
    "tls_passthrough": "Leave 'tls' out, unless the client pins its certificate.",
    "scheme_http": "Use https; if the host has none, allow GET of named paths only, and trust nothing it says.",
    "rw_hooks": "Add {path: ..., mode: none} for each, or have a person read the changes before anything runs.",
    "rw_system_path": "Give the agent a folder of its own, such as /workspace.",
    "tool_unpinned": "Pin its definition with 'schema'; 'affiant gateway tools' prints the digest.",
    "provider_tool": "Take it out, or give this agent no secrets and no private files.",
    "port_system": "Let the server listen above 1023, and list that port.",
    "port_range_wide": "List the ports that the agent's servers listen on.",
    "start_unlimited": "Bound it: {agent: ..., at_most: 3}.",
    "start_wider": "Give that agent no more than the one that starts it, also in 'limits', 'resources' and 'models'.",
    "argument_pattern": "Prefer one_of, argv, under or host; if it must be, add tests that it denies.",
    "approval_missing": "Demand approval, or take out the tool, or the secrets and hosts.",
    "approval_no_approver": "Name 'approvers', or count on a denial.",
    "approval_unshowable": "Give the tool 'args' without 'write'; inspect the host's TLS; or count on a denial.",
    "approvers_unused": "Say what needs approval: 'everything', 'tools', 'egress', or 'approval' at a tool.",
    "approvers_alike": "Name each person once, as their certificate spells them.",
    "denial_without_allow": "Check its spelling; if it stands for the future, leave it.",
    "limit_without_effect": "Give the other rule the limit too, or take one of the two out.",
    "outsiders_can_steer": "Split the agent: one that reads outside, and another that holds the files and secrets.",
    "profile_twin": "Use one profile for both agents, or give each only what it needs.",
}
"""Every warning code and what to do about it."""
