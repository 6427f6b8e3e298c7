"""``affiant run`` from outside: streams, exit codes, files, receipts, refusals, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest
from click.testing import CliRunner

from affiant.__main__ import cli
from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import parse_receipt
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.backends.gvisor import dated_release, runsc_program, runsc_release
from affiant.sandbox.isolation.plan.isolation_class import BackendName


def test_a_session_from_profile_to_verified_bundle(machine, tmp_path):
    done = machine.run(
        *("sh", "-c", "cat file.txt - && echo later >new.txt && echo loud >&2 && exit 7"),
        options=(
            *("--input", str(machine.folder / "in"), "--output", str(tmp_path / "out")),
            *("--bundle", str(tmp_path / "run.affiant.json"), "--json", str(tmp_path / "summary.json")),
        ),
        stdin=b"typed\n",
    )
    assert (done.returncode, done.stdout) == (7, b"content\ntyped\n")
    lines = done.stderr.decode().splitlines()
    assert [line for line in lines if not line.startswith("affiant: ")] == ["loud"]
    assert lines[-1] == f"affiant: receipts in {tmp_path / 'run.affiant.json'}"
    assert (tmp_path / "out" / "new.txt").read_text() == "later\n"
    assert not (tmp_path / "out" / "file.txt").exists(), "only what changed is copied out"
    assert not (machine.folder / "in" / "new.txt").exists(), "the input itself is never touched"
    facts = json.loads((tmp_path / "summary.json").read_bytes())
    assert (facts["exit_code"], facts["simulated"], facts["changes"]["added"]) == (7, True, ["new.txt"])
    assert (tmp_path / "run.affiant.json").stat().st_mode & 0o777 == 0o600
    verdict = machine.verdict(tmp_path / "run.affiant.json")
    assert "1 started, 1 closed, 0 lost, 0 open" in verdict
    assert "verified" not in verdict.lower().split("\n\n")[-1]
    assert machine.quiet_within(5), machine.processes()
    session = machine.home / "sessions" / facts["session"]
    assert not (session / "files").exists(), "the agent's copies go with the session"
    assert not list(machine.home.glob("launches/*"))


FLOOD = """
import os, socket, threading
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["HTTP_PROXY"])
def flood():
    while True:
        with socket.create_connection((proxy.hostname, proxy.port)) as connection:
            connection.sendall(b"GET http://a.test/ HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
            connection.recv(1000)
for _ in range(60):
    threading.Thread(target=flood).start()
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_flood_of_denied_requests_ends_in_a_bundle_that_verifies(machine, tmp_path):
    options = ("--bundle", str(tmp_path / "b.json"))
    done = machine.run("python3", "-c", FLOOD, options=options, timeout=300)
    assert done.returncode == 125
    assert b"[session.budget]" in done.stderr
    assert (tmp_path / "b.json").stat().st_size < 64 << 20
    assert "1 started, 1 closed, 0 lost, 0 open" in machine.verdict(tmp_path / "b.json")


def _kind_of(sdjwt: str) -> str:
    return json.loads(from_b64u(sdjwt.split(".")[1]))["kind"]


@pytest.mark.slow
def test_the_bundle_holds_what_receipts_hide_for_its_owner(warm, tmp_path):
    label = ("--task", "workflow=release", "--task", "attempt=2")
    assert warm.run("true", options=("--bundle", str(tmp_path / "b.json"), *label)).returncode == 0
    bundle = parse_bundle((tmp_path / "b.json").read_bytes())
    kinds = Counter(_kind_of(text) for text in bundle.receipts)
    assert kinds.pop("epoch", 0) <= 1, "what the session is not before"
    assert kinds == {"boot": 2, "session-start": 1, "exec": 2, "end": 1, "session-close": 1}
    assert sum(bool(parse_receipt(text).disclosures) for text in bundle.receipts) >= 4
    shown = {
        tuple(json.loads(from_b64u(each))[1:])
        for text in bundle.receipts
        if _kind_of(text) == "session-start"
        for each in text.split("~")[1:-1]
    }
    assert {("workflow", "release"), ("attempt", 2)} <= shown
    program = runsc_program()
    if probe()[BackendName.GVISOR].usable and program is not None:
        (start,) = (text for text in bundle.receipts if _kind_of(text) == "session-start")
        named = json.loads(from_b64u(start.split(".")[1])).get("rel")
        assert named == dated_release(runsc_release(program))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [(("sh", "-c", "kill -TERM $$"), 143), (("no-such-command",), 127), (("/etc/passwd",), 126)],
)
def test_the_exit_code_is_the_commands_own(warm, tmp_path, command, code):
    done = warm.run(*command, options=("--bundle", str(tmp_path / "b.json")))
    assert done.returncode == code, done.stderr
    warm.verdict(tmp_path / "b.json")


