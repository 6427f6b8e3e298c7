"""The gateway answers as its OpenAPI document says, whatever it is asked, and no request is a defect."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.conftest import serving_gateway
from tests.schemathesis import found_by_schemathesis

OWN_TYPES = "^/v1/sessions$|/narrow$|/records$"
"""Paths. Their bodies are of media types that schemathesis cannot make."""


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(
    ("seconds", "examples"),
    [(15, 3), pytest.param(100, 50, marks=[pytest.mark.slow, pytest.mark.timeout(240)])],
)
def test_the_gateway_answers_as_its_document_says(
    tmp_path: Path, platform_home: Path, seconds: int, examples: int
) -> None:
    with serving_gateway(tmp_path / "home", platform_home) as running:
        document = running.gateway.ask("GET", "/openapi.json").body
        found = found_by_schemathesis(
            running.gateway.url,
            document,
            tmp_path,
            seconds=seconds,
            examples=examples,
            without=OWN_TYPES,
        )
        assert running.gateway.ask("GET", "/readyz").json() == {"ready": True}
        assert running.stop() == 0
        assert running.child.stderr is not None
        assert b"failed" not in running.child.stderr.read()
    assert not found, found
