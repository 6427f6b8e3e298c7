"""A template and a session come apart or together, and a template brings nothing of a session."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.sandbox.supervisor.launch.control import Message
from affiant.sandbox.supervisor.launch.provision import (
    Template,
    parse_activation_message,
    parse_provision,
    parse_template,
)

TEMPLATE: dict[str, Any] = {
    **{
        name: b64u(name.encode())
        for name in ("manifest", "policy", "reference", "gateway_config", "collateral")
    },
    "gateway_url": "https://127.0.0.1:1",
    "roots": [b64u(b"a root")],
    "session_dir": "/x",
    "runtime": None,
    "rootfs": "host-usr",
    "isolation": "gvisor",
}
SESSION: dict[str, Any] = {
    "activation": b64u(b"activation"),
    "agent": {"name": "dev", "salt": "00" * 16, "user": None},
    "resources": None,
    "signature": None,
}
VAULT = {"vault": {"address": "https://vault", "roots": []}}


def test_a_session_is_the_same_whether_its_template_came_before_or_with_it() -> None:
    template = parse_template(Message({"op": "warm", **TEMPLATE}))
    apart = parse_activation_message(template, Message({"op": "activate", **SESSION}))
    assert apart == parse_provision(Message({"op": "provision", **TEMPLATE, **SESSION}))
    assert all(getattr(apart, each.name) == getattr(template, each.name) for each in fields(Template))


def test_an_activation_cannot_change_the_template() -> None:
    template = parse_template(Message({"op": "warm", **TEMPLATE}))
    other = {**TEMPLATE, "policy": b64u(b"other"), "session_dir": "/y", "isolation": "bwrap"}
    taken = parse_activation_message(template, Message({"op": "activate", **other, **SESSION}))
    assert (taken.policy, taken.session_dir, taken.backend) == (
        template.policy,
        template.session_dir,
        template.backend,
    )


@pytest.mark.parametrize("member", [*SESSION, "decisions"])
def test_a_template_with_a_part_of_a_session_is_rejected(member: str) -> None:
    with raises_code("session.control"):
        parse_template(Message({"op": "warm", **TEMPLATE, member: SESSION.get(member, False)}))


def test_a_template_with_a_descriptor_is_rejected() -> None:
    with raises_code("session.control"):
        parse_template(Message({"op": "warm", **TEMPLATE}, {"secret_store": 9}))


@pytest.mark.parametrize("operation", ["warm", "provision", "finish", None])
def test_a_supervisor_that_waits_takes_nothing_but_an_activation(operation: str | None) -> None:
    template = parse_template(Message({"op": "warm", **TEMPLATE}))
    with raises_code("session.control"):
        parse_activation_message(template, Message({"op": operation, **TEMPLATE, **SESSION}))


@pytest.mark.parametrize(("vault", "token"), [(VAULT, {}), ({}, {"vault_token": 9})])
def test_a_vault_comes_with_a_token_and_a_token_with_a_vault(
    vault: dict[str, Any], token: dict[str, int]
) -> None:
    template = parse_template(Message({"op": "warm", **TEMPLATE, **vault}))
    with raises_code("session.control"):
        parse_activation_message(template, Message({"op": "activate", **SESSION}, token))
