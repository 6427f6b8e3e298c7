"""Sessions of the SDK under one profile: what a manifest, an option or a resumed state can ask for."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest
from tests.raising import raises_code
from tests.sandbox.conftest import affiant

agents = pytest.importorskip("agents.sandbox", reason="needs affiant[openai-agents]")

from agents.sandbox import Manifest  # noqa: E402 - the SDK may be missing
from agents.sandbox.entries import Dir, File, LocalDir, LocalFile  # noqa: E402
from agents.sandbox.errors import (  # noqa: E402
    ConfigurationError,
    ExecTransportError,
    ExposedPortUnavailableError,
    MountConfigError,
    WorkspaceStartError,
    WorkspaceStopError,
)
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient  # noqa: E402
from agents.sandbox.session.sandbox_client import BaseSandboxClientOptions  # noqa: E402
from agents.sandbox.session.sandbox_session_state import SandboxSessionState  # noqa: E402
from agents.sandbox.snapshot import LocalSnapshotSpec  # noqa: E402
from agents.sandbox.types import User  # noqa: E402

from affiant.attestation.records.receipt import parse_receipt  # noqa: E402
from affiant.errors import AffiantError, StateError  # noqa: E402
from affiant.sandbox import IsolationClass  # noqa: E402
from affiant.sandbox.isolation.plan.errors import LimitExceeded, SessionBusy  # noqa: E402
from affiant.sandbox.openai_agents import (  # noqa: E402
    AffiantSandboxClient,
    AffiantSandboxClientOptions,
    AffiantSandboxSessionState,
    AffiantSecretRef,
    sandbox_client,
)
from affiant.sandbox.processes.services import GatewayChoice  # noqa: E402
from affiant.sandbox.session.session_plan import VaultChoice  # noqa: E402
from affiant.secrets.store.local_store import PassphraseKey  # noqa: E402

PROFILE = """
agent_configs:
  dev:
    filesystem_access: [read-write:/workspace, read-only:/data]
    ports: [8080]
    secrets_access: [GITHUB_TOKEN]
    resources: {pids: 100, memory: 512MiB}
  reader:
    filesystem_access: [read-only:/workspace]
