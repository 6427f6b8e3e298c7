"""Receipts checked per second, against PyJWT's decode of the same JWS."""

from __future__ import annotations

import sys
from pathlib import Path

import jwt

from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.records.receipt import parse_receipt, verify_receipt
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from benchmarks.timing import Figure, interleaved, seconds

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "attestation"))


def measure() -> list[Figure]:
    from story import NOW, Story, trust  # noqa: PLC0415 - the tests' folder is no package

    story = Story().tell()
    record = next(r for r in story.gateway_records if r.payload["kind"] == "inference")
    key = jwt.PyJWK({**public_jwk(story.gateway_signer.public_key), "alg": "ES256"}).key
    options = {"verify_aud": False, "verify_iat": False, "verify_iss": False, "verify_exp": False}
    ours, peer = interleaved(
        lambda: verify_receipt(parse_receipt(record.sdjwt), story.gateway_statement),
        lambda: jwt.decode(record.jws, key, algorithms=["ES256"], options=options),
        count=300,
    )
    data, accepted = story.bytes(), trust()
    whole = seconds(
        lambda: verify_bundle(data, accepted, verifiers=STANDARD_VERIFIERS, at=NOW, build="bench"), 20
    )
    return [
        Figure("receipts checked", 1 / ours, "per second", "PyJWT decode", 1 / peer),
        Figure(
            "one session's bundle",
            whole * 1000,
            "ms",
            "its receipts alone",
            ours * len(story.bundle().receipts) * 1000,
        ),
    ]
