"""The first question: is what this supervisor was given what its TD was launched for?

In order:

1. the policy's digest, recomputed from its bytes, is the one in the manifest;
2. MRCONFIGID of the TD's own report is SHA-384 of this manifest's initdata;
3. build, trust roots, agent, isolation and expiry agree with manifest and activation;
4. RTMR3 is untouched: one TD has one activation.

The digests of the gateway's configuration and reference values, and the input, are checked by themselves, before
privileges are given up. The launcher copied the input below the session's ``files``. A chain of single directories (the
place that the profile lists) leads to exactly one tree there, whose digest is the activation's ``inp``.

Then RTMR3 is extended by the session's five events in their order; ``affiant-ready`` is the barrier (TDX
specification, "Bindings").
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.approvers.identities import require_verifiable
from affiant.attestation.statements.evidence_source import QuoteSource, TDRegisters
from affiant.attestation.statements.manifest import (
    Activation,
    Manifest,
    agent_commitment,
    mrconfigid,
    parse_activation,
    parse_manifest,
    session_events,
    vault_authority,
)
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog, LoggedEvent
from affiant.errors import NotAuthenticError, NotFreshError
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.sandbox.egress.records_of_egress import PolicyFacts
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.isolation.plan.plan import HostUsr
from affiant.sandbox.supervisor.launch.provision import Provision
from affiant.sandbox.workspace.tree import tree_digest
from affiant.sandbox.workspace.walk import read_tree

__all__ = [
    "Launch",
    "check_gateway_documents",
    "check_input",
    "check_launch",
    "extend_session_events",
    "require_same",
]


@dataclass(frozen=True, slots=True)
class Launch:
    """A provision that agrees with the TD it runs in. Made by :func:`check_launch` only."""

    manifest: Manifest
    activation: Activation
    policy: CompiledPolicy
    facts: PolicyFacts
    signature: bytes | None
    """Over the file that the policy is of: not believed here, passed on to the gateway."""


def check_launch(provision: Provision, registers: TDRegisters, *, build: str, now: datetime) -> Launch:
    """Steps 1 to 4.

    Args:
        build: ``sha256:`` of this installation's release manifest.

    Raises:
        ``session.profile_mismatch``, ``session.mrconfigid_mismatch``, ``session.provision_mismatch``,
            ``session.expired``: as the steps say.
        AffiantError: a document is not in its form.
    """
    manifest = parse_manifest(provision.manifest)
    policy = parse_normal_form(provision.policy)
    if policy.digest != manifest.profile_digest:
        raise NotAuthenticError(
            "the policy is not the one that the manifest names",
            expected=manifest.profile_digest,
            found=policy.digest,
            code="session.profile_mismatch",
        )
    if registers.mrconfigid != mrconfigid(manifest):
        raise NotAuthenticError(
            "this TD was launched for another manifest",
            expected=mrconfigid(manifest).hex(),
            found=registers.mrconfigid.hex(),
            code="session.mrconfigid_mismatch",
        )
    require_verifiable(policy.policy.approval.identities)
    activation = parse_activation(provision.activation)
    _check_manifest(provision, manifest, build)
    _check_activation(provision, activation, now)
    if any(registers.rtmrs[3]):
        raise NotAuthenticError(
            "this TD was activated before", expected="RTMR3 of zeros", code="session.provision_mismatch"
        )
    facts = PolicyFacts(provision.agent.name, manifest.profile_digest, manifest.file_digest)
    return Launch(manifest, activation, policy, facts, provision.signature)


def _check_manifest(provision: Provision, manifest: Manifest, build: str) -> None:
    """Step 3, what is the same for every session of this kind."""
    require_same("this is not the build that the manifest names", manifest.supervisor, build)
    roots = tuple(sorted({sha256_name(root) for root in provision.roots}))
    require_same("the trust roots are not those that the manifest names", manifest.upstream_roots, roots)
    vault = provision.vault
    found = None if vault is None else {"address": vault.address, "ca": vault_authority(vault.roots)}
    require_same("Vault is not the one that the manifest names", manifest.vault, found)
    own_root, own_runtime = not isinstance(provision.rootfs, HostUsr), provision.runtime is not None
    for what, own, named in (
        ("root file system", own_root, manifest.rootfs != "host-usr"),
        ("runtime", own_runtime, manifest.runtime is not None),
    ):
        shown = ("one given", "none given")
        require_same(f"the {what} is not the one that the manifest names", shown[not named], shown[not own])
    if not provision.backend.isolation.reaches(IsolationClass(manifest.isolation_floor)):
        raise NotAuthenticError(
            "the isolation is below the manifest's minimum",
            expected=manifest.isolation_floor,
            found=provision.backend.value,
            code="session.provision_mismatch",
        )


def _check_activation(provision: Provision, activation: Activation, now: datetime) -> None:
    """Step 3, what is this session's own."""
    agent = agent_commitment(provision.agent.salt, provision.agent.name)
    require_same("the agent is not the one that the activation names", activation.agent, agent)
    backend = provision.backend.value
    require_same("the isolation is not the one that the activation names", activation.isolation, backend)
    if now.timestamp() >= activation.expires:
        raise NotFreshError(
            "the activation's time is over", expected=f"before {activation.expires}", code="session.expired"
        )