BAD = [
    (("--agent", "wrtier"), 125, "policy.unknown_agent", "Did you mean"),
    (("--profile", "BROKEN"), 125, "policy.", "broken.yaml:3:"),
    (("--input", "/nowhere"), 125, "session.input", "/nowhere"),
    (("--input", "IN:/etc"), 125, "isolation.plan", "/etc"),
    (("--agent", "thinker", "--input", "IN"), 125, "session.input", "List a path"),
    (("--agent", "reader", "--output", "OUT"), 125, "session.input", "read-write"),
    (("--bundle", "/nowhere/b.json"), 125, "session.output_path", "/nowhere"),
    (("--json", "/nowhere/s.json"), 125, "session.output_path", "/nowhere"),
    (("--output", "/proc/nowhere"), 125, "session.input", "/proc/nowhere"),
    (("--input", "FOLDER"), 125, "session.input_private", "--home"),
    (("--input", "HOME/secrets"), 125, "session.input_private", "--home"),
    (("--output", "HOME/out"), 125, "session.input_private", "--home"),
    (("--runtime", "FOLDER"), 125, "session.input_private", "--home"),
    (("--input", "IN", "--secret-store", "IN"), 125, "session.input_private", "secret store"),
    (("--gateway", "https://127.0.0.1:1"), 125, "session.gateway_pin", "--gateway-config"),
    (
        ("--gateway", "http://127.0.0.1:1", "--gateway-config", "sha256:" + "0" * 64),
        125,
        "session.gateway_address",
        "https",
    ),
    (
        ("--gateway", "https://127.0.0.1:1", "--gateway-config", "sha256:" + "0" * 64),
        125,
        "gateway.unreachable",
        "127.0.0.1:1",
    ),
    (("--extra-ca", "IN/file.txt"), 125, "session.extra_ca", "PEM"),
    (("--host", "db"), 2, "", "NAME=ADDRESS"),
    (("--host", "db=nowhere"), 125, "session.host", "nowhere"),
    (("--env", "HTTP_PROXY=http://elsewhere"), 125, "session.environment", "HTTP_PROXY"),
    (("--min-isolation", "none"), 2, "", "namespace"),
    (("--nonsense",), 2, "", "--nonsense"),
]


