"""Whole sessions: real platform, gateway, supervisor, broker and sandbox; and each way in which they are refused."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.gateway.conftest import serving_gateway
from tests.sandbox.conftest import at_once
from tests.sandbox.supervisor.conftest import FOUND
from tests.sandbox.supervisor.launcher import FIRST_COMMAND, Launcher, Refused, read_all
from tests.secrets.certificates import Authority
from tests.secrets.upstream_server import UpstreamServer, answer, chunked

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.records.receipt import parse_receipt
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.supervisor.launch.lifecycle import Event, note_killed, read_steps
from affiant.sandbox.supervisor.records.spool import read_unacknowledged
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.private_files import open_private_file

DENIED = "filesystem_access: read-write:/workspace\nnetwork_egress: denied"
HOST = "api.example.test"
VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"

CHAT = """
import json, os, urllib.request
body = json.dumps({"model": "affiant-dev-echo", "messages": [{"role": "user", "content": "hello"}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=body,
    headers={"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
for _ in range(int(os.environ.get("TIMES", "1"))):
    try:
        with urllib.request.urlopen(request) as reply:
            print(json.load(reply)["choices"][0]["message"]["content"], flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["error"]["code"], flush=True)
"""

FETCH = """
import os, ssl, sys, urllib.request
headers = {"Authorization": "Bearer " + os.environ["TOKEN"]} if "TOKEN" in os.environ else {}
request = urllib.request.Request(sys.argv[1], headers=headers)
try:
    with urllib.request.urlopen(request) as reply:
        print(reply.status, reply.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def run(scenario) -> object:
    async def whole() -> object:
        async with asyncio.timeout(60):
            return await scenario

    return asyncio.run(whole())


async def one(launcher: Launcher, argv, profile: str = DENIED, **more):
    """A session of one command, from provision to bundle."""
    env = more.pop("env", None)
    stdin = more.pop("stdin", None)
    async with launcher.session(profile, **more) as link:
        await link.expect("ready")
        output = await link.run(argv, env=env, stdin=stdin)
        return output, await link.finish(), link


def test_an_agent_asks_the_gateway_and_everything_is_in_the_chains(launcher: Launcher) -> None:
    output, story, link = run(one(launcher, ["python3", "-c", CHAT], env={"TIMES": "2"}))
    assert (output.code, output.stdout, output.stderr) == (0, b"echo: hello\necho: hello\n", b"")
    assert story.kinds == ["boot", "exec.intent", "exec.outcome", "end"]
    assert story.own[-1].member("cseq") == 1
    inferences = [record for record in story.records if record.kind == "inference"]
    assert [record.member("agt", "cseq") for record in inferences] == [0, 1]
    assert story.close.member("why") == "done"
    assert story.close.member("sup", "rh") == story.own[-1].rh
    assert {"provisioned", "attested-gateway", "attested", "admitted", "sandbox-prepared"} <= set(
        link.progress
    )
    opened = ["provisioning", "attesting", "warm", "activating", "running"]
    assert states_of(link.folder) == [*opened, "stopping", "terminated"]
    outcome = story.own[2]
    assert outcome.disclosed.text("act.name") == "python3"
    assert outcome.disclosed.text("act.tgt") == "exit 0"
    assert outcome.disclosed.text("agt.id") == "dev"
    assert all(record.disclosed.get("use.in") is not None for record in inferences)  # opened as well
    names = {record.disclosed.get("agt.id") for record in (*story.own, *story.records)}
    assert names == {None, "dev"}  # no record of either signer calls the agent anything else


@pytest.mark.slow
@pytest.mark.gvisor
@pytest.mark.root
def test_the_same_under_gvisor(launcher: Launcher) -> None:
    if FOUND[BackendName.GVISOR].reasons:
        pytest.skip(f"gvisor: {'; '.join(FOUND[BackendName.GVISOR].reasons)}")
    launcher.backend = BackendName.GVISOR
    output, story, _ = run(one(launcher, ["python3", "-c", CHAT]))
    assert (output.code, output.stdout) == (0, b"echo: hello\n")
    assert {record.member("agt", "iso") for record in story.own if record.member("agt")} == {"gvisor"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_the_exit_code_is_the_commands_own(launcher: Launcher, argv: list[str], code: int) -> None:
    output, story, _ = run(one(launcher, argv))
    assert output.code == code
    assert story.own[2].disclosed.text("act.tgt") == f"exit {code}"


@pytest.mark.slow
def test_input_reaches_the_command_and_both_outputs_come_back(launcher: Launcher) -> None:
    output, _, _ = run(one(launcher, ["sh", "-c", "cat; echo err >&2"], stdin=b"line\n" * 1000))
    assert (output.stdout, output.stderr) == (b"line\n" * 1000, b"err\n")


@pytest.mark.slow
def test_output_comes_live(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["sh", "-c", "echo first; sleep 30"])
            await link.expect("started")
            first = await asyncio.wait_for(asyncio.to_thread(os.read, stdout, 100), 5)
            os.close(stdout)
            os.close(stderr)
            await link.signal(signal.SIGKILL)
            exited = await link.expect("exited")
            return first, exited["code"]

    assert run(scenario()) == (b"first\n", 137)


@pytest.mark.slow
def test_a_signal_that_comes_before_the_start_is_not_lost(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["sleep", "60"])
            await link.signal(signal.SIGTERM)
            exited = await link.expect("exited", within_s=10)
            os.close(stdout)
            os.close(stderr)
            return exited["code"]

    assert run(scenario()) == 143


def test_what_is_no_size_of_a_terminal_ends_neither_command_nor_session(launcher: Launcher) -> None:
    async def scenario() -> None:
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            for reader in await link.start(["sleep", "0.2"]):
                os.close(reader)
            for size in ([0, 0], [1, 4097], [1], ["1", "1"], "1x1", None):
                await link.channel.send({"op": "resize", "id": FIRST_COMMAND + 1, "terminal": size})
            assert (await link.expect("exited"))["code"] == 0
            assert (await link.finish()).close.member("why") == "done"

    run(scenario())


def test_a_denied_host_is_a_refusal_in_the_chain(launcher: Launcher) -> None:
    output, story, _ = run(one(launcher, ["python3", "-c", FETCH, "http://unlisted.example.com/"]))
    assert output.stdout.startswith(b"403 ")
    assert b"host_not_listed" in output.stdout
    assert story.kinds == ["boot", "exec.intent", "refusal.host_not_listed", "exec.outcome", "end"]
    assert story.own[2].disclosed.text("act.tgt") == "GET http://unlisted.example.com/"


@pytest.fixture
def upstream(tmp_path: Path):
    authority = Authority()

    def echo(received):
        return answer(b"seen: " + (received.header("authorization") or b"nothing"))

    with UpstreamServer(echo, certificate=authority.leaf(tmp_path, HOST)) as server:
        server.root = ssl.PEM_cert_to_DER_cert(authority.pem)
        yield server


def test_a_secret_is_used_without_the_agent_ever_seeing_it(
    launcher: Launcher, upstream, tmp_path: Path
) -> None:
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.set("TOKEN", SecretValue(VALUE))
    files = [open_private_file(path) for path in (store.path, store.key_path)]
    profile = f"network_egress: 'allowed:{HOST}:{upstream.port}'\nsecrets_access: [TOKEN]"
    command = ["python3", "-c", FETCH, f"https://{HOST}:{upstream.port}/v1"]
    more = {"hosts": {HOST: ["127.0.0.1"]}, "roots": [upstream.root], "secrets": files}
    output, story, link = run(one(launcher, command, profile, **more))
    for descriptor in files:
        os.close(descriptor)
    assert upstream.received[0].header("authorization") == b"Bearer " + VALUE
    assert output.stdout.startswith(b"200 seen: Bearer affiant-ph-")
    assert VALUE not in output.stdout
    assert story.kinds == ["boot", "exec.intent", "secret", "egress.outcome", "exec.outcome", "end"]
    everything = b"".join(path.read_bytes() for path in link.folder.rglob("*") if path.is_file())
    assert VALUE not in everything


def test_a_secret_that_reaches_the_output_some_other_way_is_redacted(
    launcher: Launcher, tmp_path: Path
) -> None:
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.set("TOKEN", SecretValue(VALUE))
    files = [open_private_file(path) for path in (store.path, store.key_path)]
    profile = f"network_egress: 'allowed:{HOST}'\nsecrets_access: [TOKEN]"
    text = b"before " + VALUE + b" after\n"
    output, _, _ = run(
        one(launcher, ["sh", "-c", "cat; cat >&2 < /dev/null"], profile, secrets=files, stdin=text)
    )
    for descriptor in files:
        os.close(descriptor)
    assert output.stdout.startswith(b"before affiant-ph-")
    assert output.stdout.endswith(b" after\n")


def test_a_variable_that_holds_the_value_of_a_secret_is_rejected_and_the_session_goes_on(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The launcher must not give the agent what it is given a placeholder for."""
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.set("TOKEN", SecretValue(VALUE))
    files = [open_private_file(path) for path in (store.path, store.key_path)]

    within = [VALUE.decode(), f"user:{VALUE.decode()}@host", base64.b64encode(VALUE).decode()]
    rejected = []

    async def scenario():
        profile = f"network_egress: 'allowed:{HOST}'\nsecrets_access: [TOKEN]"
        async with launcher.session(profile, secrets=files) as link:
            await link.expect("ready")
            for hidden in within:
                for reader in await link.start(["env"], env={"GIVEN": hidden}):
                    os.close(reader)
                rejected.append(await link.expect("rejected"))
            output = await link.run(["sh", "-c", "echo $GIVEN"], env={"GIVEN": "harmless"})
            return output.stdout, await link.finish()

    stdout, story = run(scenario())
    for descriptor in files:
        os.close(descriptor)
    assert [each["code"] for each in rejected] == ["session.environment"] * 3
    assert VALUE.decode() not in str(rejected)
    assert all("GIVEN" in str(each["message"]) for each in rejected)
    assert stdout == b"harmless\n"
    assert story.kinds == ["boot", "exec.intent", "exec.outcome", "end"]


@pytest.mark.root
def test_S1_no_process_but_the_brokers_ever_holds_the_value(
    launcher: Launcher, upstream, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: other processes' memory cannot be read")
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.set("TOKEN", SecretValue(VALUE))
    files = [open_private_file(path) for path in (store.path, store.key_path)]
    profile = f"network_egress: 'allowed:{HOST}:{upstream.port}'\nsecrets_access: [TOKEN]"
    code = FETCH + "\nsys.stdin.read()\nimport time; time.sleep(30)"

    async def scenario():
        more = {"hosts": {HOST: ["127.0.0.1"]}, "roots": [upstream.root], "secrets": files}
        async with launcher.session(profile, **more) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["python3", "-uc", code, f"https://{HOST}:{upstream.port}/"])
            first = await asyncio.to_thread(read_first_line, stdout)
            family = {link.service.pid} | descendants(link.service.pid)
            holders = {pid: holds(pid, VALUE) for pid in family}
            os.close(stdout)
            os.close(stderr)
            return first, {part_of(pid, link.service.pid) for pid, found in holders.items() if found}

    first, holders = run(scenario())
    for descriptor in files:
        os.close(descriptor)
    assert first.startswith(b"200 seen: Bearer affiant-ph-")
    assert holders == {"broker"}


def read_first_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (data := os.read(descriptor, 1)):
        line += data
    return line


def holds(pid: int, value: bytes) -> bool:
    """Whether the process has ``value`` in its memory, its environment or its arguments."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                ends, access = line.split()[:2]
                if access.startswith("rw"):
                    start, end = (int(part, 16) for part in ends.split("-"))
                    memory.seek(start)
                    try:
                        if value in memory.read(end - start):
                            return True
                    except OSError:
                        continue
        return value in Path(f"/proc/{pid}/environ").read_bytes() + command_of(pid)
    except OSError:
        return False


def test_sigterm_ends_the_session_as_its_launcher_would(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["sleep", "60"])
            await link.expect("started")
            below = descendants(link.service.pid) | {link.service.pid}
            link.service.send_signal(signal.SIGTERM)
            assert await gone(below, 5)
            os.close(stdout)
            os.close(stderr)
            return link.story()

    story = run(scenario())
    assert story.close.member("why") == "killed"
    assert story.kinds[-1] == "end"


@pytest.mark.slow
def test_an_allowed_request_has_its_outcome(launcher: Launcher, upstream) -> None:
    profile = f"network_egress: 'allowed:{HOST}:{upstream.port}'"
    command = ["python3", "-c", FETCH, f"https://{HOST}:{upstream.port}/v1"]
    output, story, _ = run(
        one(launcher, command, profile, hosts={HOST: ["127.0.0.1"]}, roots=[upstream.root])
    )
    assert output.stdout == b"200 seen: nothing\n"
    assert story.kinds == ["boot", "exec.intent", "egress.outcome", "exec.outcome", "end"]


FLOOD = """
import os, socket, threading
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["HTTP_PROXY"])
def flood():
    while True:
        with socket.create_connection((proxy.hostname, proxy.port)) as connection:
            connection.sendall(b"GET http://a.test/" + b"x" * 3000 + b" HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n")
            connection.recv(1000)
for _ in range(20):
    threading.Thread(target=flood).start()
"""


def test_a_flood_of_denied_requests_ends_the_agent_and_leaves_whole_evidence(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED, arguments=("--refusals", "50")) as link:
            await link.expect("ready")
            for descriptor in await link.start(["python3", "-c", FLOOD]):
                descriptors.append(descriptor)
            try:
                await link.expect("finished", within_s=20)
            finally:
                stories.append(link.story())

    descriptors, stories = [], []
    with pytest.raises(Refused) as refused:
        run(scenario())
    for descriptor in descriptors:
        os.close(descriptor)
    assert refused.value.code == "session.budget"
    (story,) = stories
    assert story.close.member("why") == "policy"
    assert story.close.member("sup", "end") == 1
    assert story.kinds.count("refusal.host_not_listed") == 50
    assert story.kinds[-3:] == ["exec.outcome", "refusal.session.budget", "end"]
    assert len(story.kinds) == 2 + 50 + 3


def test_a_session_that_lasts_as_long_as_its_profile_lets_it_ends_with_its_reason(
    launcher: Launcher,
) -> None:
    async def scenario():
        async with launcher.session(f"{DENIED}\nlimits: {{wall: 1s}}") as link:
            await link.expect("ready")
            for descriptor in await link.start(["sleep", "60"]):
                descriptors.append(descriptor)
            try:
                await link.expect("finished", within_s=20)
            finally:
                stories.append(link.story())

    descriptors, stories = [], []
    with pytest.raises(Refused) as refused:
        run(scenario())
    for descriptor in descriptors:
        os.close(descriptor)
    assert refused.value.code == "limit_wall"
    (story,) = stories
    assert story.close.member("why") == "policy"
    assert story.kinds[-3:] == ["exec.outcome", "refusal.limit_wall", "end"]


def other_policy(message: dict) -> None:
    text = b"agent_configs: {dev: {network_egress: 'allowed:evil.example.com'}}"
    message["policy"] = b64u(load_profiles(text).profile("dev").normal_form)


def changed(name: str, member: str, value: object):
    def tamper(message: dict) -> None:
        document = json.loads(from_b64u(message[name]))
        document[member] = value
        message[name] = b64u(canonical(document))

    return tamper


TAMPERED = {
    "a swapped profile": (other_policy, "session.profile_mismatch"),
    "another gateway configuration": (changed("gateway_config", "epoch_s", 61), "session.provision_mismatch"),
    "collateral of nobody": (lambda message: message.update(collateral=b64u(b"{}")), "collateral.malformed"),
    "another release of the isolation": (
        changed("activation", "rel", "20240729.0"),
        "session.provision_mismatch",
    ),
    "no provision at all": (lambda message: message.update(op="run"), "session.control"),
}


@pytest.mark.parametrize(("tamper", "code"), TAMPERED.values(), ids=TAMPERED.keys())
def test_what_was_not_launched_does_not_start(launcher: Launcher, tamper, code: str) -> None:
    async def scenario():
        async with launcher.session(DENIED, tamper=tamper) as link:
            await link.expect("ready")

    with pytest.raises(Refused) as refused:
        run(scenario())
    assert refused.value.code == code


def test_a_td_that_was_launched_for_something_else_is_refused(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED, mrconfig=b"\1" * 48) as link:
            await link.expect("ready")

    with pytest.raises(Refused) as refused:
        run(scenario())
    assert refused.value.code == "session.mrconfigid_mismatch"


@pytest.mark.slow
def test_a_gateway_that_is_another_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    """The manifest names one configuration, the gateway that answers runs another."""
    arguments = ("--upstream", "http://127.0.0.1:9/v1")
    with serving_gateway(tmp_path / "other", launcher.platform_home, *arguments) as other:

        async def scenario():
            async with launcher.session(
                DENIED, tamper=lambda m: m.update(gateway_url=other.gateway.url)
            ) as link:
                await link.expect("ready")

        with pytest.raises(Refused) as refused:
            run(scenario())
    assert refused.value.code == "session.gateway_mismatch"


def test_a_gateway_that_is_not_there_is_refused(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(
            DENIED, tamper=lambda m: m.update(gateway_url="https://127.0.0.1:9")
        ) as link:
            await link.expect("ready")

    with pytest.raises(Refused) as refused:
        run(scenario())
    assert refused.value.code == "gateway.unreachable"


def test_a_session_that_fails_after_admission_is_closed_at_the_gateway(launcher: Launcher, running) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            ids.append(link.session)
            folders.append(link.folder)
            await link.expect_progress("attested")  # the runner has checked the trees
            (runner,) = (
                pid for pid in children_of(link.service.pid) if b"isolation.runner" in command_of(pid)
            )
            os.kill(runner, signal.SIGKILL)
            await link.expect("ready")

    ids, folders = [], []
    with pytest.raises(Refused) as refused:
        run(scenario())
    assert refused.value.code == "isolation.runner_lost"
    bundle = asked_of_operator(running.home / "gateway" / "control.sock", f"/v1/sessions/{ids[0]}/bundle")
    payloads = [
        json.loads(parse_receipt(entry["sdjwt"]).split.payload) for entry in bundle["bundle"]["receipts"]
    ]
    own = [record["kind"] for record in payloads if record["role"] == "session"]
    closes = [r["why"] for r in payloads if r["kind"] == "session-close" and r["agt"]["ses"] == ids[0]]
    assert (own, closes) == (["boot", "end"], ["killed"])
    (failed,) = (step for step in read_steps(folders[0]) if step.code is not None)
    assert (failed.event, failed.code) == (Event.REJECTED, "isolation.runner_lost")
    assert states_of(folders[0])[-2:] == ["activating", "failed"]


def states_of(folder: Path) -> list[str]:
    return [step.state.value for step in read_steps(folder)]


def asked_of_operator(path: Path, target: str) -> dict:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(f"GET {target} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        with connection.makefile("rb") as file:
            return json.loads(file.read().partition(b"\r\n\r\n")[2])


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def descendants(pid: int) -> set[int]:
    found, new = set(), {pid}
    while new:
        found |= new
        new = {child for parent in new for child in children_of(parent)} - found
    return found - {pid}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


async def gone(pids: set[int], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_kill_9_of_the_supervisor_ends_everything_and_leaves_a_contiguous_chain(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["sleep", "60"])
            await link.expect("started")
            below = descendants(link.service.pid)
            assert len(below) >= 3
            os.kill(link.service.pid, signal.SIGKILL)
            assert await gone(below, 5)
            os.close(stdout)
            os.close(stderr)
            assert states_of(link.folder)[-1] == "running"
            note_killed(link.folder, at=datetime.now(UTC))
            assert states_of(link.folder)[-2:] == ["running", "lost"]
            return (link.folder / "records.ndjson").read_bytes()

    data = run(scenario())
    signed = [json.loads(line) for line in data.splitlines()]
    records = [parse_receipt(line["jws"] + "~") for line in signed if "jws" in line]
    payloads = [json.loads(record.split.payload) for record in records]
    assert [payload["seq"] for payload in payloads] == list(range(len(payloads)))
    assert [payload["kind"] for payload in payloads] == ["boot", "exec"]


def test_kill_9_of_the_broker_ends_the_session_with_its_reason(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["sleep", "60"])
            await link.expect("started")
            (broker,) = (pid for pid in children_of(link.service.pid) if b"secrets.broker" in command_of(pid))
            os.kill(broker, signal.SIGKILL)
            try:
                await link.expect("exited")
                await link.expect("finished")
            finally:
                os.close(stdout)
                os.close(stderr)
                story.append(link.story())

    story = []
    with pytest.raises(Refused) as refused:
        run(scenario())
    assert refused.value.code == "session.broker_lost"
    assert story[0].kinds[-2:] == ["exec.outcome", "end"]
    assert story[0].close.member("why") == "killed"


def test_a_launcher_that_goes_away_ends_the_agent_and_closes_the_session(launcher: Launcher) -> None:
    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["sleep", "60"])
            await link.expect("started")
            below = descendants(link.service.pid) | {link.service.pid}
            link.channel.close()
            assert await gone(below, 5)
            os.close(stdout)
            os.close(stderr)
            return link.story()

    story = run(scenario())
    assert story.close.member("why") == "killed"
    assert story.kinds == ["boot", "exec.intent", "exec.outcome", "end"]


@pytest.mark.slow
def test_kill_9_of_the_gateway_ends_the_session_at_once_and_loses_nothing_that_was_signed(
    launcher: Launcher, tmp_path: Path
) -> None:
    with serving_gateway(tmp_path / "own", launcher.platform_home) as own:
        launcher.gateway = own.gateway

        async def scenario():
            async with launcher.session(DENIED) as link:
                folders.append(link.folder)
                await link.expect("ready")
                stdout, stderr = await link.start(["python3", "-c", CHAT], env={"TIMES": "100000"})
                os.close(stderr)
                told.append(await asyncio.to_thread(os.read, stdout, 100))
                lines = asyncio.create_task(asyncio.to_thread(read_all, stdout))
                own.kill()
                killed = time.monotonic()
                try:
                    await link.expect("exited", within_s=10)
                    await link.expect("finished", within_s=10)
                finally:
                    took.append(time.monotonic() - killed)
                    told.append(told.pop() + await lines)

        folders, told, took = [], [], []
        with pytest.raises(Refused) as refused:
            run(scenario())
    assert refused.value.code == "gateway.lost"
    assert took[0] < at_once(3)
    assert told[0].startswith(b"echo: hello\n")
    # the agent may be ended before it has read the refusal of its last request; it is never told anything else
    assert set(told[0].splitlines()) <= {b"echo: hello", b"502 gateway.unreachable"}
    data = (folders[0] / "records.ndjson").read_bytes()
    left = [json.loads(parse_receipt(e.jws + "~").split.payload) for e in read_unacknowledged(data)]
    assert [record["seq"] for record in left] == list(range(left[0]["seq"], left[0]["seq"] + len(left)))
    assert f"{left[-1]['seq'] + 1} signed records" in str(refused.value)
    assert f"{len(left)} of them not acknowledged" in str(refused.value)
    assert [record["kind"] for record in left[-2:]] == ["exec", "end"]
    refused_ones = [record["agt"] for record in left if record["kind"] == "refusal"]
    counters = sorted(
        agt["cseq"] for agt in refused_ones if "cseq" in agt
    )  # one may be refused before it has one
    assert counters == list(range(counters[0], left[-1]["cseq"] + 1))


STREAM = """
import json, os, urllib.request
body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as reply:
    while line := reply.readline():
        print(line.decode().strip(), flush=True)
"""


@pytest.mark.parametrize("agent_goes_too", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_request_whose_answer_dies_with_the_gateway_has_its_record(
    launcher: Launcher, tmp_path: Path, agent_goes_too: bool
) -> None:
    """It was answered in part, so the gateway has no record of it: the supervisor writes one, once that is gone.

    Also if the session is being closed before anybody knows that it is gone.
    """

    def half(received):
        piece = {"index": 0, "delta": {"content": "half"}, "finish_reason": None}
        event = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [piece]}
        return [
            *chunked([b"data: %s\n\n" % json.dumps(event).encode()], b"Content-Type: text/event-stream")[:-1],
            60.0,
        ]

    with UpstreamServer(half, certificate=None) as server:
        upstream = ("--upstream", f"http://127.0.0.1:{server.port}/v1")
        with serving_gateway(tmp_path / "own", launcher.platform_home, *upstream) as own:
            launcher.gateway = own.gateway

            async def scenario():
                async with launcher.session(DENIED) as link:
                    folders.append(link.folder)
                    await link.expect("ready")
                    stdout, stderr = await link.start(["python3", "-uc", STREAM])
                    os.close(stderr)
                    assert b"half" in await asyncio.to_thread(read_first_line, stdout)
                    own.kill()
                    try:
                        if agent_goes_too:
                            await link.signal(signal.SIGKILL)
                            await link.expect("exited", within_s=10)
                            await link.channel.send({"op": "finish", "why": "done"})
                        await link.expect("finished", within_s=10)
                    finally:
                        os.close(stdout)

            folders = []
            with pytest.raises(Refused) as refused:
                run(scenario())
    assert refused.value.code == "gateway.lost"
    data = (folders[0] / "records.ndjson").read_bytes()
    left = [json.loads(parse_receipt(e.jws + "~").split.payload) for e in read_unacknowledged(data)]
    refusals = [(record["rsn"], record["agt"]["cseq"]) for record in left if record["kind"] == "refusal"]
    assert refusals == [("gateway.unreachable", 0)]
    assert (left[-1]["kind"], left[-1]["cseq"]) == ("end", 0)


@pytest.mark.slow
def test_a_way_to_the_gateway_that_fails_for_a_moment_ends_nothing(launcher: Launcher) -> None:
    between = Between(launcher.gateway.url)

    async def scenario():
        await between.start()
        async with launcher.session(DENIED, tamper=lambda m: m.update(gateway_url=between.url)) as link:
            await link.expect("ready")
            for each in await link.start(["sh", "-c", "sleep 1; exit 5"]):
                os.close(each)
            await link.expect("started")
            between.fail(for_s=2.5)
            exited = await link.expect("exited", within_s=10)
            story = await link.finish()
            await between.stop()
            return exited["code"], story

    code, story = run(scenario())
    assert code == 5
    assert story.close.member("why") == "done"
    assert story.kinds == ["boot", "exec.intent", "exec.outcome", "end"]


class Between:
    """A way to the gateway that can fail: while it does, every connection that it accepts breaks at once."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._failing_until = 0.0
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def fail(self, *, for_s: float) -> None:
        self._failing_until = time.monotonic() + for_s
        for writer in self._open:
            writer.transport.abort()

    async def stop(self) -> None:
        self._server.close()
        self.fail(for_s=0)
        await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if time.monotonic() < self._failing_until:
            writer.transport.abort()
            return
        there = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, there[1]}
        self._open |= ends
        await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))
        self._open -= ends

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.mark.root
def test_as_root_each_part_has_its_own_user(launcher: Launcher) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: everything runs as one user")

    async def scenario():
        async with launcher.session(DENIED) as link:
            await link.expect("ready")
            users = {}
            for pid in [link.service.pid, *children_of(link.service.pid)]:
                status = Path(f"/proc/{pid}/status").read_text()
                users[part_of(pid, link.service.pid)] = int(status.partition("Uid:")[2].split()[0])
            await link.finish()
            return users

    users = run(scenario())
    assert users["supervisor"] == 61783
    assert users["broker"] == 61784
    assert users["runner"] == 0


def part_of(pid: int, supervisor: int) -> str:
    if pid == supervisor:
        return "supervisor"
    return "broker" if b"secrets.broker" in command_of(pid) else "runner"
