"""``affiant verify --sign`` and ``affiant verdict check`` as a user runs them."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.attestation.story import NOW, REQUEST, Story, link, trust_bytes

from affiant.__main__ import cli
from affiant.attestation.signatures.profiles.private_keys import read_signing_key
from affiant.attestation.verdict.signed_verdict import sign_verdict

AT = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
BUNDLE = "session.affiant.json"
SIGNED = f"{BUNDLE}.verdict.dsse.json"


def affiant(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / BUNDLE).write_bytes(Story().bytes())
    (tmp_path / "trust.json").write_bytes(trust_bytes())
    for name in ("auditor", "stranger"):
        make_key(tmp_path / f"{name}.pem", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    return tmp_path


def make_key(path: Path, *how: str) -> None:
    """As the documentation says it: with openssl."""
    private, public = str(path), str(path.with_suffix(".pub.pem"))
    for command in (["genpkey", *how, "-out", private], ["pkey", "-in", private, "-pubout", "-out", public]):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=20)
    path.chmod(0o600)


def sign(files: Path, *more: object, key: str = "auditor.pem") -> Result:
    trust = ("--trust", files / "trust.json", "--at", AT)
    return affiant("verify", files / BUNDLE, *trust, "--sign", files / key, *more)


def check(files: Path, *more: object, file: str = SIGNED) -> Result:
    return affiant("verdict", "check", files / file, *more)


def test_a_verdict_is_signed_beside_its_bundle_and_checked_again(files: Path) -> None:
    done = sign(files, "--json")
    assert done.exit_code == 40
    result = check(files, "--key", files / "auditor.pub.pem", "--bundle", files / BUNDLE)
    assert result.exit_code == 40, result.output
    assert "the signature holds under the key sha256:" in result.output
    assert "SIMULATED" in result.output
    for member in ("at", "trust", "outcome", "platform_class", "tier"):
        assert repr(json.loads(done.output)[member]) in result.output
    said = json.loads(check(files, "--key", files / "auditor.pub.pem", "--json").output)
    assert said["verdict"] == json.loads(done.output)
    name = "sha256:" + hashlib.sha256((files / BUNDLE).read_bytes()).hexdigest()
    assert said["bundle"] == {"name": name, "compared": False}


def good_beside_rejected() -> tuple[str, bytes]:
    """A bundle with a session that holds and one that is rejected, and the first one's id."""
    good, rejected = Story(), Story(gks=link("another gateway's keyset"))
    one, other = good.bundle(), rejected.bundle()
    names = ("keysets", "evidence", "endorsements", "results", "policies")  # one log has no place for both
    both = {name: {**getattr(one, name), **getattr(other, name)} for name in names}
    return good.session, replace(one, receipts=(*one.receipts, *other.receipts), **both).to_bytes()


def test_a_verdict_on_one_session_of_a_bundle_does_not_pass_for_the_bundles(files: Path) -> None:
    session, data = good_beside_rejected()
    (files / BUNDLE).write_bytes(data)
    key = ("--key", files / "auditor.pub.pem")
    assert sign(files).exit_code == 20
    whole = json.loads(check(files, *key, "--json").output)["verdict"]
    assert "asked" not in whole
    assert "asked             the whole bundle" in check(files, *key).output

    done = sign(files, "--session", session, "--json")
    assert done.exit_code == 40
    assert json.loads(done.output)["asked"] == {"session": session}
    shown = check(files, *key).output
    assert f"asked             session {session!r} alone" in shown
    places = {name: files / f"report.{name}" for name in ("html", "sarif", "junit")}
    reports = [each for name, place in places.items() for each in (f"--{name}", place)]
    text = sign(files, "--session", session, *reports).output
    assert f"asked            session {session!r} alone" in text
    for place in places.values():
        assert "asked" in place.read_text() and session in place.read_text(), place


def test_a_verdict_names_the_bodies_and_the_range_that_were_asked_about(files: Path) -> None:
    (files / "request").write_bytes(REQUEST)
    more = ("--request", files / "request", "--from", "2026-11-01T00:00:00Z")
    document = json.loads(sign(files, *more, "--json").output)
    name = "sha256:" + hashlib.sha256(REQUEST).hexdigest()
    assert document["asked"] == {"from": "2026-11-01T00:00:00Z", "request": name}
    shown = check(files, "--key", files / "auditor.pub.pem").output
    assert "records from '2026-11-01T00:00:00Z'; request body" in shown
    assert name in shown


def lines_of(output: str) -> dict[str, str]:
    """Label -> text of a checked verdict, wrapped lines joined."""
    found: dict[str, str] = {}
    label = ""
    for line in output.splitlines():
        label = line[:18].strip() or label
        found[label] = f"{found.get(label, '')} {line[18:]}".strip()
    return found


def test_a_checked_verdict_shows_what_the_first_lines_of_every_verdict_say(files: Path) -> None:
    (files / "trust.json").write_bytes(trust_bytes(require=["sig.receipts", "log.inclusion"]))
    done = sign(files, "--require", "L5,complete", "--json")
    assert done.exit_code == 30
    document = json.loads(done.output)
    shown = lines_of(check(files, "--key", files / "auditor.pub.pem").output)
    assert document["tool"]["build"] in shown["verifier"]
    assert len(document["requirements_off"]) > 10 and len(document["not_made"]) > 1
    for label, member in (("requirements off", "requirements_off"), ("not made", "not_made")):
        assert shown[label] == ", ".join(map(repr, document[member]))
    assert shown["demanded"] == "complete true, level 'L5', unmet ('level')"
    assert f"receipts {document['counts']['receipts']}" in shown["population"]
    assert "sessions (closed 1, lost 0, not_judged 0, open 0, started 1)" in shown["population"]
    assert (shown["unwitnessed"], shown["exceptions"][:6]) == ("not known", "more 0")


