"""Makes what binds a TD to a session, and what its supervisor is given: the documents, and the descriptors beside them.

Nothing secret is in a message: the local store, its key and a Vault token travel as descriptors, because the
user of the one process that reads them cannot open the files.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.records.sealed_disclosures import recipient
from affiant.attestation.records.task_label import TaskLabel, make_task_label
from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import load_release
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
from affiant.errors import ConfigurationError
from affiant.sandbox.base.threads import Proceed, stoppable
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import DirectoryRoot
from affiant.sandbox.pools.taking import pool_key
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.services import Services
from affiant.sandbox.session.private_paths import private_inodes
from affiant.sandbox.session.secret_store import secret_descriptors
from affiant.sandbox.session.session_plan import SessionPlan
from affiant.sandbox.session.supervisor_link import SupervisorLink
from affiant.sandbox.session_state.task_label import keep_label
from affiant.sandbox.workspace.copy_in import Copied
from affiant.sandbox.workspace.walk import WHOLE, runtime_digest
from affiant.secrets.store.private_files import open_private_file

__all__ = [
    "SessionBindings",
    "TemplateBindings",
    "bind_session",
    "bind_template",
    "kind_of",
    "provision",
    "provision_template",
    "session_activation",
    "session_manifest",
]

_ISOLATION: Final = {BackendName.GVISOR: "gvisor", BackendName.BUBBLEWRAP: "bwrap"}


@dataclass(frozen=True, slots=True)
class TemplateBindings:
    """What binds a TD to a kind of session, and what a supervisor needs to show it."""

    manifest: Manifest
    collateral: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SessionBindings:
    """What makes it one session."""

    activation: Activation
    salt: bytes = field(repr=False)
    """16 bytes that hide the agent's name in the activation."""


async def bind_template(home: Home, plan: SessionPlan, services: Services) -> TemplateBindings:
    """The manifest of ``plan``, for these services."""
    rootfs, runtime = await stoppable(lambda proceed: _digests(home, plan, proceed))
    manifest = session_manifest(
        plan,
        supervisor=load_release().images[Image.SESSION].digest,
        rootfs=rootfs,
        runtime=runtime,
        gateway=services.gateway_config,
    )
    collateral = await asyncio.to_thread(services.provisioner.collateral)
    return TemplateBindings(manifest, collateral.to_bytes())


def kind_of(plan: SessionPlan, services: Services, manifest: Manifest) -> str:
    """Names the pool of sessions like this one."""
    return pool_key(
        manifest,
        isolation=plan.backend.value,
        gateway=services.gateway_url,
        runtime=plan.request.runtime,
        rootfs=plan.rootfs,
    )


async def bind_session(
    home: Home, plan: SessionPlan, copied: Copied | None, *, random_bytes: Callable[[int], bytes]
) -> SessionBindings:
    """The activation of ``plan``, for this input.

    Args:
        random_bytes: for the activation's salts and challenge.
    """
    salt = random_bytes(16)
    task = plan.request.task
    label = None if task is None else make_task_label(task, random_bytes=random_bytes)
    if label is not None:
        await asyncio.to_thread(keep_label, home.session(plan.session), label)
    activation = session_activation(
        plan,
        salt=salt,
        starter=str(os.getuid()),
        input_digest=None if copied is None else copied.digest,
        expires=int(datetime.now(UTC).timestamp()) + plan.lease_s,
        openings=recipient(home.openings_key(random_bytes=random_bytes)),
        label=label,
        random_bytes=random_bytes,
    )
    return SessionBindings(activation, salt)


async def provision_template(
    link: SupervisorLink, home: Home, plan: SessionPlan, services: Services, template: TemplateBindings
) -> None:
    """Send a supervisor what it needs before it has a session."""
    await link.tell({"op": "warm", **_template_members(home, plan, services, template)})


