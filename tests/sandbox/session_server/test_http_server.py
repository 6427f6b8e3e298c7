"""A real server, as its callers meet it: sessions of their own, commands, files, ports, and receipts."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.sandbox.conftest import affiant
from tests.sandbox.session_server.conftest import Served, end_all, started

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.encoding.canonical import parse_object

ROOT = Path(__file__).resolve().parents[3]
NODE_MODULES = Path.home() / ".cache" / "affiant-tests" / "node_modules"


def ok(response: httpx.Response, status: int = 200) -> dict:
    assert response.status_code == status, response.text
    return response.json()


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def create(client: httpx.Client, **more: object) -> str:
    return ok(client.post("/v1/sessions", json={"agent": "writer", "ttl": 300, **more}), 201)["session"]


def until(holds: Callable[[], bool], within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def running(client: httpx.Client, session: str) -> list[list[str]]:
    commands = ok(client.get(f"/v1/sessions/{session}"))["commands"]
    return [each["command"] for each in commands if each["ended"] is None]


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_a_session_from_its_creation_to_its_receipts(served: Served, alice: httpx.Client) -> None:
    made = ok(
        alice.post(
            "/v1/sessions", json={"agent": "writer", "name": "story", "task": {"workflow": "release"}}
        ),
        201,
    )
    session, base = made["session"], "/v1/sessions/story"
    assert (made["state"], made["created"], made["commands"]) == ("running", True, [])
    moved = ok(alice.put(f"{base}/file", params={"path": "/workspace/in.bin"}, content=b"\xff\x00in"))
    assert (moved["files"], moved["length"]) == (1, 4)
    done = ok(
        alice.post(
            f"{base}/exec",
            json={"argv": ["sh", "-c", "cat in.bin; cat >&2; exit 7"], "stdin": "given", "env": {"A": "b"}},
        )
    )
    assert (done["exit_code"], done["stderr"], done["stderr_base64"]) == (7, "given", None)
    assert base64.b64decode(done["stdout_base64"]) == b"\xff\x00in"
    assert done["usage"]["wall_s"] > 0
    with alice.stream(
        "POST", f"{base}/stream", json={"argv": ["sh", "-c", "echo one; echo two >&2"]}
    ) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        found = list(events(stream.iter_lines()))
    assert found[-1][0] == "exited" and found[-1][1]["exit_code"] == 0
    written = {name: base64.b64decode(data["data"]) for name, data in found[:-1]}
    assert written == {"stdout": b"one\n", "stderr": b"two\n"}
    assert alice.get(f"{base}/file", params={"path": "/workspace/in.bin"}).content == b"\xff\x00in"
    assert ok(alice.get(f"{base}/metrics"))["commands_ended"] == 2
    stopped = ok(alice.post(f"{base}/stop"))
    assert stopped == {"session": session, "bundle": stopped["bundle"]} == ok(alice.post(f"{base}/stop"))
    bundle = alice.get(f"{base}/bundle").content
    assert sha256_name(bundle) == stopped["bundle"]
    kinds = [
        str(parse_object(from_b64u(each.split(".")[1]))["kind"]) for each in parse_bundle(bundle).receipts
    ]
    assert (kinds.count("exec"), kinds.count("file")) == (4, 2)
    (served.machine.folder / "got.json").write_bytes(bundle)
    assert "1 closed" in served.machine.verdict(served.machine.folder / "got.json")
    other = {"bundle": f"sha256:{'0' * 64}"}
    assert code(alice.delete(f"/v1/sessions/{session}", params=other)) == (409, "session.only_copy")
    assert ok(alice.delete(f"/v1/sessions/{session}", params={"bundle": stopped["bundle"]})) == {
        "session": session
    }
    assert code(alice.get(f"/v1/sessions/{session}")) == (404, "session.not_here")


@pytest.mark.slow
def test_a_session_is_its_caller_s_and_no_one_else_s(served: Served, module_session: str) -> None:
    requests: list[tuple[str, str, dict]] = [
        ("GET", "", {}),
        ("GET", "/metrics", {}),
        ("GET", "/bundle", {}),
        ("POST", "/stop", {}),
        ("DELETE", "", {"params": {"bundle": f"sha256:{'0' * 64}"}}),
        ("POST", "/exec", {"json": {"argv": ["true"]}}),
        ("POST", "/stream", {"json": {"argv": ["true"]}}),
        ("POST", "/commands", {"json": {"argv": ["true"]}}),
        ("GET", "/commands/1/output", {}),
        ("POST", "/commands/1/signal", {"json": {"signal": 9}}),
        ("GET", "/file", {"params": {"path": "/workspace/x"}}),
        ("PUT", "/file", {"params": {"path": "/workspace/x"}, "content": b"x"}),
        ("DELETE", "/file", {"params": {"path": "/workspace/x"}}),
        ("GET", "/stat", {"params": {"path": "/workspace"}}),
        ("GET", "/files", {"params": {"path": "/workspace"}}),
        ("GET", "/tree", {"params": {"path": "/workspace"}}),
        ("PUT", "/tree", {"params": {"path": "/workspace"}, "content": b""}),
        ("POST", "/ports", {"json": {"port": 8080}}),
        ("DELETE", "/ports/8080", {}),
    ]
    document = json.loads((Path(__file__).parent / "openapi.json").read_text())
    assert len(requests) == sum(
        len(verbs) for path, verbs in document["paths"].items() if "{session}" in path
    )
    with served.client("bob") as bob, served.client() as alice:
        for verb, path, more in requests:
            mine = bob.request(verb, f"/v1/sessions/{module_session}{path}", **more)
            nobody = bob.request(verb, f"/v1/sessions/{'a' * 22}{path}", **more)
            assert code(mine) == code(nobody) == (404, "session.not_here"), (verb, path)
        assert module_session not in bob.get("/v1/sessions").text
        assert module_session in alice.get("/v1/sessions").text
        assert running(alice, module_session) == []
    with served.client("mallory") as mallory:
        assert code(mallory.get("/v1/sessions")) == (403, "session.caller_unlisted")


@pytest.mark.slow
def test_names_are_each_caller_s_own(served: Served, alice: httpx.Client) -> None:
    first = create(alice, name="build")
    assert code(alice.post("/v1/sessions", json={"agent": "writer", "name": "build"})) == (
        409,
        "session.name_taken",
    )
    with served.client("bob") as bob:
        other = create(bob, name="build")
        assert other != first
        assert ok(bob.get("/v1/sessions/build"))["session"] == other
        assert ok(alice.get("/v1/sessions/build"))["session"] == first
        listed = affiant("session", "top", "--json", "--home", str(served.machine.home))
        assert {first, other} <= {each["session"] for each in json.loads(listed.stdout)["sessions"]}
        stopped = affiant("session", "stop", "build", "--home", str(served.machine.home))
        assert stopped.returncode == 1, "the command line has no session of this name"
        end_all(bob)


@pytest.mark.slow
def test_requests_with_one_key_give_one_session(served: Served, alice: httpx.Client) -> None:
    def asked(client: httpx.Client) -> httpx.Response:
        return client.post(
            "/v1/sessions", json={"agent": "writer", "ttl": 300}, headers={"idempotency-key": "k1"}
        )

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(asked, [alice] * 3))
    assert len({each.json()["session"] for each in answers}) == 1, [each.text for each in answers]
    assert sorted(each.status_code for each in answers) == [200, 200, 201], "one of them created it"
    again = asked(alice)
    assert again.status_code == 200 and again.json()["created"] is False
    with served.client("bob") as bob:
        assert asked(bob).json()["session"] != again.json()["session"], "a key is its caller's own"
        end_all(bob)


@pytest.mark.slow
def test_a_caller_that_leaves_while_a_session_is_created_leaves_none(
    served: Served, alice: httpx.Client
) -> None:
    def listed() -> list[str]:
        return [each["state"] for each in ok(alice.get("/v1/sessions"))["sessions"] if each["name"] == "left"]

    def creating() -> bool:
        notes = [json.loads(path.read_bytes()) for path in (served.machine.home / "launches").glob("*.json")]
        return any((each.get("asked") or {}).get("name") == "left" for each in notes)

    url, body = httpx.URL(served.url), b'{"agent": "writer", "name": "left", "ttl": 300}'
    head = f"POST /v1/sessions HTTP/1.1\r\nhost: {url.host}\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\nauthorization: {alice.headers['authorization']}\r\n\r\n"
    with socket.create_connection((url.host, url.port)) as leaving:
        leaving.sendall(head.encode() + body)
        assert until(creating)
        leaving.setblocking(False)
        with pytest.raises(BlockingIOError):
            leaving.recv(1)
    assert until(lambda: not creating(), within_s=60)
    assert "running" not in listed()
    assert create(alice, name="left"), "the name is free"


@pytest.mark.slow
def test_no_caller_has_more_sessions_than_may_run(served: Served, alice: httpx.Client) -> None:
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: alice.post("/v1/sessions", json={"agent": "writer"}), range(5)))
    statuses = sorted(each.status_code for each in answers)
    assert statuses.count(201) <= 3 and set(statuses) == {201, 429}
    refused = next(each for each in answers if each.status_code == 429)
    assert code(refused) == (429, "session.too_many") and refused.json()["error"]["retryable"] is True


def test_errors_say_who_failed_and_the_session_goes_on(alice: httpx.Client, module_session: str) -> None:
    base = f"/v1/sessions/{module_session}"
    proxy = alice.post(f"{base}/exec", json={"argv": ["true"], "env": {"HTTPS_PROXY": "x"}})
    assert code(proxy) == (422, "session.environment")
    assert proxy.json()["error"]["who"] == "caller"
    missing = alice.get(f"{base}/file", params={"path": "/workspace/none"})
    assert code(missing) == (404, "files.missing")
    folder = alice.get(f"{base}/file", params={"path": "/workspace"})
    assert code(folder) == (409, "files.kind")
    assert code(alice.get(f"{base}/file", params={"path": "/etc/shadow"})) == (403, "files.path")
    assert code(alice.get(f"{base}/commands/99/output")) == (404, "session.command_unknown")
    assert code(alice.post(f"{base}/ports", json={"port": 9090})) == (403, "ports.denied")
    assert code(alice.get(f"{base}/bundle")) == (409, "session.running")
    assert code(alice.post("/v1/sessions", json={"agent": "nobody"})) == (422, "policy.unknown_agent")
    gone = ok(alice.post(f"{base}/exec", json={"argv": ["/nothing"]}))
    assert gone["exit_code"] == 127
    with alice.stream(
        "POST", f"{base}/stream", json={"argv": ["true"], "env": {"HTTPS_PROXY": "x"}}
    ) as stream:
        ((name, document),) = events(stream.iter_lines())
    assert (name, document["error"]["code"]) == ("error", "session.environment")


@pytest.mark.slow
def test_folders_go_in_and_out_as_tar_archives(alice: httpx.Client, module_session: str) -> None:
    base, file = f"/v1/sessions/{module_session}", io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for name, data in (("src/a.txt", b"a"), ("src/run", b"#!/bin/sh\necho ran\n")):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755 if name.endswith("run") else 0o644
            made.addfile(info, io.BytesIO(data))
    moved = ok(alice.put(f"{base}/tree", params={"path": "/workspace/t"}, content=file.getvalue()))
    assert (moved["files"], moved["left_out"]) == (2, [])
    assert ok(alice.post(f"{base}/exec", json={"argv": ["/workspace/t/src/run"]}))["stdout"] == "ran\n"
    assert ok(alice.post(f"{base}/exec", json={"argv": ["ln", "-s", "/etc/passwd", "/workspace/t/out"]}))
    got = alice.get(f"{base}/tree", params={"path": "/workspace/t"})
    with tarfile.open(fileobj=io.BytesIO(got.content)) as found:
        members = {each.name: each.mode for each in found.getmembers() if each.isfile()}
        assert members == {"src/a.txt": 0o644, "src/run": 0o755}
        assert "out" not in found.getnames(), "a link that leads out of the folder"
    single = alice.get(f"{base}/tree", params={"path": "/workspace/t/src/a.txt"})
    with tarfile.open(fileobj=io.BytesIO(single.content)) as found:
        assert found.getnames() == ["a.txt"]
    listed = ok(alice.get(f"{base}/files", params={"path": "/workspace/t", "recursive": True}))["entries"]
    assert [each["path"] for each in listed] == ["out", "src", "src/a.txt", "src/run"]
    assert ok(alice.get(f"{base}/stat", params={"path": "/workspace/t/out"}))["target"] == "/etc/passwd"
    assert (
        code(alice.put(f"{base}/tree", params={"path": "/workspace/t"}, content=b"x" * 600))[1]
        == "session.archive"
    )
    assert ok(alice.delete(f"{base}/file", params={"path": "/workspace/t"}))["files"] == 3
    script = {"params": {"path": "/workspace/run", "executable": True}, "content": b"#!/bin/sh\necho wrote\n"}
    assert ok(alice.put(f"{base}/file", **script))["files"] == 1
    assert ok(alice.post(f"{base}/exec", json={"argv": ["/workspace/run"]}))["stdout"] == "wrote\n"
    assert ok(alice.delete(f"{base}/file", params={"path": "/workspace/run"}))["files"] == 1
    large = alice.put(f"{base}/file", params={"path": "/workspace/large"}, content=bytes((64 << 20) + 1))
    assert code(large) == (413, "session.too_large")
    assert ok(alice.get(f"{base}/files", params={"path": "/workspace"}))["entries"] == []


@pytest.mark.slow
def test_an_agent_s_server_is_reached_at_an_address_of_this_machine(
    alice: httpx.Client, module_session: str
) -> None:
    base = f"/v1/sessions/{module_session}"
    server = ["python3", "-m", "http.server", "8080", "--directory", "/usr/share"]
    number = ok(alice.post(f"{base}/commands", json={"argv": server}), 201)["number"]
    opened = ok(alice.post(f"{base}/ports", json={"port": 8080}), 201)
    assert opened["host"] == "127.0.0.1"
    url = f"http://127.0.0.1:{opened['address']}/"

    def answers() -> bool:
        try:
            return httpx.get(url, trust_env=False, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    assert until(answers)
    assert code(alice.post(f"{base}/ports", json={"port": 8080})) == (409, "ports.open")
    used = ok(alice.delete(f"{base}/ports/8080"))
    assert used["why"] == "asked" and used["bytes_out"] > 0 and used["connections"] > 0
    assert not answers()
    assert code(alice.delete(f"{base}/ports/8080")) == (409, "ports.open")
    assert alice.post(f"{base}/commands/{number}/signal", json={"signal": 9}).status_code == 204
    assert until(lambda: running(alice, module_session) == [])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stream", "exec"])
def test_a_caller_that_leaves_ends_its_command_and_no_other(
    served: Served, alice: httpx.Client, how: str
) -> None:
    session = create(alice)
    kept = ok(alice.post(f"/v1/sessions/{session}/commands", json={"argv": ["sleep", "600"]}), 201)["number"]
    body = {"argv": ["sh", "-c", "echo up; sleep 500"]}
    with served.client() as leaving:
        if how == "stream":
            with leaving.stream("POST", f"/v1/sessions/{session}/stream", json=body) as stream:
                assert next(events(stream.iter_lines()))[0] == "stdout"
                assert len(running(alice, session)) == 2
        else:
            with pytest.raises(httpx.ReadTimeout):
                leaving.post(f"/v1/sessions/{session}/exec", json=body, timeout=3)
    assert until(lambda: running(alice, session) == [["sleep", "600"]])
    assert alice.post(f"/v1/sessions/{session}/commands/{kept}/signal", json={"signal": 9}).status_code == 204


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_sessions_and_what_runs_in_them_outlive_the_server(
    served: Served, alice: httpx.Client, sent: int
) -> None:
    session = create(alice, name="outlives")
    script = "echo one; while [ ! -e go ]; do sleep 0.1; done; echo two; exit 4"
    number = ok(alice.post(f"/v1/sessions/{session}/commands", json={"argv": ["sh", "-c", script]}), 201)[
        "number"
    ]
    ok(alice.post(f"/v1/sessions/{session}/ports", json={"port": 8080}), 201)
    streamed = {"argv": ["sh", "-c", "echo up; sleep 500"]}
    with alice.stream("POST", f"/v1/sessions/{session}/stream", json=streamed) as stream:
        assert next(events(stream.iter_lines()))[0] == "stdout"
        served.restart(sent)
    assert until(lambda: running(alice, session) == [["sh", "-c", script]]), (
        "what its callers waited for ends"
    )
    found = ok(alice.get("/v1/sessions/outlives"))
    assert (found["session"], found["state"]) == (session, "running")
    ok(alice.put(f"/v1/sessions/{session}/file", params={"path": "/workspace/go"}, content=b""))
    at, out, piece = 0, b"", {}
    while not piece.get("ended"):
        place = f"/v1/sessions/{session}/commands/{number}/output"
        piece = ok(alice.get(place, params={"stdout_at": at, "wait": True}))
        at, out = piece["stdout_at"], out + base64.b64decode(piece["stdout_base64"])
    assert (out, piece["exit_code"], piece["incomplete"]) == (b"one\ntwo\n", 4, None)
    other = create(alice)
    ok(alice.post(f"/v1/sessions/{other}/commands", json={"argv": ["sh", "-c", "echo kept; sleep 500"]}), 201)
    shown = f"/v1/sessions/{other}/commands/1/output"
    assert until(lambda: ok(alice.get(shown))["stdout_base64"] != "")
    ok(alice.post(f"/v1/sessions/{other}/stop"))
    kept = ok(alice.get(shown))
    assert (base64.b64decode(kept["stdout_base64"]), kept["stdout_at"], kept["ended"]) == (b"kept\n", 5, True)
    assert (
        ok(alice.get(shown, params={"stdout_at": 2}))["stdout_base64"] == base64.b64encode(b"pt\n").decode()
    )
    assert code(alice.get(f"/v1/sessions/{other}/commands/2/output")) == (404, "session.no_output")
    assert until(
        lambda: alice.post(f"/v1/sessions/{session}/ports", json={"port": 8080}).status_code == 201
    ), "the port was closed with the server"
    with served.client("bob") as bob:
        assert code(bob.get(f"/v1/sessions/{session}")) == (404, "session.not_here")


@pytest.mark.slow
def test_one_token_in_a_private_file_lets_its_holder_in(served: Served, tmp_path: Path) -> None:
    machine, file = served.machine, tmp_path / "token"
    options = ("--profile", str(machine.folder / "profiles.yaml"), "--min-isolation", machine.isolation)
    process, url = started(machine, (*options, "--listen", "127.0.0.1:0", "--token-file", str(file)))
    try:
        assert file.stat().st_mode & 0o777 == 0o600
        headers = {"authorization": f"Bearer {file.read_text().strip()}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
            assert ok(client.get("/v1/sessions"))["sessions"] == [], "those of others are not its own"
        assert httpx.get(f"{url}/v1/sessions", trust_env=False).status_code == 401
    finally:
        process.terminate()
        assert process.wait(20) == 0
    os.chmod(file, 0o644)
    open_to_all = serve_refused(machine, "--token-file", str(file))
    assert "[store.permissions]" in open_to_all
    assert "tokens would cross the network in clear" in serve_refused(
        machine, "--token-file", str(tmp_path / "new"), "--listen", "0.0.0.0:0"
    )
    assert "[session.server]" in serve_refused(
        machine, "--oidc-issuer", "http://id.example", "--oidc-audience", "a", "--oidc-subject", "b"
    )
    assert "[session.server]" in serve_refused(machine, "--oidc-issuer", "https://id.example")


@pytest.mark.slow
def test_with_a_certificate_it_is_served_over_tls_alone(served: Served, tmp_path: Path) -> None:
    machine, key = served.machine, ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    options = ("--profile", str(machine.folder / "profiles.yaml"), "--token-file", str(tmp_path / "token"))
    tls = ("--listen", "0.0.0.0:0", "--tls-cert", str(cert), "--tls-key", str(secret))
    process, url = started(machine, (*options, *tls))
    try:
        port = url.rpartition(":")[2]
        context = ssl.create_default_context(cafile=str(cert))
        headers = {"authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
        with httpx.Client(verify=context, headers=headers, trust_env=False) as client:
            assert ok(client.get(f"https://127.0.0.1:{port}/v1/sessions"))["sessions"] == []
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{port}/openapi.json", trust_env=False, timeout=15)
    finally:
        process.terminate()
        assert process.wait(20) == 0
    assert "[session.server]" in serve_refused(machine, *options[2:], "--tls-cert", str(cert))


def serve_refused(machine, *options: str) -> str:
    done = affiant(
        "session",
        "serve",
        "--home",
        str(machine.home),
        "--profile",
        str(machine.folder / "profiles.yaml"),
        *options,
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.decode()


@pytest.mark.slow
def test_a_client_in_typescript_is_generated_compiled_and_used(served: Served, tmp_path: Path) -> None:
    tool = NODE_MODULES / "openapi-typescript" / "bin" / "cli.js"
    if not tool.is_file() or shutil.which("node") is None:
        pytest.skip("no TypeScript here: make test-tools says where from")
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    document = httpx.get(f"{served.url}/openapi.json", trust_env=False).json()
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    shutil.copy(ROOT / "examples" / "session_http.ts", tmp_path / "main.ts")

    def node(*command: str) -> str:
        done = subprocess.run(
            ["node", *command], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    node(str(tool), "openapi.json", "-o", "affiant-sessions.d.ts")
    options = ("--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext")
    node(str(NODE_MODULES / "typescript" / "bin" / "tsc"), *options, "--types", "node", "main.ts")
    lines = node("main.js", served.url, served.issuer.token("alice"), "writer").splitlines()
    assert lines[:4] == [
        "moved 19",
        "exit 3 19",
        "out IN FROM TYPESCRIPT",
        "rejected session.environment false",
    ]
    assert lines[4].startswith("stopped true sha256:")
