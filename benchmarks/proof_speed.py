"""A proof of possession, made and checked: signed (ES256) and by MAC (HS256), against PyJWT with the same members.

Timed is this process's own time, so that other work on the machine is not counted. PyJWT makes and reads the JWS only;
ours also compares every member with the request.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.types import Options

from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.proof import MACKey, Request, issue_proof, verify_proof
from benchmarks.timing import Figure, interleaved

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
SESSION, KEYSET, BODY = "S" * 21 + "Q", "K" * 43, b'{"model":"m","messages":[]}'
REQUEST = Request.of("POST", "/v1/chat/completions", BODY, content_type="application/json")
COUNT = 300
OPTIONS: Options = {"verify_iat": False}


def measure() -> list[Figure]:
    private = ec.generate_private_key(ec.SECP256R1())
    signer, secret = Signer(private), bytes(range(32))
    shared = MACKey(secret, session=SESSION)
    return [
        *_figures("signed", signer, signer.public_key, private, private.public_key(), "ES256"),
        *_figures("by MAC", shared, shared, secret, secret, "HS256"),
    ]


def _figures(
    name: str,
    signer: Signer | MACKey,
    key: ec.EllipticCurvePublicKey | MACKey,
    peer_signer: ec.EllipticCurvePrivateKey | bytes,
    peer_key: ec.EllipticCurvePublicKey | bytes,
    algorithm: str,
) -> list[Figure]:
    def make() -> str:
        return issue_proof(signer, REQUEST, session=SESSION, cseq=7, keyset_digest=KEYSET, now=NOW)

    def check() -> None:
        verify_proof(text, REQUEST, key=key, session=SESSION, keyset_digest=KEYSET, counted=True, now=NOW)

    text = make()
    members = jwt.decode(text, peer_key, algorithms=[algorithm], options=OPTIONS)
    made, peer_made = interleaved(
        make,
        lambda: jwt.encode(members, peer_signer, algorithm=algorithm),
        count=COUNT,
        clock=time.process_time,
    )
    checked, peer_checked = interleaved(
        check,
        lambda: jwt.decode(text, peer_key, algorithms=[algorithm], options=OPTIONS),
        count=COUNT,
        clock=time.process_time,
    )
    return [
        Figure(f"a proof made, {name}", made * 1e6, "us", "PyJWT encode", peer_made * 1e6),
        Figure(f"a proof checked, {name}", checked * 1e6, "us", "PyJWT decode", peer_checked * 1e6),
    ]
