"""Builds a prepared environment for ``--runtime``, or finds that it is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from affiant.sandbox.runtimes.build_folder import Built, drafted, finish, known_build
from affiant.sandbox.runtimes.child_tool import Progress
from affiant.sandbox.runtimes.node_packages import install_node, require_node
from affiant.sandbox.runtimes.python_packages import find_interpreter, install_python
from affiant.sandbox.runtimes.runtime_check import require_usable
from affiant.sandbox.runtimes.wanted import read_wanted

__all__ = ["build_runtime"]


def build_runtime(
    requirements: Sequence[Path],
    place: Path,
    *,
    python: Path,
    extras: Sequence[str],
    rebuild: bool,
    environment: Mapping[str, str],
    progress: Progress,
) -> tuple[Built, bool]:
    """Have at ``place`` an environment with what ``requirements`` ask for.

    Args:
        python: the interpreter that the sandbox shows.
        extras: of a ``pyproject.toml``.
        rebuild: build again, whether or not anything changed.
        environment: the user's, for pip and npm.

    Returns:
        the build, and whether it was made now.

    Raises:
        AffiantError: as the modules of this package say; then ``place`` is as it was.
    """
    wanted = read_wanted(requirements, extras=extras)
    interpreter = find_interpreter(python) if wanted.python else None
    made_of: Mapping[str, object] = {
        "files": dict(wanted.digests),
        "extras": sorted(extras),
        "python": None if interpreter is None else interpreter.version,
    }
    earlier = known_build(place, changed=rebuild)
    if earlier is not None and earlier.made_of == made_of and not rebuild:
        return earlier, False
    packages: tuple[Mapping[str, object], ...] = ()
    with drafted(place) as draft:
        if interpreter is not None:
            progress(f"installing for Python {interpreter.version}")
            packages += install_python(wanted, draft, interpreter, environment=environment, progress=progress)
        if wanted.package_json is not None:
            require_node(environment.get("PATH", ""))
            progress("installing for Node")
            packages += install_node(wanted.package_json, draft, environment=environment, progress=progress)
        progress("computing the digest")
        require_usable(draft.root, root=Path("/"))
        known_build(place, changed=rebuild)  # others had minutes to put something there
        return finish(draft, place, made_of=made_of, packages=packages), True
