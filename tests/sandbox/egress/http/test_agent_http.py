"""What is refused is told, also to a client that sends all it has before it reads."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
import time

import httpx
import openai
import pytest
from tests.sandbox.egress.conftest import HOST, Sandbox, World
from tests.secrets.upstream_server import answer

from affiant.sandbox.egress.http import agent_http
from affiant.sandbox.egress.http.denial import Denial

GATEWAY = "gateway.affiant.internal"
CHAT = f"http://{GATEWAY}/v1/chat/completions"
MUCH = 64 << 20
MIB = b"x" * (1 << 20)


def head(target: str, *fields: str, host: str = GATEWAY) -> bytes:
    lines = [f"POST {target} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", *fields, "", ""]
    return "\r\n".join(lines).encode()


def send_all(connection: socket.socket, *, chunked: bool, size: int = MUCH, ends: bool = True) -> None:
    """A whole body, without looking up."""
    for _ in range(size // len(MIB)):
        connection.sendall(b"%x\r\n%s\r\n" % (len(MIB), MIB) if chunked else MIB)
    if chunked and ends:
        connection.sendall(b"0\r\n\r\n")


def read_answer(connection: socket.socket) -> tuple[int, dict]:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        assert part, "the connection ended before the answer"
        data += part
    top, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line[15:]) for line in top.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return int(top.split()[1]), json.loads(body)


FRAMING = {False: f"Content-Length: {MUCH}", True: "Transfer-Encoding: chunked"}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("connection_field", ["Connection: keep-alive", "Connection: close"])
def test_a_client_that_sends_all_before_it_reads_finds_the_answer(
    world: World, chunked: bool, connection_field: str
) -> None:
    def ask(address: tuple[str, int]) -> tuple[int, dict]:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(head(CHAT, FRAMING[chunked], connection_field))
            send_all(connection, chunked=chunked)
            return read_answer(connection)

    async def scenario(box: Sandbox) -> tuple[tuple[int, dict], int]:
        memory = box.proxy._gateway.memory
        before = memory._left
        told = await asyncio.to_thread(ask, box.address)
        return told, before - memory._left

    (status, told), missing = world.run("network_egress: denied", scenario)
    assert (status, told["error"]["code"], missing) == (413, "egress.too_large", 0)
    assert world.chain.kinds == ["refusal.egress.too_large"] and world.gateway.counter == 0


def test_a_connection_goes_on_after_a_body_that_was_refused(world: World) -> None:
    def ask(address: tuple[str, int]) -> list[int]:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(head(CHAT, FRAMING[False]))
            send_all(connection, chunked=False)
            statuses = [read_answer(connection)[0]]
            connection.sendall(head(f"http://{GATEWAY}/nothing", "Content-Length: 2") + b"{}")
            return [*statuses, read_answer(connection)[0]]

    def scenario(box: Sandbox):
        return asyncio.to_thread(ask, box.address)

    assert world.run("network_egress: denied", scenario) == [413, 404]


def test_httpx_and_the_openai_client_see_the_refusal(world: World) -> None:
    def ask(address: tuple[str, int]) -> tuple[httpx.Response, openai.APIStatusError]:
        proxy = f"http://{address[0]}:{address[1]}"
        with httpx.Client(proxy=proxy, trust_env=False, timeout=20) as client:
            plain = client.post(CHAT, content=MIB * 64, headers={"Content-Type": "application/json"})
            api = openai.OpenAI(
                base_url=f"http://{GATEWAY}/v1", api_key="affiant-session", http_client=client, max_retries=0
            )
            with pytest.raises(openai.APIStatusError) as refused:
                api.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": (MIB * 64).decode()}]
                )
            return plain, refused.value

    def scenario(box: Sandbox):
        return asyncio.to_thread(ask, box.address)

    plain, refused = world.run("network_egress: denied", scenario)
    assert (plain.status_code, plain.json()["error"]["code"]) == (413, "egress.too_large")
    assert (refused.status_code, refused.code) == (413, "egress.too_large")


NODE = """
const http = require("node:http");
const [, host, port] = process.argv;
const body = Buffer.alloc(64 << 20, "x");
const told = (status, text) => console.log(status, JSON.parse(text).error.code);
// fetch names its own Host, so what it is refused is another thing; what it must see is that
fetch(`http://${host}:${port}/`, {method: "POST", body})
  .then(async answer => told(answer.status, await answer.text()))
  .then(() => {
    const headers = {"Content-Length": body.length, "Host": "gateway.affiant.internal"};
    const request = http.request({host, port, path: "/v1/chat/completions", method: "POST", headers}, answer => {
      const parts = [];
      answer.on("data", part => parts.push(part));
      answer.on("end", () => { told(answer.statusCode, Buffer.concat(parts)); process.exit(0); });
    });
    request.end(body);
  });
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node: its own clients are asked")
def test_nodes_fetch_and_request_see_the_refusal(world: World) -> None:
    def ask(address: tuple[str, int]) -> str:
        command = ["node", "-e", NODE, address[0], str(address[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False)
        return done.stdout + done.stderr

    def scenario(box: Sandbox):
        return asyncio.to_thread(ask, box.address)

    assert world.run("network_egress: denied", scenario).splitlines() == [
        "400 policy.host",
        "413 egress.too_large",
    ]


def test_a_denied_upload_inside_tls_is_told(world: World, serve) -> None:
    server = serve(lambda received: answer(b"never"))
    profile = f"network_egress:\n  - {{host: {HOST}, port: {server.port}, paths: ['/a']}}"

    def ask(box: Sandbox) -> tuple[int, dict]:
        with socket.create_connection(box.address, timeout=20) as plain:
            authority = f"{HOST}:{server.port}"
            plain.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
            assert plain.recv(65536).startswith(b"HTTP/1.1 200")
            with box.client_context().wrap_socket(plain, server_hostname=HOST) as connection:
                connection.sendall(head("/b", FRAMING[False], host=authority))
                send_all(connection, chunked=False)
                return read_answer(connection)

    status, told = world.run(profile, lambda box: asyncio.to_thread(ask, box))
    assert (status, told["error"]["type"]) == (403, "egress_denied")


@pytest.mark.parametrize("bound", ["_DISCARD", "_DISCARD_S"])
def test_who_goes_on_sending_beyond_the_bounds_is_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(agent_http, bound, 1 << 20 if bound == "_DISCARD" else 0.5)

    def ask(address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(head(CHAT, "Transfer-Encoding: chunked"))
            deadline = time.monotonic() + 10
            send_all(connection, chunked=True, size=9 << 20, ends=False)  # more than is taken
            while time.monotonic() < deadline:
                if bound == "_DISCARD":
                    send_all(connection, chunked=True, size=1 << 20, ends=False)
                else:
                    connection.sendall(b"1\r\nx\r\n")
                    time.sleep(0.02)

    async def scenario(box: Sandbox) -> None:
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await asyncio.to_thread(ask, box.address)

    world.run("network_egress: denied", scenario)


class Busy:
    """An agent that always has one more byte ready, as a flood looks to a busy process."""

    def __init__(self) -> None:
        self.reads = 0

    async def read(self) -> bytes:
        self.reads += 1
        await asyncio.sleep(0)
        return b"1\r\nx\r\n"

    async def write(self, data: bytes) -> None:
        """Taken."""


@pytest.mark.parametrize("attempt", range(5))
def test_the_time_for_what_is_thrown_away_ends_also_while_bytes_keep_coming(
    monkeypatch: pytest.MonkeyPatch, attempt: int
) -> None:
    """In Python 3.11 `asyncio.wait_for` swallows a cancellation that meets a read which is just done."""
    monkeypatch.setattr(agent_http, "_DISCARD_S", 0.05)
    stream = Busy()

    async def scenario() -> None:
        http = agent_http.AgentHTTP(stream, agent_http.Timeouts())  # type: ignore[arg-type]
        http._reader.feed(head(CHAT, "Transfer-Encoding: chunked"))
        assert await http.next_head() is not None
        denying = asyncio.create_task(http.deny(Denial(403, b"{}"), keep_alive=True))
        done, _ = await asyncio.wait({denying}, timeout=5)
        denying.cancel()
        assert done, f"still reading, after {stream.reads} reads"

    asyncio.run(scenario())
