"""`affiant log anchor --sigstore`: the real client signs over HTTP at a deployment with real keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.anchors.conftest import stamped
from tests.attestation.log_builder import LogBuilder, chain, cosigner, log_signer
from tests.attestation.story import trust_bytes
from tests.sigstore_authority.authority import Authority, encoded
from tests.sigstore_authority.serving import Deployment, serve
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority
from tests.sigstore_authority.transparency_log import Rekor
from tests.timestamp_authority.authority import TimestampAuthority
from tests.timestamp_authority.serving import served

from affiant.__main__ import cli
from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.anchors.checkpoint_signing import Signing, sign_newest
from affiant.attestation.bundle.bundle_anchors import MAX_SIGSTORE
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.log_trust import LogTrust
from affiant.attestation.signatures.sigstore.bundle import parse_bundle
from affiant.attestation.signatures.sigstore.sigstore_anchor import checkpoint_statement
from affiant.errors import AffiantError

VKEY = log_signer().verifier.vkey()
IDENTITY = "ops@operator.example"


@dataclass
class Place:
    """A log of 300 leaves that may grow, the deployment that signs, and what its operator has in files."""

    log: LogBuilder
    sigstore: Deployment
    files: Path

    @property
    def anchors(self) -> AnchorFolder:
        return AnchorFolder(self.log.folder / "anchors")

    def call(self, *arguments: object, env: dict[str, str] | None = None, stdin: str = "") -> Result:
        return CliRunner().invoke(cli, [str(each) for each in arguments], env=env, input=stdin)

    def anchor(
        self, *more: object, log: LogBuilder | None = None, token: str | None = None, tiled: bool = False
    ) -> Result:
        config, file = self.files / "config.json", self.files / "token"
        config.write_bytes(encoded(self.sigstore.trust_config(tiled=tiled)))
        file.write_text((self.sigstore.token(IDENTITY) if token is None else token) + "\n")
        by = ("--sigstore", "--trust-config", config, "--identity-token", file)
        return self.call("log", "anchor", (log or self.log).folder, "--key", VKEY, *by, *more)

    def listed(self, *more: object, identity: str = IDENTITY, **how: object) -> Result:
        root = self.files / "trusted_root.json"
        root.write_bytes(encoded(self.sigstore.authority.trusted_root()))
        by = ("--trusted-root", root, "--identity", identity, "--issuer", self.sigstore.issuer)
        return self.call("log", "anchors", how.get("log", self.log.folder), "--key", VKEY, *by, *more)

    def grow(self, count: int = 5, label: str = "more") -> None:
        self.log.add(chain(label, count))
        self.log.sign()

    def keep(self, *, at: datetime, identity: str = IDENTITY) -> None:
        """An anchor over the log as it is, of another day."""
        note = self.log.note()
        statement = checkpoint_statement(note.text)
        signed = self.sigstore.authority.sign(
            statement, identity=identity, issuer=self.sigstore.issuer, at=at
        )
        self.anchors.write_signed(len(self.log.leaves), note.to_bytes(), encoded(signed))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    log = LogBuilder(tmp_path / "log", chain("one", 300))
    log.sign()
    with serve(Authority()) as running:
        yield Place(log, running, tmp_path)


@pytest.mark.parametrize("tiled", [False, True], ids=["rekor v1", "rekor v2 and a timestamp"])
def test_the_newest_checkpoint_is_signed_kept_and_listed(place: Place, tiled: bool) -> None:
    done = place.anchor(tiled=tiled)
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert ["size", "300"] in lines and ["identity", IDENTITY] in lines
    assert ["at", "from", "timestamp-authority" if tiled else "log"] in lines
    file = place.anchors.read_signed(300)
    assert file.note == (place.log.folder / "checkpoint").read_bytes()
    text = place.log.note().text
    assert parse_bundle(file.bundle).statement == checkpoint_statement(text)
    listed = place.listed("--json")
    assert listed.exit_code == 0, listed.output
    (row,) = json.loads(listed.stdout)["anchors"]
    assert (row["size"], row["kind"], row["identity"]) == (300, "sigstore", IDENTITY)
    assert row["at_from"] == ("timestamp-authority" if tiled else "log")
    assert place.call("log", "fsck", place.log.folder, "--key", VKEY).exit_code == 0


def test_a_second_run_of_a_day_signs_nothing(place: Place) -> None:
    assert place.anchor().exit_code == 0
    asked = len(place.sigstore.asked)
    for again in ((), ("--again",)):
        same = json.loads(place.anchor("--json", *again).stdout)["anchors"][0]
        assert (same["new"], same["why"]) == (False, "the log has not grown since")
    place.grow()
    today = json.loads(place.anchor("--json").stdout)["anchors"][0]
    assert (today["new"], today["why"], today["size"]) == (False, "there is one of today", 300)
    assert len(place.sigstore.asked) == asked and place.anchors.signed_sizes() == [300]
    assert place.anchor("--again").exit_code == 0
    assert place.anchors.signed_sizes() == [300, 305]
    assert place.listed().exit_code == 0


def test_the_next_day_signs_again_whoever_signed_before(place: Place) -> None:
    place.keep(at=datetime.now(UTC) - timedelta(days=1), identity="predecessor@operator.example")
    place.grow()
    assert json.loads(place.anchor("--json").stdout)["anchors"][0]["new"]
    assert place.anchors.signed_sizes() == [300, 305]


def test_an_anchor_that_does_not_hold_under_the_configuration_stops_the_next(place: Place) -> None:
    place.keep(at=datetime.now(UTC) - timedelta(days=1))
    place.sigstore.authority = Authority()
    place.grow()
    done = place.anchor()
    assert done.exit_code == 20 and "published." in done.output
    assert place.sigstore.asked == [] and place.anchors.signed_sizes() == [300]


@pytest.mark.parametrize("by", ["signature", "token"])
def test_a_log_that_contradicts_an_anchor_of_either_kind_is_not_signed(
    place: Place, tmp_path: Path, dated: DatedAuthority, by: str
) -> None:
    if by == "signature":
        assert place.anchor().exit_code == 0
    else:
        note = place.log.note()
        now = datetime.now(UTC)
        place.anchors.write(300, note.to_bytes(), [stamped(dated, at=now, text=note.text)])
    asked = len(place.sigstore.asked)
    kept = {path.name: path.read_bytes() for path in place.anchors.path.iterdir()}
    for label, entries in (
        ("other", chain("two", 310)),
        ("cut", chain("one", 299)),
        ("same", chain("two", 300)),
    ):
        log = LogBuilder(tmp_path / label, entries)
        log.sign()
        done = place.anchor("--again", "--out", place.anchors.path, log=log)
        assert done.exit_code == 20, (label, done.output)
    assert len(place.sigstore.asked) == asked
    assert {path.name: path.read_bytes() for path in place.anchors.path.iterdir()} == kept


def test_a_log_that_contradicts_a_signature_is_not_stamped_either(place: Place, tmp_path: Path) -> None:
    assert place.anchor().exit_code == 0
    other = LogBuilder(tmp_path / "other", chain("two", 300))
    other.sign()
    authority = TimestampAuthority(tmp_path / "tsa")
    with served(authority) as tsa:
        options = ("--key", VKEY, "--tsa", tsa.url, "--tsa-root", authority.root)
        refused = place.call("log", "anchor", other.folder, *options, "--out", place.anchors.path)
        assert refused.exit_code == 20 and tsa.asked == []
        done = place.call("log", "anchor", place.log.folder, *options)
    assert done.exit_code == 0, done.output
    assert place.anchors.sizes() == place.anchors.signed_sizes() == [300]


def test_the_note_that_bundles_name_stays_though_the_log_is_cosigned_since(
    place: Place, dated: DatedAuthority
) -> None:
    note = place.log.note()
    place.anchors.write(300, note.to_bytes(), [stamped(dated, at=datetime.now(UTC), text=note.text)])
    place.log.sign(cosigner(1))
    assert place.anchor().exit_code == 0
    assert place.anchors.read_signed(300).note == note.to_bytes() == place.anchors.read(300).note
    assert (place.log.folder / "checkpoint").read_bytes() != note.to_bytes()
    assert place.listed().exit_code == 10, "the token is not verified"


def test_a_checkpoint_that_the_log_did_not_sign_is_not_signed(place: Place) -> None:
    foreign = LogBuilder(place.files / "foreign", chain("one", 3), signer=log_signer(label="stranger"))
    foreign.sign()
    done = place.anchor(log=foreign)
    assert done.exit_code == 20 and "note.signature" in done.output
    assert place.sigstore.asked == []


def test_tiles_of_another_tree_are_not_signed(place: Place) -> None:
    path = place.log.folder / "tile/0/001.p/44"
    path.write_bytes(path.read_bytes()[::-1])
    assert place.anchor().exit_code == 20
    assert place.sigstore.asked == []


@pytest.mark.parametrize("path", ["/api/v2/signingCert", "/api/v1/log/entries"])
def test_a_service_that_refuses_is_unreachable_and_the_token_is_shown_nowhere(
    place: Place, path: str
) -> None:
    place.sigstore.failing.add(path)
    token = place.sigstore.token(IDENTITY)
    done = place.anchor("--json", token=token)
    assert done.exit_code == 30, done.output
    assert json.loads(done.stdout)["refused"]["code"] == "published.signing"
    assert token not in done.output and token.split(".")[2] not in done.output
    assert not place.anchors.path.exists()


def test_a_log_that_the_configuration_does_not_trust_records_nothing_that_is_kept(place: Place) -> None:
    """The service answers with another key than the trusted root has: somebody stands between."""
    config = encoded(place.sigstore.trust_config())
    place.sigstore.authority.log = Rekor()
    (place.files / "old.json").write_bytes(config)
    done = place.anchor("--json", "--trust-config", place.files / "old.json")
    assert done.exit_code in (20, 30), done.output
    assert json.loads(done.stdout)["refused"]["code"].startswith("published.")
    assert place.sigstore.asked == ["/api/v2/signingCert", "/api/v1/log/entries"]
    assert not place.anchors.path.exists()


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        ("another checkpoint", "anchor.imprint"),
        ("another statement", "anchor.statement"),
        ("another authority", "published.not_logged"),
        ("cut", "published.bundle"),
        ("too large", "anchor.statement"),
    ],
)
def test_what_came_back_is_verified_before_it_is_kept(place: Place, harm: str, code: str) -> None:
    authority = place.sigstore.authority
    root = encoded(authority.trusted_root())

    def sign(statement: bytes) -> bytes:
        signer = Authority() if harm == "another authority" else authority
        said = {
            "another checkpoint": checkpoint_statement(place.log.note(299).text),
            "another statement": statement.replace(b"checkpoint-anchor/v1", b"checkpoint-anchor/v2"),
        }.get(harm, statement)
        made = encoded(signer.sign(said, identity=IDENTITY, issuer="https://i.example", at=datetime.now(UTC)))
        return {"cut": made[:-1], "too large": made + b" " * MAX_SIGSTORE}.get(harm, made)

    signing = Signing(sign=sign, trusted_root=root, now=datetime.now(UTC))
    with pytest.raises(AffiantError) as refusal:
        sign_newest(
            FolderLog(place.log.folder), LogTrust((place.log.signer.verifier,)), place.anchors, signing
        )
    assert refusal.value.code == code
    assert not place.anchors.path.exists()


def test_the_token_comes_from_a_file_standard_input_or_the_environment(place: Place) -> None:
    config = place.files / "config.json"
    config.write_bytes(encoded(place.sigstore.trust_config()))
    arguments = ("log", "anchor", place.log.folder, "--key", VKEY, "--sigstore", "--trust-config", config)
    token = place.sigstore.token(IDENTITY)
    assert place.call(*arguments, env={"SIGSTORE_IDENTITY_TOKEN": ""}).exit_code == 2
    assert place.sigstore.asked == []
    done = place.call(*arguments, env={"SIGSTORE_IDENTITY_TOKEN": token})
    assert done.exit_code == 0, done.output
    place.grow()
    done = place.call(*arguments, "--identity-token", "-", "--again", stdin=token + "\n")
    assert done.exit_code == 0, done.output
    assert place.anchors.signed_sizes() == [300, 305]


@pytest.mark.parametrize("token", ["", "no token", "\u00ff", "expired", "elsewhere"])
def test_a_token_that_cannot_be_used_is_usage_and_never_shown(place: Place, token: str) -> None:
    made = {
        "expired": place.sigstore.token(IDENTITY, expires_in=-timedelta(minutes=1)),
        "elsewhere": place.sigstore.token(IDENTITY, aud="other"),
    }.get(token, token)
    done = place.anchor(token=made)
    assert done.exit_code == 2, done.output
    assert not made or made not in done.output
    assert place.sigstore.asked == [] and not place.anchors.path.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--sigstore",),
        ("--sigstore", "--tsa", "https://tsa.example"),
        ("--sigstore", "--trust-config", __file__, "--tsa-root", __file__),
        ("--sigstore", "--trust-config", __file__, "--renew"),
        ("--sigstore", "--trust-config", __file__, "--sha512"),
        ("--sigstore", "--trust-config", __file__),
        ("--sigstore", "--bundle", __file__, "-o", "out"),
        ("--tsa", "https://tsa.example", "--trust-config", __file__),
    ],
)
def test_what_cannot_be_meant_is_usage(place: Place, arguments: tuple[str, ...]) -> None:
    done = place.call(
        "log", "anchor", place.log.folder, "--key", VKEY, *arguments, env={"SIGSTORE_IDENTITY_TOKEN": "x"}
    )
    assert done.exit_code == 2, done.output
    assert place.sigstore.asked == []


def test_a_listing_names_who_must_have_signed_and_refuses_everybody_else(place: Place) -> None:
    place.anchor()
    other = place.listed("--json", identity="mallory@evil.example")
    assert other.exit_code == 20
    assert json.loads(other.stdout)["anchors"][0]["refused"]["code"] == "published.signer"
    half = place.call("log", "anchors", place.log.folder, "--key", VKEY, "--identity", IDENTITY)
    assert half.exit_code == 2 and "--trusted-root, --identity and --issuer" in half.output
    assert place.call("log", "anchors", place.log.folder, "--key", VKEY).exit_code == 2
    path = place.anchors.path / "300.sigstore.json"
    path.write_bytes(path.read_bytes()[:-1])
    assert place.listed().exit_code == 20


def test_a_kind_for_which_nobody_is_named_is_listed_as_not_verified(
    place: Place, dated: DatedAuthority, tmp_path: Path
) -> None:
    place.anchor()
    note = place.log.note()
    place.anchors.write(300, note.to_bytes(), [stamped(dated, at=datetime.now(UTC), text=note.text)])
    found = place.listed("--json")
    assert found.exit_code == 10, found.output
    rows = {row["kind"]: row for row in json.loads(found.stdout)["anchors"]}
    assert "not_verified" in rows["tsr"] and "not_after" in rows["sigstore"]
    pem = dated.root.public_bytes(Encoding.PEM)
    (tmp_path / "tsa.pem").write_bytes(pem)
    command = ("log", "anchors", place.log.folder, "--key", VKEY)
    text = place.call(*command, "--tsa-root", tmp_path / "tsa.pem")
    assert text.exit_code == 10 and "not verified  no signer is named by --trusted-root" in text.output
    assert place.listed("--tsa-root", tmp_path / "tsa.pem").exit_code == 0
    root = {
        "trusted_root": place.sigstore.authority.trusted_root(),
        "identity": IDENTITY,
        "issuer": place.sigstore.issuer,
    }
    named = trust_bytes(tsa_roots=[{"value": {"certificate": pem.decode()}}], sigstore_root=[{"value": root}])
    (tmp_path / "trust.json").write_bytes(named)
    both = place.call(*command, "--trust", tmp_path / "trust.json")
    assert both.exit_code == 0, both.output
    assert place.listed("--trust", tmp_path / "trust.json").exit_code == 2


def test_a_listed_anchor_of_another_history_is_refused_though_nobody_verifies_its_signature(
    place: Place, tmp_path: Path, dated: DatedAuthority
) -> None:
    place.anchor()
    other = LogBuilder(tmp_path / "other", chain("two", 310))
    other.sign()
    (tmp_path / "tsa.pem").write_bytes(dated.root.public_bytes(Encoding.PEM))
    options = ("--out", place.anchors.path, "--tsa-root", tmp_path / "tsa.pem")
    assert place.call("log", "anchors", other.folder, "--key", VKEY, *options).exit_code == 20
