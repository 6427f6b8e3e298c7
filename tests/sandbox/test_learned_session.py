"""From a real session to a profile for it: recorded, replayed, learned, and run again with the same decisions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.__main__ import cli
from affiant.policy.decision_log.reader import agents_of, read_decision_log
from affiant.policy.loading.policy_file import read_profiles

PROFILE = """agent_configs:
  writer:
    tools: [read_file, write_file, run_tests]
    filesystem_access: "read-write:/workspace"
    network_egress:
      - {host: "*.example.test", port: 9, scheme: http, methods: [GET, POST], paths: [/v1/**]}
      - {host: unused.example.test}
    models: [m, unused]
"""
AGENT = """
import json, os, urllib.request
def tried(url, **more):
    try:
        return json.load(urllib.request.urlopen(urllib.request.Request(url, **more), timeout=20))
    except OSError as error:
        return str(getattr(error, "code", error))
def ask(model):
    tools = [{"type": "function", "function": {"name": name}} for name in ("read_file", "rm_rf")]
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    headers = {"Content-Type": "application/json"}
    return tried(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=json.dumps(body).encode(), headers=headers)
print(ask("m")["choices"][0]["message"]["tool_calls"][0]["function"]["name"])
print(ask("other"))
print(tried("http://api.example.test:9/v1/a?secret=hunter2"))
print(tried("http://api.example.test:9/v2"))
"""


class Upstream(BaseHTTPRequestHandler):
    """A model that calls a tool."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        called = {
            "id": "c",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"p": "hunter2"}'},
        }
        message = {"role": "assistant", "tool_calls": [called]}
        body = json.dumps(
            {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
        ).encode()
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


@contextmanager
def served(*command: str) -> Iterator[None]:
    """A service of the state folder, from its first line on standard error or file to the end of the block."""
    argv = [sys.executable, "-m", "affiant", *command, "--ready-fd", "3"]
    shell = ["bash", "-c", 'exec 3>&1 1>&2; exec "$@"', "bash", *argv]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/") as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            yield
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(20)


def policy(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["policy", *arguments])


def decisions(log: Path, *profiles: Path) -> list[tuple[str, str, str]]:
    """What was decided; not what was only offered to a model, which a learned profile need not allow."""
    agents = agents_of(*map(read_profiles, profiles))
    lines = log.read_bytes().splitlines(keepends=True)
    return [
        (each.agent, each.request, each.effect.value)
        for each in read_decision_log(lines, agents=agents)
        if not each.offered
    ]


@pytest.mark.slow
def test_a_session_is_recorded_replayed_learned_and_run_again_with_the_same_decisions(machine, tmp_path):
    profile, proposal = machine.folder / "profiles.yaml", tmp_path / "proposal.yaml"
    before = tmp_path / "before.yaml"
    for path in (profile, before):
        path.write_text(PROFILE)
    logs = [(tmp_path / f"run{n}.jsonl", tmp_path / f"gateway{n}.jsonl") for n in range(2)]
    home = str(machine.home)
    with upstream() as url, served("platform", "serve", "--home", home):
        for sessions, models in logs:
            with served("gateway", "serve", "--home", home, "--upstream", url, "--decisions", str(models)):
                options = (
                    "--upstream",
                    url,
                    "--decisions",
                    str(sessions),
                    "--host",
                    "api.example.test=127.0.0.1",
                )
                done = machine.run("python3", "-c", AGENT, options=options)
                assert done.stdout.split()[:2] == [b"read_file", b"403"], done.stdout + done.stderr
            if not proposal.exists():
                named = ("--log", str(sessions), "--from", str(before))
                learned = policy("learn", *named, "-o", str(proposal))
                assert learned.exit_code == 0, learned.output
                profile.write_bytes(proposal.read_bytes())
    (sessions, models), (sessions_again, models_again) = logs
    assert decisions(sessions, before) == decisions(sessions_again, proposal)
    found = decisions(sessions, before)
    assert [each for each in found if each[1].partition(":")[0] not in ("model", "tool")] == [
        ("writer", "write:/workspace", "allow"),
        ("writer", "GET http://api.example.test:9/v1/a", "allow"),
        ("writer", "GET http://api.example.test:9/v2", "deny"),
    ]
    assert decisions(models, before) == decisions(models_again, proposal)
    assert [request.partition("#")[0] for _, request, _ in decisions(models, before)] == [
        "model:m",
        "tool:read_file@?",
        "model:other",
    ]
    of_gateway = [each for each in found if each[1].partition(":")[0] in ("model", "tool")]
    assert of_gateway == decisions(models, before), (
        "the session's file holds what the gateway decided about it"
    )
    assert b"hunter2" not in b"".join(log.read_bytes() for pair in logs for log in pair)

    (made,) = read_profiles(proposal).profiles.values()
    assert [rule.name for rule in made.policy.tools] == ["read_file"]
    assert [(rule.host, rule.methods, rule.paths) for rule in made.policy.egress] == [
        ("api.example.test", ("GET",), ("/v1/a",))
    ]
    assert [rule.name for rule in made.policy.models or ()] == ["m"]
    assert policy("diff", str(before), str(proposal), "--fail-on", "widen").exit_code == 0

    narrower, wider = tmp_path / "narrower.yaml", tmp_path / "wider.yaml"
    narrower.write_text(PROFILE.replace("[GET, POST]", "[POST]").replace("[read_file, ", "["))
    wider.write_text(PROFILE.replace("/v1/**", "/**").replace("[m, ", "[m, other, "))
    for log in (sessions, models):
        same = policy("simulate", "--log", str(log), str(before), "--old", str(before), "--fail-on", "any")
        assert same.exit_code == 0, same.output
        for new, words in ((narrower, "0 wider, "), (wider, " wider, 0 narrower")):
            found = policy("simulate", "--log", str(log), str(new), "--old", str(before), "--fail-on", "any")
            assert (found.exit_code, words in found.output.splitlines()[-1]) == (1, True), found.output


@pytest.mark.slow
def test_what_a_run_used_is_learned_from_its_own_decisions_alone(machine, tmp_path):
    """No gateway of its own was started: models, tools and hosts are all in the file of ``affiant run``."""
    profile, proposal, log = (
        machine.folder / "profiles.yaml",
        tmp_path / "proposal.yaml",
        tmp_path / "run.jsonl",
    )
    profile.write_text(PROFILE)
    with upstream() as url:
        options = ("--upstream", url, "--decisions", str(log), "--host", "api.example.test=127.0.0.1")
        done = machine.run("python3", "-c", AGENT, options=options)
    assert done.stdout.split()[:2] == [b"read_file", b"403"], done.stdout + done.stderr
    assert b"affiant: removed from 1 request: tool rm_rf (tool_not_listed)\n" in done.stderr
    assert b"affiant: denied 1 time: model other (model_not_listed)\n" in done.stderr
    assert b"affiant: denied 1 time: host api.example.test:9 (target_not_listed)\n" in done.stderr
    learned = policy("learn", "--log", str(log), "--from", str(profile), "-o", str(proposal))
    assert learned.exit_code == 0, learned.output
    (made,) = read_profiles(proposal).profiles.values()
    assert [rule.name for rule in made.policy.tools] == ["read_file"]
    assert [rule.name for rule in made.policy.models or ()] == ["m"]
    assert [rule.host for rule in made.policy.egress] == ["api.example.test"]
    assert b"hunter2" not in log.read_bytes()
    assert {json.loads(line)["agent"] for line in log.read_bytes().splitlines()} == {"writer"}
