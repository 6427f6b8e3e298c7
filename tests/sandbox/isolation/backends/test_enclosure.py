"""The memory cgroup: where it may be made, what its files hold, and what counts as the agent's own fault."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.isolation.conftest import no_memory_cgroup

from affiant.sandbox.isolation.backends import enclosure
from affiant.sandbox.isolation.backends.entering import Confinement
from affiant.sandbox.isolation.backends.gvisor_driver import GVisorDriver
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.isolation.plan.driver import Prepared, Started, Stdio
from affiant.sandbox.isolation.plan.errors import StepError
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import Command, HostUsr, Limits, plan_sandbox
from affiant.sandbox.isolation.runner import lifecycle
from affiant.sandbox.isolation.runner.lifecycle import Sandbox, State
from affiant.sandbox.isolation.runner.runner_settings import Settings

LIMIT = 64 << 20
FREE = {"memory.max": "max\n", "memory.high": "max\n", "pids.max": "max\n", "cpu.max": "max 100000\n"}


def plain_group(folder: Path, **files: str) -> Path:
    """A folder of plain files with the names of a cgroup's."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup.procs": "", **files}.items():
        (folder / name).write_text(text)
    return folder


# -- where ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "own",
    [
        {"memory.max": "1073741824\n"},
        {"memory.high": "1073741824\n"},
        {"memory.swap.max": "0\n"},
        {"pids.max": "100\n"},
        {"cpu.max": "50000 100000\n"},
        {"cpuset.cpus": "0-1\n"},
        {"io.max": "8:16 rbps=2097152 wbps=max riops=max wiops=max\n"},
        {"memory.max": ""},
    ],
    ids=str,
)
def test_a_cgroup_is_made_beside_the_runners_own_only_where_that_has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    """``systemd-run -p MemoryMax=1G affiant run`` bounds the agent too: beside its unit nothing would."""
    unit = plain_group(tmp_path / "slice" / "unit", **FREE)
    monkeypatch.setattr(enclosure, "_own_groups", lambda: iter([(2, unit)]))
    assert list(enclosure._places_of_groups()) == [(2, unit), (2, unit.parent)]
    plain_group(unit, **own)
    assert list(enclosure._places_of_groups()) == [(2, unit)]


def test_a_controller_that_is_not_on_limits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = plain_group(tmp_path / "unit")
    monkeypatch.setattr(enclosure, "_own_groups", lambda: iter([(2, unit)]))
    assert [place for _, place in enclosure._places_of_groups()] == [unit, tmp_path]


@pytest.mark.skipif(no_memory_cgroup() is not None, reason=str(no_memory_cgroup()))
def test_the_path_of_a_cgroup_is_recorded_before_it_is_made() -> None:
    seen = []

    def record(path: str) -> None:
        assert not Path(path).exists()
        seen.append(path)

    group = enclosure.make_memory_group(LIMIT, record=record)
    assert group is not None
    try:
        assert seen[-1] == str(group.path)
        assert group.path.is_dir()
    finally:
        group.remove()
    assert not any(Path(path).exists() for path in seen)


