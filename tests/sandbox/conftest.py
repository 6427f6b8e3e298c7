"""What tests of whole sessions share: a state folder, profiles, and the command line as a child process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.__main__ import cli
from affiant.attestation.release.manifest import check_release
from affiant.errors import AffiantError
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName

PROFILES = """agent_configs:
  reader:
    tools: [read_logs]
    filesystem_access: "read-only:/var/log"
    network_egress: denied
    secrets_access: []
  writer:
    tools: [read_file, write_file]
    filesystem_access: "read-write:/workspace"
    network_egress: denied
    secrets_access: [GITHUB_TOKEN]
  thinker:
    tools: [think]
    network_egress: denied
    secrets_access: []
"""


@pytest.fixture(scope="session")
def isolation() -> str:
    """The floor that this machine reaches; sessions cannot be tested where it reaches none."""
    found = probe()
    if found[BackendName.GVISOR].usable:
        return "userspace-kernel"
    if found[BackendName.BUBBLEWRAP].usable:
        return "namespace"
    pytest.skip("no isolation on this machine: run scripts/install_sandbox_runtime.sh as root")


@pytest.fixture(scope="session")
def release() -> None:
    """The simulated platform measures the installed files; a tree that changed since has no valid release."""
    try:
        check_release()
    except AffiantError as error:
        pytest.skip(f"sessions need a release manifest of exactly these files ({error})")


@dataclass(frozen=True)
class Process:
    """A process that is not mistaken for a later one of its number."""

    pid: int
    started: str
    arguments: str

    @property
    def alive(self) -> bool:
        found = stat_of(self.pid)
        return found is not None and found[1] == self.started


def stat_of(pid: int) -> tuple[int, str] | None:
    """Parent and start time of a process that runs; a zombie does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else (int(fields[1]), fields[19])


def family(*ancestors: int) -> tuple[Process, ...]:
    """Every process below ``ancestors``, themselves included."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (found := stat_of(int(entry.name))) is not None:
            parents[int(entry.name)] = found
    wanted = set(ancestors)
    while more := {pid for pid, (parent, _) in parents.items() if parent in wanted} - wanted:
        wanted |= more
    members = []
    for pid in sorted(wanted & set(parents)):
        try:
            arguments = (
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        members.append(Process(pid, parents[pid][1], arguments))
    return tuple(members)


def at_once(seconds: float = 2.0) -> float:
    """So many seconds, of a machine with nothing else to do."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def affiant(
    *arguments: str, stdin: bytes | None = None, home: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """One ``affiant`` command that starts no session, in this process: loading everything again takes longest.

    Args:
        home: the state folder, for commands without an option for it.
    """
    env = None if home is None else {"AFFIANT_HOME": str(home)}
    done = CliRunner().invoke(cli, arguments, prog_name="affiant", input=stdin, env=env)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout_bytes, done.stderr_bytes)


def all_gone(processes: Iterable[Process], within: float) -> bool:
    """Whether all of them have ended, at the latest after ``within`` seconds."""
    until = time.monotonic() + within
    while any(process.alive for process in processes):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


_KEEPING = """
import asyncio, os, sys
from datetime import UTC, datetime
from pathlib import Path
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.services import GatewayChoice, ensure_services
async def keep():
    services = await ensure_services(
        open_home(Path(sys.argv[1])), GatewayChoice(), now=datetime.now(UTC), random_bytes=os.urandom
    )
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await services.leave()
asyncio.run(keep())
"""


