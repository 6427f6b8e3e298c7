"""The closure of a program: every import that can happen, and none that cannot."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pytest

from affiant.attestation.release.closure import import_graph, module_name, reachable

TREE = {
    "affiant.a": lambda: "",
    "affiant.a.main": lambda: (
        "from typing import TYPE_CHECKING\n"
        "from affiant.a.near import near\n"
        "if TYPE_CHECKING:\n    from affiant.a.never import Never\n"
        "else:\n    from affiant.a.otherwise import other\n"
        "def late():\n    from affiant.b import module\n    import affiant.b.plain\n"
        "    try:\n        import affiant.a.tried\n    except OSError:\n        import affiant.a.caught\n"
        "    finally:\n        import affiant.a.last\n"
        "match 1:\n    case 1:\n        import affiant.a.matched\n"
    ),
    "affiant.a.near": lambda: "import json\nfrom affiant.c import name_that_is_no_module",
    "affiant.a.never": lambda: "",
    "affiant.a.otherwise": lambda: "",
    "affiant.a.tried": lambda: "",
    "affiant.a.caught": lambda: "",
    "affiant.a.last": lambda: "",
    "affiant.a.matched": lambda: "",
    "affiant.b": lambda: "",
    "affiant.b.module": lambda: "",
    "affiant.b.plain": lambda: "",
    "affiant.b.unused": lambda: "import affiant.a.never",
    "affiant.c": lambda: "",
}


def closure(program: str) -> AbstractSet[str]:
    return reachable(import_graph(TREE, [program]), [program])


def test_every_import_that_can_happen_counts_and_none_that_cannot() -> None:
    assert closure("affiant.a.main") == set(TREE) - {"affiant.a.never", "affiant.b.unused"}


def test_packages_above_a_module_count() -> None:
    assert "affiant.b" in closure("affiant.b.module")


def test_each_program_of_one_graph_reaches_its_own() -> None:
    graph = import_graph(TREE, ["affiant.a.main", "affiant.b.unused"])
    assert reachable(graph, ["affiant.b.unused"]) == {
        "affiant.a",
        "affiant.a.never",
        "affiant.b",
        "affiant.b.unused",
    }
    assert "affiant.a.never" not in reachable(graph, ["affiant.a.main"])


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
