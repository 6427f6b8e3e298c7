"""``requirements.lock``: everything that set-up installs, by version and SHA-256; bounds without known holes."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()

ENTRIES = {
    canonicalize_name(requirement.name): (requirement, hashes)
    for requirement, hashes in (
        (Requirement(entry.partition("\\")[0].strip()), re.findall(r"--hash=(\S+)", entry))
        for entry in re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n?", "", LOCK).strip())
    )
}
DIRECT = [
    requirement
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for requirement in map(Requirement, group)
    if requirement.name != "affiant"
]

FIRST_WITHOUT_HOLE = {
    "authlib": "1.7.2",  # CVE-2026-41425, CVE-2026-44681
    "click": "8.4.2",  # CVE-2026-7246
    "cryptography": "50",  # CVE-2026-69247, CVE-2026-69248, CVE-2026-69249
    "h11": "0.16",  # CVE-2025-43859
    "jinja2": "3.1.6",  # CVE-2025-27516
    "pyjwt": "2.13",  # CVE-2026-32597, CVE-2026-48522 to CVE-2026-48526
    "pytest": "9.0.3",  # CVE-2025-71176
    "requests": "2.33",  # CVE-2026-25645
    "rfc3161-client": "1.0.6",  # CVE-2026-33753
    "starlette": "1.3.1",  # CVE-2025-62727, CVE-2026-48710, CVE-2026-54282, CVE-2026-54283
}


def test_each_entry_is_one_version_with_its_hashes() -> None:
    assert len(ENTRIES) > 50
    for requirement, hashes in ENTRIES.values():
        (specifier,) = requirement.specifier
        assert specifier.operator == "==" and requirement.url is None
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes), requirement


def test_the_lock_names_no_place_to_install_from() -> None:
    assert not re.search(r"(?m)^\s*-(?!-hash=)", LOCK) and "://" not in LOCK


def test_every_dependency_is_in_the_lock_within_its_bounds() -> None:
    for requirement in DIRECT:
        locked, _ = ENTRIES[canonicalize_name(requirement.name)]
        (specifier,) = locked.specifier
        assert requirement.specifier.contains(specifier.version), requirement


def test_what_is_installed_here_is_what_is_locked() -> None:
    different = {}
    for name, (requirement, _) in ENTRIES.items():
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "nothing"
        if found not in requirement.specifier:
            different[name] = found
    assert not different, "run: make setup"


@pytest.mark.parametrize("name", FIRST_WITHOUT_HOLE)
def test_a_lower_bound_is_no_version_with_a_known_hole(name: str) -> None:
    bounds = [each for each in DIRECT if canonicalize_name(each.name) == name]
    assert bounds
    for requirement in bounds:
        floors = [Version(each.version) for each in requirement.specifier if each.operator == ">="]
        assert floors and max(floors) >= Version(FIRST_WITHOUT_HOLE[name]), requirement


def test_set_up_installs_by_hash_and_the_project_itself_without_a_package_index() -> None:
    script = (ROOT / "scripts" / "setup.sh").read_text()
    installs = [line for line in script.splitlines() if "-m pip install" in line]
    by_hash, itself = installs
    assert "--require-hashes --requirement requirements.lock" in by_hash
    assert "--no-index --no-deps --no-build-isolation --editable ." in itself
