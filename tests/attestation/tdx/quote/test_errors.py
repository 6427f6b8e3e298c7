"""Refusals: one code each, in the documented tree; public names are listed and sorted."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
from tests.source_codes import codes_raised_in

import affiant.attestation.tdx as tdx
from affiant.attestation.tdx.quote import errors
from affiant.errors import AffiantError

MODULES = sorted(
    found.name for found in pkgutil.walk_packages(tdx.__path__, f"{tdx.__name__}.") if not found.ispkg
)

ROOT = Path(__file__).resolve().parents[4]


def test_every_refusal_has_a_code_of_its_own_that_is_documented() -> None:
    classes = [getattr(errors, name) for name in errors.__all__]
    assert all(issubclass(refusal, AffiantError) for refusal in classes)
    codes = [refusal.code for refusal in classes]
    codes += sorted(codes_raised_in(Path(tdx.__path__[0])) - set(codes))
    assert len(set(codes)) == len(codes)
    documented = (ROOT / "docs" / "errors.md").read_text()
    for code in codes:
        assert f"`{code}`" in documented, code


@pytest.mark.parametrize("name", MODULES)
def test_public_names_exist_and_are_listed(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert hasattr(module, public)
    defined = {
        attribute
        for attribute, value in vars(module).items()
        if not attribute.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    }
    assert defined <= set(module.__all__)


def test_the_core_reads_no_clock_no_network_and_no_environment() -> None:
    for name in MODULES:
        source = inspect.getsource(importlib.import_module(name))
        for forbidden in (".now(UTC)\n", "utcnow", "time.time", "os.environ", "import os", "socket", "open("):
            assert forbidden not in source, (name, forbidden)
