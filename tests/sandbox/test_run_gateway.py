"""Which gateway a session uses: its own, one that is pinned, or none."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.gateway.upstream.test_http1 import certificate
from tests.sandbox.conftest import affiant

ASK = """
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "m", "messages": [{"role": "user", "content": "ping"}]}).encode(),
    {"Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request, timeout=20))["choices"][0]["message"]["content"])
"""
KEYED, KEY = "/keyed", "sk-Vq7xT2mZ9pLr4KwB8nHc3JdYf6Gs"


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if KEYED in self.path and self.headers["Authorization"] != f"Bearer {KEY}":
            self.send_error(401)
            return
        message = {"role": "assistant", "content": "pong from upstream"}
        body = json.dumps(
            {
                "id": "x", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        ).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the test's standard error."""


@contextmanager
def upstream(chain: Path | None = None) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Upstream)
    if chain is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        host = "http://127.0.0.1" if chain is None else "https://localhost"
        yield f"{host}:{server.server_port}{KEYED if chain else ''}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def running_gateway(machine) -> dict[str, str]:
    return json.loads((machine.home / "gateway" / "gateway.json").read_bytes())


@pytest.mark.slow
def test_a_pinned_gateway_is_used(warm, tmp_path):
    gateway = running_gateway(warm)
    done = warm.run(
        "true",
        options=(
            "--gateway",
            gateway["url"],
            "--gateway-config",
            gateway["config"],
            "--bundle",
            str(tmp_path / "b"),
        ),
    )
    assert done.returncode == 0, done.stderr
    assert "1 closed" in warm.verdict(tmp_path / "b")


def test_a_gateway_with_another_configuration_than_pinned_is_refused(warm):
    gateway = running_gateway(warm)
    done = warm.run("true", options=("--gateway", gateway["url"], "--gateway-config", "sha256:" + "0" * 64))
    assert done.returncode == 125
    assert b"[session.gateway_mismatch]" in done.stderr
    assert gateway["config"].encode() in done.stderr


@pytest.mark.slow
def test_the_trust_file_pins_a_gateway_too(warm):
    gateway = running_gateway(warm)
    options = ("--gateway", gateway["url"])
    assert b"[session.gateway_pin]" in warm.run("true", options=options).stderr
    warm.write_trust(warm.home / "trust.json")
    try:
        assert warm.run("true", options=options).returncode == 0
        (warm.home / "trust.json").write_text("{}")
        assert b"[trust.malformed]" in warm.run("true", options=options).stderr
    finally:
        (warm.home / "trust.json").unlink()


def test_a_running_gateway_with_other_upstreams_is_not_taken_for_ours(warm):
    done = warm.run("true", options=("--upstream", "http://127.0.0.1:9/v1"))
    assert done.returncode == 125
    assert b"[services.other_configuration]" in done.stderr
    assert b"http://127.0.0.1:9/v1" in done.stderr
    assert b"--gateway-config sha256:" in done.stderr  # how to use the one that serves


@pytest.mark.slow
def test_an_upstream_of_the_users_own_answers_and_its_configuration_stands_in_the_manifest(machine):
    with upstream() as url:
        done = machine.run("python3", "-c", ASK, options=("--upstream", url))
    assert (done.returncode, done.stdout) == (0, b"pong from upstream\n"), done.stderr
    machine.verdict(
        machine.bundle(), code=20
    )  # this configuration is not in the simulated platform's trust file


@pytest.mark.slow
def test_an_upstream_gets_its_key_from_the_secret_store_over_tls_that_one_certificate_vouches_for(
    machine, tmp_path
):
    chain, _ = certificate(tmp_path, "localhost")
    assert affiant("secret", "set", "LLM_KEY", home=machine.home, stdin=KEY.encode()).returncode == 0
    with upstream(chain) as url:
        options = ("--upstream", url, "--upstream-key-ref", "local:LLM_KEY", "--upstream-ca", str(chain))
        done = machine.run("python3", "-c", ASK, options=options)
        assert (done.returncode, done.stdout) == (0, b"pong from upstream\n"), done.stderr
        assert KEY.encode() not in done.stdout + done.stderr + machine.bundle().read_bytes()
        untrusted = machine.run("python3", "-c", ASK, options=options[:4])
        assert untrusted.returncode == 1, "a certificate that no system authority signed"


def test_prompts_do_not_leave_over_plain_http_unless_the_user_says_so(warm):
    options = ("--upstream", "http://model.example")
    done = warm.run("true", options=options)
    assert done.returncode == 125
    assert b"[session.upstream]" in done.stderr
    assert b"--upstream-plain-http" in done.stderr
    assert b"below /v1" in done.stderr
    allowed = warm.run("true", options=(*options, "--upstream-plain-http"))
    assert b"[services.other_configuration]" in allowed.stderr, "it got as far as the running gateway"


@pytest.mark.slow
def test_an_upstream_that_is_down_is_the_agents_error_not_ours(machine):
    done = machine.run("python3", "-c", ASK, options=("--upstream", "http://127.0.0.1:9/v1"))
    assert done.returncode == 1
    assert b"HTTPError" in done.stderr or b"HTTP Error" in done.stderr
