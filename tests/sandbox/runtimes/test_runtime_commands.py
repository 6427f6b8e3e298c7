"""``affiant runtime`` as a user meets it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.sandbox.runtimes.wheels import make_wheel

from affiant.__main__ import cli
from affiant.sandbox.workspace.walk import runtime_digest


def affiant(*arguments: object, **environment: str):
    return CliRunner().invoke(cli, [str(each) for each in arguments], env=environment)


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="the sandbox's /usr has no python3")
def test_a_build_says_its_digest_also_as_json_and_check_says_the_same(tmp_path):
    make_wheel(tmp_path / "wheels", "alpha", program="alpha-tool")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\ndependencies = ['alpha']\n")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    options = ("-r", tmp_path / "pyproject.toml", "-o", tmp_path / "env")
    done = affiant("runtime", "build", *options, **pip)
    digest = runtime_digest(tmp_path / "env")
    assert (done.exit_code, f"Digest {digest}" in done.output) == (0, True), done.output
    again = json.loads(affiant("runtime", "build", *options, "--json", **pip).stdout)
    assert (again["built"], again["digest"], again["packages"][0]["name"]) == (False, digest, "alpha")
    checked = affiant("runtime", "check", tmp_path / "env", "--program", "alpha-tool", "--json")
    assert json.loads(checked.stdout)["digest"] == digest


def test_an_environment_that_does_not_work_is_one_line_with_its_code(tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python3").symlink_to("/home/u/python3")
    done = affiant("runtime", "check", tmp_path / "env")
    assert (done.exit_code, "[runtime.interpreter]" in done.stderr) == (1, True)
    (tmp_path / "env" / "bin" / "python3").unlink()
    (tmp_path / "env" / "bin" / "tool").write_text("#!/home/u/python3\n")
    done = affiant("runtime", "check", tmp_path / "env", "--program", "tool")
    assert (done.exit_code, "[runtime.program]" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("link", "program", "code"), [("python3", "true", "interpreter"), ("other", "tool", "program")]
)
def test_a_session_is_refused_for_it_before_anything_starts(tmp_path, link, program, code):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / link).symlink_to("/home/u/python3")
    (tmp_path / "env" / "bin" / "tool").write_text("#!/home/u/python3\n")
    (tmp_path / "p.yaml").write_text("agent_configs: {dev: {filesystem_access: 'read-write:/workspace'}}\n")
    options = ("--profile", tmp_path / "p.yaml", "--agent", "dev", "--home", tmp_path / "home")
    given = ("--min-isolation", "namespace", "--runtime", tmp_path / "env")
    done = affiant("run", *options, *given, "--", program)
    assert (done.exit_code, f"[runtime.{code}]" in done.stderr) == (125, True), done.output
    assert not (tmp_path / "home" / "sessions").exists() or not os.listdir(tmp_path / "home" / "sessions")
