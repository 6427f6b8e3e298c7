"""What is said of the gateway is what the manifest names, or nothing is started and nothing of it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from tests.raising import raises_code
from tests.sandbox.supervisor.launch.test_launch_check import BUILD, NOW, manifest, provision, registers

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.manifest import GatewayIdentity, Manifest, mrconfigid
from affiant.sandbox.supervisor import starting
from affiant.sandbox.supervisor.gateway.appraise_gateway import pinned_gateway
from affiant.sandbox.supervisor.starting import Opening, start

GIVEN: Mapping[str, bytes] = {"config": b"x", "reference": b"y"}


def named() -> Manifest:
    digests = {name: sha256_name(data) for name, data in GIVEN.items()}
    return manifest(
        gateway=GatewayIdentity("log.example", digests["reference"], digests["config"], "simulated")
    )


@pytest.mark.parametrize("what", ["config", "reference"])
def test_other_pins_than_the_manifests_are_refused(what: str) -> None:
    with raises_code("session.provision_mismatch"):
        pinned_gateway(named(), **{**GIVEN, what: os.urandom(8)})


@pytest.mark.parametrize("what", ["gateway_config", "reference"])
def test_no_broker_is_started_for_another_gateway_than_the_manifest_names(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(starting, "spawn_children", lambda *_: pytest.fail("the children were started"))
    right = provision(manifest=named().raw, gateway_config=GIVEN["config"], reference=GIVEN["reference"])
    td = SimpleNamespace(report=lambda: registers(mrconfigid=mrconfigid(named())))
    opening = SimpleNamespace(
        provision=replace(right, **{what: os.urandom(8)}),
        around=SimpleNamespace(td=td, build=BUILD, clock=lambda: NOW),
    )
    with raises_code("session.provision_mismatch"):
        start(cast("Opening", opening))
