"""An agent's server reached through the supervisor: what is recorded, what is bounded, what never answers."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.supervisor.conftest import FOUND
from tests.sandbox.supervisor.launcher import Launcher, Link, Refused

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.session_acts.sandbox_ports import open_port
from affiant.sandbox.supervisor import acts, ports
from affiant.sandbox.supervisor.launch.control import Message, sent_error
from affiant.sandbox.supervisor.ports import SessionPorts

PROFILE = """
filesystem_access: read-write:/workspace
network_egress: denied
ports: [8080, 8000-8001]
"""

SERVER = """
import os, socket, sys, threading, time
listener = socket.create_server(("0.0.0.0", 8080))
print("up", flush=True)
def serve(client):
    with client, client.makefile("rb") as lines:
        asked = lines.readline()
        print(asked.decode().strip(), flush=True)
        if asked == b"echo\\n": client.sendall(b"echo " + lines.readline())
        elif asked == b"garbage\\n": client.sendall(bytes(range(256)) * 100)
        elif asked == b"silent\\n": time.sleep(60)
        elif asked == b"flood\\n":
            try:
                while True: client.sendall(bytes(1 << 16))
            except OSError: pass
        elif asked == b"upload\\n": client.sendall(b"%d" % len(lines.read()))
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"""


BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        pytest.param(BackendName.BUBBLEWRAP, id="bwrap"),
        pytest.param(
            BackendName.GVISOR, id="gvisor", marks=[pytest.mark.slow, pytest.mark.gvisor, pytest.mark.root]
        ),
    ],
)


class Linked:
    """Acts over a test's link to the supervisor: events are handed out by the number of their act."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.events: dict[int, asyncio.Queue] = {}
        self.ended: asyncio.Queue = asyncio.Queue()
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        while (message := await self.link.channel.receive()) is not None:
            members = message.members
            number = members.get("id")
            if isinstance(number, int):
                self.queue(number).put_nowait(members)
            elif members.get("event") in {"finished", "refused"}:
                self.ended.put_nowait(members)

    def queue(self, number: int) -> asyncio.Queue:
        return self.events.setdefault(number, asyncio.Queue())

    @contextmanager
    def act(self):
        yield Act(self, len(self.events))

    async def start(self, source: str) -> int:
        """Start a program and wait for its first line; its standard output."""
        stdout, stderr = await self.link.start(["python3", "-c", source])
        assert await asyncio.to_thread(os.read, stdout, 3) == b"up\n"
        os.close(stderr)
        return stdout

    async def finish(self, why: str = "killed"):
        await self.link.channel.send({"op": "finish", "why": why})
        ended = await self.ended.get()
        self.reading.cancel()
        if ended["event"] == "refused":
            raise Refused(ended["code"], ended["message"])
        return self.link.story()


class Act:
    def __init__(self, linked: Linked, number: int) -> None:
        self.linked = linked
        self.number = number
        linked.queue(number)

    async def tell(self, message: Mapping[str, object], descriptors: Mapping[str, int] | None = None) -> None:
        await self.linked.link.channel.send({**message, "id": self.number}, descriptors)

    async def next(self) -> Mapping[str, object]:
        event = await self.linked.queue(self.number).get()
        if event["event"] == "rejected":
            raise sent_error(event)
        return event


@asynccontextmanager
async def session(launcher: Launcher, profile: str = PROFILE) -> AsyncIterator[Linked]:
    async with asyncio.timeout(60), launcher.session(profile) as link:
        await link.expect("ready")
        yield Linked(link)


async def ask(address, *pieces: bytes, until: int = -1) -> bytes:
    reader, writer = (
        await asyncio.open_unix_connection(address)
        if isinstance(address, Path)
        else await asyncio.open_connection(*address)
    )
    try:
        writer.write(b"".join(piece + b"\n" for piece in pieces))
        return await (reader.read() if until < 0 else reader.readexactly(until))
    finally:
        writer.transport.abort()


