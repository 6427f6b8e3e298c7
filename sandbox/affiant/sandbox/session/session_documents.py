"""The two documents that bind a TD to a session: the manifest, and the activation. Pure."""

from __future__ import annotations

from collections.abc import Callable

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.manifest import (
    Activation,
    GatewayIdentity,
    Manifest,
    agent_commitment,
    make_activation,
    make_manifest,
    vault_authority,
)
from affiant.sandbox.isolation.plan.plan import DirectoryRoot
from affiant.sandbox.session.session_plan import SessionPlan

__all__ = ["new_session_id", "session_activation", "session_manifest"]


def new_session_id(random_bytes: Callable[[int], bytes]) -> str:
    """22 characters of base64url, the first a letter or digit: it never reads like an option."""
    while True:
        session = b64u(random_bytes(16))
        if session[0].isalnum():
            return session


def session_manifest(
    plan: SessionPlan,
    *,
    supervisor: str,
    rootfs: str | None,
    runtime: str | None,
    gateway: GatewayConfig,
) -> Manifest:
    """The template manifest.

    Args:
        supervisor: ``sha256:`` name of the build that supervises.
        rootfs, runtime: ``sha256:`` names of the trees; None where there is none.
    """
    own_root = isinstance(plan.sandbox.rootfs, DirectoryRoot)
    assert own_root == (rootfs is not None)
    return make_manifest(
        cls=gateway.cls,
        profile_digest=plan.profile.digest,
        file_digest=plan.file_digest,
        supervisor=supervisor,
        rootfs="host-usr" if rootfs is None else rootfs,
        runtime=runtime,
        isolation_floor=plan.request.min_isolation.value,
        gateway=GatewayIdentity(
            origin=gateway.origin, reference=gateway.reference, config=gateway.digest, cls=gateway.cls
        ),
        hosts=plan.hosts,
        upstream_roots=[sha256_name(der) for der in plan.roots],
        vault=None
        if plan.request.vault is None
        else {"address": plan.request.vault.address, "ca": vault_authority(plan.vault_roots)},
    )


def session_activation(
    plan: SessionPlan,
    *,
    salt: bytes,
    starter: str,
    input_digest: str | None,
    expires: int,
    openings: str,
    random_bytes: Callable[[int], bytes],
) -> Activation:
    """What is this session's own.

    Args:
        salt: 16 bytes, kept by the starter: opens the commitment to the agent's name.
        starter: who starts it, as text; only a commitment under a salt of its own goes in.
        expires: Unix seconds.
        openings: X25519 public key, 43 characters.
    """
    return make_activation(
        session=plan.session,
        agent=agent_commitment(salt, plan.request.agent),
        input_digest=input_digest,
        isolation=plan.backend.value,
        challenge=b64u(random_bytes(32)),
        expires=expires,
        starter={"iss": "local", "method": "uid", "sub": agent_commitment(random_bytes(16), starter)},
        openings=openings,
    )
