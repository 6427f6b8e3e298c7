"""What a program can import of ``affiant``: every module that its code names in an import, at whatever moment.

Read from the source, without running it. An import inside a function counts, because it can happen; one under
``if TYPE_CHECKING`` does not, because it never does. Packages above a module are part of what it takes to import it.
A module that is named by a string alone (``importlib.import_module``) is not seen: a measured program that
starts or loads one must have it in :data:`~affiant.attestation.release.images.PROGRAMS`.

Only the standard library: the build of the package computes images with the same code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache

__all__ = ["import_graph", "module_name", "reachable"]

_ROOT = "affiant"
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")  # where a statement has statements


def module_name(path: str) -> str:
    """The module at ``path`` of a wheel: ``affiant/a/__init__.py`` and ``affiant/a.py`` are ``affiant.a``."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(
    modules: Mapping[str, Callable[[], str]], programs: Iterable[str]
) -> Mapping[str, AbstractSet[str]]:
    """Which modules each one imports by itself, for ``programs`` and all that they reach.

    Args:
        modules: each module's name, and what reads its source.

    Raises:
        KeyError: a program is no module of ``modules``. SyntaxError: a source is not Python.
    """
    found: dict[str, AbstractSet[str]] = {}
    ahead = list(programs)
    while ahead:
        name = ahead.pop()
        if name not in found:
            found[name] = {*_imported(modules[name](), modules), *_above(name, modules)} - {name}
            ahead.extend(found[name])
    return found


def reachable(graph: Mapping[str, AbstractSet[str]], programs: Iterable[str]) -> AbstractSet[str]:
    """The modules of ``graph`` that ``programs`` can import, themselves included."""
    found: set[str] = set()
    ahead = list(programs)
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead.extend(graph[name])
    return found


def _above(name: str, modules: Mapping[str, object]) -> Iterator[str]:
    """The packages that are imported before ``name`` is."""
    package = name.rpartition(".")[0]
    while package:
        if package in modules:
            yield package
        package = package.rpartition(".")[0]


def _imported(source: str, modules: Mapping[str, object]) -> Iterator[str]:
    for module, name in _import_statements(source):
        within = f"{module}.{name}"
        if name is not None and within in modules:
            yield within
        elif module in modules:
            yield module


@lru_cache(maxsize=4096)
def _import_statements(source: str) -> tuple[tuple[str, str | None], ...]:
    """Each ``import module`` and ``from module import name``."""
    found: list[tuple[str, str | None]] = []
    for node in _running(ast.parse(source).body):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _ROOT:
            found += [(node.module or "", alias.name) for alias in node.names]
    return tuple(found)


def _running(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every statement of ``block``, and of the blocks in it, but those that only a type checker reads."""
    for node in block:
        if isinstance(node, ast.If) and _for_type_checkers(node.test):
            yield from _running(node.orelse)
        else:
            yield node
            for inner in _BLOCKS:
                yield from _running(getattr(node, inner, ()))


def _for_type_checkers(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
