"""The demo's own folder: its state, its workspace, its runtime. Nothing outside of it is written."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "examples" / "demo-profiles.yaml"
AGENT = ROOT / "examples" / "agent.py"


@dataclass(frozen=True)
class Place:
    """Paths below ``.demo/``; ``home`` is thrown away at each start, ``runtime`` is kept."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def runtime(self) -> Path:
        return self.folder / "runtime"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def canary(self) -> Path:
        """A file of the host, outside of everything that the profile names."""
        return self.folder / "outside" / "canary.txt"

    @property
    def profiles(self) -> Path:
        """A copy of our own: a checkout may belong to another user, whose profiles are not run."""
        return self.folder / "profiles.yaml"

    @property
    def bundle(self) -> Path:
        return self.folder / "session.affiant.json"

    @property
    def trust(self) -> Path:
        return self.folder / "trust.json"

    def environment(self) -> dict[str, str]:
        """What every command of the demo runs with."""
        return {**os.environ, "AFFIANT_HOME": str(self.home)}


def affiant(place: Place, *arguments: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    """Run one ``affiant`` command to its end."""
    return subprocess.run(
        command_line(*arguments),
        env=place.environment(),
        capture_output=True,
        check=False,
        timeout=120,
        **more,
    )


def command_line(*arguments: str) -> list[str]:
    """``affiant ...`` as this interpreter runs it."""
    return [sys.executable, "-m", "affiant", *arguments]


def fresh(folder: Path) -> Place:
    """An empty place, but for the runtime of an earlier run."""
    place = Place(folder)
    for child in folder.iterdir() if folder.exists() else ():
        if child != place.runtime:
            shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
    for made in (place.work, place.canary.parent):
        made.mkdir(parents=True)
    place.home.mkdir(mode=0o700)
    (place.work / "notes.txt").write_text(
        "Ship the release on Friday. Ask Ada before touching the database.\n"
    )
    shutil.copy(AGENT, place.work / "agent.py")
    shutil.copyfile(PROFILES, place.profiles)
    place.canary.write_text(secrets.token_urlsafe(32))
    return place


def make_runtime(place: Place) -> None:
    """A Python environment with ``openai`` in it, for the interpreter that the sandbox shows (the host's /usr)."""
    version = _version()
    stamp = place.runtime / f"made-for-{version}"
    if stamp.exists():
        return
    shutil.rmtree(place.runtime, ignore_errors=True)
    wanted = place.folder / "requirements.txt"
    wanted.write_text("openai>=2\n")
    build = ("runtime", "build", "-r", str(wanted), "-o", str(place.runtime), "--quiet")
    subprocess.run(command_line(*build), stdout=subprocess.DEVNULL, check=True, timeout=300)
    stamp.touch()


def _version() -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        ["/usr/bin/python3", "-c", code], capture_output=True, check=True, text=True
    ).stdout.strip()
