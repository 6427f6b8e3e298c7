"""A bundle that was made before the anchor gets the first one that covers it, and `affiant verify` then holds it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.anchors.conftest import stamped
from tests.attestation.log_builder import LogBuilder, chain
from tests.attestation.story import NOW, Story, leaf_of, trust
from tests.raising import raises_code
from tests.sigstore_authority.authority import Authority, encoded
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority

from affiant.__main__ import cli
from affiant.attestation.anchors.adding import add_anchors
from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.bundle.bundle import Bundle, parse_bundle
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.signatures.sigstore.sigstore_anchor import checkpoint_statement
from affiant.attestation.signatures.timestamps.errors import AnchorAbsent, AnchorSettingsInvalid
from affiant.attestation.tlog.errors import NoteSignatureInvalid
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle


class Logged:
    """A story whose records are the first leaves of a log in a folder, which grows and is anchored."""

    def __init__(self, folder: Path, authority: DatedAuthority) -> None:
        self.story = Story()
        self.bundle = self.story.bundle()
        leaves = [leaf_of(each.jws) for each in (*self.story.gateway_records, *self.story.session_records)]
        self.log = LogBuilder(folder, leaves, signer=self.story.log_signer)
        self.log.sign()
        self.authority, self.anchors = authority, AnchorFolder(folder / "anchors")
        self.trust = LogTrust((self.story.log_signer.verifier,))

    def grow(self, count: int) -> None:
        self.log.add(chain(f"more {len(self.log.leaves)}", count))
        self.log.sign()

    def anchor(self, size: int) -> None:
        note = self.log.note(size)
        self.anchors.write(size, note.to_bytes(), [stamped(self.authority, at=NOW, text=note.text)])

    def added(self, bundle: Bundle | None = None) -> tuple[Bundle, int]:
        source = FolderLog(self.log.folder)
        found, (file, *_) = add_anchors(bundle or self.bundle, source, self.trust, self.anchors)
        return found, file.size

    def judged(self, bundle: Bundle) -> Verdict:
        pem = self.authority.root.public_bytes(Encoding.PEM).decode()
        return verify_bundle(
            bundle.to_bytes(),
            trust(tsa_roots=[{"value": {"certificate": pem}}]),
            verifiers=STANDARD_VERIFIERS,
            at=NOW,
            build="b",
        )


@pytest.fixture
def logged(tmp_path: Path, dated: DatedAuthority) -> Logged:
    return Logged(tmp_path / "log", dated)


@pytest.mark.parametrize("more", [0, 1, 300])
def test_the_first_anchor_that_covers_the_last_record_is_added_and_holds(logged: Logged, more: int) -> None:
    records = len(logged.log.leaves)
    logged.anchor(records - 1)
    logged.grow(more + 10)
    logged.anchor(records + more)
    logged.anchor(records + more + 10)
    found, size = logged.added()
    assert size == records + more
    row = next(check for check in logged.judged(found).checks if check.code == "time.tsa")
    assert (row.state, row.tier) == (State.HELD, Tier.AFFIRMING)
    assert parse_bundle(found.to_bytes()) == found


def test_adding_twice_changes_nothing_and_a_renewal_takes_the_anchors_place(logged: Logged) -> None:
    size = len(logged.log.leaves)
    logged.anchor(size)
    once, _ = logged.added()
    assert logged.added(once)[0] == once
    file = logged.anchors.read(size)
    text = file.note.decode().partition("\n\n")[0] + "\n"
    renewal = stamped(logged.authority, at=NOW, text=text, before=file.tokens)
    logged.anchors.write(size, file.note, (*file.tokens, renewal))
    renewed, _ = logged.added(once)
    assert [len(each.tokens) for each in renewed.anchors.tsr] == [2]


def test_no_anchor_that_covers_it_yet_is_said(logged: Logged) -> None:
    with pytest.raises(AnchorAbsent):
        logged.added()
    logged.anchor(len(logged.log.leaves) - 1)
    with pytest.raises(AnchorAbsent, match="last record"):
        logged.added()


def test_a_bundle_of_another_log_or_without_proofs_is_refused(logged: Logged, tmp_path: Path) -> None:
    logged.anchor(len(logged.log.leaves))
    bare = Bundle(receipts=logged.bundle.receipts)
    with pytest.raises(AnchorSettingsInvalid):
        logged.added(bare)
    stranger = LogBuilder(tmp_path / "stranger", chain("x", 3))
    with pytest.raises(NoteSignatureInvalid):
        add_anchors(
            logged.bundle, FolderLog(logged.log.folder), LogTrust((stranger.signer.verifier,)), logged.anchors
        )


def test_the_command_writes_a_bundle_and_overwrites_nothing(logged: Logged, tmp_path: Path) -> None:
    logged.anchor(len(logged.log.leaves))
    given, wanted = tmp_path / "given.json", tmp_path / "stamped.json"
    given.write_bytes(logged.bundle.to_bytes())
    vkey = logged.story.log_signer.verifier.vkey()
    arguments = ["log", "anchor", logged.log.folder, "--key", vkey, "--bundle", given, "-o", wanted, "--json"]
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["size"] == len(logged.log.leaves)
    assert len(parse_bundle(wanted.read_bytes()).anchors.tsr) == 1
    assert CliRunner().invoke(cli, [str(each) for each in arguments]).exit_code == 2


SIGSTORE = Authority()
IDENTITY, ISSUER = "auditor@example.org", "https://accounts.example.org"


def signed_by(logged: Logged, size: int, *, text: str | None = None) -> None:
    note = logged.log.note(size)
    statement = checkpoint_statement(note.text if text is None else text)
    bundle = SIGSTORE.sign(statement, identity=IDENTITY, issuer=ISSUER, at=NOW)
    logged.anchors.write_signed(size, note.to_bytes(), encoded(bundle))


def rows_of(logged: Logged, bundle: Bundle) -> dict[str, State]:
    pem = logged.authority.root.public_bytes(Encoding.PEM).decode()
    root = {"trusted_root": SIGSTORE.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    named = trust(tsa_roots=[{"value": {"certificate": pem}}], sigstore_root=[{"value": root}])
    verdict = verify_bundle(bundle.to_bytes(), named, verifiers=STANDARD_VERIFIERS, at=NOW, build="b")
    return {check.code: check.state for check in verdict.checks if check.code.startswith("time.")}


@pytest.mark.parametrize("more", [0, 1, 300])
def test_a_signature_is_added_with_its_proof_and_holds(logged: Logged, more: int) -> None:
    records = len(logged.log.leaves)
    signed_by(logged, records - 1)
    logged.grow(more + 10)
    signed_by(logged, records + more)
    signed_by(logged, records + more + 10)
    found, size = logged.added()
    assert size == records + more
    assert rows_of(logged, found)["time.sigstore"] is State.HELD
    assert parse_bundle(found.to_bytes()) == found
    assert logged.added(found)[0] == found, "adding twice changes nothing"


def test_the_first_of_each_kind_is_added_and_the_command_says_which(logged: Logged, tmp_path: Path) -> None:
    size = len(logged.log.leaves)
    logged.grow(20)
    logged.anchor(size + 7)
    signed_by(logged, size + 3)
    given, wanted = tmp_path / "given.json", tmp_path / "anchored.json"
    given.write_bytes(logged.bundle.to_bytes())
    vkey = logged.story.log_signer.verifier.vkey()
    arguments = ["log", "anchor", logged.log.folder, "--key", vkey, "--bundle", given, "-o", wanted, "--json"]
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["added"] == {"tsr": size + 7, "sigstore": size + 3}
    rows = rows_of(logged, parse_bundle(wanted.read_bytes()))
    assert rows["time.tsa"] is rows["time.sigstore"] is State.HELD


def test_a_signature_over_another_checkpoint_is_not_added(logged: Logged) -> None:
    size = len(logged.log.leaves)
    signed_by(logged, size, text=logged.log.note(size - 1).text)
    with raises_code("anchor.imprint"):
        logged.added()
    logged.anchors.write_signed(size, logged.log.note(size).to_bytes(), b"")
    with pytest.raises(AnchorAbsent):
        logged.added()
