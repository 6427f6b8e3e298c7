"""A bundle carries the first anchor beside the log that covers its records; what does not hold is left out."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import Encoding
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient
from tests.sigstore_authority.authority import Authority, encoded
from tests.sigstore_authority.serving import Deployment, serve
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority
from tests.timestamp_authority.authority import TimestampAuthority
from tests.timestamp_authority.serving import served

from affiant.__main__ import cli
from affiant.attestation.bundle.bundle import Bundle, parse_bundle
from affiant.attestation.signatures.sigstore.sigstore_anchor import checkpoint_statement
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.log.transparency_log import log_folder


def ended_session(inside: InProcess, platform: PlatformClient) -> SessionClient:
    session = SessionClient.start(inside, platform)
    session.say("hi")
    session.submit(session.end_record())
    session.close()
    inside.run(inside.service.log.include())
    return session


def folder_of(inside: InProcess, store: Path) -> Path:
    return log_folder(store, inside.service.log.origin)


def bundle_of(session: SessionClient) -> Bundle:
    return parse_bundle(json.dumps(session.bundle()["bundle"]).encode())


def judged(inside: InProcess, bundle: Bundle, root: str, **more: object) -> Verdict:
    reference = inside.service.admissions.appraiser.reference.raw
    document = json.loads(simulated_trust_file(reference, datetime.now(UTC)))
    document |= {"tsa_roots": [{"value": {"certificate": root}}], **more}
    trust = parse_trust_file(json.dumps(document).encode())
    return verify_bundle(
        bundle.to_bytes(), trust, verifiers=STANDARD_VERIFIERS, at=datetime.now(UTC), build="b"
    )


def test_the_operator_anchors_and_bundles_from_then_on_carry_it(
    platform: PlatformClient, tmp_path: Path
) -> None:
    authority = TimestampAuthority(tmp_path / "tsa")
    with in_process(platform, tmp_path / "store") as inside, served(authority) as tsa:
        session = ended_session(inside, platform)
        assert bundle_of(session).anchors.tsr == ()
        folder = folder_of(inside, tmp_path / "store")
        vkey = inside.service.log.report()["vkey"]
        options = ["--key", vkey, "--tsa", tsa.url, "--tsa-root", authority.root]
        done = CliRunner().invoke(cli, [str(each) for each in ("log", "anchor", folder, *options)])
        assert done.exit_code == 0, done.output
        later = ended_session(inside, platform)
        found = bundle_of(session)
        assert len(found.anchors.tsr) == 1 and found.anchors.tsr[0].consistency
        row = next(
            check
            for check in judged(inside, found, authority.root.read_text()).checks
            if check.code == "time.tsa"
        )
        assert (row.state, row.tier) == (State.HELD, Tier.AFFIRMING), row
        assert bundle_of(later).anchors.tsr == (), "what came after it is not covered"
    with in_process(platform, tmp_path / "store") as again:
        assert again.service.log.head.checkpoint.size > 0, "the log goes on beside its anchors"


@pytest.mark.parametrize("harm", ["another log's note", "no token", "cut token", "another size", "a folder"])
def test_what_does_not_hold_is_left_out_and_the_bundle_is_given(
    platform: PlatformClient, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    with in_process(platform, tmp_path / "store") as inside:
        session = ended_session(inside, platform)
        head = inside.service.log.head
        anchors = folder_of(inside, tmp_path / "store") / "anchors"
        anchors.mkdir()
        size, note = head.checkpoint.size, head.note.to_bytes()
        token = DatedAuthority().stamp(bytes(32), at=datetime.now(UTC))
        if harm == "another log's note":
            note = note.replace(note.split(b"\n")[0], b"elsewhere.invalid/1")
        elif harm == "another size":
            size += 7
        elif harm == "no token":
            token = b""
        elif harm == "cut token":
            token = token[:-1]
        (anchors / f"{size}.note").write_bytes(note)
        if harm == "a folder":
            (anchors / f"{size}.tsr").mkdir()
        else:
            (anchors / f"{size}.tsr").write_bytes(token)
        found = bundle_of(session)
        assert found.anchors.tsr == ()
        assert "left out of a bundle" in caplog.text


def test_a_true_anchor_by_an_authority_that_nobody_named_is_carried_and_refused_by_its_reader(
    platform: PlatformClient, tmp_path: Path
) -> None:
    stranger, known = DatedAuthority(), DatedAuthority()
    with in_process(platform, tmp_path / "store") as inside:
        session = ended_session(inside, platform)
        head = inside.service.log.head
        anchors = folder_of(inside, tmp_path / "store") / "anchors"
        anchors.mkdir()
        (anchors / f"{head.checkpoint.size}.note").write_bytes(head.note.to_bytes())
        digest = hashlib.sha256(head.note.text.encode()).digest()
        (anchors / f"{head.checkpoint.size}.tsr").write_bytes(stranger.stamp(digest, at=datetime.now(UTC)))
        pem = known.root.public_bytes(Encoding.PEM).decode()
        verdict = judged(inside, bundle_of(session), pem)
        assert next(c for c in verdict.checks if c.code == "time.tsa").reason == "anchor.untrusted"


IDENTITY = "ops@operator.example"


def sigstore_root(deployment: Deployment) -> list[dict[str, object]]:
    root = {"trusted_root": deployment.authority.trusted_root(), "identity": IDENTITY}
    return [{"value": {**root, "issuer": deployment.issuer}}]


def test_a_signature_by_sigstore_is_carried_beside_a_token_and_its_reader_holds_it(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with in_process(platform, tmp_path / "store") as inside, serve(Authority()) as deployment:
        session = ended_session(inside, platform)
        folder = folder_of(inside, tmp_path / "store")
        (tmp_path / "config.json").write_bytes(encoded(deployment.trust_config()))
        options = ["--key", inside.service.log.report()["vkey"], "--sigstore", "--trust-config"]
        command = ["log", "anchor", folder, *options, tmp_path / "config.json"]
        token = {"SIGSTORE_IDENTITY_TOKEN": deployment.token(IDENTITY)}
        done = CliRunner().invoke(cli, [str(each) for each in command], env=token)
        assert done.exit_code == 0, done.output
        later = ended_session(inside, platform)
        found = bundle_of(session)
        assert len(found.anchors.sigstore) == 1 and found.anchors.sigstore[0].consistency
        authority = DatedAuthority().root.public_bytes(Encoding.PEM).decode()
        verdict = judged(inside, found, authority, sigstore_root=sigstore_root(deployment))
        row = next(check for check in verdict.checks if check.code == "time.sigstore")
        assert (row.state, row.tier) == (State.HELD, Tier.AFFIRMING), row
        assert bundle_of(later).anchors.sigstore == (), "what came after it is not covered"


@pytest.mark.parametrize("harm", ["another log's note", "another statement", "cut", "empty", "a folder"])
def test_a_signature_that_does_not_hold_is_left_out_and_a_token_is_not(
    platform: PlatformClient, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    with in_process(platform, tmp_path / "store") as inside:
        session = ended_session(inside, platform)
        head = inside.service.log.head
        anchors = folder_of(inside, tmp_path / "store") / "anchors"
        anchors.mkdir()
        size, note = head.checkpoint.size, head.note.to_bytes()
        if harm == "another log's note":
            note = note.replace(note.split(b"\n")[0], b"elsewhere.invalid/1")
        text = head.note.text + ("more\n" if harm == "another statement" else "")
        now = datetime.now(UTC)
        signed = encoded(Authority().sign(checkpoint_statement(text), identity=IDENTITY, issuer="i", at=now))
        signed = {"cut": signed[:-1], "empty": b""}.get(harm, signed)
        (anchors / f"{size}.note").write_bytes(note)
        digest = hashlib.sha256(head.note.text.encode()).digest()
        (anchors / f"{size}.tsr").write_bytes(DatedAuthority().stamp(digest, at=now))
        if harm == "a folder":
            (anchors / f"{size}.sigstore.json").mkdir()
        else:
            (anchors / f"{size}.sigstore.json").write_bytes(signed)
        found = bundle_of(session)
        assert found.anchors.sigstore == ()
        assert len(found.anchors.tsr) == (harm != "another log's note")
        assert "left out of a bundle" in caplog.text
