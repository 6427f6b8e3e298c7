"""Every module imports by itself, says what it is, and its examples hold."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import affiant.gateway

MODULES = [found.name for found in pkgutil.walk_packages(affiant.gateway.__path__, "affiant.gateway.")]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_documented_and_its_examples_hold(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert doctest.testmod(module).failed == 0
