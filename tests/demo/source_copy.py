"""A copy of the source tree with an environment of its own, in which one control can be switched off.

Nothing in the product knows of this. A copy is what a hostile build would be: the same files but for one place,
with a release manifest that measures them as they are, so that its platform accepts its own quotes. What is left
to notice the change is the demo's own reading of receipts, of the stand-in's log and of the host.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "DemoRun", "Patch", "SourceCopy", "copy_source"]

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ("attestation", "policy", "secrets", "sandbox", "gateway")
LIMIT_S: Final = 400.0
"""A demo takes well below a minute on an idle machine."""

_ADDRESS: Final = "127.84.17.3"
"""The stand-in's address in the demo; each copy gets another one, so that two can run at once."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One replacement in one file; what is replaced must stand there exactly once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DemoRun:
    """What one run of the demo printed, and how it ended."""

    exit_code: int
    text: str

    def lines(self, mark: str) -> list[str]:
        """The facts with ``mark`` (``ok`` or ``NO``), without their sources."""
        told = self.text.partition("\nAll ")[0].splitlines()
        found = [line for line in told if line.startswith(f"  {mark}  ") and line.endswith("]")]
        return [line[6:].partition(" [")[0].strip() for line in found]


@dataclass(frozen=True, slots=True)
class SourceCopy:
    """A copied tree; ``folder`` holds it, its environment and what its demo leaves."""

    folder: Path

    @property
    def tree(self) -> Path:
        """The copied sources."""
        return self.folder / "tree"

    @property
    def python(self) -> Path:
        """The interpreter of the copy's own environment."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def place(self) -> Path:
        """The demo's folder."""
        return self.folder / "demo"

    def environment(self, **more: str) -> dict[str, str]:
        """What a command of the copy runs with: nothing of this test run's own Python settings."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TZ")}
        home = {"HOME": str(self.folder), "AFFIANT_DEMO_DIR": str(self.place)}
        return {**kept, **home, **more}

    def apply(self, *patches: Patch) -> None:
        """Change the copy, and measure it again."""
        for patch in patches:
            file = self.tree / patch.path
            text = file.read_text()
            assert text.count(patch.old) == 1, f"{patch.path}: {text.count(patch.old)} times:\n{patch.old}"
            file.write_text(text.replace(patch.old, patch.new))
        self.run("-m", "affiant.attestation.release", "write")

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """Run the copy's Python to its good end; what it printed."""
        command = [str(self.python), *arguments]
        env = self.environment() if environment is None else environment
        done = subprocess.run(
            command, cwd=self.tree, env=env, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def demo(self, *before: str, **environment: str) -> DemoRun:
        """Run ``python -m examples.demo``; ``before``: a program that starts it."""
        process = subprocess.Popen(
            [*before, str(self.python), "-m", "examples.demo"],
            cwd=self.tree,
            env=self.environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        with process:
            try:
                output, _ = process.communicate(timeout=LIMIT_S)
            except BaseException:
                process.terminate()
                raise
        return DemoRun(process.returncode, output.decode("utf-8", "replace"))


def copy_source(folder: Path, *, runtime: Path | None) -> SourceCopy:
    """Copy the sources as they are now, unchanged but for the stand-in's address.

    Args:
        runtime: the demo's Python environment of an earlier run; None: the demo makes it.
    """
    copy = SourceCopy(folder)
    for name in (*SOURCES, "examples"):
        shutil.copytree(ROOT / name, copy.tree / name)  # with its bytecode, which a patch makes stale
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder / "venv")
    _lead_to(copy)
    copy.place.mkdir()
    if runtime is not None:
        shutil.copytree(runtime, copy.place / "runtime", symlinks=True)
    address = f"127.{64 + secrets.randbelow(64)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"
    for name in ("demo/__main__.py", "demo-profiles.yaml"):
        file = copy.tree / "examples" / name
        assert _ADDRESS in file.read_text()
        file.write_text(file.read_text().replace(_ADDRESS, address))
    copy.apply()
    return copy


def _lead_to(copy: SourceCopy) -> None:
    """The copy's sources first, then the packages of this environment.

    A ``.pth`` file adds folders without reading the ``.pth`` files in them: the editable installation that this
    environment has of the original is not followed.
    """
    names = {"base": str(copy.folder / "venv"), "platbase": str(copy.folder / "venv")}
    packages = Path(sysconfig.get_path("purelib", vars=names))
    here = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    lines = [*(str(copy.tree / name) for name in SOURCES), *here]
    (packages / "copy.pth").write_text("\n".join(lines) + "\n")
    found = copy.run("-c", "import affiant.errors as e, affiant.gateway as g; print(e.__file__, g.__file__)")
    assert all(path.startswith(str(copy.tree)) for path in found.split()), found
