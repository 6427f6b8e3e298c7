"""Calls on a session's files, while the agent's programs in the sandbox work against them."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.isolation.conftest import begin, communicate, once, rest_of, sandbox

from affiant.errors import AffiantError
from affiant.sandbox.isolation.plan.errors import RunnerLost
from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import Access, Command, FileGrant, Limits, plan_sandbox
from affiant.sandbox.isolation.runner.client import RunnerClient
from affiant.sandbox.workspace.tree import Entry, Kind
from affiant.sandbox.workspace.tree_stream import TreeReader, TreeWriter, summarise

MIB = 1 << 20
FILES = (
    ("/workspace", "read-write"),
    ("/workspace/.git", "none"),
    ("/workspace2", "read-write"),
    ("/logs", "read-only"),
    ("/logs/mine", "read-write"),
)
PYTHON = "import os, sys, time, socket, stat\nos.chdir('/workspace')\n"


class Calls:
    """Calls on the files of one sandbox."""

    def __init__(self, client: RunnerClient) -> None:
        self.client = client

    async def __call__(
        self, act: FileAct, path: str, content: object = None, **more
    ) -> tuple[dict[str, bytes | str], Mapping[str, object]]:
        """Path -> content (a link's target as text), and the result."""
        with tempfile.TemporaryFile() as out:
            given = None if content is None else content.fileno()
            await self.client.files(FileCall(act, path, **more), output=out.fileno(), content=given)
            out.seek(0)
            reader = TreeReader(out, contents=act is FileAct.GET)
            found = {}
            for entry, chunks in reader:
                found[entry.path] = b"".join(chunks) if entry.kind is Kind.FILE else entry.content
            return found, reader.result

    async def get(self, path: str, **more):
        return await self(FileAct.GET, path, **{"length": 64 * MIB, **more})

    async def list(self, path: str, **more):
        return await self(FileAct.LIST, path, **more)

    async def put(self, path: str, tree: Mapping[str, bytes | None], *, single: bool = False):
        """``tree``: path -> content; None: a folder."""
        with stream(tree) as content:
            length = sum(len(each or b"") for each in tree.values())
            return await self(FileAct.PUT, path, content, single=single, length=length)

    async def remove(self, path: str):
        with tempfile.TemporaryFile() as named:
            await self.client.files(FileCall(FileAct.DIGEST, path, length=64 * MIB), output=named.fileno())
            summary = summarise(named, contents=False)
            if "error" in summary.result:
                return summary, summary.result
            return summary, (await self(FileAct.REMOVE, path, named))[1]


def stream(tree: Mapping[str, bytes | None]):
    file = tempfile.TemporaryFile()
    writer = TreeWriter(file)
    for path, content in tree.items():
        kind = Kind.DIRECTORY if content is None else Kind.FILE
        writer.entry(Entry(path, kind, executable=False, content=""))
        if content is not None:
            writer.content([content] if content else [])
    writer.end({})
    return file


@asynccontextmanager
async def files(folder: Path, backend, *, limits: Limits | None = None, grants=FILES):
    plan = plan_sandbox(
        "session1", [FileGrant(path, Access(access)) for path, access in grants], limits=limits or Limits()
    )
    async with asyncio.timeout(60), sandbox(folder, backend, plan) as (client, _, _):
        yield Calls(client)
        with suppress(RunnerLost):
            await client.cleanup()


def inside(source: str) -> Command:
    return Command(("python3", "-c", PYTHON + source), {"PATH": "/usr/bin:/bin"})


def error_of(result: Mapping[str, object]) -> str:
    error = result.get("error")
    return str(error["code"]) if isinstance(error, dict) else ""


def run(scenario) -> None:
    asyncio.run(scenario)


def test_the_agent_reads_what_was_written_and_its_own_files_are_read(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            _, result = await calls.put("/workspace/new/deep/in.txt", {"in.txt": b"given"}, single=True)
            assert (result["files"], result["length"]) == (1, 5)
            await calls.put("/workspace", {"tree": None, "tree/a": b"A", "tree/empty": None})
            command = "print(open('new/deep/in.txt').read()); open('out', 'w').write('made')"
            command += "; open('new/deep/in.txt', 'a').write('+'); print(sorted(os.listdir('tree')))"
            assert await communicate(calls.client, inside(command)) == (0, "given\n['a', 'empty']\n")
            assert (await calls.get("/workspace/out", single=True))[0] == {"out": b"made"}
            assert (await calls.get("/workspace/new/deep/in.txt"))[0] == {"in.txt": b"given+"}
            for length, found in ((3, {"out": b"mad"}), (4, {"out": b"made"}), (0, {"out": b""})):
                assert (await calls.get("/workspace/out", single=True, cut=True, length=length))[0] == found
            _, result = await calls.get("/workspace/out", single=True, length=3)
            assert error_of(result) == "workspace.too_large"
            assert (await calls.get("/workspace/tree"))[0] == {"a": b"A", "empty": ""}
            found, result = await calls.list("/workspace")
            assert (found, result["left_out"]) == ({"new": "", "out": b"", "tree": ""}, 0)
            assert set((await calls.list("/workspace", recursive=True))[0]) >= {"new/deep/in.txt", "tree/a"}

    run(scenario())


@pytest.mark.root
def test_what_is_written_belongs_to_the_sessions_user_alone(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace/a", {"a": b"x"}, single=True)
            owner = (tmp_path / "files/0").stat()
            found = [path.stat() for path in tmp_path.rglob("a")]
            places = {(facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) for facts in found}
            assert owner.st_uid != 0
            assert places and all(place[0] != 0 and place[2] == 0o644 for place in places)

    run(scenario())


def test_a_path_outside_of_the_profile_reaches_no_file(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            for path in (
                "/etc/passwd",
                "/workspace3/a",
                "/work",
                "/tmp/a",
                "/proc/self/environ",
                "/workspace/.git/config",
            ):
                for act in (FileAct.GET, FileAct.LIST, FileAct.STAT, FileAct.DIGEST):
                    with raises_code("files.path"):
                        await calls(act, path)
            for path in (
                "/workspace/../etc/passwd",
                "/workspace//a",
                "workspace/a",
                "/",
                "/workspace/",
                "/workspace/a\0",
            ):
                with raises_code("isolation.plan"):
                    await calls.get(path)
            for path in ("/workspace", "/logs/a", "/logs/mine/"[:-1]):
                with raises_code("files.read_only"):
                    await calls(FileAct.DIGEST, path)

    run(scenario())


def test_an_entry_is_written_only_where_the_agent_may_write(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            with raises_code("files.read_only"):
                await calls.put("/logs/a", {"a": b"x"}, single=True)
            await calls.put("/logs/mine/a", {"a": b"x"}, single=True)
            assert (await calls.get("/logs"))[0] == {"mine": "", "mine/a": b"x"}

    run(scenario())


@once
def test_entries_whose_names_begin_alike_are_two(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace2/a", {"a": b"two"}, single=True)
            assert (await calls.list("/workspace"))[0] == {}
            assert (await calls.get("/workspace2"))[0] == {"a": b"two"}

    run(scenario())


def test_no_link_leads_out_of_the_entry_and_one_inside_is_followed(tmp_path, backend):
    links = "\n".join(
        f"os.symlink({target!r}, {name!r})"
        for name, target in {
            "absolute": "/etc", "root": "/", "up": "../..", "other": "../workspace2", "proc": "/proc/self/root",
            "hole": ".git", "good": "real", "file": "real/a", "loop": "loop",
        }.items()
    )  # fmt: skip

    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace2/secret", {"s": b"other entry"}, single=True)
            command = "os.mkdir('real'); open('real/a', 'w').write('A')\n" + links
            assert (await communicate(calls.client, inside(command)))[0] == 0
            outside = (
                "absolute/passwd",
                "root/etc/passwd",
                "up/etc/passwd",
                "other/secret",
                "proc/etc/passwd",
                "hole/x",
                "loop",
            )
            for path in outside:
                found, result = await calls.get(f"/workspace/{path}")
                assert (found, error_of(result)) == ({}, "files.path"), path
                _, result = await calls.put(f"/workspace/{path}/new", {"new": b"x"}, single=True)
                assert error_of(result) == "files.path", path
            assert (await calls.get("/workspace/good/a"))[0] == {"a": b"A"}
            assert (await calls.get("/workspace/file"))[0] == {"file": b"A"}
            await calls.put(
                "/workspace/file", {"file": b"new"}, single=True
            )  # replaces the link, not what it names
            assert (await calls.get("/workspace/real/a"))[0] == {"a": b"A"}
            tree = (await calls.get("/workspace"))[0]
            assert tree["absolute"] == "/etc"
            assert not any(path.startswith(("absolute/", "root/", "proc/")) for path in tree)

    run(scenario())


RACE = """
import ctypes
os.makedirs('real', exist_ok=True); open('real/a', 'w').write('inside')
os.symlink('/etc', 'link'); os.symlink('../workspace2', 'link2')
print('up', flush=True)
libc = ctypes.CDLL(None)
at = time.monotonic()
while time.monotonic() - at < 20:
    for target in (b'link', b'link2'):
        libc.renameat2(-100, b'real', -100, target, 2)
        libc.renameat2(-100, b'real', -100, target, 2)
"""


def test_a_folder_that_is_swapped_for_a_link_in_a_loop_never_leads_elsewhere(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace2/a", {"a": b"other entry"}, single=True)
            read, waiting = await begin(calls.client, inside(RACE))
            read_inside = 0
            for number in range(25):
                found, result = await calls.get("/workspace/real/a")
                assert found == {"a": b"inside"} or (found == {} and error_of(result)), (found, result)
                read_inside += found != {}
                _, result = await calls.put(f"/workspace/real/w{number}", {"w": b"w"}, single=True)
                await calls.put("/workspace", {"real": None, f"real/t{number}": b"t"})
                tree, _ = await calls.get("/workspace")
                assert not any("passwd" in path for path in tree)
            assert (await calls.list("/workspace2"))[0] == {"a": b""}
            assert read_inside
            await calls.client.kill()
            with suppress(AffiantError):
                await waiting
            await rest_of(read)

    run(scenario())


@once
def test_pipes_sockets_and_odd_names_are_left_out_and_said_and_nothing_waits(tmp_path, backend):
    command = """
os.mkfifo('pipe'); os.mkdir('d'); os.mkfifo('d/pipe')
s = socket.socket(socket.AF_UNIX); s.bind('sock')
open(b'no\\xffutf8', 'w'); open('new\\nline', 'w'); open('\\u202eevil', 'w'); open('plain', 'w').write('p')
os.symlink(b'\\xff', 'bad-link')
"""

    async def scenario():
        async with files(tmp_path, backend) as calls:
            assert (await communicate(calls.client, inside(command)))[0] == 0
            (made,) = (place.parent for place in tmp_path.rglob("plain"))
            special = {name for name in ("pipe", "sock", "d/pipe") if os.path.lexists(made / name)}
            assert (
                special == {"pipe", "sock", "d/pipe"} or backend is BackendName.GVISOR
            )  # whose own kernel keeps some
            for name in special:
                found, result = await calls.get(f"/workspace/{name}")
                assert (found, error_of(result)) == ({}, "workspace.special_file")
            found, result = await calls.get("/workspace")
            assert found == {"d": "", "plain": b"p"}
            assert result["left_out"] == 4 + len(special)
            said = dict(result["skipped"])
            assert said["new\\nline"] == "workspace.name"
            assert all(said[name] == "workspace.special_file" for name in special)
            found, result = await calls.list("/workspace")
            assert (set(found), result["left_out"]) == (
                {"bad-link", "d", "plain"},
                3 + len(special - {"d/pipe"}),
            )
            for path in special:
                assert error_of((await calls.remove(f"/workspace/{path}"))[1]) == "workspace.special_file"
            assert error_of((await calls.remove("/workspace/bad-link"))[1]) == "workspace.name"
            if "d/pipe" in special:
                assert error_of((await calls.remove("/workspace/d"))[1]) == "workspace.special_file"

    run(scenario())


@once
def test_a_second_name_of_a_file_is_a_file_like_others_and_modes_do_not_cross(tmp_path, backend):
    command = """
open('a', 'w').write('one'); os.link('a', 'b'); os.chmod('a', 0o6755)
open('locked', 'w').write('x'); os.chmod('locked', 0)
"""

    async def scenario():
        async with files(tmp_path, backend) as calls:
            assert (await communicate(calls.client, inside(command)))[0] == 0
            found, result = await calls.get("/workspace")
            assert found == {"a": b"one", "b": b"one"}
            assert result["skipped"] == [["locked", "workspace.unreadable"]]
            await calls.put("/workspace/b", {"b": b"two"}, single=True)
            assert (await calls.get("/workspace/a"))[0] == {"a": b"one"}

    run(scenario())


@once
def test_a_sparse_file_of_a_tebibyte_is_rejected_before_it_is_read(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend, limits=Limits(files_bytes=2 << 40)) as calls:
            command = "os.mkdir('s'); open('s/huge', 'wb').truncate(1 << 40)"
            assert (await communicate(calls.client, inside(command)))[0] == 0
            for path in ("/workspace/s/huge", "/workspace/s"):
                assert error_of((await calls.get(path))[1]) == "workspace.too_large"
            assert error_of((await calls.remove("/workspace/s"))[1]) == "workspace.too_large"

    run(scenario())


@once
def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path, backend):
    command = """
f = open('grows', 'wb', buffering=0); f.write(bytes(1000)); print('up', flush=True)
at = time.monotonic()
while time.monotonic() - at < 20: f.write(bytes(65536)) if f.tell() < 1 << 28 else time.sleep(0.01)
"""

    async def scenario():
        async with files(tmp_path, backend) as calls:
            read, waiting = await begin(calls.client, inside(command))
            found, result = await calls.get("/workspace/grows", length=8 * MIB)
            assert error_of(result) == "workspace.too_large" or len(found["grows"]) <= 8 * MIB
            await calls.client.kill()
            with suppress(AffiantError):
                await waiting
            await rest_of(read)

    run(scenario())


@pytest.mark.slow
def test_ten_thousand_files_are_one_listing_and_one_tree(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace", {f"f{number:05}": b"" for number in range(10_000)})
            assert len((await calls.list("/workspace"))[0]) == 10_000
            assert len((await calls.get("/workspace"))[0]) == 10_000

    run(scenario())


@once
def test_a_tree_that_is_nested_too_deep_is_an_error_and_nothing_more(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            command = "for _ in range(100): os.mkdir('d'); os.chdir('d')"
            assert (await communicate(calls.client, inside(command)))[0] == 0
            assert error_of((await calls.get("/workspace"))[1]) == "workspace.too_large"
            assert error_of((await calls.list("/workspace", recursive=True))[1]) == "workspace.too_large"
            assert (await calls.list("/workspace"))[0] == {"d": ""}

    run(scenario())


@once
def test_more_than_the_disk_limit_leaves_is_rejected_and_the_sandbox_goes_on(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend, limits=Limits(files_bytes=4 * MIB)) as calls:
            await calls.put("/workspace/a", {"a": bytes(3 * MIB)}, single=True)
            with raises_code("files.disk"):
                await calls.put("/workspace/b", {"b": bytes(2 * MIB)}, single=True)
            assert (await communicate(calls.client, inside("print(sorted(os.listdir()))")))[
                1
            ] == "['.git', 'a']\n"
            await calls.remove("/workspace/a")
            await calls.put("/workspace2/b", {"b": bytes(2 * MIB)}, single=True)

    run(scenario())


@once
def test_a_disk_that_is_full_leaves_no_part_of_a_file(tmp_path, small_disk, backend):
    async def scenario():
        async with files(small_disk, backend) as calls:
            _, result = await calls.put("/workspace", {"a": b"a", "b": bytes(12 * MIB)})
            assert (error_of(result), result["files"]) == ("workspace.unwritable", 1)
            assert (await calls.list("/workspace"))[0] == {"a": b""}

    run(scenario())


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 8 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    place = tmp_path / "small"
    place.mkdir()
    done = os.system(f"mount -t tmpfs -o size=8m,mode=755 small {place}")  # noqa: S605 - a path of pytest's own
    if done != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    os.system(f"umount -l {place}")  # noqa: S605 - as above


def test_a_folder_is_removed_as_it_was_recorded_and_a_carve_out_stays(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace", {"d": None, "d/a": b"1234", "d/e": None, "d/e/b": b"5"})
            assert (await communicate(calls.client, inside("os.symlink('/etc', 'd/link')")))[0] == 0
            summary, result = await calls.remove("/workspace/d")
            assert (summary.files, summary.length) == (3, 5)
            assert (result["files"], result["length"]) == (3, 5)
            assert (await calls.list("/workspace"))[0] == {}
            with raises_code("files.path"):
                await calls.remove("/workspace/.git")

    run(scenario())


@once
def test_what_came_after_the_digest_is_not_removed(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            await calls.put("/workspace", {"d": None, "d/a": b"1"})
            with tempfile.TemporaryFile() as named:
                asked = FileCall(FileAct.DIGEST, "/workspace/d", length=100)
                await calls.client.files(asked, output=named.fileno())
                await calls.put("/workspace/d/late", {"late": b"x"}, single=True)
                _, result = await calls(FileAct.REMOVE, "/workspace/d", named)
            assert (error_of(result), result["files"]) == ("files.changed", 1)
            assert (await calls.get("/workspace/d"))[0] == {"late": b"x"}

    run(scenario())


@once
def test_a_stream_with_a_path_that_leads_out_writes_nothing(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            for path in ("../x", "a/../../x", "/etc/x", "x/y", "."):
                _, result = await calls.put("/workspace", {path: b"x"})
                assert error_of(result) == "workspace.stream", path
            assert (await calls.list("/workspace"))[0] == {}

    run(scenario())


@once
def test_a_call_with_too_few_descriptors_or_in_no_sandbox_is_an_answer(tmp_path, backend):
    async def scenario():
        async with files(tmp_path, backend) as calls:
            with socket.socket() as other, raises_code("isolation.frame"):
                await calls.client.files(FileCall(FileAct.PUT, "/workspace/a"), output=other.fileno())
            assert (await calls.list("/workspace"))[0] == {}

    run(scenario())
