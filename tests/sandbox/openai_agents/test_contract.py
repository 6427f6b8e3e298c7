"""The SDK's contract for sandbox sessions: the same calls as of the SDK's own local session, with the same results.

Each scenario runs in both, in a folder of its own, and its outcome is a value or the class of an error.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

agents = pytest.importorskip("agents.sandbox", reason="needs affiant[openai-agents]")

from agents.editor import ApplyPatchOperation  # noqa: E402 - the SDK may be missing
from agents.sandbox import Manifest  # noqa: E402
from agents.sandbox.entries import Dir, File, LocalDir, LocalFile  # noqa: E402
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient  # noqa: E402

from affiant.sandbox import IsolationClass  # noqa: E402
from affiant.sandbox.openai_agents import AffiantSandboxClient, AffiantSandboxClientOptions  # noqa: E402

PROFILE = """
agent_configs:
  dev:
    filesystem_access: [read-write:/workspace]
    ports: [8080]
"""
Session = Any
Scenario = Callable[[Session, str], Awaitable[object]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(run: Scenario) -> Scenario:
    SCENARIOS[run.__name__] = run
    return run


async def outcome(work: Awaitable[object]) -> object:
    """A value, or which error of the SDK it was."""
    try:
        return await work
    except Exception as error:
        return type(error).__name__


async def outcomes(*works: Awaitable[object]) -> list[object]:
    return [await outcome(work) for work in works]


async def told(session: Session, command: str, **more: Any) -> tuple[int, str, str]:
    result = await session.exec(command, **more)
    return result.exit_code, result.stdout.decode(), result.stderr.decode()


async def content(session: Session, path: str) -> object:
    stream = await session.read(Path(path))
    with stream:
        return stream.read()


async def put(session: Session, path: str, data: bytes) -> None:
    await session.write(Path(path), io.BytesIO(data))


async def kinds(session: Session, path: str) -> list[tuple[str, str]]:
    return sorted((Path(each.path).name, each.kind.value) for each in await session.ls(path))


@scenario
async def a_command_has_streams_an_exit_code_and_the_manifests_variables(session: Session, at: str) -> object:
    return [
        await told(session, "echo out; echo err >&2; echo $GREETING; exit 3"),
        await told(session, 'test "$PWD" = "$(pwd)" && ls inline.txt'),
    ]


@scenario
async def a_command_is_words_a_shell_line_or_for_another_shell(session: Session, at: str) -> object:
    words = await session.exec("printf", "%s.", "a b", "c", shell=False)
    joined = await session.exec("printf", "%s.", "a b", "$HOME")
    other = await session.exec("echo $0", shell=["bash", "-c"])
    return [each.stdout for each in (words, joined, other)]


@scenario
async def a_timeout_is_its_own_error_and_the_next_command_runs(session: Session, at: str) -> object:
    late = await outcome(session.exec("sleep 300", timeout=0.5))
    return late, await told(session, "echo next")


@scenario
async def a_program_that_is_not_there_is_127(session: Session, at: str) -> object:
    return (await session.exec("no-such-program")).exit_code


@scenario
async def bytes_are_written_and_read_back(session: Session, at: str) -> object:
    data = bytes(range(256)) * 1000
    await put(session, f"{at}/made/on/the/way/data", data)
    await put(session, f"{at}/empty", b"")
    await put(session, f"{at}/empty", b"more")
    return (
        await content(session, f"{at}/made/on/the/way/data") == data,
        await content(session, f"{at}/empty"),
        await outcome(session.write(Path(f"{at}/text"), io.StringIO("text"))),
    )


@scenario
async def a_script_that_is_written_again_stays_executable(session: Session, at: str) -> object:
    await put(session, f"{at}/run.sh", b"#!/bin/sh\necho one\n")
    await session.exec(f"chmod +x {at}/run.sh")
    await put(session, f"{at}/run.sh", b"#!/bin/sh\necho two\n")
    return await told(session, f"{at}/run.sh")


@scenario
async def what_cannot_be_read_is_the_same_error(session: Session, at: str) -> object:
    await session.mkdir(f"{at}/folder", parents=True)
    return await outcomes(
        content(session, f"{at}/missing"),
        content(session, f"{at}/no/such/folder"),
        content(session, f"{at}/folder"),
        content(session, "../outside"),
        content(session, "/etc/hostname"),
        content(session, f"{at}/../../outside"),
    )


@scenario
async def no_path_and_no_link_leads_out_of_the_workspace(session: Session, at: str) -> object:
    await session.mkdir(at, parents=True)
    await session.exec(
        f"cd {at} && echo in > file && ln -s file inside && ln -s /etc etc && ln -s /tmp/made made"
    )
    return await outcomes(
        content(session, f"{at}/inside"),
        content(session, f"{at}/etc/passwd"),
        put(session, "../written", b"x"),
        put(session, "/tmp/written", b"x"),
        put(session, f"{at}/etc/written", b"x"),
        session.mkdir(f"{at}/etc/made"),
        session.rm(f"{at}/etc/passwd"),
        session.ls(f"{at}/etc"),
        session.mv(f"{at}/etc/passwd", f"{at}/stolen"),
        session.mv(f"{at}/file", f"{at}/etc/moved"),
        session.ls("/etc"),
        session.ls(".."),
    )


@scenario
async def a_link_is_written_through_if_it_stays_in_the_workspace(session: Session, at: str) -> object:
    await session.mkdir(f"{at}/folder", parents=True)
    links = "ln -s folder/file near; ln -s near twice; ln -s folder fold; ln -s $PWD/folder/file far"
    await session.exec(f"cd {at} && {links}; ln -s /tmp/outside out; ln -s out again; ln -s loop loop")
    return (
        await outcomes(
            put(session, f"{at}/out", b"x"),
            put(session, f"{at}/again", b"x"),
            put(session, f"{at}/twice", b"first"),
            content(session, f"{at}/folder/file"),
            put(session, f"{at}/far", b"second"),
            content(session, f"{at}/near"),
            content(session, f"{at}/far"),
            session.read_bounded(Path(f"{at}/far"), max_bytes=3),
            session.mkdir(f"{at}/fold", parents=True),
            put(session, f"{at}/fold/more", b"more"),
            content(session, f"{at}/fold/more"),
            session.apply_patch([patch("update_file", f"{at}/out", "@@\n-x\n+y\n")]),
            session.apply_patch([patch("create_file", f"{at}/out", "+y")]),
            session.apply_patch([patch("create_file", f"{at}/near", "+y")]),
            session.apply_patch([patch("update_file", f"{at}/near", "@@\n-second\n+third\n")]),
            content(session, f"{at}/folder/file"),
        ),
        [
            name.endswith("Error")
            for name in await outcomes(put(session, f"{at}/loop", b"x"), content(session, f"{at}/loop"))
        ],
        await kinds(session, f"{at}/fold"),
        await kinds(session, at),
    )


@scenario
async def folders_are_made_and_listed(session: Session, at: str) -> object:
    made = await outcomes(
        session.mkdir(f"{at}/deep/down"),
        session.mkdir(f"{at}/deep/down", parents=True),
        session.mkdir(f"{at}/deep/down"),
        session.mkdir(f"{at}/deep/next"),
    )
    await put(session, f"{at}/deep/file", b"12345")
    await session.exec(f"ln -s file {at}/deep/link")
    sizes = {Path(each.path).name: each.size for each in await session.ls(f"{at}/deep")}
    return (
        made,
        await kinds(session, f"{at}/deep"),
        sizes["file"],
        await outcomes(session.ls(f"{at}/nowhere"), session.ls(f"{at}/deep/file")),
    )


@scenario
async def a_file_in_the_place_of_a_folder_is_an_error(session: Session, at: str) -> object:
    await put(session, f"{at}/file", b"x")
    await session.mkdir(f"{at}/folder")
    return await outcomes(
        session.mkdir(f"{at}/file"),
        session.mkdir(f"{at}/file/below", parents=True),
        put(session, f"{at}/file/below", b"x"),
        put(session, f"{at}/folder", b"x"),
    )


@scenario
async def files_links_and_folders_are_removed(session: Session, at: str) -> object:
    await put(session, f"{at}/folder/file", b"x")
    await put(session, f"{at}/file", b"x")
    await session.exec(f"ln -s file {at}/link && ln -s /nowhere {at}/dangling")
    done = await outcomes(
        session.rm(f"{at}/folder"),
        session.rm(f"{at}/missing"),
        session.rm(f"{at}/missing", recursive=True),
        session.rm(f"{at}/folder", recursive=True),
        session.rm(f"{at}/file"),
    )
    return done, await kinds(session, at)


@scenario
async def files_are_moved_and_compared(session: Session, at: str) -> object:
    await put(session, f"{at}/one", b"1")
    await put(session, f"{at}/two", b"2")
    await session.mkdir(f"{at}/folder")
    await session.exec(f"ln -s one {at}/link && ln {at}/two {at}/hard")
    return (
        await outcomes(
            session.same_file(f"{at}/one", f"{at}/link"),
            session.same_file(f"{at}/one", f"{at}/link", follow_symlinks=False),
            session.same_file(f"{at}/two", f"{at}/hard"),
            session.same_file(f"{at}/one", f"{at}/two"),
            session.mv(f"{at}/one", f"{at}/two"),
            session.mv(f"{at}/two", f"{at}/folder"),
            session.mv(f"{at}/missing", f"{at}/other"),
        ),
        await kinds(session, at),
        await content(session, f"{at}/two"),
    )


@scenario
async def a_prefix_is_read_and_no_more(session: Session, at: str) -> object:
    await put(session, f"{at}/file", b"0123456789")
    await session.exec(f"ln -s file {at}/link")
    return await outcomes(
        session.read_bounded(Path(f"{at}/file"), max_bytes=4),
        session.read_bounded(Path(f"{at}/file"), max_bytes=10),
        session.read_bounded(Path(f"{at}/file"), max_bytes=11),
        session.read_bounded(Path(f"{at}/link"), max_bytes=3),
        session.read_bounded(Path(f"{at}/missing"), max_bytes=3),
        session.read_bounded(Path(f"{at}"), max_bytes=3),
        session.read_bounded(Path(f"{at}/file"), max_bytes=0),
    )


def patch(kind: Any, path: str, diff: str | None = None, **more: Any) -> ApplyPatchOperation:
    return ApplyPatchOperation(type=kind, path=path, diff=diff, **more)


@scenario
async def patches_create_update_move_and_delete(session: Session, at: str) -> object:
    await put(session, f"{at}/kept.txt", b"one\ntwo\n")
    await put(session, f"{at}/gone.txt", b"gone\n")
    done = await outcomes(
        session.apply_patch([patch("create_file", f"{at}/new/file.txt", "+created")]),
        session.apply_patch([patch("create_file", f"{at}/kept.txt", "+again")]),
        session.apply_patch([patch("update_file", f"{at}/kept.txt", "@@\n one\n-two\n+three\n")]),
        session.apply_patch([patch("update_file", f"{at}/kept.txt", "@@\n-absent\n+three\n")]),
        session.apply_patch(
            [patch("update_file", f"{at}/kept.txt", "@@\n-one\n+1\n three\n", move_to=f"{at}/moved.txt")]
        ),
        session.apply_patch([patch("delete_file", f"{at}/gone.txt")]),
        session.apply_patch([patch("delete_file", f"{at}/gone.txt")]),
        session.apply_patch([patch("create_file", "../outside.txt", "+x")]),
    )
    return (
        done,
        await kinds(session, at),
        await content(session, f"{at}/moved.txt"),
        await content(session, f"{at}/new/file.txt"),
    )


@scenario
async def archives_are_extracted_and_never_outside(session: Session, at: str) -> object:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("z/file.txt", "zipped")
    zipped.seek(0)
    return (
        await outcomes(
            session.extract(f"{at}/a.tar", tar_of({"t/file.txt": b"tarred"})),
            session.extract(f"{at}/a.zip", zipped),
            session.extract(f"{at}/b.tar", tar_of({"../out.txt": b"x"})),
            session.extract(f"{at}/c.rar", io.BytesIO(b"x")),
            session.extract(f"{at}/d.tar", io.BytesIO(b"no archive")),
        ),
        await content(session, f"{at}/t/file.txt"),
        await content(session, f"{at}/z/file.txt"),
    )


def tar_of(files: dict[str, bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    made.seek(0)
    return made


@scenario
async def a_command_on_a_terminal_is_typed_to(session: Session, at: str) -> object:
    line = "[ -t 0 ] || exit 9; read line; echo got:$line; exit 5"
    begun = await session.pty_exec_start(line, tty=True, yield_time_s=0)
    ended = await session.pty_write_stdin(session_id=begun.process_id, chars="hello\n", yield_time_s=30)
    return (
        session.supports_pty(),
        begun.exit_code,
        begun.output + ended.output,
        (ended.process_id, ended.exit_code),
        await outcome(session.pty_write_stdin(session_id=begun.process_id, chars="more")),
    )


@scenario
async def a_command_without_a_terminal_is_only_looked_at(session: Session, at: str) -> object:
    await session.mkdir(at, parents=True)
    waiting = f"until [ -e {at}/go ]; do sleep 0.05; done"
    begun = await session.pty_exec_start(f"echo one; {waiting}; echo two; exit 6", yield_time_s=0)
    typed = await outcome(session.pty_write_stdin(session_id=begun.process_id, chars="x"))
    await put(session, f"{at}/go", b"")
    ended = await session.pty_write_stdin(session_id=begun.process_id, chars="", yield_time_s=30)
    return begun.exit_code, typed, begun.output + ended.output, (ended.process_id, ended.exit_code)


@scenario
async def commands_that_go_on_are_ended_together(session: Session, at: str) -> object:
    await session.mkdir(at, parents=True)
    begun = [
        await session.pty_exec_start(f"touch {at}/{tty}; exec sleep 2345", tty=tty, yield_time_s=0)
        for tty in (True, False)
    ]
    await told(session, f"until [ -e {at}/True ] && [ -e {at}/False ]; do sleep 0.05; done", timeout=60)
    await session.pty_terminate_all()
    seen = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q 'sleep 234[5]'"
    gone = await told(session, f"while {seen}; do sleep 0.1; done; echo gone", timeout=60)
    after = [await outcome(session.pty_write_stdin(session_id=each.process_id, chars="")) for each in begun]
    return gone, after


@scenario
async def a_port_that_was_not_asked_for_is_an_error(session: Session, at: str) -> object:
    return await outcome(session.resolve_exposed_port(9))


@scenario
async def the_manifests_files_are_there(session: Session, at: str) -> object:
    return [
        await content(session, path)
        for path in (
            "inline.txt",
            "tree/nested.txt",
            "copied.txt",
            "copied/child.txt",
            "copied/deep/child.txt",
        )
    ] + [await told(session, "stat -c %a inline.txt copied.txt")]


@scenario
async def a_session_that_was_only_stopped_goes_on(session: Session, at: str) -> object:
    await session.stop()  # persists; the session goes on
    return await session.running(), await told(session, "echo here")


async def played(client: Any, options: Any, sources: Path) -> tuple[dict[str, object], object]:
    (sources / "deep").mkdir(parents=True)
    (sources / "child.txt").write_text("child")
    (sources / "deep/child.txt").write_text("deep child")
    manifest = Manifest(
        entries={
            "inline.txt": File(content=b"inline"),
            "tree": Dir(children={"nested.txt": File(content=b"nested")}),
            "copied.txt": LocalFile(src=sources / "child.txt"),
            "copied": LocalDir(src=sources),
        },
        extra_path_grants=(agents.SandboxPathGrant(path=str(sources)),),
        environment={"value": {"GREETING": "hello"}},
    )
    session = await client.create(manifest=manifest, options=options)
    async with session:
        found = {name: await run(session, name) for name, run in SCENARIOS.items()}
    ended = await session.running(), await outcome(session.exec("true"))
    await client.delete(session)
    return found, ended


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the SDK's own local session does."""
    return asyncio.run(played(UnixLocalSandboxClient(), None, tmp_path_factory.mktemp("theirs") / "sources"))[
        0
    ]


@pytest.fixture(scope="module")
def ours(warm: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Any, object]:
    client = AffiantSandboxClient(
        profile=PROFILE, agent="dev", home=warm.home, min_isolation=IsolationClass(warm.isolation)
    )
    options = AffiantSandboxClientOptions(exposed_ports=(8080,))
    found, ended = asyncio.run(played(client, options, tmp_path_factory.mktemp("ours") / "sources"))
    return found, client, ended


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (at % 4 != 0)) for at, name in enumerate(SCENARIOS)],
)
def test_a_session_does_what_the_sdks_local_session_does(name: str, ours: Any, theirs: Any) -> None:
    assert ours[0][name] == theirs[name]


def test_a_session_that_is_closed_runs_nothing_and_its_bundle_holds(warm: Any, ours: Any) -> None:
    _, client, ended = ours
    assert ended == (False, "ExecTransportError")
    (bundle,) = client.bundles
    warm.verdict(bundle)