@pytest.mark.parametrize("name", [b"caf\xe9", b"a b", b"tab\there", "line\u2028end".encode()])
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
@pytest.mark.root
def test_a_mount_point_of_any_name_is_read_as_it_is(tmp_path: Path, name: bytes) -> None:
    place = os.fsencode(tmp_path) + b"/" + name
    os.mkdir(place)
    program = (
        "import os, sys; from affiant.sandbox.isolation.plan import linux;"
        "from affiant.sandbox.isolation.backends import enclosure;"
        "place = bytes.fromhex(sys.argv[1]); linux.unshare(linux.CLONE_NEWNS); linux.make_mounts_slave();"
        "linux.mount('x', os.fsdecode(place), 'tmpfs');"
        "found = [os.fsencode(each.at) for each in linux.mount_table() if each.kind == 'tmpfs'];"
        "assert place in found, found; list(enclosure._mounts_of_groups());"
        "enclosure.remove_memory_group('/sys/fs/cgroup/affiant-0123456789abcdef')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, place.hex()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_place_that_no_record_can_name_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    monkeypatch.setattr(enclosure, "_own_groups", lambda: iter([(1, place)]))
    seen: list[str] = []
    assert enclosure.make_memory_group(LIMIT, record=seen.append) is None
    assert seen == []


# -- what it holds --------------------------------------------------------------------------------------------


def limited(folder: Path, version: int, **files: str) -> enclosure.MemoryGroup:
    plain_group(folder / "group", **files)
    return enclosure._limited(folder, "group", version, LIMIT)


def test_a_group_of_version_2_has_the_limit_no_swap_and_ends_as_a_whole(tmp_path: Path) -> None:
    limited(tmp_path, 2)
    said = {name: (tmp_path / "group" / name).read_text() for name in os.listdir(tmp_path / "group")}
    assert said == {
        "cgroup.procs": "",
        "memory.max": str(LIMIT),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }


EVENTS = "low 0\nhigh 0\nmax {max}\noom {oom}\noom_kill {kill}\noom_group_kill 0\n"


@pytest.mark.parametrize(
    ("oom", "kill", "exceeded"), [(0, 0, False), (1, 1, True), (0, 1, False), (1, 0, False)]
)
def test_in_version_2_only_the_groups_own_limit_is_the_agents_fault(
    tmp_path: Path, oom: int, kill: int, exceeded: bool
) -> None:
    """The machine, or a cgroup further up, without memory: ``oom_kill`` counts that too."""
    events = EVENTS.format(max=3, oom=oom, kill=kill)
    group = limited(tmp_path, 2, **{"memory.events": EVENTS.format(max=9, oom=9, kill=9)})
    (tmp_path / "group" / "memory.events.local").write_text(events)
    assert group.exceeded is exceeded


@pytest.mark.parametrize(
    ("most", "kill", "exceeded"),
    [
        (LIMIT, 1, True),
        (LIMIT - 4 * os.sysconf("SC_PAGE_SIZE"), 1, True),
        (LIMIT, 0, False),
        (LIMIT // 2, 1, False),
    ],
)
def test_in_version_1_only_a_group_that_reached_its_limit_exceeded_it(
    tmp_path: Path, most: int, kill: int, exceeded: bool
) -> None:
    files = {
        "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kill}\n",
        "memory.max_usage_in_bytes": f"{most}\n",
    }
    assert limited(tmp_path, 1, **files).exceeded is exceeded


# -- who is counted -------------------------------------------------------------------------------------------


class Entered:
    """In place of an enclosure: how each child entered it, in a file."""

    def __init__(self, told: Path) -> None:
        self._told = told

    def enter(self) -> None:
        self._told.open("a").write("entered\n")

    def enter_counted(self) -> None:
        self._told.open("a").write("counted\n")


def test_what_delivers_a_signal_is_not_counted_as_the_agents_memory(tmp_path: Path) -> None:
    """A sandbox at its limit would end it, and be blamed for that."""
    told = tmp_path / "told"
    confinement = Confinement("x86_64", Limits(), b"\0" * 8, None)
    driver = GVisorDriver("/bin/true", Entered(told), confinement, tmp_path)  # type: ignore[arg-type]
    driver._control(("/bin/true",))
    driver.begin(Prepared(plan_sandbox("s", ()), (), tmp_path))
    driver.close()
    assert told.read_text() == "entered\ncounted\n"


class Kept:
    """In place of a memory cgroup within its limit."""

    exceeded = False


def test_with_a_memory_cgroup_no_watchdog_measures_memory(tmp_path: Path) -> None:
    settings = Settings(tmp_path, BackendName.BUBBLEWRAP, HostUsr(), None)
    with pytest.raises(StepError):  # it looks for processes to measure, and there is no sandbox
        Sandbox(settings)._watch_memory(Limits())
    counted = Sandbox(settings)
    counted._memory = Kept()  # type: ignore[assignment]
    counted._watch_memory(Limits())


def test_the_files_that_were_counted_before_the_command_started_are_not_counted_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(lifecycle, "measure_files", lambda folder: looks.append(folder) or 0)
    (tmp_path / "files").mkdir()
    sandbox = Sandbox(Settings(tmp_path, BackendName.BUBBLEWRAP, HostUsr(), None), State.PREPARED)
    sandbox._prepared = Prepared(plan_sandbox("s", ()), (), tmp_path)
    sandbox._memory = Kept()  # type: ignore[assignment]
    sandbox._driver = Driver()  # type: ignore[assignment]
    read, write = os.pipe()
    sandbox.start(Command(("/bin/true",)), Stdio(read, write, write))
    assert len(looks) == 1
    sandbox.watch()
    assert len(looks) == 1
    monkeypatch.setattr(sandbox, "_files_due", 0.0)
    with pytest.raises(StepError):  # it looks for open files of a sandbox that is not there
        sandbox.watch()
    assert len(looks) == 2
    os.close(read)
    os.close(write)


class Driver:
    """In place of a backend's."""

    def first(self) -> int:
        return os.open(os.devnull, os.O_RDONLY)

    def start(self, command: Command, *_: object, **__: object) -> Started:
        return Started(command, 1, -1, 0.0)


def test_the_table_of_mounts_is_the_kernels(tmp_path: Path) -> None:
    assert {mount.at for mount in linux.mount_table()} >= {"/", "/proc"}
