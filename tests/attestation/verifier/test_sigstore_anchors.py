"""A checkpoint that a named identity signed, and that sigstore recorded, gives its records a not-after."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.attestation.story import NOW, trust, trust_bytes
from tests.attestation.verifier.checks.test_anchor_checks import note_over, told, whole
from tests.attestation.verifier.test_verify_bundle import judge, row
from tests.sigstore_authority.authority import Authority, encoded

from affiant.attestation.bundle.bundle import Bundle, BundleMalformed, objects_by_digest, parse_bundle
from affiant.attestation.bundle.bundle_anchors import Anchors, PublishedCheckpoint
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.sigstore.sigstore_anchor import PREDICATE_TYPE, checkpoint_statement
from affiant.attestation.verdict.trust_file import TrustFileMalformed
from affiant.attestation.verdict.verdict import State, Tier, Verdict

AUTHORITY = Authority()
IDENTITY, ISSUER = "auditor@example.org", "https://accounts.example.org"
LATER = NOW + timedelta(hours=1)


def sigstore_root(authority: Authority = AUTHORITY, **changes: object) -> list[dict[str, object]]:
    value = {"trusted_root": authority.trusted_root(), "identity": IDENTITY, "issuer": ISSUER}
    return [{"value": value | changes}]


def signed_over(
    statement: bytes, *, authority: Authority = AUTHORITY, identity: str = IDENTITY, at: datetime = LATER
) -> bytes:
    return encoded(authority.sign(statement, identity=identity, issuer=ISSUER, at=at))


def anchored(content: bytes | None = None, *, size: int | None = None) -> Bundle:
    bundle = told()[1]
    note = note_over(whole() if size is None else size)
    raw = note.to_bytes()
    data = signed_over(checkpoint_statement(note.text)) if content is None else content
    entry = PublishedCheckpoint(sha256_name(raw), (), data)
    checkpoints = {**bundle.checkpoints, **objects_by_digest([raw])}
    return replace(bundle, checkpoints=checkpoints, anchors=Anchors(sigstore=(entry,)))


def judged(bundle: Bundle, *, roots: object = None, **more: object) -> Verdict:
    changes: Mapping[str, object] = {"sigstore_root": sigstore_root() if roots is None else roots}
    return judge(bundle.to_bytes(), changes=changes, at=more.pop("at", NOW + timedelta(days=1)), **more)


def refused(verdict: Verdict) -> str:
    found = row(verdict, "time.sigstore")
    assert found.state is State.REFUSED, found
    assert verdict.exit_code == 20
    return str(found.reason)


def test_a_signed_checkpoint_gives_a_not_after_and_says_whose_word_it_is() -> None:
    verdict = judged(anchored())
    found = row(verdict, "time.sigstore")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING), found
    assert IDENTITY in found.detail
    assert verdict.to_json()["time"] == {
        "not_before": None,
        "not_after": "2026-11-21T13:00:00Z",
        "by": {"not_before": None, "not_after": "sigstore log"},
    }


def test_it_is_not_asked_without_a_signer_and_not_made_without_an_anchor() -> None:
    assert row(judge(anchored().to_bytes()), "time.sigstore").state is State.NOT_ASKED
    assert row(judged(told()[1]), "time.sigstore").state is State.NOT_MADE


def test_another_identity_authority_or_period_is_refused() -> None:
    text = checkpoint_statement(note_over(whole()).text)
    assert refused(judged(anchored(signed_over(text, identity="mallory@example.org")))) == "published.signer"
    stranger = signed_over(text, authority=Authority())
    assert refused(judged(anchored(stranger))).startswith("published.")
    ended = [{**sigstore_root()[0], "until": f"{NOW:%Y-%m-%dT%H:%M:%SZ}"}]
    assert refused(judged(anchored(), roots=ended)) == "anchor.untrusted"
    revoked = [{**sigstore_root()[0], "revoked_at": f"{LATER + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"}]
    assert refused(judged(anchored(), roots=revoked)) == "anchor.untrusted"


def test_one_of_several_signers_is_enough() -> None:
    both = [*sigstore_root(identity="another@example.org"), *sigstore_root()]
    assert row(judged(anchored(), roots=both), "time.sigstore").state is State.HELD


def test_a_statement_about_anything_else_is_refused() -> None:
    other = checkpoint_statement(note_over(whole() - 1).text)
    assert refused(judged(anchored(signed_over(other)))) == "anchor.imprint"
    said = json.loads(checkpoint_statement(note_over(whole()).text))
    for change in (
        {"predicateType": "https://elsewhere.invalid/v1"},
        {"subject": said["subject"] * 2},
        {"subject": [{"name": "checkpoint", "digest": {"sha256": "0" * 64}}]},
        {"predicate": {**said["predicate"], "more": "x"}},
        {"predicate": {}},
    ):
        changed = signed_over(json.dumps(said | change).encode())
        assert refused(judged(anchored(changed))) == "anchor.statement"
    assert PREDICATE_TYPE == "https://affiant.dev/checkpoint-anchor/v1"


@pytest.mark.parametrize("content", [b"{}", b"x", b"[" * 1000])
def test_what_is_no_bundle_is_refused(content: bytes) -> None:
    assert refused(judged(anchored(content))) == "published.bundle"


def test_a_record_that_is_dated_after_the_signature_is_refused() -> None:
    early = signed_over(checkpoint_statement(note_over(whole()).text), at=NOW - timedelta(hours=1))
    assert refused(judged(anchored(early))) == "time.outside"


def test_what_is_carried_is_read_back_and_bounded() -> None:
    bundle = anchored()
    assert parse_bundle(bundle.to_bytes()) == bundle
    (entry,) = bundle.anchors.sigstore
    for wrong in (replace(entry, bundle=b"x" * (257 << 10)), replace(entry, bundle=b"")):
        with pytest.raises(BundleMalformed):
            parse_bundle(replace(bundle, anchors=Anchors(sigstore=(wrong,))).to_bytes())
    with pytest.raises(BundleMalformed):
        parse_bundle(replace(bundle, anchors=Anchors(sigstore=(entry,) * 17)).to_bytes())


@pytest.mark.parametrize(
    "value",
    [
        "root",
        {},
        {"trusted_root": {}, "identity": IDENTITY, "issuer": ISSUER},
        {"trusted_root": "x", "identity": IDENTITY, "issuer": ISSUER},
        {"trusted_root": AUTHORITY.trusted_root(), "identity": "", "issuer": ISSUER},
        {"trusted_root": AUTHORITY.trusted_root(), "identity": IDENTITY},
        {"trusted_root": AUTHORITY.trusted_root(), "identity": IDENTITY, "issuer": 7},
        {"trusted_root": AUTHORITY.trusted_root(), "identity": IDENTITY, "issuer": ISSUER, "more": 1},
    ],
)
def test_a_trust_file_that_names_no_signer_in_the_one_form_is_refused(value: object) -> None:
    with pytest.raises(TrustFileMalformed, match="signer by sigstore"):
        trust(sigstore_root=[{"value": value}])


def test_without_the_library_the_check_is_not_made_and_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['sigstore'] = None\n"
        "from datetime import datetime, UTC\n"
        "from affiant.attestation.verdict.trust_file import parse_trust_file\n"
        "from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS\n"
        "from affiant.attestation.verifier.verify_bundle import verify_bundle\n"
        "bundle, trust = (open(name, 'rb').read() for name in sys.argv[1:])\n"
        "verdict = verify_bundle(\n"
        "    bundle, parse_trust_file(trust), verifiers=STANDARD_VERIFIERS, build='b',\n"
        "    at=datetime(2026, 11, 23, tzinfo=UTC)\n"
        ")\n"
        "row = next(check for check in verdict.checks if check.code == 'time.sigstore')\n"
        "assert row.state == 'not made' and 'affiant[sigstore]' in row.detail, row\n"
    )
    bundle, trusted = tmp_path / "bundle", tmp_path / "trust"
    bundle.write_bytes(anchored().to_bytes())
    trusted.write_bytes(trust_bytes(sigstore_root=sigstore_root()))
    subprocess.run([sys.executable, "-c", program, str(bundle), str(trusted)], check=True, timeout=60)
