"""``affiant quote verify`` with a published policy or published reference values: whose word, and nobody else's."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.tdx.conftest import NOW, RELEASE, quote_of
from tests.attestation.tdx.policy.test_policy_file import SIMULATED
from tests.sigstore_authority.authority import Authority, encoded

from affiant.__main__ import cli
from affiant.attestation.release.manifest import reference_values
from affiant.attestation.signatures.sigstore.content import file_to_sign
from affiant.attestation.signatures.sigstore.statement import file_statement
from affiant.attestation.simulated.platform.platform import SimulatedPlatform

AT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
IDENTITY, ISSUER = "release@vendor.example", "https://accounts.vendor.example"
BY = {"--signer": IDENTITY, "--signer-issuer": ISSUER, "--trusted-root": "trusted_root.json"}


@dataclass
class Files:
    folder: Path
    authority: Authority

    def publish(self, name: str, content: bytes) -> None:
        """Sign ``content``, and write ``name``.sigstore.json."""
        statement = file_statement(file_to_sign(name, content))
        bundle = self.authority.sign(statement, identity=IDENTITY, issuer=ISSUER, at=NOW)
        (self.folder / f"{name}.sigstore.json").write_bytes(encoded(bundle))

    def verify(self, option: str, name: str, *more: str, by: dict[str, str] | None = None) -> Result:
        given = [text for pair in (BY if by is None else by).items() for text in pair]
        arguments = ["quote.bin", "--collateral", "collateral.json", "--at", AT, option, name, *given, *more]
        paths = [str(self.folder / each) if (self.folder / each).is_file() else each for each in arguments]
        return CliRunner().invoke(cli, ["quote", "verify", *paths])


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def files(authority: Authority, platform: SimulatedPlatform, tmp_path: Path) -> Files:
    reference = reference_values(RELEASE, platform.root_spki())
    (tmp_path / "quote.bin").write_bytes(quote_of(platform))
    (tmp_path / "collateral.json").write_bytes(platform.collateral(NOW).to_bytes())
    (tmp_path / "policy.yaml").write_text(SIMULATED)
    (tmp_path / "reference.json").write_bytes(reference)
    (tmp_path / "trusted_root.json").write_bytes(encoded(authority.trusted_root()))
    found = Files(tmp_path, authority)
    found.publish("policy.yaml", SIMULATED.encode())
    found.publish("reference.json", reference)
    return found


@pytest.mark.parametrize(("option", "name"), [("--policy", "policy.yaml"), ("--reference", "reference.json")])
def test_a_published_file_decides_as_the_file_itself(files: Files, option: str, name: str) -> None:
    plain = json.loads(files.verify(option, name, "--json", by={}).output)
    result = files.verify(option, f"{name}.sigstore.json", "--json")
    assert result.exit_code == 40, result.output
    document = json.loads(result.output)
    published = document.pop("published")
    assert plain.pop("published") is None
    assert document["inputs"].pop("published") == published["bundle"]
    assert document["inputs"].pop("trusted_root") == published["trusted_root"]
    assert document == plain
    assert published["signer"] == {"identity": IDENTITY, "issuer": ISSUER}
    assert (
        published["digest"] == document["inputs"]["policy_file" if option == "--policy" else "reference_file"]
    )


def test_the_verdict_says_on_whose_word_it_rests(files: Files) -> None:
    text = files.verify("--policy", "policy.yaml.sigstore.json").output
    assert "PUBLISHED  what is accepted is this signer's word" in text
    assert f"signed by           {IDENTITY}" in text
    assert "PUBLISHED" not in files.verify("--policy", "policy.yaml", by={}).output


def test_a_quote_that_the_published_policy_refuses_is_contraindicated(files: Files) -> None:
    files.publish("policy.yaml", SIMULATED.replace("minimum_evaluation: 1", "minimum_evaluation: 9").encode())
    result = files.verify("--policy", "policy.yaml.sigstore.json", "--json")
    assert result.exit_code == 20
    document = json.loads(result.output)
    assert document["refused"]["code"] == "appraisal.evaluation_number"
    assert document["published"]["signer"]["identity"] == IDENTITY


@pytest.mark.parametrize("missing", list(BY))
@pytest.mark.parametrize(("option", "name"), [("--policy", "policy.yaml"), ("--reference", "reference.json")])
def test_all_three_options_are_demanded(files: Files, option: str, name: str, missing: str) -> None:
    by = {key: value for key, value in BY.items() if key != missing}
    result = files.verify(option, f"{name}.sigstore.json", by=by)
    assert result.exit_code == 2
    assert f"give {missing}" in result.output
    without = files.verify(option, f"{name}.sigstore.json", by={})
    assert without.exit_code == 2
    assert f"give {', '.join(BY)}" in without.output


@pytest.mark.parametrize(("option", "name"), [("--policy", "policy.yaml"), ("--reference", "reference.json")])
def test_a_plain_file_in_place_of_a_published_one_is_usage(files: Files, option: str, name: str) -> None:
    """Or whoever delivers it would only have to leave the signature away."""
    result = files.verify(option, name)
    assert result.exit_code == 2
    assert "not a sigstore bundle" in result.output
    assert files.verify(option, name, by={"--signer": IDENTITY}).exit_code == 2


def test_the_options_alone_are_usage(files: Files) -> None:
    result = files.verify("--root", "intel")
    assert result.exit_code == 2
    assert "give one" in result.output


def test_a_refused_publication_judges_nothing(files: Files) -> None:
    result = files.verify(
        "--policy", "policy.yaml.sigstore.json", "--json", by={**BY, "--signer": "x@evil.example"}
    )
    assert result.exit_code == 2
    assert "[published.signer]" in result.output
    assert "tier" not in result.output
    bundle = files.folder / "policy.yaml.sigstore.json"
    bundle.write_bytes(bundle.read_bytes().replace(b'"sig": "', b'"sig": "A'))
    result = files.verify("--policy", "policy.yaml.sigstore.json")
    assert (result.exit_code, "[published." in result.output) == (2, True)


def test_a_published_file_of_the_other_kind_is_refused(files: Files) -> None:
    for option, name in (("--policy", "reference.json"), ("--reference", "policy.yaml")):
        result = files.verify(option, f"{name}.sigstore.json")
        assert result.exit_code == 2
        assert "[published.kind]" in result.output


def test_a_bundle_is_one_by_its_content_or_its_name(files: Files) -> None:
    (files.folder / "policy.yaml.sigstore.json").rename(files.folder / "renamed.yaml")
    assert files.verify("--policy", "renamed.yaml").exit_code == 40
    (files.folder / "broken.sigstore.json").write_bytes(b'{"mediaType"')
    result = files.verify("--policy", "broken.sigstore.json")
    assert (result.exit_code, "[published.bundle]" in result.output) == (2, True)


def test_a_published_policy_is_checked_once_it_is_extracted(files: Files) -> None:
    result = CliRunner().invoke(
        cli, ["quote", "policy", "check", str(files.folder / "policy.yaml.sigstore.json")]
    )
    assert result.exit_code == 2
    assert "published --extract" in result.output


def test_plain_files_are_judged_without_the_library(files: Files) -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from affiant.__main__ import cli\n"
        "result = CliRunner().invoke(cli, ['quote', 'verify', *sys.argv[1:]])\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(result.exit_code, sorted(loaded & {'sigstore', 'sigstore_models', 'pydantic', 'requests', 'tuf'}))\n"
    )
    for option, name in (("--policy", "policy.yaml"), ("--reference", "reference.json")):
        command = ["quote.bin", "--collateral", "collateral.json", "--at", AT, option, name]
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            cwd=files.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == "40 []\n", done.stderr
