"""What the benchmarks of sessions share: services, a profile, a session under one isolation, percentiles."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from affiant.sandbox.isolation.backends.backend import Availability, probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.session import session as session_module
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from benchmarks.bare_tools import Bubblewrap, PlainProcess, Runsc, Tool
from benchmarks.control_group import ControlGroup

PROFILE = b"agent_configs: {bench: {filesystem_access: 'read-write:/workspace'}}\n"
AGENT = "bench"
_IDLE = ("sh", "-c", "echo; exec cat")
"""Ends when its standard input does."""
_SUPERVISOR, _TEMPLATE = "affiant.sandbox.supervisor", "affiant.sandbox.processes.template"
_TRIMMED = 0.05
"""So much of the measurements is left out at each end, as the sandbox benchmark does (computesdk/benchmarks)."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with everything that a measured session needs."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def request(self) -> SessionRequest:
        return SessionRequest(
            profile=self.folder / "profiles.yaml",
            agent=AGENT,
            input=self.folder / "work",
            min_isolation=IsolationClass.NAMESPACE,
        )

    def affiant(self, *arguments: str, home: Path | None = None, **more: object) -> subprocess.Popen[bytes]:
        """A command of ours as a process of its own."""
        environment = {**os.environ, "AFFIANT_HOME": str(home or self.home)}
        return subprocess.Popen([sys.executable, "-m", "affiant", *arguments], env=environment, **more)

    def run_arguments(self, *command: str) -> tuple[str, ...]:
        """``affiant run`` with the profile and the input."""
        asked = self.request
        given = ("--profile", str(asked.profile), "--agent", AGENT, "--input", str(asked.input))
        return ("run", *given, "--min-isolation", "namespace", "--quiet", "--", *command)


@contextmanager
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="affiant-bench-") as folder:
        made = Place(Path(folder))
        (made.folder / "profiles.yaml").write_bytes(PROFILE)
        (made.folder / "work").mkdir()
        yield made


@contextmanager
def served(at: Place, group: ControlGroup) -> Iterator[None]:
    """A platform and a gateway in the background, in ``group``."""
    at.home.mkdir(mode=0o700)
    services: list[subprocess.Popen[bytes]] = []
    try:
        for name in ("platform", "gateway"):
            reading, writing = os.pipe()
            arguments = (name, "serve", "--ready-fd", str(writing))
            more = {"pass_fds": (writing,), "stderr": subprocess.DEVNULL, "preexec_fn": group.enter}
            services.append(at.affiant(*arguments, **more))
            os.close(writing)
            with open(reading, "rb") as ready:
                if not ready.readline():
                    raise RuntimeError(f"{name} did not start")
        yield
    finally:
        for service in reversed(services):
            service.terminate()
            service.wait(20)


@contextmanager
def templated(at: Place, group: ControlGroup) -> Iterator[None]:
    """A template process beside them, in ``group``, that has loaded."""
    pipes = {"stdout": subprocess.PIPE, "preexec_fn": group.enter}
    with at.affiant("session", "template", "--home", str(at.home), **pipes) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError("the template process did not start")
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def limited_to(backend: BackendName) -> Iterator[None]:
    """Sessions of this process run under ``backend``: what else this machine has counts as not installed."""

    def probed() -> Mapping[BackendName, Availability]:
        return {backend: probe()[backend]}

    with patch.object(session_module, "probe", probed):
        yield


def opened(at: Place) -> AbstractAsyncContextManager[Session]:
    return Session.open(at.request, home=at.home)


@contextmanager
def live(at: Place, group: ControlGroup) -> Iterator[None]:
    """``affiant run`` whose command has started, in ``group``, until the end of the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = at.affiant(*at.run_arguments(*_IDLE), preexec_fn=group.enter, **pipes)
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError("affiant run did not start its command")
        yield
    finally:
        process.communicate(timeout=120)


def require_started_by(session: Session, way: str) -> None:
    """Raise an error unless ``session`` was started in the way that is measured: a figure of the other would mislead.

    Args:
        way: ``template`` or ``interpreter``, as ``started_by`` says.
    """
    if session.started_by != way:
        raise RuntimeError(f"a session was started by: {session.started_by}; measured is: {way}")


def require_supervisors_started_by(way: str, group: ControlGroup) -> None:
    """The same for each live session in ``group``, by its supervisor's parent."""
    parents = [_words(_parent(each)) for each in group.processes() if _SUPERVISOR in _words(each)]
    ways = {"template" if _TEMPLATE in words else "interpreter" for words in parents}
    if ways != {way}:
        raise RuntimeError(
            f"sessions were started by: {', '.join(sorted(ways)) or 'nothing'}; measured is: {way}"
        )


def _words(process: int) -> list[str]:
    """The command line of ``process``; nothing where it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def isolations(folder: Path) -> list[tuple[BackendName, Tool]]:
    """Each isolation that this machine has, the stronger first, and the bare tool that it rests on."""
    usable = [name for name, each in probe().items() if each.usable]
    return [(name, Bubblewrap() if name is BackendName.BUBBLEWRAP else Runsc(folder)) for name in usable]


def percentile(values: Sequence[float], part: int) -> float:
    """By nearest rank, after 5 % were left out at each end."""
    ordered = sorted(values)
    left_out = int(len(ordered) * _TRIMMED)
    ordered = ordered[left_out : len(ordered) - left_out]
    return ordered[max(0, math.ceil(len(ordered) * part / 100) - 1)]


PLAIN = PlainProcess()
