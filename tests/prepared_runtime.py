"""A Python environment for the inside of a sandbox, from the packages of the tests' own: no network is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["VERSION", "fits", "make_runtime"]

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def fits() -> bool:
    """Whether the ``python3`` inside is one that these packages are made for."""
    done = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=False)
    return done.stdout.startswith(f"Python {VERSION}.")


def make_runtime(folder: Path, *names: str, site: Path | None = None) -> Path:
    """The packages of these names, and all that they need, in ``folder``.

    Args:
        site: where they are installed (``pip install --target``); None: in the tests' own environment.
    """
    search = {} if site is None else {"path": [str(site)]}
    packages = folder / "lib" / f"python{VERSION}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to("/usr/bin/python3")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    wanted, seen = list(names), set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        found = next(iter(Distribution.discover(name=name, **search)), None)
        if found is None:  # of another platform
            continue
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found.locate_file(file), target)
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": "crypto"}):
                wanted.append(needed.name)
    return folder