async def provision(
    link: SupervisorLink,
    home: Home,
    plan: SessionPlan,
    bindings: SessionBindings,
    *,
    whole: tuple[Services, TemplateBindings] | None,
    decisions: int | None = None,
) -> None:
    """Send the supervisor its session; it compares it with what its TD was launched for.

    Args:
        whole: what the template is made of; None: the supervisor has it.
        decisions: the descriptor of the decision log; the supervisor's user could not open the file.
    """
    with ExitStack() as files:
        descriptors = {
            **secret_descriptors(plan, home.secrets, files),
            **_vault_token(plan, files),
        }
        message: Mapping[str, object] = {"op": "activate"}
        if whole is not None:
            message = {"op": "provision", **_template_members(home, plan, *whole)}
        message = {**message, **_session_members(plan, bindings)}
        log = {} if decisions is None else {"decisions": decisions}
        await link.tell(
            {**message, "secret_fds": list(descriptors), "decisions": bool(log)}, {**descriptors, **log}
        )


def _session_members(plan: SessionPlan, bindings: SessionBindings) -> Mapping[str, object]:
    return {
        "activation": b64u(bindings.activation.raw),
        "signature": None if plan.signature is None else b64u(plan.signature),
        "agent": {
            "name": plan.request.agent,
            "salt": bindings.salt.hex(),
            "user": _user_name(),
            "rules_source": plan.request.profile.name,
        },
        "resources": None if plan.request.resources is None else asdict(plan.request.resources),
        "openings": None,
    }


def _template_members(
    home: Home, plan: SessionPlan, services: Services, template: TemplateBindings
) -> Mapping[str, object]:
    folder = home.session(plan.session)
    runtime = plan.request.runtime
    return {
        "manifest": b64u(template.manifest.raw),
        "policy": b64u(plan.profile.normal_form),
        "reference": b64u(services.reference),
        "gateway_config": b64u(services.gateway_config.raw),
        "collateral": b64u(template.collateral),
        "gateway_url": services.gateway_url,
        "roots": [b64u(der) for der in plan.roots],
        "session_dir": str(folder),
        "workspace": [
            {"path": bind.target, "host_dir": str(folder / bind.source)} for bind in plan.sandbox.workspaces
        ],
        "runtime": None if runtime is None else str(runtime.resolve()),
        "rootfs": "host-usr" if plan.rootfs is None else str(plan.rootfs),
        "isolation": _ISOLATION[plan.backend],
        "vault": None
        if plan.request.vault is None
        else {"address": plan.request.vault.address, "roots": [b64u(der) for der in plan.vault_roots]},
    }


def _vault_token(plan: SessionPlan, stack: ExitStack) -> Mapping[str, int]:
    """Vault's token as a descriptor: it is in no argument, no variable and no message."""
    vault = plan.request.vault
    if vault is None:
        return {}
    try:
        descriptor = open_private_file(vault.token_file)
    except FileNotFoundError as error:
        raise ConfigurationError(
            "there is no such file of a Vault token", where=str(vault.token_file), code="session.input"
        ) from error
    stack.callback(os.close, descriptor)
    return {"vault_token": descriptor}


def _digests(home: Home, plan: SessionPlan, proceed: Proceed) -> tuple[str | None, str | None]:
    """The digests of root file system and runtime, as the manifest names them."""
    rootfs, runtime = plan.rootfs, plan.request.runtime
    private, limits = private_inodes(home, plan.request), replace(WHOLE, proceed=proceed)
    return (
        None if rootfs is None else runtime_digest(rootfs, limits=limits, private=private),
        None if runtime is None else runtime_digest(runtime, limits=limits, private=private),
    )


def _user_name() -> str:
    """Who starts the session, as text: what receipts hide as ``user``."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid:{os.getuid()}"


def session_manifest(
    plan: SessionPlan, *, supervisor: str, rootfs: str | None, runtime: str | None, gateway: GatewayConfig
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
    label: TaskLabel | None,
    random_bytes: Callable[[int], bytes],
) -> Activation:
    """What is this session's own.

    Args:
        salt: 16 bytes, kept by the starter: opens the commitment to the agent's name.
        starter: who starts it, as text; only a commitment under a salt of its own goes in.
        expires: Unix seconds.
        openings: X25519 public key, 43 characters.
        label: the session's task label, salted.
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
        release=plan.release,
        task=None if label is None else label.digests,
    )