def ports_of(story) -> list[tuple]:
    names = ("prt.num", "prt.in", "prt.out")
    return [
        (record.member("ph"), *(record.disclosed.get(name) for name in names))
        for record in story.own
        if record.kind == "port"
    ]


def run(scenario):
    return asyncio.run(scenario)


def both_backends(launcher: Launcher, backend: BackendName) -> None:
    if FOUND[backend].reasons:
        pytest.skip(f"{backend.value}: {'; '.join(FOUND[backend].reasons)}")
    launcher.backend = backend


@BACKENDS
def test_a_server_is_reached_and_what_crossed_is_recorded(
    launcher: Launcher, backend, tmp_path: Path
) -> None:
    both_backends(launcher, backend)

    async def scenario():
        async with session(launcher) as linked:
            output = await linked.start(SERVER)
            async with open_port(linked.act, 8080) as port:
                assert port.address[0] == "127.0.0.1"
                assert await ask(port.address, b"echo", b"hello") == b"echo hello\n"
                assert await ask(port.address, b"garbage") == bytes(range(256)) * 100
            assert port.use is not None
            assert (port.use.why, port.use.bytes_in, port.use.bytes_out) == ("asked", 19, 25611)
            async with open_port(linked.act, 8080, path=tmp_path / "s") as port:
                assert os.stat(tmp_path / "s").st_mode & 0o777 == 0o600
                assert await ask(tmp_path / "s", b"echo", b"again") == b"echo again\n"
            assert not (tmp_path / "s").exists()
            os.close(output)
            return await linked.finish()

    story = run(scenario())
    assert ports_of(story) == [
        ("opened", 8080, None, None),
        ("closed", 8080, 19, 25611),
        ("opened", 8080, None, None),
        ("closed", 8080, 11, 11),
    ]
    first = [record for record in story.own if record.kind == "port"]
    assert first[1].member("par") == [first[0].jti]