@pytest.mark.parametrize(("options", "exit_code", "code", "text"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_is_one_clear_line_with_a_code(warm, options, exit_code, code, text):
    (warm.folder / "broken.yaml").write_text("agent_configs:\n  writer:\n    tols: []\n")
    places = {"BROKEN": "broken.yaml", "IN": "in", "OUT": "out", "HOME": "home", "FOLDER": "."}
    given = []
    for option in options:
        name = next((name for name in places if option.startswith(name)), None)
        given.append(option if name is None else f"{warm.folder / places[name]}{option.removeprefix(name)}")
    done = CliRunner().invoke(cli, warm.argv("true", options=given)[3:])
    error = done.stderr
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == exit_code, error
    assert code in error
    assert text in error
    assert done.stdout == ""
    if exit_code == 125:
        assert error.startswith("affiant: refused: ")
        shown = ["  3 |     tols: []", "    |     ^"] if "BROKEN" in options else []
        assert error.splitlines()[1:] == shown
    assert warm.quiet_within(5), warm.processes()


@pytest.mark.slow
def test_closed_standard_streams_do_no_harm(warm, tmp_path):
    options = ("--json", str(tmp_path / "s.json"))
    argv = [
        "sh",
        "-c",
        'exec "$@" <&- >&- 2>&-',
        "sh",
        *warm.argv("sh", "-c", "echo x; exit 6", options=options),
    ]
    assert subprocess.run(argv, check=False, timeout=60, cwd="/").returncode == 6


@pytest.mark.slow
def test_a_hostile_tree_can_neither_break_the_clean_up_nor_escape_it(warm, tmp_path):
    """Folders nested deeper than Python recurses, a link out of the tree, and an output that is refused."""
    deep = "import os\nos.symlink('/etc', 'out')\nfor _ in range(1500):\n os.mkdir('d'); os.chdir('d')\n"
    done = warm.run("python3", "-c", deep, options=("--output", str(tmp_path / "out")))
    assert done.returncode == 125, done.stderr
    assert b"[workspace.too_large]" in done.stderr
    (kept,) = (path for path in warm.home.glob("sessions/*/files.kept") if str(path).encode() in done.stderr)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    subprocess.run(["rm", "-rf", str(kept)], check=True)
    done = warm.run("python3", "-c", f"{deep}import signal\nsignal.pause()")
    assert done.returncode == 137, done.stderr  # nested too deep to be counted is over the bound of its files
    assert not list(warm.home.glob("sessions/*/files"))


def test_no_command_is_a_usage_error(warm):
    assert CliRunner().invoke(cli, warm.argv()[3:]).exit_code == 2


def test_a_session_that_is_refused_says_so_in_its_summary(warm, tmp_path):
    done = warm.run("true", agent="nobody", options=("--json", str(tmp_path / "summary.json")))
    facts = json.loads((tmp_path / "summary.json").read_bytes())
    assert (done.returncode, facts["exit_code"], facts["refused"]["code"]) == (
        125,
        125,
        "policy.unknown_agent",
    )


@pytest.mark.slow
def test_large_output_arrives_whole_and_unchanged(warm):
    done = warm.run("python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 20000)")
    assert done.returncode == 0
    assert done.stdout == bytes(range(256)) * 20000


@pytest.mark.slow
def test_two_sessions_at_once_share_the_services_which_outlive_the_first_launcher(machine):
    first = machine.start("sh", "-c", "echo started; touch mine; read line", stdin=subprocess.PIPE)
    assert first.stdout is not None
    assert first.stdout.readline() == b"started\n"
    second = machine.start("sh", "-c", "echo started; read line; echo $line; ls -A", stdin=subprocess.PIPE)
    assert second.stdout is not None
    assert second.stdout.readline() == b"started\n"
    first.communicate(b"\n", timeout=30)
    assert first.returncode == 0
    out, error = second.communicate(b"goodbye\n", timeout=30)
    assert (second.returncode, out) == (0, b"goodbye\n"), error
    assert machine.processes() == {}, "the last to leave waits for what the first has started"
    assert len(list(machine.home.glob("sessions/*/bundle.affiant.json"))) == 2


@pytest.mark.slow
def test_a_command_that_takes_too_long_is_ended(warm, tmp_path):
    done = warm.run("sleep", "60", options=("--timeout", "1", "--bundle", str(tmp_path / "b.json")))
    assert done.returncode == 143
    assert "1 closed" in warm.verdict(tmp_path / "b.json")


@pytest.mark.root
@pytest.mark.parametrize("option", ["--bundle", pytest.param("--json", marks=pytest.mark.slow)])
def test_a_full_disk_at_the_users_file_is_a_refusal_that_says_where_the_receipts_are(warm, full_disk, option):
    (full_disk / "filler").write_bytes(bytes(8192))
    done = warm.run("sh", "-c", "exit 3", options=(option, str(full_disk / "file")))
    assert done.returncode == 125
    (error,) = (line for line in done.stderr.decode().splitlines() if line.startswith("affiant: refused: "))
    assert "[session.output_path]" in error
    assert "No space left on device" in error
    assert "ended with 3" in error
    (named,) = (path for path in warm.home.glob("sessions/*/bundle.affiant.json") if str(path) in error)
    assert parse_bundle(named.read_bytes()).receipts
    assert [path.name for path in full_disk.iterdir()] == ["filler"]


@pytest.mark.slow
@pytest.mark.root
def test_an_output_on_a_full_disk_keeps_the_agents_files_for_recover(warm, full_disk, tmp_path):
    done = warm.run(
        *("sh", "-c", "head -c 100000 /dev/zero >big"), options=("--output", str(full_disk / "out"))
    )
    error = done.stderr.decode()
    assert done.returncode == 125
    assert "[workspace.unwritable]" in error
    assert not list((full_disk / "out").iterdir())
    session = error.partition("affiant session recover ")[2].split()[0]
    assert f"affiant session recover {session} --output DIR" in error
    arguments = ["session", "recover", "--home", str(warm.home), session]
    again = CliRunner().invoke(cli, [*arguments, "--output", str(full_disk / "out")])
    assert "[workspace.unwritable]" in again.stderr
    assert CliRunner().invoke(cli, [*arguments, "--output", str(tmp_path / "out")]).exit_code == 0
    assert (tmp_path / "out" / "big").stat().st_size == 100_000
    assert not (warm.home / "sessions" / session / "files.kept").exists()


LOSSES = "ln -s /etc/shadow s; rm file.txt; echo y >y; mkdir empty; printf a >'nl\nx'"


@pytest.mark.parametrize("options", [("--quiet",), pytest.param(("--verbose",), marks=pytest.mark.slow)])
def test_what_is_not_copied_out_is_said_even_when_quiet(warm, tmp_path, options):
    out, summary = tmp_path / "out", tmp_path / "s.json"
    given = ("--input", str(warm.folder / "in"), "--output", str(out), "--json", str(summary), *options)
    done = warm.run("sh", "-c", LOSSES, options=given)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 0
    assert "affiant: not copied: s: a link that could lead out of the folder" in lines
    assert "affiant: not copied: nl\\nx: its name, or where it links to, is not printable" in lines
    assert sorted(path.name for path in out.iterdir()) == ["empty", "y"]
    text = f"affiant: copied changes to {out}: 1 added, 0 changed, 1 removed, 1 new folder, 2 skipped"
    assert (text in lines) is ("--verbose" in options)
    assert len(json.loads(summary.read_bytes())["changes"]["skipped"]) == 2
