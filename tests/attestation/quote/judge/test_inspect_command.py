"""``affiant quote inspect`` as a user runs it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.tdx.conftest import MRCONFIGID, quote_of

from affiant.__main__ import cli
from affiant.attestation.simulated.platform.platform import SimulatedPlatform


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["quote", *map(str, arguments)], input=stdin)


@pytest.fixture
def file(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    path = tmp_path / "quote.bin"
    path.write_bytes(quote_of(platform))
    return path


def test_a_file_and_standard_input_give_the_same_table(file: Path) -> None:
    from_file, from_stdin = run("inspect", file), run("inspect", "-", stdin=file.read_bytes())
    assert from_file.exit_code == from_stdin.exit_code == 0
    assert from_file.output == from_stdin.output
    assert MRCONFIGID.hex() in from_file.output


def test_the_spelling_is_found_and_named(file: Path) -> None:
    data = file.read_bytes()
    for encoding, text in (("hexadecimal", data.hex().encode()), ("base64", base64.b64encode(data))):
        document = json.loads(run("inspect", "-", "--json", stdin=text).output)
        assert document["file"]["encoding"] == encoding
        assert document["body"]["mrconfigid"] == MRCONFIGID.hex()


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (b"\x81" + bytes(1023), "quote.local_report", "TDREPORT"),
        (b"\x03\x00\x02\x00" + bytes(500), "quote.not_tdx", "SGX quote"),
        (b"", "quote.not_a_quote", "empty"),
        (b"\x04\x00", "quote.malformed", "header"),
    ],
)
def test_what_is_no_tdx_quote_is_refused_by_name(content: bytes, code: str, says: str) -> None:
    result = run("inspect", "-", stdin=content)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"[{code}]" in result.stderr
    assert says in result.stderr
    as_json = run("inspect", "-", "--json", stdin=content)
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["refused"]["code"] == code


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    assert run("inspect").exit_code == 2
    assert run("inspect", tmp_path / "absent").exit_code == 2
    assert run("inspect", tmp_path).exit_code == 2


def test_an_endless_input_is_not_read_to_its_end(tmp_path: Path) -> None:
    """/dev/zero never ends; the command does."""
    done = subprocess.run(
        [sys.executable, "-m", "affiant", "quote", "inspect", "/dev/zero"],
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert b"too large" in done.stderr


def test_help_gives_examples_and_exit_codes() -> None:
    for command in ("inspect", "verify", "explain", "eventlog", "conformance"):
        text = run(command, "--help").output
        assert f"affiant quote {command}" in text
        assert "Exit codes" in text
    assert "affiant quote inspect" in run("--help").output


def test_help_loads_no_cryptography() -> None:
    """Completion and help run at every press of the tab key."""
    code = (
        "import sys, affiant.attestation.cli.quote.commands\n"
        "sys.exit(any(name.startswith(('cryptography', 'affiant.attestation.tdx')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
