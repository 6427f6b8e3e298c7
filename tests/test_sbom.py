"""The wheel's bill of materials: what it and its extras need, as the lock has it, and nothing of the tests."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.test_lock import ENTRIES, PROJECT, ROOT


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    def printed() -> bytes:
        command = [sys.executable, "-S", str(ROOT / "scripts" / "sbom.py")]  # the standard library alone
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout

    data = printed()
    assert data == printed(), "the same sources give the same bytes"
    return json.loads(data)


def test_it_is_cyclonedx_of_this_project(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    component = bill["metadata"]["component"]
    assert (component["name"], component["version"]) == ("affiant", PROJECT["version"])
    assert component["licenses"] == [{"license": {"id": PROJECT["license"]}}]


def test_each_component_is_as_locked_with_all_hashes(bill: dict[str, Any]) -> None:
    for each in bill["components"]:
        requirement, hashes = ENTRIES[each["name"]]
        assert requirement.specifier.contains(each["version"]), each["name"]
        assert [f"sha256:{one['content']}" for one in each["hashes"]] == sorted(hashes)
        assert each["purl"] == each["bom-ref"] == f"pkg:pypi/{each['name']}@{each['version']}"


def test_what_the_base_needs_is_required_and_the_extras_are_optional(bill: dict[str, Any]) -> None:
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    base = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    assert (
        base
        <= {name for name, scope in scopes.items() if scope == "required"}
        <= base
        | {
            "cffi",
            "markupsafe",
            "pycparser",
        }
    )
    for extra, needs in PROJECT["optional-dependencies"].items():
        names = {canonicalize_name(Requirement(each).name) for each in needs} - {"affiant"}
        if extra != "dev":
            assert names <= set(scopes), extra
    assert not {"pytest", "mypy", "ruff", "hypothesis", "authlib", "hatchling"} & set(scopes)


def test_every_dependency_is_a_component_and_reached_from_the_project(bill: dict[str, Any]) -> None:
    edges = {each["ref"]: set(each["dependsOn"]) for each in bill["dependencies"]}
    listed = {each["bom-ref"] for each in bill["components"]}
    own = bill["metadata"]["component"]["bom-ref"]
    assert set(edges) == listed | {own}
    reached, todo = set(), [own]
    while todo:
        ref = todo.pop()
        if ref not in reached:
            reached.add(ref)
            todo += edges[ref]
    assert reached == listed | {own}


def test_the_build_takes_what_the_bill_is_made_of() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert {"/requirements.lock", "/scripts/sbom.py"} <= set(built["targets"]["sdist"]["include"])
