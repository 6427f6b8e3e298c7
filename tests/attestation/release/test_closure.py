"""The closure of a program: every import that can happen, and none that cannot."""

from __future__ import annotations

import pytest

from affiant.attestation.release.closure import closure, import_graph, module_name

TREE = {
    "affiant.a": lambda: "",
    "affiant.a.main": lambda: (
        "from typing import TYPE_CHECKING\n"
        "from affiant.a.near import near\n"
        "if TYPE_CHECKING:\n    from affiant.a.never import Never\n"
        "else:\n    from affiant.a.otherwise import other\n"
        "def late():\n    from affiant.b import module\n    import affiant.b.plain\n"
    ),
    "affiant.a.near": lambda: "import json\nfrom affiant.c import name_that_is_no_module",
    "affiant.a.never": lambda: "",
    "affiant.a.otherwise": lambda: "",
    "affiant.b": lambda: "",
    "affiant.b.module": lambda: "",
    "affiant.b.plain": lambda: "",
    "affiant.b.unused": lambda: "import affiant.a.never",
    "affiant.c": lambda: "",
}


def test_every_import_that_can_happen_counts_and_none_that_cannot() -> None:
    assert closure(TREE, ["affiant.a.main"]) == set(TREE) - {"affiant.a.never", "affiant.b.unused"}


def test_packages_above_a_module_count() -> None:
    assert "affiant.b" in closure(TREE, ["affiant.b.module"])


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        import_graph(TREE, ["affiant.a.missing"])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("affiant/a/__init__.py", "affiant.a"),
        ("affiant/a/b.py", "affiant.a.b"),
        ("affiant/e.py", "affiant.e"),
    ],
)
def test_a_path_of_the_wheel_names_its_module(path: str, name: str) -> None:
    assert module_name(path) == name
