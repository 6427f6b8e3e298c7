"""The isolation tools without affiant: what ``runsc``, ``bwrap`` and a plain process take for the same command.

Each shows the machine's ``/usr`` read-only and has no network. ``runsc`` gets the flags with which affiant uses it.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_STARTS_WITHIN_S = 60.0
_ONE_ID = "affiant-bench-"


@dataclass(frozen=True, slots=True)
class Kept:
    """A sandbox of a tool that stays, with an idle first process in it."""

    process: subprocess.Popen[bytes]
    execute: Callable[[tuple[str, ...]], None]
    """Run one more command in it and wait for its end."""


class PlainProcess:
    name = "plain process"

    def run(self, *command: str) -> None:
        _run(command)

    @contextmanager
    def kept(self) -> Iterator[Kept]:
        with _idle(("cat",)) as process:
            yield Kept(process, _run)


class Bubblewrap:
    name = "bwrap"

    def _start(self, command: tuple[str, ...]) -> tuple[str, ...]:
        links = [part for name, target in _LINKS.items() for part in ("--symlink", target, f"/{name}")]
        shown = ("--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev")
        return ("bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", *shown, "--", *command)

    def run(self, *command: str) -> None:
        _run(self._start(command))

    @contextmanager
    def kept(self) -> Iterator[Kept]:
        """bwrap enters no sandbox that runs; ``nsenter`` does."""
        with _idle(self._start(("sh", "-c", "echo; exec cat"))) as process:
            assert process.stdout is not None
            process.stdout.readline()
            first = _last_descendant(process.pid)
            entering = (
                "nsenter",
                f"--target={first}",
                "--user",
                "--mount",
                "--pid",
                "--net",
                "--ipc",
                "--uts",
                "--root",
            )
            yield Kept(process, lambda command: _run((*entering, "--preserve-credentials", *command)))


class Runsc:
    name = "runsc"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        for name in ("usr", "proc", "dev"):
            (self._root / name).mkdir(parents=True)
        for name, target in _LINKS.items():
            (self._root / name).symlink_to(target)

    def run(self, *command: str) -> None:
        bundle = self._bundle(command)
        _run((*self._flags(), "run", f"--bundle={bundle}", bundle.name))

    @contextmanager
    def kept(self) -> Iterator[Kept]:
        bundle = self._bundle(("sh", "-c", "echo; exec cat"))
        with _idle((*self._flags(), "run", f"--bundle={bundle}", bundle.name)) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield Kept(process, lambda command: _run((*self._flags(), "exec", bundle.name, *command)))

    def _flags(self) -> tuple[str, ...]:
        state = self._folder / "state"
        return (
            *("runsc", f"--root={state}", "--platform=systrap", "--network=none", "--overlay2=none"),
            *("--file-access-mounts=shared", "--ignore-cgroups", "--oci-seccomp=true"),
        )

    def _bundle(self, command: tuple[str, ...]) -> Path:
        bundle = self._folder / f"{_ONE_ID}{uuid4().hex}"
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(self._configuration(command)))
        return bundle

    def _configuration(self, command: tuple[str, ...]) -> Mapping[str, object]:
        usr = {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}
        environment = [f"{name}={value}" for name, value in _ENVIRONMENT.items()]
        process = {"user": {"uid": 0, "gid": 0}, "args": list(command), "env": environment, "cwd": "/"}
        kinds = ("pid", "ipc", "uts", "mount", "network")
        return {
            "ociVersion": "1.0.2",
            "process": process,
            "root": {"path": str(self._root), "readonly": True},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, usr],
            "linux": {"namespaces": [{"type": kind} for kind in kinds]},
        }


Tool = PlainProcess | Bubblewrap | Runsc


def _run(command: tuple[str, ...]) -> None:
    subprocess.run(
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_ENVIRONMENT,
    )


@contextmanager
def _idle(command: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its standard input does."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=_ENVIRONMENT, **pipes)
    try:
        yield process
    finally:
        process.communicate(timeout=_STARTS_WITHIN_S)


def _last_descendant(process: int) -> int:
    """The innermost process: ``bwrap`` starts one in the sandbox, and that one the command."""
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        if not children:
            return process
        process = int(children[0])
    raise RuntimeError("bwrap started no command")
