"""``affiant run``: what its help loads, and a platform that cannot be had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.sandbox.cli import commands

PROFILE = "agent_configs: {dev: {filesystem_access: 'read-write:/workspace'}}\n"


def test_help_loads_no_session() -> None:
    code = (
        "import sys\n"
        "sys.argv = ['affiant', 'run', '--help']\n"
        "from affiant.__main__ import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "heavy = ('asyncio', 'cryptography', 'yaml', 'affiant.policy', 'affiant.sandbox.session')\n"
        "assert not [name for name in heavy if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_the_platforms_of_the_option_are_those_that_there_are() -> None:
    option = next(each for each in commands.run.params if each.name == "platform")
    assert list(option.type.choices) == list(PlatformName)


@pytest.mark.parametrize("platform", ["tdx", "dstack"])
def test_a_platform_that_cannot_run_the_session_is_refused_by_its_code(platform: str, tmp_path: Path) -> None:
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    options = ["--profile", str(tmp_path / "profiles.yaml"), "--agent", "dev", "--platform", platform]
    options += ["--home", str(tmp_path / "home"), "--json", str(tmp_path / "summary.json")]
    options += ["--min-isolation", "namespace"]
    done = CliRunner().invoke(commands.run, [*options, "--", "true"])
    assert done.exit_code == 125
    refused = json.loads((tmp_path / "summary.json").read_text())["refused"]
    assert refused["code"] == "session.platform"
    assert not (tmp_path / "home" / "platform" / "keys.json").exists(), "no simulated platform took its place"
