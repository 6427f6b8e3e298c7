"""Public names of a package, each imported when it is first asked for: a package root costs nothing to import.

>>> names = lazy_names("affiant.attestation.encoding", {"b64u": "affiant.attestation.encoding.binary_text"})
>>> names("b64u")(b"hi")
'aGk'
>>> names("b65u")
Traceback (most recent call last):
...
AttributeError: module 'affiant.attestation.encoding' has no attribute 'b65u'
"""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Callable, Iterator, Mapping

__all__ = ["lazy_names", "loading"]


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of ``package`` (PEP 562).

    Args:
        names: each public name, and the module that defines it.
    """

    def get(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(names[name]), name)

    return get


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """A block that imports much. It makes no garbage; looking for some, again and again, took a seventh of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
