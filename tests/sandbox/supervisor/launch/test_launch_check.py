"""What a supervisor was given against what its TD was launched for: one wrong fact at a time."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.attestation.signatures.approvers.signing_identity import root_of
from tests.raising import raises_code
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.signatures.approvers.errors import ApproverExtraMissing
from affiant.attestation.signatures.sigstore.errors import TrustedRootUnusable
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.statements.manifest import (
    GatewayIdentity,
    agent_commitment,
    make_activation,
    make_manifest,
    mrconfigid,
    session_events,
)
from affiant.attestation.tdx.event_log.eventlog import SESSION_EVENT_ORDER, Event
from affiant.errors import AffiantError
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, HostUsr
from affiant.sandbox.supervisor.launch.launch_check import check_launch, extend_session_events
from affiant.sandbox.supervisor.launch.provision import Agent, Provision, Vault

NOW = datetime(2026, 5, 1, tzinfo=UTC)
BUILD = "sha256:" + "b" * 64
DIGEST = "sha256:" + "d" * 64
SALT = bytes(16)
PROFILE = load_profiles(b"agent_configs: {dev: {network_egress: 'allowed:api.example.com'}}").profile("dev")
OTHER = load_profiles(b"agent_configs: {dev: {network_egress: 'allowed:evil.example.com'}}").profile("dev")
ROOT = b"a certificate"


def manifest(**changes):
    parts = {
        "cls": "simulated", "profile_digest": PROFILE.digest, "file_digest": DIGEST, "supervisor": BUILD,
        "rootfs": "host-usr", "runtime": None, "isolation_floor": "userspace-kernel",
        "gateway": GatewayIdentity("log.example", DIGEST, DIGEST, "simulated"), "hosts": {},
        "upstream_roots": [sha256_name(ROOT)],
    }  # fmt: skip
    return make_manifest(**parts | changes)


def activation(**changes):
    parts = {
        "session": b64u(bytes(16)), "agent": agent_commitment(SALT, "dev"), "input_digest": None, "isolation": "gvisor",
        "challenge": b64u(bytes(32)), "expires": int(NOW.timestamp()) + 60,
        "starter": {"iss": "local", "method": "uid", "sub": b64u(bytes(32))}, "openings": None,
    }  # fmt: skip
    return make_activation(**parts | changes)


def provision(**changes) -> Provision:
    parts = {
        "manifest": manifest().raw, "activation": activation().raw, "policy": PROFILE.normal_form, "reference": b"",
        "gateway_config": b"", "collateral": b"", "gateway_url": "https://127.0.0.1:1",
        "agent": Agent("dev", SALT, None), "roots": (ROOT,), "session_dir": Path("/x"), "runtime": None,
        "rootfs": HostUsr(), "backend": BackendName.GVISOR, "secrets": None,
    }  # fmt: skip
    return Provision(**parts | changes)


def registers(**changes) -> TDRegisters:
    zero = bytes(48)
    parts = {
        "td_id": bytes(32), "td_attributes": bytes(8), "xfam": bytes(8), "mrtd": zero,
        "mrconfigid": mrconfigid(manifest()), "mrowner": zero, "mrownerconfig": zero, "rtmrs": (zero,) * 4,
    }  # fmt: skip
    return TDRegisters(**parts | changes)


def checked(given: Provision | None = None, found: TDRegisters | None = None, *, build: str = BUILD):
    return check_launch(given or provision(), found or registers(), build=build, now=NOW)


def test_what_agrees_is_a_launch() -> None:
    launch = checked()
    assert launch.policy.digest == PROFILE.digest
    assert (launch.facts.name, launch.facts.digest, launch.facts.file_digest) == (
        "dev",
        PROFILE.digest,
        DIGEST,
    )


def test_a_policy_swapped_after_launch_is_refused() -> None:
    with raises_code("session.profile_mismatch") as refused:
        checked(provision(policy=OTHER.normal_form))
    assert refused.value.code == "session.profile_mismatch"


def by_identity(root: bytes):
    """The profile of one who is asked, where identities are judged under ``root``."""
    who = "{issuer: 'https://accounts.tests', subject: ann@example.org}"
    section = f"{{egress: [POST], approvers: [{who}], trusted_root: {json.dumps(root.decode())}}}"
    text = f"agent_configs: {{dev: {{requires_human_approval: {section}}}}}"
    return load_profiles(text.encode()).profile("dev")


def launched_by(measured, given):
    """A TD that was launched for one profile, whose host then gives it another."""
    made = manifest(profile_digest=measured.digest)
    return checked(
        provision(manifest=made.raw, policy=given.normal_form), registers(mrconfigid=mrconfigid(made))
    )


def test_a_host_adds_no_trusted_root_and_exchanges_none() -> None:
    """Whoever could, would say who the approvers are."""
    own, theirs = (by_identity(root_of(Authority())) for _ in range(2))
    assert launched_by(own, own).policy.policy.approval.identities.names == own.policy.approval.kids
    with raises_code("session.profile_mismatch"):
        launched_by(own, theirs)
    with raises_code("session.profile_mismatch"):
        launched_by(PROFILE, theirs)


def test_a_session_whose_approvers_could_not_be_verified_does_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = by_identity(root_of(Authority()))
    empty = by_identity(b'{"mediaType":"application/vnd.dev.sigstore.trustedroot+json"}')
    with pytest.raises(TrustedRootUnusable):
        launched_by(empty, empty)
    monkeypatch.setitem(sys.modules, "affiant.attestation.signatures.sigstore.sigstore_verifier", None)
    monkeypatch.delattr("affiant.attestation.signatures.sigstore.sigstore_verifier")
    with pytest.raises(ApproverExtraMissing):
        launched_by(profile, profile)
    checked()  # whoever names no identities needs no library


@pytest.mark.parametrize("value", [bytes(48), b"\1" * 48, mrconfigid(manifest(rootfs=DIGEST))])
def test_L3_another_or_no_mrconfigid_is_refused(value: bytes) -> None:
    with raises_code("session.mrconfigid_mismatch") as refused:
        checked(found=registers(mrconfigid=value))
    assert refused.value.code == "session.mrconfigid_mismatch"


def test_a_manifest_changed_together_with_its_policy_is_refused_by_the_register() -> None:
    swapped = manifest(profile_digest=OTHER.digest)
    with raises_code("session.mrconfigid_mismatch"):
        checked(provision(manifest=swapped.raw, policy=OTHER.normal_form))


MISMATCHES = {
    "another build": {"build": "sha256:" + "0" * 64},
    "a trust root more": {"given": provision(roots=(ROOT, b"another"))},
    "a trust root less": {"given": provision(roots=())},
    "another root file system": {"given": provision(rootfs=DirectoryRoot("/image"))},
    "a runtime that the manifest does not name": {"given": provision(runtime="/runtime")},
    "isolation below the floor": {
        "given": provision(
            backend=BackendName.BUBBLEWRAP, activation=activation(isolation="bwrap-landlock").raw
        )
    },
    "a Vault that the manifest does not name": {"given": provision(vault=Vault("https://vault", (ROOT,)))},
    "another isolation than activated": {"given": provision(backend=BackendName.BUBBLEWRAP)},
    "another agent": {"given": provision(agent=Agent("root", SALT, None))},
    "another salt": {"given": provision(agent=Agent("dev", b"\1" * 16, None))},
    "a TD that was activated before": {
        "found": registers(rtmrs=(bytes(48), bytes(48), bytes(48), b"\1" * 48)),
    },
}


@pytest.mark.parametrize("wrong", MISMATCHES.values(), ids=MISMATCHES.keys())
def test_one_wrong_fact_is_refused(wrong) -> None:
    with raises_code("session.provision_mismatch") as refused:
        checked(wrong.get("given"), wrong.get("found"), build=wrong.get("build", BUILD))
    assert refused.value.code == "session.provision_mismatch"


@pytest.mark.parametrize("name", ["a trust root more", "a Vault that the manifest does not name"])
def test_whole_collections_are_not_in_the_error(name: str) -> None:
    wrong = MISMATCHES[name]
    with raises_code("session.provision_mismatch") as refused:
        checked(wrong.get("given"), wrong.get("found"))
    assert (refused.value.expected, refused.value.found) == (None, None)


def test_an_expired_activation_is_refused() -> None:
    with raises_code("session.expired"):
        checked(provision(activation=activation(expires=int(NOW.timestamp())).raw))


@pytest.mark.parametrize("name", ["manifest", "activation", "policy"])
def test_a_document_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(AffiantError):
        checked(replace(provision(), **{name: b"{}"}))


def test_rtmr3_gets_the_sessions_events_in_their_order() -> None:
    class Recording:
        def __init__(self) -> None:
            self.events: list[Event] = []

        def extend(self, event: Event) -> None:
            self.events.append(event)

    td, launch = Recording(), checked()
    log = extend_session_events(td, launch)
    assert tuple(event.name for event in td.events) == SESSION_EVENT_ORDER
    assert log.events(3) == tuple(td.events)
    assert [event.payload for event in td.events] == [
        payload for _, payload in session_events(launch.manifest, launch.activation)
    ]
