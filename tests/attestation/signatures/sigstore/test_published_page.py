"""docs/formats/published.md is true: its commands run in their order, its codes are those of the code."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attestation.signatures.sigstore.conftest import POLICY
from tests.attestation.tdx.conftest import NOW, quote_of
from tests.sigstore_authority.authority import Authority, encoded
from tests.sigstore_authority.serving import serve

from affiant.__main__ import cli
from affiant.attestation.error_codes import ERROR_CODES
from affiant.attestation.signatures.sigstore import errors
from affiant.attestation.signatures.sigstore.statement import file_statement, parse_file_statement
from affiant.attestation.simulated.platform.platform import SimulatedPlatform

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE = (DOCS / "formats" / "published.md").read_text()


def commands() -> dict[str, list[str]]:
    lines = re.findall(r"^affiant ([^\n]*)", PAGE.replace("\\\n", " "), re.MULTILINE)
    return {shlex.split(line)[1 if "verify" in line else 2]: shlex.split(line) for line in lines}


def test_its_commands_run(
    platform: SimulatedPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(commands()) == ["verify", "published", "publish", "statement"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Path("appraisal.yaml").write_bytes(POLICY.content)
    Path("quote.bin").write_bytes(quote_of(platform))
    Path("collateral.json").write_bytes(platform.collateral(NOW).to_bytes())
    with serve(Authority()) as deployment:
        deployment.issuer = "https://accounts.vendor.example"
        Path("token").write_text(deployment.token("release@vendor.example"))
        Path("trust_config.json").write_bytes(encoded(deployment.trust_config()))
        Path("trusted_root.json").write_bytes(encoded(deployment.authority.trusted_root()))
        for name in ("publish", "statement", "published", "verify"):
            at = ["--at", f"{NOW:%Y-%m-%dT%H:%M:%SZ}"] if name == "verify" else []
            result = CliRunner().invoke(cli, [*commands()[name], *at])
            assert result.exit_code == (40 if at else 0), result.output
    assert Path("mine.yaml").read_bytes() == POLICY.content


def test_its_statement_is_one() -> None:
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])  # type: ignore[index]
    made = json.loads(file_statement(POLICY))
    shown["subject"][0]["digest"] = made["subject"][0]["digest"]
    shown["predicate"]["content"] = made["predicate"]["content"]
    assert parse_file_statement(json.dumps(shown).encode()) == POLICY


def test_its_codes_are_those_of_the_code() -> None:
    told = set(re.findall(r"^\| `(published\.[a-z_]+)` \|", PAGE, re.MULTILINE))
    of_families = {code for code in ERROR_CODES if code.startswith("published.")}
    assert told == {getattr(errors, name).code for name in errors.__all__} | of_families


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(((?!https:)[^)#]+)\)", PAGE):
        assert (DOCS / "formats" / target).exists(), target
