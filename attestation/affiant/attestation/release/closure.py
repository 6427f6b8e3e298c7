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

__all__ = ["closure", "import_graph", "module_name"]

_ROOT = "affiant"


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
            found[name] = {*_imported(ast.parse(modules[name]()), modules), *_above(name, modules)} - {name}
            ahead.extend(found[name])
    return found


def closure(modules: Mapping[str, Callable[[], str]], programs: Iterable[str]) -> AbstractSet[str]:
    """The modules that ``programs`` can import, themselves included. As :func:`import_graph`."""
    return import_graph(modules, programs).keys()


def _above(name: str, modules: Mapping[str, object]) -> Iterator[str]:
    """The packages that are imported before ``name`` is."""
    package = name.rpartition(".")[0]
    while package:
        if package in modules:
            yield package
        package = package.rpartition(".")[0]


def _imported(tree: ast.AST, modules: Mapping[str, object]) -> Iterator[str]:
    for node in _running(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _ROOT:
            module = node.module or ""
            for alias in node.names:
                within = f"{module}.{alias.name}"
                if within in modules:
                    yield within
                elif module in modules:
                    yield module


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below ``node`` but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and _for_type_checkers(child.test):
            for other in child.orelse:
                yield other
                yield from _running(other)
        else:
            yield child
            yield from _running(child)


def _for_type_checkers(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
