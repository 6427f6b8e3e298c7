"""Schemathesis, a program that is not ours: it asks a server for what its OpenAPI document says, rightly and wrongly.

It has an environment of its own, because it pins other releases of what we need; without it the tests are skipped.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

__all__ = ["found_by_schemathesis"]

PYTHON = Path.home() / ".cache" / "affiant-tests" / "schemathesis" / "bin" / "python"
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance"
)
"""Not that all that the document allows is accepted: who asks has no session. Nor that other methods are a 405: at the
paths of a model's API they are its 404."""


def found_by_schemathesis(
    url: str,
    document: bytes,
    folder: Path,
    *,
    seconds: int,
    examples: int,
    without: str,
) -> str:
    """What it found, as text; empty: nothing.

    Args:
        seconds: after which it asks no more. examples: of each operation.
        without: a pattern of paths that are not asked for.
    """
    if not PYTHON.is_file():
        pytest.skip("no schemathesis here: make test-tools says where from")
    (folder / "document.json").write_bytes(document)
    command = [str(PYTHON), "-m", "schemathesis.cli", "run", "document.json", "--url", url]
    command += ["--tls-verify", "false", "--no-color", "--warnings", "off", "--continue-on-failure"]
    command += ["--phases", "coverage,fuzzing", "--generation-deterministic", "--request-timeout", "20"]
    command += ["--checks", CHECKS, "--max-time", str(seconds), "--max-examples", str(examples)]
    command += ["--exclude-path-regex", without]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=seconds + 60, check=False
    )
    assert "generated" in done.stdout, done.stdout + done.stderr
    return "" if done.returncode == 0 else done.stdout
