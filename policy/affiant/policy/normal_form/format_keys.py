"""Lists every key of the format, by the mapping that holds it.

The reader accepts these and no others. The line that an error shows hides what is under any other key, and a test holds
the schema for editors equal to this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["EVERY_KEY", "KEYS", "VALUES_NOT_SHOWN"]

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "a profile file": ("version", "floor", "agent_configs"),
    "a baseline policy": (
        *("version", "tools", "provider_tools", "filesystem_access", "network_egress"),
        *("ports", "may_start", "requires_human_approval", "limits"),
    ),
    "a profile": (
        "tools",
        "provider_tools",
        "filesystem_access",
        "network_egress",
        "secrets_access",
        "requires_human_approval",
        "models",
        "ports",
        "may_start",
        "limits",
        "weight",
        "priority",
        "resources",
        "tests",
    ),
    "a tool": ("name", "server", "schema", "approval", "args", "rate", "deny"),
    "a provider tool": ("deny",),
    "a port": ("deny",),
    "an agent to start": ("agent", "at_most", "deny"),
    "an argument": (
        *("one_of", "const", "min", "max", "max_len", "pattern", "under", "write", "host"),
        *("each", "max_items", "argv", "optional"),
    ),
    "'each'": ("one_of", "const", "min", "max", "max_len", "pattern", "under", "write", "host"),
    "a path": ("path", "mode"),
    "an egress rule": ("host", "port", "scheme", "methods", "paths", "tls", "address", "limits"),
    "an egress denial": ("deny", "port", "methods", "paths"),
    "a secret": ("name", "ref", "hosts", "inject", "shape", "max_uses"),
    "'inject'": ("header", "format", "basic", "query", "body", "exchange", "sigv4"),
    "'body'": ("json", "form"),
    "'exchange'": (
        *("grant", "url", "client_id", "client_auth", "issuer", "subject", "key_id"),
        *("subject_token_type", "audience", "resource", "scope"),
    ),
    "'sigv4'": ("service", "region"),
    "a model": ("name", "upstream", "max_tokens"),
    "'requires_human_approval'": (
        *("everything", "tools", "egress", "approvers", "trusted_root", "quorum", "ttl"),
    ),
    "an approver": ("issuer", "subject"),
    "'limits'": ("tool_calls", "requests", "tokens", "bytes_out", "wall"),
    "a rule's 'limits'": ("requests", "bytes_out"),
    "'resources'": ("cpus", "memory", "disk", "pids"),
    "a test": ("allow", "ask", "deny"),
    "a test's request": (
        *("tool", "args", "provider_tool", "model", "attested_model", "read", "write", "egress", "secret"),
        *("port", "start"),
    ),
}
"""The mapping's name in error messages -> the keys that it may hold."""

EVERY_KEY: Final = frozenset(key for keys in KEYS.values() for key in keys)

VALUES_NOT_SHOWN: Final = frozenset(
    {"secrets_access", "secret", *KEYS["a secret"], *KEYS["'inject'"], *KEYS["'body'"], *KEYS["'sigv4'"]}
    - {"name"}
)
"""Keys under which a secret may have been pasted."""