"""
VALUE = "ghp_9sX2kQ7vLm4TzR1bYwE6"


def client_of(warm: Any, agent: str = "dev", **more: Any) -> AffiantSandboxClient:
    given = {"home": warm.home, "min_isolation": IsolationClass(warm.isolation), **more}
    return AffiantSandboxClient(profile=PROFILE, agent=agent, **given)


def records(bundle: Path) -> list[dict[str, Any]]:
    receipts = json.loads(bundle.read_bytes())["receipts"]
    return [json.loads(parse_receipt(each["sdjwt"]).split.payload) for each in receipts]


async def started(client: Any, work: Callable[[Any], Coroutine[Any, Any, Any]], **given: Any) -> Any:
    """What ``work`` returns of a session that is started, and deleted after it."""
    session = await client.create(**given)
    try:
        async with session:
            return await work(session)
    finally:
        await client.delete(session)


def environment(**variables: Any) -> Manifest:
    return Manifest(environment={"value": variables})


def test_what_a_session_does_not_have_is_an_error_before_anything_runs(warm: Any, tmp_path: Path) -> None:
    client = client_of(warm)
    s3 = {
        "type": "s3_mount",
        "bucket": "b",
        "mount_strategy": {"type": "in_container", "pattern": {"type": "rclone"}},
    }
    for manifest, error in (
        (Manifest(users=[User(name="root")]), ConfigurationError),
        (Manifest(entries={"mounted": s3}), MountConfigError),
        (
            Manifest(extra_path_grants=(agents.SandboxPathGrant(path="/data", host_path=str(tmp_path)),)),
            ConfigurationError,
        ),
        (environment(OTHER=AffiantSecretRef(name="GITHUB_TOKEN")), ConfigurationError),
    ):
        with pytest.raises(error, match="affiant"):
            asyncio.run(client.create(manifest=manifest))
    assert client.bundles == ()


@pytest.mark.parametrize(
    ("agent", "manifest", "code"),
    [
        ("dev", Manifest(root="/elsewhere"), "openai_agents.root"),
        ("dev", Manifest(root="/workspace/below"), "openai_agents.root"),
        ("nobody", Manifest(), "policy.unknown_agent"),
        ("reader", environment(GITHUB_TOKEN=AffiantSecretRef(name="GITHUB_TOKEN")), "openai_agents.secret"),
    ],
)
@pytest.mark.slow
def test_a_session_that_the_profile_has_no_place_for_is_not_started(
    warm: Any, agent: str, manifest: Manifest, code: str
) -> None:
    async def never(session: Any) -> None:
        raise AssertionError(session)

    with pytest.raises(WorkspaceStartError) as caught:
        asyncio.run(started(client_of(warm, agent), never, manifest=manifest))
    assert caught.value.context["affiant"]["code"] == code


def test_options_and_states_survive_json_and_hold_no_profile() -> None:
    options = AffiantSandboxClientOptions(
        ttl=60, resources={"pids": 50}, task={"workflow": "release"}, exposed_ports=(8080,)
    )
    again = BaseSandboxClientOptions.parse(json.loads(options.model_dump_json()))
    assert again == options
    client = AffiantSandboxClient(profile=PROFILE, agent="dev")
    session = asyncio.run(client.create(options=options, manifest=environment(T=AffiantSecretRef(name="T"))))
    payload = json.loads(json.dumps(client.serialize_session_state(session.state)))
    state = client.deserialize_session_state(payload)
    assert isinstance(state, AffiantSandboxSessionState)
    assert (state.ttl, state.resources, state.task) == (60, options.resources, options.task)
    assert state.exposed_ports == (8080,)
    assert "agent_configs" not in json.dumps(payload)
    assert payload["manifest"]["environment"]["value"]["T"] == {"type": "affiant_secret", "name": "T"}


def test_a_secret_is_never_resolved_outside_of_the_broker() -> None:
    with raises_code("secret.outside_broker"):
        asyncio.run(AffiantSecretRef(name="GITHUB_TOKEN").resolve())
    with pytest.raises(ValueError, match="not a secret's name"):
        AffiantSecretRef(name="not a name")


def test_a_secret_is_a_placeholder_inside_and_its_value_in_a_variable_is_rejected(warm: Any) -> None:
    assert affiant("secret", "set", "GITHUB_TOKEN", home=warm.home, stdin=VALUE.encode()).returncode == 0
    client = client_of(warm)

    async def work(session: Any) -> tuple[str, Any]:
        found = (await session.exec('echo "$GITHUB_TOKEN"')).stdout.decode()
        session.state.manifest.environment.value["COPY"] = VALUE
        with pytest.raises(ExecTransportError) as caught:
            await session.exec("true")
        with pytest.raises(ExecTransportError):
            await session.pty_exec_start("true", tty=True)
        del session.state.manifest.environment.value["COPY"]
        return found, caught.value

    manifest = environment(GITHUB_TOKEN=AffiantSecretRef(name="GITHUB_TOKEN"))
    found, error = asyncio.run(started(client, work, manifest=manifest))
    assert found.startswith("affiant-ph-")
    assert error.context["affiant"]["code"] == "session.environment"
    assert VALUE not in str(error) + repr(error.context) + client.bundles[0].read_text()


@pytest.mark.slow
def test_another_backend_never_gets_a_secret_in_the_clear() -> None:
    manifest = environment(GITHUB_TOKEN=AffiantSecretRef(name="GITHUB_TOKEN"))

    async def work(session: Any) -> None:
        with raises_code("secret.outside_broker"):
            await session.exec("env")

    asyncio.run(started(UnixLocalSandboxClient(), work, manifest=manifest))


@pytest.mark.slow
def test_a_port_is_reached_if_profile_and_options_list_it(warm: Any) -> None:
    serve = "python3 -m http.server 8080 --bind 0.0.0.0 --directory /workspace"

    async def work(session: Any) -> bytes:
        begun = await session.pty_exec_start(serve, tty=False, yield_time_s=0)
        assert begun.exit_code is None
        with pytest.raises(ExposedPortUnavailableError) as caught:
            await session.resolve_exposed_port(9090)
        assert caught.value.context["affiant"]["code"] == "ports.denied"
        found = await asyncio.gather(*(session.resolve_exposed_port(8080) for _ in range(3)))
        assert len({each.port for each in found}) == 1
        while True:
            try:
                return await asyncio.to_thread(lambda: urlopen(found[0].url_for("http") + "a.txt").read())
            except OSError:  # the server is still starting
                await asyncio.sleep(0.1)

    client = client_of(warm)
    options = AffiantSandboxClientOptions(exposed_ports=(8080, 9090))
    manifest = Manifest(entries={"a.txt": File(content=b"served")})
    assert asyncio.run(started(client, work, manifest=manifest, options=options)) == b"served"
    kinds = [each["kind"] for each in records(client.bundles[0])]
    assert kinds.count("port") == 2


@pytest.mark.slow
def test_a_flood_of_output_waits_for_who_reads_it(warm: Any) -> None:
    async def work(session: Any) -> None:
        begun = await session.pty_exec_start("yes", yield_time_s=1)
        more = await session.pty_write_stdin(session_id=begun.process_id, chars="")
        inner = session._inner._terminals._commands[begun.process_id]
        for output in (begun.output, more.output, b"".join(inner.chunks)):
            assert len(output) < 17 << 20
        await session.pty_terminate_all()
        gone = "while cat /proc/[0-9]*/comm 2>/dev/null | grep -qx yes; do sleep 0.1; done"
        assert (await session.exec(gone, timeout=60)).exit_code == 0
        whole = await session.exec("head -c 20000000 /dev/zero")
        assert (len(whole.stdout), whole.exit_code) == (16 << 20, 0)
        assert b"affiant: output beyond 16777216 bytes was dropped" in whole.stderr

    asyncio.run(started(client_of(warm), work))


@pytest.mark.slow
def test_the_first_bytes_of_a_large_file_are_one_record_and_no_command(warm: Any) -> None:
    async def work(session: Any) -> bytes:
        await session.write(Path("large"), io.BytesIO(b"0123456789" * 100_000))
        found: bytes = await session.read_bounded(Path("large"), max_bytes=12)
        return found

    client = client_of(warm)
    assert asyncio.run(started(client, work)) == b"012345678901"
    kinds = [each["kind"] for each in records(client.bundles[0])]
    assert (kinds.count("file"), kinds.count("exec")) == (2, 0)


@pytest.mark.slow
def test_resources_and_task_of_the_options_are_the_sessions(warm: Any) -> None:
    async def work(session: Any) -> bytes:
        with pytest.raises(ConfigurationError):
            await session.exec("true", user="root")
        return (await session.exec("ulimit -u || ulimit -p")).stdout

    client = client_of(warm)
    options = AffiantSandboxClientOptions(resources={"pids": 60}, task={"workflow": "release", "attempt": 2})
    assert asyncio.run(started(client, work, options=options)) == b"60\n"
    assert "release" in warm.verdict(client.bundles[0])
    with pytest.raises(WorkspaceStartError) as caught:
        asyncio.run(started(client, work, options=AffiantSandboxClientOptions(resources={"pids": 101})))
    assert caught.value.context["affiant"]["code"] == "session.resources"


@pytest.mark.slow
def test_a_resumed_state_is_in_the_open_sandbox_then_in_a_new_one_from_its_snapshot(
    warm: Any, tmp_path: Path
) -> None:
    client = client_of(warm)

    async def go() -> list[Any]:
        again = File(content=b"again", ephemeral=True)
        manifest = Manifest(entries={"given.txt": File(content=b"given"), "again.txt": again})
        first = await client.create(manifest=manifest, snapshot=LocalSnapshotSpec(base_path=tmp_path))
        await first.start()
        await first.exec(
            "echo 1 > made.txt; rm given.txt; touch /tmp/alive; mkdir dir; ln -s ../made.txt dir/link"
        )
        second = await client.resume(
            client.deserialize_session_state(client.serialize_session_state(first.state))
        )
        await second.start()
        same = (await second.exec("ls /tmp/alive given.txt")).stdout
        await first.aclose()
        gone = await second.running()
        payload = json.loads(json.dumps(client.serialize_session_state(first.state)))
        await second.shutdown()
        third = await client.resume(client.deserialize_session_state(payload))
        async with third:
            restored = (await third.exec("cat made.txt; cat dir/link; ls; ls /tmp/alive")).stdout
        return [same, gone, restored, first.state.sandbox != third.state.sandbox]

    same, gone, restored, other = asyncio.run(go())
    assert same == b"/tmp/alive\n"
    assert not gone
    assert restored == b"1\n1\nagain.txt\ndir\nmade.txt\n"
    assert other
    assert len(client.bundles) == 2
    (path,) = tmp_path.glob("*.tar")
    with tarfile.open(path) as archive:
        assert not [name for name in archive.getnames() if "again" in name]


@pytest.mark.slow
def test_a_state_from_elsewhere_is_confined_by_the_client_that_resumes_it(warm: Any) -> None:
    wide, narrow = client_of(warm), client_of(warm, "reader")

    async def go() -> Any:
        first = await wide.create()
        async with first:
            await first.write(Path("made"), io.BytesIO(b"x"))
        resumed = await narrow.resume(
            wide.deserialize_session_state(wide.serialize_session_state(first.state))
        )
        async with resumed:
            return (await resumed.exec("touch /workspace/denied")).exit_code

    assert asyncio.run(go()) != 0


@pytest.mark.slow
def test_a_named_session_outlives_its_client_and_is_resumed_by_another(warm: Any, tmp_path: Path) -> None:
    first, second = client_of(warm), client_of(warm)
    other = AffiantSandboxClient(
        profile=PROFILE.replace("pids: 100", "pids: 99"),
        agent="dev",
        home=warm.home,
        min_isolation=IsolationClass(warm.isolation),
    )

    async def go() -> Any:
        options = AffiantSandboxClientOptions(name="outlives", ttl=300)
        session = await first.create(options=options, snapshot=LocalSnapshotSpec(base_path=tmp_path))
        await session.start()
        await session.exec("touch /tmp/alive made")
        payload = json.loads(json.dumps(first.serialize_session_state(session.state)))
        with pytest.raises(
            WorkspaceStartError
        ) as caught:  # the first client is left as a killed process leaves it
            await (await other.resume(other.deserialize_session_state(payload))).start()
        assert caught.value.context["affiant"]["code"] == "session.name_taken"
        resumed = await second.resume(second.deserialize_session_state(payload))
        async with resumed:
            found = (await resumed.exec("ls /tmp/alive made")).stdout
            begun = await resumed.pty_exec_start("read line; echo got:$line", tty=True, yield_time_s=0)
            typed = await resumed.pty_write_stdin(session_id=begun.process_id, chars="x\n", yield_time_s=30)
            await resumed.write(Path("more"), io.BytesIO(b"more"))
            assert (await resumed.read(Path("more"))).read() == b"more"
        assert not await session.running()
        assert resumed.state.sandbox == session.state.sandbox
        return found, (begun.output + typed.output)

    found, typed = asyncio.run(go())
    assert found == b"/tmp/alive\nmade\n"
    assert typed.endswith(b"got:x\r\n")
    (bundle,) = second.bundles
    warm.verdict(bundle)


@pytest.mark.slow
def test_a_session_that_is_kept_goes_on_between_two_runs_with_what_came_after_its_snapshot(
    warm: Any, tmp_path: Path
) -> None:
    client, again = client_of(warm), client_of(warm)

    async def go() -> Any:
        options = AffiantSandboxClientOptions(keep=True, ttl=300)
        session = await client.create(options=options, snapshot=LocalSnapshotSpec(base_path=tmp_path))
        async with session:
            await session.exec("touch /tmp/alive before")
            sandbox = session._inner.sandbox
        await client.delete(session)
        assert client.bundles == ()
        assert len(list(tmp_path.glob("*.tar"))) == 1
        await sandbox.run(["sh", "-c", "rm before; touch since"], cwd="/workspace")
        payload = json.loads(json.dumps(client.serialize_session_state(session.state)))
        resumed = await again.resume(again.deserialize_session_state(payload))
        async with resumed:
            found = (await resumed.exec("ls /tmp/alive *")).stdout
            sandbox = resumed._inner.sandbox
        await sandbox.close()
        return found

    assert asyncio.run(go()) == b"/tmp/alive\nsince\n"


class Held:
    """A sandbox that is open, until it ends by ``end``."""

    def __init__(self, number: int, folder: Path) -> None:
        self.id, self.bundle_path = f"sandbox-{number}", folder / f"{number}.bundle"
        self.end: AffiantError | None = None

    async def metrics(self) -> None:
        if self.end is not None:
            raise self.end

    async def close(self) -> None:
        self.bundle_path.touch()
        raise StateError("it ended by itself")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Held]:
    """Every sandbox that a client makes."""
    found: list[Held] = []

    async def create(**_: object) -> Held:
        found.append(Held(len(found), tmp_path))
        return found[-1]

    monkeypatch.setattr(sandbox_client, "Sandbox", SimpleNamespace(create=create))
    return found


def stored(client: AffiantSandboxClient, state: Any, **changes: Any) -> Any:
    """The state that ``client`` reads, after somebody has changed it where it was kept."""
    payload = json.loads(json.dumps(client.serialize_session_state(state)))
    return client.deserialize_session_state({**payload, **changes})


def test_a_state_that_names_the_sandbox_of_another_session_does_not_get_it(made: list[Held]) -> None:
    client = AffiantSandboxClient(profile=PROFILE, agent="dev")

    async def go() -> None:
        first, second = [(await client.create()).state for _ in range(2)]
        one, _ = await client._opened(first)
        first.sandbox = one.id
        assert await client._opened(stored(client, first)) == (one, True)
        other, preserved = await client._opened(stored(client, second, sandbox=one.id))
        assert (other is one, preserved) == (False, False)

    asyncio.run(go())


@pytest.mark.parametrize(
    "end",
    [
        StateError("its time is over", code="session.not_open"),
        LimitExceeded("too much memory", where="memory"),
    ],
)
def test_a_sandbox_that_ended_by_itself_is_closed_and_its_state_gets_a_new_one(
    made: list[Held], end: AffiantError
) -> None:
    client = AffiantSandboxClient(profile=PROFILE, agent="dev")

    async def go() -> None:
        state = (await client.create()).state
        first, _ = await client._opened(state)
        state.sandbox = first.id
        made[0].end = SessionBusy("too many acts at once")
        assert await client._opened(state) == (first, True)
        made[0].end = end
        second, preserved = await client._opened(state)
        assert (second is made[1], preserved) == (True, False)
        assert client.bundles == (first.bundle_path,)
        state.sandbox = second.id
        assert await client._opened(state) == (second, True)

    asyncio.run(go())


def key_of(state: Any, **arguments: Any) -> str | None:
    return AffiantSandboxClient(**{"profile": PROFILE, "agent": "dev", **arguments})._key(state)


def test_a_running_session_is_found_by_a_client_with_the_same_arguments_alone(tmp_path: Path) -> None:
    """A client that demands more isolation, or other hosts, never gets a session that began with less."""
    written, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    written.write_text(PROFILE)
    other.write_text(PROFILE + "# changed")
    client = AffiantSandboxClient(profile=PROFILE, agent="dev")
    options = AffiantSandboxClientOptions(name="here")
    state: Any = asyncio.run(client.create(options=options)).state
    vault = VaultChoice(address="https://vault", ca=tmp_path / "ca", token_file=tmp_path / "token")
    keys = [
        key_of(state, **arguments)
        for arguments in (
            {},
            {"agent": "reader"},
            {"profile": written},
            {"profile": other},
            {"profile": tmp_path / "missing.yaml"},
            {"profile": {"filesystem_access": ["read-write:/workspace"]}},
            {"min_isolation": IsolationClass.NAMESPACE},
            {"hosts": {"a.example": ["127.0.0.1"]}},
            {"floor": written},
            {"floor": other},
            {"rootfs": tmp_path},
            {"runtime": tmp_path},
            {"input": "repo@main"},
            {"vault": vault},
            {"store_key": PassphraseKey("one passphrase")},
            {"gateway": GatewayChoice(config_digests=frozenset({"sha256:00"}))},
        )
    ]
    assert len(set(keys)) == len(keys)
    assert key_of(state, profile=str(written)) == key_of(state, profile=written)
    assert keys[0] == key_of(state, min_isolation=IsolationClass.USERSPACE_KERNEL, hosts=None, input=None)
    assert key_of(state, store_key=PassphraseKey("one passphrase")) == key_of(
        state, store_key=PassphraseKey("another passphrase")
    )
    again: Any = asyncio.run(client.create(options=options)).state
    assert key_of(again) != keys[0]


HOST_FILES = Manifest(
    entries={
        "file": LocalFile(src=Path("notes/a.txt")),
        "dir": Dir(children={"below": LocalDir(src=Path("/srv/data")), "given": File(content=b"x")}),
        "empty": LocalDir(),
    },
    extra_path_grants=(agents.SandboxPathGrant(path="/srv/data", read_only=True),),
)


def test_a_stored_state_names_only_files_of_the_host_that_the_client_trusts() -> None:
    client, other = (AffiantSandboxClient(profile=PROFILE, agent="dev") for _ in range(2))
    trusting = AffiantSandboxClient(profile=PROFILE, agent="dev", trusted_manifest=HOST_FILES)

    async def go() -> None:
        session = await client.create(manifest=HOST_FILES)
        for resuming in (client, trusting):
            state = stored(resuming, session.state)
            assert set(state.manifest.entries) == {"dir", "empty"}
            assert state.manifest.extra_path_grants == ()
            twice = stored(resuming, state)
            assert (await resuming.resume(twice)).state.manifest == HOST_FILES
        with pytest.raises(ConfigurationError, match=r"\(dir/below, file, path grant /srv/data\)"):
            await other.resume(stored(other, session.state))
        parsed = SandboxSessionState.parse(client.serialize_session_state(session.state))
        with pytest.raises(ConfigurationError, match="trusted_manifest"):
            await other.resume(parsed)

    asyncio.run(go())


@pytest.mark.parametrize(
    "changed",
    [
        {"entries": {"file": {"type": "local_file", "src": "/etc/shadow"}}},
        {"entries": {"elsewhere": {"type": "local_file", "src": "notes/a.txt"}}},
        {"entries": {"dir": {"type": "dir", "children": {"below": {"type": "local_dir", "src": "/"}}}}},
        {"extra_path_grants": [{"path": "/etc"}]},
        {"extra_path_grants": [{"path": "/srv/data", "read_only": False}]},
    ],
)
def test_a_state_that_was_changed_where_it_was_kept_reads_no_other_file_of_the_host(changed: Any) -> None:
    client = AffiantSandboxClient(profile=PROFILE, agent="dev", trusted_manifest=HOST_FILES)

    async def go() -> None:
        session = await client.create()
        with pytest.raises(ConfigurationError, match="trusted_manifest"):
            await client.resume(stored(client, session.state, manifest=changed))

    asyncio.run(go())


def test_what_a_capability_puts_back_is_this_processs_own() -> None:
    """The SDK's runner lets capabilities complete the manifest between the reading of a state and its resumption."""
    client = AffiantSandboxClient(profile=PROFILE, agent="dev")

    async def go() -> None:
        session = await client.create()
        evil = {"entries": {".agents": {"type": "local_dir", "src": "/etc"}}}
        state = stored(client, session.state, manifest=evil)
        ours = Manifest(entries={".agents": LocalDir(src=Path("skills"))})
        resumed = await client.resume(state.model_copy(update={"manifest": ours}))
        assert resumed.state.manifest == ours

    asyncio.run(go())


