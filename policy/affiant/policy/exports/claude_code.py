"""Writes a profile as settings of Claude Code, as of version 2.1: permission rules in a mode without prompts.

Claude Code denies, then asks, then allows; ``dontAsk`` denies what no rule allows, and what a rule would ask. A tool is
denied by its bare name. ``Read`` and ``Edit`` rules speak for all built-in tools that read or edit files, in
gitignore's patterns, where ``//`` begins an absolute path. What a shell or a server's tool does inside, no rule sees.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from affiant.policy.canonical.hosts import is_wildcard
from affiant.policy.exports.claude_code_rules import (
    BUILT_IN,
    EDITS,
    OTHERS_ACT,
    READS,
    edit_rules,
    fetch_rule,
    is_server_tool,
    read_rules,
    rule_name,
)
from affiant.policy.exports.hosts import needs_approval, numbered_allows, numbered_denials, taken
from affiant.policy.exports.model import PROFILE, Document, Export, Ledger, Target, header_lines
from affiant.policy.exports.unjudged import note_unjudged, omit_secrets
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import EgressRule, PathMode, Scheme, TLSMode, ToolDenial, ToolRule

__all__ = ["CLAUDE_CODE", "export_claude_code"]

_NAME: Final = "claude-code"
_SCHEMA: Final = "https://json.schemastore.org/claude-code-settings.json"


def export_claude_code(profile: Profile, wider: frozenset[str] = frozenset()) -> Export:
    """One file of settings (``.claude-settings.json``), to be managed settings: others merge with it."""
    ledger = Ledger(wider)
    rules = _Rules(profile, ledger)
    rules.write_tools()
    rules.write_files()
    rules.write_fetches()
    note_unjudged(profile, ledger, ["provider_tools", "models", "ports", "may_start", "resources"])
    omit_secrets(
        profile, ledger, "no secret is handed over: what Claude Code's tools hold, the agent can read"
    )
    _note_limits(ledger)
    settings = {
        "$schema": _SCHEMA,
        "$comment": " ".join(header_lines(profile, _NAME)),
        "allowManagedPermissionRulesOnly": True,
        "permissions": {
            "allow": sorted(rules.allow),
            "ask": sorted(rules.ask),
            "deny": sorted(rules.deny),
            "defaultMode": "dontAsk",
            "disableBypassPermissionsMode": "disable",
            "disableAutoMode": "disable",
        },
    }
    text = json.dumps(settings, indent=2) + "\n"
    return ledger.export(profile, _NAME, [Document(".claude-settings.json", text)])


CLAUDE_CODE: Final = Target(
    _NAME,
    {
        "address": "a fetched name may resolve to a private address",
        "arguments": "a tool is allowed with any arguments",
        "port": "any port of an allowed host is fetched",
        "requests": "paths of an allowed host are not judged",
        "schema": "a tool may come with another definition than the pinned one",
        "subprocess": "what a shell or another agent does is not judged: files and hosts neither",
    },
    export_claude_code,
)


def _note_limits(ledger: Ledger) -> None:
    for kind, text in (
        (
            "working_directory",
            "files below the folder it starts in are read unasked: start it where the profile reads",
        ),
        (
            "other_tools",
            "built-in tools that the settings' schema of August 2026 does not list are not denied by name",
        ),
        ("scopes", "settings of users and projects merge with these unless they are managed settings"),
    ):
        ledger.unjudged(PROFILE, kind, text)


class _Rules:
    """The three lists while they are made."""

    def __init__(self, profile: Profile, ledger: Ledger) -> None:
        self._profile = profile
        self._ledger = ledger
        self._denied = {rule.name for rule in profile.policy.tools if isinstance(rule, ToolDenial)}
        self._allows: dict[str, list[tuple[str, ToolRule]]] = {}
        for position, rule in enumerate(profile.policy.tools):
            if isinstance(rule, ToolRule) and rule.name not in self._denied:
                self._allows.setdefault(rule_name(rule), []).append((f"tools/{position}", rule))
        self.allow: set[str] = set()
        self.ask: set[str] = set()
        self.deny: set[str] = set()

    def _asks(self, name: str) -> bool:
        rules = [rule for _, rule in self._allows.get(name, ())]
        return self._profile.policy.approval.everything or any(rule.approval for rule in rules)

    def _grant(self, rules: Iterable[str], *, ask: bool) -> None:
        (self.ask if ask else self.allow).update(rules)

    # -- tools ---------------------------------------------------------------------------------------------------------

    def write_tools(self) -> None:
        """A bare denial of every built-in tool that is not said, and the rules of those that are."""
        said = {name for name in self._allows if self._tool_is_said(name)}
        self.deny |= (BUILT_IN - said) | {name for name in self._denied if is_server_tool(name)}
        self._files = READS[0] in said, said.issuperset(EDITS)
        self._fetches = "WebFetch" in said
        for name in said:
            if name not in (*READS, *EDITS, "WebFetch"):
                self._grant([name], ask=self._asks(name))

    def _tool_is_said(self, name: str) -> bool:
        """Whether one of the rules for a tool can be written; the losses of the others are recorded."""
        said = [self._is_said(rule_id, rule) for rule_id, rule in self._allows[name]]
        return any(said)

    def _is_said(self, rule_id: str, rule: ToolRule) -> bool:
        name = rule_name(rule)
        if name not in BUILT_IN and not is_server_tool(name):
            self._ledger.omitted(rule_id, "name", "it is neither a tool of Claude Code nor mcp__SERVER__TOOL")
            return False
        if rule.server is not None and (rule.name.startswith("_") or "__" in rule.name):
            self._ledger.omitted(rule_id, "name", f"{name} can be a tool of another server too")
            return False
        for together in (EDITS, READS[:1]):
            if name in (EDITS if together is EDITS else READS) and not self._allows.keys() >= set(together):
                text = f"it is said together with {' and '.join(together)}, of which one is not allowed"
                self._ledger.omitted(rule_id, "name", text)
                return False
        more = {}
        if rule.schema is not None:
            more["schema"] = "the tool's description and arguments may change"
        if rule.arguments is not None:
            more["arguments"] = "arguments are not judged"
        if name in OTHERS_ACT or is_server_tool(name):
            more["subprocess"] = "which files and hosts it uses is not judged"
        if not self._ledger.may_say(rule_id, more):
            return False
        if self._asks(name):
            self._ledger.narrowed(
                rule_id, "approval", "denied in the mode dontAsk; another mode asks whoever sits there"
            )
        return True

    # -- files ---------------------------------------------------------------------------------------------------------

    def write_files(self) -> None:
        """What the mounts of a sandbox say, for the tools that read and edit; carve-outs are denied."""
        reads, edits = self._files
        if not reads and not edits and self._profile.policy.filesystem:
            for position in range(len(self._profile.policy.filesystem)):
                self._ledger.omitted(
                    f"filesystem/{position}", "tool", "no tool that reads or edits files is allowed"
                )
            return
        for grant in self._profile.compiled.mounts():
            if grant.mode is PathMode.NONE:
                self.deny |= {*read_rules(grant.path), *edit_rules(grant.path)}
                continue
            if ")" in grant.path or "(" in grant.path:
                continue  # recorded below, with the rule
            if reads:
                self._grant(read_rules(grant.path), ask=self._asks(READS[0]))
            if edits and grant.mode is PathMode.READ_WRITE:
                self._grant(edit_rules(grant.path), ask=any(map(self._asks, EDITS)))
        self._note_files(reads=reads, edits=edits)

    def _note_files(self, *, reads: bool, edits: bool) -> None:
        for position, rule in enumerate(self._profile.policy.filesystem):
            rule_id = f"filesystem/{position}"
            spelled = "(" not in rule.path and ")" not in rule.path
            if rule.mode is PathMode.NONE:
                if not spelled:
                    self._ledger.narrowed(
                        rule_id, "path", "paths with any other character for a parenthesis are denied too"
                    )
            elif not spelled:
                self._ledger.omitted(rule_id, "path", "a rule cannot hold a path with parentheses")
            elif not reads:
                self._ledger.narrowed(rule_id, "tool", f"{READS[0]} is not allowed: nothing is read")
            elif not edits and rule.mode is PathMode.READ_WRITE:
                self._ledger.narrowed(
                    rule_id, "tool", f"{' and '.join(EDITS)} are not allowed: nothing is written"
                )

    # -- hosts ---------------------------------------------------------------------------------------------------------

    def write_fetches(self) -> None:
        """What WebFetch may fetch: hosts named in full, with GET over https."""
        if not self._fetches:
            for rule_id, _ in numbered_allows(self._profile.policy.egress):
                self._ledger.omitted(rule_id, "tool", "WebFetch is not allowed: nothing is fetched")
            return
        asks = self._asks("WebFetch")
        for rule_id, rule in numbered_allows(self._profile.policy.egress):
            if self._fetch_is_said(rule_id, rule):
                self._grant([fetch_rule(rule.host)], ask=asks or self._must_ask(rule_id, rule))
        self.deny |= {
            fetch_rule(rule.host)
            for _, rule in numbered_denials(self._profile.policy.egress)
            if not is_wildcard(rule.host)
        }
        self._ledger.unjudged(
            PROFILE, "known_hosts", "Claude Code fetches from a list of its own (documentation) unasked"
        )

    def _must_ask(self, rule_id: str, rule: EgressRule) -> bool:
        """Where some request needs approval, all fetches from the host do."""
        approval = self._profile.policy.approval
        unseen = rule.tls is TLSMode.PASSTHROUGH and bool(approval.methods)  # the method is not seen
        asks = approval.everything or "GET" in approval.methods or unseen
        if asks and needs_approval(approval, rule):
            self._ledger.narrowed(
                rule_id, "approval", "denied in the mode dontAsk; another mode asks whoever sits there"
            )
        return asks

    def _fetch_is_said(self, rule_id: str, rule: EgressRule) -> bool:
        whole, parts = taken(rule, self._profile.policy.egress)
        if whole:
            return False  # the profile allows nothing of it either
        for denial in parts:
            self._ledger.omitted(rule_id, "denial", f"{denial} takes a part of it, which cannot be said")
        unsaid = dict(self._unsaid(rule))
        for kind, text in unsaid.items():
            self._ledger.omitted(rule_id, kind, text)
        if unsaid or parts:
            return False
        more = {"address": "the name may resolve to any address", "port": "any port of the host is fetched"}
        if rule.paths is not None:
            more["requests"] = "paths are not judged"
        said = self._ledger.may_say(rule_id, more)
        if said and (rule.methods is None or set(rule.methods) != {"GET"}):
            self._ledger.narrowed(rule_id, "requests", "WebFetch sends GET alone")
        return said

    def _unsaid(self, rule: EgressRule) -> Iterator[tuple[str, str]]:
        if is_wildcard(rule.host):
            yield "wildcard", "how many labels a wildcard covers there is not specified"
        if rule.address:
            yield "address", "a host cannot be bound to its addresses"
        if rule.scheme is Scheme.HTTP:
            yield "protocol", "WebFetch asks by https"
        if rule.methods is not None and "GET" not in rule.methods:
            yield "requests", "WebFetch sends GET alone"
