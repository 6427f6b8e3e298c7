"""Wheels for tests, written by hand: no network, no build."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["make_wheel"]


def make_wheel(
    folder: Path,
    name: str,
    *,
    files: Mapping[str, str] | None = None,
    requires: tuple[str, ...] = (),
    program: str | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """Version 1.0 of ``name`` in ``folder``; ``program`` is started by a script of that name."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-1.0.dist-info"
    needed = "".join(f"Requires-Dist: {each}\n" for each in requires)
    content = {
        f"{name}/__init__.py": "VALUE = 7\n\n\ndef main():\n    print(VALUE)\n",
        **(files or {}),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needed}",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if program is not None:
        content[f"{about}/entry_points.txt"] = f"[console_scripts]\n{program} = {name}:main\n"
    record = "".join(f"{path},,\n" for path in (*content, f"{about}/RECORD"))
    place = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for path, text in {**content, f"{about}/RECORD": record}.items():
            archive.writestr(path, text)
    return place