def test_a_port_that_the_profile_does_not_list_is_denied_without_a_record(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            for number in (8081, 3128, 22, 0, 65536, -1):
                with raises_code("ports.denied"):
                    async with open_port(linked.act, number):
                        pytest.fail("it was opened")
            return await linked.finish("done")

    assert ports_of(run(scenario())) == []


def test_the_proxys_own_port_is_never_opened_even_where_it_is_listed(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher, PROFILE.replace("8080", "3128")) as linked:
            with raises_code("ports.refused"):
                async with open_port(linked.act, 3128):
                    pytest.fail("it was opened")
            return await linked.finish("done")

    assert ports_of(run(scenario())) == []


@BACKENDS
def test_without_a_server_the_connection_is_reset_and_the_port_stays_open(
    launcher: Launcher, backend
) -> None:
    both_backends(launcher, backend)

    async def scenario():
        async with session(launcher) as linked:
            async with open_port(linked.act, 8080) as port:
                with pytest.raises(ConnectionError):
                    await ask(port.address, b"echo", until=1)
                output = await linked.start(SERVER)
                assert await ask(port.address, b"echo", b"now") == b"echo now\n"
            assert port.use is not None
            assert (port.use.connections, port.use.refused) == (2, 1)
            os.close(output)
            return await linked.finish()

    run(scenario())


def test_one_that_never_answers_floods_or_is_left_disturbs_no_other(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            output = await linked.start(SERVER)
            async with open_port(linked.act, 8080) as port:
                silent = [await asyncio.open_connection(*port.address) for _ in range(3)]
                for _, writer in silent:
                    writer.write(b"silent\n")
                for _ in range(3):  # a client that leaves amid a stream
                    assert len(await ask(port.address, b"flood", until=1 << 20)) == 1 << 20
                unread = await asyncio.open_connection(*port.address)
                unread[1].write(b"flood\n")
                assert await ask(port.address, b"echo", b"still") == b"echo still\n"
                for _, writer in (*silent, unread):
                    writer.transport.abort()
            assert port.use is not None
            assert port.use.bytes_out >= 3 << 20
            os.close(output)
            return await linked.finish()

    story = run(scenario())
    assert [phase for phase, *_ in ports_of(story)] == ["opened", "closed"]


def test_bytes_are_bounded_and_then_the_port_is_closed(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            output = await linked.start(SERVER)
            async with open_port(linked.act, 8080, most_bytes=1 << 20) as port:
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await ask(port.address, b"flood", until=4 << 20)
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await ask(port.address, b"echo", b"x", until=1)
            assert port.use is not None
            assert port.use.why == "bytes"
            assert port.use.bytes_in + port.use.bytes_out <= 1 << 20
            os.close(output)
            return await linked.finish()

    run(scenario())


def test_a_restriction_that_takes_the_port_away_closes_it_with_its_connections(launcher: Launcher) -> None:
    narrower = "\n".join(f"    {line}" for line in PROFILE.replace("8080, ", "").strip().splitlines())
    file = f"agent_configs:\n  dev:\n{narrower}\n".encode()
    asked = {
        "op": "narrow",
        "policy": b64u(load_profiles(file).profile("dev").normal_form),
        "file": sha256_name(file),
        "signature": None,
    }

    async def scenario():
        async with session(launcher) as linked:
            output = await linked.start(SERVER)
            async with open_port(linked.act, 8080) as port:
                reader, writer = await asyncio.open_connection(*port.address)
                writer.write(b"silent\n")
                assert await asyncio.to_thread(os.read, output, 7) == b"silent\n"
                with linked.act() as act:
                    await act.tell(asked)
                    assert (await act.next())["event"] == "narrowed"
                assert await reader.read() == b""
                writer.close()
            assert port.use is not None
            assert port.use.why == "denied"
            with raises_code("ports.denied"):
                async with open_port(linked.act, 8080):
                    pytest.fail("it was opened")
            os.close(output)
            return await linked.finish()

    assert [phase for phase, *_ in ports_of(run(scenario()))] == ["opened", "closed"]


@pytest.mark.slow
def test_half_closed_connections_carry_the_answer(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            output = await linked.start(SERVER)
            async with open_port(linked.act, 8080) as port:
                reader, writer = await asyncio.open_connection(*port.address)
                writer.write(b"upload\n" + bytes(3 << 20))
                writer.write_eof()
                assert await reader.read() == b"%d" % (3 << 20)
                writer.close()
            os.close(output)
            return await linked.finish()

    assert ports_of(run(scenario()))[1][2] == (3 << 20) + 7


def test_one_port_is_open_once_and_no_more_than_the_bound_are(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            async with open_port(linked.act, 8080):
                with raises_code("ports.open"):
                    async with open_port(linked.act, 8080):
                        pytest.fail("it was opened twice")
            async with open_port(linked.act, 8080), open_port(linked.act, 8000):
                pass
            return await linked.finish("done")

    assert [number for _, number, *_ in ports_of(run(scenario()))] == [8080, 8080, 8080, 8000, 8000, 8080]


def test_connections_of_all_ports_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds two descriptors; without any left, a message to the supervisor would lose its own."""
    monkeypatch.setattr(ports, "_CONNECTIONS", 2)
    monkeypatch.setattr(ports, "_ALL_CONNECTIONS", 3)

    class Relaying(SessionPorts):
        def __init__(self) -> None:
            super().__init__(None)
            self.served, self.go, self.came = 0, asyncio.Event(), asyncio.Semaphore(0)

        async def _relay(self, port, client) -> None:
            self.served += 1
            self.came.release()
            await self.go.wait()

    async def scenario():
        relaying = Relaying()
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        opened = []
        for number, listener in enumerate(listeners):
            listener.setblocking(False)
            opened.append(ports._OpenPort(number, listener, 1, asyncio.get_running_loop().create_future()))
        accepting = [asyncio.create_task(relaying._accept(each)) for each in opened]
        clients = [socket.create_connection(each.getsockname()) for each in listeners for _ in range(3)]
        for _ in range(3):
            await relaying.came.acquire()
        await asyncio.sleep(0.05)
        at_once = relaying.served
        relaying.go.set()
        for _ in range(3):
            await relaying.came.acquire()
        for each in accepting:
            each.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)
        for each in (*clients, *listeners):
            each.close()
        return at_once, relaying.served

    assert asyncio.run(scenario()) == (3, 6)


def test_a_supervisor_takes_the_descriptors_that_its_user_may_have(launcher: Launcher) -> None:
    """The soft limit of most shells is 1,024: fewer than ports and commands hold together."""

    async def scenario():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
        try:
            async with launcher.session(PROFILE) as link:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                await link.expect("ready")
                lines = Path(f"/proc/{link.service.pid}/limits").read_text().splitlines()
                (found,) = (line.split()[3:5] for line in lines if line.startswith("Max open files"))
                return found, hard
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    found, hard = asyncio.run(scenario())
    assert found == [str(min(hard, 8192)), str(hard)]


@pytest.mark.parametrize(
    ("changed", "member"),
    [({"port": "80"}, "port"), ({"bytes": 0}, "bytes"), ({"bytes": None}, "bytes"), ({}, "listener")],
)
def test_a_request_that_is_wrong_names_the_member(changed, member) -> None:
    act = acts.Act(1, Message({"port": 80, "bytes": 10, **changed}), lambda _: None)
    with raises_code("session.control") as caught:
        SessionPorts(None)._opened(act)
    assert caught.value.where == member


@pytest.mark.slow
def test_an_open_port_is_closed_in_the_records_when_the_session_ends(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            output = await linked.start(SERVER)
            async with open_port(linked.act, 8080) as port:
                reader, writer = await asyncio.open_connection(*port.address)
                writer.write(b"silent\n")
                assert await asyncio.to_thread(os.read, output, 7) == b"silent\n"
                story = await linked.finish()
                assert await reader.read() == b""
                writer.close()
            os.close(output)
            return story

    story = run(scenario())
    assert ports_of(story) == [("opened", 8080, None, None), ("closed", 8080, 7, 0)]
    assert story.kinds[-1] == "end"


def test_a_port_that_is_closed_before_its_opening_has_begun_is_closed_at_once(launcher: Launcher) -> None:
    """Both requests lie in the socket when the supervisor reads the first."""

    async def scenario():
        async with session(launcher) as linked:
            with linked.act() as act, socket.create_server(("127.0.0.1", 0)) as listener:
                os.kill(linked.link.service.pid, signal.SIGSTOP)
                try:
                    asked = {"op": "port", "port": 8080, "bytes": 10}
                    await act.tell(asked, {"listener": listener.fileno()})
                    await act.tell({"op": "port-close"})
                finally:
                    os.kill(linked.link.service.pid, signal.SIGCONT)
                assert (await act.next())["event"] == "opened"
                closed = await act.next()
                assert (closed["event"], closed["why"]) == ("closed", "asked")
            return await linked.finish("done")

    assert [phase for phase, *_ in ports_of(run(scenario()))] == ["opened", "closed"]


def test_what_is_no_listening_socket_opens_no_port(launcher: Launcher) -> None:
    async def scenario():
        async with session(launcher) as linked:
            ours, theirs = socket.socketpair()
            with (
                ours,
                theirs,
                socket.socket(type=socket.SOCK_DGRAM) as datagram,
                open("/dev/null", "rb") as file,
            ):
                for given in (None, ours, datagram, file):
                    with linked.act() as act, raises_code("session.control"):
                        descriptors = {} if given is None else {"listener": given.fileno()}
                        await act.tell({"op": "port", "port": 8080, "bytes": 10}, descriptors)
                        await act.next()
            return await linked.finish("done")

    assert ports_of(run(scenario())) == []