@dataclass
class Machine:
    """One state folder and its command line."""

    folder: Path
    isolation: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    keeping: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def argv(self, *command: str, agent: str = "writer", options: Sequence[str] = ()) -> list[str]:
        return [
            *(sys.executable, "-m", "affiant", "run", "--home", str(self.home)),
            *("--profile", str(self.folder / "profiles.yaml"), "--agent", agent),
            *("--min-isolation", self.isolation, *options, "--", *command),
        ]

    def run(
        self,
        *command: str,
        agent: str = "writer",
        options: Sequence[str] = (),
        stdin: bytes = b"",
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.argv(*command, agent=agent, options=options),
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd="/",
        )

    def start(
        self, *command: str, agent: str = "writer", options: Sequence[str] = (), **members
    ) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            self.argv(*command, agent=agent, options=options), cwd="/", **{**streams, **members}
        )
        self.started.append(process)
        return process

    def keep_services(self) -> None:
        """Have platform and gateway run until :meth:`stop_services`, so that sessions start faster."""
        self.keeping = subprocess.Popen(
            [sys.executable, "-c", _KEEPING, str(self.home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )
        assert self.keeping.stdout is not None
        assert self.keeping.stdout.readline() == b"ready\n"

    def stop_services(self) -> None:
        if self.keeping is not None:
            self.keeping.communicate(timeout=20)

    family = staticmethod(family)
    all_gone = staticmethod(all_gone)

    def processes(self) -> dict[int, str]:
        """What names this state folder in its arguments and was not there before the test."""
        found = {}
        kept = () if self.keeping is None else {each.pid for each in family(self.keeping.pid)}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) in {os.getpid(), *kept}:
                continue
            try:
                arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(self.folder) in arguments and stat_of(int(entry.name)) is not None:
                found[int(entry.name)] = arguments
        return found

    def quiet_within(self, seconds: float) -> bool:
        """Whether nothing of this state folder runs any more, at the latest after ``seconds``."""
        until = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def bundle(self) -> Path:
        (found,) = self.home.glob("sessions/*/bundle.affiant.json")
        return found

    def write_trust(self, path: Path) -> None:
        """A trust file for this folder's simulated platform."""
        done = affiant("platform", "trust", "--home", str(self.home))
        assert done.returncode == 0, done.stderr
        path.write_bytes(done.stdout)

    def verdict(self, bundle: Path, *, code: int = 40) -> str:
        """The verifier's text; its exit code must be ``code`` (40: holds, but simulated)."""
        return self._judged("verify", str(bundle), code=code)

    def reconciled(self, bundle: Path, *options: str) -> str:
        """What ``affiant reconcile`` prints of a record that the bundle explains."""
        return self._judged("reconcile", "--bundle", str(bundle), *options, code=0)

    def _judged(self, *command: str, code: int) -> str:
        if not (self.folder / "trust.json").exists():
            self.write_trust(self.folder / "trust.json")
        done = affiant(*command, "--trust", str(self.folder / "trust.json"))
        text = done.stdout.decode()
        assert done.returncode == code, text + done.stderr.decode()
        return text


def write_inputs(folder: Path) -> None:
    (folder / "profiles.yaml").write_text(PROFILES)
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "file.txt").write_text("content\n")


@contextmanager
def made_machine(isolation: str) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="affiant-"))  # short: the path of a socket holds 107 bytes
    write_inputs(folder)
    made = Machine(folder, isolation)
    try:
        yield made
        assert made.quiet_within(10), made.processes()
    finally:
        for process in made.started:
            process.kill()
            process.communicate()
        made.stop_services()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def machine(isolation: str, release: None) -> Iterator[Machine]:
    """A fresh state folder in which nothing runs; what a test leaves running is ended and fails it."""
    with made_machine(isolation) as made:
        yield made


@pytest.fixture(scope="session")
def served(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder whose platform and gateway run until the last test of this process."""
    with made_machine(isolation) as made:
        made.keep_services()
        yield made


@pytest.fixture(scope="module")
def warm(served: Machine) -> Machine:
    """That state folder, with the profiles and the input as every module begins with them. It is full of sessions of
    other modules, so a test finds its own by what a command says of it."""
    write_inputs(served.folder)
    return served


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of two pages: a small file fits, a larger one does not."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    place = tmp_path / "disk"
    place.mkdir()
    options = ("-o", "size=8k,nr_inodes=8", "tmpfs")
    if subprocess.run(["mount", "-t", "tmpfs", *options, str(place)], check=False).returncode != 0:
        pytest.skip("this machine mounts no file system for tests")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)
