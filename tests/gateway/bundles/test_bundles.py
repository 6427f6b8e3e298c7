"""A session's bundle, opened by whoever started it, is what the offline verifier accepts; as simulated."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient, opened
from tests.raising import raises_code

from affiant.__main__ import cli
from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.records.receipt import parse_receipt, receipt_hash
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.bundles.bundles import Bundles
from affiant.gateway.bundles.export import Asked, export_period
from affiant.gateway.bundles.period_store import open_store
from affiant.gateway.store.index import Extent, Index


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


def test_a_session_whose_gateway_died_is_lost_and_not_open(platform: PlatformClient, tmp_path: Path) -> None:
    """The first boot ends like a crash; the next one discloses that, and both sessions' bundles carry it."""
    store = tmp_path / "store"
    with in_process(platform, store) as inside:
        sessions = [SessionClient.start(inside, platform) for _ in range(2)]
        sessions[0].say("hi")
        reference = inside.service.admissions.appraiser.reference.raw
    with in_process(platform, store) as inside:  # dies too, and must not speak for the first
        SessionClient.start(inside, platform)
    with in_process(platform, store) as inside:
        bundles = [json.loads(inside.run(inside.service.bundles.of_session(each.id))) for each in sessions]
        living = SessionClient.start(inside, platform)
        bundles.append(living.bundle())
    now = datetime.now(UTC)
    trust = parse_trust_file(simulated_trust_file(reference, now))
    for document, lost in zip(bundles, (1, 1, 0), strict=True):
        verdict = verify_bundle(
            json.dumps(document["bundle"]).encode(),
            trust,
            verifiers=STANDARD_VERIFIERS,
            at=now,
            build="a test",
        )
        refused = [check for check in verdict.checks if check.state is State.REFUSED]
        assert not refused, refused
        assert (verdict.population.lost, verdict.population.open) == (lost, 1 - lost)
        assert verdict.population.kinds.get("gap", 0) == lost


async def nothing(*_: object) -> Extent:
    return Extent(0, 0)


def test_nothing_is_read_of_a_bundle_that_would_be_too_large_and_its_session_can_be_exported(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, place = tmp_path / "store", tmp_path / "one.affiant.zip"
    with in_process(platform, store) as inside:
        session = SessionClient.start(inside, platform)
        session.say("hi")
        session.submit(session.end_record())
        session.close()
        bundles = inside.service.bundles
        whole = inside.run(bundles.of_session(session.id))
        with monkeypatch.context() as patched:
            patched.setattr(Bundles, "_records", None)
            patched.setattr(Bundles, "_peers", None)
            patched.setattr(Index, "chain", None)
            patched.setattr(Index, "peers", None)
            with raises_code("session.bundle_too_large"):
                inside.run(replace(bundles, most=len(whole) - 1).of_session(session.id))
        with monkeypatch.context() as patched:
            patched.setattr(Index, "extent", nothing)
            with raises_code("session.bundle_too_large"):
                inside.run(replace(bundles, most=len(whole) - 1).of_session(session.id))
            assert inside.run(replace(bundles, most=len(whole)).of_session(session.id)) == whole
        export_period(open_store(store), Asked(None, None, (session.id,)), place, exporter="test")
    with PeriodBundle(place) as archive:
        found = [parse_object(parse_receipt(text).split.payload)["kind"] for text in archive.receipts()]
    assert "session-close" in found and found.count("session-start") == 1


def test_other_sessions_records_meanwhile_and_the_proofs_count_too(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_process(platform, tmp_path / "store") as inside:
        session = SessionClient.start(inside, platform)
        index = inside.service.bundles.index
        inside.run(index.caught_up())
        (start,) = inside.run(index.session_ends(session.id))

        def extent() -> Extent:
            return inside.run(index.extent(start.boot, session.id, start.seq - 1, 1 << 53))

        before = extent()
        other = SessionClient.start(inside, platform)
        other.say("hi")
        inside.run(index.caught_up())
        between = extent()
        assert between.records > before.records
        assert between.size > before.size
        session.submit(session.end_record())
        inside.run(index.caught_up())
        counted = extent()
        assert counted.records == between.records + 1
        with monkeypatch.context() as patched:
            patched.setattr(Bundles, "_records", None)
            most = counted.size + 300 * counted.records  # without the proofs it would fit
            with raises_code("session.bundle_too_large"):
                inside.run(replace(inside.service.bundles, most=most).of_session(session.id))


def test_a_large_bundle_is_encoded_beside_the_event_loop(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded_in: list[int] = []
    to_bytes = Bundle.to_bytes

    def noted(bundle: Bundle) -> bytes:
        encoded_in.append(threading.get_ident())
        return to_bytes(bundle)

    async def loop_thread() -> int:
        return threading.get_ident()

    monkeypatch.setattr(Bundle, "to_bytes", noted)
    with in_process(platform, tmp_path / "store") as inside:
        session = SessionClient.start(inside, platform)
        session.bundle()
        assert encoded_in
        assert inside.run(loop_thread()) not in encoded_in
