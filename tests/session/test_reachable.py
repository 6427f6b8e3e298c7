"""From inside a session only its own proxy answers: nothing of the machine, the gateway, or another session."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from tests.sandbox.conftest import Machine, made_machine

from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName

pytestmark = pytest.mark.slow  # of one sandbox without a session, tests/sandbox/isolation says the same

FLOORS = {BackendName.GVISOR: "userspace-kernel", BackendName.BUBBLEWRAP: "namespace"}

PROBE = r"""
import errno, json, os, socket, sys, urllib.error, urllib.request
from urllib.parse import urlsplit

def attempt(step):
    try:
        return step() or "ok"
    except TimeoutError:
        return "timeout"
    except socket.gaierror:
        return "no name"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(0.3)
        stream.connect(address)
        return "connected"

def datagram(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.2)
        sock.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03com\x00\x00\x01\x00\x01", address)
        sock.recvfrom(1024)
        return "answered"

def through_proxy(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]["code"]
    except urllib.error.URLError as error:
        return "refused: " + str(error.reason)

proxy = urlsplit(os.environ["HTTP_PROXY"])
print(json.dumps({"proxy": [proxy.hostname, proxy.port]}), flush=True)
asked = json.loads(sys.stdin.readline())
v4, v6 = socket.AF_INET, socket.AF_INET6
print(json.dumps({
    "own": attempt(lambda: connect(v4, (proxy.hostname, proxy.port))),
    "tcp": {f"{h}:{p}": attempt(lambda h=h, p=p: connect(v4, (h, p))) for h, p in asked["tcp"]},
    "tcp6": {f"{h}:{p}": attempt(lambda h=h, p=p: connect(v6, (h, p))) for h, p in asked["tcp6"]},
    "udp": {f"{h}:{p}": attempt(lambda h=h, p=p: datagram(v4, (h, p))) for h, p in asked["udp"]},
    "udp6": {f"{h}:{p}": attempt(lambda h=h, p=p: datagram(v6, (h, p))) for h, p in asked["udp6"]},
    "unix": {name: attempt(lambda name=name: connect(socket.AF_UNIX, name)) for name in asked["unix"]},
    "proxied": {url: through_proxy(url) for url in asked["proxied"]},
    "name": attempt(lambda: socket.getaddrinfo("example.com", 80)),
    "routes": [line.split()[1:3] for line in open("/proc/net/route").read().splitlines()[1:] if line.strip()],
}), flush=True)
sys.stdin.readline()
"""
"""Says where its proxy is, is told what to try, says what came of it, and stays until it is told to leave."""


ONLY_BUBBLEWRAP = """
import affiant.sandbox.session.session as session
from affiant.__main__ import main
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName
session.probe = lambda: {BackendName.BUBBLEWRAP: probe()[BackendName.BUBBLEWRAP]}
main()
"""
"""A session takes the strongest isolation there is: this is ``affiant`` on a machine without gVisor."""


@dataclass
class WithoutGVisor(Machine):
    """A machine on which only bubblewrap is found."""

    def argv(self, *command: str, agent: str = "writer", options: Sequence[str] = ()) -> list[str]:
        python, _, _, *rest = super().argv(*command, agent=agent, options=options)
        return [python, "-c", ONLY_BUBBLEWRAP, *rest]


@dataclass
class Talking:
    """One session whose agent is :data:`PROBE`."""

    process: subprocess.Popen[bytes]

    def hear(self) -> dict:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)

    def tell(self, value: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()


@dataclass
class Seen:
    """What the agent of the first session saw while a second one lived, and what the machine's listeners saw."""

    facts: dict
    arrived: int


def addresses() -> list[str]:
    """This machine's own addresses beside loopback."""
    found = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=False).stdout
    listed = [line.split()[3].partition("/")[0] for line in found.splitlines()]
    return [address for address in listed if not address.startswith("127.")]


def routers() -> list[str]:
    found = subprocess.run(["ip", "-4", "route"], capture_output=True, text=True, check=False).stdout
    return [line.split()[2] for line in found.splitlines() if line.startswith("default via ")]


