"""``affiant policy verify``: one who is named has signed this file, or it is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.policy.signing_desk import IDENTITY, TEXT, Desk
from tests.sigstore_authority.authority import Authority, encoded

from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.signing.signatures import signed_profiles

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
ISSUER = "https://accounts.team.example"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    assert made.sign().exit_code == 0
    return made


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def signed_by_identity(desk: Desk, authority: Authority, **changes: object) -> None:
    statement = signed_profiles(read_profiles(Path(desk.path("profiles.yaml")))).to_bytes()
    given = {"identity": IDENTITY, "issuer": ISSUER, "at": AT, **changes}
    desk.write("profiles.yaml.sig.json", encoded(authority.sign(statement, **given)))
    desk.write("root.json", encoded(authority.trusted_root()))


def who(desk: Desk, identity: str = IDENTITY, issuer: str = ISSUER) -> tuple[str, ...]:
    return ("--trusted-root", desk.path("root.json"), "--identity", identity, "--issuer", issuer)


def code_of(result) -> str:
    return result.output.rpartition("[")[2].partition("]")[0]


def test_it_says_what_holds_and_on_whose_word(desk: Desk, authority: Authority) -> None:
    shown = desk.verify().output
    assert shown.startswith("SIGNED      holds") and "signed by   key sha256:" in shown
    signed_by_identity(desk, authority)
    shown = desk.call("verify", *who(desk)).output
    assert (
        f"signed by   {IDENTITY}\nissuer      {ISSUER}\nsigned at   2026-05-04T12:00:00Z, says the log"
        in shown
    )
    told = json.loads(desk.call("verify", *who(desk), "--json").output)
    assert told["refused"] is None
    assert told["verified"]["digest"] == read_profiles(Path(desk.path("profiles.yaml"))).digest
    assert told["verified"]["signer"] == {"identity": IDENTITY, "issuer": ISSUER}


@pytest.mark.parametrize(
    "change",
    [
        lambda desk: desk.write("floor.yaml", "tools: [{deny: dd}]\n"),
        lambda desk: desk.write("profiles.yaml", TEXT + "# a comment\n"),
        lambda desk: desk.write("profiles.yaml", TEXT.replace("run_tests", "run_shell")),
        lambda desk: desk.write("profiles.yaml", TEXT.replace("floor: floor.yaml\n", "")),
        lambda desk: desk.write("profiles.yaml", TEXT + "  ops: {}\n"),
    ],
    ids=["floor", "comment", "rule", "no floor", "profile more"],
)
def test_any_other_file_is_refused(desk: Desk, change) -> None:
    change(desk)
    done = desk.verify()
    assert (done.exit_code, code_of(done)) == (1, "policy.signature_other")
    told = json.loads(desk.verify("--json").output)
    assert (told["refused"]["code"], told["verified"]) == ("policy.signature_other", None)


def test_the_signature_of_another_file_is_refused(desk: Desk) -> None:
    signature = desk.read("profiles.yaml.sig.json")
    desk.write("profiles.yaml", TEXT.replace("run_tests", "run_shell"))
    Path(desk.path("profiles.yaml.sig.json")).unlink()
    assert desk.sign().exit_code == 0
    desk.write("theirs.json", signature)
    done = desk.verify("--signature", desk.path("theirs.json"))
    assert (done.exit_code, code_of(done)) == (1, "policy.signature_other")


def test_a_renamed_file_is_the_same_file(desk: Desk) -> None:
    Path(desk.path("profiles.yaml")).rename(desk.path("p.yaml"))
    desk.folder.joinpath("profiles.yaml").symlink_to(desk.path("p.yaml"))
    assert desk.verify().exit_code == 0


def test_another_key_and_no_signature_are_refused(desk: Desk) -> None:
    desk.make_key("other")
    assert code_of(desk.verify(key="other.pub")) == "policy.signature_invalid"
    Path(desk.path("profiles.yaml.sig.json")).unlink()
    done = desk.verify()
    assert (done.exit_code, code_of(done)) == (1, "policy.unsigned")


@pytest.mark.parametrize(
    ("signed", "named", "code"),
    [
        ({}, {"issuer": "https://accounts.google.com"}, "published.signer"),
        ({}, {"identity": "somebody@team.example"}, "published.signer"),
        ({"certified_at": datetime(2026, 5, 4, 11, tzinfo=UTC)}, {}, "published.validity"),
        ({"certified_in_log": False}, {}, "published.not_authentic"),
    ],
    ids=["issuer", "identity", "expired", "unlogged certificate"],
)
def test_an_identity_that_does_not_hold_is_refused(desk, authority, signed, named, code) -> None:
    signed_by_identity(desk, authority, **signed)
    done = desk.call("verify", *who(desk, **named))
    assert (done.exit_code, code_of(done)) == (1, code)


def test_a_list_of_signers_is_judged_at_its_instant(desk: Desk) -> None:
    entry = {"value": desk.key_value(), "until": "2026-06-01T00:00:00Z"}
    by = ("--signers", desk.signers(entry))
    assert desk.call("verify", *by, "--at", "2026-05-04T12:00:00Z").exit_code == 0
    assert code_of(desk.call("verify", *by, "--at", "2026-06-01T00:00:00Z")) == "policy.signer"
    by = ("--signers", desk.signers({**entry, "revoked_at": "2026-05-01T00:00:00Z"}))
    assert code_of(desk.call("verify", *by, "--at", "2026-05-04T12:00:00Z")) == "policy.signer"


@pytest.mark.parametrize("content", ["{}", '{"typ": "affiant-profile-signers/1", "signers": []}', "no"])
def test_a_list_of_nobody_is_usage(desk: Desk, content: str) -> None:
    desk.write("signers.json", content)
    done = desk.call("verify", "--signers", desk.path("signers.json"))
    assert (done.exit_code, code_of(done)) == (2, "policy.signers")


@pytest.mark.parametrize("given", [(), ("key", "identity"), ("key", "signers"), ("identity alone",)])
def test_who_must_have_signed_is_named_once_and_whole(desk: Desk, given: tuple[str, ...]) -> None:
    desk.write("root.json", "{}")
    options = {
        "key": ("--key", desk.path("key.pub")),
        "identity": who(desk),
        "signers": ("--signers", desk.signers({"value": desk.key_value()})),
        "identity alone": ("--identity", IDENTITY),
    }
    assert desk.call("verify", *(part for each in given for part in options[each])).exit_code == 2


def test_a_root_that_trusts_nobody_is_usage(desk: Desk, authority: Authority) -> None:
    signed_by_identity(desk, authority)
    desk.write("root.json", "{}")
    done = desk.call("verify", *who(desk))
    assert (done.exit_code, code_of(done)) == (2, "published.trusted_root")


@pytest.mark.slow
def test_without_the_library_a_key_still_signs_and_holds(desk: Desk, authority: Authority) -> None:
    code = (
        "import sys; sys.modules['sigstore'] = None; sys.argv = ['affiant', *sys.argv[1:]]\n"
        "from affiant.__main__ import main; main()\n"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, "policy", *arguments]
        return subprocess.run(
            command, cwd=desk.folder, capture_output=True, text=True, timeout=60, check=False
        )

    assert run("verify", "profiles.yaml", "--key", "key.pub").returncode == 0
    assert run("sign", "profiles.yaml", "--key", "key.pem", "-o", "new.json").returncode == 0
    signed_by_identity(desk, authority)
    done = run("verify", "profiles.yaml", *who(desk))
    assert done.returncode == 2 and "[published.extra]" in done.stderr
