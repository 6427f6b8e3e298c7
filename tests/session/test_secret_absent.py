"""A secret that an agent uses is in no byte of the agent's machine: its whole memory image is searched for it."""

from __future__ import annotations

import base64
import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from tests.sandbox.conftest import Machine, affiant, family
from tests.session.stand_in import stand_in

from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.backends.enclosure import PRIVATE
from affiant.sandbox.isolation.backends.gvisor import CONTAINER_ID, list_command, runsc_program
from affiant.sandbox.isolation.plan.isolation_class import BackendName

_GVISOR = probe()[BackendName.GVISOR]
pytestmark = [
    pytest.mark.gvisor,
    pytest.mark.root,
    pytest.mark.skipif(
        not _GVISOR.usable or os.geteuid() != 0, reason=f"gVisor: {'; '.join(_GVISOR.reasons)}"
    ),
]

PROFILES = """agent_configs:
  caller:
    network_egress:
      - host: api.memory.test
        port: {port}
        address: 127.0.0.1/32
        methods: [GET]
    secrets_access: [API_TOKEN]
"""

AGENT = r"""
import os, sys, urllib.request
marker = bytes.fromhex(sys.argv[1])[::-1]  # nowhere whole but in this process's memory
def use():
    headers = {"Authorization": "Bearer " + os.environ["API_TOKEN"]}
    return urllib.request.urlopen(urllib.request.Request(sys.argv[2], headers=headers), timeout=20).read()
held = [use(), dict(os.environ), marker]
print("used", flush=True)
while line := sys.stdin.readline():
    held.append(use())
    print("used", flush=True)
"""
"""Uses the secret once, keeps the answer and the marker, and uses it again for each line it is told."""


def forms_of(value: bytes) -> dict[str, bytes]:
    """The value as it could lie in memory: plain, encoded at each offset, and as two bytes a character."""
    forms = {"plain": value, "reversed": value[::-1], "hex": value.hex().encode()}
    forms["utf-16"] = value.decode().encode("utf-16-le")
    for offset in range(3):
        start = -offset % 3
        whole = value[start : start + (len(value) - start) // 3 * 3]
        forms[f"base64 from {start}"] = base64.b64encode(whole)
        forms[f"base64url from {start}"] = base64.urlsafe_b64encode(whole)
    return forms


def found_in(folder: Path, needles: dict[str, bytes]) -> set[str]:
    """Which needles lie in any file of ``folder``, whatever the size."""
    found, overlap = set(), max(map(len, needles.values()))
    for path in sorted(folder.rglob("*")):
        with open(path, "rb") if path.is_file() else open(os.devnull, "rb") as file:
            tail = b""
            while chunk := file.read(1 << 22):
                found |= {name for name, needle in needles.items() if needle in tail + chunk}
                tail = chunk[-overlap:]
    return found


def until_used(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 60)
    assert ready
    assert process.stdout.readline() == b"used\n", process.communicate()[1] if process.poll() else ""


def image_of(machine: Machine, process: subprocess.Popen[bytes], *, leave_running: bool) -> Path:
    """The memory image of the running sandbox, made by runsc from where the session's runner stands."""
    (session,) = machine.home.glob("sessions/*")
    image = session / ("left-running" if leave_running else "last")
    image.mkdir()
    starter = next(
        each for each in family(process.pid) if "runsc" in each.arguments and " exec " in each.arguments
    )
    program = runsc_program()
    assert program is not None
    control = list_command(program, PRIVATE)
    command = [*control[: control.index("ps")], "checkpoint", f"--image-path={image}"]
    command.append("--compression=none")  # else nothing could be found in it
    command += [*(["--leave-running"] if leave_running else []), CONTAINER_ID]
    done = subprocess.run(
        ["nsenter", f"--target={starter.pid}", "--mount", "--net", "--pid", "--", *command],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    return image


def keep_secret(machine: Machine, value: bytes) -> None:
    assert affiant("secret", "set", "API_TOKEN", home=machine.home, stdin=value).returncode == 0


@pytest.mark.slow
def test_the_memory_of_a_session_that_uses_a_secret_does_not_hold_it(machine):
    value, marker = b"tok-" + os.urandom(24).hex().encode(), os.urandom(24)
    keep_secret(machine, value)
    with stand_in("api.memory.test") as api:
        (machine.folder / "profiles.yaml").write_text(PROFILES.format(port=api.port))
        (machine.folder / "ca.pem").write_bytes(api.ca_pem)
        process = machine.start(
            *("python3", "-c", AGENT, marker[::-1].hex(), f"https://api.memory.test:{api.port}/echo"),
            agent="caller",
            options=(
                *("--extra-ca", str(machine.folder / "ca.pem")),
                *("--host", "api.memory.test=127.0.0.1/32"),
            ),
            stdin=subprocess.PIPE,
        )
        until_used(process)
        image = image_of(machine, process, leave_running=True)
        assert sum(path.stat().st_size for path in image.iterdir()) > 1 << 20
        wanted = {"marker": marker, **forms_of(value)}
        assert found_in(image, wanted) == {"marker"}, "the marker is the control: the search can fail"

        process.stdin.write(b"again\n")
        process.stdin.flush()
        until_used(process)
        assert [seen.authorization for seen in api.received] == [f"Bearer {value.decode()}"] * 2

        last = image_of(machine, process, leave_running=False)
        assert found_in(last, wanted) == {"marker"}
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)


def test_the_search_finds_each_form_across_the_boundary_of_two_reads(tmp_path):
    value = b"tok-" + os.urandom(24).hex().encode()
    for name, needle in forms_of(value).items():
        (tmp_path / "image").write_bytes(b"." * ((1 << 22) - 5) + needle + b"." * 100)
        assert name in found_in(tmp_path, forms_of(value))
    encoded = {base64.b64encode(b"x" * offset + value + b"tail") for offset in range(3)}
    for text in encoded:
        (tmp_path / "image").write_bytes(text)
        assert any(name.startswith("base64 ") for name in found_in(tmp_path, forms_of(value)))
