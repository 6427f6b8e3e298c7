"""`affiant session serve`: options that do not fit together are usage errors, before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.sandbox.cli.serve_command import serve


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--token-file", "token", "--ttl", "601", "--max-ttl", "600"], "--ttl 601 is above --max-ttl 600"),
        (["--token-file", "token", "--max-ttl", "600"], "--ttl 900 is above --max-ttl 600"),
        ([], "Say who may call"),
        (["--token-file", "token", "--oidc-issuer", "https://id.example"], "Say who may call"),
        (["--token-file", "token", "--oidc-subject", "alice"], "belong to --oidc-issuer"),
        (["--token-file", "token", "--listen", "8470"], "expected ADDRESS:PORT"),
    ],
)
def test_options_that_do_not_fit_together_are_usage_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles.yaml").touch()
    result = CliRunner().invoke(serve, ["--profile", "profiles.yaml", *options])
    assert (result.exit_code, said in result.output) == (2, True), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["profiles.yaml"]
