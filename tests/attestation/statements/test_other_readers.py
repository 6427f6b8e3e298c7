"""Attestation results, as veraison's crate `ear` reads them: the draft's names, and our declared extension."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.story import Story
from tests.attestation.vector_bundles import vector_bundle
from tests.other_readers import rust_reader

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.keys import public_jwk, public_key_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reader() -> Path:
    return rust_reader("ear")


def read(reader: Path, token: str, key: ec.EllipticCurvePublicKey) -> tuple[int, str]:
    """The exit code, and what the crate writes again."""
    done = subprocess.run(
        [reader],
        input=f"{token}\n{json.dumps(public_jwk(key))}",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.strip()


def payload_of(token: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(from_b64u(token.split(".")[1]))
    return document


def results_of(case: str) -> list[tuple[str, ec.EllipticCurvePublicKey]]:
    """The results in a published bundle, each with the key that its gateway's keyset names."""
    bundle = json.loads(vector_bundle(case))
    statements = [json.loads(from_b64u(raw)) for raw in bundle["keysets"].values()]
    keys = [key["jwk"] for each in statements for key in each["keys"] if key["use"] == "ear"]
    return [(from_b64u(raw).decode("ascii"), public_key_of(keys[0])) for raw in bundle["results"].values()]


def test_the_crate_reads_every_member_of_a_result(reader: Path) -> None:
    story = Story().tell()
    code, text = read(reader, story.ear, story.ear_signer.public_key)
    assert code == 0, text
    said = json.loads(text)
    issued = payload_of(story.ear)
    issuer = issued.pop("iss")
    assert said.pop("iss") == issuer
    assert said == issued


def test_the_crate_reads_the_results_of_published_bundles(reader: Path) -> None:
    ((token, key),) = results_of("valid/inference")
    code, text = read(reader, token, key)
    assert code == 0, text
    appraised = json.loads(text)["submods"]["session"]
    assert appraised["eat_profile"] == "tag:affiant.dev,2026:ear/2"
    assert appraised["ear_status"] == "none"
    assert appraised["affiant.dev/appraisal"]["cls"] == "simulated"


def test_the_crate_takes_neither_the_earlier_form_nor_another_signature(reader: Path) -> None:
    ((earlier, key),) = results_of("valid/result-of-an-earlier-release")
    assert read(reader, earlier, key)[0] == 1
    story = Story().tell()
    assert read(reader, story.ear, key)[0] == 1
