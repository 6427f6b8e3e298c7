"""Which gateway a session uses: its own, one that is pinned, or none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

ASK = """
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "m", "messages": [{"role": "user", "content": "ping"}]}).encode(),
    {"Content-Type": "application/json"},
)
print(json.load(urllib.request.urlopen(request, timeout=20))["choices"][0]["message"]["content"])
"""


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
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
def upstream() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
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
def test_an_upstream_that_is_down_is_the_agents_error_not_ours(machine):
    done = machine.run("python3", "-c", ASK, options=("--upstream", "http://127.0.0.1:9/v1"))
    assert done.returncode == 1
    assert b"HTTPError" in done.stderr or b"HTTP Error" in done.stderr
