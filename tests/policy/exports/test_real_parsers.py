"""Exports read by what they are for, where a machine has it: srt itself, and published schemas given by their paths.

``AFFIANT_SRT`` is the folder of the npm package (or it lies where ``make test-tools`` says),
``AFFIANT_CLAUDE_CODE_SCHEMA`` the settings' JSON Schema, ``AFFIANT_CILIUM_CRD`` the custom resource definition.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

from affiant.policy.exports.cilium import CILIUM
from affiant.policy.exports.claude_code import CLAUDE_CODE
from affiant.policy.exports.model import Target
from affiant.policy.exports.srt import SRT
from affiant.policy.loading.profile_set import Profile

RICH = """
tools: [Read, Glob, Edit, Write, WebFetch, Bash, run_tests, {name: search, server: github, approval: true}],
filesystem_access: [read:/w, 'read-write:/w/o', {path: "/w/s (1)", mode: none}, "read:/data (x)"],
network_egress: [{host: api.b.com, methods: [GET, POST], paths: [/v1, "/x/**"]}, {host: "**.c.com"}, {host: "*.d.com"},
  {host: plain.e.com, scheme: http, paths: ["/a.b/**", "/x+y"]}, {host: any.e.com, scheme: http, port: 8080},
  {host: private, address: 10.1.0.0/16}, {deny: x.c.com}, {deny: lonely}, {deny: "*.z.com", port: 443}],
secrets_access: [{name: KEY, hosts: [api.b.com]}], models: [small], requires_human_approval: {egress: [POST]}
"""
READ = """
import {{ loadConfig }} from {module}
const found = loadConfig(process.argv[1])
console.log(JSON.stringify(found))
"""


def documents(profile_of: Callable[..., Profile], target: Target) -> list[str]:
    profiles = [profile_of(RICH), profile_of("")]
    accepted = (frozenset[str](), frozenset(target.wider))
    return [target.export(profile, kinds).documents[0].text for profile in profiles for kinds in accepted]


def test_srt_reads_its_settings(profile_of: Callable[..., Profile], tmp_path: Path) -> None:
    kept = Path.home() / ".cache" / "affiant-tests" / "node_modules" / "@anthropic-ai" / "sandbox-runtime"
    package = Path(os.environ.get("AFFIANT_SRT", kept))
    if not package.is_dir() or shutil.which("node") is None:
        pytest.skip("no srt here: make test-tools says where from")
    script = READ.format(module=json.dumps(str(package / "dist" / "utils" / "config-loader.js")))
    for number, text in enumerate(documents(profile_of, SRT)):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        command = ["node", "--input-type=module", "-e", script, str(file)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
        assert found["kind"] == "ok", found
        settings = json.loads(text)
        settings.pop("$comment")
        assert found["config"] == settings


def test_claude_code_s_schema_holds(profile_of: Callable[..., Profile]) -> None:
    for text in documents(profile_of, CLAUDE_CODE):
        jsonschema.Draft7Validator(json.loads(_given("AFFIANT_CLAUDE_CODE_SCHEMA"))).validate(
            json.loads(text)
        )


def test_cilium_s_definition_holds(profile_of: Callable[..., Profile]) -> None:
    definition = yaml.safe_load(_given("AFFIANT_CILIUM_CRD"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for text in documents(profile_of, CILIUM):
        jsonschema.Draft7Validator(schema).validate(yaml.safe_load(text))


def _given(name: str) -> str:
    if name not in os.environ:
        pytest.skip(f"no published schema given as {name}")
    return Path(os.environ[name]).read_text()
