"""What the agent finds: its environment variables, the certificates that it trusts, and the sandbox's plan.

The variables are exactly those of the wire specification and what the user adds. The proxy is the only way out, so
everything points at it; the inference gateway is a name that the proxy serves; the API key is a constant that the proxy
strips. A granted secret that the broker holds is present as its placeholder, under its own name; a key that signs
requests also as the pair that clients of AWS sign with. One that it does not hold has no variable at all.

The session's own authority comes first among the certificates, because every inspected host is met with it. The
system's roots are for hosts that the profile passes through unread, and the manifest's extra roots for the same on
private hosts.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from affiant.attestation.schema.trace_context import trace_of
from affiant.errors import ConfigurationError
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.model.profile import PathMode, Resources
from affiant.sandbox.isolation.plan.plan import (
    GATEWAY_HOST,
    RUNTIME_AT,
    Access,
    FileGrant,
    Limits,
    RootFS,
    SandboxPlan,
    plan_sandbox,
)
from affiant.sandbox.isolation.plan.rootfs import CA_BUNDLE_AT

__all__ = [
    "agent_environment",
    "pem_of",
    "require_user_variables",
    "sandbox_bundle",
    "session_sandbox",
    "system_roots",
]

_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PROXY: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_TRUST: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO")
_OURS: Final = (
    *_PROXY,
    "NO_PROXY",
    "no_proxy",
    *_TRUST,
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "NODE_USE_ENV_PROXY",
    "OPENAI_AGENTS_DISABLE_TRACING",
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


def agent_environment(
    *,
    proxy_url: str,
    placeholders: Mapping[str, str],
    traceparent: str,
    with_runtime: bool,
    user: Mapping[str, str],
) -> Mapping[str, str]:
    """The whole environment of the agent's command.

    Args:
        proxy_url: where the sandbox finds the proxy.
        placeholders: the variables of the secrets that the broker holds.
        traceparent: W3C trace context for this run; one that the user gives takes its place.
        with_runtime: whether a prepared runtime is mounted; its programs then come first.
        user: what the launcher adds; it may set ``PATH``, ``HOME``, ``LANG`` and ``TRACEPARENT``, not the rest.

    Raises:
        ``session.environment``: a name that is reserved, or no name.
    """
    ours: dict[str, str] = {
        **dict.fromkeys(_PROXY, proxy_url),
        "NO_PROXY": "",
        "no_proxy": "",
        **dict.fromkeys(_TRUST, CA_BUNDLE_AT),
        "OPENAI_BASE_URL": f"http://{GATEWAY_HOST}/v1",
        "OPENAI_API_KEY": "affiant-session",
        "ANTHROPIC_BASE_URL": f"http://{GATEWAY_HOST}",
        "ANTHROPIC_API_KEY": "affiant-session",
        "NODE_USE_ENV_PROXY": "1",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        **placeholders,
    }
    defaults = {
        "PATH": f"{RUNTIME_AT}/bin:{_PATH}" if with_runtime else _PATH,
        "HOME": "/tmp",  # noqa: S108 - inside the sandbox, its private tmpfs
        "LANG": "C.UTF-8",
        "TRACEPARENT": traceparent,
    }
    require_user_variables(user, ours=ours)
    return {**defaults, **user, **ours}


def require_user_variables(user: Mapping[str, str], *, ours: Collection[str] = _OURS) -> None:
    """Return if each variable is one that the launcher may add.

    Args:
        ours: what the supervisor sets; without the placeholders of secrets, which it alone knows.

    Raises:
        ``session.environment``: a name that is reserved, or no name.
    """
    for name, value in user.items():
        if _NAME.match(name) is None or "\0" in value:
            raise ConfigurationError(
                "not an environment variable", found=ascii(name[:40]), code="session.environment"
            )
        if name in ours:
            raise ConfigurationError(
                "the supervisor sets this variable itself", found=name, code="session.environment"
            )
        if name == "TRACEPARENT" and trace_of([value.encode("utf-8", "replace")]) is None:
            raise ConfigurationError("not a W3C trace context", where=name, code="session.environment")


_ACCESS: Final = {
    PathMode.NONE: Access.NONE,
    PathMode.READ: Access.READ_ONLY,
    PathMode.READ_WRITE: Access.READ_WRITE,
}


def session_sandbox(
    policy: CompiledPolicy,
    *,
    session: str,
    rootfs: RootFS,
    runtime: str | None,
    resources: Resources | None = None,
) -> SandboxPlan:
    """The plan of one session.

    Args:
        resources: bounds that the session's starter asks for.

    Raises:
        ``isolation.plan``: a path or a limit that no sandbox may have.
        ``session.resources``: the requested resources exceed the profile's.
    """
    default, profile = Limits(), policy.resources
    given = Resources(
        cpus=profile.cpus,
        memory=profile.memory or default.memory_bytes,
        disk=profile.disk,
        pids=profile.pids or default.processes,
    )
    wanted = given if resources is None else _restricted(given, resources, disk=default.files_bytes)
    return plan_sandbox(
        session,
        [FileGrant(grant.path, _ACCESS[grant.mode]) for grant in policy.mounts()],
        rootfs=rootfs,
        runtime=runtime,
        limits=Limits(
            memory_bytes=wanted.memory or default.memory_bytes,
            tmp_bytes=wanted.disk or default.tmp_bytes,
            files_bytes=wanted.disk or default.files_bytes,
            processes=wanted.pids or default.processes,
            cpus=wanted.cpus,
        ),
    )


def _restricted(given: Resources, asked: Resources, *, disk: int) -> Resources:
    """``given`` with what is asked for in its place.

    Args:
        disk: what a session has where its profile names none.
    """
    bounds = {"cpus": given.cpus, "memory": given.memory, "disk": given.disk or disk, "pids": given.pids}
    for name, most in bounds.items():
        value = getattr(asked, name)
        if value is not None and most is not None and value > most:
            raise ConfigurationError(
                "the requested resources exceed the profile's",
                where=f"resources.{name}",
                expected=f"at most {most}",
                found=value,
                code="session.resources",
            )
    names = ("cpus", "memory", "disk", "pids")
    return Resources(**{name: getattr(asked, name) or getattr(given, name) for name in names})


_PLACES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_LIMIT: Final = 3 << 20


def system_roots() -> bytes:
    """The system's roots as PEM; empty where none are installed."""
    for place in _PLACES:
        path = Path(place)
        if path.is_file() and path.stat().st_size <= _LIMIT:
            return path.read_bytes()
    return b""


def pem_of(der: bytes) -> str:
    """One certificate as PEM."""
    return ssl.DER_cert_to_PEM_cert(der)


def sandbox_bundle(authority: bytes, roots: Sequence[bytes], system: bytes) -> bytes:
    """The bundle: the session's authority (PEM), extra ``roots`` (DER), the system's (PEM)."""
    return authority + "".join(pem_of(root) for root in roots).encode("ascii") + system