def signed_document(files: Path, **changes: Any) -> None:
    """A verdict with members that ``affiant verify`` never writes, signed all the same."""
    document = json.loads(sign(files, "--json").output) | changes
    key = read_signing_key(files / "auditor.pem")
    (files / SIGNED).write_bytes(sign_verdict(document, key))


def test_what_a_signer_leaves_out_is_named_and_hostile_text_stays_text(files: Path) -> None:
    signed_document(
        files,
        asked={"session": "\x1b[2J", "a later narrowing {}": "x\n\u202ey"},
        not_made=[f"row {n}" for n in range(5000)],
        counts={"receipts": "\r\x07"},
        level=["{}"] * 3,
    )
    output = check(files, "--key", files / "auditor.pub.pem").output
    assert output.isascii() and "\x1b" not in output and "\r" not in output
    shown = lines_of(output)
    assert "'a later narrowing {}'" in shown["asked"]
    assert len(output) < 10_000
    document = json.loads(sign(files, "--json").output)
    del document["requirements_off"], document["counts"]
    (files / SIGNED).write_bytes(sign_verdict(document, read_signing_key(files / "auditor.pem")))
    shown = lines_of(check(files, "--key", files / "auditor.pub.pem").output)
    assert (shown["requirements off"], shown["population"]) == ("not stated", "not stated")


def test_an_ed25519_key_and_a_named_file_do_too(files: Path) -> None:
    make_key(files / "ed.pem", "-algorithm", "ED25519")
    assert sign(files, "--signed", files / "v.json", key="ed.pem").exit_code == 40
    assert check(files, "--key", files / "ed.pub.pem", file="v.json").exit_code == 40
    assert not (files / SIGNED).exists()


def test_without_a_key_nothing_is_proven_and_the_exit_code_says_so(files: Path) -> None:
    sign(files)
    result = check(files)
    assert result.exit_code == 30
    assert result.output.startswith("NOT VERIFIED")
    assert json.loads(check(files, "--json").output)["signer"] is None


def test_another_signer_another_bundle_and_a_changed_verdict_exit_with_1(files: Path) -> None:
    sign(files)
    (files / "other.json").write_bytes(b"{}")
    changed = json.loads((files / SIGNED).read_text())
    changed["payload"] = changed["payload"].replace("A", "B", 1)
    (files / "changed.json").write_text(json.dumps(changed))
    key = ("--key", files / "auditor.pub.pem")
    for result, code in (
        (check(files, "--key", files / "stranger.pub.pem"), "verdict.signature_invalid"),
        (check(files, *key, "--bundle", files / "other.json"), "verdict.bundle"),
        (check(files, *key, file=BUNDLE), "verdict.signature"),
    ):
        assert (result.exit_code, code in result.output) == (1, True), result.output
    assert check(files, *key, file="changed.json").exit_code == 1
    document = json.loads(check(files, *key, "--bundle", files / "other.json", "--json").output)
    assert document["refused"]["code"] == "verdict.bundle"
    assert document["verdict"] is None


def test_a_verdict_that_refuses_is_signed_as_what_it_is(files: Path) -> None:
    """A signature says whose verdict it is: the exit code never says better than the verdict."""
    (files / BUNDLE).write_bytes(b"no bundle")
    assert sign(files).exit_code == 20
    assert check(files, "--key", files / "auditor.pub.pem").exit_code == 20


def test_a_key_that_others_can_read_or_a_public_one_ends_before_anything_is_judged(files: Path) -> None:
    (files / "auditor.pem").chmod(0o644)
    for key in ("auditor.pem", "stranger.pub.pem"):
        result = sign(files, key=key)
        assert result.exit_code == 2
        assert "policy.signing_key" in result.output
    assert not (files / SIGNED).exists()
    assert check(files, "--key", files / "stranger.pem", file=BUNDLE).exit_code == 2


def test_options_that_do_not_fit_are_usage(files: Path) -> None:
    trust = ("--trust", files / "trust.json")
    assert affiant("verify", files / BUNDLE, *trust, "--signed", files / "v.json").exit_code == 2
    folder = affiant("verify", files, *trust, "--sign", files / "auditor.pem")
    assert folder.exit_code == 2
    assert "one bundle file, and a folder was named" in folder.output
    two = affiant("verify", files / BUNDLE, files / BUNDLE, *trust, "--sign", files / "auditor.pem")
    assert two.exit_code == 2
    assert "one bundle file, and several were named" in two.output
    for place in (BUNDLE, "auditor.pem", "trust.json"):
        before = (files / place).read_bytes()
        assert sign(files, "--signed", files / place).exit_code == 2
        assert (files / place).read_bytes() == before


def test_both_commands_show_examples() -> None:
    assert "--sign auditor.pem" in affiant("verify", "--help").output
    assert "affiant verdict check" in affiant("verdict", "check", "--help").output