def check_gateway_documents(manifest: Manifest, *, config: bytes, reference: bytes) -> None:
    """Return if the gateway's configuration and reference values are, by their digests, those of the manifest.

    Raises:
        ``session.provision_mismatch``: other bytes than the manifest names.
    """
    for what, data, named in (
        ("gateway configuration", config, manifest.gateway.config),
        ("reference values", reference, manifest.gateway.reference),
    ):
        require_same(f"the {what} is not the one that the manifest names", named, sha256_name(data))


def extend_session_events(td: QuoteSource, launch: Launch) -> EventLog:
    """Extend RTMR3 by the session's events, and return their log."""
    events = tuple(
        Event(name, payload) for name, payload in session_events(launch.manifest, launch.activation)
    )
    for event in events:
        td.extend(event)
    return EventLog(tuple(LoggedEvent(3, event) for event in events))


_FILES: Final = "files"
_MAX_DEPTH: Final = 16


def check_input(session_dir: Path, digest: str | None) -> None:
    """Return if the session's files are exactly the input with ``digest`` (``sha256:`` name), or none.

    Raises:
        ``session.provision_mismatch``: another tree, or anything beside it.
    """
    place = session_dir / _FILES
    if digest is None:
        if os.path.lexists(place):
            raise NotAuthenticError(
                "there are files although the activation names no input", code="session.provision_mismatch"
            )
        return
    for _ in range(_MAX_DEPTH):
        inner = _only_directory(place)
        if inner is None:
            break
        if tree_digest(read_tree(inner)) == digest:
            return
        place = inner
    raise NotAuthenticError(
        "the session's files are not the input that the activation names",
        expected=digest,
        code="session.provision_mismatch",
    )


def _only_directory(place: Path) -> Path | None:
    """The one directory in ``place`` if there is nothing else in it; no link is followed."""
    try:
        names = os.listdir(place)
        found = place / names[0] if len(names) == 1 else None
        if found is None or not stat.S_ISDIR(os.lstat(found).st_mode):
            return None
    except OSError as error:
        raise NotAuthenticError(
            "the session's files cannot be read", found=error.strerror, code="session.provision_mismatch"
        ) from error
    return found


def require_same(message: str, named: object, found: object) -> None:
    """Return if both are the same; texts are shown in the error, whole collections are not.

    Raises:
        ``session.provision_mismatch``: they differ.
    """
    if named == found:
        return
    if isinstance(named, str | None) and isinstance(found, str | None):
        raise NotAuthenticError(message, expected=named, found=found, code="session.provision_mismatch")
    raise NotAuthenticError(message, code="session.provision_mismatch")
