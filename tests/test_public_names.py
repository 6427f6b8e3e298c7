"""Package roots: each public name is there, and asking for the package imports nothing behind it."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = ("attestation", "policy", "secrets", "sandbox", "gateway")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_root_is_there(package: str) -> None:
    root = importlib.import_module(f"affiant.{package}")
    assert root.__all__ == sorted(root.__all__)
    assert root.__all__
    for name in root.__all__:
        assert getattr(root, name).__name__ == name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_root_imports_nothing_behind_it(package: str) -> None:
    code = (
        f"import sys, affiant.{package}\n"
        f"assert not [name for name in sys.modules if name.startswith('affiant.{package}.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