def test_sessions_and_states_of_other_backends_are_rejected(warm: Any) -> None:
    client, other = client_of(warm), UnixLocalSandboxClient()

    async def go() -> None:
        theirs = await other.create()
        with pytest.raises(TypeError):
            await client.delete(theirs)
        with pytest.raises(TypeError):
            await client.resume(theirs.state)
        await other.delete(theirs)

    asyncio.run(go())


@pytest.mark.slow
def test_a_limit_is_a_typed_error_and_delete_still_closes_with_the_records(warm: Any, tmp_path: Path) -> None:
    client = client_of(warm)
    hog = "import time; a = bytearray(b'x') * (900 << 20); time.sleep(60)"

    async def go() -> Any:
        session = await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path))
        with pytest.raises(WorkspaceStopError):  # there is nothing left of which a snapshot could be made
            async with session:
                with pytest.raises(ExecTransportError) as caught:
                    await session.exec("python3", "-c", hog)
                assert not await session.running()
        assert client.bundles == ()
        await client.delete(session)
        return caught.value

    error = asyncio.run(go())
    assert (error.context["affiant"]["code"], error.retryable) == ("isolation.limit", False)
    (bundle,) = client.bundles
    warm.verdict(bundle)


@pytest.mark.slow
def test_a_session_that_is_not_closed_is_closed_by_delete_and_once(warm: Any) -> None:
    client = client_of(warm)

    async def go() -> None:
        session = await client.create()
        with pytest.raises(ExecTransportError):
            await session.exec("true")
        await session.start()
        await session.pty_exec_start("sleep 300", tty=True, yield_time_s=0)
        await client.delete(session)
        await client.delete(session)
        assert not await session.running()

    asyncio.run(go())
    (bundle,) = client.bundles
    warm.verdict(bundle)
