"""Writes plain HTTP rules for Cilium as regular expressions, which Envoy matches against the whole text.

The expressions match raw targets, query included, and only such as are canonical here: no empty, ``.`` or ``..``
segment, so that no server reads another path than the one that was judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from affiant.policy.canonical.hosts import is_wildcard, suffix_of
from affiant.policy.canonical.targets import METHODS
from affiant.policy.model.profile import EgressRule

__all__ = ["http_rules"]

_CHAR: Final = r"[A-Za-z0-9_~!$&'()*+,=:@.-]"
_NO_DOT: Final = r"[A-Za-z0-9_~!$&'()*+,=:@-]"
_SEGMENT: Final = rf"({_NO_DOT}{_CHAR}*|\.{_NO_DOT}{_CHAR}*|\.\.{_CHAR}+)"
"""Of a target's path (``targets``), without escapes; neither ``.`` nor ``..``."""
_BELOW: Final = rf"({_SEGMENT}(/{_SEGMENT})*/?)?"
_QUERY: Final = r"(\?([A-Za-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9A-Fa-f]{2})*)?"
_LABEL: Final = "[a-z0-9-]+"


def http_rules(rule: EgressRule) -> list[Mapping[str, str]]:
    """One for each path of an allow, or for any; always with its methods and its host."""
    methods = sorted(METHODS if rule.methods is None else rule.methods)
    host = f"{_host(rule.host)}(:{rule.port})?" if rule.port == 80 else f"{_host(rule.host)}:{rule.port}"
    return [{"method": "|".join(methods), "path": path, "host": host} for path in _paths(rule)]


def _paths(rule: EgressRule) -> Iterator[str]:
    for path in rule.paths or ("/**",):
        subtree = path.endswith("/**")
        yield f"{_quoted(path[:-2])}{_BELOW}{_QUERY}" if subtree else f"{_quoted(path)}{_QUERY}"


def _host(pattern: str) -> str:
    name = _quoted(suffix_of(pattern))
    if not is_wildcard(pattern):
        return name
    return rf"({_LABEL}\.)+{name}" if pattern.startswith("**") else rf"{_LABEL}\.{name}"


def _quoted(text: str) -> str:
    """``text`` itself; only what is special in a regular expression is escaped, because RE2 refuses other escapes."""
    return re.sub(r"([.+*?()\[\]{}|^$\\])", r"\\\1", text)
