"""Warnings about profiles that load: what they allow that a reviewer may not have meant.

Every warning has a stable code. None of them changes a decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.policy.hosts import is_wildcard, suffix_of
from affiant.policy.paths import covers
from affiant.policy.profile import (
    Approval,
    EgressRule,
    Endpoint,
    PathMode,
    Scheme,
    SecretGrant,
    TLSMode,
    ToolRule,
)
from affiant.policy.profile_set import Profile, ProfileSet

__all__ = ["WARNINGS", "Finding", "lint_profile", "lint_profiles"]

WARNINGS: Final[Mapping[str, str]] = {
    "secret_no_sink": "the profile has no https host at which this secret may be used",
    "secret_unreachable_host": "no rule of the profile reaches a host to which this secret is bound",
    "secret_storable_sink": "what a host stores, an agent can read back: prefer the Authorization header",
    "host_unrestricted": "the agent may do anything that this host's API allows; methods and paths narrow it",
    "host_shared": "everybody can store data at this host: to reach it is to reach anyone",
    "host_wildcard": "every name under a wildcard can carry data out",
    "tls_passthrough": "requests inside the connection are not seen, and its host is not checked",
    "scheme_http": "plain HTTP can be read and changed on its way",
    "rw_hooks": "what the agent writes there, somebody else's tools may run",
    "rw_system_path": "programs of the image live there",
    "approval_no_approver": "nobody can approve in this version: what needs approval is denied",
    "denial_without_allow": "no rule allows what this rule denies",
}
"""Every warning code and what it says."""

_SHARED_HOSTS: Final = (
    *("amazonaws.com", "storage.googleapis.com", "blob.core.windows.net", "digitaloceanspaces.com"),
    *(
        "r2.cloudflarestorage.com",
        "gist.github.com",
        "gist.githubusercontent.com",
        "raw.githubusercontent.com",
    ),
    *("pastebin.com", "transfer.sh", "webhook.site", "ngrok.io", "ngrok-free.app", "firebaseio.com"),
)
"""Object stores, pastes and tunnels: hosts at which an account is anybody's."""

_HOOKS: Final = (
    ".git/hooks",
    ".git/config",
    ".github/workflows",
    ".gitlab-ci.yml",
    ".envrc",
    ".vscode",
    ".husky",
)
_SYSTEM: Final = ("/bin", "/boot", "/etc", "/lib", "/lib64", "/opt", "/root", "/sbin", "/usr")


@dataclass(frozen=True, slots=True)
class Finding:
    """One warning, about one rule of one profile."""

    code: str
    agent: str
    subject: str
    where: str

    @property
    def text(self) -> str:
        """The warning as a person reads it."""
        return f"{self.subject}: {WARNINGS[self.code]}"


def lint_profiles(profiles: ProfileSet) -> tuple[Finding, ...]:
    """The warnings about every profile of a file, in the order of the file."""
    return tuple(warning for profile in profiles.profiles.values() for warning in lint_profile(profile))


def lint_profile(profile: Profile) -> tuple[Finding, ...]:
    """The warnings about one profile."""
    sections = (_tools(profile), _paths(profile), _egress(profile), _secrets(profile), _whole(profile))
    return tuple(warning for section in sections for warning in section)


def _warn(profile: Profile, code: str, subject: str, rule: str | None = None) -> Finding:
    mark = profile.mark if rule is None else profile.places[rule]
    return Finding(code, profile.name, subject, str(mark))


def _tools(profile: Profile) -> Iterator[Finding]:
    allowed = {rule.name for rule in profile.tools if isinstance(rule, ToolRule)}
    for position, rule in enumerate(profile.tools):
        if rule.name not in allowed:
            yield _warn(profile, "denial_without_allow", f"tool {rule.name}", f"tools/{position}")


def _paths(profile: Profile) -> Iterator[Finding]:
    for position, grant in enumerate(profile.filesystem):
        if grant.mode is not PathMode.READ_WRITE:
            continue
        rule = f"filesystem/{position}"
        if any(covers(system, grant.path) for system in _SYSTEM):
            yield _warn(profile, "rw_system_path", grant.path, rule)
        hooks = [hook for hook in _HOOKS if _writable(profile, f"{grant.path}/{hook}")]
        if hooks:
            yield _warn(profile, "rw_hooks", f"{grant.path} with {', '.join(hooks)}", rule)


def _writable(profile: Profile, path: str) -> bool:
    return profile.compiled.decide_path(path, PathMode.READ_WRITE).allowed


def _egress(profile: Profile) -> Iterator[Finding]:
    for position, rule in enumerate(profile.egress):
        if not isinstance(rule, EgressRule):
            continue
        host = suffix_of(rule.host)
        found = {
            "host_unrestricted": rule.methods is None and rule.paths is None and rule.tls is TLSMode.INSPECT,
            "host_shared": any(host == shared or host.endswith("." + shared) for shared in _SHARED_HOSTS),
            "host_wildcard": is_wildcard(rule.host),
            "tls_passthrough": rule.tls is TLSMode.PASSTHROUGH,
            "scheme_http": rule.scheme is Scheme.HTTP,
        }
        for code in (code for code, holds in found.items() if holds):
            yield _warn(profile, code, f"{rule.host}:{rule.port}", f"egress/{position}")


def _secrets(profile: Profile) -> Iterator[Finding]:
    for position, grant in enumerate(profile.secrets):
        rule = f"secrets/{position}"
        if not grant.hosts:
            yield _warn(profile, "secret_no_sink", grant.name, rule)
        for host in grant.hosts:
            if not _reaches(profile, grant, host):
                yield _warn(
                    profile, "secret_unreachable_host", f"{grant.name} at {host.host}:{host.port}", rule
                )
        if grant.inject.header != "authorization":
            yield _warn(profile, "secret_storable_sink", f"{grant.name} in {grant.inject.header}", rule)


def _reaches(profile: Profile, grant: SecretGrant, at: Endpoint) -> bool:
    """Whether the secret itself and a connection to the host are allowed, perhaps after approval."""
    use = profile.compiled.decide_secret(
        grant.name, host=at.host, port=at.port, scheme="https", surface=grant.surface
    )
    connection = profile.compiled.decide_egress(host=at.host, port=at.port, scheme="https")
    return all(found.allowed or found.reason == "approval_no_approver" for found in (use, connection))


def _whole(profile: Profile) -> Iterator[Finding]:
    asking = any(isinstance(rule, ToolRule) and rule.approval for rule in profile.tools)
    if asking or profile.approval != Approval():
        yield _warn(profile, "approval_no_approver", "requires_human_approval")
