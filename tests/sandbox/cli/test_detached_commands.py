"""The help of the commands for detached sessions is laid out as written."""

from __future__ import annotations

import pytest
from tests.sandbox.conftest import affiant


@pytest.mark.parametrize(
    "verb", ["create", "exec", "shell", "logs", "stop", "rm", "prune", "template", "serve"]
)
def test_examples_and_exit_codes_stay_on_lines_of_their_own(verb: str) -> None:
    lines = affiant("session", verb, "--help").stdout.decode().splitlines()
    assert "\\b" not in "".join(lines)
    example = lines.index("  Examples:") + 1
    assert lines[example].startswith(f"    affiant session {verb} ")
    assert any(line.startswith("  Exit codes: ") for line in lines)
