"""A witness's configuration: closed, strict, and at least one log."""

from __future__ import annotations

import pytest
from tests.attestation.log_builder import ORIGIN, cosigner, log_signer
from tests.raising import raises_code

from affiant.attestation.log.witness.config import logs_of, parse_config, parse_listen

VKEY = log_signer().verifier.vkey()


def test_keys_are_gathered_by_origin() -> None:
    second = log_signer(label="second").verifier
    found = parse_config(
        f"logs:\n  - {VKEY}\n  - {second.vkey()}\nlisten: 127.0.0.1:0\n".encode(), source="w.yaml"
    )
    assert found.logs == {ORIGIN: (log_signer().verifier, second)} and found.listen == "127.0.0.1:0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "logs: []",
        "logs: x",
        "logs: [x]",
        "listen: 127.0.0.1:1",
        f"logs: [{VKEY}, {VKEY}]",
        f"logs: [{VKEY}]\nmore: 1",
        f"logs: [{VKEY}]\nlisten: [1]",
        f"logs: [[{VKEY}]]",
        f"logs: [{cosigner(1).verifier.vkey()}]",
        f"- {VKEY}",
        "logs: &a [*a]",
    ],
)
def test_another_form_is_refused(text: str) -> None:
    with raises_code("witness.settings"):
        parse_config(text.encode(), source="w.yaml")


def test_addresses() -> None:
    assert parse_listen("[::1]:80") == ("::1", 80)
    for text in ("", "80", ":80", "host:", "host:99999", "host:-1", "host:٣"):
        with raises_code("witness.settings"):
            parse_listen(text)
    with raises_code("witness.settings"):
        logs_of([])
