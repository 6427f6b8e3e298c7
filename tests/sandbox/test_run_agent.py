"""What an agent finds and can do in a session: inference, its prepared environment, placeholders, and no way out."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.sandbox.conftest import affiant
from tests.sandbox.runtimes.wheels import make_wheel
from tests.sandbox.test_decision_log import PROFILE, REACH, told

from affiant.__main__ import cli
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import KeyKind
from affiant.secrets.store.local_store_file import LocalStoreFile, passphrase_in

ASK = """
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hello from inside"}]}).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
answer = urllib.request.urlopen(request, timeout=20)
print(json.load(answer)["choices"][0]["message"]["content"])
"""

ESCAPE = """
import os, socket, urllib.request
def attempt(what):
    try:
        what()
    except OSError as error:
        return "no"
    return "YES"
print(attempt(lambda: socket.create_connection(("1.1.1.1", 443), 2)))
print(attempt(lambda: urllib.request.urlopen("http://example.com/", timeout=5)))
print(attempt(lambda: socket.getaddrinfo("example.com", 443)))
print(attempt(lambda: open("/etc/shadow").read()))
print(attempt(lambda: open("/workspace/../root/.bashrc").read()))
print("YES" if "GITHUB_TOKEN" in os.environ else "no")
"""


def test_an_agent_asks_a_model_and_every_request_has_its_receipt(warm, tmp_path):
    bundle = tmp_path / "b.json"
    done = warm.run("python3", "-c", ASK, options=("--bundle", str(bundle)))
    assert done.returncode == 0, done.stderr
    assert b"hello from inside" in done.stdout
    assert "1 inference" in warm.verdict(bundle)


@pytest.mark.slow
def test_an_agent_without_egress_reaches_nothing_and_gets_no_placeholder_for_nothing(warm, tmp_path):
    done = warm.run("python3", "-c", ESCAPE, options=("--bundle", str(tmp_path / "b.json")))
    assert done.stdout.split() == [b"no"] * 6, done.stderr
    assert "refusal" in warm.verdict(tmp_path / "b.json")


@pytest.mark.slow
def test_a_prepared_environment_is_shown_read_only_from_a_closed_folder(warm):
    runtime = warm.folder / "runtime"
    (runtime / "bin").mkdir(parents=True, exist_ok=True)
    (runtime / "bin" / "prepared").write_text(
        "#!/bin/sh\ntouch /opt/runtime/x 2>/dev/null || echo read-only\n"
    )
    (runtime / "bin" / "prepared").chmod(0o755)
    done = warm.run("prepared", options=("--runtime", str(runtime)))
    assert (done.returncode, done.stdout) == (0, b"read-only\n"), done.stderr


@pytest.mark.slow
def test_a_built_environment_is_what_python_and_node_find_inside(warm, tmp_path):
    make_wheel(tmp_path / "wheels", "alpha", program="alpha-tool")
    (tmp_path / "requirements.txt").write_text("alpha\n")
    options = ("-r", str(tmp_path / "requirements.txt"), "-o", str(warm.folder / "built"))
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    made = CliRunner().invoke(cli, ["runtime", "build", *options], env=pip)
    assert made.exit_code == 0, made.output
    code = "python3 -c 'import alpha; print(alpha.__file__)'; alpha-tool"
    done = warm.run("sh", "-c", code, options=("--runtime", str(warm.folder / "built")))
    place = b"/opt/runtime/lib/python%d.%d/site-packages/alpha/__init__.py"
    version = tuple(
        int(part) for part in next((warm.folder / "built").glob("lib/python*")).name[6:].split(".")
    )
    assert done.stdout == place % version + b"\n7\n", done.stderr


@pytest.mark.slow
def test_an_agent_works_on_a_commit_and_neither_sees_nor_changes_the_repository(warm, tmp_path):
    repository = tmp_path / "repo"
    repository.mkdir()
    (repository / "notes.txt").write_text("committed\n")
    about = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(repository))
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        subprocess.run(["git", *about, *arguments], check=True, timeout=60)
    (repository / "notes.txt").write_text("not committed\n")
    options = ("--input", f"{repository}@main", "--output", str(tmp_path / "out"))
    done = warm.run("sh", "-c", "ls -A; cat notes.txt; echo mine > new.txt", options=options)
    assert (done.returncode, done.stdout) == (0, b"notes.txt\ncommitted\n"), done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["new.txt"]
    assert sorted(path.name for path in repository.iterdir()) == [".git", "notes.txt"]
    done = warm.run("true", options=("--input", f"{repository}@absent"))
    assert (done.returncode, b"[session.input_commit]" in done.stderr) == (125, True)


@pytest.mark.slow
def test_packages_of_node_are_found_by_import_and_require_from_the_workspace(warm):
    if not Path("/usr/bin/node").exists():
        pytest.skip("the sandbox's /usr has no node")
    package = warm.folder / "packages" / "lib" / "node_modules" / "x"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "x", "main": "x.js"}')
    (package / "x.js").write_text("module.exports = 7\n")
    code = "echo \"import x from 'x'; console.log(x)\" > a.mjs; node a.mjs; node -e \"console.log(require('x'))\""
    done = warm.run("sh", "-c", code, options=("--runtime", str(warm.folder / "packages")))
    assert done.stdout == b"7\n7\n", done.stderr


@pytest.mark.slow
def test_a_read_only_input_cannot_be_changed_by_the_agent(warm):
    done = warm.run(
        *("sh", "-c", "pwd; cat file.txt; touch file.txt new || echo refused"),
        agent="reader",
        options=("--input", str(warm.folder / "in")),
    )
    assert done.stdout == b"/var/log\ncontent\nrefused\n"


@pytest.mark.slow
def test_a_held_secret_is_a_placeholder_inside_and_its_value_is_nowhere(warm, tmp_path):
    value = "ghp_" + os.urandom(18).hex()
    kept = affiant("secret", "set", "GITHUB_TOKEN", home=warm.home, stdin=value.encode())
    assert kept.returncode == 0, kept.stderr
    try:
        out = ("--bundle", str(tmp_path / "b.json"), "--json", str(tmp_path / "summary.json"))
        done = warm.run("sh", "-c", "echo $GITHUB_TOKEN; env", options=out)
    finally:
        (warm.home / "secrets").rename(warm.home / "elsewhere")
        (warm.home / "secrets").mkdir(mode=0o700)
    assert done.stdout.startswith(b"affiant-ph-"), done.stdout + done.stderr
    assert value.encode() not in done.stdout + done.stderr
    locked = json.loads((tmp_path / "summary.json").read_bytes())["memory_locked"]
    assert locked is (b"memory is not locked" not in done.stderr)
    options = ("--secret-store", str(warm.home / "elsewhere"))
    assert warm.run("sh", "-c", "echo $GITHUB_TOKEN", options=options).stdout.startswith(b"affiant-ph-")
    assert warm.run("sh", "-c", 'echo "[$GITHUB_TOKEN]"').stdout == b"[]\n"
    for path in [tmp_path / "b.json", *Path(warm.home).glob("sessions/*/*")]:
        assert not path.is_file() or value.encode() not in path.read_bytes(), path


PAUSED = """
import sys
print(sys.argv[1], flush=True)
sys.stdin.readline()
print(sys.argv[2])
"""


@pytest.mark.slow
def test_a_line_that_begins_an_encoding_of_a_secret_is_shown_in_a_pause_and_its_rest_is_not(warm, tmp_path):
    """Without the first, a question is not seen that the user is to answer: the agent writes no more before that."""
    value = b"ghp_" + os.urandom(25).hex().encode()
    LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom).set("GITHUB_TOKEN", SecretValue(value))
    lines = base64.encodebytes(b"\0" * 54 + value).decode().splitlines()
    options = ("--secret-store", str(tmp_path / "secrets"), "--timeout", "30")
    paused = ("python3", "-c", PAUSED, lines[0][-4:], lines[1])
    process = warm.start(*paused, options=options, stdin=subprocess.PIPE)
    shown = process.stdout.readline()
    rest, errors = process.communicate(b"go on\n", timeout=60)
    assert shown == lines[0][-4:].encode() + b"\n", errors
    assert rest.startswith(b"affiant-ph-") and len(rest.split()) == 1
    assert lines[1].encode()[:8] not in rest


@pytest.mark.slow
def test_a_store_with_a_passphrase_gives_its_secrets_to_who_has_it(warm, tmp_path):
    folder, file = tmp_path / "secrets", tmp_path / "passphrase"
    store = LocalStoreFile(folder, random_bytes=os.urandom, ask_passphrase=lambda _new: passphrase_in(file))
    file.write_bytes(b"correct horse battery\n")
    file.chmod(0o600)
    store.set("GITHUB_TOKEN", SecretValue(b"ghp_9sX2kQ7vLm4TzR1bYwE6"), kind=KeyKind.PASSPHRASE)
    options = ("--secret-store", str(folder))
    given = (*options, "--secret-passphrase-file", str(file))
    assert warm.run("sh", "-c", "echo $GITHUB_TOKEN", options=given).stdout.startswith(b"affiant-ph-")
    without = subprocess.run(
        warm.argv("true", options=options), capture_output=True, stdin=subprocess.DEVNULL,
        start_new_session=True, timeout=60, check=False,
    )  # fmt: skip
    assert without.returncode == 125, without.stderr
    assert b"[store.key]" in without.stderr


@pytest.mark.slow
def test_the_decisions_of_a_session_are_in_the_file_and_replay_as_they_were(warm, tmp_path):
    log, profile = tmp_path / "decisions.jsonl", tmp_path / "profiles.yaml"
    profile.write_text(PROFILE)
    options = ("--decisions", str(log), "--profile", str(profile))  # the last one counts
    done = warm.run("python3", "-c", REACH, options=options)
    assert done.returncode == 0, done.stderr
    assert told(log) == [
        ("write:/workspace", "allow", "allowed"),
        ("GET http://api.example.test/v1/a", "deny", "port_not_listed"),
        ("GET http://other.example.test/", "deny", "host_not_listed"),
    ]
    assert b"hunter2" not in log.read_bytes()
    assert log.stat().st_mode & 0o777 == 0o600
    simulated = CliRunner().invoke(cli, ["policy", "simulate", "--log", str(log), str(profile)])
    assert simulated.output == "3 decisions, 0 change: 0 wider, 0 narrower\n"
    first = json.loads(log.read_bytes().splitlines()[0])
    assert first["agent"] == "writer"
    assert first["rules"] == ["filesystem/0"]
