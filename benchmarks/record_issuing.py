"""What one `inference` record costs its signer: processor time of the thread that makes it, no waiting for disks.

The peers sign what the record says, its JSON once, with no closed shape, no salts and no digests.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_platform
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.receipt import Issued
from affiant.attestation.records.sealed_disclosures import SessionSealing, recipient
from affiant.attestation.schema.records import shape_of
from affiant.gateway.sessions.recorder import policy_members
from affiant.gateway.sessions.sessions import Session
from benchmarks.timing import Figure, interleaved

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "attestation"))

COUNT = 1000
DIGEST = "sha256:" + "5" * 64


class Unsigned(Signer):
    """Signs nothing, so that all other work is what is measured."""

    def sign(self, message: bytes) -> bytes:  # noqa: ARG002 - a signer's method
        return bytes(64)


def measure() -> list[Figure]:
    """The rows of the table."""
    from story import Story  # noqa: PLC0415 - the tests' folder is no package

    shape_of("inference", role="gateway", cls="simulated").compile()  # as at a gateway's boot
    key = ec.generate_private_key(ec.SECP256R1())
    story = Story().tell()
    told = next(r for r in story.gateway_records if r.payload["kind"] == "inference")
    given = {"agt", "pol", "req", "res", "mdl", "use", "up", "att", "peer", "cseq"}
    clear = _without_digests({name: value for name, value in told.payload.items() if name in given})
    assert isinstance(clear, dict)
    issue = {
        signer: _issuing(
            ChainSigner(
                signer=signer,
                statement=story.gateway_statement,
                chn=story.gateway.chn,
                evd=story.gateway.evd,
                random_bytes=os.urandom,
                clock=lambda: datetime.now(UTC),
            ),
            clear,
        )
        for signer in (Unsigned(key), Signer(key))
    }
    unsigned, signed = issue.values()
    signer, message = Signer(key), signed().jws.encode()
    made, to = signed(), recipient(X25519PrivateKey.generate())
    sealing = SessionSealing(to=to, session=story.session, kid=signer.kid, random_bytes=os.urandom)
    rows = [
        ("a record, all but its signature", unsigned, "ES256", lambda: signer.sign(message)),
        ("a signed record", signed, "PyJWT encode", lambda: jwt.encode(dict(made.payload), key, "ES256")),
        (
            "sealed disclosures",
            lambda: sealing.seal(made.disclosures, rh=made.rh),
            "ES256",
            lambda: signer.sign(message),
        ),
    ]
    figures = [_figure(*row) for row in rows]
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_platform(Path(folder) / "platform") as platform,
        in_process(platform, Path(folder) / "store") as gateway,
    ):
        client = SessionClient.start(gateway, platform, openings=X25519PrivateKey.generate())
        session = gateway.service.sessions.by_id(client.id)
        assert session is not None
        found, recorder = session, gateway.service.recorder

        async def whole() -> Figure:
            members, hidden = _said(clear, found)
            return _figure(
                "a session's record, sealed and appended",
                lambda: recorder.session_record(found, "inference", members, hidden, number=None, cseq=0),
                "PyJWT encode",
                lambda: jwt.encode(dict(made.payload), key, "ES256"),
            )

        figures.append(gateway.run(whole()))
        client.close()
    return figures


def _figure(name: str, ours: Callable[[], object], peer: str, beside: Callable[[], object]) -> Figure:
    took, peer_took = interleaved(ours, beside, count=COUNT, clock=time.thread_time)
    return Figure(name, took * 1e6, "us", peer, peer_took * 1e6)


HIDDEN = {
    "": {"trc": {"t": "a" * 32, "s": "b" * 16}},
    "req": {"dig": DIGEST, "fwd": DIGEST, "len": 4096},
    "res": {"dig": DIGEST, "len": 2048},
    "mdl": {"prm": {"temperature": "0.7", "max_tokens": "256"}},
    "use": {"in": 812, "out": 256},
    "pol": {"rules": ["models[0]", "limits.requests"]},
}


def _issuing(chain: ChainSigner, clear: dict[str, object]) -> Callable[[], Issued]:
    hidden = {**HIDDEN, "agt": {"user": "5" * 43}}
    return lambda: chain.issue("inference", {**clear, "fet": {}}, hidden)


def _said(
    clear: dict[str, object], session: Session
) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
    own = {name: value for name, value in clear.items() if name not in ("agt", "peer")}
    return {**own, "fet": {}, "pol": policy_members(session, "allow")}, HIDDEN


def _without_digests(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_digests(item) for name, item in value.items() if name != "_sd"}
    return [_without_digests(item) for item in value] if isinstance(value, list) else value
