"""``affiant run``: what its help loads, and a platform that cannot be had."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.sandbox.cli import commands, detached_commands

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


CONFLICTS = [
    (("--gateway", "https://g", "--upstream", "http://u/v1"), "--upstream"),
    (("--gateway-config", "sha256:" + "0" * 64), "--gateway URL"),
    (("--quiet", "--verbose"), "--verbose"),
    (("--host", "db=10.0.0.1", "--host", "db=10.0.0.2"), "'db' is given twice"),
    (("--env", "A=1", "--env", "A=2"), "'A' is given twice"),
    (("--bundle", "OUT/x", "--json", "OUT/x"), "--bundle and --json name the same file"),
    (("--decisions", "OUT/x", "--bundle", "OUT/./x"), "--bundle and --decisions name the same file"),
]


@pytest.mark.parametrize(("options", "text"), CONFLICTS)
def test_options_that_contradict_each_other_are_found_before_anything_starts(
    options: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    given = ["--profile", str(tmp_path / "profiles.yaml"), "--agent", "dev", "--home", str(tmp_path / "home")]
    given += [option.replace("OUT", str(tmp_path)) for option in options]
    done = CliRunner().invoke(commands.run, [*given, "--", "true"])
    assert (done.exit_code, text in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert not (tmp_path / "home").exists()


def test_the_same_value_twice_and_a_device_for_two_files_are_no_contradiction(tmp_path: Path) -> None:
    assert commands.variables("--env", ("A=1", "A=1"), "=", "NAME=VALUE") == {"A": "1"}
    null = Path("/dev/null")
    files = {"--bundle": null, "--json": null, "--decisions": None}
    commands.require_compatible(quiet=False, verbose=False, files=files)


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


@pytest.mark.parametrize("label", ["workflov=release", "attempt=two", "workflow="])
def test_a_task_label_of_another_form_is_refused_by_its_code(label: str, tmp_path: Path) -> None:
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    options = ["--profile", str(tmp_path / "profiles.yaml"), "--agent", "dev", "--task", label]
    options += ["--home", str(tmp_path / "home"), "--json", str(tmp_path / "summary.json")]
    options += ["--min-isolation", "namespace"]
    assert CliRunner().invoke(commands.run, [*options, "--", "true"]).exit_code == 125
    assert json.loads((tmp_path / "summary.json").read_text())["refused"]["code"] == "session.task"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--detach", "true"], 2),
        (["--"], 2),
        (["--", "true"], 125),
        (["--", "-x"], 125),
        (["true", "--"], 125),
    ],
)
def test_exec_takes_options_before_the_session_alone(words: list[str], code: int, tmp_path: Path) -> None:
    """125: the command is understood, and there is no such session."""
    done = CliRunner().invoke(detached_commands.execute, ["--home", str(tmp_path / "home"), "none", *words])
    assert done.exit_code == code, done.output
