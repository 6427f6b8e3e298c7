"""Manifest, initdata, activation: closed, canonical, and each fact changes what is measured."""

from __future__ import annotations

import hashlib
import json
import tomllib

import pytest
from tests.attestation.story import Story

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.statements.manifest import (
    agent_commitment,
    initdata,
    mrconfigid,
    parse_activation,
    parse_manifest,
    session_events,
)
from affiant.errors import AffiantError

STORY = Story().tell()
MANIFEST = json.loads(STORY.manifest.raw)
ACTIVATION = json.loads(STORY.activation.raw)

CHANGES = [
    {"profile": {**MANIFEST["profile"], "dig": "sha384:" + "1" * 96}},
    {"profile": {**MANIFEST["profile"], "fil": "sha256:" + "1" * 64}},
    {"supervisor": "sha256:" + "1" * 64},
    {"rootfs": "sha256:" + "1" * 64},
    {"runtime": "sha256:" + "1" * 64},
    {"isolation_floor": "namespace"},
    {"gateway": {**MANIFEST["gateway"], "config": "sha256:" + "1" * 64}},
    {"gateway": {**MANIFEST["gateway"], "reference": "sha256:" + "1" * 64}},
    {"vault": {"address": "https://vault", "ca": "sha256:" + "1" * 64}},
    {"hosts": {"api.internal": ["10.0.0.1"]}},
    {"upstream_roots": ["sha256:" + "1" * 64]},
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_fact_changes_mrconfigid(change: dict[str, object]) -> None:
    assert mrconfigid(parse_manifest(canonical({**MANIFEST, **change}))) != mrconfigid(STORY.manifest)


def test_mrconfigid_is_sha384_of_the_initdata_without_padding() -> None:
    assert mrconfigid(STORY.manifest) == hashlib.sha384(initdata(STORY.manifest)).digest()
    assert len(mrconfigid(STORY.manifest)) == 48


def test_initdata_is_toml_that_carries_the_very_manifest() -> None:
    document = tomllib.loads(initdata(STORY.manifest).decode())
    assert document["data"]["affiant-manifest.json"].encode() == STORY.manifest.raw
    assert "ExecProcessRequest := false" in document["data"]["policy.rego"]
    assert document["algorithm"] == "sha384"


@pytest.mark.parametrize(
    "change",
    [
        {"typ": "affiant-manifest/2"},
        {"cls": "hardware"},
        {"extra": 1},
        {"isolation_floor": "none"},
        {"rootfs": "/usr"},
        {"hosts": {"UPPER": ["10.0.0.1"]}},
        {"hosts": {"a": []}},
        {"hosts": {"a'''b": ["10.0.0.1"]}},
        {"vault": {"address": "x'''\n", "ca": "sha256:" + "1" * 64}},
        {"upstream_roots": ["sha256:" + "2" * 64, "sha256:" + "1" * 64]},
        {"upstream_roots": ["sha256:" + "1" * 64] * 2},
        {"gateway": {**MANIFEST["gateway"], "origin": None}},
    ],
)
def test_a_manifest_of_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(AffiantError):
        initdata(parse_manifest(canonical({**MANIFEST, **change})))


@pytest.mark.parametrize(
    "change",
    [{"ses": "short"}, {"exp": -1}, {"agent": "name"}, {"openings": "x"}, {"extra": 1}, {"starter": {}}],
)
def test_an_activation_of_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(AffiantError):
        parse_activation(canonical({**ACTIVATION, **change}))


def test_the_five_events_are_in_their_order_and_name_both_documents() -> None:
    events = session_events(STORY.manifest, STORY.activation)
    assert [name for name, _ in events] == [
        "affiant-manifest",
        "affiant-profile",
        "affiant-images",
        "affiant-activate",
        "affiant-ready",
    ]
    assert events[0][1] == {"man": STORY.manifest.digest}
    assert events[3][1] == {"act": STORY.activation.digest}


def test_the_agents_name_is_committed_to_and_not_shown() -> None:
    one, other = agent_commitment(b"a" * 16, "agent"), agent_commitment(b"b" * 16, "agent")
    assert one != other
    assert "agent" not in json.dumps(ACTIVATION["agent"])
