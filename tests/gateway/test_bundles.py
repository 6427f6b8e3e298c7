"""A session's bundle, opened by whoever started it, is what the offline verifier accepts; as simulated."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient, opened

from affiant.__main__ import cli
from affiant.attestation.receipt import receipt_hash
from affiant.attestation.simulated.client import PlatformClient
from affiant.attestation.trust_file import simulated_trust_file


def with_openings(answer: dict, key: X25519PrivateKey) -> dict:
    """The bundle with the disclosures that ``key`` opens."""
    disclosures = opened(answer, key)
    document = answer["bundle"]
    for entry in document["receipts"]:
        jws = entry["sdjwt"].rstrip("~")
        entry["sdjwt"] = "~".join([jws, *disclosures.get(receipt_hash(jws), ()), ""])
    return document


@pytest.fixture
def verified(platform: PlatformClient, tmp_path: Path) -> dict:
    key = X25519PrivateKey.generate()
    with in_process(platform, tmp_path / "store") as inside:
        session, other = (SessionClient.start(inside, platform, openings=key) for _ in range(2))
        session.say("hi")
        other.say("between")
        session.say("hi", stream=True)
        session.say('call_tool:read_file {"a": 1}', stream=True)
        session.say("call_tool:rm {}")
        session.chat(b"garbage")
        intent = session.exec_record()
        session.submit(intent)
        session.submit(session.end_record())
        session.close()
        document = with_openings(session.bundle(), key)
        trust = simulated_trust_file(inside.service.admissions.appraiser.reference.raw, datetime.now(UTC))
    (tmp_path / "trust.json").write_bytes(trust)
    (tmp_path / "bundle.affiant.json").write_text(json.dumps(document))
    shown = CliRunner().invoke(
        cli,
        [
            "verify",
            str(tmp_path / "bundle.affiant.json"),
            "--trust",
            str(tmp_path / "trust.json"),
            "--session",
            session.id,
            "--json",
        ],
    )
    assert shown.exit_code == 40, shown.output
    return json.loads(shown.output)


def test_the_verifier_contradicts_nothing(verified: dict) -> None:
    assert [c for c in verified["checks"] if c.get("tier") == "contraindicated"] == []
    by_code = {check["code"]: check for check in verified["checks"]}
    for code in (
        "sig.receipts",
        "chain.contiguous",
        "session.order",
        "session.close",
        "session.counter",
        "session.peer",
        "conf.bound",
        "pol.bound",
        "peer.bound",
        "peer.ear",
        "tee.appraisal",
    ):
        assert by_code[code]["tier"] == "affirming", by_code[code]
