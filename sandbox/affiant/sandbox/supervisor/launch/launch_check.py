"""The first question: is what this supervisor was given what its TD was launched for?

In order:

1. the policy's digest, recomputed from its bytes, is the one in the manifest;
2. MRCONFIGID of the TD's own report is SHA-384 of this manifest's initdata;
3. build, trust roots and isolation agree with the manifest;
4. RTMR3 is untouched: one TD has one activation;
5. agent, isolation and expiry agree with the activation.

A pooled supervisor takes steps 1 to 4 when it is started, and step 5 when a session takes it. The
supervisor checks the digests of the gateway's configuration and reference values apart, before it gives its privileges
up. The runner, which can read the trees, checks those (``given_trees``).

Then RTMR3 is extended by the session's five events in their order; ``affiant-ready`` is the barrier (TDX
specification, "Bindings").
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
from affiant.sandbox.supervisor.launch.provision import Provision, Template

__all__ = [
    "CheckedTemplate",
    "Launch",
    "check_activation",
    "check_gateway_documents",
    "check_launch",
    "check_template",
    "extend_session_events",
    "require_same",
]


@dataclass(frozen=True, slots=True)
class CheckedTemplate:
    """A template that agrees with the TD it runs in. Made by :func:`check_template` only."""

    manifest: Manifest
    policy: CompiledPolicy


@dataclass(frozen=True, slots=True)
class Launch(CheckedTemplate):
    """A provision that agrees with the TD it runs in. Made by :func:`check_activation` only."""

    activation: Activation
    facts: PolicyFacts
    signature: bytes | None
    """Over the file that the policy is of: not believed here, passed on to the gateway."""


def check_launch(provision: Provision, registers: TDRegisters, *, build: str, now: datetime) -> Launch:
    """Steps 1 to 5.

    Args:
        build: ``sha256:`` of this installation's release manifest.

    Raises:
        As :func:`check_template` and :func:`check_activation`.
    """
    return check_activation(check_template(provision, registers, build=build), provision, now=now)


def check_template(template: Template, registers: TDRegisters, *, build: str) -> CheckedTemplate:
    """Steps 1 to 4.

    Args:
        build: ``sha256:`` of this installation's release manifest.

    Raises:
        ``session.profile_mismatch``, ``session.mrconfigid_mismatch``, ``session.provision_mismatch``: as the steps
            say.
        AffiantError: a document is not in its form.
    """
    manifest = parse_manifest(template.manifest)
    policy = parse_normal_form(template.policy)
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
    _check_manifest(template, manifest, build)
    if any(registers.rtmrs[3]):
        raise NotAuthenticError(
            "this TD was activated before", expected="RTMR3 of zeros", code="session.provision_mismatch"
        )
    return CheckedTemplate(manifest, policy)


def check_activation(checked: CheckedTemplate, provision: Provision, *, now: datetime) -> Launch:
    """Step 5.

    Raises:
        ``session.provision_mismatch``, ``session.expired``: as the step says.
        AffiantError: the activation is not in its form.
    """
    activation = parse_activation(provision.activation)
    _check_activation(provision, activation, now)
    facts = PolicyFacts(provision.agent.name, checked.manifest.profile_digest, checked.manifest.file_digest)
    return Launch(checked.manifest, checked.policy, activation, facts, provision.signature)


def _check_manifest(template: Template, manifest: Manifest, build: str) -> None:
    """Step 3."""
    require_same("this is not the build that the manifest names", manifest.supervisor, build)
    roots = tuple(sorted({sha256_name(root) for root in template.roots}))
    require_same("the trust roots are not those that the manifest names", manifest.upstream_roots, roots)
    vault = template.vault
    found = None if vault is None else {"address": vault.address, "ca": vault_authority(vault.roots)}
    require_same("Vault is not the one that the manifest names", manifest.vault, found)
    own_root, own_runtime = not isinstance(template.rootfs, HostUsr), template.runtime is not None
    for what, own, named in (
        ("root file system", own_root, manifest.rootfs != "host-usr"),
        ("runtime", own_runtime, manifest.runtime is not None),
    ):
        shown = ("one given", "none given")
        require_same(f"the {what} is not the one that the manifest names", shown[not named], shown[not own])
    if not template.backend.isolation.reaches(IsolationClass(manifest.isolation_floor)):
        raise NotAuthenticError(
            "the isolation is below the manifest's minimum",
            expected=manifest.isolation_floor,
            found=template.backend.value,
            code="session.provision_mismatch",
        )


def _check_activation(provision: Provision, activation: Activation, now: datetime) -> None:
    """Step 5."""
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