def questions(machine: Machine, ports: list[int], other: list[str | int]) -> dict:
    gateway = json.loads((machine.home / "gateway" / "gateway.json").read_bytes())["url"]
    port = urlsplit(gateway).port
    hosts = ["127.0.0.1", "127.0.0.2", *addresses(), *routers(), "10.189.0.2", "10.189.0.3"]
    away = ["169.254.169.254", "169.254.1.1", "8.8.8.8", "192.168.0.1", "100.100.100.200"]
    return {
        "tcp": [
            *((host, each) for host in hosts for each in (*ports, port, 22, 3129)),
            *((host, each) for host in away for each in (53, 80)),
        ],
        "tcp6": [
            (host, each)
            for host in ("::1", "::ffff:127.0.0.1", "fe80::1", "fd00:ec2::254", "2001:4860:4860::8888")
            for each in (80, *ports, port)
        ],
        "udp": [(host, each) for host in (*hosts, *away) for each in (53, *ports)],
        "udp6": [(host, 53) for host in ("::1", "fe80::1", "2001:4860:4860::8888")],
        "unix": [
            str(machine.home / "gateway" / "control.sock"),
            str(machine.home / "platform" / "platform.sock"),
            *(f"\0{name}" for name in abstract_names()),
        ],
        "proxied": [
            gateway + "/healthz",
            f"http://127.0.0.1:{ports[0]}/",
            f"http://[::ffff:127.0.0.1]:{ports[0]}/",
            f"http://localhost:{ports[0]}/",
            f"http://{other[0]}:{other[1]}/",
            "http://169.254.169.254/latest/meta-data/",
            "http://2130706433/",
        ],
    }


def abstract_names() -> list[str]:
    with open("/proc/net/unix") as table:
        named = [line.split()[7][1:] for line in table if len(line.split()) > 7]
    return [name for name in named if name.startswith("affiant-test-reachable")]


def parameters() -> Iterator[object]:
    found = probe()
    for name, floor in FLOORS.items():
        reason = "; ".join(found[name].reasons)
        marks = [pytest.mark.skipif(not found[name].usable, reason=f"{name.value}: {reason}")]
        if name is BackendName.GVISOR:
            marks += [pytest.mark.gvisor, pytest.mark.root]
        yield pytest.param(floor, id=name.value, marks=marks)


@pytest.fixture(scope="module", params=list(parameters()))
def seen(request: pytest.FixtureRequest, release: None) -> Iterator[Seen]:
    with made_machine(request.param) as made, ExitStack() as stack:
        kind = Machine if request.param == "userspace-kernel" else WithoutGVisor
        machine = kind(made.folder, made.isolation, made.started)
        listeners = [
            stack.enter_context(socket.create_server((host, 0))) for host in ("0.0.0.0", "127.0.0.1")
        ]
        echo = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        echo.bind(("0.0.0.0", listeners[0].getsockname()[1]))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0affiant-test-reachable-{os.getpid()}")
        abstract.listen()
        machine.keep_services()
        stack.callback(machine.stop_services)
        sessions = [Talking(machine.start("python3", "-c", PROBE, stdin=subprocess.PIPE)) for _ in range(2)]
        proxies = [session.hear()["proxy"] for session in sessions]
        first, second = sessions
        first.tell(questions(machine, [each.getsockname()[1] for each in listeners], proxies[1]))
        facts = first.hear()
        first.tell("leave")
        second.tell({kind: [] for kind in ("tcp", "tcp6", "udp", "udp6", "unix", "proxied")})
        assert second.hear()["own"] == "connected", "the other session lived meanwhile"
        second.tell("leave")
        for session in sessions:
            _, error = session.process.communicate(timeout=30)
            assert session.process.returncode == 0, error
        machine.started.clear()
        yield Seen(facts, waiting([*listeners, abstract], echo))


def waiting(listeners: list[socket.socket], datagrams: socket.socket) -> int:
    """How many connections and datagrams of the agent's came out."""
    count = 0
    for each in (*listeners, datagrams):
        each.setblocking(False)
        try:
            while True:
                if each is datagrams:
                    each.recv(4096)
                else:
                    each.accept()[0].close()
                count += 1
        except BlockingIOError:
            continue
    return count


def test_the_proxy_of_its_own_session_answers(seen):
    assert seen.facts["own"] == "connected"


@pytest.mark.parametrize("kind", ["tcp", "tcp6", "unix"])
def test_nothing_else_takes_a_connection(seen, kind):
    assert {place for place, what in seen.facts[kind].items() if what in {"connected", "ok"}} == set()
    assert seen.facts[kind], "a control: something was tried"


@pytest.mark.parametrize("kind", ["udp", "udp6"])
def test_no_datagram_is_answered(seen, kind):
    assert {place for place, what in seen.facts[kind].items() if what in {"answered", "ok"}} == set()


def test_no_name_is_resolved_and_no_route_leads_out(seen):
    assert seen.facts["name"] == "no name"
    assert all(gateway == "00000000" for _, gateway in seen.facts["routes"])


def test_the_proxy_is_no_way_around(seen):
    """Loopback in other spellings, the gateway's own port, the other session's proxy, link-local: all refused."""
    for url, code in seen.facts["proxied"].items():
        assert isinstance(code, str), (url, code)
        assert code != "egress.unreachable", (url, "was dialled")


def test_nothing_arrived_at_the_machines_own_listeners(seen):
    assert seen.arrived == 0
