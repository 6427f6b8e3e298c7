import doctest
import importlib
import pkgutil

import pytest

import affiant.secrets

MODULES = [
    module.name
    for module in pkgutil.walk_packages(affiant.secrets.__path__, "affiant.secrets.")
    if not module.ispkg and not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_page_are_true(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_public_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    assert all(hasattr(module, public) for public in module.__all__)


def test_the_standard_library_keeps_its_name() -> None:
    import secrets

    assert len(secrets.token_bytes(3)) == 3
