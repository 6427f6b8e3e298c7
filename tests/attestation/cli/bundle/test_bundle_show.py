"""``affiant bundle show``: what a bundle says of itself, unverified, both forms."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.attestation.period_builder import build
from tests.attestation.story import Story
from tests.attestation.verifier.test_verify_bundle import at

from affiant.attestation.cli.bundle.bundle_show import show


def told(answered: str | None) -> Story:
    return Story(alter=at("inference", mdl={"id": "gpt-4o", "ans": answered}))


def shown(file: Path) -> dict:
    return json.loads(CliRunner().invoke(show, [str(file), "--json"]).output)


def test_a_bundle_shows_the_models_asked_for_and_those_that_answered(tmp_path: Path) -> None:
    file = tmp_path / "session.affiant.json"
    for answered in ("tiny-model-q4", None):
        file.write_bytes(told(answered).bytes())
        assert shown(file)["models"] == [{"asked": "gpt-4o", "answered": answered, "requests": 1}]
    text = CliRunner().invoke(show, [str(file)]).output
    assert "gpt-4o" in text


def test_a_name_in_a_bundle_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "session.affiant.json"
    file.write_bytes(told("\u202etiny").bytes())
    assert "\u202e" not in CliRunner().invoke(show, [str(file)]).output


def test_a_period_shows_them_too(tmp_path: Path) -> None:
    file = build(tmp_path, told("tiny-model-q4"))
    assert {"asked": "gpt-4o", "answered": "tiny-model-q4", "requests": 1} in shown(file)["models"]
