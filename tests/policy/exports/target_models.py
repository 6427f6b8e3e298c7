"""What srt, Cilium and Claude Code decide, as their documentation says: small models that share no code with ours."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from affiant.policy.exports.model import Export


class Srt:
    """Settings of the sandbox runtime."""

    def __init__(self, export: Export) -> None:
        settings = json.loads(export.documents[0].text)
        self.network: Mapping[str, Any] = settings["network"]
        self.files: Mapping[str, Sequence[str]] = settings["filesystem"]
        assert self.network["strictAllowlist"] is True

    def connects(self, host: str, port: int) -> bool:
        """Denials first; ``*.x`` is any strict subdomain."""

        def match(entry: str) -> bool:
            name, _, wanted = (
                entry.rpartition(":") if entry.rpartition(":")[2].isdecimal() else (entry, "", "")
            )
            if wanted and int(wanted) != port:
                return False
            return host.endswith(name[1:]) if name.startswith("*.") else host == name

        if any(map(match, self.network["deniedDomains"])):
            return False
        return any(map(match, self.network["allowedDomains"]))

    def reads(self, path: str) -> bool:
        """The most specific of what is denied and what is opened again; of two alike, what is opened."""
        denied = max((len(entry) for entry in self.files["denyRead"] if _below(entry, path)), default=-1)
        opened = max((len(entry) for entry in self.files["allowRead"] if _below(entry, path)), default=-1)
        return opened >= denied

    def writes(self, path: str) -> bool:
        return any(_below(entry, path) for entry in self.files["allowWrite"]) and not any(
            _below(entry, path) for entry in self.files["denyWrite"]
        )


class Cilium:
    """A CiliumNetworkPolicy's egress, after names were learned from DNS."""

    def __init__(self, export: Export) -> None:
        self.document: Mapping[str, Any] = yaml.safe_load(export.documents[0].text)
        self.rules: Sequence[Mapping[str, Any]] = [
            rule for rule in self.document["spec"]["egress"] if "toFQDNs" in rule
        ]

    def asks_for(self, host: str) -> bool:
        """Whether the name may be looked up."""
        found = [rule for rule in self.document["spec"]["egress"] if "toEndpoints" in rule]
        return any(
            _selected(selector, host) for rule in found for selector in rule["toPorts"][0]["rules"]["dns"]
        )

    def connects(self, host: str, port: int) -> bool:
        """Whether some rule without a look inside allows it."""
        return any("rules" not in rule["toPorts"][0] for rule in self._at(host, port))

    def requests(self, host: str, port: int, method: str, target: str) -> bool:
        """Whether a plain-http request passes."""
        authority = host if port == 80 else f"{host}:{port}"
        return any(
            re.fullmatch(http["method"], method)
            and re.fullmatch(http["path"], target)
            and re.fullmatch(http["host"], authority)
            for rule in self._at(host, port)
            for http in rule["toPorts"][0].get("rules", {}).get("http", ())
        )

    def _at(self, host: str, port: int) -> list[Mapping[str, Any]]:
        return [
            rule
            for rule in self.rules
            if _selected(rule["toFQDNs"][0], host) and rule["toPorts"][0]["ports"][0]["port"] == str(port)
        ]


class ClaudeCode:
    """Permission rules in the mode ``dontAsk``."""

    def __init__(self, export: Export) -> None:
        permissions = json.loads(export.documents[0].text)["permissions"]
        assert permissions["defaultMode"] == "dontAsk"
        self.lists: Mapping[str, Sequence[str]] = {
            name: permissions[name] for name in ("deny", "ask", "allow")
        }

    def reads(self, path: str) -> str:
        return self._decide("Read", lambda rule: _gitignored(rule, path))

    def edits(self, path: str) -> str:
        return self._decide("Edit", lambda rule: _gitignored(rule, path))

    def fetches(self, host: str) -> str:
        return self._decide("WebFetch", lambda rule: rule == f"domain:{host}")

    def calls(self, name: str) -> str:
        return self._decide(name, lambda rule: False)

    def _decide(self, tool: str, matches: Any) -> str:
        for outcome, rules in self.lists.items():
            for rule in rules:
                name, _, specifier = rule.partition("(")
                if name == tool and (not specifier or matches(specifier.removesuffix(")"))):
                    return outcome
        return "deny"


def _gitignored(rule: str, path: str) -> bool:
    """``//a/b`` and ``//a/b/**``; ``?`` is any character of a segment."""
    assert rule.startswith("//")
    pattern = rule[1:].removesuffix("/**")
    expression = "".join("[^/]" if char == "?" else re.escape(char) for char in pattern.rstrip("/"))
    return re.fullmatch(f"{expression}(/.*)?", path) is not None


def _below(entry: str, path: str) -> bool:
    return entry == "/" or path == entry or path.startswith(entry + "/")


def _selected(selector: Mapping[str, str], host: str) -> bool:
    if "matchName" in selector:
        return selector["matchName"] == host
    pattern = selector["matchPattern"]
    many = pattern.startswith("**.")
    name = re.escape(pattern.lstrip("*").removeprefix("."))
    return re.fullmatch((r"([-a-z0-9_]+\.)+" if many else r"[-a-z0-9_]*\.") + name, host) is not None
