"""What a sandboxed agent can reach: the proxy's port, and nothing else whatever it tries."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.sandbox.isolation.conftest import probe_inside

from affiant.sandbox.isolation.plan.isolation_class import BackendName

HERE = Path(__file__).parent


def machine_addresses():
    """This machine's own IPv4 addresses, without loopback."""
    found = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=False).stdout
    addresses = [line.split()[3].partition("/")[0] for line in found.splitlines()]
    return [address for address in addresses if not address.startswith("127.")]


@pytest.fixture(scope="module")
def inside(backend, tmp_path_factory):
    session_dir = tmp_path_factory.mktemp("session")
    gvisor = backend is BackendName.GVISOR
    host = "10.189.0.1" if gvisor else "127.0.0.1"
    pathname = str(session_dir / "files" / "s")
    os.mkdir(session_dir / "files")
    with (
        socket.create_server(("0.0.0.0", 0)) as everywhere,
        socket.create_server(("127.0.0.1", 0)) as local,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(f"\0affiant-test-{os.getpid()}")
        abstract.listen()
        ports = [everywhere.getsockname()[1], local.getsockname()[1]]
        addresses = [
            *machine_addresses(),
            "10.189.0.2",
            "10.189.0.3",
            "169.254.169.254",
            "8.8.8.8",
            "192.168.0.1",
        ]
        request = {
            "host": host,
            "port": 3128,
            "machine_ports": ports,
            "elsewhere": [(address, port) for address in addresses for port in (ports[0], 80, 3128)],
            "elsewhere6": ["::ffff:169.254.169.254", "fd00:ec2::254", "fe80::1", "2001:4860:4860::8888"],
            "ping": ["8.8.8.8", "169.254.169.254", *(["10.189.0.1"] if gvisor else [])],
            "abstract": f"affiant-test-{os.getpid()}",
            "pathname": pathname,
        }
        env = {"PATH": "/usr/bin:/bin"}  # no HTTP_PROXY: nothing here is a matter of good will
        return probe_inside(session_dir, backend, HERE / "probe_network.py", request, env=env)


def test_the_proxy_answers_and_sees_the_connection(inside):
    assert inside.facts["proxy"] == "hello from the proxy\n"
    assert inside.greeted == 1


def test_no_other_port_answers(inside):
    assert set(inside.facts["other_ports"].values()) == {"ECONNREFUSED"}


def test_no_service_of_the_machine_is_reached(inside):
    assert "connected" not in inside.facts["loopback"].values()
    assert "connected" not in inside.facts["elsewhere"].values(), inside.facts["elsewhere"]


def test_no_address_beyond_has_a_route(inside):
    assert {inside.facts["elsewhere"][f"{address}:80"] for address in ("8.8.8.8", "169.254.169.254")} <= {
        "ENETUNREACH",
        "EHOSTUNREACH",
    }
    assert "connected" not in inside.facts["elsewhere6"].values()
    gateways = [line.split()[2] for line in inside.facts["routes"] if line.strip()]
    assert set(gateways) <= {"00000000"}


def test_datagrams_and_ping_are_not_answered(inside):
    assert "answered" not in inside.facts["udp"].values()
    assert "answered" not in inside.facts["ping"].values()


def test_no_name_is_resolved(inside):
    assert inside.facts["names"] == "no name"


def test_the_supervisors_own_names_are_an_address_where_the_proxy_listens_too(inside):
    assert inside.facts["gateway"] == inside.facts["sessions"] == "hello from the proxy\n"
    assert set(inside.facts["gateway_ports"].values()) == {"ECONNREFUSED"}


@pytest.mark.parametrize("kind", ["raw", "packet", "vsock"])
def test_no_socket_that_goes_around_the_network_namespace(inside, kind):
    assert inside.facts[kind] != "ok"


def test_no_unix_socket_of_the_machine_is_reached(inside):
    assert inside.facts["abstract"] != "connected"
    assert inside.facts["pathname"] != "connected"


def test_the_agent_cannot_take_the_proxys_place(inside):
    assert inside.facts["steal"] != "ok"


def test_there_is_no_interface_but_its_own(inside):
    assert set(inside.facts["interfaces"]) <= {"lo", "eth0"}
